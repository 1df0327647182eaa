"""Kronecker deltas under sums: Σ_k δ(k, e)·f(k) → f(e), to a fixed point.

The rule needs no case distinction about bounds when k and e run over the same axis: every index ranges over
its whole axis, so the one k with k = e is always met. When e may leave the range of k (a shorter axis, a
shift as in a convolution), the condition is kept as a bracket, unless the sizes prove it.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp
from sympy.core.sorting import default_sort_key

from symgrad.indexing.brackets import Bracket, Mod, Ravel, Unravel, bracket, expanded, extremes, ravel, sides, unravel
from symgrad.indexing.equation import relabel
from symgrad.indexing.sums import over_terms, pull_out, put_in
from symgrad.indexing.symbols import Expr, Index, free_indices
from symgrad.shapes import Size


def delta(first: Expr, second: Expr) -> Expr:
    """δ: 1 where two index expressions are equal, 0 elsewhere; a number at once where their ranges decide it."""
    if first == second:
        return sp.S.One
    linear = not (isinstance(first, Index) and isinstance(second, Index))
    if linear and not (first.has(Ravel, sp.Indexed) or second.has(Ravel, sp.Indexed)):
        low, high = sides(*extremes(expanded(first - second)))
        if low.is_positive or high.is_negative:
            return sp.S.Zero
        if low == high == 0:
            return sp.S.One
    return sp.KroneckerDelta(*sorted((first, second), key=default_sort_key), evaluate=False)


def add_up(body: Expr, indices: Sequence[Index]) -> Expr:
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
        return add_up(decided(term), [k for k in pending if k not in renamed])
    for factor in sp.Mul.make_args(term):
        if not is_delta(factor):
            continue
        solution = solve(factor, pending)
        if solution is not None:
            substitution, condition = solution
            rest = sp.Mul(*(f for f in sp.Mul.make_args(term) if f is not factor))
            left = [k for k in pending if k not in substitution]
            rest = decided(put_in(known_by(factor, rest), substitution))
            return add_up(rest * condition, left)
    left = list(pending)
    while left:
        index = min(reversed(left), key=lambda k: _uses(term, k))
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
    said = [pair for factor in factors if is_delta(factor) for pair in parted(factor, pending)]
    for number, shape in dict.fromkeys((p.number, p.shape) for p, _ in said if is_part(p, pending)):
        known = {
            p.axis: (p, value) for p, value in said if isinstance(p, Unravel) and (p.number, p.shape) == (number, shape)
        }
        if len(known) == len(shape) and all(number not in free_indices(value) for _, value in known.values()):
            values = [known[axis][1] for axis in range(len(shape))]
            bounds = sp.Mul(*(inside(value, size) for value, size in zip(values, shape, strict=True)))
            others = [f for f in factors if not is_delta(f)] + [delta(*p) for p in said if p not in known.values()]
            return sp.Mul(*others, bounds, delta(number, ravel(values, shape)))
    return term


def parted(factor: Expr, pending: Sequence[Index]) -> Sequence[tuple[Expr, Expr]]:
    """The two sides of a δ; those of each part, where one side numbers parts of what is summed over."""
    for this, other in (factor.args, factor.args[::-1]):
        if is_part(this, pending):
            return [(this, other)]
        if isinstance(this, Ravel) and any(is_part(part, pending) for part in this.indices):
            return [*zip(this.indices, unravel(other, this.shape), strict=True)]
    return [factor.args]


def is_part(node: Expr, pending: Sequence[Index]) -> bool:
    """Whether a part of a number that is summed over."""
    return isinstance(node, Unravel) and node.number in pending


def _uses(expression: Expr, index: Index) -> int:
    """How many factors mention an index; summing first over what few mention leaves short sums, in whatever order."""
    terms = sp.Add.make_args(expression)
    return sum(index in free_indices(factor) for term in terms for factor in sp.Mul.make_args(term))


def known_by(factor: Expr, rest: Expr) -> Expr:
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
            return {this: other}, _within(other, this)
    for this, other in ((a, b), (b, a)):
        summed = [k for k in this.indices if k in unknowns] if isinstance(this, Ravel) else []
        if summed and len(set(summed)) == len(summed) and free_indices(other).isdisjoint(summed):
            places = list(zip(this.indices, unravel(other, this.shape), strict=True))
            held = [delta(k, value) for k, value in places if k not in summed]
            found = {k: value for k, value in places if k in summed}
            if all(free_indices(k).isdisjoint(summed) for k, _ in places if k not in summed):
                return found, sp.Mul(*held, *(_within(value, index) for index, value in found.items()))
    if a.has(Ravel, sp.Indexed) or b.has(Ravel, sp.Indexed):
        return None
    for this, other in ((a, b), (b, a)):
        turned = turn(this, other, unknowns)
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
        return {index: value}, exact * _within(value, index)
    return None


def turn(this: Expr, other: Expr, unknowns: Sequence[Index]) -> dict[Index, Expr] | None:
    """i = (p − c) mod n from δ((i + c) mod n, p), where i and p run over n."""
    if not isinstance(this, Mod) or not (isinstance(other, Index) and other.size == this.args[1]):
        return None
    for index in unknowns:
        rest = this.args[0] - index
        if index.size == this.args[1] and index not in free_indices(rest) and other not in free_indices(rest):
            return {index: Mod(other - rest, index.size)}
    return None


def _within(value: Expr, index: Index) -> Expr:
    """[0 ≤ value < size of the index], as far as the sizes do not prove it."""
    return inside(value, index.size)


def inside(value: Expr, size: Size) -> Expr:
    """[0 ≤ value < size], as far as the sizes do not prove it."""
    if isinstance(value, Index) and value.size == size:
        return sp.S.One
    return bracket(sp.Ge(value, 0, evaluate=False)) * bracket(sp.Lt(value, size, evaluate=False))
