"""Sums of what has been reached so far: Σ_j [j ≤ i]·f(j) in one go along j.

Comes in: a condition that compares the index that is summed over with another one. Goes out: a `Reached`, which makes
the running sum of a term, from either end, and reads it where the condition says.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from symgrad.indexing import Bracket, Index
from symgrad.indexing.symbols import Expr, free_indices
from symgrad.lowering.terms import Term, Terms
from symgrad.lowering.windows import line

STRICT = {sp.Lt: 1, sp.Gt: 1, sp.Le: 0, sp.Ge: 0}


@dataclass(frozen=True)
class Reached:
    """j ≤ i + ``shift``, or j ≥ i + ``shift`` where ``backwards``; j is ``inner`` and i is ``outer``."""

    inner: Index
    outer: Index
    backwards: bool
    shift: int

    def scanned(self, function: str, term: Term, terms: Terms) -> Term | None:
        """The running sum of ``term`` along j, over i; None where i may lie beyond either end."""
        last = terms.lengths[self.inner] - 1
        first, end = self.shift, terms.lengths[self.outer] - 1 + self.shift
        if self.inner not in term.axes or (first < 0 and end > last):
            return None
        nothing = end > last if self.backwards else first < 0  # of no entry at all: a sum of none is 0
        if nothing and function != "sum":
            return None
        axis = term.axes.index(self.inner)
        graph, shape = terms.graph, terms.graph.shape(term.node)
        node = graph.apply("scan", (function, axis, self.backwards), (term.node,), shape, graph.holds(term.node))
        axes = (*term.axes[:axis], self.outer, *term.axes[axis + 1 :])
        if self.shift or first + last != end:
            told = (axis, ((1, terms.lengths[self.outer]),), self.shift, nothing)
            node = graph.apply("window", told, (node,), terms.shape(axes), graph.holds(term.node))
        return Term(node, axes)


def so_far(condition: Expr, inner: Index, *others: Expr) -> Reached | None:
    """A condition as how far ``inner`` goes, if it compares it with an index that stands in none of ``others``."""
    if not isinstance(condition, Bracket) or type(condition.args[0]) not in STRICT:
        return None
    relation = condition.args[0]
    gap = line(relation.lhs - relation.rhs)
    if gap is None or len(gap.slopes) != 2 or not gap.constant.is_Integer:
        return None
    slopes = dict(gap.slopes)
    (outer,) = (k for k in (*slopes, inner) if k != inner) if len(slopes) == 2 and inner in slopes else (None,)
    if outer is None or slopes[inner] + slopes[outer] or abs(slopes[inner]) != 1:
        return None
    if any(outer in free_indices(other) for other in others):
        return None
    below = isinstance(relation, (sp.Lt, sp.Le)) == (slopes[inner] == 1)  # j ≤ i + shift
    shift = -slopes[inner] * int(gap.constant) + STRICT[type(relation)] * (-1 if below else 1)
    return Reached(inner, outer, not below, shift)


__all__ = ["Reached", "so_far"]
