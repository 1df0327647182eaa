"""Numbers in the place of cotangents that are nothing else: torch expands, turns and multiplies no number as a matrix.

    v_s = -1:   v_s.expand(t.shape)    →  -ones_like(t)
                v_s * t                →  -1 * t
                v_s[None]              →  -ones_like(s)[None]
                v_s @ w                →  -ones_like(s) @ w
    (v_s / 3)[None]        →  (-ones_like(s) / 3)[None]

Comes in: an expression, a name in it, and the number. Goes out: one without that name, or one that has it only where a
number may stand.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from symgrad.backward.parts.trees import copied
from symgrad.backward.shortening.phrasing import times_ones
from symgrad.backward.shortening.products import ELEMENTWISE, expanded, is_number, of_ones


@dataclass
class Numbers(ast.NodeTransformer):
    """``number`` for ``name``, the cotangent of ``like``; ``everywhere``, or only where a number cannot be named."""

    name: str
    number: ast.expr
    like: str
    everywhere: bool
    reckons: bool = True

    def inside(self, node: ast.AST, reckons: bool) -> ast.AST:
        """The parts of an expression, which reckons with them or does something else: then they have to be tensors."""
        before, self.reckons = self.reckons, reckons
        were = dict(ast.iter_fields(node)) if not reckons else {}
        were = {name: is_number(part) for name, part in were.items() if isinstance(part, ast.expr)}
        found = super().generic_visit(node)
        for name, was_number in were.items():
            part = getattr(found, name)
            if not was_number and is_number(part):
                setattr(found, name, times_ones(part, of_ones(self.like)))
        self.reckons = before
        return found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """What is no arithmetic."""
        return self.inside(node, reckons=False)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        """a + b, a * b; a product of matrices."""
        return self.inside(node, reckons=isinstance(node.op, ELEMENTWISE))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        """−a"""
        return self.inside(node, reckons=True)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        """A number that is expanded is ones, so many times."""
        found = expanded(node)
        if found is None:
            return self.generic_visit(node)
        alone = type(self)(self.name, self.number, self.like, everywhere=True)
        inner: ast.expr = alone.visit(copied(found[0]))
        return times_ones(inner, of_ones(found[1])) if is_number(inner) else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """The number, or a tensor of it."""
        if node.id != self.name or (self.reckons and not self.everywhere):
            return node
        return copied(self.number if self.reckons else times_ones(self.number, of_ones(self.like)))


def with_number(expression: ast.expr, name: str, number: ast.expr, like: str, everywhere: bool = True) -> ast.expr:
    """``expression`` with ``number`` for the cotangent ``name`` of ``like``; the given tree stays as it is.

    >>> def told(text, everywhere=True):
    ...     tree = with_number(ast.parse(text, mode="eval").body, "v_s", ast.Constant(2), "s", everywhere)
    ...     return ast.unparse(tree)
    >>> told("(v_s / 3)[:, None]"), told("(v_s * t)[None]"), told("(v_s / 3) @ w")
    ('(2 * ones_like(s) / 3)[:, None]', '(2 * t)[None]', '2 * ones_like(s) / 3 @ w')
    >>> told("v_s.expand(t.shape)"), told("v_s[None] + v_s * t"), told("v_s @ w + v_s", everywhere=False)
    ('2 * ones_like(t)', '(2 * ones_like(s))[None] + 2 * t', '2 * ones_like(s) @ w + v_s')
    """
    found: ast.expr = Numbers(name, number, like, everywhere).visit(copied(expression))
    return found


def counts_with(expression: ast.expr, name: str) -> bool:
    """Whether a name stands in arithmetic only, where a number may be put for it: 2 has no ``.expand``."""
    found = with_number(expression, name, ast.Constant(1), "like", everywhere=False)
    return ast.dump(found) == ast.dump(expression)
