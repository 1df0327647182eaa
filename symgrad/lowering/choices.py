"""`symgrad.lowering.cases` on arrays: the larger or the smaller of two, or one of two by a condition.

Comes in: a sum with conditions, and what lowers the parts of it. Goes out: a term, or None where the arithmetic of the
sum says something that a choice does not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import sympy as sp

from symgrad.indexing.symbols import Expr
from symgrad.lowering.cases import Cases, cases
from symgrad.lowering.graph import FLOAT, TRUTH, WHOLE
from symgrad.lowering.names import RELATIONS
from symgrad.lowering.terms import Term, Terms

Value = Callable[[Expr], Term]


def chosen(node: Expr, terms: Terms, value: Value) -> Term | None:
    """A sum of cases as a choice between them."""
    found = cases(node)
    if found is None:
        return None
    bodies = list(dict.fromkeys(found.bodies))
    if all(body in (0, 1) for body in bodies):
        return truth(found, terms, value) if len(bodies) > 1 else terms.number(int(bodies[0]))
    largest = either(found, terms, value)
    if largest is not None:
        return largest
    rest = default(found, bodies)
    if rest is None:
        return None
    result = value(rest)
    others = [(body, list(found.runs(body))) for body in bodies if body != rest]
    names = [nearest(found, runs, body, rest) for body, runs in others]
    if sorted(map(str, names)) == ["maximum", "minimum"]:
        ends = [value(body) for (body, _), _ in sorted(zip(others, names, strict=True), key=lambda pair: str(pair[1]))]
        return terms.map("clip", terms.floats(result), *ends)
    for (body, runs), name in zip(others, names, strict=True):
        if name is not None and all(names):
            result = terms.map(name, terms.floats(result), value(body))
        else:
            mask = anywhere([where(found, run, terms, value) for run in runs], terms)
            result = choice(mask, value(body), result, terms)
    return result


def clipped(node: Expr, terms: Terms, value: Value) -> Term | None:
    """[x > 0]·x as the larger of x and 0: what is no number stays none. None for any other product."""
    found = cases(node)
    if found is None:
        return None
    bodies = list(dict.fromkeys(found.bodies))
    rest = default(found, bodies)
    names = [nearest(found, list(found.runs(body)), body, rest) for body in bodies if body != rest] if rest else [None]
    return chosen(node, terms, value) if names and all(names) else None


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


def nearest(found: Cases, runs: Sequence[tuple[int, int]], body: Expr, rest: Expr) -> str | None:
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


def where(found: Cases, run: tuple[int, int], terms: Terms, value: Value) -> Term:
    """The condition for some places in a row."""
    masks = [
        terms.map(RELATIONS[relation.func], *(terms.numeric(value(side)) for side in relation.args), holds=TRUTH)
        for relation in found.relations(run)
    ]
    return masks[0] if len(masks) == 1 else terms.map("both", *masks, holds=TRUTH)


def anywhere(masks: Sequence[Term], terms: Terms) -> Term:
    """Whether one of several conditions holds."""
    result, *rest = masks
    for mask in rest:
        result = terms.map("any", result, mask, holds=TRUTH)
    return result


def truth(found: Cases, terms: Terms, value: Value) -> Term | None:
    """A sum that is 0 or 1: a condition."""
    if found.unknown not in (0, 1):
        return None
    other = sp.S.One - found.unknown
    mask = anywhere([where(found, run, terms, value) for run in found.runs(other)], terms)
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
    axes = terms.union([mask, one, other])
    given = tuple(terms.on(term, axes) for term in (mask, one, other))
    kind = FLOAT if FLOAT in holds else WHOLE
    return Term(terms.graph.apply("where", (), given, terms.shape(axes), kind), axes)
