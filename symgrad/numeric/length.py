"""The Euclidean length of an array, of numbers whose squares overflow, too.

Comes in: an array. Goes out: one number, inf or nan where an entry is.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.numeric.exact import as_float


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
