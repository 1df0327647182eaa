"""Nodes with their axes named by indices, and what is done to them entry by entry.

Comes in: a graph and nodes on it whose axes are indices. Goes out: further ones. Indices only say here which axes
belong together; in the graph there are positions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from symgrad.indexing import Index
from symgrad.lowering.graph import FLOAT, TRUTH, WHOLE, Graph, NoPlan
from symgrad.lowering.reading import number
from symgrad.shapes import Size, with_numbers


@dataclass(frozen=True)
class Term:
    """A node whose axes are indices, in order."""

    node: int
    axes: tuple[Index, ...] = ()


def size_of(size: Size, sizes: Mapping[Size, int]) -> int:
    """A size as a number; half of an odd one is none, and has no plan."""
    if not with_numbers(size, sizes).is_Integer:
        raise NoPlan
    return number(size, sizes)


class Lengths(dict[Index, int]):
    """How far each index runs, found when it is first asked for."""

    def __init__(self, sizes: Mapping[Size, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __missing__(self, index: Index) -> int:
        self[index] = found = size_of(index.size, self.sizes)
        return found


@dataclass
class Terms:
    """Operations on terms over one graph; ``first`` says which axes the result that is wanted has first."""

    graph: Graph
    lengths: Lengths
    first: Mapping[Index, int]

    def number(self, value: float) -> Term:
        """A number."""
        return Term(self.graph.number(value))

    def constant(self, term: Term) -> float | int | None:
        """The number that a term is, if it is one."""
        value: float | int | None = self.graph.value(term.node)
        return value

    def shape(self, axes: Sequence[Index]) -> list[int]:
        """How long axes are."""
        return [self.lengths[axis] for axis in axes]

    def ordered(self, term: Term, axes: Sequence[Index]) -> Term:
        """The term with its axes in the order of ``axes``, which hold all of them."""
        wanted = tuple(a for a in axes if a in term.axes)
        return Term(self.graph.transpose(term.node, [term.axes.index(a) for a in wanted]), wanted)

    def on(self, term: Term, axes: Sequence[Index]) -> int:
        """The term's node with one axis for each of ``axes``, of one entry where it does not vary."""
        lined = self.ordered(term, axes)
        if len(lined.axes) == len(axes) or not lined.axes:
            return lined.node
        first = next(n for n, a in enumerate(axes) if a in lined.axes)  # those before it broadcast by themselves
        return self.graph.reshape(lined.node, [self.lengths[a] if a in lined.axes else 1 for a in axes[first:]])

    def whole(self, term: Term, axes: Sequence[Index]) -> int:
        """The term's node with all of ``axes`` at their full length."""
        found = self.on(term, axes)
        shape = self.shape(axes)
        graph = self.graph
        if not graph.shape(found) and graph.value(found) is not None:
            found = graph.floats(found)
        return graph.expand(found, shape)

    def union(self, terms: Sequence[Term]) -> tuple[Index, ...]:
        """The axes of all terms: in the order of one that has all of them, else in that of the result."""
        longest = max(terms, key=lambda t: len(t.axes)).axes
        every = dict.fromkeys((*longest, *(a for term in terms for a in term.axes)))
        if len(every) == len(longest):
            return longest
        return tuple(sorted(every, key=lambda a: self.first.get(a, len(self.first))))

    def map(self, function: str, *terms: Term, holds: str = "") -> Term:
        """A function of entries."""
        axes = self.union(terms)
        return Term(self.graph.map(function, *(self.on(t, axes) for t in terms), holds=holds), axes)

    def scaled(self, factor: float | int, term: Term) -> Term:
        """``factor`` times ``term``."""
        if factor == 1:
            return term
        known = self.constant(term)
        if known is not None:
            return self.number(factor * known)
        if factor == -1:
            return self.map("negative", Term(self.numeric(term).node, term.axes))
        return self.map("multiply", self.number(factor), self.numeric(term))

    def numeric(self, term: Term) -> Term:
        """The term, conditions as the whole numbers 0 and 1."""
        return self.map("whole", term, holds=WHOLE) if self.graph.holds(term.node) == TRUTH else term

    def floats(self, term: Term) -> Term:
        """The term in floats."""
        return Term(self.graph.floats(term.node), term.axes)

    def times(self, terms: Sequence[Term]) -> Term:
        """The product of entries: conditions and what has few axes first."""
        if not terms:
            return self.number(1)
        rest = sorted(terms, key=lambda t: (len(t.axes), self.graph.holds(t.node) != TRUTH, t.node))
        found = rest[0]
        for term in rest[1:]:
            found = self._product(found, term)
        return found

    def _product(self, left: Term, right: Term) -> Term:
        kinds = [self.graph.holds(t.node) for t in (left, right)]
        if kinds == [TRUTH, TRUTH]:
            return self.map("both", left, right, holds=TRUTH)
        if set(kinds) == {TRUTH, FLOAT} and self.constant(left) is None and self.constant(right) is None:
            mask, array = (left, right) if kinds[0] == TRUTH else (right, left)
            axes = self.union([mask, array])
            given = (self.on(mask, axes), self.on(array, axes))
            return Term(self.graph.apply("masked", (), given, self.shape(axes)), axes)
        return self.map("multiply", left, right, holds=FLOAT if FLOAT in kinds else WHOLE)

    def reduced(self, function: str, term: Term, bound: Collection[Index]) -> Term:
        """A reduction along the axes among ``bound``."""
        axes = [n for n, a in enumerate(term.axes) if a in bound]
        kept = tuple(a for a in term.axes if a not in bound)
        return Term(self.graph.reduce(function, term.node, axes), kept)

    def length(self, axes: Sequence[Index]) -> int:
        """The entries of a grid."""
        return math.prod(self.shape(axes))


__all__ = ["NoPlan"]
