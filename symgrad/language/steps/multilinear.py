"""In which operands an entry is linear: read off its equation.

Comes in: an entry, what stands for its operands, and its options. Goes out: for each term of the equation the operands
that it is a product of. `cat` is linear in all of its tensors together, `outer` in each of two, `exp` in none: what is
linear says of complex tensors what it says of their real and imaginary parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sympy as sp

from symgrad.entries.spec import Held, Op, View
from symgrad.indexing.symbols import Expr, accesses, fresh_axes, indices_of, is_access, name_of
from symgrad.shapes import Shape

Terms = frozenset[tuple[str, ...]]
"""The operands of every term, in alphabetical order: {("x", "y")} of x·y, {("x",), ("y",)} of x + y."""


def terms_of(expression: Expr, read: Collection[str] = ()) -> Terms | None:
    """The terms of a polynomial in entries whose coefficients are numbers or ``read``; None of anything else."""

    def moves(node: Expr) -> bool:
        return any(name_of(entry) not in read for entry in accesses(node))

    if not moves(expression):
        return frozenset() if expression == 0 else frozenset({()})
    if is_access(expression):
        return None if any(map(moves, indices_of(expression))) else frozenset({(name_of(expression),)})
    parts = [terms_of(part, read) for part in expression.args[: None if expression.is_Add or expression.is_Mul else 1]]
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    if expression.is_Add:
        return frozenset().union(*known)
    if expression.is_Mul:
        return frozenset(tuple(sorted(sum(term, ()))) for term in itertools.product(*known))
    return known[0] if isinstance(expression, sp.Sum) and not any(map(moves, expression.args[1:])) else None


def multilinear(
    op: Op, shapes: Sequence[Shape | None], constants: Sequence[Any], result: Shape, options: Mapping[str, Any]
) -> Terms | None:
    """The terms of an entry of such operands, called by their positions; None where it is not linear in each of them.

    Numbers may be among the operands, with a value in ``constants`` and the shape (). What is only read (positions, a
    mask) is as it was; what follows from the entries' order is nothing that complex numbers have.
    """
    views = [
        None if shape is None else View(str(n), shape, None if constant is None else sp.sympify(constant, strict=True))
        for n, (shape, constant) in enumerate(zip(shapes, constants, strict=True))
    ]
    read = {str(n) for n, name in enumerate(op.operands) if name in op.data}
    held = {name: Held(name, result) for name in op.held}
    terms = terms_of(op.index(fresh_axes(result, op.letters_for(options)), views, held, options), read)
    if terms is None or any(len(set(term)) < len(term) or not term or {*term} & {*held} for term in terms):
        return None
    return terms
