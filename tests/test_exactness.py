"""Sums of products of whole numbers are the same by floats, as long as floats hold every number on the way."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad.numeric.exact import contract_in_floats

QUOTIENTS = st.builds(Fraction, st.integers(-(2**20), 2**20), st.integers(1, 30))


@given(
    x=st.lists(QUOTIENTS, min_size=6, max_size=6),
    mask=st.lists(st.booleans(), min_size=6, max_size=6),
)
def test_fractions_are_contracted_as_exactly_over_one_denominator(x: list[Fraction], mask: list[bool]) -> None:
    one, other = np.array(x, dtype=object).reshape(2, 3), np.array(mask).reshape(3, 2)
    found = contract_in_floats(np.matmul)(one, other)
    assert (found == np.matmul(one, other.astype(object))).all()


@given(
    x=st.lists(st.integers(-(2**26), 2**26), min_size=6, max_size=6),
    a=st.lists(st.integers(-(2**26), 2**26), min_size=6, max_size=6),
)
def test_whole_numbers_are_contracted_as_exactly_in_floats(x: list[int], a: list[int]) -> None:
    one = np.array([Fraction(n) for n in x], dtype=object).reshape(2, 3)
    other = np.array([Fraction(n) for n in a], dtype=object).reshape(3, 2)
    found = contract_in_floats(np.matmul)(one, other)
    assert found.dtype == object
    assert (found == np.matmul(one, other)).all()
    assert all(isinstance(value, Fraction) for value in found.reshape(-1))


def test_what_floats_would_round_stays_in_fractions() -> None:
    calls: list[str] = []

    def watched(x: np.ndarray, a: np.ndarray) -> np.ndarray:
        calls.append(x.dtype.kind)
        return np.matmul(x, a)

    long, half, thin = Fraction(2**53 + 1), Fraction(1, 2), Fraction(1, 2**53)
    for x, kind in (
        ([1, 2], "f"), ([2**40, 1], "f"), ([2**52, 2**52], "O"), ([long, 1], "O"), ([half, 1], "f"), ([thin, 1], "O"),
    ):  # fmt: skip
        row, column = (np.array([Fraction(n) for n in values], dtype=object) for values in (x, [3, 5]))
        assert contract_in_floats(watched)(row, column) == row[0] * 3 + row[1] * 5, x
        assert calls.pop() == kind, x
    assert contract_in_floats(watched)(np.array([1.5, 2.0]), np.array([1.0, 1.0])) == 3.5


def test_many_numbers_that_come_of_few_are_made_in_floats() -> None:
    """A fraction takes a thousand times as long: what is made counts as much as what is read."""
    few, many = (symgrad.explain("x[:1]", shapes={"x": (n,)}, check=False).gradients["x"].value for n in (50, 50_000))
    assert few.dtype != np.float64
    assert many.dtype == np.float64
    assert (few[0], few[1:].any(), many[0], many[1:].any()) == (1, False, 1, False)
