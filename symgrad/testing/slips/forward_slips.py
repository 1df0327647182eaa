"""Gradients of another function: the forward pass was computed again for the backward, and a step of it left out.

Comes in: the formula and an input. Goes out: `Slip` s, one for each step whose result has the shape of an operand: a
mask, a scale or a bias that the backward does not know of.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from symgrad.calculus import flowing
from symgrad.errors import SymgradError
from symgrad.language import expand_composites
from symgrad.numeric import as_float, forward, numeric_pullback
from symgrad.program import Apply, Program
from symgrad.testing.right.truth import Formula
from symgrad.testing.slips.slips import Slip, written

POWERS = (1.0, 0.5, -1.0, -0.5)
"""Of n / (n − 1), in a mean, a variance or a standard deviation."""


def forward_slips(formula: Formula, name: str) -> Iterator[Slip]:
    """Each step that an input flows through left out, but for the last: that one is a factor of the pullback."""
    if len(formula.programs) > 1:
        return
    program, values = formula.programs[0], formula.values[0]
    reached = flowing(program, [n for n in formula.wanted if n in formula.inputs]) | set(formula.wanted)
    for step in program.steps:
        for operand in (o for o in dict.fromkeys(step.tensors) if o in reached and step.result.name != program.output):
            if np.shape(values[operand]) != np.shape(values[step.result.name]):
                continue
            other = without(program, step, operand)
            if not any(t.name == name for t in other.inputs) or not other.relevant():
                continue
            try:
                known = forward(other, {t.name: values[t.name] for t in other.inputs})
            except (SymgradError, ArithmeticError):
                continue
            said = f"this is the gradient of a function without {step.called}: {step.result.name} = {written(step)}, "
            said += f"and the backward reads {operand} in its place"
            yield Slip(
                "missing_step", said,
                lambda t, p=other, k=known: as_float(numeric_pullback(p, k, t.weights.seeds[0], [name])[name]),  # type: ignore[misc]  # a default binds
            )  # fmt: skip
    yield from miscounted(formula, name)


def miscounted(formula: Formula, name: str) -> Iterator[Slip]:
    """The right lines, read at a variance or a mean that divides by n − 1 where n belongs, or the other way round."""
    program, values = formula.programs[0], formula.values[0]
    for wider in (program, expand_composites(program)):
        known = forward(wider, {t.name: values[t.name] for t in wider.inputs})
        for step in wider.steps:
            count = np.size(known[step.tensors[0]]) // max(np.size(known[step.result.name]), 1) if step.tensors else 0
            for power in POWERS if count > 1 else ():
                result = as_float(known[step.result.name]) * (count / (count - 1)) ** power
                rest = tuple(other for other in wider.steps if other is not step)
                cut = replace(wider, inputs=(*wider.inputs, step.result), steps=rest)
                point = forward(cut, {t.name: known[t.name] for t in wider.inputs} | {step.result.name: result})
                point = known.with_arrays({t.name: point[t.name] for t in cut.tensors()})
                counted = (
                    f"n − 1 = {count - 1} in the place of n" if power > 0 else f"n = {count} in the place of n − 1"
                )
                yield Slip(
                    "wrong_option", f"the lines are right with {counted}, in {step.result.name} = {written(step)}",
                    lambda t, p=wider, k=point: as_float(numeric_pullback(p, k, t.weights.seeds[0], [name])[name]),  # type: ignore[misc]  # a default binds
                )  # fmt: skip


def without(program: Program, step: Apply, operand: str) -> Program:
    """The program in which whoever read the result of ``step`` reads one of its operands."""
    gone = step.result.name
    steps = tuple(
        replace(other, arguments=tuple(operand if a == gone else a for a in other.arguments))
        for other in program.steps
        if other is not step
    )
    return replace(program, steps=steps)
