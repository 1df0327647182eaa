"""Sums and products without ``.expand`` where broadcasting does it, and without numbers that cancel.

    2 * (1 / out / 2).expand(t.shape) * x      →  x / out                  x has the shape of t
    2 * n * t / n / 4                          →  t / 2                    n is one number
    2 * v * t * 0.5                            →  v * t
    (v / s).expand(t.shape) * t                →  v * t / s
    r.expand(d.shape) + 2 * a * d              →  r + 2 * a * d
    (2 * ones_like(s))[:, None] * t            →  2 * t                    t has the shape of s with an axis more
    a.reshape(8, 5).expand(t.shape)            →  a.reshape(t.shape)       t has 40 entries
    v * t / t ** 2                             →  v / t
    u @ (2 * ones_like(s)).diag() @ w          →  (2 * u) @ w              s is a vector

Comes in: an expression, and the shapes of the names in it. Goes out: one of the same value.
"""

from __future__ import annotations

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
    negate_product,
    split_minus,
    split_power,
    strip_reshape,
)
from symgrad.language.python_text import COLON, NEW_AXIS, call, method, write_python
from symgrad.language.syntax_tree import Attribute, Literal, PythonCall, Subscript, Unary
from symgrad.language.tokens import COMPARISONS
from symgrad.language.trees import (
    Fraction,
    build_fraction,
    fill_ones,
    is_natural,
    is_tensor_free,
    rewrite_tree,
    split_fraction,
)
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops import TABLE, find
from symgrad.ops.lookup import has_role, role_entry
from symgrad.program import Role
from symgrad.shapes import Shape, Size

Shapes = Mapping[str, Shape]
ONES = "ones_like"
"""The call that makes ones."""
AS_COMPLEX, AS_PAIRS = "view_as_complex", "view_as_real"
"""Between tensors of pairs and complex ones."""
ELEMENTWISE = ("+", "-", "*", "/", "**")


def is_zero(term: SyntaxNode | None) -> bool:
    """Whether nothing is added."""
    return isinstance(term, PythonCall) and isinstance(term.function, Name) and term.function.name == "zeros_like"


def drop_expands(expression: SyntaxNode, shapes: Shapes) -> SyntaxNode:
    """``expression`` without what broadcasting does by itself."""
    return rewrite_tree(expression, Broadcasting(shapes).inside)


