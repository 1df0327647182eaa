"""How long exact numbers may grow, and how sums of products of whole ones are computed in floats without rounding.

Comes in: arrays of integers or fractions. Goes out: the bits of the longest of them, or an `OverflowError`, which who
computes exactly takes for "not exactly, then"; and what a contraction of them comes to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

MOST_BITS = 4096
"""Bits of the longest exact number: one with some 1,200 digits."""


def bits(array: Any) -> int:
    """The bits of the longest number in an array of fractions or integers."""
    array = np.asarray(array)
    if array.dtype != object:
        return 64
    return max((length(value) for value in array.reshape(-1)), default=0)


def length(value: Any) -> int:
    """The bits of an exact number."""
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    return int(value).bit_length() if isinstance(value, int) else 64


def check_power(base: Any, exponent: Any) -> None:
    """Raise `OverflowError` for an exact power that would grow too long."""
    largest = max((abs(int(e)) for e in np.asarray(exponent).reshape(-1)), default=0)
    if largest > 1 and largest * bits(base) > MOST_BITS:
        raise OverflowError


def kept_short(array: Any) -> Any:
    """``array`` of exact numbers, none of them too long."""
    if bits(array) > MOST_BITS:
        raise OverflowError
    return array


FLOATS_HOLD = 2**53
"""Below this every whole number is a float64."""


def in_floats(contract: Callable[..., Any]) -> Callable[..., Any]:
    """``contract``, a sum of products of one entry of each array, by way of floats where that is exact.

    No result and no partial sum is larger than the largest entries multiplied, times as many terms as there are ways to
    choose one entry of each array: while that is below 2⁵³, floats hold every number on the way, in whatever order.
    """

    def contracted(*arrays: Any, **options: Any) -> Any:
        held = [whole_floats(array) if np.asarray(array).dtype == object else None for array in arrays]
        if any(array is None for array in held) or not bounded(held):
            return contract(*arrays, **options)
        found = np.asarray(contract(*held, **options))
        result = np.empty(found.shape, dtype=object)
        result[...] = np.frompyfunc(lambda value: Fraction(int(value)), 1, 1)(found)
        return result

    return contracted


def bounded(arrays: Sequence[Any]) -> bool:
    """Whether sums of products of these whole numbers stay below 2⁵³."""
    largest = [int(np.abs(array).max(initial=0)) * int(np.size(array)) for array in arrays]
    return math.prod(largest) < FLOATS_HOLD


def whole_floats(array: Any) -> Any:
    """An array of exact numbers as float64, None where one of them is not whole or too long."""
    values = array.reshape(-1)
    if not all(isinstance(v, (int, Fraction)) and v.denominator == 1 for v in values) or bits(array) > 53:
        return None
    return np.array([float(v) for v in values], dtype=np.float64).reshape(array.shape)
