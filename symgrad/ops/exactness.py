"""How long exact numbers may grow: beyond it they go on as float64, so that squaring fifty times ends.

Comes in: arrays of integers or fractions. Goes out: the bits of the longest of them, or an `OverflowError`, which who
computes exactly takes for "not exactly, then".
"""

from __future__ import annotations

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
