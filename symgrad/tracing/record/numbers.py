"""Small arrays of numbers on one line, for stories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.closed_form import tidy_exponents
from symgrad.numeric.exact import euclidean

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
