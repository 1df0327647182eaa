"""Rules for sums: two sums that share factors are one sum of what they do not share, and so on.

Sums are merged only where the terms inside have the shape of one of them: what would have to be broadcast before it is
added stays a sum of its own. Axes that are only read as one number become one axis, `merge_axes`; an axis that is only
read as a number of several is split into those, `unravel_axes`. Sums against e^(±2πi·j·k/n) are torch's Fourier
transforms, of which each is the pullback of another one:

    Σ_k (cos(2π·p·k/n) + i·sin(2π·p·k/n))·v[k]    →  torch.fft.ifft(v, norm="forward")
    δ(p, 0)·Σ_k v[k]                              →  δ(p, 0)·torch.fft.rfft(v)[p], beside other such sums

Comes in: a sum of terms, or a formula and its axes; of Fourier sums, a formula in z and z̄. Goes out: an equal one; of
Fourier sums, a formula in which each is a letter, and what the letters are. A cosine is (e + 1/e)/2 and a sine
(e − 1/e)/2i there, of a letter e for the exponential.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Mean, split_off_sum
from symgrad.indexing import Index, Ravel, Unravel, contracted_sum, fresh, over_same, summed
from symgrad.indexing.definitions import remaining_factors
from symgrad.indexing.equation import canonical, with_fresh_sums
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, access, accesses, free_indices, indices_of, is_access, name_of
from symgrad.program import free_name
from symgrad.shapes import Size


def merge_nested(expression: Expr) -> Expr:
    """Σ_l Σ_k f(k, l)·h(k) + c·Σ_k h(k) → Σ_k (Σ_l f(k, l) + c)·h(k)"""

    @cache
    def apart(term: Expr) -> tuple[list[Expr], list[Index]]:
        return split_sum(with_fresh_sums(term))

    return merge_pairs_of_terms(expression, lambda first, second: merge_nested_sums(apart(first), apart(second)))


def merge_pairs_of_terms(expression: Expr, merge: Callable[[Expr, Expr], Expr | None]) -> Expr:
    """A sum of terms with any two of them merged, and what that gives with any other."""
    if not expression.is_Add:
        return expression
    for first, other in combinations(expression.args, 2):
        merged = merge(first, other)
        if merged is not None:
            rest = (t for t in expression.args if t is not first and t is not other)
            return merge_pairs_of_terms(sp.Add(merged, *rest), merge)
    return expression


def merge_two_sums(first: Expr, second: Expr) -> Expr | None:
    """Σ_k f(k)·h(k) and Σ_k g(k)·h(k), with the same outer factor, as Σ_k (f(k) + g(k))·h(k); means without h.

    f or g has the indices of both.
    """
    (a, outer_a), (b, outer_b) = split_off_sum(first), split_off_sum(second)
    if a is None or b is None or type(a) is not type(b):
        return None
    if len(a.limits) != len(b.limits):
        a, b = nest_sum(a), nest_sum(b)
    if a.limits != b.limits:
        return None
    if outer_a == -outer_b:
        b, outer_b = b.func(-b.function, *b.limits), outer_a
    if outer_a != outer_b:
        return None
    shared, rest = split_common_factors(split_factors(a.function), split_factors(b.function))
    if not (shared or isinstance(a, Mean)) or not has_term_with_all_indices(rest):
        return None
    return outer_a * a.func(sp.Mul(*shared, sp.Add(*rest)), *a.limits)


def nest_sum(total: Expr) -> Expr:
    """Σ_jk f(j)·h(j, k) → Σ_j f(j)·Σ_k h(j, k)"""
    for limit in total.limits if len(total.limits) > 1 else ():
        inner = total.func(total.function, limit)
        if (split := pull_out_factors(inner)) != inner:
            return canonical(total.func(split, *(other for other in total.limits if other is not limit)))
    return total


def merge_nested_sums(first: tuple[list[Expr], list[Index]], second: tuple[list[Expr], list[Index]]) -> Expr | None:
    """Σ_k h(k)·Σ_l f(k, l) and c·Σ_k h(k), nested in any order and taken apart, as Σ_k h(k)·(Σ_l f(k, l) + c)."""
    (factors, bound), (others, limits) = first, second
    for k, other in product(bound, limits):
        if k.size != other.size or not can_share_factor(factors, k, others, other):
            continue
        shared, _ = split_common_factors(factors, renamed := [f.xreplace({other: k}) for f in others])
        used = free_indices(sp.Mul(*shared))
        if k not in used or used & {*bound, *limits} - {k}:
            continue
        rest = [
            summed(sp.Mul(*remaining_factors(own, shared)), [i for i in over if i not in (k, other)])
            for own, over in ((factors, bound), (renamed, limits))
        ]
        if has_term_with_all_indices(rest):
            return summed(sp.Mul(*shared, sp.Add(*rest)), [k])
    return None


def can_share_factor(factors: Sequence[Expr], k: Index, others: Sequence[Expr], other: Index) -> bool:
    """Whether a factor that mentions k has a like among those that mention the other index, and nothing else new."""
    free = {free_indices(f) - {k} for f in factors if k in free_indices(f)}
    return any(other in free_indices(f) and free_indices(f) - {other} in free for f in others)


def split_sum(node: Expr) -> tuple[list[Expr], list[Index]]:
    """The factors of nested sums of products, and the indices that are summed over."""
    factors: list[Expr] = []
    bound: list[Index] = []
    for factor in sp.Mul.make_args(node):
        if type(factor) is sp.Sum:
            inner, more = split_sum(factor.function)
            factors += inner
            bound += [limit[0] for limit in factor.limits] + more
        else:
            factors.append(factor)
    return factors, bound


def split_common_factors(first: Sequence[Expr], second: Sequence[Expr]) -> tuple[list[Expr], list[Expr]]:
    """The factors that two products share, and what is left of each."""
    shared = list((Counter(first) & Counter(second)).elements())
    return shared, [sp.Mul(*remaining_factors(own, shared)) for own in (first, second)]


def has_term_with_all_indices(terms: Sequence[Expr]) -> bool:
    """Whether one of the terms has the indices of all of them."""
    free = [free_indices(term) for term in terms]
    return any(own == set().union(*free) for own in free)


def pull_out_factors(product: Expr) -> Expr:
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


def merge_axes(node: Expr, axes: Sequence[Index]) -> tuple[Expr, tuple[Index, ...]] | None:
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


def unravel_axes(expression: Expr) -> Expr:
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
        return contracted_sum(body, [*others, *(part for part in parts if isinstance(part, Index))])
    return expression


BAR = "\N{COMBINING MACRON}"
"""What follows the name of a complex tensor in that of its conjugate."""


def group_sums_by_range(sums: Iterable[tuple[Expr, Expr, list[Index]]]) -> Iterator[tuple[Expr, Expr, list[Index]]]:
    """What stands beside a sum, what it adds up, over which indices: those with the same beside and sizes are one."""
    bodies: dict[tuple[Expr, ...], list[Expr]] = {}
    bound: dict[tuple[Expr, ...], list[Index]] = {}
    for beside, body, own in sums:
        key = (beside, *(index.size for index in own))
        first = bound.setdefault(key, own)
        bodies.setdefault(key, []).append(body.xreplace(dict(zip(own, first, strict=True))))
    yield from ((key[0], sp.Add(*terms), bound[key]) for key, terms in bodies.items())


SPECTRUM = "spectrum"


@dataclass(frozen=True)
class FourierTransform:
    """The transform of a tensor along ``dims``, of so many points, of which so many are kept; ``rank`` axes in all."""

    name: str
    sign: int
    rank: int
    dims: tuple[int, ...]
    given: tuple[Size, ...]
    points: tuple[Size, ...]
    kept: tuple[Size, ...]
    real: bool = False


@dataclass
class FourierSums:
    """The transforms of a formula with ``axes``; ``complexes`` are of complex numbers, ``taken`` names of others.

    torch cuts what is longer than the points of a transform: where that is wrong, the proof finds it.
    """

    axes: Sequence[Index]
    complexes: Mapping[str, None]
    taken: Collection[str]
    made: dict[str, FourierTransform]

    def put_in(self, formula: Expr) -> Expr | None:
        """``formula`` with a letter for each sum against turns; None where a sum is something else."""
        turns: dict[Expr, sp.Symbol] = {}
        sums, rest = list[tuple[Expr, Expr, list[Index]]](), sp.S.Zero
        angles = {angle for part in formula.atoms(sp.cos, sp.sin) for angle in part.args if angle.has(*self.axes)}
        for outside, inside, own in split_nested_sums(spell_means(formula)):
            if not own:
                rest += outside * inside
                continue
            inside = self.turned_at_one_place(outside, inside, own, angles)
            number, beside = outside.as_independent(*outside.free_symbols, as_Add=False)
            sums.append((beside, number * inside, own))
        for beside, body, bound in group_sums_by_range(sums):
            for term in sp.Add.make_args(sp.expand(replace_cosines_and_sines(body, turns))):
                found = self.transform(term, bound, turns)
                if found is None:
                    return None
                rest += beside * found
        return rest

    def turned_at_one_place(self, outside: Expr, inside: Expr, own: Sequence[Index], angles: Collection[Expr]) -> Expr:
        """``v[k]·cos(2π·p·k/n)``, of ``v[k]`` beside δ(p, 0): what is summed at one place, as it is at every other.

        Where its sine is 0, a cosine may as well be the whole turn.
        """
        deltas = [delta for delta in outside.atoms(sp.KroneckerDelta) if not {*self.axes}.isdisjoint(delta.args)]
        for delta, angle, function in product(deltas, sorted(angles, key=sp.default_sort_key), (sp.cos, sp.sin)):
            place, at = delta.args if delta.args[0] in self.axes else delta.args[::-1]
            there = [index for index in angle.free_symbols - {*self.axes} if isinstance(index, Index)]
            if place not in angle.free_symbols or (len(there), len(own)) != (1, 1):
                continue
            angle = angle.xreplace({there[0]: own[0]})
            here, beside = function(angle).xreplace({place: at}), sp.sin(angle).xreplace({place: at})
            if here != 0 and is_access(found := inside / here):
                return found * (function(angle) if beside != 0 else function(angle) - sp.I * sp.sin(angle))
        return inside

    def transform(self, term: Expr, bound: Sequence[Index], turns: Mapping[Expr, sp.Symbol]) -> Expr | None:
        """One term of a sum: a number, turns, and an entry that is read along the summed axes."""
        powers = term.as_powers_dict()
        read = [a for a in accesses(term) if {*indices_of(a)} & {*bound}]
        if len(read) != 1 or powers[read[0]] != 1:
            return None
        entry, factor = read[0], term / read[0]
        at, dims, points, signs = list(indices_of(entry)), [], [], set()
        for place in bound:
            around = [(angle, e) for angle, e in turns.items() if angle.has(place) and powers[e] != 0]
            if len(around) != 1 or at.count(place) != 1:
                return None
            angle, e = around[0]
            partner = next((p for p in self.axes if angle.has(p)), None)
            if partner is None:
                return None
            count = sp.cancel(2 * sp.pi * place * partner / angle)
            if count.has(place, partner, sp.pi):
                return None
            dims.append(at.index(place))
            points.append((count, place.size, partner.size))
            at[dims[-1]] = partner
            signs.add(powers[e])
            factor /= e ** powers[e]
        if len(signs) != 1 or not signs <= {1, -1} or factor.has(*bound, *turns.values()):
            return None
        (sign,) = signs
        name = name_of(entry)
        turned = name.endswith(BAR) or (name not in self.complexes and sign == 1)
        order = sorted(range(len(dims)), key=dims.__getitem__)
        given, points_of, kept = (tuple(points[n][part] for n in order) for part in (1, 0, 2))
        sign, real = int(-sign if turned else sign), name.removesuffix(BAR) not in self.complexes
        made = FourierTransform(
            name.removesuffix(BAR), sign, len(at), tuple(sorted(dims)), given, points_of, kept, real
        )
        known = next((own for own, other in self.made.items() if other == made), None)
        letter = known or free_name((SPECTRUM,), {*self.taken, *self.made})
        self.made[letter] = made
        return factor * access(letter + BAR * turned, at)


def spell_means(formula: Expr) -> Expr:
    """``formula`` with each mean as a sum over a number."""

    def spelled(body: Expr, *limits: sp.Tuple) -> Expr:
        own = [limit[0] for limit in limits]
        return summed(body, own) / sp.Mul(*(index.size for index in own))

    return formula.replace(Mean, spelled)


def split_nested_sums(formula: Expr) -> Iterator[tuple[Expr, Expr, list[Index]]]:
    """The terms of a formula: what stands outside of all sums, what inside, and the indices of all sums around that."""
    for term in sp.Add.make_args(formula):
        factors = sp.Mul.make_args(term)
        bracket = next((f for f in factors if f.is_Add and f.has(sp.Sum)), None)
        total = next((f for f in factors if isinstance(f, sp.Sum)), None)
        if bracket is not None:
            yield from (part for each in bracket.args for part in split_nested_sums(term / bracket * each))
        elif total is None:
            yield term, sp.S.One, []
        else:
            own = [limit[0] for limit in total.limits]
            for outside, inside, inner in split_nested_sums(total.function):
                yield term / total, outside * inside, [*own, *inner]


def replace_cosines_and_sines(body: Expr, turns: dict[Expr, sp.Symbol]) -> Expr:
    """``body`` with letters for the turns of its cosines and sines."""

    def letter(angle: Expr) -> sp.Symbol:
        return turns.setdefault(angle, sp.Dummy("e"))

    found = body.replace(sp.cos, lambda angle: (letter(angle) + 1 / letter(angle)) / 2)
    return found.replace(sp.sin, lambda angle: (letter(angle) - 1 / letter(angle)) / (2 * sp.I))
