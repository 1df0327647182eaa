"""Small round numbers for worked examples: integers where the domain holds enough of them, tenths elsewhere.

Comes in: an operation and one of its examples. Goes out: a value per input and a seed, the same every time.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from math import ceil, floor, inf

import numpy as np

from symgrad.entries.domain import reals
from symgrad.numeric import Array
from symgrad.numeric.assumed import SYMMETRIC, with_diagonal
from symgrad.ops import Domain, Example, Op

PATTERN = (1, -2, 3, 2, 4, -1, -3, 5, -4, 6)
"""Signs mixed, neighbours different, no two small ones equal, and the rows of a 2×3 matrix in another order each: a
slip in a sign or an order shows, and no row is another one moved, which softmax would give the same answer."""

ORDINARY = reals().draw[1]
"""How far samples go of what takes all real numbers."""


def sample_values(op: Op, example: Example) -> Mapping[str, Array]:
    """A value for every input of ``example``."""
    values = {}
    for place, (name, shape) in enumerate(example.shapes):
        domain = op.domain_of(name if name in op.operands else op.operands[0])
        values[name] = of_kind(domain.matrix, spread(domain, shape, place, 0 if op.smooth else 9))
    return values


def of_kind(kind: str, array: Array) -> Array:
    """Small numbers as a matrix of the kind that a domain names; every kind has a large diagonal."""
    if not kind or array.ndim < 2:
        return array
    array = np.tril(array) if kind == "lower" else array + array.swapaxes(-1, -2) if kind in SYMMETRIC else array
    return with_diagonal(array, 10)


def spread(domain: Domain, shape: tuple[int, ...], shift: int, apart: int) -> Array:
    """Distinct-looking numbers in ``domain`` from one place in the pattern on, which comes again ``apart`` higher."""
    size = int(np.prod(shape, dtype=object))
    if domain.whole:
        first, last = (int(end) for end in domain.draw)
        return np.asarray([first + (i + shift) % (last - first + 1) for i in range(size)], dtype=np.int64).reshape(
            shape
        )
    low, high = (
        (ceil(domain.low + 1e-9) if domain.low > -inf else -9),
        (floor(domain.high - 1e-9) if domain.high < inf else 9),
    )
    within = [n for n in PATTERN if low <= n <= high and n not in domain.avoid]
    near = domain.low == -inf and domain.high == inf and domain.draw[1] < ORDINARY  # beyond lies little to be seen
    if len(within) >= 3 and not near:
        run = [within[(i + shift) % len(within)] + i // len(within) * (apart if high == 9 else 0) for i in range(size)]
        return np.asarray(run, dtype=np.int64).reshape(shape)
    start, end = domain.draw
    tenths = [Fraction(round(10 * (start + (end - start) * (i + 1) / (size + 1))), 10) for i in range(size)]
    return np.asarray(tenths, dtype=object).reshape(shape)


def sample_seed(shape: tuple[int, ...]) -> Array:
    """1, 2, 3, … : every weight another one, so that it can be seen where each goes."""
    return np.arange(1, int(np.prod(shape, dtype=object)) + 1, dtype=np.int64).reshape(shape)
