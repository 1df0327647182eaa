"""Why a leaf's vᵀJ is 0 in one call, each reason once, with the leaves of which it holds.

Comes in: a call's program, its seeds and its rows. Goes out: lines for its notes. A reason was tested on the numbers
and at other points (`symgrad.explanation.reasons`); of a long program only what the sweep itself saw is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from symgrad.explanation import Tie
from symgrad.explanation.reasons import Vanishing
from symgrad.numeric.exact import Array, as_float
from symgrad.program import Apply
from symgrad.tracing.captured.words import relabelled, right_side
from symgrad.tracing.lift.labels import UNNAMED
from symgrad.tracing.story.events import MANY, Leaf, listed

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

FEW = 60
"""Programs with more steps than this are not pulled a second time for a remark."""


def zeros(
    program: Capture,
    seeds: Mapping[str, Array],
    rows: Sequence[Leaf],
    ties: Sequence[Tie],
    held: Collection[str],
    letter: str,
    lines: Mapping[str, str],
) -> list[str]:
    """``vᵀJ by x is 0: nothing comes back through round(x) (line 5), its slope is 0 wherever it has one``.

    A slope that is 0 at one of ``ties`` is told there; ``letter`` is the seed's name. The data that is ``held`` was
    computed from a leaf. ``lines`` are what the page says of tensors.
    """
    found: dict[tuple[str, str, bool], list[Leaf]] = {}
    own = {label: name for name, label in program.labels.items()}
    whole = replace(program.recording, output=program.ends[0])
    short = len(program.ends) == 1 and len(program.recording.steps) <= FEW and not program.boxes
    names = tuple(own[row.name] for row in rows)
    vanishing = (
        Vanishing(whole, program.values, as_float(seeds[program.ends[0]]), names, frozenset(held)) if short else None
    )
    for row in rows:
        if (
            row.added is None
            or not row.added.size
            or row.undefined
            or row.none
            or not (row.rounding or not row.added.any())
        ):
            continue
        reason = vanishing.reason(own[row.name]) if vanishing is not None and len(rows) <= MANY else None
        if reason is None and not row.added.any() and len(rows) > MANY:
            continue  # said where the leaves are summed up
        if reason is not None and reason.kind == "slope" and any(reason.step is tie.step for tie in ties):
            continue
        digits = " (the digits are rounding)" if row.rounding else ""
        said = row.why if reason is None else reason.says(row.name, step_in_words(program, lines, reason.step))
        found.setdefault((digits, said, row.boxed), []).append(row)
    return [
        f"{'what torch gives' if boxed else f'{letter}ᵀJ'} by {listed(some)} is 0{digits}{f': {said}' if said else ''}"
        for (digits, said, boxed), some in found.items()
        if said or digits
    ]


def step_in_words(program: Capture, lines: Mapping[str, str], step: Apply) -> str:
    """What a step's result is called by the script, or what computes it, and where."""
    name = step.result.name
    label = program.labels.get(name, name)
    numbered = UNNAMED.fullmatch(label) or name in program.ends
    merged = any(UNNAMED.fullmatch(program.labels.get(read, read)) and read not in lines for read in step.tensors)
    text = lines.get(name) if merged else None
    if text is None:
        text = relabelled(right_side(program.recording, step), program.labels)
    return f"{text if numbered else label}{program.place(name)}"
