"""Where samples of an operand lie: for examples, assumed values and tests.

Not where the operation is defined: relu is sampled away from its kink at 0, a power on one side of it. What pages say
about that is found by trying (`symgrad.documents.domains`). No array is made here.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True)
class Domain:
    """Real numbers between ``low`` and ``high`` (open ends), drawn within ``draw``, away from ``avoid``.

    Whole numbers only if ``whole``, both ends of ``draw`` included. ``matrix`` says what the last two axes hold:
    a ``full`` matrix (of full rank, its singular values all different), a ``regular`` one (it has an inverse), a
    ``lower`` triangular one, a ``symmetric`` one (read as such, its eigenvalues all different), a ``definite`` one
    (with positive eigenvalues), or a ``dominant`` one (elimination exchanges none of its rows).
    """

    low: float = -inf
    high: float = inf
    draw: tuple[float, float] = (-2.0, 2.0)
    avoid: tuple[float, ...] = ()
    whole: bool = False
    matrix: str = ""

    @property
    def ends(self) -> bool:
        """Whether there are real numbers outside."""
        return not self.whole and (self.low, self.high) != (-inf, inf)


def reals(within: float = 2.0, avoid: tuple[float, ...] = ()) -> Domain:
    """All real numbers; samples lie within ±``within``, away from ``avoid``."""
    return Domain(draw=(-within, within), avoid=avoid)


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
