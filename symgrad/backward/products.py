"""Products as a person writes them: what a factor beside it broadcasts is not expanded, and numbers that cancel go.

    2 * (1 / out / 2).expand(t.shape) * x      →  x / out                  x has the shape of t
    (v / s).expand(t.shape) * t                →  v * t / s
    r.expand(d.shape) + 2 * a * d              →  r + 2 * a * d

Comes in: an expression, and the shapes of the names in it. Goes out: one of the same value.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from symgrad.backward.phrasing import product
from symgrad.backward.signs import copied
from symgrad.ops.entry import playing
from symgrad.program import Role
from symgrad.shapes import Shape

Shapes = Mapping[str, Shape]
Fraction = tuple[list[ast.expr], list[ast.expr]]
"""What is multiplied, and what it is divided by."""
ELEMENTWISE = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def without_expands(expression: ast.expr, shapes: Shapes) -> ast.expr:
    """``expression`` without what broadcasting does by itself; the given tree stays as it is."""
    found: ast.expr = Broadcast(shapes).visit(copied(expression))
    return found


class Broadcast(ast.NodeTransformer):
    """Sums and products without ``.expand``, where another part has the whole shape."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        """A sum, or a product with all that it is divided by."""
        self.generic_visit(node)
        if isinstance(node.op, (ast.Add, ast.Sub)):
            left = self.bare(node.left, node.right)
            return ast.BinOp(left, node.op, self.bare(node.right, left))
        if not isinstance(node.op, (ast.Mult, ast.Div)):
            return node
        above, below = fraction(node)
        for n, part in enumerate(above):
            inner = self.bare(part, *above[:n], *above[n + 1 :], *below)
            if inner is not part:
                over, under = fraction(inner)
                return written(cancelled(([*above[:n], *over, *above[n + 1 :]], [*under, *below])))
        return node

    def bare(self, part: ast.expr, *others: ast.expr) -> ast.expr:
        """``a``, of ``a.expand(t.shape)`` where one of the others has the shape of t; anything else as it is."""
        target = expanded_to(part)
        if target is None or target not in self.shapes:
            return part
        fills = any(self.fills(other, self.shapes[target]) for other in others)
        return part.func.value if fills else part  # type: ignore[attr-defined]  # it is the call of a method

    def fills(self, node: ast.expr, shape: Shape) -> bool:
        """Whether an expression is known to have a shape; of two that broadcast, one of them."""
        match node:
            case ast.Name(name):
                return self.shapes.get(name) == shape
            case ast.BinOp(left, sign, right) if isinstance(sign, ELEMENTWISE):
                return self.fills(left, shape) or self.fills(right, shape)
            case ast.UnaryOp(_, operand):
                return self.fills(operand, shape)
            case ast.Compare(left, _, [right]):
                return self.fills(left, shape) or self.fills(right, shape)
        target = expanded_to(node)
        return target is not None and self.shapes.get(target) == shape


def expanded_to(node: ast.expr) -> str | None:
    """t, of ``….expand(t.shape)``."""
    match node:
        case ast.Call(ast.Attribute(_, word), [ast.Attribute(ast.Name(name), "shape")], []):
            return name if word == playing(Role.COPIES).name else None
    return None


def fraction(node: ast.expr) -> Fraction:
    """The factors of an expression from the left, and its divisors."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Mult, ast.Div)):
        above, below = fraction(node.left)
        if isinstance(node.op, ast.Div):
            return above, [*below, node.right]
        over, under = fraction(node.right)
        return [*above, *over], [*below, *under]
    return [node], []


def cancelled(parts: Fraction) -> Fraction:
    """Without the whole numbers that are multiplied and divided by, which are not 0; 1 is no factor."""
    above, below = parts
    flat = [factor for part in below for factor in (fraction(part)[0] if not fraction(part)[1] else [part])]
    for number in [part for part in above if is_whole(part)]:
        same = next((part for part in flat if ast.dump(part) == ast.dump(number)), None)
        if same is not None:
            above = [p for p in above if p is not number]
            below = flat = [p for p in flat if p is not same]
    return [p for p in above if ast.unparse(p) != "1"], below


def is_whole(node: ast.expr) -> bool:
    """Whether a whole number that is not 0 stands there."""
    return isinstance(node, ast.Constant) and isinstance(node.value, int) and node.value != 0


def written(parts: Fraction) -> ast.expr:
    """a * b / c / d"""
    above, below = parts
    whole = product(above) if above else ast.Constant(1)
    for part in below:
        whole = ast.BinOp(whole, ast.Div(), part)
    return whole


__all__ = ["Shapes", "without_expands"]
