"""The whole table with every axis one entry long: sums have one term, and conditions on indices are decided.

What a condition leaves out is not divided by: `[a ≠ k]/(s[a] − s[k])` is 0 where there is one eigenvalue, and no NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sympy as sp
import torch

import symgrad
from symgrad.entries.operands import reduced_shape
from symgrad.errors import SymgradError
from symgrad.numeric import evaluate, forward, numeric_pullback
from symgrad.ops import TABLE
from tests import torch_programs, torch_side
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
        program = case.at(shapes).program
        inputs = draw_inputs(case.op, shapes, case.seed)
        values = forward(program, inputs)
        weights = np.ones_like(values[program.output], dtype=float)
        if not np.isfinite(np.asarray(values[program.output], dtype=float)).all():  # a variance of one number
            return
        _, expected = torch_programs.program_gradients(program, inputs, weights)
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


SUMMED = [name for name, op in TABLE.items() if op.rules.shape is reduced_shape]


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


@pytest.mark.slow
def test_most_of_the_table_has_a_meaning_at_axes_of_one_entry() -> None:
    def refused(case: Case) -> bool:
        try:
            return not case.at(ones(case)).program
        except SymgradError:
            return True

    cases = [parameter.values[0] for parameter in first_by_default()]
    assert sum(map(refused, cases)) <= MOST_REFUSED < len(cases) // 2


SPREADS = {
    "x.std()": (1,),
    "x.var(0)": (1, 2),
    "torch.cov(x)": (2, 1),
    "(x - x.mean())/x.std()": (1,),
    "x.mean(0)*x.sum()": (0, 2),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", SPREADS)
def test_what_is_nothing_by_nothing_at_every_number_has_no_slope_of_zero(text: str) -> None:
    """0/0 has no entries left in it, and was said to stand still; exported code handed back zeros."""
    shape = SPREADS[text]
    (derived,) = symgrad.derive(text, shapes={"x": shape})[1]
    assert derived.sweep.equation.right is sp.nan
    page = symgrad.explain(text, x=np.ones(shape)).to_text(width=400)
    assert "NaN" not in page
    assert "zeros_like" not in page
    assert "x.grad[p] = 0" not in page


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
@pytest.mark.parametrize("text", ["x.std()", "(x - x.mean())/x.std()"])
def test_exported_code_has_no_number_where_torch_has_none(text: str) -> None:
    space: dict[str, Any] = {}
    exec(symgrad.export(text, shapes={"x": (1,)}, name="own"), space)
    x = torch.tensor([3.0], dtype=torch.float64, requires_grad=True)
    space["own"](x).sum().backward()
    assert_same([float("nan")], x.grad)


@pytest.mark.parametrize("text", ["x.std()", "x.var(0)", "x / x.std()", "torch.std_mean(x)[0]"])
def test_one_value_has_no_spread_and_the_page_says_so(text: str) -> None:
    page = symgrad.explain(text, x=[3.0]).to_text(width=400)
    op = "var" if "var" in text else "std"
    assert f"has no finite value: {op} divides 0 by 0, as one value has no variance." in page


def test_a_loss_of_which_no_target_counts_says_what_it_divides() -> None:
    page = symgrad.explain("F.cross_entropy(x, y, ignore_index=1)", wrt="x", x=np.ones((2, 3)), y=[1, 1])
    assert "because out has no finite value: cross_entropy averages over no entries" in page.to_text(width=400)
