"""Digits that floats lose, and how large the terms were that they were lost in."""

from __future__ import annotations

import numpy as np
import pytest

from symgrad.indexing import Equation, access
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.numeric.sparse import term_sizes
from symgrad.oracles.digits import lost_digits
from tests.compare import assert_same


def test_a_formula_that_is_wrong_has_the_same_wrong_number_with_more_digits() -> None:
    program = read_program("log(n)/(n/x)", shapes={"n": (), "x": ()}).program
    values = forward(program, {"n": np.array(2.5), "x": np.array(1e-300)})
    wrong = Equation((), 2 * access("n", ()) + access("x", ()) / access("x", ()))
    assert lost_digits(program, values, wrong, np.array(6.0)) is None
    made = lost_digits(program, values, wrong, np.array(0.01))
    assert made is not None
    assert_same([6.0], [float(made)])


@pytest.mark.parametrize("text", ["sqrt(x) * y", "log(x) * y", "1 / x * y", "sqrt(x) * y + x"])
def test_how_large_terms_are_is_not_known_where_a_slope_is_infinite(text: str) -> None:
    """0·∞ on the way: no warning, and nothing that rounding could be measured by."""
    program = read_program(text, shapes={"x": (2,), "y": (2,)}).program
    values = forward(program, {"x": np.array([0.0, 1.0]), "y": np.array([0.0, 2.0])})
    assert term_sizes(program, ["x"], values, np.ones(2))["x"] is None
    there = forward(program, {"x": np.array([4.0, 1.0]), "y": np.array([0.0, 2.0])})
    found = term_sizes(program, ["x"], there, np.ones(2))["x"]
    assert found is not None
    assert np.isfinite(found).all()
