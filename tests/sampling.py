"""Arrays to test with: drawn from what an operation says about its domain, from a seed, never only ones.

Entries lie on both sides of every point that the domain avoids (a kink), at a distance from it.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

MARGIN = 0.05
"""How near to a kink samples may come, as a share of the interval they are drawn from."""


def seed_of(text: str) -> int:
    """A seed that belongs to a test's name, the same in every run."""
    return zlib.crc32(text.encode())


def intervals(domain: Any) -> list[tuple[float, float]]:
    """What is left of the interval to draw from when the points to avoid are cut out."""
    low, high = domain.draw
    margin = (high - low) * MARGIN
    edges = [low, *(edge for point in sorted(domain.avoid) for edge in (point - margin, point + margin)), high]
    return [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if a < b]


def draw(domain: Any, shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """An array in the domain; consecutive entries take the sides of its kinks in turn, so that none is left out."""
    count = int(np.prod(shape, dtype=np.int64))
    if domain.whole:
        first, last = (int(end) for end in domain.draw)
        return generator.integers(first, last + 1, size=tuple(shape))
    parts = intervals(domain)
    places = np.arange(count) + int(generator.integers(len(parts)))
    lows, highs = (np.array([part[side] for part in parts])[places % len(parts)] for side in (0, 1))
    # Evenly spaced and then shifted a little: all different, with a gap between any two.
    shares = (generator.permutation(count) + generator.uniform(0.25, 0.75, size=count)) / max(count, 1)
    return of_kind(domain.matrix, (lows + (highs - lows) * shares).reshape(tuple(shape)))


def of_kind(kind: str, array: np.ndarray) -> np.ndarray:
    """The array as a matrix of the kind that `Domain` names; one that is not square stays what it is."""
    if not kind or array.ndim < 2 or (kind != "full" and array.shape[-1] != array.shape[-2]):
        return array
    rows, columns = array.shape[-2:]
    diagonal = 2.0 * np.diag(np.arange(1, max(rows, columns) + 1))[:rows, :columns]
    if kind == "dominant":
        array = array / 4
    if kind == "lower":
        return np.tril(array) + diagonal
    if kind == "symmetric":
        array = (array + array.swapaxes(-1, -2)) / 2
    elif kind == "definite":
        array = array @ array.swapaxes(-1, -2) / columns
    return array + diagonal


def draw_inputs(op: Any, shapes: Mapping[str, Sequence[int]], seed: int) -> dict[str, np.ndarray]:
    """One array per input of an example, each in the domain that the operation gives it."""
    generator = np.random.default_rng(seed)
    return {name: draw(op.domain_of(name), shape, generator) for name, shape in shapes.items()}


def random_seed(shape: Sequence[int], generator: np.random.Generator) -> np.ndarray:
    """Small random integers to weigh outputs with: not all equal, where there is more than one."""
    weights = generator.integers(-3, 4, size=tuple(shape))
    if weights.size > 1 and (weights == weights.reshape(-1)[0]).all():
        weights.reshape(-1)[0] += 1
    return weights
