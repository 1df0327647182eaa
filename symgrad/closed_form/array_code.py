"""Equations without a short notation as array operations: a dozen primitives say all of them.

    an index               arange(n)[:, None], one axis for each index
    a condition            where(condition, entry, 0)
    an entry               x[i, j.clamp(0, n - 1)], positions as arrays
    a sum, a product       .sum(axes), .prod(axis)

Comes in: a program and the sweep that derived a gradient. Goes out: its text, in matrix notation as far as that goes
and in these primitives from there on; None where a part has no name in torch. The grid of all indices is laid out, so
the text is for tensors that are not large (`count_grid`). As with every form, it is a claim until it was evaluated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial, reduce

import sympy as sp

from symgrad.calculus import Sweep
from symgrad.calculus.reverse_sweep import substitute
from symgrad.closed_form.form import WRITTEN, find_views
from symgrad.closed_form.fragments import (
    Axes,
    Fragment,
    align_all,
    align_axes,
    call_method,
    drop_size_one_axes,
    fill_with_number,
    has_exact_axes,
    shape_in_scope,
    truths_as_numbers,
)
from symgrad.closed_form.number_code import NoForm, write_size
from symgrad.closed_form.rewriting import APART, apply_rules
from symgrad.closed_form.rewriting.shorthands import Mean, Variance, is_boolean, reads_tensor
from symgrad.closed_form.writing import RELATIONS, FormWriter
from symgrad.closed_form.writing.sum_writers import ADDED_UP, MEAN
from symgrad.errors import SymgradError
from symgrad.functions import side
from symgrad.indexing import Bracket, Index, Ravel, Unravel
from symgrad.indexing.brackets import extremes, relation_of
from symgrad.indexing.symbols import Expr, free_indices, indices_of, is_access, name_of, weight
from symgrad.language.python_text import Part, call, method, multiply, to_code
from symgrad.language.syntax_tree import Subscript
from symgrad.language.trees import FormCode
from symgrad.notation.tree import Binary, SyntaxNode
from symgrad.program import Program
from symgrad.shapes import Size, fill_sizes

LONGEST = 3000
"""A longer text is read by nobody and parsed by nobody in time."""


class ArrayWriter(FormWriter):
    """Writes every index expression: what has no short notation as array operations over all its indices."""

    def __init__(self, program: Program, like: str) -> None:
        super().__init__(program)
        self.like, self._whole, self._beside = like, False, False
        self._known: dict[tuple[Expr, tuple[Index, ...], bool, bool], Fragment] = {}

    def write(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """``node`` as a piece: in matrix notation if there is one."""
        key = (node, tuple(prefer), self._whole, self._beside)
        if key not in self._known:
            try:
                if is_access(node) and not self.inside(node):
                    raise NoForm
                self._known[key] = super().write(node, prefer)
            except NoForm:
                self._known[key] = self.lowered(node, prefer)
        return self._known[key]

    def lowered(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """``node`` in primitives; `NoForm` where torch has no name for a part."""
        if isinstance(node, Index):
            numbers = call("arange", self.source.size(node.size))
            return Fragment(numbers if self._whole else self.in_kind(numbers), (node,))
        if is_access(node):
            return self.looked_up(node, prefer)
        if isinstance(node, (sp.KroneckerDelta, Bracket)):
            return self.held(node, prefer)
        if isinstance(node, (sp.Sum, sp.Product)):
            return self.reduced(node, prefer)
        if node.is_Mul:
            return self.masked(node, prefer)
        if isinstance(node, (Ravel, Unravel, sp.Mod, sp.floor)):
            return self.numbered(node, prefer)
        if isinstance(node, side):
            (entry,), axes = self.together(node.args, prefer)
            return Fragment(call("copysign", call("ones_like", entry), entry), axes)
        raise NoForm

    def in_kind(self, code: SyntaxNode) -> SyntaxNode:
        """In the type of the tensor that is written."""
        return method(code, "to", self.like)

    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """``node`` in exactly the shape of ``wanted``; no call says it, or it would have been said shortly."""
        piece = self.write(node, axes)
        if is_boolean(node):
            piece = truths_as_numbers(piece)
        lined = align_axes(piece, axes)
        full = has_exact_axes(lined, axes)
        if not full and not reads_tensor(node):
            return fill_with_number(lined, wanted, axes)
        return lined if full else call_method(lined, tuple(axes), "expand", f"{wanted}.shape")

    def together(self, nodes: Sequence[Expr], prefer: Sequence[Index]) -> tuple[list[SyntaxNode], Axes]:
        """Expressions as operands that broadcast against each other, and their common axes."""
        lined, axes = align_in_order([self.write(node, prefer) for node in nodes], prefer)
        return [piece.code for piece in lined], axes

    def in_whole_numbers(self, nodes: Sequence[Expr], prefer: Sequence[Index]) -> tuple[list[SyntaxNode], Axes]:
        """Positions and what they are compared with: whole numbers stay whole where nothing divides them."""
        before, self._whole = self._whole, all(map(is_integer_expression, nodes))
        try:
            return self.together(nodes, prefer)
        finally:
            self._whole = before

    def held(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """[i < n], δ(i, n[j]): true or false."""
        relation = relation_of(node)
        if relation.func not in RELATIONS:
            raise NoForm
        (left, right), axes = self.in_whole_numbers(relation.args, prefer)
        return Fragment(Binary(RELATIONS[relation.func], left, right), axes)

    def masked(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """[c]·[d]·f is where(c & d, f, 0): what f is where they do not hold is not asked."""
        masks = [f for f in node.args if isinstance(f, (Bracket, sp.KroneckerDelta))]
        rest = [f for f in node.args if f not in masks]
        if not masks:
            raise NoForm
        number, _ = sp.Mul(*rest).as_coeff_Mul()
        pieces = [self.held(mask, prefer) for mask in masks]
        (*lined, inner), axes = align_in_order([*pieces, self.left_out(sp.Mul(*rest), prefer)], prefer)
        told = reduce(partial(Binary, "&"), (piece.code for piece in lined))
        if sp.Mul(*rest) != number:
            return Fragment(call("where", told, inner.code, 0), axes)
        ones = self.in_kind(told)  # where(…, 1.0, 0) has torch's usual kind
        return Fragment(ones if number == 1 else Binary("*", to_code(float(number)), ones), axes)

    def left_out(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """What stands beside a condition: a position in it may lie outside where that does not hold."""
        before, self._beside = self._beside, True
        try:
            return self.write(node, prefer)
        finally:
            self._beside = before

    def reduced(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """Σ or Π over the axes of what is under it, the grid of all indices laid out."""
        if isinstance(node, Variance):
            raise NoForm
        bound = [limit[0] for limit in node.limits]
        word = MEAN if isinstance(node, Mean) else ADDED_UP
        inner = drop_size_one_axes(self.write(node.function, [*prefer, *bound]))
        if inner.compares and (word == MEAN or isinstance(node, sp.Product)):
            # torch has no mean of truth values, and 1 / n of whole numbers is its usual float
            inner = Fragment(self.in_kind(inner.code), inner.axes)
        elif inner.compares:
            inner = truths_as_numbers(inner)
        missing = [i for i in bound if i not in inner.axes]
        places = [n for n, axis in enumerate(inner.axes) if axis in bound]
        rest = tuple(axis for axis in inner.axes if axis not in bound)
        if isinstance(node, sp.Product):
            code = reduce(lambda part, place: method(part, "prod", place), reversed(places), inner.code)
            if not missing:
                return Fragment(code, rest)
            return Fragment(Binary("**", code, self.number_code(sp.Mul(*(i.size for i in missing)))), rest)
        along: Part = tuple(places) if len(places) > 1 else (places or [0])[0]
        found = call_method(inner, rest, word, along) if places else inner
        times = [self.number_code(i.size) for i in missing if word == ADDED_UP]
        return Fragment(reduce(multiply, [*times, found.code]), rest) if times else found

    def inside(self, node: Expr) -> bool:
        """Whether every position that is read is one of the tensor."""
        return all(map(self.within, indices_of(node), shape_in_scope(self, name_of(node))))

    def within(self, place: Expr, size: Size) -> bool:
        """Whether a position is one of an axis."""
        if is_access(place):
            return not self._beside
        if isinstance(place, Unravel) or not free_indices(place):
            return True
        if isinstance(place, Index) and place.size == size:
            return True
        low, high = extremes(place)
        return low != -sp.oo and self.is_size(low) and self.is_size(sp.expand(size - 1 - high))

    def looked_up(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """x[i, j]: entries at positions, inside the tensor."""
        places, shape = indices_of(node), shape_in_scope(self, name_of(node))
        positions, axes = self.in_whole_numbers(places, prefer)
        if not all(map(is_integer_expression, places)):
            raise NoForm
        items = [self.clamped(*along) for along in zip(positions, places, shape, strict=True)]
        tensor = self.source.tensor(name_of(node))
        return Fragment(Subscript(tensor, tuple(items)) if items else tensor, axes)

    def clamped(self, position: SyntaxNode, place: Expr, size: Size) -> SyntaxNode:
        """A position, clamped where it may lie outside, as a class that is left out does."""
        if self.within(place, size) and not is_access(place):
            return position
        return method(position, "clamp", 0, self.source.size(sp.expand(size - 1)))

    def numbered(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """Row-major numbers, their parts, whole quotients and remainders."""
        if isinstance(node, Ravel):
            behind = [sp.Mul(*node.shape[n + 1 :]) for n in range(len(node.shape))]
            return self.write(sp.Add(*(i * size for i, size in zip(node.indices, behind, strict=True))), prefer)
        if isinstance(node, Unravel):
            behind = sp.Mul(*node.shape[node.axis + 1 :])
            within = [("%", node.shape[node.axis])] if node.axis else []
            return self.divided(node.number, [("//", behind), *within], prefer)
        if isinstance(node, sp.Mod):
            return self.divided(node.args[0], [("%", node.args[1])], prefer)
        above, below = sp.fraction(sp.together(node.args[0]))
        return self.divided(sp.expand(above), [("//", below)], prefer)

    def divided(self, number: Expr, by: Sequence[tuple[str, Size]], prefer: Sequence[Index]) -> Fragment:
        """A whole number divided by whole numbers, without a remainder or as one: 2 * (i // 3) is not 2 * i // 3."""
        (code,), axes = self.in_whole_numbers([number], prefer)
        if not is_integer_expression(number):
            raise NoForm
        for sign, size in by:
            if sign == "%" or size != 1:
                code = Binary(sign, code, write_size(size, self.program.inputs))
        return Fragment(code, axes)


def align_in_order(pieces: Sequence[Fragment], prefer: Sequence[Index]) -> tuple[list[Fragment], Axes]:
    """The pieces lined up, and their axes: in the order that they have wherever the same indices are left over."""
    rest = sorted({i for piece in pieces for i in piece.indices()}, key=lambda i: i.dummy_index)
    return align_all(pieces, list(dict.fromkeys([*prefer, *rest])))


def is_integer_expression(node: Expr) -> bool:
    """Whether an expression is computed in whole numbers all the way: torch would divide them in its usual floats."""
    if is_access(node) or isinstance(node, (sp.floor, sp.Mod, Ravel, Unravel)):
        return True
    if node.is_Add or node.is_Mul:
        return all(map(is_integer_expression, node.args))
    return bool(node.is_Integer or (node.is_Symbol and node.is_integer))


def write_array_operations(program: Program, sweep: Sweep, wanted: str) -> FormCode | None:
    """The gradient by ``wanted`` as array operations; None where a part of it has no name in torch."""
    if not sweep.whole:
        return None
    equation = substitute(sweep.equation, find_views(program))
    notation = ArrayWriter(program, wanted)
    try:
        right = apply_rules(equation.right, [], APART)
        if weight(right) > WRITTEN:
            return None
        piece = notation.whole(right, equation.axes, wanted)
    except (NoForm, SymgradError):
        return None
    return notation.with_definitions(piece.code) if len(piece.text) <= LONGEST else None


def write_condition(program: Program, condition: Expr, axes: Sequence[Index], wanted: str) -> SyntaxNode | None:
    """``out[:, None] != 0``: a condition as torch's truth values, which broadcast against what has ``axes``."""
    try:
        return align_axes(ArrayWriter(program, wanted).write(condition, axes), axes).code
    except (NoForm, SymgradError):
        return None


def count_grid(node: Expr, sizes: Mapping[Size, int]) -> int:
    """The most points of a grid of indices that an expression lays out."""
    own = [fill_sizes(i.size, sizes) for i in node.atoms(Index)]
    return math.prod(int(n) for n in own if n.is_Integer)
