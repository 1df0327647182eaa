"""Sums and products without ``.expand`` where broadcasting does it, and without numbers that cancel.

    2 * (1 / out / 2).expand(t.shape) * x      →  x / out                  x has the shape of t
    2 * n * t / n / 4                          →  t / 2                    n is one number
    2 * v * t * 0.5                            →  v * t
    (v / s).expand(t.shape) * t                →  v * t / s
    r.expand(d.shape) + 2 * a * d              →  r + 2 * a * d
    (2 * ones_like(s))[:, None] * t            →  2 * t                    t has the shape of s with an axis more
    a.reshape(8, 5).expand(t.shape)            →  a.reshape(t.shape)       t has 40 entries
    v * t / t ** 2                             →  v / t

Comes in: an expression, and the shapes of the names in it. Goes out: one of the same value.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from math import prod

import sympy as sp

from symgrad.backward.simplify.factors import (
    cancel_integers,
    collect_powers,
    drop_minus_one,
    fill_ones,
    negate_product,
    split_minus,
    split_power,
    strip_reshape,
)
from symgrad.backward.trees import (
    Fraction,
    build_fraction,
    copy_tree,
    is_full_slice,
    is_natural,
    is_new_axis,
    items_of,
    rewrite_tree,
    split_fraction,
)
from symgrad.ops import TABLE
from symgrad.ops.lookup import role_entry
from symgrad.program import Role
from symgrad.shapes import Shape, Size

Shapes = Mapping[str, Shape]
ONES = "ones_like"
"""The call that makes ones."""
ELEMENTWISE = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)


def is_zero(term: ast.expr | None) -> bool:
    """Whether nothing is added."""
    return isinstance(term, ast.Call) and isinstance(term.func, ast.Name) and term.func.id == "zeros_like"


def drop_expands(expression: ast.expr, shapes: Shapes) -> ast.expr:
    """``expression`` without what broadcasting does by itself; the given tree stays as it is."""
    return rewrite_tree(copy_tree(expression), Broadcasting(shapes).inside)


@dataclass(frozen=True)
class Broadcasting:
    """What stands at every place of a shape, and where that need not be said: another part has the whole shape.

    Fractions in lowest terms, too, where what goes has the shape of something that stays.
    """

    shapes: Shapes

    def inside(self, node: ast.expr) -> ast.expr:
        """A sum, or a product with all that it is divided by, without ``.expand``; what is laid out twice, once."""
        match node:
            case ast.BinOp(left, ast.Add() | ast.Sub() as sign, right):
                first = self.bare(left, right)
                return ast.BinOp(first, sign, self.bare(right, first))
            case ast.BinOp(_, ast.Mult() | ast.Div()):
                above, below = split_fraction(node)
                for n, part in enumerate(above):
                    inner = self.bare(part, *above[:n], *above[n + 1 :], *below)
                    if inner is not part:
                        over, under = split_fraction(inner)
                        return build_fraction(cancel_integers(([*above[:n], *over, *above[n + 1 :]], [*under, *below])))
            case ast.Call(ast.Attribute(inner), [ast.Attribute(ast.Name(name), "shape")], []) if name in self.shapes:
                ones = split_ones_like(inner)
                if ones is not None and (split_expand(node) or strip_reshape(node)):  # ones that are laid out anew
                    return fill_ones(ones[0], make_ones(name))
                if split_expand(node):
                    return self.laid_out_as(inner, name) or node
        return node

    def laid_out_as(self, inner: ast.expr, name: str) -> ast.expr | None:
        """``a.reshape(t.shape)``, of ``a.reshape(8, 5)`` with as many entries as t."""
        first = strip_reshape(inner)
        match inner:
            case ast.Call(ast.Attribute(_, word), sizes, []) if first is not None and all(map(is_natural, sizes)):
                if prod(int(ast.unparse(size)) for size in sizes) == prod(self.shapes[name]):
                    return ast.Call(ast.Attribute(first, word), [ast.Attribute(ast.Name(name), "shape")], [])
        return None

    def bare(self, part: ast.expr, *others: ast.expr) -> ast.expr:
        """``a``, of ``a.expand(t.shape)`` where one of the others has the shape of t; anything else as it is.

        2 of ``2 * ones_like(t)`` as well.
        """
        found = self.filled(part)
        if found is None:
            return part
        inner, shape = found
        return inner if any(self.fills(other, shape) for other in others) else part

    def filled(self, node: ast.expr) -> tuple[ast.expr, Shape] | None:
        """What stands at every place of a shape, and which: 2 and (3, 1), of ``(2 * ones_like(t))[:, None]``."""
        found = split_expand(node) or split_ones_like(node)
        if found is not None:
            return (found[0], self.shapes[found[1]]) if found[1] in self.shapes else None
        match node:
            case ast.Subscript(value):
                ones = split_ones_like(value)
                if ones is not None and ones[1] in self.shapes:
                    shape = shape_with_new_axes(self.shapes[ones[1]], items_of(node))
                    return None if shape is None else (ones[0], shape)
        return None

    def fills(self, node: ast.expr, shape: Shape) -> bool:
        """Whether an expression is known to have a shape, or one that it broadcasts to; of several, one of them."""
        match node:
            case ast.Name(name):
                return name in self.shapes and can_broadcast_to(shape, self.shapes[name])
            case ast.BinOp(left, sign, right) if isinstance(sign, ELEMENTWISE):
                return self.fills(left, shape) or self.fills(right, shape)
            case ast.UnaryOp(_, operand):
                return self.fills(operand, shape)
            case ast.Compare(left, _, [right]):
                return self.fills(left, shape) or self.fills(right, shape)
            case ast.Call(ast.Attribute(inner, word), [], []) if is_elementwise_call(word):
                return self.fills(inner, shape)
            case ast.Call(ast.Name(word), parts, []) if is_elementwise_call(word):
                return any(self.fills(part, shape) for part in parts)
        found = self.filled(node)
        return found is not None and can_broadcast_to(shape, found[1])

    def lowest(self, node: ast.expr) -> ast.expr:
        """A product with all that it is divided by, in lowest terms; anything else as it is."""
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, (ast.Mult, ast.Div)):
            return node
        above, below = split_fraction(node)
        minus, above = split_minus(above)
        above, below = cancel_integers(self.without_common((above, below)))
        above = negate_product(above) if minus else above
        return build_fraction((drop_minus_one(collect_powers(above)), collect_powers(below)))

    def without_common(self, parts: Fraction) -> Fraction:
        """Without the tensors that are multiplied and divided by."""
        above, below = parts
        for name in [part for part in above if isinstance(part, ast.Name)]:
            bases = [split_power(part) for part in below]
            squared = next((n for n, (base, times) in enumerate(bases) if base == name.id and times > 1), None)
            if squared is not None:  # t, of t ** 2; t ** 2, of t ** 3
                less = collect_powers([ast.Name(name.id)] * (bases[squared][1] - 1))
                above = [part for part in above if part is not name]
                below = [*below[:squared], *less, *below[squared + 1 :]]
                continue
            same = next((part for part in below if ast.dump(part) == ast.dump(name)), None)
            rest = [part for part in above if part is not name]
            shape = self.shapes.get(name.id)
            if same is not None and (shape == () or any(self.fills(part, shape) for part in rest if shape)):
                above, below = rest, [part for part in below if part is not same]
        return above, below


@cache
def is_elementwise_call(word: str) -> bool:
    """Whether an operation computes each entry of its result from the entries at that place."""
    return word in TABLE and not re.search(r"[^\W\d_]\w*\[", TABLE[word].definition or "x[i]")


def can_broadcast_to(shape: Shape, other: Shape) -> bool:
    """Whether the first shape is the second, or becomes it beside it."""
    behind = other[len(other) - len(shape) :]
    return len(shape) <= len(other) and all(size in (1, into) for size, into in zip(shape, behind, strict=True))


def shape_with_new_axes(shape: Shape, parts: Sequence[ast.expr]) -> Shape | None:
    """A shape with an axis of one for each None of an index; None where the index picks entries."""
    left, found = [*shape], list[Size]()
    for part in parts:
        if not (is_new_axis(part) or (left and is_full_slice(part))):
            return None
        found.append(sp.Integer(1) if is_new_axis(part) else left.pop(0))
    return (*found, *left)


def split_expand(node: ast.expr) -> tuple[ast.expr, str] | None:
    """a and t, of ``a.expand(t.shape)``."""
    match node:
        case ast.Call(ast.Attribute(inner, word), [ast.Attribute(ast.Name(name), "shape")], []):
            return (inner, name) if word == role_entry(Role.COPIES).name else None
    return None


def split_ones_like(node: ast.expr) -> tuple[ast.expr, str] | None:
    """2 / 3 and t, of ``2 * ones_like(t) / 3``."""
    match node:
        case ast.Call(ast.Name(word), [ast.Name(name)], []) if word == ONES:
            return ast.Constant(1), name
        case ast.UnaryOp(ast.USub() as sign, inner):
            found = split_ones_like(inner)
            return None if found is None else (ast.UnaryOp(sign, found[0]), found[1])
        case ast.BinOp(left, ast.Div() as sign, right) if is_tensor_free(right):
            found = split_ones_like(left)
            return None if found is None else (ast.BinOp(found[0], sign, right), found[1])
        case ast.BinOp(left, ast.Mult(), right) if is_tensor_free(left):
            found = split_ones_like(right)
            if found is not None:
                return (left if ast.unparse(found[0]) == "1" else build_fraction(([left, found[0]], []))), found[1]
    return None


def make_ones(name: str) -> ast.expr:
    """Ones, as many as a tensor has entries."""
    return ast.Call(ast.Name(ONES), [ast.Name(name)], [])


def is_tensor_free(node: ast.AST) -> bool:
    """Whether no tensor is read, but for its sizes: what Python computes by itself."""
    if isinstance(node, ast.Attribute):
        return node.attr in ("shape", "numel") or (isinstance(node.value, ast.Name) and node.value.id == "math")
    return not isinstance(node, ast.Name) and all(map(is_tensor_free, ast.iter_child_nodes(node)))


def cancel_fractions(expression: ast.expr, shapes: Shapes) -> ast.expr:
    """``expression`` without expands, and without what is multiplied and divided by; the given tree stays as it is.

    >>> ast.unparse(cancel_fractions(ast.parse("2 * n * t / n @ (2 * (a / 2))", mode="eval").body, {"n": ()}))
    '2 * t @ a'
    >>> ast.unparse(cancel_fractions(ast.parse("-0.0625 * 0.5 * t", mode="eval").body, {}))
    '-t / 32'
    >>> ast.unparse(cancel_fractions(ast.parse("v * t * u / t ** 2 / u ** 3", mode="eval").body, {}))
    'v / t / u ** 2'
    """
    return rewrite_tree(drop_expands(expression, shapes), Broadcasting(shapes).lowest)