@dataclass(frozen=True)
class Broadcasting:
    """What stands at every place of a shape, and where that need not be said: another part has the whole shape.

    Fractions in lowest terms, too, where what goes has the shape of something that stays.
    """

    shapes: Shapes

    def inside(self, node: SyntaxNode) -> SyntaxNode:
        """A sum, or a product with all that it is divided by, without ``.expand``; what is laid out twice, once."""
        match node:
            case Binary("+" | "-" as sign, left, right):
                first = self.bare(left, right)
                return Binary(sign, first, self.bare(right, first))
            case Binary("*" | "/"):
                above, below = split_fraction(node)
                for n, part in enumerate(above):
                    inner = self.bare(part, *above[:n], *above[n + 1 :], *below)
                    if inner is not part:
                        over, under = split_fraction(inner)
                        return build_fraction(cancel_integers(([*above[:n], *over, *above[n + 1 :]], [*under, *below])))
            case Binary("@", left, right):
                return self.without_diagonal(left, right) or self.without_diagonal(right, left) or node
            case PythonCall(Attribute(inner), [Attribute(Name(name), "shape")], []) if name in self.shapes:
                ones = split_ones_like(inner)
                if ones is not None and (split_expand(node) or strip_reshape(node)):  # ones that are laid out anew
                    return fill_ones(ones[0], make_ones(name))
                if split_expand(node):
                    return self.laid_out_as(inner, name) or node
        return node

    def without_diagonal(self, part: SyntaxNode, other: SyntaxNode) -> SyntaxNode | None:
        """``2 * other``, of its matrix product with ``(2 * ones_like(t)).diag()``; None of one with anything else."""
        match part:
            case PythonCall(Attribute(inner, word), [], []) if has_role(word, Role.SPREADS):
                number, name = split_ones_like(inner) or (None, "")
                if number is not None and len(self.shapes.get(name, ())) == 1:
                    over, under = split_fraction(number)
                    return build_fraction(cancel_integers(([*over, other], under)))
        return None

    def laid_out_as(self, inner: SyntaxNode, name: str) -> SyntaxNode | None:
        """``a.reshape(t.shape)``, of ``a.reshape(8, 5)`` with as many entries as t."""
        first = strip_reshape(inner)
        match inner:
            case PythonCall(Attribute(_, word), sizes, []) if first is not None and all(map(is_natural, sizes)):
                if prod(int(write_python(size)) for size in sizes) == prod(self.shapes[name]):
                    return method(first, word, f"{name}.shape")
        return None

    def bare(self, part: SyntaxNode, *others: SyntaxNode) -> SyntaxNode:
        """``a``, of ``a.expand(t.shape)`` where one of the others has the shape of t; anything else as it is.

        2 of ``2 * ones_like(t)`` as well.
        """
        found = self.filled(part)
        if found is None:
            return part
        inner, shape = found
        fills = any(self.fills(other, shape) if shape else not is_tensor_free(other) for other in others)
        return inner if fills else part

    def filled(self, node: SyntaxNode) -> tuple[SyntaxNode, Shape] | None:
        """What stands at every place of a shape, and which: 2 and (3, 1), of ``(2 * ones_like(t))[:, None]``."""
        found = split_expand(node) or split_ones_like(node)
        if found is not None:
            return (found[0], self.shapes[found[1]]) if found[1] in self.shapes else None
        match node:
            case Subscript(value):
                ones = split_ones_like(value)
                if ones is not None and ones[1] in self.shapes:
                    shape = shape_with_new_axes(self.shapes[ones[1]], node.items)
                    return None if shape is None else (ones[0], shape)
        return None

    def fills(self, node: SyntaxNode, shape: Shape) -> bool:
        """Whether an expression is known to have a shape, or one that it broadcasts to; of several, one of them."""
        match node:
            case Name(name):
                return name in self.shapes and can_broadcast_to(shape, self.shapes[name])
            case Binary(sign, left, right) if sign in (*ELEMENTWISE, *COMPARISONS):
                return self.fills(left, shape) or self.fills(right, shape)
            case Unary(_, operand):
                return self.fills(operand, shape)
            case PythonCall(Name(word), [Name(name)], []) if word == AS_COMPLEX and name in self.shapes:
                return can_broadcast_to(shape, self.shapes[name][:-1])
            case PythonCall(Attribute(inner, word), [], []) if is_elementwise_call(word):
                return self.fills(inner, shape)
            case PythonCall(Name(word), parts, []) if is_elementwise_call(word):
                return any(self.fills(part, shape) for part in parts)
        found = self.filled(node)
        return found is not None and can_broadcast_to(shape, found[1])

    def lowest(self, node: SyntaxNode) -> SyntaxNode:
        """A product with all that it is divided by, in lowest terms; anything else as it is."""
        if not isinstance(node, Binary) or node.sign not in ("*", "/"):
            return node
        above, below = split_fraction(node)
        minus, above = split_minus(above)
        above, below = cancel_integers(self.without_common((above, below)))
        above = negate_product(above) if minus else above
        return build_fraction((drop_minus_one(collect_powers(above)), collect_powers(below)))

    def without_common(self, parts: Fraction) -> Fraction:
        """Without the tensors that are multiplied and divided by."""
        above, below = parts
        for name in [part for part in above if isinstance(part, Name)]:
            bases = [split_power(part) for part in below]
            squared = next((n for n, (base, times) in enumerate(bases) if base == name.name and times > 1), None)
            if squared is not None:  # t, of t ** 2; t ** 2, of t ** 3
                less = collect_powers([Name(name.name)] * (bases[squared][1] - 1))
                above = remove_first(above, name)
                below = [*below[:squared], *less, *below[squared + 1 :]]
                continue
            rest = remove_first(above, name)
            shape = self.shapes.get(name.name)
            if name in below and (shape == () or any(self.fills(part, shape) for part in rest if shape)):
                above, below = rest, remove_first(below, name)
        return above, below


