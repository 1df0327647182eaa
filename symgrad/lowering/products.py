"""Sums of products in the order that costs least, as products of matrices.

Comes in: terms and the indices that are summed over. Goes out: one term. opt_einsum finds the order of pairs; each pair
is what both keep (a stack), what only one has (rows, columns) and what is summed over: a product of matrices, unless
nothing is summed, which is a product of entries. A pair that was multiplied before is not multiplied again.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import opt_einsum

from symgrad.indexing import Index
from symgrad.lowering.graph import FLOAT, TRUTH, VIEWS, Graph
from symgrad.lowering.terms import Term, Terms

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
        """Pairs in the order that opt_einsum finds."""
        parts = list(factors)
        letters: dict[Index, str] = {}
        for part in parts:
            for axis in part.axes:
                letters.setdefault(axis, opt_einsum.get_symbol(len(letters)))
        kept = [a for a in letters if a not in summed]
        spelled = ["".join(letters[a] for a in part.axes) for part in parts]
        told = f"{','.join(spelled)}->{''.join(letters[a] for a in kept)}"
        path, _ = opt_einsum.contract_path(
            told,
            *(tuple(self.terms.shape(p.axes)) for p in parts),
            shapes=True,
            optimize="optimal" if len(parts) <= BEST else "greedy",
        )
        for chosen in path:
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
        if last[0] > last[1] and self._slides(term.node):
            turned = terms.ordered(term, stack + columns + rows).node
            found = graph.reshape(turned, [*shape, terms.length(columns), terms.length(rows)])
            axes = range(len(shape) + 2)
            return graph.transpose(found, [*axes[:-2], axes[-1], axes[-2]])
        found = terms.ordered(term, stack + rows + columns).node
        return graph.reshape(found, [*shape, terms.length(rows), terms.length(columns)])

    def _slides(self, place: int) -> bool:
        """Whether a node is a view in which entries stand several times."""
        node = self.graph.nodes[place]
        while node.kind in VIEWS and node.operands:
            if node.kind == "window":
                return True
            node = self.graph.nodes[node.operands[0]]
        return False
