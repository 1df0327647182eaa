"""The seeds a backward pass is tried with: every row of J where that is little, and weights that mix rows.

Ones alone are a blind test: 1ᵀJ is 0 for softmax and layer norm, and a backward that ignores v passes it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.numeric import Array

MOST_ROWS = 64
"""Outputs with more entries than this are not tried row by row."""
RANDOM = 3


def seeds(shape: tuple[int, ...], number: int) -> Iterator[tuple[str, Array]]:
    """Each basis seed (where there are few), random integers from generator ``number``, and ones, with names."""
    size = int(np.prod(shape, dtype=object))
    if size <= MOST_ROWS:
        for at in np.ndindex(*shape):
            one_hot = np.zeros(shape, dtype=np.int64)
            one_hot[at] = 1
            yield f"onehot({','.join(map(str, at))})", one_hot
    generator = np.random.default_rng(number)
    for trial in range(RANDOM):
        yield f"random integers {trial + 1}", generator.integers(-4, 5, size=shape)
    yield "ones", np.ones(shape, dtype=np.int64)
