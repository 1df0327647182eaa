"""The equations of single steps and their pullbacks, with arrays to put in, and what their plans compute."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from symgrad.calculus import flowing_places, local_pullback, standard
from symgrad.calculus.local_derivatives import SEED, derive_local
from symgrad.indexing.symbols import names_read, number
from symgrad.lowering import lowered, make_plan
from symgrad.numeric.playing import integers_or_floats

Local = tuple[str, Any, dict, dict]
"""What an equation is called, the equation, the arrays that it reads, the numbers of its sizes."""


def local_equations(program, values, seed: int) -> Iterator[Local]:
    """The equation of each step and its pullbacks by each place, with arrays to put in."""
    names = frozenset(t.name for t in program.tensors())
    draw = np.random.default_rng(seed)
    for step in program.steps:
        form = standard(step, program)
        sizes = {own: number(size, program.sizes) for own, size in form.sizes.items()}
        arrays = {own: integers_or_floats(values[name]) for own, name in form.names.items() if name in values.arrays}
        arrays[SEED] = draw.standard_normal(np.shape(values[step.result.name]))
        told = [("forward", derive_local(form.key).equation)]
        told += [(f"pullback by {n}", local_pullback(form.key, n)) for n in flowing_places(step, names)]
        for what, equation in told:
            yield f"{step.op}, {what}", equation, {n: arrays[n] for n in names_read(equation.right)}, sizes


def plan_of(equation: Any, arrays: dict, sizes: dict, *on: Any) -> Any:
    """The plan of an equation, for NumPy or another engine."""
    shapes = {name: array.shape for name, array in arrays.items()}
    holds = {name: "f" if array.dtype.kind == "f" else "i" for name, array in arrays.items()}
    return make_plan(*lowered([equation], sizes, shapes, holds), *on)


def by_plan(equation: Any, arrays: dict, sizes: dict) -> np.ndarray:
    """An equation by its plan."""
    plan = plan_of(equation, arrays, sizes)
    before = [np.array(arrays[name]) for name in plan.inputs]
    with np.errstate(all="ignore"):
        (found,) = plan.play([arrays[name] for name in plan.inputs])
        (again,) = plan.play([arrays[name] for name in plan.inputs])
    for name, kept in zip(plan.inputs, before, strict=True):
        assert np.array_equal(arrays[name], kept, equal_nan=True), f"{name} was written into"
    assert np.array_equal(found, again, equal_nan=True)
    return found
