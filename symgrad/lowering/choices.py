"""Sums that are one thing here and another there, by how large something is: [x > 0]·x + (1 − [x > 0])·a·x.

Comes in: a sum with conditions among its factors, and what lowers the parts of it. Goes out: its `Cases`, what it is
below, at and above each number that something is compared with; and a term: the larger or the smaller of two, or one of
two by a condition. A choice is quicker than a sum of products, and an infinity that is not chosen spoils nothing. None
where the arithmetic of the sum says something that a choice does not. Also what conditions say without that: factors
that are made of them alone, and relations that hold whatever the indices are.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import sympy as sp

from symgrad.indexing import Bracket, is_constant
from symgrad.indexing.brackets import ORDERS, STRICT, expanded, extremes
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.arrays import RELATIONS
from symgrad.lowering.graph import FLOAT, TRUTH, WHOLE
from symgrad.lowering.terms import Term, Terms, Value
from symgrad.shapes import Size, fill_sizes

MOST = 3
"""Numbers that one thing is compared with."""
HOLDS: Mapping[type, Callable[[int, int], bool]] = {
    sp.Lt: operator.lt, sp.Le: operator.le, sp.Gt: operator.gt, sp.Ge: operator.ge, sp.Eq: operator.eq,
    sp.Ne: operator.ne,
}  # fmt: skip


@dataclass(frozen=True)
class Cases:
    """``bodies`` are what stands where ``left`` is below the first of ``bounds``, at it, above it, and so on.

    ``unknown`` is what stands where ``left`` is not a number.
    """

    left: Expr
    bounds: tuple[Expr, ...]
    bodies: tuple[Expr, ...]
    unknown: Expr

    def runs(self, body: Expr) -> Iterator[tuple[int, int]]:
        """The first and last places in a row with this body."""
        start = None
        for place, other in enumerate((*self.bodies, None)):
            if other == body and start is None:
                start = place
            elif other != body and start is not None:
                yield start, place - 1
                start = None

    def relations(self, run: tuple[int, int]) -> list[Expr]:
        """What holds exactly there: one condition, or two."""
        start, end = run
        if start == end and start % 2:
            return [sp.Eq(self.left, self.bounds[start // 2], evaluate=False)]
        found = []
        if start:
            kind = sp.Ge if start % 2 else sp.Gt
            found.append(kind(self.left, self.bounds[(start - 1) // 2], evaluate=False))
        if end < len(self.bodies) - 1:
            kind = sp.Le if end % 2 else sp.Lt
            found.append(kind(self.left, self.bounds[end // 2], evaluate=False))
        return found


def conditions_among(node: Expr) -> Iterator[Expr]:
    """The conditions among the terms and factors of ``node``."""
    if isinstance(node, Bracket):
        yield node
    elif node.is_Add or node.is_Mul or (node.is_Pow and node.exp.is_Integer):
        for part in node.args:
            yield from conditions_among(part)


def with_truths(node: Expr, truth: Mapping[Expr, Expr]) -> Expr:
    """``node`` with conditions among its terms and factors replaced by what they are."""
    if node in truth:
        return truth[node]
    if node.is_Add or node.is_Mul or (node.is_Pow and node.exp.is_Integer):
        return with_parts(node, [with_truths(part, truth) for part in node.args])
    return node


def with_parts(node: Expr, parts: Sequence[Expr]) -> Expr:
    """``node`` with other parts; a product with a 0 among them is 0: SymPy would ask whether the others are finite."""
    if all(map(operator.is_, parts, node.args)):
        return node
    return sp.S.Zero if node.is_Mul and sp.S.Zero in parts else node.func(*parts)


def comparison_of(condition: Expr) -> tuple[Expr, type, Expr] | None:
    """What a condition compares, how, and with what: entries of tensors with a number, or with other entries."""
    relation = condition.args[0]
    if type(relation) not in HOLDS:
        return None
    left, right = relation.args
    if left.is_number or (not right.is_number and right.sort_key() < left.sort_key()):
        relation = relation.reversed
        left, right = right, left
    if not any(accesses(left)) or not (right.is_number or any(accesses(right))):
        return None
    return left, type(relation), right


def cases(node: Expr) -> Cases | None:
    """The cases of a sum, by the first thing that its conditions compare; None where there is none."""
    groups: dict[Expr, list[tuple[Expr, type, Expr]]] = {}
    for condition in dict.fromkeys(conditions_among(node)):
        found = comparison_of(condition)
        if found is not None:
            groups.setdefault(found[0], []).append((condition, *found[1:]))
    for left, group in groups.items():
        bounds = list(dict.fromkeys(right for _, _, right in group))
        if len(bounds) > 1 and not all(bound.is_number and bound.is_extended_real for bound in bounds):
            continue
        bounds.sort(key=lambda bound: float(bound) if bound.is_number else 0.0)
        if len(bounds) <= MOST and len({float(b) if b.is_number else b for b in bounds}) == len(bounds):
            return by_bounds(node, left, bounds, group)
    return None


def by_bounds(node: Expr, left: Expr, bounds: Sequence[Expr], group: Sequence[tuple[Expr, type, Expr]]) -> Cases:
    """The cases of ``node`` by what ``group`` says of ``left``."""
    bodies = [
        with_truths(node, {c: sp.Integer(HOLDS[kind](place, 2 * bounds.index(right) + 1)) for c, kind, right in group})
        for place in range(2 * len(bounds) + 1)
    ]
    for at in range(1, len(bodies), 2):
        bound = bounds[at // 2]
        for side in (at - 1, at + 1):
            if same_there(bodies[at], bodies[side], left, bound):
                bodies[at] = bodies[side]
                break
    unknown = with_truths(node, {c: sp.Integer(kind is sp.Ne) for c, kind, _ in group})
    return Cases(left, tuple(bounds), tuple(bodies), unknown)


def same_there(one: Expr, other: Expr, left: Expr, bound: Expr) -> bool:
    """Whether two bodies are the same where ``left`` is ``bound``."""
    if one == other:
        return True
    at = {left: bound} if bound.is_number else {bound: left}
    return bool(one.xreplace(at) == other.xreplace(at))


def lower_cases(node: Expr, terms: Terms, value: Value, clipped: bool = False) -> Term | None:
    """A sum of cases as a choice between them; a product only if it is ``clipped``, what is no number staying none.

    [x > 0]·x is the larger of x and 0.
    """
    found = cases(node)
    if found is None:
        return None
    bodies = list(dict.fromkeys(found.bodies))
    rest = default(found, bodies)
    others = [(body, list(found.runs(body))) for body in bodies if body != rest]
    names = [None if rest is None else min_or_max(found, runs, body, rest) for body, runs in others]
    if clipped and not (names and all(names)):
        return None
    if all(body in (0, 1) for body in bodies):
        return truth(found, terms, value) if len(bodies) > 1 else terms.number(int(bodies[0]))
    largest = either(found, terms, value)
    if largest is not None:
        return largest
    if rest is None:
        return None
    result = value(rest)
    if sorted(map(str, names)) == ["maximum", "minimum"]:
        ends = [value(body) for (body, _), _ in sorted(zip(others, names, strict=True), key=lambda pair: str(pair[1]))]
        return terms.map("clip", terms.floats(result), *ends)
    for (body, runs), name in zip(others, names, strict=True):
        if name is not None and all(names):
            result = terms.map(name, terms.floats(result), value(body))
        else:
            mask = terms.folded("any", [mask_of_run(found, run, terms, value) for run in runs], holds=TRUTH)
            result = choice(mask, value(body), result, terms)
    return result


def default(found: Cases, bodies: Sequence[Expr]) -> Expr | None:
    """What stands where no condition holds: what is no number goes on from there."""
    read = [found.left, *(bound for bound in found.bounds if not bound.is_number)]
    passing = [body for body in bodies if all(body.has(e) for e in read)]
    plain = [body for body in passing if body == found.left]
    return next(iter((*plain, *passing)), found.unknown if found.unknown in bodies else None)


def either(found: Cases, terms: Terms, value: Value) -> Term | None:
    """x where x > y and y elsewhere: the larger of the two."""
    left, right = found.left, found.bounds[0]
    names = {(right, left): "maximum", (left, right): "minimum"}
    name = None if right.is_number else names.get((found.bodies[0], found.bodies[-1]))
    return None if name is None else terms.map(name, *(terms.floats(value(e)) for e in (left, right)))


def min_or_max(found: Cases, runs: Sequence[tuple[int, int]], body: Expr, rest: Expr) -> str | None:
    """c where x > c and x elsewhere: the smaller of the two."""
    if not body.is_number or len(runs) > 1 or not grows(rest, found.left):
        return None
    ((start, end),) = runs
    bound = found.bounds[end // 2 if start == 0 else (start - 1) // 2]
    if body != rest.xreplace({found.left: bound}):
        return None
    if start == 0:
        return "maximum" if found.bodies[end + 1] == rest else None
    return "minimum" if end == len(found.bodies) - 1 and found.bodies[start - 1] == rest else None


def grows(body: Expr, left: Expr) -> bool:
    """Whether ``body`` is a·left + b with numbers a > 0 and b."""
    slope = body.coeff(left)
    return bool(slope.is_number and slope.is_positive and (body - slope * left).is_number)


def mask_of_run(found: Cases, run: tuple[int, int], terms: Terms, value: Value) -> Term:
    """The condition for some places in a row."""
    masks = [
        terms.map(RELATIONS[relation.func], *(terms.numeric(value(side)) for side in relation.args), holds=TRUTH)
        for relation in found.relations(run)
    ]
    return terms.folded("both", masks, holds=TRUTH)


def truth(found: Cases, terms: Terms, value: Value) -> Term | None:
    """A sum that is 0 or 1: a condition."""
    if found.unknown not in (0, 1):
        return None
    other = sp.S.One - found.unknown
    mask = terms.folded("any", [mask_of_run(found, run, terms, value) for run in found.runs(other)], holds=TRUTH)
    return terms.map("not", mask, holds=TRUTH) if found.unknown == 1 else mask


def choice(mask: Term, one: Term, other: Term, terms: Terms) -> Term:
    """One of two by a condition."""
    one, other = terms.numeric(one), terms.numeric(other)
    numbers = [terms.constant(term) for term in (one, other)]
    if numbers[0] is not None and numbers[1] is not None:
        return terms.map("add", terms.scaled(numbers[0] - numbers[1], terms.floats(mask)), terms.number(numbers[1]))
    holds = [terms.graph.holds(term.node) for term in (one, other)]
    if FLOAT in holds:
        one, other = (t if terms.constant(t) is not None else terms.floats(t) for t in (one, other))
    return terms.applied("where", (), [mask, one, other], FLOAT if FLOAT in holds else WHOLE)


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
    rest = sorted((part for part in terms if part not in counted), key=is_constant)
    return (*rest, sp.Add(*counted)) if counted else tuple(rest)


def holds_always(relation: Expr, sizes: Mapping[Size, int]) -> bool:
    """Whether a relation holds whatever the indices are; never one between entries, as in `bracket`."""
    if not isinstance(relation, ORDERS) or accesses(relation):
        return False
    low = fill_sizes(extremes(expanded(relation.gts - relation.lts))[0], sizes)
    return bool(low.is_number and low >= int(isinstance(relation, STRICT)))
