"""Hessians that subtract t·tᵀ: what is multiplied with its own transpose has a name, as p in diag(p) − p·pᵀ.

    δ(p, q)·f(p) − f(p)·f(q)          →  p.diag() - p[:, None] * p          with p = f
    δ(p, q) / s − x(p)·x(q) / s³      →  (eye(n) - u[:, None] * u) / s      with u = x / s

Comes in: a sum of terms. Goes out: the same, with `Once` around what gets the name.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Once
from symgrad.indexing import Index
from symgrad.indexing.canonical import canonical
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, is_access


def squared(expression: Expr) -> Expr:
    """c·f(p)·f(q) → c·t(p)·t(q), t named, where it is one term of several"""
    indices = free_indices(expression) if expression.is_Add else frozenset[Index]()
    if len(indices) != 2:
        return expression
    p, q = sorted(indices, key=str)
    for term in expression.args:
        found = square_of(term, p, q)
        if found is None:
            continue
        rest, root = found
        at = {i: Once(root.xreplace({p: i})) for i in (p, q)}
        others = [shared(t, at) for t in expression.args if t is not term]
        return sp.Add(*others, rest * at[p] * at[q])
    return expression


def square_of(term: Expr, p: Index, q: Index) -> tuple[Expr, Expr] | None:
    """c and f(p) of c·f(p)·f(q), where f is more than an entry."""
    parts: dict[frozenset[Index], list[Expr]] = {}
    for factor in split_factors(term):
        parts.setdefault(free_indices(factor), []).append(factor)
    first, second, numbers = (parts.pop(frozenset(of), []) for of in ({p}, {q}, ()))
    if parts or p.size != q.size or len(first) + len(second) < 2:
        return None
    first, second = canonical(sp.Mul(*first)), canonical(sp.Mul(*second))
    if first.xreplace({p: q}) != second:
        return None
    halves = [half for factor in numbers if (half := halved(factor)) is not None]
    root = canonical(sp.Mul(first, *halves))
    rest = sp.Mul(*numbers) / sp.Mul(*halves) ** 2
    return None if is_access(root) or isinstance(root, Once) else (rest, root)


def halved(factor: Expr) -> Expr | None:
    """The root of what is divided by twice, 1 / s of 1 / s³, and e^(a/2) of e^a."""
    base, power = factor.as_base_exp()
    if isinstance(factor, sp.exp):
        return sp.exp(factor.exp / 2)
    if base.is_number or not power.is_Integer or power > -2:
        return None
    return base ** -(int(-power) // 2)


def shared(term: Expr, at: dict[Index, Expr]) -> Expr:
    """A term with a named part in the place of its factors, if all of them are among the term's."""
    factors = split_factors(term)
    for named in at.values():
        wanted = split_factors(named.args[0])
        if all(factors.count(f) >= wanted.count(f) for f in wanted) and free_indices(sp.Mul(*wanted)):
            return named * sp.Mul(*without(factors, wanted))
    return term


def without(factors: Sequence[Expr], used: Sequence[Expr]) -> list[Expr]:
    """Factors less those that are used."""
    left = list(factors)
    for factor in used:
        left.remove(factor)
    return left
