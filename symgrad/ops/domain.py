"""Where an operation is defined, and where samples for tests may lie.

Comes in: an interval per operand, and points to keep away from. Goes out: a sentence for messages, and
the bounds that sampling draws between (`symgrad.numeric.sampling`); no array is made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

MATRICES = {
    "full": "{name} has full rank",
    "regular": "{name} has an inverse",
    "lower": "{name} is lower triangular",
    "symmetric": "{name} is symmetric",
    "dominant": "{name} has its largest entries on the diagonal",
    "definite": "{name} is symmetric and positive definite",
}


@dataclass(frozen=True)
class Domain:
    """Real numbers between ``low`` and ``high`` (open ends), drawn within ``draw``, away from ``avoid``.

    Whole numbers only if ``whole``, both ends of ``draw`` included. ``matrix`` says what the last two axes hold:
    a ``full`` matrix (of full rank, its singular values all different), a ``regular`` one (it has an inverse), a
    ``lower`` triangular one, a ``symmetric`` one (read as such, its eigenvalues all different), a ``definite`` one (with positive eigenvalues),
    or a ``dominant`` one (elimination exchanges none of its rows).
    """

    low: float = -inf
    high: float = inf
    draw: tuple[float, float] = (-2.0, 2.0)
    avoid: tuple[float, ...] = ()
    distinct: bool = False
    whole: bool = False
    matrix: str = ""

    def sentence(self, name: str) -> str:
        """``x > 0`` and the like, or an empty string for all reals."""
        parts = []
        if self.low > -inf:
            parts.append(f"{name} > {self.low:g}")
        if self.high < inf:
            parts.append(f"{name} < {self.high:g}")
        parts += [f"{name} ≠ {point:g}" for point in self.avoid]
        parts += [MATRICES[self.matrix].format(name=name)] if self.matrix else []
        return " and ".join(parts)


def reals(within: float = 2.0, avoid: tuple[float, ...] = (), distinct: bool = False) -> Domain:
    """All real numbers; samples lie within ±``within``, away from ``avoid``, all different if ``distinct``."""
    return Domain(draw=(-within, within), avoid=avoid, distinct=distinct)


def positive(within: float = 3.0) -> Domain:
    """x > 0; samples between 0.3 and ``within``."""
    return Domain(low=0.0, draw=(0.3, within))


def between(low: float, high: float) -> Domain:
    """low < x < high; samples keep a tenth of the width away from the ends."""
    margin = (high - low) / 10
    return Domain(low, high, draw=(low + margin, high - margin))


def whole(low: int, high: int) -> Domain:
    """The whole numbers low, …, high: positions, classes, a mask."""
    return Domain(low - 0.5, high + 0.5, draw=(low, high), whole=True)


def matrices(kind: str) -> Domain:
    """Matrices of a ``kind`` that `Domain` knows."""
    return Domain(matrix=kind)
