"""Numbers as they are written: exact ones exactly, decimals rounded for the eye.

``text`` is for the page, ``data`` for JSON, where nothing is rounded.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from symgrad.explanation.evidence import Rounding
from symgrad.language.python_text import tidy_exponents
from symgrad.numeric import Array, as_float, without_fractions
from symgrad.numeric.exact import euclidean

MOST_EQUAL = 32
"""Entries of an array that is written out although they are all equal."""
DIGITS = 5
"""Significant digits of a decimal on the page."""
SMALLEST = Fraction(1, 10**300)
"""Of smaller fractions, and of larger ones than its inverse, a float loses digits or all."""
NOISE = 1e-6
"""How far from a whole number, as a part of it, a value in 32 bits may be that was to be one."""
LONGEST_DECIMAL, LONGEST_TYPED = 10, 16
"""Characters of a number in a formula that is written with all its digits; beside a whole one, as nobody types more."""
LONGEST_FRACTION = 13
"""Characters of a fraction that is written as one; a longer one is read more easily as a decimal."""
ROOM = 6
"""Characters of a number that a cell of a picture holds."""


def text(value: Any) -> str:
    """``3``, ``1/3``, ``0.33333``; nan and inf by name.

    >>> text(Fraction(1, 3)), text(np.int64(3)), text(0.1 + 0.2), text(2.0), text(Fraction(10**8 + 1, 3 * 10**8))
    ('1/3', '3', '0.3', '2', '0.33333')
    >>> text(-1e30)
    '-1e30'
    """
    if isinstance(value, Rounding):
        return "≈0"
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if isinstance(value, Decimal):
        return f"{value.normalize():f}"
    if isinstance(value, Fraction):
        floats = SMALLEST < abs(value) < 1 / SMALLEST
        if value.denominator == 1 or len(str(value)) <= LONGEST_FRACTION or not floats:
            return str(value)
    number = float(value)
    if not math.isfinite(number):
        return str(number)
    shown = tidy_exponents(f"{number:.{DIGITS}g}")
    if beside_whole(number, NOISE):
        shown = next(more for n in range(DIGITS, 18) if float(more := f"{number:.{n}g}") % 1)
    return "0" if shown == "-0" else shown


def signed(value: Any) -> str:
    """``text`` with the minus sign of formulas, where nobody types or copies it.

    >>> signed(-3), signed(-1e-30)
    ('−3', '−1e-30')
    """
    return with_minus(text(value))


def with_minus(written: str) -> str:
    """A number's text, its hyphen made a minus sign; that of an exponent stays."""
    return f"−{written[1:]}" if written.startswith("-") else written


def brief(value: Any, digits: int = 2) -> str:
    """A number as a cell holds it: as it is where that is short, with so many ``digits`` else; the description has all.

    >>> brief(-0.00069912), brief(108), brief(0.25), brief(0.2227031, 3)
    ('−0.0007', '108', '0.25', '0.223')
    """
    shown = text(value)
    if isinstance(value, Rounding):
        return shown
    if len(shown) > ROOM or not ("/" in shown or float(shown) == value or value != value):
        shown = f"{float(as_float(np.asarray(value))):.{digits}g}"
    return with_minus(shown)


def digits_of(values: Any) -> int:
    """The digits of numbers that stand side by side: as many for all of them as cells hold, and two at least."""
    flat = np.asarray(values, dtype=object).reshape(-1)
    return next((n for n in (DIGITS, 4, 3) if all(len(brief(value, n)) <= ROOM for value in flat)), 2)


def beside_whole(number: float, noise: float) -> bool:
    """Whether five digits round a number to a whole one of fewer that it is not, by more than ``noise`` of it.

    >>> [beside_whole(number, NOISE) for number in (1.00001, 1.0000001, 12345.4, 0.5)]
    [True, False, False, False]
    """
    whole = round(number)
    five = float(f"{number:.{DIGITS}g}")
    return 0 < abs(whole) < 10 ** (DIGITS - 1) and five == whole and abs(number - whole) > noise * abs(whole)


