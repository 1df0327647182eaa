"""Adding sums up: two sums that share factors are one sum of what they do not share.

Only where the terms inside have the shape of one of them: what would have to be broadcast, to be added, stays apart.
Axes that are only read as one number are one axis, `in_a_row`; an axis that is only read as a number of several is
those, `numbered_apart`. In a Hessian, what is multiplied with its own transpose has a name:

    δ(p, q)·f(p) − f(p)·f(q)          →  p.diag() - p[:, None] * p          with p = f
    δ(p, q) / s − x(p)·x(q) / s³      →  (eye(n) - u[:, None] * u) / s      with u = x / s

Comes in: a sum of terms, or a formula and its axes. Goes out: the same, with `Once` around what gets a name.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations, product

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Mean, Once
from symgrad.indexing import Index, Ravel, Unravel, add_up, fresh, over_same, summed
from symgrad.indexing.canonical import canonical
from symgrad.indexing.equation import with_fresh_sums
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, is_access


def merge_sums(expression: Expr) -> Expr:
    """Σ_k f(k)·h(k) + Σ_k g(k)·h(k) → Σ_k (f(k) + g(k))·h(k), where f or g has the indices of both; means without h"""
    return pairwise(expression, merged_whole)


def merge_nested(expression: Expr) -> Expr:
    """Σ_l Σ_k f(k, l)·h(k) + c·Σ_k h(k) → Σ_k (Σ_l f(k, l) + c)·h(k)"""

    @cache
    def apart(term: Expr) -> tuple[list[Expr], list[Index]]:
        return taken_apart(with_fresh_sums(term))

    return pairwise(expression, lambda first, second: merged_inside(apart(first), apart(second)))


def pairwise(expression: Expr, merge: Callable[[Expr, Expr], Expr | None]) -> Expr:
    """A sum of terms with any two of them merged, and what that gives with any other."""
    if not expression.is_Add:
        return expression
    for first, other in combinations(expression.args, 2):
        merged = merge(first, other)
        if merged is not None:
            rest = (t for t in expression.args if t is not first and t is not other)
            return pairwise(sp.Add(merged, *rest), merge)
    return expression


def merged_whole(first: Expr, second: Expr) -> Expr | None:
    """One sum for two over the same indices with the same outer factor and a common inner one."""
    (a, outer_a), (b, outer_b) = sum_and_rest(first), sum_and_rest(second)
    if a is None or b is None or type(a) is not type(b):
        return None
    if len(a.limits) != len(b.limits):
        a, b = nested(a), nested(b)
    if a.limits != b.limits:
        return None
    if outer_a == -outer_b:
        b, outer_b = b.func(-b.function, *b.limits), outer_a
    if outer_a != outer_b:
        return None
    shared, rest = in_common(split_factors(a.function), split_factors(b.function))
    if not (shared or isinstance(a, Mean)) or not fit(rest):
        return None
    return outer_a * a.func(sp.Mul(*shared, sp.Add(*rest)), *a.limits)


def nested(total: Expr) -> Expr:
    """Σ_jk f(j)·h(j, k) → Σ_j f(j)·Σ_k h(j, k)"""
    for limit in total.limits if len(total.limits) > 1 else ():
        inner = total.func(total.function, limit)
        if (split := outside(inner)) != inner:
            return canonical(total.func(split, *(other for other in total.limits if other is not limit)))
    return total


def sum_and_rest(term: Expr) -> tuple[Expr | None, Expr]:
    """The one sum among the factors of a term, and the other factors."""
    factors = sp.Mul.make_args(term)
    sums = [f for f in factors if isinstance(f, sp.Sum)]
    if len(sums) != 1:
        return None, term
    return sums[0], sp.Mul(*(f for f in factors if f is not sums[0]))


def merged_inside(first: tuple[list[Expr], list[Index]], second: tuple[list[Expr], list[Index]]) -> Expr | None:
    """Σ_k h(k)·Σ_l f(k, l) and c·Σ_k h(k), nested in any order and taken apart, as Σ_k h(k)·(Σ_l f(k, l) + c)."""
    (factors, bound), (others, limits) = first, second
    for k, other in product(bound, limits):
        if k.size != other.size or not may_share(factors, k, others, other):
            continue
        shared, _ = in_common(factors, renamed := [f.xreplace({other: k}) for f in others])
        used = free_indices(sp.Mul(*shared))
        if k not in used or used & {*bound, *limits} - {k}:
            continue
        rest = [
            summed(sp.Mul(*left_over(own, shared)), [i for i in over if i not in (k, other)])
            for own, over in ((factors, bound), (renamed, limits))
        ]
        if fit(rest):
            return summed(sp.Mul(*shared, sp.Add(*rest)), [k])
    return None


def may_share(factors: Sequence[Expr], k: Index, others: Sequence[Expr], other: Index) -> bool:
    """Whether a factor that mentions k has a like among those that mention the other index, and nothing else new."""
    free = {free_indices(f) - {k} for f in factors if k in free_indices(f)}
    return any(other in free_indices(f) and free_indices(f) - {other} in free for f in others)


def taken_apart(node: Expr) -> tuple[list[Expr], list[Index]]:
    """The factors of nested sums of products, and the indices that are summed over."""
    factors: list[Expr] = []
    bound: list[Index] = []
    for factor in sp.Mul.make_args(node):
        if type(factor) is sp.Sum:
            inner, more = taken_apart(factor.function)
            factors += inner
            bound += [limit[0] for limit in factor.limits] + more
        else:
            factors.append(factor)
    return factors, bound


def in_common(first: Sequence[Expr], second: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The factors that two products share, and what is left of each."""
    shared = list((Counter(first) & Counter(second)).elements())
    return shared, [sp.Mul(*left_over(own, shared)) for own in (first, second)]


