"""How a long line is shown: the middle of a sum and of a list is left out, and counted.

Comes in: an expression. Goes out: its text, which is no Python any more where something is left out.
"""

from __future__ import annotations

import ast
from functools import reduce

from symgrad.backward.signs import copied

MOST_TERMS, FEWER = 6, (3, 2)
"""Parts of a sum or a list that is shown whole; and of one in a text that is too long."""
LONG = 160
"""Characters of a text beyond which nobody reads it."""


def shortened(value: ast.expr) -> str:
    """An expression as it is shown.

    >>> shortened(ast.parse(" + ".join(f"a{n} @ b" for n in range(20)), mode="eval").body)
    'a0 @ b + a1 @ b + … 17 more … + a19 @ b'
    >>> shortened(ast.parse(f"stack([{', '.join(f'v_t{n}' for n in range(9))}]) @ w", mode="eval").body)
    'stack([v_t0, v_t1, … 6 more …, v_t8]) @ w'
    """
    for most in (MOST_TERMS, *FEWER):
        found: ast.expr = Cut(most).visit(copied(value))
        text = ast.unparse(found)
        if len(text) <= LONG:
            return text
    return text


class Cut(ast.NodeTransformer):
    """Sums and lists of more than ``most`` parts without their middle."""

    def __init__(self, most: int) -> None:
        self.most = most

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A sum from the left, as it was added up."""
        terms: list[ast.expr] = [node]
        while isinstance(terms[0], ast.BinOp) and isinstance(terms[0].op, ast.Add):
            terms[:1] = [terms[0].left, terms[0].right]
        if len(terms) == 1:
            return ast.BinOp(self.visit(node.left), node.op, self.visit(node.right))
        shown: list[ast.expr] = [self.visit(term) for term in self.ends(terms)]
        return reduce(lambda total, term: ast.BinOp(total, ast.Add(), term), shown)

    def visit_List(self, node: ast.List) -> ast.expr:
        """What is put together."""
        return ast.List([self.visit(part) for part in self.ends(node.elts)])

    def ends(self, parts: list[ast.expr]) -> list[ast.expr]:
        """The first ones and the last, with what says how many are left out."""
        first = min(self.most - 1, 2)
        left_out = len(parts) - first - 1
        return parts if len(parts) <= self.most else [*parts[:first], ast.Name(f"… {left_out} more …"), parts[-1]]


__all__ = ["shortened"]
