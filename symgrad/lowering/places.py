"""Entries of tensors: views where an index runs along an axis, looked up where it is computed, and put back.

Comes in: accesses, and sums that read one thing up to a place and another from there on: those of cat, pads, rolls
Goes out: terms. Such a sum is taken apart where it changes; the pieces are computed by themselves and joined.
Outside its tensor an entry counts as 0 where a condition was left out for it, and as the nearest one elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import sympy as sp

from symgrad.indexing import Bracket, Index, Ravel, fresh
from symgrad.indexing.brackets import by_whole_numbers, relation_of
from symgrad.indexing.symbols import Expr, accesses, indices_of, is_access, name_of, number
from symgrad.lowering.choices import with_truths
from symgrad.lowering.graph import FLOAT, TRUTH, WHOLE, NoPlan
from symgrad.lowering.terms import Number, Term, Terms, Value
from symgrad.lowering.windows import line
from symgrad.shapes import Size

MOST = 6
"""Pieces of one axis."""
ENDS: dict[type, tuple[int, ...]] = {sp.Lt: (0,), sp.Le: (1,), sp.Gt: (1,), sp.Ge: (0,), sp.Eq: (0, 1), sp.Ne: (0, 1)}
"""Where a comparison of an index with a number changes, counted from that number."""


@dataclass(frozen=True)
class Piece:
    """``body`` over ``inner``, which is what an index is from ``start`` on; None where that is one place."""

    inner: Index | None
    length: int
    body: Expr


@dataclass(frozen=True)
class ConditionChange:
    """``index`` meets a condition or a remainder that is another one from each of ``places`` on."""

    index: Index
    places: tuple[int, ...]


def changes(node: Expr, number: Number) -> Iterator[tuple[Expr, ConditionChange]]:
    """The conditions among the terms and factors of ``node``, and where they become others."""
    if node.is_Add or node.is_Mul:
        for part in node.args:
            yield from changes(part, number)
    elif isinstance(node, (Bracket, sp.KroneckerDelta)) and not any(accesses(node)):
        relation = relation_of(node)
        along = along_one_index(relation.lhs - relation.rhs) if type(relation) in ENDS else None
        if along is not None:
            index, slope, constant = along
            ends = ENDS[type(relation)] if slope == 1 else [1 - end for end in ENDS[type(relation)]]
            yield node, ConditionChange(index, tuple(end - slope * number(constant) for end in ends))


def along_one_index(expression: Expr) -> tuple[Index, int, Expr] | None:
    """i, ±1 and c, of ±i + c."""
    found = line(expression)
    if found is None or [abs(slope) for _, slope in found.slopes] != [1]:
        return None
    return *found.slopes[0], found.constant


def remainders(node: Expr, number: Number) -> Iterator[tuple[Expr, ConditionChange]]:
    """The remainders among the places that an access reads, and where they begin again."""
    for place in indices_of(node):
        for rest in place.atoms(sp.Mod):
            along = along_one_index(rest.args[0])
            if along is None or not (below := number(rest.args[1])):  # an axis without entries: nothing is read
                continue
            index, slope, first = along[0], along[1], number(along[2])
            low, high = sorted((first, first + slope * (number(index.size) - 1)))
            turns = [n * below for n in range(low // below, high // below + 2)]
            yield rest, ConditionChange(index, tuple(t - first if slope == 1 else first - t + 1 for t in turns))


def split_in_pieces(node: Expr, number: Number) -> tuple[Index, list[Piece]] | None:
    """An entry or a sum in pieces along one of its indices; None where it is one, or changes within a place: at 5/2."""
    try:
        found = dict(remainders(node, number) if is_access(node) else changes(node, number))
    except NoPlan:
        return None
    if not found:
        return None
    index = next(iter(found.values())).index
    own = {part: change.places for part, change in found.items() if change.index == index}
    length = number(index.size)
    cuts = sorted({0, length, *(p for places in own.values() for p in places if 0 < p < length)})
    if len(cuts) - 1 > MOST:
        return None
    result = []
    for start, end in pairwise(cuts):
        inner = fresh(index.name, sp.Integer(end - start)) if end - start > 1 else None
        there = {part: from_there_on(part, {index: sp.Integer(start)}, number) for part in own}
        body = node.xreplace(there) if is_access(node) else with_truths(node, there)
        at = sp.Integer(start) if inner is None else inner + start
        result.append(Piece(inner, end - start, body.xreplace({index: at})))
    return index, result


def from_there_on(part: Expr, at: Mapping[Expr, Expr], number: Number) -> Expr:
    """A condition as what it is where a piece begins, a remainder without its division."""
    if isinstance(part, sp.Mod):
        return part.args[0] - number(part.args[0].xreplace(at)) // number(part.args[1]) * part.args[1]
    relation = relation_of(part)
    gap = number((relation.lhs - relation.rhs).xreplace(at))
    return sp.Integer(bool(relation.func(sp.Integer(gap), 0)))


class TensorPlaces:
    """What is read of tensors, over one graph."""

    def __init__(self, terms: Terms, shapes: Mapping[str, tuple[int, ...]], holds: Mapping[str, str]) -> None:
        self.terms, self.graph, self.shapes, self.holds = terms, terms.graph, shapes, holds
        self._sizes = terms.lengths.sizes

    def numbers(self, shape: Sequence[Size]) -> tuple[int, ...]:
        """Sizes as numbers."""
        return tuple(number(size, self._sizes) for size in shape)

    def counted(self, index: Index) -> Term:
        """An index itself: 0, 1, 2, …"""
        length = self.terms.lengths[index]
        return Term(self.graph.apply("iota", (length,), (), (length,), WHOLE), (index,))

    def entry(self, node: Expr, value: Value, zero: bool = False) -> Term:
        """An entry of a tensor, axis by axis."""
        name = name_of(node)
        found = self.graph.input(name, self.shapes[name], self.holds[name])
        found, indices = self.merged(found, indices_of(node))
        apart = [s for i in indices for s in i.free_symbols if isinstance(s, Index)]
        if len(apart) != len(set(apart)):
            return self.looked_up(found, indices, value, zero)
        axes: list[Index] = []
        for axis in range(len(indices) - 1, -1, -1):
            found, new = self.one_axis(found, axis, indices[axis], value, zero)
            axes = [*new, *axes]
        return Term(found, tuple(axes))

    def merged(self, found: int, indices: Sequence[Expr]) -> tuple[int, list[Expr]]:
        """Axes that unravel one entry number, joined into one axis with that number as its index."""
        shape, axis = self.graph.shape(found), 0
        result, lengths = list[Expr](), list[int]()
        for index, many in by_whole_numbers(indices):
            own, parts = indices[axis : axis + many], shape[axis : axis + many]
            whole = many == 1 or self.numbers(own[0].shape) == parts
            result += [index] if whole else own
            lengths += [math.prod(parts)] if whole else parts
            axis += many
        return self.graph.reshape(found, lengths), result

    def one_axis(self, found: int, axis: int, index: Expr, value: Value, zero: bool) -> tuple[int, tuple[Index, ...]]:
        """``index`` put into an axis: the new node, and the indices in the place of the axis."""
        shape = self.graph.shape(found)
        holds, length = self.graph.holds(found), shape[axis]
        before, after = shape[:axis], shape[axis + 1 :]
        if isinstance(index, Index) and self.terms.lengths[index] == length:
            return found, (index,)
        apart = isinstance(index, Ravel) and len(set(index.indices)) == len(index.indices)
        if apart and all(isinstance(i, Index) for i in index.indices):
            inner = self.numbers(index.shape)
            if inner == self.numbers([i.size for i in index.indices]) and math.prod(inner) == length:
                return self.graph.reshape(found, [*before, *inner, *after]), index.indices
        if index.is_Integer and 0 <= index < length:
            return self.graph.apply("item", (axis, int(index)), (found,), [*before, *after], holds), ()
        straight = line(index)
        if straight is not None:
            slopes = tuple((slope, self.terms.lengths[k]) for k, slope in straight.slopes)
            told = (axis, slopes, number(straight.constant, self._sizes), zero)
            new = [*before, *(n for _, n in slopes), *after]
            return self.graph.apply("window", told, (found,), new, holds), straight.indices
        place = value(index)
        at = self.graph.whole(place.node)
        inner = self.graph.shape(at)
        taken = self.graph.apply("take", (axis,), (found, at), [*before, *inner, *after], holds)
        if zero:
            taken = self.masked(taken, self.inside(at, length), len(after))
        return taken, place.axes

    def inside(self, at: int, length: int) -> int:
        """Whether places lie on an axis."""
        low = self.graph.map("greater_equal", at, self.graph.number(0), holds=TRUTH)
        return self.graph.map(
            "both", low, self.graph.map("less", at, self.graph.number(length), holds=TRUTH), holds=TRUTH
        )

    def masked(self, found: int, mask: int, behind: int) -> int:
        """0 where a condition on the axes before the last few fails."""
        mask = self.graph.reshape(mask, [*self.graph.shape(mask), *[1] * behind])
        given = (mask, found, self.graph.number(0))
        return self.graph.apply("where", (), given, self.graph.shape(found), self.graph.holds(found))

    def looked_up(self, found: int, indices: Sequence[Expr], value: Value, zero: bool) -> Term:
        """Entry by entry, over the grid of all indices."""
        graph, shape = self.graph, self.graph.shape(found)
        parts = [value(i) for i in indices]
        axes = self.terms.union(parts)
        wanted = [graph.whole(self.terms.on(part, axes)) for part in parts]
        numbers = [
            graph.map("minimum", graph.map("maximum", at, graph.number(0)), graph.number(n - 1))
            for at, n in zip(wanted, shape, strict=True)
        ]
        place = self.ravelled([Term(at, ()) for at in numbers], shape).node
        place = graph.expand(place, self.terms.shape(axes))
        taken = graph.apply(
            "take", (0,), (graph.reshape(found, [math.prod(shape)]), place), graph.shape(place), graph.holds(found)
        )
        for at, n in zip(wanted, shape, strict=True):
            taken = self.masked(taken, self.inside(at, n), 0) if zero else taken
        return Term(taken, axes)

    def ravelled(self, parts: Sequence[Term], shape: Sequence[int]) -> Term:
        """Row-major numbers."""
        found = self.terms.number(0)
        for part, length in zip(parts, shape, strict=True):
            if self.terms.constant(found) != 0:
                found = self.terms.map("multiply", found, self.terms.number(length))
                found = self.terms.map("add", found, part)
            else:
                found = part
        return found

    def unravelled(self, numbers: Term, shape: Sequence[int], axis: int) -> Term:
        """One index from row-major numbers."""
        behind = math.prod(shape[axis + 1 :])
        found = numbers if behind == 1 else self.terms.map("floor_divide", numbers, self.terms.number(behind))
        return self.terms.map("remainder", found, self.terms.number(shape[axis]))

    def scattered(
        self, rest: Term, targets: Sequence[Sequence[Index]], places: Sequence[Term], bound: Sequence[Index]
    ) -> Term:
        """Σ_i t(i)·δ(f(i), p): each t(i) is added at p = f(i)."""
        terms, graph = self.terms, self.graph
        used = tuple(dict.fromkeys(a for place in places for a in place.axes))
        kept = tuple(dict.fromkeys(a for a in (*rest.axes, *used) if a not in bound))
        inner = tuple(k for k in bound if k in used)
        if any(a in bound and a not in used for a in rest.axes):
            raise NoPlan
        grid = (*kept, *inner)
        lengths = [terms.length(target) for target in targets]
        whole = [Term(graph.whole(place.node), place.axes) for place in places]
        at = self.ravelled(whole, lengths)
        if len(places) > 1:  # a place outside in one direction is one inside in another
            for place, length in zip(whole, lengths, strict=True):
                inside = Term(self.inside(place.node, length), place.axes)
                at = terms.applied("where", (), [inside, at, terms.number(-1)], WHOLE)
        rows, columns, length = terms.length(kept), terms.length(inner), math.prod(lengths)
        rows_of = tuple(graph.reshape(terms.whole(term, grid), (rows, columns)) for term in (terms.floats(rest), at))
        made = graph.apply("put", (length,), rows_of, (rows, length))
        axes = (*kept, *(t for target in targets for t in target))
        return Term(graph.reshape(made, terms.shape(axes)), axes)


def at_one_place(terms: Terms, found: Term, delta: Expr) -> Term:
    """δ(a number, p)·t: t at one place of a new axis, 0 elsewhere."""
    place, index = sorted(delta.args, key=lambda a: isinstance(a, Index))
    graph, found = terms.graph, terms.numeric(found)
    told = (int(place), terms.lengths[index])
    shape = (terms.lengths[index], *graph.shape(found.node))
    node = graph.apply("place", told, (found.node,), shape, graph.holds(found.node))
    return Term(node, (index, *found.axes))


def join_pieces(terms: Terms, index: Index, parts: Sequence[Piece], value: Value) -> Term:
    """Pieces of one axis, one after the other."""
    made = []
    for part in parts:
        if part.inner is not None:
            terms.lengths[part.inner] = part.length
        made.append((part, terms.numeric(value(part.body))))
    own = {part.inner for part in parts}
    axes = (*(a for a in terms.union([term for _, term in made]) if a not in own), index)
    axes = tuple(sorted(axes, key=lambda a: terms.first.get(a, len(terms.first))))
    axis = axes.index(index)
    holds = FLOAT if any(terms.graph.holds(term.node) == FLOAT for _, term in made) else WHOLE
    nodes = []
    for part, term in made:
        term = terms.floats(term) if holds == FLOAT else term
        inner = [a for a in axes if a != index]
        if part.inner is not None:
            inner.insert(axis, part.inner)
        node = terms.whole(term, inner)
        shape = terms.shape(inner)
        nodes.append(node if part.inner is not None else terms.graph.reshape(node, [*shape[:axis], 1, *shape[axis:]]))
    if len(nodes) == 1:
        return Term(nodes[0], axes)
    return Term(terms.graph.apply("join", (axis,), nodes, terms.shape(axes), holds), axes)


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
