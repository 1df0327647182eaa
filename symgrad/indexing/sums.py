"""Sums and products over bound indices, and Kronecker deltas under sums: Σ_k δ(k, e)·f(k) → f(e).

Comes in: a body and its indices. Goes out: the sum, deltas contracted to a fixed point: the one k with k = e is always
met where both run over the same axis; elsewhere the condition stays as a bracket, unless the sizes prove it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import sympy as sp
from sympy.core.sorting import default_sort_key

from symgrad.indexing.brackets import (
    ORDERS,
    Bracket,
    Mod,
    Ravel,
    Unravel,
    bounds_reached,
    bracket,
    expanded,
    extremes,
    ravel,
    unravel,
    whole_gap,
)
from symgrad.indexing.equation import relabel
from symgrad.indexing.symbols import Expr, Index, free_indices, fresh, is_access, over, unevaluated
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
    count = count_between(body, index)
    if count is not None:
        return count
    return over(sp.Sum, body, sp.Tuple(index, 0, index.size - 1))


def put_in(body: Expr, places: Mapping[Index, Expr]) -> Expr:
    """``body`` at these places; what a condition leaves out there is 0, also where it would be divided by 0.

    [a ≠ k]/(s[a] − s[k]) at k = a is what equal eigenvectors do to each other: nothing.
    """
    if body.has(Bracket) and any(node.exp.is_negative for node in body.atoms(sp.Pow)):
        out = [
            node for node in body.atoms(sp.Mul) if any(f.xreplace(places) == 0 for f in node.args if is_condition(f))
        ]
        body = body.xreplace(dict.fromkeys(out, sp.S.Zero))
    return relabel(body, places)


def is_condition(factor: Expr) -> bool:
    """Whether it is a condition, 1 or 0."""
    return isinstance(factor, (Bracket, sp.KroneckerDelta))


def count_between(body: Expr, index: Index) -> Expr | None:
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


def sum_of_conditions(node: Expr) -> Expr | None:
    """What a sum of conditions on one index comes to, where that is one number for all others."""
    if not isinstance(node, sp.Sum) or len(node.limits) > 1:
        return None
    return count_between(node.function, node.limits[0][0])


def summed(body: Expr, indices: Iterable[Index]) -> Expr:
    """Σ over whole axes as it is written, whatever could be taken outside; ``body`` where there are none."""
    limits = [sp.Tuple(index, 0, index.size - 1) for index in indices]
    return over(sp.Sum, body, *limits) if limits else body


def over_same(body: Expr, whole: Expr) -> Expr:
    """``body`` under the sum or product that ``whole`` is."""
    kind = sp.Product if isinstance(whole, sp.Product) else sp.Sum
    return over(kind, body, *whole.limits)


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


def delta(first: Expr, second: Expr) -> Expr:
    """δ: 1 where two index expressions are equal, 0 elsewhere; a number at once where their ranges decide it."""
    if first == second:
        return sp.S.One
    linear = not (isinstance(first, Index) and isinstance(second, Index))
    if linear and not (first.has(Ravel, sp.Indexed) or second.has(Ravel, sp.Indexed)):
        low, high = bounds_reached(*extremes(expanded(first - second)))
        if low.is_positive or high.is_negative:
            return sp.S.Zero
        if low == high == 0:
            return sp.S.One
    return unevaluated(sp.KroneckerDelta, *sorted((first, second), key=default_sort_key))


def contracted_sum(body: Expr, indices: Sequence[Index]) -> Expr:
    """Σ over ``indices`` of ``body``, with every delta that can be contracted contracted."""
    pending = list(indices)
    for index in pending:
        if index.size == 0:
            return sp.S.Zero
    terms = over_terms(body, is_delta)
    return sp.Add(*(_sum_term(term, pending) for term in terms))


def is_delta(node: Expr) -> bool:
    """Whether ``node`` is a Kronecker delta."""
    return isinstance(node, sp.KroneckerDelta)


def _sum_term(term: Expr, pending: list[Index]) -> Expr:
    """One product: contract what a delta decides, then sum over the indices that are left."""
    renamed, term = _renamed(whole_numbers(term, pending), pending)
    if renamed:
        return contracted_sum(decided(term), [k for k in pending if k not in renamed])
    for factor in sp.Mul.make_args(term):
        if not is_delta(factor):
            continue
        solution = solve(factor, pending)
        if solution is not None:
            substitution, condition = solution
            rest = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not factor))
            left = [k for k in pending if k not in substitution]
            rest = decided(put_in(with_known_index(factor, rest), substitution))
            return contracted_sum(rest * condition, left)
    left = list(pending)
    while left:
        index = min(reversed(left), key=lambda k: _factors_with(term, k))
        left.remove(index)
        term = sp.Add(*(pull_out(t, index) for t in sp.Add.make_args(term)))
    return term


def _renamed(term: Expr, pending: Sequence[Index]) -> tuple[dict[Index, Expr], Expr]:
    """``term`` without the deltas that only say another name for an index, and the names: all of them in one go."""
    names: dict[Index, Expr] = {}
    rest = []
    for factor in sp.Mul.make_args(term):
        a, b = factor.args if is_delta(factor) else (factor, factor)
        pairs = [(k, p) for k, p in ((a, b), (b, a)) if k in pending and k not in names and p not in pending]
        if pairs and isinstance(pairs[0][1], Index) and pairs[0][0].size == pairs[0][1].size:
            names[pairs[0][0]] = pairs[0][1]
        else:
            rest.append(factor)
    return names, relabel(sp.Mul(*rest), names) if names else term


def whole_numbers(term: Expr, pending: Sequence[Index]) -> Expr:
    """δ(⌊k/n⌋, p)·δ(k mod n, q) is δ(k, (p, q)): who knows every part of a number knows it."""
    factors = sp.Mul.make_args(term)
    said = [pair for factor in factors if is_delta(factor) for pair in delta_sides(factor, pending)]
    for number, shape in dict.fromkeys((p.number, p.shape) for p, _ in said if is_part_of_index(p, pending)):
        known = {
            p.axis: (p, value) for p, value in said if isinstance(p, Unravel) and (p.number, p.shape) == (number, shape)
        }
        if len(known) == len(shape) and all(number not in free_indices(value) for _, value in known.values()):
            values = [known[axis][1] for axis in range(len(shape))]
            bounds = sp.Mul(*(within_axis(value, size) for value, size in zip(values, shape, strict=True)))
            others = [f for f in factors if not is_delta(f)] + [delta(*p) for p in said if p not in known.values()]
            return sp.Mul(*others, bounds, delta(number, ravel(values, shape)))
    return term


def delta_sides(factor: Expr, pending: Sequence[Index]) -> Sequence[tuple[Expr, Expr]]:
    """The two sides of a δ; those of each part, where one side numbers parts of what is summed over."""
    for this, other in (factor.args, factor.args[::-1]):
        if is_part_of_index(this, pending):
            return [(this, other)]
        if isinstance(this, Ravel) and any(is_part_of_index(part, pending) for part in this.indices):
            return [*zip(this.indices, unravel(other, this.shape), strict=True)]
    return [factor.args]


def is_part_of_index(node: Expr, pending: Sequence[Index]) -> bool:
    """Whether a part of a number that is summed over."""
    return isinstance(node, Unravel) and node.number in pending


def _factors_with(expression: Expr, index: Index) -> int:
    """How many factors mention an index; summing first over what few mention leaves short sums, in whatever order."""
    terms = sp.Add.make_args(expression)
    return sum(index in free_indices(factor) for term in terms for factor in sp.Mul.make_args(term))


def with_known_index(factor: Expr, rest: Expr) -> Expr:
    """``rest`` with e replaced by p, where ``factor`` is δ(e, p) and p an index."""
    for index, other in (factor.args, factor.args[::-1]):
        if isinstance(index, Index) and other.is_Add:
            return rest.xreplace({other: index})
    return rest


def decided(term: Expr) -> Expr:
    """A product with every bracket on indices decided that the sizes decide."""
    factors = sp.Mul.make_args(term)
    known = [bracket(f.args[0]) if isinstance(f, Bracket) else f for f in factors]
    return term if known == list(factors) else sp.Mul(*known)


def solve(factor: Expr, unknowns: Sequence[Index]) -> tuple[dict[Index, Expr], Expr] | None:
    """What δ(a, b) says about some of ``unknowns``: their values, and the condition that they exist.

    Tried in order: a bare index against an expression, a row-major number against an expression, and an
    expression linear in one of the unknowns.
    """
    a, b = factor.args
    for this, other in ((a, b), (b, a)):
        if this in unknowns and this not in free_indices(other):
            return {this: other}, within_axis(other, this.size)
    for this, other in ((a, b), (b, a)):
        summed = [k for k in this.indices if k in unknowns] if isinstance(this, Ravel) else []
        if summed and len(set(summed)) == len(summed) and free_indices(other).isdisjoint(summed):
            places = list(zip(this.indices, unravel(other, this.shape), strict=True))
            held = [delta(k, value) for k, value in places if k not in summed]
            found = {k: value for k, value in places if k in summed}
            if all(free_indices(k).isdisjoint(summed) for k, _ in places if k not in summed):
                return found, sp.Mul(*held, *(within_axis(value, index.size) for index, value in found.items()))
    if a.has(Ravel, sp.Indexed) or b.has(Ravel, sp.Indexed):
        return None
    for this, other in ((a, b), (b, a)):
        turned = cyclic_solution(this, other, unknowns)
        if turned is not None:
            return turned, sp.S.One
    difference = expanded(a - b)
    for index in unknowns:
        slope = difference.coeff(index)
        if slope == 0 or index in free_indices(slope) or not slope.is_Integer:
            continue
        rest = difference - slope * index
        if index in free_indices(rest):
            continue
        value = sp.expand(-rest / slope) if abs(slope) == 1 else sp.floor(-rest / slope)
        exact = sp.S.One if abs(slope) == 1 else delta(Mod(-rest, abs(slope)), sp.S.Zero)
        return {index: value}, exact * within_axis(value, index.size)
    return None


def cyclic_solution(this: Expr, other: Expr, unknowns: Sequence[Index]) -> dict[Index, Expr] | None:
    """i = (p − c) mod n from δ((i + c) mod n, p), where i and p run over n."""
    if not isinstance(this, Mod) or not (isinstance(other, Index) and other.size == this.args[1]):
        return None
    for index in unknowns:
        rest = this.args[0] - index
        if index.size == this.args[1] and index not in free_indices(rest) and other not in free_indices(rest):
            return {index: Mod(other - rest, index.size)}
    return None


def within_axis(value: Expr, size: Size) -> Expr:
    """[0 ≤ value < size], as far as the sizes do not prove it."""
    if isinstance(value, Index) and value.size == size:
        return sp.S.One
    return bracket(sp.Ge(value, 0, evaluate=False)) * bracket(sp.Lt(value, size, evaluate=False))
