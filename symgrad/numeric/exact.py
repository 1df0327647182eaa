"""Exact arrays: integers and fractions stay what they are, as arrays of `fractions.Fraction`.

An array is exact when its dtype is object (fractions) or integer; everything else is float64. Comes in: an array. Goes
out: the same in fractions or in floats, its sums and powers, and its Euclidean length, of numbers whose squares
overflow, too. Exact numbers may not grow too long: an `OverflowError` is taken for "not exactly, then" by who computes
exactly. Sums of products of whole numbers are computed in floats where that rounds nothing.
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
"""What is e to more than this is no float."""
MOST_BITS = 4096
"""Bits of the longest exact number: one with some 1,200 digits."""


def longest_bits(array: Any) -> int:
    """The bits of the longest number in an array of fractions or integers."""
    array = np.asarray(array)
    if array.dtype != object:
        return 64
    return max((bit_length(value) for value in array.reshape(-1)), default=0)


def bit_length(value: Any) -> int:
    """The bits of an exact number."""
    if isinstance(value, Fraction):
        return max(value.numerator.bit_length(), value.denominator.bit_length())
    return int(value).bit_length() if isinstance(value, int) else 64


def check_power(base: Any, exponent: Any) -> None:
    """Raise `OverflowError` for an exact power that would grow too long."""
    largest = max((abs(int(e)) for e in np.asarray(exponent).reshape(-1)), default=0)
    if largest > 1 and largest * longest_bits(base) > MOST_BITS:
        raise OverflowError


def kept_short(array: Any) -> Any:
    """``array`` of exact numbers, none of them too long."""
    if longest_bits(array) > MOST_BITS:
        raise OverflowError
    return array


def contract_in_floats(contract: Callable[..., Any]) -> Callable[..., Any]:
    """``contract``, a sum of products of one entry of each array, by way of floats where that is exact.

    Each array is whole numbers over one denominator. No result and no partial sum of the whole ones is larger than the
    largest entries multiplied, times as many terms as there are ways to choose one entry of each array: while that is
    below 2⁵³, floats hold every number on the way, in whatever order.
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


Array = npt.NDArray[Any]

BITS: dict[int, Any] = {2: np.uint16, 4: np.uint32, 8: np.uint64}
CHUNK = 1 << 14
"""Entries that are looked at in one go: as many as stay near the processor."""
FEW = 32
"""Entries up to which looking at one after the other is quicker."""
SHORT = 1 << 31
"""Whole numbers below this can be added up in int64, as many as fit into memory."""
EXACT_LIMIT = 4096
"""Programs with more entries than this are computed in float64: exact arithmetic is slow."""


def is_exact(array: Array) -> bool:
    """Whether the entries are integers or fractions."""
    return array.dtype.kind in "Oiub"


def as_fractions(array: Array) -> Array:
    """The array with every entry a `Fraction`, SymPy's among them; only for exact arrays.

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
    """A whole number or a fraction of any kind."""
    if isinstance(value, Rational):
        return Fraction(int(value.numerator), int(value.denominator))
    return Fraction(int(value))


def where_exact(array: Array) -> Array:
    """The array with every entry a `Fraction` if it is exact and not large, as it is otherwise."""
    return (as_fractions(array) if array.size <= EXACT_LIMIT else as_float(array)) if is_exact(array) else array


def holds_exact(array: Array) -> bool:
    """Whether every entry is an integer or a fraction: NumPy puts floats beside fractions without a word."""
    inexact = (float, np.floating)
    return array.dtype != np.float64 and not any(
        isinstance(v, inexact) for v in array.reshape(-1) if array.dtype == object
    )


def as_float(array: Any) -> Array:
    """The array in float64; what is beyond its range is infinite there."""
    try:
        return np.asarray(array, dtype=np.float64)
    except OverflowError:
        entries = np.asarray(array, dtype=object)
        return np.asarray(np.frompyfunc(nearest_float, 1, 1)(entries), dtype=np.float64).reshape(entries.shape)


def is_finite(array: Any) -> Array:
    """Where the entries are finite numbers: integers and fractions always are."""
    found = np.asarray(array)
    if is_exact(found) and holds_exact(found):
        return np.ones(found.shape, dtype=bool)
    return np.isfinite(as_float(found))


def all_tame(array: Array) -> bool:
    """Whether every entry is finite, and so is its square and one over that.

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
    """What the sizes of floats of a type that are tame, and not 0, lie between."""
    found = np.finfo(kind)
    low, high = (float(np.asarray(float(bound) ** 0.5, kind)) for bound in (found.tiny, found.max))
    return low, high


