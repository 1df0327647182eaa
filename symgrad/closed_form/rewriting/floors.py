"""Lengths that are kept away from 0: in `normalize`, `cosine_similarity`, `x / norm(x).clamp(min=1e-8)`.

    max(‖x‖, c) → ‖x‖, [‖x‖ ≥ c] → 1, [‖x‖ < c] → 0, where no length is below the floor c

Whether one is, the numbers say: what is written so is confirmed on every run, and not shown where it does not hold.
Comes in: a condition or cases. Goes out: the same without the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Cases
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr, is_access, name_of

SAYS = "max(‖x‖, c) → ‖x‖, where no length is below c"
HIGHEST = sp.Rational(1, 1000)
"""A floor is a small number: what is cut off elsewhere is no length that nearly vanishes."""


def above_floors(norms: Collection[str]) -> Callable[[Expr], Expr]:
    """The rule for roots of sums and for the tensors ``norms``, which are lengths."""

    def rewrite(expression: Expr) -> Expr:
        """max(‖x‖, c) → ‖x‖"""
        if isinstance(expression, Bracket):
            (condition,) = expression.args
            below = condition.is_Relational and floored(condition.negated, norms)
            return sp.S.Zero if below else sp.S.One if floored(condition, norms) else expression
        if isinstance(expression, Cases):
            condition, length, floor = expression.args
            return length if floored(condition, norms) and {length, floor} == set(condition.args) else expression
        return expression

    return rewrite


def floored(condition: Expr, norms: Collection[str]) -> bool:
    """Whether a condition says that a length is not below a floor."""
    if not isinstance(condition, (sp.Ge, sp.Gt)) or not condition.gts.free_symbols:
        return False
    length, floor = condition.gts, condition.lts
    if not (floor.is_Rational or floor.is_Float) or not 0 < floor <= HIGHEST:
        return False
    root = length.is_Pow and length.exp == sp.S.Half and isinstance(length.base, sp.Sum)
    return bool(root) or (is_access(length) and name_of(length) in norms)


__all__ = ["SAYS", "above_floors"]