def left_over(factors: Sequence[Expr], shared: Sequence[Expr]) -> Iterator[Expr]:
    """Factors without those that are shared, each as often as it is."""
    return (Counter(factors) - Counter(shared)).elements()


def fit(terms: Sequence[Expr]) -> bool:
    """Whether one of the terms has the indices of all of them."""
    free = [free_indices(term) for term in terms]
    return any(own == set().union(*free) for own in free)


def outside(product: Expr) -> Expr:
    """Σ_k c·f(k) → c·Σ_k f(k) for the sums among the factors of a product"""
    result = sp.S.One
    for factor in sp.Mul.make_args(product):
        if type(factor) is sp.Sum:
            bound: set[Index] = {limit[0] for limit in factor.limits}
            inside = [f for f in sp.Mul.make_args(factor.function) if free_indices(f) & bound]
            apart = [f for f in sp.Mul.make_args(factor.function) if f not in inside]
            factor = sp.Mul(*apart, over_same(sp.Mul(*inside), factor)) if inside else factor
        result *= factor
    return result


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
            return named * sp.Mul(*left_over(factors, wanted))
    return term


def in_a_row(node: Expr, axes: Sequence[Index]) -> tuple[Expr, tuple[Index, ...]] | None:
    """``node`` with one index for the axes that stand nowhere but in the same `Ravel`."""
    for number in sorted(node.atoms(Ravel), key=lambda ravel: -len(ravel.indices)):
        own = number.indices
        if not all(isinstance(i, Index) and i in axes and i.size == n for i, n in zip(own, number.shape, strict=True)):
            continue
        first = list(axes).index(own[0])
        whole = fresh(own[0].name, sp.Mul(*number.shape))
        together = node.xreplace({number: whole})
        if tuple(axes[first : first + len(own)]) == own and not together.free_symbols & {*own}:
            return together, (*axes[:first], whole, *axes[first + len(own) :])
    return None


def numbered_apart(expression: Expr) -> Expr:
    """Σ_j f(⌊j / n⌋, j mod n, j) → Σ_k Σ_l f(k, l, k·n + l), where j is the row-major number of (k, l)"""
    if type(expression) is not sp.Sum:
        return expression
    for limit in expression.limits:
        j = limit[0]
        shapes = {u.shape for u in expression.function.atoms(Unravel) if u.number == j}
        if len(shapes) != 1 or sp.expand(sp.Mul(*(shape := shapes.pop())) - j.size) != 0:
            continue
        parts = [sp.S.Zero if size == 1 else fresh(str(j.name), size) for size in shape]
        body = expression.function.xreplace({u: parts[u.axis] for u in expression.atoms(Unravel) if u.number == j})
        body = body.xreplace({j: Ravel(*parts, *shape)})
        others = [other[0] for other in expression.limits if other[0] != j]
        return add_up(body, [*others, *(part for part in parts if isinstance(part, Index))])
    return expression
