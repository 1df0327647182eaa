"""The kinks that a run's data stand on, one line each, and only where the choice made there matters to a gradient.

Comes in: the sweep as it goes, then the program and the seeds. Goes out: lines for the notes of a call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from symgrad.explanation.tie import Passage, Tie
from symgrad.explanation.ties import LARGEST, switches, ties
from symgrad.numeric.exact import Array, as_float
from symgrad.ops import entry_of
from symgrad.program import Apply
from symgrad.tracing.captured.words import relabelled, right_side
from symgrad.tracing.lift.sweeps import pull

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

MOST = 2
"""Kinks that have a line each; the steps at which there are more are counted."""
ENTRIES = 2_000_000
"""Entries that are searched in one call, all steps together."""


class Passages:
    """What came back to the steps that may have kinks."""

    def __init__(self) -> None:
        self.met: list[Passage] = []
        self.entries = 0

    def seen(self, step: Apply, place: int, weights: Array, result: Array) -> None:
        """One step of the sweep."""
        op = entry_of(step.op)
        size = max(np.size(weights), np.size(result))
        if op is not None and not op.smooth and size <= LARGEST and self.entries + size <= ENTRIES:
            self.entries += size
            self.met.append(Passage(step, place, weights))


def found(program: Capture, seeds: Mapping[str, Array], met: Passages) -> list[Tie]:
    """The kinks of one call that matter."""

    def counts(name: str, change: Array) -> bool:
        if name in program.wanted:
            return True
        changed = pull(program.recording, program.values, program.boxes, {name: change}, program.wanted)
        return any(np.any(as_float(part)) for part in changed.values())

    here = list(ties(program.recording, program.values, met.met, counts))
    if len(program.ends) == 1 and not program.boxes:
        whole = replace(program.recording, output=program.ends[0])
        here += switches(whole, program.values, as_float(seeds[program.ends[0]]), program.wanted, met.met)
    return here


def lines(program: Capture, met: Sequence[Tie]) -> list[str]:
    """``h[0,1] = 0 is a kink of relu: left 0, right 1, anything between is legal; torch 2.13.0 takes 0``."""
    told = list(dict.fromkeys(line_of(program, tie) for tie in met[:MOST]))
    rest = len(met) - MOST
    return [*told, f"{rest} more {'step stands' if rest == 1 else 'steps stand'} on kinks"] if rest > 0 else told


def line_of(program: Capture, tie: Tie) -> str:
    """One kink in the names of the script."""
    labels = program.labels
    step = relabelled(right_side(program.recording, tie.step), labels) if tie.whole else str(tie.step.op)
    end = program.ends[0]
    out = labels.get(end, end)
    total = out if np.size(program.arrays[end]) == 1 else f"Σ {program.recording.seed}·{out}"
    return tie.says(labels.get(tie.name, tie.name), f"{step}{program.place(tie.step.result.name)}", total)
