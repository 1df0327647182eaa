"""Sums of exponentials, the largest exponent taken off first, and sums of what has been reached so far.

Comes in: sums of exponentials, and what lowers the parts of them; a condition that compares the index that is summed
over with another one. Goes out: terms that neither overflow nor are lost; a `Reached`, which makes Σ_j [j ≤ i]·f(j) in
one go along j, from either end, and reads it where the condition says.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from symgrad.indexing import Bracket, Index
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices
from symgrad.lowering.exponents import exponentials_only
from symgrad.lowering.graph import TRUTH
from symgrad.lowering.terms import Term, Terms
from symgrad.lowering.windows import line


class Families:
    """Families of exponentials over one graph."""

    def __init__(self, terms: Terms, value: Callable[[Expr], Term]) -> None:
        self.terms, self.graph, self.value = terms, terms.graph, value

    def family(self, node: Expr, steady: bool = False) -> tuple[Term, Term]:
        """Of Σ_k exp(f(k)): the largest f(k), and exp(f(k) − the largest) for each k, 0 where a condition fails.

        ``steady`` takes 0 for a largest one that is infinite: so is the logarithm then, as torch has it.
        """
        bound = [limit[0] for limit in node.limits]
        factors = split_factors(node.function)
        exponent = self.terms.floats(self.value(sp.Add(*(f.exp for f in factors if isinstance(f, sp.exp)))))
        masks = [self.value(f) for f in factors if not isinstance(f, sp.exp)]
        masks = [self.held(m) for m in masks if self.terms.constant(m) != 1]
        if not set(bound) <= set(exponent.axes):
            axes = tuple(dict.fromkeys((*exponent.axes, *bound)))
            exponent = Term(self.terms.whole(exponent, axes), axes)
        counted = exponent
        if masks:
            nothing = self.terms.number(float("-inf"))
            counted = self.terms.applied("where", (), [self.terms.times(masks), exponent, nothing])
        largest = self.terms.reduced("max", counted, bound)
        if steady:
            largest = self.terms.map("steady", largest)
        return largest, self.terms.map("exp", self.terms.map("subtract", counted, largest))

    def held(self, mask: Term) -> Term:
        """A condition as one: it may be a number where what it compares is none."""
        if self.graph.holds(mask.node) == TRUTH:
            return mask
        return self.terms.map("not_equal", mask, self.terms.number(0), holds=TRUTH)

    def total(self, shares: Term, node: Expr) -> Term:
        """The sum of a shifted family."""
        return self.terms.reduced("sum", shares, [limit[0] for limit in node.limits])

    def summed(self, node: Expr) -> Term:
        """Σ_k exp(f(k))."""
        largest, shares = self.family(node)
        return self.terms.map("multiply", self.terms.map("exp", largest), self.total(shares, node))

    def logarithm(self, node: Expr) -> Term:
        """log Σ_k exp(f(k)); one after the other where the condition is that k has been reached."""
        factors = split_factors(node.function)
        masks = [f for f in factors if not isinstance(f, sp.exp)]
        exponent = sp.Add(*(f.exp for f in factors if isinstance(f, sp.exp)))
        if len(masks) == 1 == len(node.limits):
            reached = so_far(masks[0], node.limits[0][0], exponent)
            running = None
            if reached is not None:
                running = reached.scanned("logaddexp", self.terms.floats(self.value(exponent)), self.terms)
            if running is not None:
                return running
        largest, shares = self.family(node, steady=True)
        return self.terms.map("add", largest, self.terms.map("log", self.total(shares, node)))

    def raised(self, exponent: Expr) -> Term:
        """exp(a − log Σ_k exp(f(k))) as exp(a − the largest f) / Σ_k exp(f(k) − the largest f)."""
        found, totals = self.shifted(exponent)
        found = self.terms.map("exp", found)
        for times, total in totals:
            for _ in range(abs(times)):
                found = self.terms.map("multiply" if times > 0 else "divide", found, total)
        return found

    def shifted(self, node: Expr) -> tuple[Term, list[tuple[int, Term]]]:
        """a + n·log Σ_k exp(f(k)) as a + n·(the largest f); of each such logarithm n, and its sum without that."""
        rest, shifts, totals = [], [], []
        for part in sp.Add.make_args(node):
            times, inner = part.as_coeff_Mul()
            if of_family(part):
                largest, shares = self.family(inner.args[0])
                shifts.append(self.terms.scaled(int(times), largest))
                totals.append((int(times), self.total(shares, inner.args[0])))
            else:
                rest.append(part)
        found = self.terms.floats(self.value(sp.Add(*rest)))
        for shift in shifts:
            found = self.terms.map("add", found, shift)
        return found, totals

    def less(self, node: Expr) -> Term | None:
        """a − log Σ_k exp(f(k)), the largest f taken from a first: large ones cancel; None for any other sum."""
        logarithms = [of_family(part) and part.could_extract_minus_sign() for part in node.args]
        if not any(logarithms) or all(logarithms):
            return None
        found, totals = self.shifted(node)
        for times, total in totals:
            found = self.terms.map("add", found, self.terms.scaled(times, self.terms.map("log", total)))
        return found


def of_family(part: Expr) -> bool:
    """Whether a term is a whole number times log Σ_k exp(f(k)) over all k."""
    times, inner = part.as_coeff_Mul()
    return bool(isinstance(inner, sp.log) and exponentials_only(inner.args[0]) and times.is_Integer and plain(inner))


def plain(logarithm: Expr) -> bool:
    """Whether log Σ_k exp(f(k)) is over all k, and not over those that have been reached."""
    node = logarithm.args[0]
    factors = split_factors(node.function)
    masks = [f for f in factors if not isinstance(f, sp.exp)]
    exponent = sp.Add(*(f.exp for f in factors if isinstance(f, sp.exp)))
    return len(masks) != 1 or len(node.limits) != 1 or so_far(masks[0], node.limits[0][0], exponent) is None


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
