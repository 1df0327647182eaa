"""Who judges a second derivative, and where torch or differences are no judge."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from symgrad.language import read_program
from symgrad.oracles.comparisons import CheckVerdict
from symgrad.oracles.second_order import second_checks
from symgrad.oracles.torch import torch_version


@pytest.mark.parametrize(
    ("text", "x", "right", "wrong"),
    [
        ("sum(F.elu(x))", [0.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [[2.0, 0.0], [0.0, 0.0]]),
        ("sum(F.elu(x))", [0.0, 1.0], [[1.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 1.0]]),
        ("sum(F.elu(minimum(0, x)))", [0.0, -1.0], [[0.25, 0.0], [0.0, np.exp(-1)]], [[0.25, 0.0], [0.0, 1.0]]),
        ("sum(exp(50 * x))", [0.0], [[2500.0]], [[2501.0]]),
    ],
)
def test_beside_a_corner_of_the_gradient_torch_is_no_judge(
    text: str, x: list[float], right: list[list[float]], wrong: list[list[float]]
) -> None:
    """At it any number between the slopes is as good; what is beyond them, or elsewhere, is seen."""
    assert torch_version() is not None
    inputs, program = {"x": np.array(x)}, read_program(text, shapes={"x": (len(x),)}).program
    passed = [second_checks(program, inputs, np.ones(()), "x", "x", np.array(h))[0].passed for h in (right, wrong)]
    assert passed == [True, False]


@pytest.mark.one_in(9)
@pytest.mark.parametrize("weight", [1.0, 1e-2, 4e-4, 2e-5])
@pytest.mark.parametrize("text", ["relu(x)**2", "F.leaky_relu(x)**2", "abs(x)*x", "clamp(x, 0, 1)**2", "F.elu(x, 2)"])
def test_differences_are_no_judge_of_a_small_corner_and_are_one_beside_it(text: str, weight: float) -> None:
    """1e-300 is on the corner's right, and a step of differences to the left of it goes beyond it."""
    at = np.array([1e-300, 0.5])
    found = symgrad.explain(f"{weight!r}*sum({text})", x=at, order=2).hessian("x", "x")
    assert [check.oracle for check in found.checks if check.passed is False] == []
    program, inputs = read_program(f"{weight!r}*sum({text})", shapes={"x": (2,)}).program, {"x": at}
    h = np.asarray(found.value, dtype=float)
    by_differences = [
        second_checks(program, inputs, np.ones(()), "x", "x", np.array([[h[0, 0] + a, 0.0], [0.0, h[1, 1] + b]]))[1]
        for a, b in [(0, 0), (weight / 50, 0), (0, 1e-3)]
    ]
    assert [check.passed for check in by_differences] == [True, True, False]


@pytest.mark.slow
def test_where_nothing_is_defined_a_hessian_need_not_be_symmetric() -> None:
    """0 ** 0 has no derivative; NaN and −∞ are both no number."""
    found = symgrad.explain("log_softmax(x**x, 0)", seed=[1, 1, 1], x=[-0.0, 2.0, 1e-300], order=2).hessian("x", "x")
    assert [check.oracle for check in found.checks if check.passed is False] == []
    found = symgrad.explain("x[0]*x[1]", x=[1.0, 2.0], order=2).hessian("x", "x")
    assert [check.verdict for check in found.checks][-1] == CheckVerdict.AGREES


def test_beside_numbers_whose_squares_are_no_floats_torch_is_no_judge() -> None:
    found = symgrad.hessian("log1p(prod(x))", "x", x=[-1.0, 2.0, 1e-300])
    assert found.passed
    assert "overflow or underflow" in found.checks[0].note


@pytest.mark.slow
def test_where_torchs_double_backward_is_no_derivative_a_wrong_hessian_is_still_seen() -> None:
    """torch puts a constant 0 into a power's backward where the exponent is 0; SymPy and differences have the derivative."""
    text, x = "sum(var(x, 0, keepdim=True) ** x)", np.array([0.0, 0.0, 2.0])
    program, right = read_program(text, shapes={"x": (3,)}).program, symgrad.hessian(text, "x", x=x).value

    def verdicts(matrix: np.ndarray) -> list[bool | None]:
        checks = second_checks(program, {"x": x}, np.array(1.0), "x", "x", matrix, lambda _: matrix)
        return [check.passed for check in checks]

    assert verdicts(right) == [True, True, True]
    for at in ((2, 0), (0, 0), (2, 2)):
        wrong = np.array(right, dtype=float)
        wrong[at] += 1
        assert verdicts(wrong)[:2] == [False, False], at
