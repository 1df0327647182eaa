"""What a detach leaves out: the slope that a straight-through estimator declares, and the real one.

Comes in: a captured program in which something was detached. Goes out: a sentence for each detach whose two slopes can
be told.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from symgrad.explanation.notable import undetached
from symgrad.numeric import Array, as_float, numeric_pullback
from symgrad.ops.entry import plays
from symgrad.program import Apply, Role
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.record.numbers import MOST, short


def slopes(program: Capture) -> Iterator[str]:
    """What each detach leaves out: the slope that is declared and the real one, where they are one number each.

    Of several on the ways from one tensor each is undone alone: then the real slope is none of these.
    """
    found = [*cuts(program)]
    for own, at, ones, declared, real in found:
        other = "the real one" if [name for name, *_ in found].count(own) == 1 else "with this detach undone"
        if np.shape(ones) == declared.shape and np.ptp(declared) == np.ptp(real) == 0:
            said = f"the slope that was declared is {short(declared.flat[0])}, {other} {short(real.flat[0])}"
        elif declared.size <= MOST:
            said = f"for {program.recording.seed} = ones {short(declared)} is what is declared, {short(real)} {other}"
        else:
            said = "without it there would be another slope"
        name = program.labels.get(own, own)
        yield (
            f"a part of the way from {name} is cut in {at} by .detach(): {said}; what comes back there is by design "
            "not the derivative of the value"
        )


def cuts(program: Capture) -> Iterator[tuple[str, str, Array, Array, Array]]:
    """Each detach: of which tensor a part of the way is cut, where, the weights, and vᵀJ as declared and without it."""
    for step in program.recording.steps:
        join, by = where_joined(program, step) if plays(step.op, Role.CUTS) else (None, "")
        if join is None or not program.boxes.keys().isdisjoint(program.recording.reaching([join.result.name])):
            continue
        part = replace(program.recording, output=join.result.name)
        ones = np.ones(np.shape(program.arrays[join.result.name]))
        at = program.place(step.result.name).strip(" ()") or "it"
        for own, real in undetached(part, program.values, ones, [by], step.result.name).items():
            yield own, at, ones, as_float(numeric_pullback(part, program.values, ones, [own])[own]), real


def where_joined(program: Capture, cut: Apply) -> tuple[Apply | None, str]:
    """The step at which what a detach gave meets what it was made of, or what that was made into; and which that is."""
    recording, source = program.recording, str(cut.arguments[0])
    above, below, held = recording.reaching([source]), recording.reached([source]), {cut.result.name}
    for step in program.recording.steps:
        if held.isdisjoint(step.tensors):
            continue
        others = [name for name in step.tensors if name not in held]
        by = next((name for name in others if name in above), None)
        if by is None and not below.isdisjoint(others):
            by = source
        if by is None:  # m * W meets W.norm().detach(): both were made of W
            shared = (name for name in program.wanted if name in above)
            by = next((name for name in shared if not recording.reached([name]).isdisjoint(others)), None)
        if by is not None:
            return step, by
        held.add(step.result.name)
    return None, ""
