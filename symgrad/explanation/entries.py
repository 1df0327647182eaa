"""One entry written out: the index formula at given numbers, its sums expanded, symbols first and then values.

Comes in: a gradient or Jacobian and the entry's place. Goes out: an `Entry`; sums longer than ``LONGEST``
terms keep their first and last ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep
from symgrad.errors import ShapeError
from symgrad.indexing import Equation
from symgrad.indexing.symbols import Expr, indices_of, is_access, name_of, weight
from symgrad.lowering.reading import is_mask, number
from symgrad.numeric import Array, Values, as_float, evaluate, plain, written_out
from symgrad.oracles.points import DIGITS, Point

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


def entry_story(name: str, at: tuple[int, ...], sweep: Sweep, value: Array, values: Values, seed: str) -> Entry:
    """The story of ``x.grad[at]``, whose formula is in ``sweep``; raises `ShapeError` when there is no such entry."""
    shape = value.shape
    if len(at) != len(shape) or not all(0 <= i < n for i, n in zip(at, shape, strict=True)):
        raise ShapeError(
            f"{name}.grad has no entry {list(at)}",
            found=(f"its shape is {'×'.join(map(str, shape)) or 'a scalar'}",),
        )
    total, formula = plain(value)[at], sweep.equation.right
    terms = terms_in(formula, values.sizes)
    if not sweep.whole or terms > LONGEST or terms * weight(formula) > LARGEST:
        return Entry(name, at, (), total)
    expanded = written_out(formula, dict(zip(sweep.equation.axes, at, strict=True)), values)
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
