"""Axes that are only read as one number are one axis: v @ w, and then reshaped, for Σ_n v[i,n]·w[n, number of (l,m)].

Comes in: a formula and its axes. Goes out: the same over fewer axes; None where the axes are read apart.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.indexing import Index, Ravel, fresh
from symgrad.indexing.symbols import Expr


def in_a_row(node: Expr, axes: Sequence[Index]) -> tuple[Expr, tuple[Index, ...]] | None:
    """``node`` with one index for the axes that stand nowhere but in the same `Ravel`."""
    for number in sorted(node.atoms(Ravel), key=lambda ravel: -len(ravel.indices)):
        own = number.indices
        if not all(isinstance(i, Index) and i in axes and i.size == n for i, n in zip(own, number.shape, strict=True)):
            continue
        first = list(axes).index(own[0])
        whole = fresh(own[0].name, sp.Mul(*number.shape))
        together = node.xreplace({number: whole})
        if tuple(axes[first : first + len(own)]) == own and not together.free_symbols & {*own}:
            return together, (*axes[:first], whole, *axes[first + len(own) :])
    return None


__all__ = ["in_a_row"]
