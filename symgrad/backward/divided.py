"""Lines that divide, for data at which the short ones fail: a norm of 0, and what is so small that its square is 0.

Comes in: a line as text, and the equation that it says. Goes out: the same with the conditions that it leaves out
elsewhere, and without squares below the line.

    v * x / out     →  where(out != 0, v * x / out, 0)
    v / out @ y     →  where(out != 0, v / out, 0) @ y
    -v * x / y ** 2 →  -v * x / y / y
"""

from __future__ import annotations

import ast
from collections.abc import Collection

import sympy as sp

from symgrad.closed_form import condition_text
from symgrad.indexing import Bracket, Equation, is_guard
from symgrad.indexing.symbols import is_access, name_of
from symgrad.program import Program


def with_guards(program: Program, equation: Equation, text: str, wanted: str) -> str | None:
    """``text`` with its one condition around it, or with one beside each division; None where it has neither."""
    factors = [f for f in sp.Mul.make_args(equation.right) if is_guard(f)]
    if len(factors) == 1:
        told = condition_text(program, factors[0], equation.axes, wanted)
        return None if told is None else f"where({told}, {text}, 0)"
    below = [f.args[0].lhs for f in equation.right.atoms(Bracket) if is_guard(f)]
    return guarded_inside(text, {name_of(entry) for entry in below if is_access(entry)})


def guarded_inside(text: str, names: Collection[str]) -> str | None:
    """``v / out @ y`` with a condition beside each division by one of ``names``; None where there is none.

    >>> guarded_inside("v / out @ y", {"out"})
    'where(out != 0, v / out, 0) @ y'
    """
    before = ast.parse(text, mode="eval")
    plain, found = ast.unparse(before), ast.unparse(Guarding(names).visit(before))
    return None if found == plain else found


class Guarding(ast.NodeTransformer):
    """a / t → where(t != 0, a / t, 0), for the tensors that are named, turned ones among them"""

    def __init__(self, names: Collection[str]) -> None:
        self.names = names

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A quotient with its condition."""
        self.generic_visit(node)
        below = ast.unparse(node.right)
        if not isinstance(node.op, ast.Div) or below.removesuffix(".T") not in self.names:
            return node
        return ast.parse(f"where({below} != 0, {ast.unparse(node)}, 0)", mode="eval").body


def twice_divided(text: str) -> str:
    """Two divisions where a square stands below the line.

    >>> twice_divided("-v * x / y ** 2 + 1 / (x ** 2 + 1)")
    '-v * x / y / y + 1 / (x ** 2 + 1)'
    """
    return "; ".join(ast.unparse(Dividing().visit(statement)) for statement in ast.parse(text).body)


class Dividing(ast.NodeTransformer):
    """a / t ** 2 → a / t / t"""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A quotient as two."""
        self.generic_visit(node)
        match node:
            case ast.BinOp(above, ast.Div(), ast.BinOp(ast.Name() as below, ast.Pow(), ast.Constant(2))):
                return ast.BinOp(ast.BinOp(above, ast.Div(), below), ast.Div(), below)
        return node


__all__ = ["twice_divided", "with_guards"]
