"""An index equation with one mistake in it: a term or a factor left out, a sign turned, a mean for a sum.

Comes in: the equation of a local pullback. Goes out: other right-hand sides, each with its kind and a clause.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import sympy as sp

from symgrad.calculus.local import SEED
from symgrad.indexing import Bracket, Equation, instantiate
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.render import formula_text
from symgrad.shapes import Size

LONGEST = 40
"""A longer term is not repeated in a clause."""
DELTA = re.compile(r"δ_(\w)(\w)")


def altered_equations(
    equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]
) -> Iterator[tuple[str, str, Expr]]:
    """Terms first, then factors, sums and powers; what would read between two entries is nobody's mistake."""
    own = {index for access in accesses(equation.right) for index in indices_of(access)}
    for kind, said, right in every_alteration(equation, names, sizes):
        if all(whole(index) for access in accesses(right) for index in set(indices_of(access)) - own):
            yield kind, said, right


def whole(index: Expr) -> bool:
    """Whether an index that was altered is a place: nothing in it is a fraction, or it is rounded down."""
    below = any(power.exp.is_negative for power in index.atoms(sp.Pow))
    return bool(index.has(sp.floor)) or (not below and all(n.is_integer for n in index.atoms(sp.Number)))


def every_alteration(
    equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]
) -> Iterator[tuple[str, str, Expr]]:
    """All of them, whether they can be evaluated or not."""
    right = equation.right

    def told(node: Expr) -> str:
        """A part of the formula in the names of the program; empty where it is too long or says nothing alone."""
        placed = instantiate(Equation(equation.axes, node), names, sizes)
        others = [k for k in free_indices(placed.right) if k not in placed.axes]
        text = formula_text(placed.right, (*placed.axes, *sorted(others, key=str)))
        if len(text) <= LONGEST or node in telling(node):
            return text
        inner = [told(part) for part in telling(node)]
        return f"with {min(inner, key=len)}" if inner else "…"

    for where in (distributed(right), right):
        for node in nodes(where, sp.Add):
            for term in node.args:
                rest = node - term
                yield "missing_term", f"the term {told(term)} is missing", where.xreplace({node: rest})
                if not carries(node) or len(node.args) > 1:
                    yield (
                        "missing_term",
                        f"the term {told(term)} has the wrong sign",
                        where.xreplace({node: rest - term}),
                    )
            if len(node.args) > 2 and carries(node):
                for term in node.args:
                    yield "missing_term", f"only the term {told(term)} is there", where.xreplace({node: term})
    for node in nodes(right, sp.Sum):
        body, limits = node.function, node.limits
        for factor in sp.Mul.make_args(body):
            if carries(factor) or factor.is_number:
                continue
            plain = node.func(body / factor, *limits)
            size = sp.Mul(*(high - low + 1 for _, low, high in limits))
            said = f"{told(factor)} is missing in the sum"
            yield (
                "missing_factor",
                f"a mean stands where a mean weighted by {told(factor)} belongs",
                right.xreplace({node: plain / size}),
            )  # one sentence
            yield "missing_factor", said, right.xreplace({node: plain})
        if carries(body):
            bare = body.xreplace({limit[0]: axis for limit, axis in zip(limits, equation.axes, strict=False)})
            yield "missing_term", "the sum over the other entries is missing", right.xreplace({node: bare})
    for node in nodes(right, sp.Mul):
        for factor in node.args:
            if carries(factor):
                continue
            kind, text = "scaled" if factor.is_number else "missing_factor", told(factor)
            letters = DELTA.fullmatch(text)
            means = ", which is 1 where {} = {} and 0 elsewhere".format(*letters.groups()) if letters else ""
            yield kind, f"the factor {text} is missing{means}", right.xreplace({node: node / factor})
    for node in nodes(right, sp.Pow):
        base, exponent = node.args
        if carries(base):
            continue
        for other in (exponent - 1, exponent + 1, -exponent):
            said = f"{told(node)} should stand where {told(sp.Pow(base, other))} does"
            yield "missing_factor", said, right.xreplace({node: sp.Pow(base, other)})


def telling(node: Expr) -> list[Expr]:
    """What of a long term says most: its sums over v, or v."""
    sums = [n for n in nodes(node, sp.Sum) if carries(n)]
    return sums or [a for a in accesses(node) if name_of(a) == SEED]


def distributed(expression: Expr) -> Expr:
    """A product of a sum as a sum of products, at the top."""
    if not expression.is_Mul:
        return expression
    inner = next((f for f in expression.args if f.is_Add), None)
    if inner is None:
        return expression
    rest = expression / inner
    return sp.Add(*(rest * term for term in inner.args))


def nodes(expression: Expr, kind: type[Expr]) -> list[Expr]:
    """The nodes of a kind, outermost first, each once; a position that is read is no part that may be missing."""
    found: dict[Expr, None] = {}
    walk = sp.preorder_traversal(expression)
    for node in walk:
        if is_access(node) or isinstance(node, (Bracket, sp.KroneckerDelta)):
            walk.skip()
        elif isinstance(node, kind):
            found[node] = None
    return list(found)


def carries(expression: Expr) -> bool:
    """Whether v stands in it."""
    return any(name_of(a) == SEED for a in accesses(expression))
