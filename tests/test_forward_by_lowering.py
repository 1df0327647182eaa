"""Every operation's forward by its own equation, played as a plan: what NumPy and torch compute, infinities and NaN too.

An entry of the table whose equation does not read its own output needs no forward of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special

import symgrad
from symgrad.calculus.local_derivatives import OUT, derive_local, standard
from symgrad.indexing.symbols import names_read, number
from symgrad.numeric.forward_pass import constant, forward, options_of
from symgrad.numeric.playing import run_plan
from symgrad.ops import entry_named
from tests import torch_programs, torch_side
from tests.cases import Case, cases, first_by_default
from tests.compare import assert_same

SPECIAL = (np.inf, -np.inf, np.nan, 1e300, -1e300, 1e-310, -0.0, 0.0, 800.0, -800.0)
"""Numbers at which a forward that is not written with care ends."""


def own_equation(case: Case) -> tuple[Any, dict, dict] | None:
    """The equation of a case's operation, what its names stand for, its sizes; None where it is about its own output."""
    step = case.last
    form = standard(step, case.program)
    equation = derive_local(form.key).equation
    if OUT in names_read(equation.right):
        return None
    return equation, dict(form.names), {own: number(s, case.program.sizes) for own, s in form.sizes.items()}


def by_numpy(case: Case, arrays: dict) -> np.ndarray:
    """The operation's own forward."""
    step = case.last
    op, options = entry_named(step.op), options_of(step, case.program.sizes)
    given = [arrays[a] if isinstance(a, str) else constant(a, case.program.sizes) for a in step.arguments]
    with np.errstate(all="ignore"):
        return np.asarray(op.numpy(*(None if a is None else np.asarray(a, float) for a in given), **options), float)


MORE_DIGITS = {"polygamma": lambda x: scipy.special.polygamma(1, x)}
"""Where torch's own value has fewer digits than are asked for here: its series of polygamma keeps ten."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(2))
def test_the_equation_is_the_forward(case: Case) -> None:
    found = own_equation(case)
    if found is None:
        return
    equation, names, sizes = found
    arrays = {own: case.values[name] for own, name in names.items() if name in case.values.arrays}
    mine = run_plan(equation, arrays, sizes)
    assert mine is not None, "the equation has no plan"
    if case.op.name in MORE_DIGITS:
        expected = MORE_DIGITS[case.op.name](*(case.inputs[name] for name in case.names))
    elif entry_named(case.last.op).numpy is None:
        expected = torch_programs.function_of(case.program)(*(torch_side.tensor(case.inputs[n]) for n in case.names))
    else:
        expected = by_numpy(case, dict(case.values.arrays))
    assert_same(expected, mine, tolerance=1e-12, what=case.name)


CAREFUL = (
    "relu", "clamp", "maximum", "minimum", "sigmoid", "softplus", "gelu", "silu", "tanh", "elu", "logsumexp", "softmax",
    "hardtanh", "relu6", "hardsigmoid", "leaky_relu", "nan_to_num", "fmax", "cumsum", "cat", "pad", "where",
)  # fmt: skip
"""Operations whose forward is watched at the ends of the numbers: others there follow their equations."""


@pytest.mark.parametrize("name", CAREFUL)
def test_at_the_ends_of_the_numbers(name: str) -> None:
    """An infinity where it is not chosen spoils nothing, what is no number stays none: as torch has it."""
    case = next(case for case in cases() if case.op.name == name)
    found = own_equation(case)
    assert found is not None
    equation, names, sizes = found
    for special in SPECIAL:
        inputs = {n: np.array(a, float) for n, a in case.inputs.items()}
        next(iter(inputs.values())).reshape(-1)[1] = special
        values = forward(case.program, inputs).arrays
        arrays = {own: values[n] for own, n in names.items() if n in values}
        expected = torch_programs.function_of(case.program)(*map(torch_side.tensor, inputs.values()))
        assert_same(expected, run_plan(equation, arrays, sizes), tolerance=1e-12, what=f"{name} beside {special}")


@pytest.mark.parametrize("text", ["x.T", "x.repeat(2, 1)", "x.reshape(-1)", "x.expand(3, 2, 3)", "x[:, 1:]", "x + 0"])
def test_the_result_is_the_callers_own(text: str) -> None:
    """Written into, it changes neither what was read nor itself elsewhere."""
    x = np.arange(6.0).reshape(2, 3) + 0.5
    program = symgrad.explain(text, x=x, check=False).program
    step = program.steps[-1]
    form = standard(step, program)
    sizes = {own: number(size, program.sizes) for own, size in form.sizes.items()}
    values = forward(program, {"x": x}).arrays
    arrays = {own: np.array(values[n], float) for own, n in form.names.items() if n in values}
    kept = {own: a.copy() for own, a in arrays.items()}
    found = run_plan(derive_local(form.key).equation, arrays, sizes)
    first = found.copy()
    found[(0,) * found.ndim] += 100
    assert (found != first).sum() == 1
    for own, a in arrays.items():
        assert np.array_equal(a, kept[own])
