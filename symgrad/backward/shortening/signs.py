"""Signs where a person has them: `-(-a / 4) / b + -c` is `a / 4 / b - c`. Every move is exact, in floats too.

Comes in: an expression. Goes out: the same with fewer minus signs and brackets.
"""

from __future__ import annotations

import ast
from typing import Any

SCALING = (ast.Mult, ast.Div)


def with_signs(expression: ast.expr) -> ast.expr:
    """``expression`` with its signs in order; the given tree stays as it is.

    >>> ast.unparse(with_signs(ast.parse("-(-a / 4) / b + -c / 2", mode="eval").body))
    'a / 4 / b - c / 2'
    """
    found: ast.expr = Signs().visit(copied(expression))
    return found


def copied(tree: Any) -> Any:
    """A tree of its own, without places in a source: a tenth of what `copy.deepcopy` takes."""
    if isinstance(tree, list):
        return [copied(part) for part in tree]
    if not isinstance(tree, ast.AST) or isinstance(tree, (ast.operator, ast.unaryop, ast.cmpop, ast.expr_context)):
        return tree
    return type(tree)(*(copied(getattr(tree, field, None)) for field in tree._fields))


def negated(term: ast.expr) -> ast.expr | None:
    """a, of −a; a / 2, of −a / 2; None without a minus in front."""
    if isinstance(term, ast.UnaryOp) and isinstance(term.op, ast.USub):
        return term.operand
    if isinstance(term, ast.BinOp) and isinstance(term.op, (*SCALING, ast.MatMult)):
        left = negated(term.left)
        return None if left is None else ast.BinOp(left, term.op, term.right)
    return None


def minus(term: ast.expr) -> ast.expr:
    """−a, the sign at the first factor of a product."""
    without = negated(term)
    if without is not None:
        return without
    if isinstance(term, ast.BinOp) and isinstance(term.op, SCALING):
        return ast.BinOp(minus(term.left), term.op, term.right)
    return ast.UnaryOp(ast.USub(), term)


class Signs(ast.NodeTransformer):
    """Two minus signs are none, a negative term is subtracted, and stands behind a positive one."""

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """−(−a), −(a / 2)"""
        self.generic_visit(node)
        return minus(node.operand) if isinstance(node.op, ast.USub) else node

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """a + −b, a − −b, −a + b"""
        self.generic_visit(node)
        if not isinstance(node.op, (ast.Add, ast.Sub)):
            return node
        right, left = negated(node.right), negated(node.left)
        if right is not None:
            return ast.BinOp(node.left, ast.Sub() if isinstance(node.op, ast.Add) else ast.Add(), right)
        if left is not None and isinstance(node.op, ast.Add):
            return ast.BinOp(node.right, ast.Sub(), left)
        return node
