"""How a line is shown: of a long one the middle of a sum and of a list is left out, and counted; 1 / 60 is one.

Comes in: an expression. Goes out: its text, which is no Python any more where something is left out.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Sequence
from typing import TypeVar

from symgrad.backward.parts.data import LONG
from symgrad.backward.parts.trees import copied
from symgrad.closed_form import one_over, without_plus

Term = tuple[ast.operator, ast.expr]
Part = TypeVar("Part")

MOST_TERMS, FEWEST = 6, 4
"""Terms of a sum that is shown whole, and of sums and lists in a text that is too long."""


def shortened(value: ast.expr) -> str:
    """An expression as it is shown.

    >>> shortened(ast.parse(" + ".join(f"a{n} @ b" for n in range(20)), mode="eval").body)
    'a0 @ b + a1 @ b + … 17 more … + a19 @ b'
    >>> shortened(ast.parse(f"stack([{', '.join(f'v_t{n}' for n in range(40))}]) @ w", mode="eval").body)
    'stack([v_t0, v_t1, … 37 more …, v_t39]) @ w'
    >>> len(shortened(ast.parse(f"stack([{', '.join(f'v_t{n}' for n in range(9))}]) @ w", mode="eval").body))
    65
    >>> shortened(ast.parse("P" + "".join(f" - 2 * g_t{n}" for n in range(20)), mode="eval").body)
    'P - 2 * g_t0 - … 18 more … - 2 * g_t19'
    >>> shortened(ast.parse("x * 0.016666666666666666 + 0.3535533905932738 * y + 0.3333", mode="eval").body)
    'x * (1 / 60) + 8 ** (-0.5) * y + 0.3333'
    """
    text = ast.unparse(Cut().visit(copied(value)))
    return without_plus(text if len(text) <= LONG else ast.unparse(Cut(FEWEST, FEWEST).visit(copied(value))))


class Cut(ast.NodeTransformer):
    """Sums of more terms than ``terms`` without their middle, and lists of more than ``parts``."""

    def __init__(self, terms: int = MOST_TERMS, parts: int = sys.maxsize) -> None:
        self.terms, self.parts = terms, parts

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A sum from the left, as it was added up."""
        first: ast.expr = node
        rest: list[Term] = []
        while isinstance(first, ast.BinOp) and isinstance(first.op, ast.Add | ast.Sub):
            rest.append((first.op, first.right))
            first = first.left
        if not rest:
            return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))
        (_, total), *terms = ends([(ast.Add(), first), *reversed(rest)], self.terms, terms_left_out)
        total = self.visit(total)
        for op, term in terms:
            total = ast.BinOp(total, op, self.visit(term))
        return total

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        """A long decimal that is 1 over something."""
        text = one_over(node.value) if isinstance(node.value, float) else None
        return node if text is None else ast.parse(text, mode="eval").body

    def visit_List(self, node: ast.List) -> ast.expr:
        """What is put together."""
        parts: list[ast.expr] = [self.visit(part) for part in node.elts]
        return ast.List(ends(parts, self.parts, left_out))


def ends(parts: list[Part], most: int, instead: Callable[[Sequence[Part]], Part]) -> list[Part]:
    """The first two and the last of more than ``most``, with what says how many are left out."""
    if len(parts) <= most:
        return parts
    first, second, *middle, last = parts
    return [first, second, instead(middle), last]


def left_out(parts: Sequence[object]) -> ast.expr:
    """What stands where parts are left out: no Python."""
    return ast.Name(f"… {len(parts)} more …")


def terms_left_out(terms: Sequence[Term]) -> Term:
    """The same in a sum, with the sign that all of them have, or a plus."""
    minus = all(isinstance(op, ast.Sub) for op, _ in terms)
    return ast.Sub() if minus else ast.Add(), left_out(terms)
