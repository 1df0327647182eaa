"""Positions that are data, as NumPy takes them."""

from __future__ import annotations

from typing import Any

import numpy as np


def positions(n: Any) -> Any:
    """Positions as NumPy takes them, which counts negative ones from the end; a fraction is none."""
    given = np.asarray(n)
    with np.errstate(invalid="ignore"):  # NaN and ∞ are no whole numbers either
        found = given.astype(np.int64)
    if (found != given).any():
        raise IndexError(f"the position {given[found != given][0]} is no whole number")
    return found


def from_zero(n: Any) -> Any:
    """Positions where torch takes no negative ones."""
    found = positions(n)
    if found.size and found.min() < 0:
        raise IndexError(f"the position {found.min()} is negative")
    return found
