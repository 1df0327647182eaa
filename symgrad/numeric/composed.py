"""Where the Jacobian of a whole program can be nonzero: the places of its steps' Jacobians, put together.

Comes in: a program, one of its inputs. Goes out: deltas and conditions on indices that hold at least every nonzero
entry, an upper bound for every size. Entries that cancel are still counted, and of what is summed over no condition is
kept.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

import sympy as sp

from symgrad.calculus import carry_back, local, positions
from symgrad.indexing import Equation, Index, add_up, delta, fresh_axes
from symgrad.indexing.canonical import canonical
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.symbols import Expr
from symgrad.numeric.patterns import widest
from symgrad.program import Apply, Program

MOST_WAYS = 6
"""Products that are carried; of more only what all of them say is."""


def composed_places(program: Program, wanted: str) -> tuple[tuple[Index, ...], tuple[Index, ...], Expr]:
    """The axes of the output, those of ``wanted``, and a sum of products of deltas that is 0 where J is sure to be."""
    outer, at = fresh_axes(program.out.shape), fresh_axes(program.out.shape)
    here = sp.Mul(*(delta(a, o) for a, o in zip(at, outer, strict=True)))
    reached = program.reached((wanted,))

    def pulled(step: Apply, through: Equation) -> Iterator[tuple[str, Equation]]:
        for position in positions(step, reached):
            d = local(step, program).derivatives[position]
            if d.formula != 0:
                places = add_up(through.at(d.axes) * sp.Add(*widest(d.formula)), d.axes)
                yield str(step.arguments[position]), Equation(d.inner, bounded(canonical(places)))

    def either(one: Equation, other: Equation) -> Equation:
        return Equation(one.axes, bounded(other.at(one.axes) + one.right))

    carried = carry_back(program.steps, {program.output: Equation(at, here)}, pulled, either)
    if wanted not in carried:
        return outer, fresh_axes(program.tensor(wanted).shape, "pqrs"), sp.S.Zero
    return outer, carried[wanted].axes, carried[wanted].right


def bounded(places: Expr) -> Expr:
    """A few products of deltas and conditions whose places hold all of ``places``."""
    terms = widest(places)
    if len(terms) > MOST_WAYS:
        terms = widest(sp.Add(*(sp.Mul(*filter(is_delta, sp.Mul.make_args(term))) for term in terms)))
    if len(terms) > MOST_WAYS:
        common = reduce(frozenset.intersection, (frozenset(sp.Mul.make_args(term)) for term in terms))
        terms = (sp.Mul(*common),)
    return sp.Add(*terms)
