"""Sums and products over bound indices: building them, and taking apart what is inside.

Every bound index is made here (or in `deltas`) and belongs to exactly one sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import sympy as sp

from symgrad.indexing.brackets import ORDERS, Bracket, extremes, whole_gap
from symgrad.indexing.symbols import Expr, Index, free_indices, fresh, is_access, over
from symgrad.shapes import Size


def total(size: Size, body: Callable[[Index], Expr], hint: str = "j") -> Expr:
    """Σ over a fresh index of ``size``: ``total(n, lambda j: x[i, j] * a[j, k])``."""
    index = fresh(hint, size)
    return sum_over(body(index), index)


def multiply_up(size: Size, body: Callable[[Index], Expr], hint: str = "j") -> Expr:
    """Π over a fresh index of ``size``; 1 over no entries."""
    index = fresh(hint, size)
    if index.size == 0:
        return sp.S.One
    if index.size == 1:
        return put_in(body(index), {index: sp.S.Zero})
    return over(sp.Product, body(index), sp.Tuple(index, 0, index.size - 1))


def sum_over(body: Expr, index: Index) -> Expr:
    """Σ_index body as it stands; 0 and what does not mention the index need no sum."""
    if body == 0 or index.size == 0:
        return sp.S.Zero
    if index.size == 1:
        return put_in(body, {index: sp.S.Zero})
    if index not in free_indices(body):
        return index.size * body
    count = how_many(body, index)
    if count is not None:
        return count
    return over(sp.Sum, body, sp.Tuple(index, 0, index.size - 1))


def put_in(body: Expr, places: Mapping[Index, Expr]) -> Expr:
    """``body`` at these places; what a condition leaves out there is 0, also where it would be divided by 0.

    [a ≠ k]/(s[a] − s[k]) at k = a is what equal eigenvectors do to each other: nothing.
    """
    if body.has(Bracket) and any(node.exp.is_negative for node in body.atoms(sp.Pow)):
        out = [node for node in body.atoms(sp.Mul) if any(f.xreplace(places) == 0 for f in node.args if is_guard(f))]
        body = body.xreplace(dict.fromkeys(out, sp.S.Zero))
    return body.xreplace(places)


def is_guard(factor: Expr) -> bool:
    """Whether it is a condition, 1 or 0."""
    return isinstance(factor, (Bracket, sp.KroneckerDelta))


def how_many(body: Expr, index: Index) -> Expr | None:
    """b − a, of Σ_j [a ≤ j]·[j < b] where both lie on the axis wherever else the indices are; None for the rest."""
    factors = sp.Mul.make_args(body)
    if len(factors) != 2 or not all(isinstance(f, Bracket) and isinstance(f.args[0], ORDERS) for f in factors):
        return None
    bounds: dict[int, Expr] = {}
    for relation in (factor.args[0] for factor in factors):
        gap = whole_gap(relation)
        slope = gap.coeff(index)
        if abs(slope) != 1 or relation.atoms(sp.Indexed):
            return None
        bounds[int(slope)] = gap - slope * index
    if len(bounds) != 2:
        return None
    first, last = -bounds[1], bounds[-1]
    inside = extremes(first)[0].is_nonnegative and (index.size - 1 - extremes(last)[1]).is_nonnegative
    count = sp.expand(last - first + 1)
    return count if inside and count.is_nonnegative else None


def counted(node: Expr) -> Expr | None:
    """What a sum of conditions on one index comes to, where that is one number for all others."""
    if not isinstance(node, sp.Sum) or len(node.limits) > 1:
        return None
    return how_many(node.function, node.limits[0][0])


def summed(body: Expr, indices: Iterable[Index]) -> Expr:
    """Σ over whole axes as it is written, whatever could be taken outside; ``body`` where there are none."""
    limits = [(index, 0, index.size - 1) for index in indices]
    return sp.Sum(body, *limits) if limits else body


def over_same(body: Expr, whole: Expr) -> Expr:
    """``body`` under the sum or product that ``whole`` is."""
    kind = sp.Product if isinstance(whole, sp.Product) else sp.Sum
    return kind(body, *whole.limits)


def is_constant(expression: Expr) -> bool:
    """Whether a number by itself, with nothing left to add up: SymPy calls 1/Σ_j [j < 1] a number and has none."""
    if isinstance(expression, (sp.Sum, sp.Product)):
        return False
    if not (expression.args and isinstance(expression, sp.Expr)):
        return bool(expression.is_number)
    return all(map(is_constant, expression.args))  # SymPy asks a sum whether it is none before its terms


def split_factors(term: Expr) -> list[Expr]:
    """The factors of a product, with exp(a + b) taken apart into exp(a)·exp(b)."""
    factors: list[Expr] = []
    for factor in sp.Mul.make_args(term):
        if isinstance(factor, sp.exp) and factor.exp.is_Add:
            factors += [sp.exp(part, evaluate=False) for part in factor.exp.args]
        else:
            factors.append(factor)
    return factors


def pull_out(term: Expr, index: Index) -> Expr:
    """Σ_k c·(f(k) + g(k)) → c·(Σ_k f(k) + Σ_k g(k)), where c does not mention k."""
    outside: list[Expr] = []
    inside: list[Expr] = []
    for factor in split_factors(term):
        (inside if index in free_indices(factor) else outside).append(factor)
    body = sp.Mul(*inside)
    if body.is_Add:
        return sp.Mul(*outside) * sp.Add(*(pull_out(part, index) for part in body.args))
    return sp.Mul(*outside) * sum_over(body, index)


def over_terms(expression: Expr, wanted: Callable[[Expr], bool]) -> list[Expr]:
    """The terms of ``expression``, multiplied out only where a wanted node hides in a sum of terms."""
    if expression.is_Add:
        return [t for part in expression.args for t in over_terms(part, wanted)]
    if expression.is_Mul:
        for position, factor in enumerate(expression.args):
            if factor.is_Add and any(_contains(part, wanted) for part in factor.args):
                rest = sp.Mul(*expression.args[:position], *expression.args[position + 1 :])
                return [t for part in factor.args for t in over_terms(part * rest, wanted)]
    return [expression]


def _contains(expression: Expr, wanted: Callable[[Expr], bool]) -> bool:
    """Whether a wanted node occurs outside the arguments of functions and accesses."""
    if wanted(expression):
        return True
    if is_access(expression) or not (expression.is_Add or expression.is_Mul or isinstance(expression, sp.Sum)):
        return False
    parts = expression.args[:1] if isinstance(expression, sp.Sum) else expression.args
    return any(_contains(part, wanted) for part in parts)
