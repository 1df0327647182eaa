"""The whole table with every axis one entry long: sums have one term, and conditions on indices are decided.

What a condition leaves out is not divided by: `[a ≠ k]/(s[a] − s[k])` is 0 where there is one eigenvalue, and no NaN.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.errors import SymgradError
from symgrad.language import read
from symgrad.numeric import evaluate, forward, numeric_pullback
from symgrad.ops import TABLE
from symgrad.ops.shaping import reduced_shape
from tests import torch_side
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.sampling import draw_inputs

MOST_REFUSED = 120
"""Examples that mean nothing at these sizes: kernels that are wider, options that name entries, matrices of 2×3."""


def ones(case: Case) -> dict[str, tuple[int, ...]]:
    """The inputs' shapes, each axis one entry long."""
    return {name: (1,) * len(shape) for name, shape in case.shapes.items()}


@pytest.mark.one_in(18)
@pytest.mark.parametrize("case", first_by_default())
def test_at_axes_of_one_entry_the_formula_is_finite_and_the_pullback_torchs(case: Case) -> None:
    shapes = ones(case)
    try:
        program = read(case.example.text, shapes=shapes).program
        inputs = draw_inputs(case.op, shapes, case.seed)
        values = forward(program, inputs)
        weights = np.ones_like(values[program.output], dtype=float)
        if not np.isfinite(np.asarray(values[program.output], dtype=float)).all():  # a variance of one number
            return
        _, expected = torch_side.program_gradients(program, inputs, weights)
    except (SymgradError, RuntimeError, IndexError, ValueError):
        return
    _, derived = symgrad.derive(case.example.text, shapes=shapes)
    names = [d.name for d in derived if d.name in expected]
    numbers = numeric_pullback(program, values, weights, names)
    for found in derived:
        if found.name not in names or not np.isfinite(expected[found.name]).all():
            continue
        assert not found.sweep.equation.right.has(sp.nan, sp.zoo), (case.example.text, found.name)
        assert_same(
            expected[found.name], numbers[found.name], seed=case.seed, what=f"{case.example.text} by {found.name}"
        )
        whole = evaluate(found.sweep.equation, {**values.arrays, "v": weights}, program.sizes)
        assert_same(expected[found.name], whole, seed=case.seed, what=f"the index formula by {found.name}")


SUMMED = [name for name, op in TABLE.items() if op.shape is reduced_shape]


@pytest.mark.parametrize("name", SUMMED)
@pytest.mark.parametrize("shape", [(2, 0), (0, 3), (2, 1, 0)], ids=str)
def test_several_axes_with_no_entry_come_to_what_torch_says(name: str, shape: tuple[int, ...]) -> None:
    """SciPy's logsumexp fails there."""
    text, x = f"{name}(x, dim={tuple(range(len(shape)))})", np.zeros(shape)
    try:
        out, expected = torch_side.text_gradients(text, {"x": x}, np.ones(()))
    except (RuntimeError, IndexError, TypeError):  # of nothing there is no largest entry
        return
    found = symgrad.explain(text, x=x)
    assert_same(out, found.output, what=text)
    assert_same(expected["x"], found.gradients["x"].value, what=text)


def test_most_of_the_table_has_a_meaning_at_axes_of_one_entry() -> None:
    def refused(case: Case) -> bool:
        try:
            read(case.example.text, shapes=ones(case))
        except SymgradError:
            return True
        return False

    cases = [parameter.values[0] for parameter in first_by_default()]
    assert sum(map(refused, cases)) <= MOST_REFUSED < len(cases) // 2
