"""What an expression is made of, as far as lowering it depends on that: what it reads, what its functions are called.

Comes in: the right-hand side of an equation, or a relation between index expressions and the numbers of sizes. Goes
out: answers, remembered, since the same equation is evaluated again and again; tables from SymPy's classes to the names
of the primitives in `symgrad.lowering.arrays`, which are those of the rows in `symgrad.functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy as sp

from symgrad.errors import bug
from symgrad.functions import FLOATS_HOLD, PRIMITIVES, finite, high, low, number_or_zero, sign
from symgrad.indexing import Bracket, Index, Ravel, Unravel, bound_indices, with_fresh_sums
from symgrad.indexing.symbols import Expr, is_access, name_of
from symgrad.shapes import Size, fill_sizes

RELATIONS = {
    sp.Eq: "equal", sp.Ne: "not_equal", sp.Lt: "less", sp.Le: "less_equal", sp.Gt: "greater", sp.Ge: "greater_equal",
}  # fmt: skip
FUNCTIONS: dict[Any, str] = {
    symbolic: name
    for name, (symbolic, _) in PRIMITIVES.items()
    if isinstance(symbolic, type) and symbolic is not sp.exp
}
"""Functions of floats; a power of e has rules of its own."""
EITHER: dict[Any, str] = {
    sp.Abs: "abs", sp.sign: "sign", sign: "sign", sp.floor: "floor", sp.Max: "maximum", high: "high", low: "low",
}  # fmt: skip
"""Functions that leave whole numbers whole, and exact ones exact."""
FINITE = (finite, high, low, number_or_zero)
"""Functions that ask whether a number is one: of an entry that is, they say nothing."""
MOST_FACTORS = 8
"""A power up to this one is a product."""


def real_number(node: Expr) -> int | float:
    """A constant as a number: ±∞ where it is beyond floats, NaN where it is not real, as log(−2)."""
    if node.is_Integer and abs(node) < FLOATS_HOLD:
        return int(node)
    try:
        return float(node) if node.is_extended_real else math.nan
    except OverflowError:
        return math.copysign(math.inf, sp.sign(node))


@lru_cache(maxsize=1024)
def names_read(expression: Expr) -> tuple[str, ...]:
    """The tensors that are read, in order of appearance."""
    return tuple(dict.fromkeys(name_of(node) for node in sp.preorder_traversal(expression) if is_access(node)))


RATIONAL: Any = (
    sp.Add, sp.Mul, sp.Sum, sp.Product, sp.KroneckerDelta, Bracket, sp.Tuple, Ravel, Unravel, sp.Mod,
    sp.Abs, sp.sign, sign, high, low, sp.floor, sp.Max, sp.Eq, sp.Ne, sp.Lt, sp.Le, sp.Gt, sp.Ge,
)  # fmt: skip


@lru_cache(maxsize=1024)
def is_rational(expression: Expr) -> bool:
    """Whether rational numbers in give rational numbers out."""
    if is_access(expression) or expression.is_Symbol or expression.is_Rational:
        return True
    if expression.is_number:
        return False
    if expression.is_Pow:
        return bool(expression.exp.is_Integer) and is_rational(expression.base)
    return isinstance(expression, RATIONAL) and all(is_rational(a) for a in expression.args)


def is_mask(node: Expr) -> bool:
    """Whether ``node`` is made of conditions alone: where it is 0, so is the product, whatever stands beside it."""
    if node.is_Add or node.is_Mul:
        return all(part.is_Rational or is_mask(part) for part in node.args)
    return isinstance(node, (Bracket, sp.KroneckerDelta))


@lru_cache(maxsize=1024)
def masks_apart(factors: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...]]:
    """The factors that are made of conditions alone, and the others."""
    return tuple(f for f in factors if is_mask(f)), tuple(f for f in factors if not is_mask(f))


@lru_cache(maxsize=1024)
def in_order(terms: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The terms of a sum in an order that loses nothing: numbers last, conditions and what they cancel by themselves.

    x − x + ε is ε to the last digit, and so is ε·[c] + 1 − [c] where c holds.
    """
    counted = [part for part in terms if part.is_Integer or is_mask(part)]
    if len(counted) in (1, len(terms)):
        counted = []
    rest = sorted((part for part in terms if part not in counted), key=lambda part: bool(part.is_number))
    return (*rest, sp.Add(*counted)) if counted else tuple(rest)