def short_decimal(value: Any) -> Any:
    """A float as the decimal that it is written with, where that is short: 1234.5678 is not 1234.6.

    >>> [text(short_decimal(value)) for value in (1234.5678, 0.1 + 0.2, 1.000000000001, 0.1 * 3 / 0.3)]
    ['1234.5678', '0.3', '1.000000000001', '1']
    """
    exact = isinstance(value, float) and math.isfinite(value) and 1e-4 < abs(value) < 1e9
    longest = LONGEST_TYPED if exact and beside_whole(value, 0) else LONGEST_DECIMAL
    return Decimal(repr(float(value))) if exact and len(repr(float(value))) <= longest else value


def is_rounded(array: Array) -> bool:
    """Whether any entry is written with fewer digits than it has."""
    first = without_fractions(array).reshape(-1)[:1000].tolist()
    return any(
        v.denominator != 1 and "/" not in text(v)
        if isinstance(v, Fraction)
        else isinstance(v, float) and math.isfinite(v) and float(text(v)) != v
        for v in first
    )


def data(value: Any) -> Any:
    """A number or array for JSON: integers and floats as such, fractions as ``"1/3"``, nan and inf by name."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        return data(without_fractions(value).tolist())
    if isinstance(value, list):
        return [data(v) for v in value]
    if isinstance(value, Fraction):
        return value.numerator if value.denominator == 1 else str(value)
    if isinstance(value, (int, np.integer)):
        return int(value)
    number = float(value)
    return number if math.isfinite(number) else str(number)


def constant_array_text(array: Array) -> str | None:
    """The one number that a large array consists of, in words; None for any other array."""
    entries = without_fractions(array).reshape(-1)
    if entries.size <= MOST_EQUAL:
        return None
    if not (entries == entries[0]).all() and not all(isinstance(v, Rounding) for v in entries):
        return None
    return f"{text(entries[0])} in all {entries.size:,} entries"


def elided_places(count: int, most: int) -> list[int | None]:
    """All places, or the first and last ones with None for what is left out.

    >>> elided_places(3, 5), elided_places(9, 5)
    ([0, 1, 2], [0, 1, 2, None, 8])
    """
    if count <= most:
        return list(range(count))
    tail = max(1, most // 4)
    return [*range(most - tail - 1), None, *range(count - tail, count)]


MOST = 6
"""Arrays with more entries are told by their size and length."""
KEPT = 144
"""Entries of the largest array of which a page shows each."""


@dataclass(frozen=True)
class LargeArray:
    """What is left of a large array that was told: its shape, its Euclidean length, whether any entry is not 0."""

    shape: tuple[int, ...]
    length: float
    moves: bool

    @property
    def size(self) -> int:
        """How many entries it had."""
        return int(np.prod(self.shape, dtype=object))

    def any(self) -> bool:
        """As of an array."""
        return self.moves


def summarize(value: Any) -> Any:
    """An array as it is kept: a large one by what is said of it."""
    if value is None or isinstance(value, LargeArray) or np.size(value) <= KEPT:
        return value
    return LargeArray(np.shape(value), euclidean_norm(value), bool(np.any(value)))


def euclidean_norm(value: Any) -> float:
    """The Euclidean length of an array."""
    return value.length if isinstance(value, LargeArray) else euclidean(value)


def format_array(value: Any) -> str:
    """``[0.31 -1.2 0.77]``; a large array by its shape and Euclidean length."""
    if value is None:
        return "none"
    if np.size(value) > MOST or isinstance(value, LargeArray):
        return f"{'×'.join(map(str, value.shape))}, norm {euclidean_norm(value):.3g}"
    return format_nested_array(value)


def format_nested_array(array: Any) -> str:
    """Nested brackets, three digits."""
    array = np.asarray(array, dtype=np.float64)
    if array.ndim == 0:
        return format_digits(float(array))
    return "[" + " ".join(format_nested_array(part) for part in array) + "]"


def format_digits(value: float) -> str:
    """At most three significant digits beyond whole numbers."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value == round(value) and abs(value) < 1e6:
        return str(int(value))
    return tidy_exponents(f"{value:.3g}")


def count_noun(count: int, what: str) -> str:
    """``1 input``, ``1,000 inputs``."""
    return f"{count:,} {what}{'' if count == 1 else 's'}"
