"""Where float64 loses the digits of a derived number: terms near the end of its range that cancel.

Comes in: a program at a point, an equation about it, and its numbers in float64. Goes out: the same equation's numbers
with as many digits as cancel at most between floats. The formula is the derived one: what is wrong there stays wrong.
"""

from __future__ import annotations

import numpy as np

from symgrad.indexing import Equation
from symgrad.numeric.exact import Array, all_tame, as_float
from symgrad.numeric.forward import Values
from symgrad.oracles.elementwise import Elementwise, TooLarge
from symgrad.program import Program

DIGITS = 1400
"""Between the largest square of a float and the smallest lie 10^1264."""
LARGEST = 64
"""Entries of the largest result that is made again."""
SAME = 1e-6
"""What differs by a larger share of the number is not rounding of it."""


def keeps_digits(values: Values) -> bool:
    """Whether no number is so large or so small that what cancels could be all of a result."""
    floats = (as_float(array) for array in values.arrays.values())
    return all(all_tame(array[np.isfinite(array)]) for array in floats)


def lost_digits(program: Program, values: Values, equation: Equation, got: Array) -> Array | None:
    """The numbers of ``equation`` where ``got`` has lost them; None where it has not, or where that cannot be told."""
    if np.size(got) > LARGEST or keeps_digits(values):
        return None
    try:
        exact = Elementwise(program, values, DIGITS).of(equation)
    except TooLarge:
        return None
    ours = as_float(got)
    with np.errstate(invalid="ignore"):
        lost = np.isfinite(exact) & np.isfinite(ours) & (np.abs(exact - ours) > SAME * np.abs(exact))
        lost &= np.abs(exact - ours) > np.finfo(float).tiny
    return np.where(lost, exact, ours) if lost.any() else None


__all__ = ["keeps_digits", "lost_digits"]
