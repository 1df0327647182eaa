"""Axes that are only read as one number are one axis: v @ w, and then reshaped, for Σ_n v[i,n]·w[n, number of (l,m)].

Comes in: a formula and its axes. Goes out: the same over fewer axes; None where the axes are read apart. The other way
round, an axis that is only read as a number of several is those: `numbered_apart`.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.indexing import Index, Ravel, Unravel, add_up, fresh
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


def numbered_apart(expression: Expr) -> Expr:
    """Σ_j f(⌊j / n⌋, j mod n, j) → Σ_k Σ_l f(k, l, k·n + l), where j is the row-major number of (k, l)"""
    if type(expression) is not sp.Sum:
        return expression
    for limit in expression.limits:
        j = limit[0]
        shapes = {u.shape for u in expression.function.atoms(Unravel) if u.number == j}
        if len(shapes) != 1 or sp.expand(sp.Mul(*(shape := shapes.pop())) - j.size) != 0:
            continue
        parts = [sp.S.Zero if size == 1 else fresh(str(j.name), size) for size in shape]
        body = expression.function.xreplace({u: parts[u.axis] for u in expression.atoms(Unravel) if u.number == j})
        body = body.xreplace({j: Ravel(*parts, *shape)})
        others = [other[0] for other in expression.limits if other[0] != j]
        return add_up(body, [*others, *(part for part in parts if isinstance(part, Index))])
    return expression
