"""Small arrays of numbers on one line, for stories."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.closed_form import without_plus

MOST = 6
"""Arrays with more entries are told by their size and length."""


def short(value: Any) -> str:
    """``[0.31 -1.2 0.77]``; a large array by its shape and Euclidean length."""
    if value is None:
        return "none"
    array = np.asarray(value, dtype=np.float64)
    if array.size > MOST:
        with np.errstate(all="ignore"):
            length = float(np.sqrt(np.sum(array * array)))
        return f"{'×'.join(map(str, array.shape))}, length {length:.3g}"
    return written(array)


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
    return without_plus(f"{value:.3g}")
