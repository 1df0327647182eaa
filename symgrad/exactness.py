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

LARGEST_EXPONENT = 700.0
"""What is e to more than this is no float."""
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

    Each array is whole numbers over one denominator. No result and no partial sum of the whole ones is larger than the
    largest entries multiplied, times as many terms as there are ways to choose one entry of each array: while that is
    below 2⁵³, floats hold every number on the way, in whatever order.
    """

    def contracted(*arrays: Any, **options: Any) -> Any:
        held = []
        for array in arrays:
            if (found := whole_floats(np.asarray(array))) is None:
                return contract(*arrays, **options)
            held.append(found)
        if not bounded([array for array, _ in held]):
            return contract(*arrays, **options)
        below = math.prod(denominator for _, denominator in held)
        sums = np.asarray(contract(*(array for array, _ in held), **options))
        result = np.empty(sums.shape, dtype=object)
        result[...] = np.frompyfunc(lambda value: Fraction(int(value), below), 1, 1)(sums)
        return result

    return contracted


def bounded(arrays: Sequence[Any]) -> bool:
    """Whether sums of products of these whole numbers stay below 2⁵³."""
    largest = [int(np.abs(array).max(initial=0)) * int(np.size(array)) for array in arrays]
    return math.prod(largest) < FLOATS_HOLD


def whole_floats(array: Any) -> tuple[Any, int] | None:
    """An array of exact numbers as whole ones in float64 over one denominator; None where one of them is too long.

    >>> whole_floats(np.array([Fraction(1, 2), Fraction(2, 3)], dtype=object))
    (array([3., 4.]), 6)
    """
    if array.dtype.kind in "iub":
        return (array.astype(np.float64), 1) if int(np.abs(array).max(initial=0)) < FLOATS_HOLD else None
    values = array.reshape(-1).tolist()
    if not all(isinstance(value, (int, Fraction)) for value in values):
        return None
    below = math.lcm(*{value.denominator for value in values})
    whole = [value.numerator * (below // value.denominator) for value in values]
    if max((abs(value) for value in whole), default=0) >= FLOATS_HOLD:
        return None
    return np.array(whole, dtype=np.float64).reshape(array.shape), below
