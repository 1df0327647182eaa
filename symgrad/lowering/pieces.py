"""Formulas that read one thing up to a place and another from there on: cat, pads, rolls.

Comes in: a sum with conditions on one index, or an access at a remainder. Goes out: the places at which it changes, and
what it is between them, over an index of that length: the pieces are computed by themselves and joined.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import sympy as sp

from symgrad.indexing import Bracket, Index, fresh
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access
from symgrad.lowering.windows import Line, line
from symgrad.shapes import Size

MOST = 6
"""Pieces of one axis."""
Number = Callable[[Size], int]
ENDS: dict[type, tuple[int, ...]] = {sp.Lt: (0,), sp.Le: (1,), sp.Gt: (1,), sp.Ge: (0,), sp.Eq: (0, 1), sp.Ne: (0, 1)}
"""Where a comparison of an index with a number changes, counted from that number."""


@dataclass(frozen=True)
class Piece:
    """``body`` over ``inner``, which is what an index is from ``start`` on; None where that is one place."""

    inner: Index | None
    length: int
    body: Expr


@dataclass(frozen=True)
class Change:
    """``index`` meets a condition or a remainder that is another one from each of ``places`` on."""

    index: Index
    places: tuple[int, ...]


def changes(node: Expr, number: Number) -> Iterator[Change]:
    """Where the terms and factors of ``node``, or the places that it reads, become others."""
    if node.is_Add or node.is_Mul:
        for part in node.args:
            if not is_access(part):
                yield from changes(part, number)
    elif isinstance(node, Bracket) and type(node.args[0]) in ENDS and not any(accesses(node)):
        gap = line(node.args[0].lhs - node.args[0].rhs)
        yield from crossing(type(node.args[0]), gap, number)
    elif isinstance(node, sp.KroneckerDelta) and not any(accesses(node)):
        yield from crossing(sp.Eq, line(node.args[0] - node.args[1]), number)


def crossing(kind: type, gap: Line | None, number: Number) -> Iterator[Change]:
    """Where a line through one index meets 0."""
    if gap is None or len(gap.slopes) != 1 or abs(gap.slopes[0][1]) != 1:
        return
    ((index, slope),) = gap.slopes
    zero = -slope * number(gap.constant)
    ends = ENDS[kind] if slope == 1 or kind in (sp.Eq, sp.Ne) else tuple(1 - end for end in ENDS[kind])
    yield Change(index, tuple(zero + end for end in ends))


def remainders(node: Expr, number: Number) -> Iterator[tuple[Expr, Change]]:
    """The remainders among the places that an access reads, and where they begin again."""
    for place in indices_of(node):
        for rest in place.atoms(sp.Mod):
            top, size = line(rest.args[0]), rest.args[1]
            if top is None or len(top.slopes) != 1 or abs(top.slopes[0][1]) != 1:
                continue
            ((index, slope),) = top.slopes
            below, first = number(size), number(top.constant)
            if not below:  # an axis without entries: nothing is read
                continue
            low, high = sorted((first, first + slope * (number(index.size) - 1)))
            turns = [n * below for n in range(low // below, high // below + 2)]
            yield rest, Change(index, tuple(t - first if slope == 1 else first - t + 1 for t in turns))


def pieces(node: Expr, number: Number) -> tuple[Index, list[Piece]] | None:
    """A formula in pieces along one of its indices; None where it is one."""
    rests: dict[Expr, Change] = {}
    if is_access(node):
        rests = dict(remainders(node, number))
        found = list(rests.values())
    elif node.is_Add:
        found = list(changes(node, number))
    else:
        return None
    if not found:
        return None
    index, length = found[0].index, number(found[0].index.size)
    cuts = sorted({0, length, *(p for c in found if c.index == index for p in c.places if 0 < p < length)})
    if len(cuts) - 1 > MOST:
        return None
    result = []
    for start, end in pairwise(cuts):
        inner = fresh(index.name, sp.Integer(end - start)) if end - start > 1 else None
        turned = {rest: begun(rest, index, start, number) for rest, c in rests.items() if c.index == index}
        body = node.xreplace(turned) if rests else settled(node, index, start, number)
        at = sp.Integer(start) if inner is None else inner + start
        result.append(Piece(inner, end - start, body.xreplace({index: at})))
    return index, result


def begun(rest: Expr, index: Index, start: int, number: Number) -> Expr:
    """A remainder without its division, where the index begins at ``start``."""
    first = number(rest.args[0].xreplace({index: sp.Integer(start)}))
    return rest.args[0] - first // number(rest.args[1]) * rest.args[1]


def settled(node: Expr, index: Index, start: int, number: Number) -> Expr:
    """``node`` with the conditions on an index decided, where they are what they are at ``start``."""
    if node.is_Add or node.is_Mul:
        parts = [part if is_access(part) else settled(part, index, start, number) for part in node.args]
        return node if all(map(operator.is_, parts, node.args)) else node.func(*parts)
    if not any(change.index == index for change in changes(node, number)):
        return node
    relation = node.args[0] if isinstance(node, Bracket) else sp.Eq(*node.args, evaluate=False)
    gap = line(relation.lhs - relation.rhs)
    assert gap is not None
    at = gap.slopes[0][1] * start + number(gap.constant)
    return sp.Integer(bool(relation.func(sp.Integer(at), 0)))
