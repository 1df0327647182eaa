"""In which order a product is formed in floats, and what its numbers are.

Comes in: factors of SymPy. Goes out: the same in turn, remembered: the same equation is evaluated often.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from symgrad.calculus.local import SEED, TANGENT
from symgrad.indexing.symbols import Expr, is_access, name_of
from symgrad.numeric.exact import nearest_float

DIVISIONS = 4
"""The largest power below the line that is taken apart."""


@lru_cache(maxsize=1024)
def in_turn(factors: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """a·v/y² as (a) over (y, y), then (v), which is torch's order: y² may be no float where a/y² is one.

    Of all other products the factors are in the last part; seeds, tangents and numbers always are.
    """
    late = [f for f in factors if f.is_number or (is_access(f) and name_of(f) in (SEED, TANGENT))]
    early = [f for f in factors if f not in late]
    below = [f for f in early if f.is_Pow and f.exp.is_Integer and -DIVISIONS <= f.exp < 0]
    if all(f.exp == -1 for f in below):
        return (), (), factors
    above = [f for f in early if f not in below]
    return repeated(above), repeated([1 / f for f in below]), tuple(late)


def repeated(factors: Sequence[Expr]) -> tuple[Expr, ...]:
    """y, y for y²; what is no such power is as it is."""
    counts = [int(f.exp) if f.is_Pow and f.exp.is_Integer and 0 < f.exp <= DIVISIONS else 1 for f in factors]
    return tuple(part for f, n in zip(factors, counts, strict=True) for part in ([f.base] * n if n > 1 else [f]))


def real_number(node: Expr) -> int | float:
    """A constant as a number; NaN for one that is not real, as log(−2)."""
    if node.is_Integer and abs(node) < 2**63:
        return int(node)
    return nearest_float(node) if node.is_extended_real else float("nan")
