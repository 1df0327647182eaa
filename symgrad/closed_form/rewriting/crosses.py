"""Differences that go around an axis of three entries: f(i+1)·g(i+2) − f(i+2)·g(i+1), a cross product."""

from __future__ import annotations

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Cross
from symgrad.indexing.brackets import Mod
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices

AROUND = 3


def crossed(expression: Expr) -> Expr:
    """f(i+1)·g(i+2) − f(i+2)·g(i+1) → (f × g)(i), times what both terms share"""
    if not expression.is_Add or len(expression.args) != 2:
        return expression
    first, second = sorted(expression.args, key=lambda term: bool(term.could_extract_minus_sign()))
    for axis in sorted((i for i in free_indices(expression) if i.size == AROUND), key=str):
        one, two = (Mod(axis + n, AROUND) for n in (1, 2))
        factors = split_factors(first)
        sides = [[f for f in factors if f.has(place)] for place in (one, two)]
        if not all(sides) or any(f in sides[1] for f in sides[0]) or first.xreplace({one: two, two: one}) != -second:
            continue
        whole = [sp.Mul(*side).xreplace({place: axis}) for side, place in zip(sides, (one, two), strict=True)]
        return sp.Mul(*(f for f in factors if not f.has(one, two)), Cross(*whole, sp.Tuple(axis)))
    return expression


__all__ = ["crossed"]
