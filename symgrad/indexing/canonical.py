"""Bound indices under standard names, so that equal sums are equal objects.

Σ_j x[j] and Σ_k x[k] differ only in what the index is called. Renaming every bound index to the standard one
of its size and nesting depth makes them the same SymPy expression, and like terms then cancel or add up by
themselves. Standard indices are only ever bound; `with_fresh_sums` renames them before an expression is put
inside another, so that nothing is captured.
"""

from __future__ import annotations

from functools import lru_cache

import sympy as sp

from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, Index, fresh
from symgrad.shapes import Size

HINTS = "jklabcd"
_standard: dict[tuple[int, Size], Index] = {}


def standard_index(depth: int, size: Size) -> Index:
    """The one index that stands for a bound index of ``size`` at ``depth``."""
    key = (depth, size)
    if key not in _standard:
        _standard[key] = fresh(HINTS[depth % len(HINTS)], size)
    return _standard[key]


def _depth(expression: Expr) -> int:
    """How many bound indices are nested inside ``expression`` at most."""
    if not expression.has(sp.Sum, sp.Product):
        return 0
    inside = max((_depth(a) for a in expression.args), default=0)
    return inside + len(expression.limits) if isinstance(expression, (sp.Sum, sp.Product)) else inside


def canonical(expression: Expr) -> Expr:
    """``expression`` with every bound index under its standard name."""

    def renamed(node: Expr) -> Expr | None:
        return canonical_sum(node) if isinstance(node, (sp.Sum, sp.Product)) else None

    return rebuild(expression, renamed) if expression.has(sp.Sum, sp.Product) else expression


@lru_cache(maxsize=4096)
def canonical_sum(node: Expr) -> Expr:
    """One sum or product under standard names; formulas hold the same one many times.

    Its own indices may be standard ones already: they are set apart, so that no sum inside can catch them.
    """
    apart = {limit[0]: fresh(limit[0].name, limit[0].size) for limit in node.limits}
    body = canonical(node.function.xreplace(apart))
    depth = _depth(body)
    limits = sorted(node.limits, key=lambda limit: _first_use(body, apart[limit[0]]))
    new = {limit[0]: standard_index(depth + place, limit[0].size) for place, limit in enumerate(limits)}
    back = {apart[k]: index for k, index in new.items()}
    return node.func(body.xreplace(back), *((new[k], low, high) for k, low, high in limits))


def _first_use(body: Expr, index: Index) -> tuple[str, ...]:
    """A key that tells the bound indices of one sum apart by how they are used, not by what they are called."""
    uses = [
        f"{node.func.__name__}:{place}:{node.args[0]}"
        for node in body.atoms(sp.Indexed, sp.KroneckerDelta)
        for place, argument in enumerate(node.args[1:] if isinstance(node, sp.Indexed) else node.args)
        if index in argument.free_symbols
    ]
    return (*sorted(uses), str(index.size))
