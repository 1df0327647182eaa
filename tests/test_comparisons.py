"""Two arrays are the same only if they are: wherever they differ, whatever is no number, and beyond what floats hold."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.oracles.comparisons import compare
from symgrad.oracles.elementwise import Elementwise
from symgrad.oracles.evaluators import describe_gap, relation_holds
from tests.compare import assert_same


def test_a_difference_is_found_wherever_it_is() -> None:
    right = np.arange(24.0).reshape(2, 3, 4)
    for at in np.ndindex(*right.shape):
        wrong = right.copy()
        wrong[at] += 1e-6
        check = compare("oracle", right, wrong)
        assert check.passed is False
        assert check.worst == at
        with pytest.raises(AssertionError, match="the worst of 24 entries"):
            assert_same(right, wrong, seed=3)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (np.zeros(3), np.zeros((3, 1))),
        (np.array([1.0, np.nan]), np.array([1.0, 0.0])),
        (np.array([np.inf]), np.array([-np.inf])),
        (np.array([np.inf]), np.array([1e300])),
        (np.array([0.0]), np.array([1e-8])),
    ],
)
def test_what_is_not_the_same_is_not_called_so(first: np.ndarray, second: np.ndarray) -> None:
    assert compare("oracle", first, second).passed is False
    with pytest.raises(AssertionError):
        assert_same(first, second)


def test_a_relation_between_numbers_is_what_sympy_says() -> None:
    numbers = [sp.Rational(p, q) for p in (-3, -1, 0, 1, 2) for q in (1, 2)] + [sp.Float("0.5"), sp.oo, sp.pi]
    for kind in (sp.Lt, sp.Le, sp.Gt, sp.Ge, sp.Eq, sp.Ne):
        relation = kind(*sp.symbols("a b", real=True))
        for pair in product(numbers, repeat=2):
            assert relation_holds(relation, *pair) is bool(relation.func(*pair)), (kind, pair)


def test_a_number_that_no_float_holds_is_written() -> None:
    assert "e+4342" in describe_gap(1.0, sp.exp(sp.Float(1e300, 50)))


@pytest.mark.parametrize("text", ["sqrt(x ** 2)", "asin(hypot(x, x))"])
def test_a_second_derivative_at_a_jump_of_the_first_is_none(text: str) -> None:
    found = symgrad.hessian(text, "x", x=0.0)
    assert all(check.passed is not False for check in found.checks)
    assert np.isnan(Elementwise(found.jacobian.program, found.jacobian.values).second("x", "x", np.ones(()))).all()
