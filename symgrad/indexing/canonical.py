"""Bound indices under standard names, so that equal sums are equal objects.

Σ_j x[j] and Σ_k x[k] differ only in what the index is called. Renaming every bound index to the standard one
of its size and nesting depth makes them the same SymPy expression, and like terms then cancel or add up by
themselves. Standard indices are only ever bound; `with_fresh_sums` renames them before an expression is put
inside another, so that nothing is captured.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import sympy as sp

from symgrad.indexing.equation import rebuild
from symgrad.indexing.relabel import like, relabel
from symgrad.indexing.sums import put_in
from symgrad.indexing.symbols import Expr, Index, free_indices, fresh, over
from symgrad.shapes import Size

HINTS = "jklabcd"
_standard: dict[tuple[int, Size], Index] = {}
_places: dict[Index, int] = {}
"""How deep the sums of each standard index nest."""


def standard_index(depth: int, size: Size) -> Index:
    """The one index that stands for a bound index of ``size`` at ``depth``."""
    key = (depth, size)
    if key not in _standard:
        _standard[key] = fresh(HINTS[depth % len(HINTS)], size)
        _places[_standard[key]] = depth
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

    return rebuild(expression, renamed, _remade) if expression.has(sp.Sum, sp.Product) else expression


def canonical_at(at: Sequence[Expr], axes: Sequence[Index], expression: Expr) -> Expr:
    """``expression`` with the places ``at`` on its axes."""
    return canonical(put_in(expression, dict(zip(axes, at, strict=True))))


def _remade(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` on the canonical forms of its arguments, where terms may have become alike."""
    if node.is_Mul:
        apart = {a.as_base_exp()[0] for a in args}
    else:
        apart = {a.as_coeff_Mul()[1] for a in args} if node.is_Add else set(args)
    return like(node, args) if len(apart) == len(args) else node.func(*args)


@lru_cache(maxsize=1024)
def canonical_sum(node: Expr) -> Expr:
    """One sum or product under standard names; formulas hold the same one many times."""
    own, body = _out_of_reach(node)
    body = canonical(body)
    if body == 0 and isinstance(node, sp.Sum):
        return sp.S.Zero
    depth = _depth(body)
    limits = sorted(zip(own, node.limits, strict=True), key=lambda pair: _first_use(body, pair[0]))
    new = {index: standard_index(depth + place, index.size) for place, (index, _) in enumerate(limits)}
    renamed = (sp.Tuple(new[k], *limit[1:]) for k, limit in limits)
    return over(node.func, relabel(body, new), *renamed)


def _out_of_reach(node: Expr) -> tuple[tuple[Index, ...], Expr]:
    """A sum's own indices and its body, under names that no sum inside will get: it would catch them."""
    own = tuple(limit[0] for limit in node.limits)
    places = [_places[index] for index in own if index in _places]
    if not places or min(places) >= _depth(node.function):
        return own, node.function
    apart = {index: fresh(index.name, index.size) for index in own}
    return tuple(apart.values()), relabel(node.function, apart)


def _first_use(body: Expr, index: Index) -> tuple[str, ...]:
    """A key that tells the bound indices of one sum apart by how they are used, not by what they are called."""
    uses = [
        f"{node.func.__name__}:{place}:{node.args[0]}"
        for node in body.atoms(sp.Indexed, sp.KroneckerDelta)
        for place, argument in enumerate(node.args[1:] if isinstance(node, sp.Indexed) else node.args)
        if index in free_indices(argument)
    ]
    return (*sorted(uses), str(index.size))
