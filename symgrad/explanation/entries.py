"""One entry written out: the index formula at given numbers, its sums expanded, symbols first and then values.

Comes in: a gradient or Jacobian and the entry's place. Goes out: an `Entry`; sums longer than ``LONGEST``
terms keep their first and last ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep
from symgrad.errors import ShapeError
from symgrad.indexing import Equation, Index, Ravel, Unravel
from symgrad.indexing.equation import rebuild
from symgrad.indexing.symbols import Expr, access, indices_of, is_access, name_of, weight
from symgrad.lowering.reading import is_mask, number
from symgrad.numeric import Array, Values, as_float, evaluate, plain
from symgrad.oracles.points import DIGITS, Point
from symgrad.shapes import with_numbers

LONGEST = 64
"""Sums of more terms are not written out."""
LARGEST = 20_000
"""Nor those whose terms have more symbols in all: nobody reads them."""
CLOSE = 1e-6
"""Terms are off from their sum by no more of their sizes than this."""


@dataclass(frozen=True)
class Entry:
    """``x.grad[at]``: ``terms`` are (symbols, value) of each summand; ``total`` the number they add up to.

    ``terms`` is empty when the sum is too long to write out, or its terms have no numbers.
    """

    name: str
    at: tuple[int, ...]
    terms: tuple[tuple[Expr, Any], ...]
    total: Any

    def __repr__(self) -> str:
        label = f"{self.name}.grad[{','.join(map(str, self.at))}]" if self.at else f"{self.name}.grad"
        number = f"{len(self.terms)} terms" if len(self.terms) != 1 else "1 term"
        return f"<{label} = {self.total}, {number}>" if self.terms else f"<{label} = {self.total}>"


def written_out(expression: Expr, sizes: Mapping[Expr, int]) -> Expr:
    """``expression`` with its sums and products expanded and its index arithmetic done; free indices are numbers."""

    def expand(node: Expr) -> Expr | None:
        if isinstance(node, (sp.Sum, sp.Product)):
            indices = [limit[0] for limit in node.limits]
            ranges = [range(number(k.size, sizes)) for k in indices]
            parts = [
                written_out(placed(node.function, dict(zip(indices, map(sp.Integer, at), strict=True))), sizes)
                for at in product(*ranges)
            ]
            return sp.Add(*parts) if isinstance(node, sp.Sum) else sp.Mul(*parts)
        if isinstance(node, Ravel):
            result = sp.S.Zero
            for index, size in zip(node.indices, node.shape, strict=True):
                result = result * number(size, sizes) + written_out(index, sizes)
            return result
        if isinstance(node, Unravel):
            shape = [number(s, sizes) for s in node.shape]
            place = written_out(node.number, sizes)
            if not place.is_Integer:
                return Unravel(node.axis, place, *shape)
            return sp.Integer(int(np.unravel_index(int(place), shape)[node.axis]))
        if isinstance(node, sp.KroneckerDelta):
            return sp.KroneckerDelta(*(written_out(a, sizes) for a in node.args))
        return None

    return rebuild(with_numbers(expression, sizes), expand)


def placed(expression: Expr, places: Mapping[Index, Expr]) -> Expr:
    """``expression`` at numbered places: 0 where a condition among factors is 0, also beside 1/0."""

    def changed(node: Expr) -> Expr | None:
        if isinstance(node, Index):
            return places.get(node)
        conditions = [a for a in node.args if is_mask(a)] if node.is_Mul else []
        return sp.S.Zero if any(a.xreplace(dict(places)) == 0 for a in conditions) else None

    return rebuild(expression, changed)


def guarded(expression: Expr) -> Expr:
    """Terms whose index condition is false are dropped, so that no access outside a tensor is left."""
    return rebuild(expression, lambda n: sp.S.Zero if n.is_Mul and any(a == 0 for a in n.args) else None)


def hold(expression: Expr, values: Values, places: Mapping[Index, Expr]) -> Expr:
    """Integers that say which entry is meant, at numbered places, as those integers.

    The forward pass found them (``n·out[i]``), or they are an input that numbers entries (``x[index[i]]``).
    """

    def known(node: Expr) -> Expr | None:
        if is_access(node):
            at = [settled(i).xreplace(dict(places)) for i in indices_of(node)]
            found = entry_of(node, at) if "·" in name_of(node) else None
            return access(name_of(node), at) if found is None else found
        if isinstance(node, (sp.KroneckerDelta, Ravel, Unravel)):
            return node.func(*(settled(a) for a in node.args))
        return None

    def settled(index: Expr) -> Expr:
        """An index with the entries in it as numbers."""

        def number_of(node: Expr) -> Expr | None:
            if not is_access(node):
                return None
            at = [settled(i).xreplace(dict(places)) for i in indices_of(node)]
            found = entry_of(node, at)
            return access(name_of(node), at) if found is None else found

        return rebuild(index, number_of)

    def entry_of(node: Expr, at: Sequence[Expr]) -> Expr | None:
        """None at places that are no numbers, or outside: a condition beside it does not hold there."""
        numbers = values[name_of(node)]
        if not all(i.is_Integer and 0 <= i < size for i, size in zip(at, numbers.shape, strict=True)):
            return None
        return sp.Integer(int(numbers[tuple(map(int, at))]))

    return rebuild(expression, known)


def entry_story(name: str, at: tuple[int, ...], sweep: Sweep, value: Array, values: Values, seed: str) -> Entry:
    """The story of ``x.grad[at]``, whose formula is in ``sweep``; raises `ShapeError` when there is no such entry."""
    shape = value.shape
    if len(at) != len(shape) or not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise ShapeError(
            f"{name}.grad has no entry {list(at)}",
            found=(f"its shape is {'×'.join(map(str, shape)) or 'a scalar'}",),
        )
    places = dict(zip(sweep.equation.axes, map(sp.Integer, at), strict=True))
    total = plain(value)[at]
    formula = placed(hold(sweep.equation.right, values, places), places)
    terms = terms_in(formula, values.sizes)
    if not sweep.whole or terms > LONGEST or terms * weight(formula) > LARGEST:
        return Entry(name, at, (), total)
    sizes = values.sizes
    expanded = guarded(written_out(hold(written_out(formula, sizes), values, {}), sizes))
    found = [t for t in sp.Add.make_args(expanded) if t != 0]
    found.sort(key=lambda term: _seed_place(term, seed))
    return Entry(name, at, tuple(zip(found, term_values(found, values, total), strict=False)), total)


def terms_in(expression: Expr, sizes: Mapping[Expr, int]) -> int:
    """How many terms writing out all sums takes."""
    count = 1
    for node in expression.atoms(sp.Sum, sp.Product):
        for limit in node.limits:
            count *= max(1, number(limit[0].size, sizes))
    return count * len(sp.Add.make_args(expression))


def term_values(terms: Sequence[Expr], values: Values, total: Any) -> list[Any]:
    """The number of each written-out term; none where they do not add up to the ``total``.

    The formula as a whole is computed so that nothing overflows, ``softmax`` say; its terms, one by one, are not:
    ``exp(800) / (exp(800) + exp(801))`` takes more than floats.
    """
    found = [value_of(term, values) for term in terms]
    if not np.isfinite(as_float(total)) or add_up(found, total):
        return found
    found = [in_digits(term, values) for term in terms]
    return found if add_up(found, total) else []


def add_up(found: Sequence[Any], total: Any) -> bool:
    """Whether numbers add up to the ``total``, but for rounding."""
    each, whole = as_float(found), as_float(total)
    with np.errstate(invalid="ignore", over="ignore", under="ignore"):
        size = max(np.abs(each).sum(), np.abs(whole), np.finfo(float).tiny)
        return bool(np.isfinite(size) and np.abs(each.sum() - whole) <= CLOSE * size)


def value_of(term: Expr, values: Values) -> Any:
    """The number of one written-out term."""
    found = plain(evaluate(Equation((), term), values.arrays, values.sizes))
    return found[()]


def in_digits(term: Expr, values: Values) -> float:
    """The number of one written-out term, computed where nothing overflows; NaN where it has none."""
    known = {
        node: sp.Float(float(value_of(node, values)), DIGITS) for node in sp.preorder_traversal(term)
        if is_access(node) or is_mask(node)
    }  # fmt: skip
    return float(Point(known).value(term))


def _seed_place(term: Expr, seed: str) -> tuple[Any, ...]:
    """Terms in the order of the weights they carry."""
    at = [
        tuple(int(i) for i in indices_of(n)) for n in sp.preorder_traversal(term) if is_access(n) and name_of(n) == seed
    ]
    return (min(at) if at else (), str(term))
