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
class Large:
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


def brief(value: Any) -> Any:
    """An array as it is kept: a large one by what is said of it."""
    if value is None or isinstance(value, Large) or np.size(value) <= KEPT:
        return value
    return Large(np.shape(value), length_of(value), bool(np.any(value)))


def length_of(value: Any) -> float:
    """The Euclidean length of an array."""
    return value.length if isinstance(value, Large) else euclidean(value)


def short(value: Any) -> str:
    """``[0.31 -1.2 0.77]``; a large array by its shape and Euclidean length."""
    if value is None:
        return "none"
    if np.size(value) > MOST or isinstance(value, Large):
        return f"{'×'.join(map(str, value.shape))}, norm {length_of(value):.3g}"
    return written(value)


def written(array: Any) -> str:
    """Nested brackets, three digits."""
    array = np.asarray(array, dtype=np.float64)
    if array.ndim == 0:
        return digits(float(array))
    return "[" + " ".join(written(part) for part in array) + "]"


def digits(value: float) -> str:
    """At most three significant digits beyond whole numbers."""
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    if value == round(value) and abs(value) < 1e6:
        return str(int(value))
    return tidy_exponents(f"{value:.3g}")
