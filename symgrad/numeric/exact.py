"""Exact arrays: integers and fractions are kept exact, as arrays of `fractions.Fraction`.

An array is exact if its dtype is object (fractions) or integer; everything else is float64. Comes in: an array. Goes
out: the same in fractions or in floats, sums and powers, and the Euclidean norm without overflow. Exact numbers have a
maximal length: `OverflowError` tells the caller to compute in floats instead. Sums of products of integers are computed
in floats if nothing is rounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import lru_cache, reduce
from numbers import Rational
from typing import Any

import numpy as np
import numpy.typing as npt

from symgrad.errors import bug
from symgrad.functions import FLOATS_HOLD

LARGEST_EXPONENT = 700.0
"""exp of a larger number overflows float64."""
MOST_BITS = 4096
"""The most bits of an exact number, about 1,200 digits."""


def longest_bits(array: Any) -> int:
    """Return the number of bits of the longest number in an array of fractions or integers."""
    array = np.asarray(array)
    if array.dtype != object:
        return 64
    return max((bit_length(value) for value in array.reshape(-1)), default=0)


def bit_length(value: Any) -> int:
    """Return the number of bits of an exact number."""
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    return int(value).bit_length() if isinstance(value, int) else 64


def check_power(base: Any, exponent: Any) -> None:
    """Raise `OverflowError` for an exact power that would grow too long."""
    largest = max((abs(int(e)) for e in np.asarray(exponent).reshape(-1)), default=0)
    if largest > 1 and largest * longest_bits(base) > MOST_BITS:
        raise OverflowError


def require_short(array: Any) -> Any:
    """Return ``array``; raise `OverflowError` if one of its exact numbers is too long."""
    if longest_bits(array) > MOST_BITS:
        raise OverflowError
    return array


def contract_in_floats(contract: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``contract``, a sum of products of one entry of each array, computed in floats if that is exact.

    Each array is written as integers over one denominator. A partial sum of the integers is at most the product of the
    largest entries times the number of ways to choose one entry of each array. While that is below 2⁵³, floats hold
    every intermediate value exactly, in any order.
    """

    def contracted(*arrays: Any, **options: Any) -> Any:
        found = [whole_floats(np.asarray(array)) for array in arrays]
        held = [pair for pair in found if pair is not None]
        largest = (int(np.abs(array).max(initial=0)) * int(np.size(array)) for array, _ in held)
        if len(held) < len(found) or math.prod(largest) >= FLOATS_HOLD:
            return contract(*arrays, **options)
        below = math.prod(denominator for _, denominator in held)
        sums = np.asarray(contract(*(array for array, _ in held), **options))
        result = np.empty(sums.shape, dtype=object)
        result[...] = np.frompyfunc(lambda value: Fraction(int(value), below), 1, 1)(sums)
        return result

    return contracted


def whole_floats(array: Any) -> tuple[Any, int] | None:
    """Return exact numbers as integers in float64 and their common denominator; None if one is too large.

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


Array = npt.NDArray[Any]

BITS: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
CHUNK = 1 << 14
"""Entries processed at a time, so that they stay in the processor's cache."""
FEW = 32
"""Up to so many entries a Python loop is faster."""
SHORT = 1 << 31
"""Integers below this can be summed in int64 without overflow."""
EXACT_LIMIT = 4096
"""Programs with more entries than this are computed in float64: exact arithmetic is slow."""


def is_exact(array: Array) -> bool:
    """Whether the entries are integers or fractions."""
    return array.dtype.kind in "Oiub"


def as_fractions(array: Array) -> Array:
    """Return an exact array with every entry, also SymPy's rationals, as a `Fraction`.

    >>> import sympy as sp
    >>> as_fractions(np.array([Fraction(1, 2), sp.Rational(5, 2), 3], dtype=object)).tolist()
    [Fraction(1, 2), Fraction(5, 2), Fraction(3, 1)]
    """
    if not holds_exact(array):
        raise bug("an array that holds floats is not exact")
    result = np.empty(array.shape, dtype=object)
    for at, value in np.ndenumerate(array):
        result[at] = value if isinstance(value, Fraction) else to_fraction(value)
    return result