def remove_first(parts: Sequence[SyntaxNode], one: SyntaxNode) -> list[SyntaxNode]:
    """The parts without the first that is ``one``."""
    place = parts.index(one)
    return [*parts[:place], *parts[place + 1 :]]


@cache
def is_elementwise_call(word: str) -> bool:
    """Whether an operation computes each entry of its result from the entries at that place."""
    entry = TABLE[word] if word in TABLE else find(f"Tensor.{word}")
    return entry is not None and not re.search(r"[^\W\d_]\w*\[", entry.definition or "x[i]")


def can_broadcast_to(shape: Shape, other: Shape) -> bool:
    """Whether the first shape is the second, or becomes it beside it."""
    behind = other[len(other) - len(shape) :]
    return len(shape) <= len(other) and all(size in (1, into) for size, into in zip(shape, behind, strict=True))


def shape_with_new_axes(shape: Shape, parts: Sequence[SyntaxNode]) -> Shape | None:
    """A shape with an axis of one for each None of an index; None where the index picks entries."""
    left, found = [*shape], list[Size]()
    for part in parts:
        if not (part == NEW_AXIS or (left and part == COLON)):
            return None
        found.append(sp.Integer(1) if part == NEW_AXIS else left.pop(0))
    return (*found, *left)


def split_expand(node: SyntaxNode) -> tuple[SyntaxNode, str] | None:
    """a and t, of ``a.expand(t.shape)``."""
    match node:
        case PythonCall(Attribute(inner, word), [Attribute(Name(name), "shape")], []):
            return (inner, name) if word == role_entry(Role.COPIES).name else None
    return None


def split_ones_like(node: SyntaxNode) -> tuple[SyntaxNode, str] | None:
    """2 / 3 and t, of ``2 * ones_like(t) / 3``."""
    match node:
        case PythonCall(Name(word), [Name(name)], []) if word == ONES:
            return Literal(1), name
        case Unary("-" as sign, inner):
            found = split_ones_like(inner)
            return None if found is None else (Unary(sign, found[0]), found[1])
        case Binary("/" as sign, left, right) if is_tensor_free(right):
            found = split_ones_like(left)
            return None if found is None else (Binary(sign, found[0], right), found[1])
        case Binary("*", left, right) if is_tensor_free(left):
            found = split_ones_like(right)
            if found is not None:
                return (left if found[0] == Literal(1) else build_fraction(([left, found[0]], []))), found[1]
    return None


def make_ones(name: str) -> SyntaxNode:
    """Ones, as many as a tensor has entries."""
    return call(ONES, name)


def cancel_fractions(expression: SyntaxNode, shapes: Shapes) -> SyntaxNode:
    """``expression`` without expands, and without what is multiplied and divided by.

    >>> from symgrad.language.python_text import read_python
    >>> write_python(cancel_fractions(read_python("2 * n * t / n @ (2 * (a / 2))"), {"n": ()}))
    '(2 * t) @ a'
    >>> write_python(cancel_fractions(read_python("(2 * ones_like(s)) @ w + (2 * ones_like(s) * t)[None]"), {"s": ()}))
    '(2 * ones_like(s)) @ w + (2 * t)[None]'
    >>> write_python(cancel_fractions(read_python("-0.0625 * 0.5 * t"), {}))
    '-t / 32'
    >>> write_python(cancel_fractions(read_python("v * t * u / t ** 2 / u ** 3"), {}))
    'v / t / u ** 2'
    """
    return rewrite_tree(drop_expands(expression, shapes), Broadcasting(shapes).lowest)