def flat(function: Expr, bound: list[Index]) -> tuple[Expr, list[Index]]:
    """Σ_i c(i)·Σ_j f(i,j) as Σ_i,j c(i)·f(i,j) where conditions or deltas stand among the factors."""
    factors = sp.Mul.make_args(function)
    sums = [f for f in factors if isinstance(f, sp.Sum)]
    if len(sums) != 1:
        return function, bound
    others = [f for f in factors if f is not sums[0]]
    inner = [limit[0] for limit in sums[0].limits]
    every = (*others, *sp.Mul.make_args(sums[0].function))
    if set(inner) & set(bound) or not any(isinstance(f, (Bracket, sp.KroneckerDelta)) for f in every):
        return function, bound
    if any(not bound_indices(f).isdisjoint(inner) for f in others):  # they bind the same names: these are theirs alone
        return flat(sp.Mul(*others, with_fresh_sums(sums[0])), bound)
    return flat(sp.Mul(*others, sums[0].function), [*bound, *inner])


def number(size: Size, sizes: Mapping[Size, int]) -> int:
    """A size as a number."""
    if size.is_Integer:
        return int(size)
    if size in sizes:
        return int(sizes[size])
    value = fill_sizes(size, sizes)
    if not value.is_Integer:
        raise bug(f"the size {size} has no value")
    return int(value)


def scatter_target(d: Expr, bound: Sequence[Index], factors: Sequence[Expr]) -> tuple[tuple[Index, ...], Expr] | None:
    """(p, f) for δ(f(i), p) where i is summed over and p is an index, or numbers an entry, and stands nowhere else."""
    for target, place in (d.args, d.args[::-1]):
        indices = target.indices if isinstance(target, Ravel) else (target,)
        others = (place, *(f for f in factors if f is not d))
        if (
            all(isinstance(p, Index) and p not in bound for p in indices)
            and (not isinstance(target, Ravel) or [p.size for p in indices] == list(target.shape))
            and set(bound) & place.free_symbols
            and not any(set(indices) & f.free_symbols for f in others)
        ):
            return tuple(indices), place
    return None


Number = Callable[[Size], int]


def holds_always(relation: Expr, number: Number) -> bool:
    """Whether a relation holds whatever the indices are."""
    left, right = (reach(a, number) for a in relation.args)
    if left is None or right is None:
        return False
    kind = type(relation)
    if kind is sp.Lt:
        return left[1] < right[0]
    if kind is sp.Le:
        return left[1] <= right[0]
    if kind is sp.Gt:
        return left[0] > right[1]
    return kind is sp.Ge and left[0] >= right[1]


def reach(node: Expr, number: Number) -> tuple[int, int] | None:
    """The least and the greatest that an index expression can be; None for anything else."""
    if node.is_Integer:
        return int(node), int(node)
    if isinstance(node, Index):
        return 0, number(node.size) - 1
    if isinstance(node, Ravel):
        return 0, math.prod(map(number, node.shape)) - 1
    if isinstance(node, Unravel):
        return 0, number(node.shape[node.axis]) - 1
    if node.is_Symbol:
        return number(node), number(node)
    if not (node.is_Add or node.is_Mul):
        return None
    parts = [reach(a, number) for a in node.args]
    found = [p for p in parts if p is not None]
    if len(found) < len(parts):
        return None
    if node.is_Add:
        return sum(p[0] for p in found), sum(p[1] for p in found)
    least, greatest = found[0]
    for smallest, largest in found[1:]:
        ends = (least * smallest, least * largest, greatest * smallest, greatest * largest)
        least, greatest = min(ends), max(ends)
    return least, greatest
