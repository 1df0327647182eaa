"""Entries that are written at positions: each of them once, or no equation says which value stays."""

from __future__ import annotations

from typing import Any

import numpy as np


class WrittenTwice(Exception):
    """An entry that is written more than once: which value stays is a matter of the order."""


def once(shape: tuple[int, ...], places: tuple[Any, ...]) -> tuple[Any, ...]:
    """``places`` in a tensor of this shape; raises `WrittenTwice` where two of them meet."""
    count = np.zeros(shape, dtype=int)
    np.add.at(count, places, 1)
    if count.max(initial=0) > 1:
        raise WrittenTwice(f"at {', '.join(map(str, np.argwhere(count > 1)[0]))}")
    return places
