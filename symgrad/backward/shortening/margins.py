"""Margins that are 0 at the sizes at hand are not written: `pad(v.repeat_interleave(2, -1), (0, x.shape[2] % 2))`.

    pad(a, (0, x.shape[2] % 2))                        →  a                       x is 6 long there
    conv_transpose1d(…, output_padding=x.shape[2] % 2)   →  conv_transpose1d(…)

A form is for every size; a line is for the tensors of its program, as one that puts parts side by side is.

Comes in: an expression and the shapes of the names in it. Goes out: one that is as long, or shorter.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import sympy as sp

from symgrad.backward.shortening.factors import copied
from symgrad.shapes import Shape

SIGNS: dict[type[ast.operator], Callable[[sp.Expr, sp.Expr], sp.Expr]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Mod: operator.mod,
    ast.FloorDiv: operator.floordiv,
}  # fmt: skip
Shapes = Mapping[str, Shape]


def without_margins(expression: ast.expr, shapes: Shapes) -> ast.expr:
    """``expression`` without what is 0 around a tensor; the given tree stays as it is."""
    found: ast.expr = Margins(shapes).visit(copied(expression))
    return found


@dataclass(frozen=True)
class Sizes:
    """The shapes of tensors, in numbers or letters."""

    shapes: Shapes

    def number(self, node: ast.expr) -> sp.Expr | None:
        """What an expression in sizes comes to."""
        match node:
            case ast.Constant(value=int(number)):
                return sp.Integer(number)
            case ast.Subscript(ast.Attribute(ast.Name(name), "shape"), ast.Constant(value=int(axis))):
                shape = self.shapes.get(name, ())
                return shape[axis] if -len(shape) <= axis < len(shape) else None
            case ast.BinOp(left, sign, right) if type(sign) in SIGNS:
                sides = self.number(left), self.number(right)
                if sides[0] is None or sides[1] is None or (isinstance(sign, (ast.Mod, ast.FloorDiv)) and not sides[1]):
                    return None
                return SIGNS[type(sign)](sides[0], sides[1])
        return None


class Margins(ast.NodeTransformer):
    """Calls with margins of 0, without them."""

    def __init__(self, shapes: Shapes) -> None:
        self.sizes = Sizes(shapes)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """A call by its name."""
        self.generic_visit(node)
        called = node.func.id if isinstance(node.func, ast.Name) else ""
        if called == "pad" and len(node.args) == 2 and not node.keywords and self.nothing(node.args[1]):
            return node.args[0]
        if called.startswith("conv_transpose"):
            kept = [k for k in node.keywords if k.arg != "output_padding" or not self.nothing(k.value)]
            return ast.Call(node.func, node.args, kept)
        return node

    def nothing(self, node: ast.expr) -> bool:
        """Whether numbers, which may depend on sizes, are all 0."""
        parts = node.elts if isinstance(node, ast.Tuple) else [node]
        return all(self.sizes.number(part) == 0 for part in parts)
