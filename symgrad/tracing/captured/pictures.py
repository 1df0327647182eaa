"""The picture of a captured program and of one sweep back through it.

Comes in: a program, the seeds, and what was seen when they were pulled back. Goes out: SVG. What only broadcasts an
operand of the next step is no station: the way leads past it, with the length of what comes back at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.program import Apply, Argument, Program
from symgrad.render.program_picture import Watched, drawn
from symgrad.tracing.captured.recorded import Recorded
from symgrad.tracing.lift.labels import goes_without_saying

BESIDE = 4
"""Columns that have room beside the source."""


def picture(program: Recorded, seeds: Mapping[str, Any], watched: Watched) -> str:
    """The picture of a sweep from ``seeds`` that was ``watched``."""
    steps, unsaid = unsaid_passed(program.recording, program.labels, seeds)
    return drawn(
        program.recording, steps, watched.past(unsaid).lengths, seeds, labels=program.labels,
        shape_of=lambda name: np.shape(program.arrays[name]), seed=program.recording.seed, band=BESIDE,
    )  # fmt: skip


def unsaid_passed(
    program: Program, labels: Mapping[str, str], ends: Collection[str]
) -> tuple[tuple[Apply, ...], dict[str, str]]:
    """The steps with what goes without saying passed, where one step reads it; and that, by what it reads itself."""
    readers = Counter(name for step in program.forward_steps for name in step.tensors)
    unsaid = {
        step.result.name: str(step.arguments[0])
        for step in program.forward_steps
        if goes_without_saying(step, labels) and readers[step.result.name] == 1 and step.result.name not in ends
    }

    def past(argument: Argument) -> Argument:
        while isinstance(argument, str) and argument in unsaid:
            argument = unsaid[argument]
        return argument

    steps = (step for step in program.forward_steps if step.result.name not in unsaid)
    return tuple(replace(step, arguments=tuple(map(past, step.arguments))) for step in steps), unsaid
