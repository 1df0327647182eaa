"""A lifted program with its composite operations written out, for who asks for the steps inside.

Comes in: a `Lifted`. Goes out: the same with more steps, whose numbers are computed from those that torch had, and
a sentence for what stays whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from symgrad.language import expand_composites, why_whole
from symgrad.numeric.exact import Array, as_float
from symgrad.program import Program
from symgrad.tracing.lift.labels import settled_labels
from symgrad.tracing.lift.lifted import Lifted
from symgrad.tracing.lift.values import evaluate

NEAR = 1e-2
"""How far the steps may be from torch's number, relative to the largest: half precision is that coarse."""


def opened(lifted: Lifted) -> tuple[Lifted, tuple[str, ...]]:
    """``lifted`` without composite operations, and why some stay."""
    if not lifted.program.steps:
        return lifted, ()
    whole = expand_composites(lifted.program)
    inside = insides(lifted.program, whole)
    arrays = dict(lifted.arrays)
    for step in whole.steps:
        name = step.result.name
        if name not in arrays:
            evaluate(step, arrays)
        elif inside[name]:
            again = {**arrays}
            evaluate(step, again)
            if not alike(arrays[name], [again[name], *(arrays[inner] for inner in inside[name])]):
                what = next(before.called for before in lifted.program.steps if before.result.name == name)
                return lifted, (f"{what} is not expanded: on these numbers its steps overflow or lose digits",)
    owner = {inner: name for name, steps in inside.items() for inner in steps}
    origins = {
        name: replace(origin, steps=tuple(inner for step in origin.steps for inner in (*inside.get(step, ()), step)))
        for name, origin in lifted.origins.items()
    }
    origins |= {inner: origins[name] for inner, name in owner.items() if name in origins}
    lines = {**{inner: lifted.lines[name] for inner, name in owner.items() if name in lifted.lines}, **lifted.lines}
    labels = settled_labels(whole, lifted.outputs, lifted.labels, {})
    found = replace(lifted, program=whole, arrays=arrays, labels=labels, lines=lines, origins=origins)
    return found, why_whole(lifted.program)


def alike(torchs: Array, steps: Sequence[Array]) -> bool:
    """Whether the steps inside, of which the first is the result, are what torch's one call gives."""
    own, *inner = map(as_float, steps)
    sound = np.isfinite(as_float(torchs)).all() <= all(np.isfinite(array).all() for array in inner)
    size = float(np.abs(as_float(torchs)).max(initial=0))
    return bool(sound) and bool(np.allclose(own, as_float(torchs), rtol=0, atol=NEAR * size, equal_nan=True))


def insides(before: Program, after: Program) -> dict[str, tuple[str, ...]]:
    """The steps that came in place of each, but for the last, which has its name."""
    known = {step.result.name for step in before.steps}
    found: dict[str, tuple[str, ...]] = {}
    waiting: list[str] = []
    for step in after.steps:
        if step.result.name not in known:
            waiting.append(step.result.name)
        else:
            found[step.result.name] = tuple(waiting)
            waiting = []
    return found