def to_fraction(value: Any) -> Fraction:
    """Return an integer or a rational of any type as a `Fraction`."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(int(value))


def where_exact(array: Array) -> Array:
    """Return an exact, small array in fractions, an exact, large one in float64, and any other unchanged."""
    return (as_fractions(array) if array.size <= EXACT_LIMIT else as_float(array)) if is_exact(array) else array


def holds_exact(array: Array) -> bool:
    """Whether every entry is an integer or a fraction: an object array may silently hold floats."""
    inexact = (float, np.floating)
    return array.dtype != np.float64 and not any(
        isinstance(v, inexact) for v in array.reshape(-1) if array.dtype == object
    )


def as_float(array: Any) -> Array:
    """Return the array in float64; numbers beyond its range become infinite."""
    try:
        return np.asarray(array, dtype=np.float64)
    except OverflowError:
        entries = np.asarray(array, dtype=object)
        return np.asarray(np.frompyfunc(nearest_float, 1, 1)(entries), dtype=np.float64).reshape(entries.shape)


def is_finite(array: Any) -> Array:
    """Return where entries are finite; integers and fractions always are."""
    found = np.asarray(array)
    if is_exact(found) and holds_exact(found):
        return np.ones(found.shape, dtype=bool)
    return np.isfinite(as_float(found))


def all_tame(array: Array) -> bool:
    """Whether every entry is 0, or finite with a finite square and a finite reciprocal of it.

    >>> all_tame(np.array([0.0, -1e100])), all_tame(np.array([1e-200])), all_tame(np.array([np.nan]))
    (True, False, False)
    """
    if array.dtype.kind != "f":
        return array.dtype != object or bool(is_finite(array).all())
    if array.size <= FEW:
        low, high = tame_sizes(array.dtype)
        return all(low < entry < high or -high < entry < -low or entry == 0 for entry in array.ravel().tolist())
    whole, low, high = tame_bounds(array.dtype)
    if whole is None:
        sizes = np.abs(array)
        return bool(((sizes < high) & ((sizes > low) | (sizes == 0))).all())
    flat = array.ravel(order="K").view(whole)
    for start in range(0, flat.size, CHUNK):
        part = flat[start : start + CHUNK] << 1
        if int(part.max()) >= high:
            return False
        part -= 1  # a zero becomes the largest
        if int(part.min()) <= low:
            return False
    return True


@lru_cache
def tame_sizes(kind: np.dtype[Any]) -> tuple[float, float]:
    """Return the bounds of absolute values of floats of a dtype for `all_tame`."""
    found = np.finfo(kind)
    low, high = (float(np.asarray(float(bound) ** 0.5, kind)) for bound in (found.tiny, found.max))
    return low, high


@lru_cache
def tame_bounds(kind: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """Return the unsigned type with the bits of a float dtype, and the bounds of `all_tame` as such bits.

    Absolute values are ordered as their bits, with NaN above all.
    """
    low, high = tame_sizes(kind)
    whole = BITS.get(kind.itemsize)
    if whole is None:
        return None, low, high
    return whole, *(int(np.asarray(bound, kind).view(whole)) << 1 for bound in (low, high))


def nearest_float(value: Any) -> float:
    """Return a number as a float, ±∞ if it is too large."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def plus(first: Array, second: Array) -> Array:
    """Return the sum of two arrays, exact if both are."""
    if is_exact(first) and is_exact(second):
        try:
            return np.asarray(require_short(first + second))
        except OverflowError:
            pass
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is NaN, and that is the answer
        return as_float(first) + as_float(second)


def compensated_sum(parts: Sequence[Any]) -> Array:
    """Return the sum of arrays, compensated in floats: 1e300 + 1 − 1e300 is 1.

    Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, 1974: the rounding errors of the
    additions are accumulated, and added at the end.
    """
    if len(parts) < 3 or all(is_exact(part) for part in parts):
        return reduce(plus, parts)
    first, *others = map(as_float, parts)
    result, dropped = first, np.zeros(first.shape)
    with np.errstate(all="ignore"):
        for part in others:
            grown = result + part
            larger = np.abs(result) >= np.abs(part)
            dropped = dropped + np.where(larger, result - grown + part, part - grown + result)
            result = grown
        return np.where(np.isfinite(dropped), result + dropped, result)


