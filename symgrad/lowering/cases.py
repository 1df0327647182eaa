"""Sums that are one thing here and another there, by how large something is: [x > 0]·x + (1 − [x > 0])·a·x.

Comes in: a sum with conditions among its factors. Goes out: its `Cases`: what it is below, at and above each number
that something is compared with. A choice between two is quicker than a sum of products, and an infinity that is not
chosen spoils nothing.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr, accesses

MOST = 3
"""Numbers that one thing is compared with."""
SWAPPED = {sp.Lt: sp.Gt, sp.Le: sp.Ge, sp.Gt: sp.Lt, sp.Ge: sp.Le, sp.Eq: sp.Eq, sp.Ne: sp.Ne}
HOLDS: Mapping[type, Callable[[int, int], bool]] = {
    sp.Lt: lambda a, b: a < b, sp.Le: lambda a, b: a <= b, sp.Gt: lambda a, b: a > b, sp.Ge: lambda a, b: a >= b,
    sp.Eq: lambda a, b: a == b, sp.Ne: lambda a, b: a != b,
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


def conditions(node: Expr) -> Iterator[Expr]:
    """The conditions among the terms and factors of ``node``."""
    if isinstance(node, Bracket):
        yield node
    elif node.is_Add or node.is_Mul or (node.is_Pow and node.exp.is_Integer):
        for part in node.args:
            yield from conditions(part)


def told(node: Expr, truth: Mapping[Expr, Expr]) -> Expr:
    """``node`` with conditions among its terms and factors replaced by what they are."""
    if isinstance(node, Bracket):
        return truth.get(node, node)
    if node.is_Add or node.is_Mul or (node.is_Pow and node.exp.is_Integer):
        parts = [told(part, truth) for part in node.args]
        return node if all(map(operator.is_, parts, node.args)) else node.func(*parts)
    return node


def compared(condition: Expr) -> tuple[Expr, type, Expr] | None:
    """What a condition compares, how, and with what: entries of tensors with a number, or with other entries."""
    relation = condition.args[0]
    kind = type(relation)
    if kind not in HOLDS:
        return None
    left, right = relation.args
    if left.is_number or (not right.is_number and right.sort_key() < left.sort_key()):
        left, kind, right = right, SWAPPED[kind], left
    if not any(accesses(left)) or not (right.is_number or any(accesses(right))):
        return None
    return left, kind, right


def cases(node: Expr) -> Cases | None:
    """The cases of a sum, by the first thing that its conditions compare; None where there is none."""
    groups: dict[Expr, list[tuple[Expr, type, Expr]]] = {}
    for condition in dict.fromkeys(conditions(node)):
        found = compared(condition)
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
        told(node, {c: sp.Integer(HOLDS[kind](place, 2 * bounds.index(right) + 1)) for c, kind, right in group})
        for place in range(2 * len(bounds) + 1)
    ]
    for at in range(1, len(bodies), 2):
        bound = bounds[at // 2]
        for side in (at - 1, at + 1):
            if same_there(bodies[at], bodies[side], left, bound):
                bodies[at] = bodies[side]
                break
    unknown = told(node, {c: sp.Integer(kind is sp.Ne) for c, kind, _ in group})
    return Cases(left, tuple(bounds), tuple(bodies), unknown)


def same_there(one: Expr, other: Expr, left: Expr, bound: Expr) -> bool:
    """Whether two bodies are the same where ``left`` is ``bound``."""
    if one == other:
        return True
    at = {left: bound} if bound.is_number else {bound: left}
    return bool(one.xreplace(at) == other.xreplace(at))
