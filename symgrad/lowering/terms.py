"""Nodes with their axes named by indices: what is done to them entry by entry, and sums of their products.

Comes in: a graph and nodes on it whose axes are indices, and the indices that are summed over. Goes out: further nodes.
Indices only say here which axes belong together; in the graph there are positions. opt_einsum finds the order of pairs
that costs least; each pair is what both keep (a stack), what only one has (rows, columns) and what is summed over: a
product of matrices, unless nothing is summed, which is a product of entries. A pair that was multiplied before is not
multiplied again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import sympy as sp

from symgrad.functions import FLOATS_HOLD
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, number
from symgrad.lowering.graph import FLOAT, TRUTH, WHOLE, Graph, NoPlan
from symgrad.shapes import Size, fill_sizes

Number = Callable[[Size], int]


@dataclass(frozen=True)
class Term:
    """A node whose axes are indices, in order."""

    node: int
    axes: tuple[Index, ...] = ()


Value = Callable[[Expr], Term]
"""What lowers an expression."""


def size_as_int(size: Size, sizes: Mapping[Size, int]) -> int:
    """A size as a number; half of an odd one is none, and has no plan."""
    if not fill_sizes(size, sizes).is_Integer:
        raise NoPlan
    return number(size, sizes)


class Lengths(dict[Index, int]):
    """How far each index runs, found when it is first asked for."""

    def __init__(self, sizes: Mapping[Size, int]) -> None:
        super().__init__()
        self.sizes = sizes

    def __missing__(self, index: Index) -> int:
        self[index] = found = size_as_int(index.size, self.sizes)
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

    def applied(self, kind: str, told: tuple[Any, ...], terms: Sequence[Term], holds: str = FLOAT) -> Term:
        """A primitive that has the axes of all its operands."""
        axes = self.union(terms)
        return Term(self.graph.apply(kind, told, [self.on(t, axes) for t in terms], self.shape(axes), holds), axes)

    def folded(self, function: str, terms: Iterable[Term], holds: str = "") -> Term:
        """A function of two entries, of all terms one after the other; of one term that term."""
        return reduce(lambda found, term: self.map(function, found, term, holds=holds), terms)

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

    def held(self, mask: Term) -> Term:
        """A condition as one: it may be a number, how many of several hold, or none where what it compares is none."""
        if self.graph.holds(mask.node) == TRUTH:
            return mask
        return self.map("not_equal", mask, self.number(0), holds=TRUTH)

    def floats(self, term: Term) -> Term:
        """The term in floats."""
        return Term(self.graph.floats(term.node), term.axes)

    def times(self, terms: Sequence[Term]) -> Term:
        """The product of entries: conditions and what has few axes first."""
        if not terms:
            return self.number(1)
        rest = sorted(terms, key=lambda t: (len(t.axes), self.graph.holds(t.node) != TRUTH, t.node))
        return reduce(self._product, rest)

    def _product(self, left: Term, right: Term) -> Term:
        kinds = [self.graph.holds(t.node) for t in (left, right)]
        if kinds == [TRUTH, TRUTH]:
            return self.map("both", left, right, holds=TRUTH)
        if set(kinds) == {TRUTH, FLOAT} and self.constant(left) is None and self.constant(right) is None:
            return self.applied("masked", (), (left, right) if kinds[0] == TRUTH else (right, left))
        return self.map("multiply", left, right, holds=FLOAT if FLOAT in kinds else WHOLE)

    def reduced(self, function: str, term: Term, bound: Collection[Index]) -> Term:
        """A reduction along the axes among ``bound``."""
        axes = [n for n, a in enumerate(term.axes) if a in bound]
        kept = tuple(a for a in term.axes if a not in bound)
        return Term(self.graph.reduce(function, term.node, axes), kept)

    def length(self, axes: Sequence[Index]) -> int:
        """The entries of a grid."""
        return math.prod(self.shape(axes))


BEST = 6
"""Up to so many factors every order is tried."""


class Products:
    """Contractions over one graph."""

    def __init__(self, terms: Terms) -> None:
        self.terms = terms
        self.graph: Graph = terms.graph
        self._pairs: dict[Any, tuple[int, tuple[tuple[int, int], ...]]] = {}

    def contract(self, factors: Sequence[Term], bound: Sequence[Index]) -> Term:
        """Σ over ``bound`` of the product of ``factors``."""
        wide = {a for f in factors for a in f.axes}
        repeats = self.terms.length([k for k in bound if k not in wide])
        summed = [k for k in bound if k in wide]
        parts = self.joined(factors, summed)
        if not summed:
            found = self.terms.times(parts)
        elif len(parts) == 1:
            found = self.terms.reduced("sum", parts[0], summed)
        else:
            found = self._in_order(parts, summed)
        return self.terms.scaled(repeats, found) if repeats != 1 else found

    def joined(self, factors: Sequence[Term], summed: Sequence[Index]) -> list[Term]:
        """Factors, conditions multiplied into what has all their axes: a product of matrices has no use for them."""
        if not summed:
            return list(factors)
        rest = [f for f in factors if self.graph.holds(f.node) != TRUTH]
        masks = [f for f in factors if self.graph.holds(f.node) == TRUTH]
        for mask in masks:
            at = next((n for n, f in enumerate(rest) if set(mask.axes) <= set(f.axes)), None)
            if at is None:
                rest.append(self.terms.floats(mask))
            else:
                rest[at] = self.terms.times([rest[at], mask])
        return rest

    def _in_order(self, factors: Sequence[Term], summed: Sequence[Index]) -> Term:
        """Pairs in an order that costs little; of two factors there is one."""
        parts = list(factors)
        kept = [a for a in dict.fromkeys(a for p in parts for a in p.axes) if a not in summed]
        for chosen in self._order(parts, kept) if len(parts) > 2 else [range(len(parts))]:
            picked = [parts[n] for n in chosen]
            parts = [p for n, p in enumerate(parts) if n not in chosen]
            needed = {a for p in parts for a in p.axes} | set(kept)
            found = picked[0]
            for n, other in enumerate(picked[1:], 2):
                gone = [a for a in dict.fromkeys(found.axes + other.axes) if a not in needed and n == len(picked)]
                found = self.pair(found, other, gone)
            if len(picked) == 1:
                found = self.terms.reduced("sum", found, [a for a in found.axes if a not in needed])
            parts.append(found)
        return parts[0]

    def _order(self, parts: Sequence[Term], kept: Sequence[Index]) -> Sequence[Sequence[int]]:
        """The pairs that opt_einsum takes one after the other."""
        import opt_einsum  # which a product of two needs nothing of

        axes = dict.fromkeys(a for p in parts for a in p.axes)
        letters = {axis: opt_einsum.get_symbol(n) for n, axis in enumerate(axes)}
        factors = ",".join("".join(letters[a] for a in p.axes) for p in parts)
        shapes = (tuple(self.terms.shape(p.axes)) for p in parts)
        search = "optimal" if len(parts) <= BEST else "greedy"
        told = f"{factors}->{''.join(letters[a] for a in kept)}"
        return list(opt_einsum.contract_path(told, *shapes, shapes=True, optimize=search)[0])

    def pair(self, x: Term, y: Term, summed: Collection[Index]) -> Term:
        """Σ over ``summed`` of x·y, looked up where the same pair was met under other letters."""
        a, b = sorted((x, y), key=lambda t: t.node)
        key = (
            a.node,
            b.node,
            tuple((n, b.axes.index(k)) for n, k in enumerate(a.axes) if k in b.axes),
            tuple(n for n, k in enumerate(a.axes) if k in summed),
            tuple(n for n, k in enumerate(b.axes) if k in summed),
        )
        if key not in self._pairs:
            found = self._pair(x, y, summed)
            places = tuple((0, a.axes.index(k)) if k in a.axes else (1, b.axes.index(k)) for k in found.axes)
            self._pairs[key] = (found.node, places)
        node, places = self._pairs[key]
        return Term(node, tuple((a, b)[side].axes[n] for side, n in places))

    def _pair(self, x: Term, y: Term, summed: Collection[Index]) -> Term:
        """One product of matrices, or of entries."""
        terms, graph = self.terms, self.graph
        x = terms.reduced("sum", x, [a for a in x.axes if a in summed and a not in y.axes])
        y = terms.reduced("sum", y, [a for a in y.axes if a in summed and a not in x.axes])
        if not any(a in summed for a in x.axes):
            return terms.times([x, y])
        x, y = terms.floats(x), terms.floats(y)

        def front(mine: Term, other: Term) -> tuple[int, int, int]:
            own = [terms.first.get(a, len(terms.first)) for a in mine.axes if a not in other.axes]
            return min(own, default=len(terms.first) + 1), -len(own), mine.node

        if front(y, x) < front(x, y):  # whose axis comes first in the result has the rows: it lies together then
            x, y = y, x
        stack = [a for a in x.axes if a in y.axes and a not in summed]
        rows = [a for a in x.axes if a not in y.axes]
        columns = [a for a in y.axes if a not in x.axes]
        larger = x if len(rows) >= len(columns) else y
        along = [a for a in larger.axes if a in x.axes and a in y.axes and a in summed]
        if stack and not rows and not columns:
            return terms.reduced("sum", terms.times([x, y]), along)
        left, right = self._matrix(x, stack, rows, along), self._matrix(y, stack, along, columns)
        shape = [*terms.shape(stack), terms.length(rows), terms.length(columns)]
        made = graph.apply("product", (), (left, right), shape, FLOAT)
        axes = (*stack, *rows, *columns)
        return Term(graph.reshape(made, terms.shape(axes)), axes)

    def _matrix(self, term: Term, stack: list[Index], rows: list[Index], columns: list[Index]) -> int:
        """A stack of matrices; windows are copied along the longer of the last axes, and turned where need be."""
        terms, graph = self.terms, self.graph
        shape = terms.shape(stack)
        last = [terms.lengths[group[-1]] if group else 0 for group in (rows, columns)]
        if last[0] > last[1] and graph.has_view(term.node, ("window",)):
            turned = terms.ordered(term, stack + columns + rows).node
            found = graph.reshape(turned, [*shape, terms.length(columns), terms.length(rows)])
            axes = range(len(shape) + 2)
            return graph.transpose(found, [*axes[:-2], axes[-1], axes[-2]])
        found = terms.ordered(term, stack + rows + columns).node
        return graph.reshape(found, [*shape, terms.length(rows), terms.length(columns)])


def real_number(node: Expr) -> int | float:
    """A constant as a number: ±∞ where it is beyond floats, NaN where it is not real, as log(−2)."""
    if node.is_Integer and abs(node) < FLOATS_HOLD:
        return int(node)
    try:
        return float(node) if node.is_extended_real else math.nan
    except OverflowError:
        return math.copysign(math.inf, sp.sign(node))