def exact_power(base: Any, exponent: int) -> Any:
    """Return an integer power of fractions; raise `ZeroDivisionError` for 0 to a negative power."""
    if exponent < 0 and np.any(base == 0):
        raise ZeroDivisionError
    check_power(base, exponent)
    return as_fractions(base) ** exponent  # a size that was computed comes as an integer, which has no power −1


def int64_if_short(array: Array) -> Array:
    """Return fractions as int64 if all are integers small enough to be summed; anything else unchanged.

    >>> int64_if_short(np.array(Fraction(3), dtype=object)), int64_if_short(np.array([Fraction(1, 2)], dtype=object))
    (array(3), array([Fraction(1, 2)], dtype=object))
    """
    if array.dtype != object:
        return array
    entries = array.ravel().tolist()
    short = all(isinstance(v, Fraction) and v.denominator == 1 and -SHORT < v.numerator < SHORT for v in entries)
    return array.astype(np.int64) if short else array


def without_fractions(array: Any) -> Array:
    """Return fractions as int64 if all are integers that fit; anything else unchanged.

    >>> without_fractions(np.array([Fraction(2), Fraction(4, 2)], dtype=object))
    array([2, 2])
    """
    found: Array = np.asarray(array, order="C")  # torch takes no view that runs backwards
    if found.dtype != object:
        return found
    if all(isinstance(v, Rational) and v.denominator == 1 and abs(int(v.numerator)) < 2**63 for v in found.reshape(-1)):
        return found.astype(np.int64)
    return found


def gaps(first: Array, second: Array) -> Array:
    """Return |first − second|: 0 for equal infinities or two NaNs, infinite if only one of the two is finite."""
    a, b = as_float(first), as_float(second)
    with np.errstate(invalid="ignore"):
        gap = np.asarray(a - b)
    np.abs(gap, out=gap)  # in place: gradients may be as large as a model
    gap[~np.isfinite(gap)] = np.inf
    gap[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return gap


def largest_finite(array: Array) -> float:
    """Return the largest absolute value of finite entries; 0 if there is none."""
    there = np.isfinite(array)
    return float(max(array.max(initial=0.0, where=there), -array.min(initial=0.0, where=there)))


PIECE = 1 << 18
"""Entries compared at a time, to avoid copies of large arrays."""


def largest_gap(first: Array, second: Array, void: Array | None = None) -> tuple[float, float, float]:
    """Return the largest of the `gaps` between two arrays, and the largest finite entry of each, outside of ``void``.

    >>> largest_gap(np.array([1.0, -3.0, np.nan]), np.array([1.0, -2.5, 8.0]), np.array([False, False, True]))
    (0.5, 3.0, 2.5)
    """
    worst = one = other = 0.0
    for begin in range(0, first.size, PIECE):
        a, b = (as_float(array.reshape(-1)[begin : begin + PIECE]) for array in (first, second))
        if void is not None:
            counted = ~void.reshape(-1)[begin : begin + PIECE]
            a, b = a[counted], b[counted]
        worst = max(worst, float(gaps(a, b).max(initial=0.0)))
        one, other = max(one, largest_finite(a)), max(other, largest_finite(b))
    return worst, one, other


def unit_at(at: tuple[int, ...], shape: tuple[int, ...]) -> Array:
    """Return the one-hot array with a 1 at one position."""
    found: Array = np.zeros(shape)
    found[at] = 1.0
    return found


def euclidean(array: Any) -> float:
    """Return √Σ a², scaled if a square would overflow or underflow.

    >>> euclidean([[3, 4]]), euclidean([3e200, 0]), euclidean([0, 3e-200]), euclidean([])
    (5.0, 3e+200, 3e-200, 0.0)
    """
    flat = as_float(np.asarray(array)).reshape(-1)
    largest = float(np.abs(flat).max(initial=0.0))
    if largest == 0 or 1e-100 < largest < 1e100 or not np.isfinite(largest):
        return float(np.linalg.norm(flat)) if np.isfinite(largest) else largest
    return largest * float(np.linalg.norm(flat / largest))
