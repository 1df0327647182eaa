"""What eigenvectors turn by: 1 / (w[k] − w[l]), 0 on the diagonal, and matrices that are symmetrised with it."""

from __future__ import annotations

from itertools import permutations

import sympy as sp

from symgrad.closed_form.rewriting.merging import taken_apart
from symgrad.closed_form.rewriting.shorthands import Apart
from symgrad.indexing import Bracket, Index, summed
from symgrad.indexing.canonical import canonical
from symgrad.indexing.equation import with_fresh_sums
from symgrad.indexing.symbols import Expr, free_indices


def reciprocal_gap(expression: Expr) -> Expr:
    """[l ≠ k] / (f(k) − f(l)) → K[l,k]"""
    guards = [f for f in sp.Mul.make_args(expression) if isinstance(f, Bracket) and isinstance(f.args[0], sp.Ne)]
    for guard in guards if expression.is_Mul else ():
        for below in expression.args:
            gap = gap_of(below.base, *guard.args[0].args) if below.is_Pow and below.exp == -1 else None
            if gap is not None:
                return sp.Mul(gap, *(f for f in expression.args if f not in (guard, below)))
    return expression


def gap_of(difference: Expr, k: Expr, other: Expr) -> Expr | None:
    """`Apart` of what is f(k) − f(l), or None."""
    if not (isinstance(k, Index) and isinstance(other, Index) and difference.is_Add and len(difference.args) == 2):
        return None
    minus, plus = sorted(difference.args, key=lambda term: not term.could_extract_minus_sign())
    return Apart(plus, -minus) if exchanged(plus, k, other) == -minus else None


def exchanged(expression: Expr, k: Index, other: Index) -> Expr:
    """``expression`` with two indices in each other's place."""
    return expression.xreplace({k: other, other: k})


def symmetrised(expression: Expr) -> Expr:
    """Σ_kl f(k, l)·(g(k, l) + g(l, k)) → Σ_kl (f(k, l) + f(l, k))·g(k, l), where K is a factor of f"""
    if not expression.has(Apart):
        return expression
    factors, bound = taken_apart(with_fresh_sums(expression))
    for sides in (f for f in factors if f.is_Add and len(f.args) == 2):
        for k, other in permutations(bound, 2):
            if k.size != other.size or exchanged(sides.args[0], k, other) != sides.args[1]:
                continue
            rest = [f for f in factors if f is not sides]
            inner = [i for i in bound if i not in (k, other)]
            if free_indices(sides) & set(inner):
                continue
            within = [f for f in rest if free_indices(f) & set(inner)]
            once = sp.Mul(*(f for f in rest if f not in within), summed(sp.Mul(*within), inner))
            both = canonical(once) + canonical(exchanged(once, k, other))
            return summed(both * sides.args[0], [k, other])
    return expression
