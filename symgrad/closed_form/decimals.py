"""Decimals as they are written, and roots among them: 2.8284271247461903 is what a program computed of ``8 ** 0.5``.

Comes in: a float. Goes out: its text, or the whole number, where Python's own root of it is that very float.
"""

from __future__ import annotations

import re
from math import isfinite, isqrt

from symgrad.closed_form.pieces import NoForm
from symgrad.indexing.symbols import Expr

LARGEST = 10**6
"""Whole numbers up to here are sizes that somebody took the root of."""


def root_of(value: float) -> int | None:
    """n, where ``value`` is n ** 0.5 to the last digit and no whole number.

    >>> root_of(2.8284271247461903), root_of(2.8284), root_of(3.0)
    (8, None, None)
    """
    if not 1 < value <= LARGEST**0.5:
        return None
    n = round(value * value)
    return n if n**0.5 == value and isqrt(n) ** 2 != n else None


def root_below(value: float) -> int | None:
    """n, where ``value`` is 1 / n ** 0.5 to the last digit.

    >>> root_below(0.35355339059327373), root_below(0.125)
    (8, None)
    """
    if not 1 / LARGEST**0.5 <= value < 1:
        return None
    n = round(1 / (value * value))
    return n if 1 / n**0.5 == value and isqrt(n) ** 2 != n else None


def written(value: float) -> str:
    """A number as people write it: 1e30, where Python has 1e+30.

    >>> written(-1e30), written(0.25), written(1e-05), written(3)
    ('-1e30', '0.25', '1e-05', '3')
    """
    return without_plus(repr(value))


def without_plus(text: str) -> str:
    """Python's text with its numbers as people write them.

    >>> without_plus("x * -1e+30 + e")
    'x * -1e30 + e'
    """
    return re.sub(r"(?<=\de)\+(?=\d)", "", text)


def decimal_text(number: Expr) -> str:
    """A decimal as Python writes it; 1e308 · 1e308 is none."""
    value = float(number)
    if not isfinite(value):
        raise NoForm
    return written(value)
