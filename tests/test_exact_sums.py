"""Sums and products of numbers whose terms no float holds: nothing is lost on the way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import sympy as sp
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad.indexing import Equation, access, fresh_axes
from symgrad.numeric import evaluate
from symgrad.numeric.exact import compensated_sum
from tests.compare import assert_same

FAR = st.sampled_from([1e300, -1e300, 3e200, 1.0, -2.0, 0.5, 1e-300, -7e-250])


@given(st.lists(FAR, min_size=2, max_size=2), st.sampled_from([0.5, 1.0, -3.0, 1e-300]), st.permutations(range(5)))
def test_what_cancels_takes_nothing_with_it(pair: list[float], rest: float, order: list[int]) -> None:
    """Every order of a, b, c, −a, −b is c."""
    terms = [*pair, rest, *(-term for term in pair)]
    found = compensated_sum([np.array([terms[place]]) for place in order])
    assert found[0] == math.fsum(terms) or abs(pair[0]) != abs(pair[1])
    three = compensated_sum([np.array([terms[place]]) for place in (0, 2, 3)])
    assert three[0] == math.fsum([pair[0], rest, -pair[0]])


def test_what_is_exact_or_not_finite_is_added_as_it_is() -> None:
    assert compensated_sum([np.array([2**70]), np.array([1]), np.array([-(2**70)])])[0] == 1
    for last, expected in ((np.inf, np.inf), (-np.inf, np.nan), (np.nan, np.nan)):
        assert_same([expected], compensated_sum([np.array([np.inf]), np.array([1.0]), np.array([last])]))


@given(st.tuples(FAR, FAR, FAR), st.tuples(st.integers(-5, 3), st.integers(-5, 3), st.integers(-5, -1)))
def test_a_product_over_powers_that_are_no_floats(at: tuple[float, ...], powers: tuple[int, ...]) -> None:
    """xᵃ·yᵇ·zᶜ/log 2 in floats is what it is in fractions, wherever there is a float and the powers are taken apart."""
    (i,) = fresh_axes((1,))
    right = sp.Mul(*(access(name, [i]) ** power for name, power in zip("xyz", powers, strict=True)), 1 / sp.log(2))
    got = evaluate(Equation((i,), right), {n: np.array([v]) for n, v in zip("xyz", at, strict=True)}, {})[0] * np.log(2)
    exact = math.prod(Fraction(v) ** power for v, power in zip(at, powers, strict=True))
    if any(abs(v) not in (0.5, 1.0, 2.0) for v in at) and (min(powers) < -4 or min(powers) == -1):
        return
    if abs(exact) > 2 * Fraction(1e308):
        assert np.isinf(got)
    elif Fraction(1e-290) < abs(exact) < Fraction(1e308):
        assert_same([1.0], [float(Fraction(float(got)) / exact)], tolerance=1e-13)
    else:
        assert abs(exact) > 1 or abs(got) <= 1e-290


def test_a_sum_that_holds_no_tensor_is_no_number_of_sympys() -> None:
    """Where a size is 1, a count of windows is Σ_j [j < 1]: SymPy calls one over it a number, and has none."""
    (row,) = fresh_axes([sp.Integer(2)], "i")
    (place,) = fresh_axes([sp.Integer(2)], "j")
    x = access("x", [row])
    count = sp.Sum(symgrad.indexing.Bracket(sp.Lt(place, 1, evaluate=False)), (place, 0, 1))
    assert_same([3.0, 4.0], evaluate(Equation((row,), x / count), {"x": np.array([3.0, 4.0])}, {}))
