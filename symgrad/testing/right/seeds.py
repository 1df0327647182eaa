"""The seeds a backward pass is tried with: every row of J where that is little, weights that mix rows, and blind ones.

Ones alone are a blind test: 1ᵀJ is 0 for softmax and layer norm, and a backward that ignores v passes it. Zeros have to
give zeros, and so has a v of the left null space of J. Whole numbers alone are blind, too: a backward that rounds v,
casts it to a type with fewer digits, clips it or drops what is small gives the same for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.numeric import Array
from symgrad.testing.right.rounding import LARGEST, LEAST, rounded

MOST_ROWS = 64
"""Outputs with more entries than this are not tried row by row."""
SOME = 8
RANK = 1e-9
TIMES = ((1.0,), (-(2.0**12), -(2.0**6), -(2.0**3)), (2.0**-12, 2.0**-6, 2.0**-3))
"""What the random seed with all its digits is multiplied by: the first of which the type holds what comes back."""
ROOM = 64
"""How far from the largest and the smallest number of the type gradients have to stay: more may stand on the way."""


@dataclass(frozen=True, eq=False)
class Weights:
    """A seed for each output, and what the whole is called."""

    name: str
    seeds: tuple[Array, ...]
    basic: bool = False
    """Whether it is 1 in one place and 0 elsewhere."""


def seeds(shapes: Sequence[tuple[int, ...]], number: int) -> Iterator[Weights]:
    """Random integers from generator ``number``, the basis (some of it, where it is large), zeros and ones."""
    generator = np.random.default_rng(number)
    yield Weights("random integers", tuple(drawn_integers(generator, shape, 4) for shape in shapes))
    sizes = [int(np.prod(shape, dtype=object)) for shape in shapes]
    places = [(n, at) for n, shape in enumerate(shapes) for at in range(sizes[n])]
    if len(places) > MOST_ROWS:
        chosen = generator.choice(len(places), size=SOME, replace=False)
        places = [places[int(n)] for n in sorted(chosen)]
    for n, at in places:
        found = tuple(np.zeros(shape) for shape in shapes)
        found[n].reshape(-1)[at] = 1.0
        where = ",".join(str(int(i)) for i in np.unravel_index(at, shapes[n])) if shapes[n] else ""
        which = f"output {n + 1}: " if len(shapes) > 1 else ""
        yield Weights(f"{which}onehot({where})" if where else f"{which}1", found, True)
    yield Weights("zeros", tuple(np.zeros(shape) for shape in shapes))
    if sum(sizes) > MOST_ROWS:
        yield Weights("ones", tuple(np.ones(shape) for shape in shapes))


def drawn_integers(generator: np.random.Generator, shape: tuple[int, ...], largest: int) -> Array:
    """Whole numbers, none of them 0: an entry with the weight 0 hides what is wrong there."""
    found = generator.integers(-largest, largest + 1, size=shape)
    return np.where(found == 0, largest + 1, found).astype(np.float64)


def real_seeds(
    shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str], number: int, coarsest: str, reach: float
) -> Iterator[Weights]:
    """Random numbers with all digits of the outputs' types, their large and small multiples; ``reach`` is max Σ|J|."""
    generator = np.random.default_rng(number + 4)
    low, high = ROOM * LEAST.get(coarsest, 0.0), LARGEST.get(coarsest, np.inf) / ROOM
    drawn = [generator.uniform(0.25, 2.0, shape) * generator.choice((-1.0, 1.0), shape) for shape in shapes]
    for sizes in TIMES:
        size = next((s for s in sizes if not reach or low <= abs(s) * reach <= high), 0.0)
        if size:
            told = tuple(size * rounded(a, dtype) for a, dtype in zip(drawn, dtypes, strict=True))
            by = "" if size == 1 else f" times {size:g}" if abs(size) > 1 else f" divided by {1 / size:g}"
            yield Weights(f"random numbers{by}", told)


def null_seed(rows: Mapping[str, Array], shapes: Sequence[tuple[int, ...]], dtypes: Sequence[str]) -> Weights | None:
    """A v with vᵀJ = 0 but for rounding, from the rows of J by every input; None where there is only 0."""
    flat = [array.reshape(len(array), -1) for array in rows.values()]
    matrix = np.concatenate(flat, 1) if flat else np.zeros((0, 0))
    if not matrix.size or not np.isfinite(matrix).all():
        return None
    left, singular, _ = np.linalg.svd(matrix)
    rank = int((singular > RANK * max(1.0, singular.max(initial=0.0))).sum())
    if rank >= len(matrix):
        return None
    vector, parts, begin = left[:, -1], [], 0
    vector = vector / np.abs(vector).max()
    for shape, dtype in zip(shapes, dtypes, strict=True):
        size = int(np.prod(shape, dtype=object))
        parts.append(rounded(vector[begin : begin + size].reshape(shape), dtype))
        begin += size
    return Weights("a v with vᵀJ = 0", tuple(parts))
