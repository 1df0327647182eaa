"""Of many places some at which a change counts, found by halving.

Comes in: places, and whether a change of an array counts. Goes out: a few of the places, one that counts at the head.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from symgrad.numeric import Array

Place = tuple[int, ...]
TRIED = 8
"""Entries of one step that are tried before nothing is said of it."""


def counting(places: Sequence[Place], shape: Place, counts: Callable[[Array], bool]) -> list[Place]:
    """Some of ``places``, the first of those where a change counts at the head: they are halved until one is left."""
    drawn = np.random.default_rng(6).uniform(0.5, 1.5, len(places))

    def change(some: Sequence[int]) -> Array:
        array: Array = np.zeros(shape)
        for n in some:
            array[places[n]] = drawn[n]
        return array

    left = list(range(len(places)))
    if not left or not counts(change(left)):
        return []
    while len(left) > 1:
        half = left[: len(left) // 2]
        left = half if counts(change(half)) else left[len(left) // 2 :]
    return list(places[left[0] : left[0] + TRIED])