@lru_cache
def tame_bounds(kind: np.dtype[Any]) -> tuple[Any, Any, Any]:
    """What floats of a type are read as, and the bounds of those that are tame.

    Floats without their sign are ordered as their bits are, what is no number above all.
    """
    low, high = tame_sizes(kind)
    whole = BITS.get(kind.itemsize)
    if whole is None:
        return None, low, high
    return whole, *(int(np.asarray(bound, kind).view(whole)) << 1 for bound in (low, high))


def nearest_float(value: Any) -> float:
    """A number as a float, ±∞ where it is larger than any."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def plus(first: Array, second: Array) -> Array:
    """The sum of two arrays: exact if both are."""
    if is_exact(first) and is_exact(second):
        try:
            return np.asarray(kept_short(first + second))
        except OverflowError:
            pass
    with np.errstate(invalid="ignore", over="ignore"):  # ∞ − ∞ is NaN, and that is the answer
        return as_float(first) + as_float(second)


def compensated_sum(parts: Sequence[Any]) -> Array:
    """The sum of arrays; in floats, what cancels takes nothing of the rest with it: 1e300 + 1 − 1e300 is 1.

    Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen, 1974: what each addition drops is
    kept, and added at the end.
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
    """Integer powers of fractions; dividing by zero is left to float64."""
    if exponent < 0 and np.any(base == 0):
        raise ZeroDivisionError
    check_power(base, exponent)
    return as_fractions(base) ** exponent  # a size that was computed comes as an integer, which has no power −1


def int64_if_short(array: Array) -> Array:
    """Fractions as int64 where all are whole and so short that sums of them fit too; anything else as it is.

    >>> int64_if_short(np.array(Fraction(3), dtype=object)), int64_if_short(np.array([Fraction(1, 2)], dtype=object))
    (array(3), array([Fraction(1, 2)], dtype=object))
    """
    if array.dtype != object:
        return array
    entries = array.ravel().tolist()
    short = all(isinstance(v, Fraction) and v.denominator == 1 and -SHORT < v.numerator < SHORT for v in entries)
    return array.astype(np.int64) if short else array


def without_fractions(array: Any) -> Array:
    """Fractions as int64 where all of them are whole numbers and fit, as they are otherwise.

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
    """|first − second|, 0 where both are the same infinity or NaN, infinite where only one of them is a number."""
    a, b = as_float(first), as_float(second)
    with np.errstate(invalid="ignore"):
        gap = np.asarray(a - b)
    np.abs(gap, out=gap)  # in place: gradients may be as large as a model
    gap[~np.isfinite(gap)] = np.inf
    gap[(a == b) | (np.isnan(a) & np.isnan(b))] = 0.0
    return gap


def largest_finite(array: Array) -> float:
    """The size of the largest finite entry; 0 where there is none."""
    there = np.isfinite(array)
    return float(max(array.max(initial=0.0, where=there), -array.min(initial=0.0, where=there)))


PIECE = 1 << 18
"""Entries that are compared at once: of arrays as large as a model no copy is made."""


def furthest(first: Array, second: Array, void: Array | None = None) -> tuple[float, float, float]:
    """The largest of the `gaps` between two arrays of one shape, and the largest finite entry of each; not at ``void``.

    >>> furthest(np.array([1.0, -3.0, np.nan]), np.array([1.0, -2.5, 8.0]), np.array([False, False, True]))
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
    """1 at one place, 0 elsewhere."""
    found: Array = np.zeros(shape)
    found[at] = 1.0
    return found


def euclidean(array: Any) -> float:
    """√Σ a², scaled where a square would leave float64.

    >>> euclidean([[3, 4]]), euclidean([3e200, 0]), euclidean([0, 3e-200]), euclidean([])
    (5.0, 3e+200, 3e-200, 0.0)
    """
    flat = as_float(np.asarray(array)).reshape(-1)
    largest = float(np.abs(flat).max(initial=0.0))
    if largest == 0 or 1e-100 < largest < 1e100 or not np.isfinite(largest):
        return float(np.linalg.norm(flat)) if np.isfinite(largest) else largest
    return largest * float(np.linalg.norm(flat / largest))
