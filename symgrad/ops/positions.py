"""Positions that are data, as NumPy takes them."""

from __future__ import annotations

from typing import Any

import numpy as np


def positions(n: Any) -> Any:
    """Positions as NumPy takes them, which counts negative ones from the end."""
    return np.asarray(n).astype(np.int64)


def from_zero(n: Any) -> Any:
    """Positions where torch takes no negative ones."""
    found = positions(n)
    if found.size and found.min() < 0:
        raise IndexError(f"the position {found.min()} is negative")
    return found
