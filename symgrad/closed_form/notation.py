"""What every way to write a piece of matrix notation knows and asks.

It knows the program, its texts, and the names given on the way; it asks in which order axes and factors stand, which
factors belong together, and how terms are added up. Comes in: a program, and pieces or expressions of it. Goes out:
answers. How an expression is written, `Forms` of
`symgrad.closed_form.writing` decides; the ways, one file each, know `Notation` alone and ask it for what stands
inside.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache

import sympy as sp

from symgrad.closed_form.fragments import ADD, ATOM, COMPARE, MULTIPLY, Axes, NoForm, Piece, aligned
from symgrad.closed_form.rewriting.scalar_rules import is_written_out
from symgrad.closed_form.rewriting.shorthands import TRUTHS, boolean
from symgrad.closed_form.source_text import Writer
from symgrad.indexing import Index
from symgrad.indexing.brackets import implied
from symgrad.indexing.symbols import Expr, free_indices, indices_of, is_access, name_of
from symgrad.ops.entry import plays
from symgrad.program import Program, Role
from symgrad.shapes import Size


class Notation(ABC):
    """The tensors of one program, the names that were given, and the three questions that every way to write asks."""

    def __init__(self, program: Program, symmetric: Collection[str] = ()) -> None:
        self.program = program
        self.symmetric = symmetric
        """The tensors that are their own transposes."""
        self.texts = Writer(program)
        self.solved = solved_in(program)
        """The inverses that only the gradients of linear systems read, and the matrices they are the inverses of."""
        self.is_hessian = False
        """Whether a second derivative is written, which is read; a gradient also runs, in the type of its inputs."""
        self._names: dict[str, str] = {}

    def is_size(self, size: Expr) -> bool:
        """Whether ``size`` is known not to be negative, at all sizes that the program is for."""
        axes = (n for tensor in self.program.tensors() for n in tensor.shape)
        return bool(size.is_nonnegative) or implied((*self.program.required, *axes), sp.expand(size))

    def with_definitions(self, text: str) -> str:
        """``text`` behind ``K = …; ``, for each name that it needs."""
        for own, name in reversed(self._names.items()):
            text = text.replace(f"({own})", name) if " != " in own else text
            if re.search(rf"\b{name}\b", text):  # what was tried and given up may have left others
                text = f"{name} = {own}; {text}"
        return text

    def name(self, letter: str, piece: Piece) -> Piece:
        """``piece`` under a name of its own, if it is more than a name."""
        if piece.text.isidentifier():
            return piece
        taken = {self.program.seed, self.program.output, *(t.name for t in self.program.inputs), *self._names.values()}
        free = (name for name in (letter, *(f"{letter}{n}" for n in range(1, 100))) if name not in taken)
        name = self._names.get(piece.text) or next(free)
        self._names[piece.text] = name
        return Piece(name, ATOM, piece.axes)

    @abstractmethod
    def write(self, node: Expr, prefer: Sequence[Index]) -> Piece:
        """``node`` as a piece; its axes come in the order of ``prefer`` where there is a choice."""

    @abstractmethod
    def product(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
        """The factors as one elementwise product."""

    def multiplied(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Piece:
        """The factors as one elementwise product, or the only one as it is."""
        return self.write(factors[0], prefer) if len(factors) == 1 else self.product(factors, prefer)

    @abstractmethod
    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Piece:
        """``node`` in exactly the shape of ``wanted``."""


def solved_in(program: Program) -> dict[str, str]:
    """What is read beside linear systems, and the matrices it is the inverses of."""
    solutions = [step for step in program.steps if plays(step.op, Role.SOLVES)]
    return {inverse: str(step.arguments[0]) for step in solutions for _, inverse in step.beside}


def shape_of(notation: Notation, name: str) -> Sequence[Size]:
    """The shape of a tensor of the program, or of the seed; of whole numbers that the forward found, `NoForm`."""
    if "·" in name:  # nothing in scope holds them
        raise NoForm
    return notation.program.out.shape if name == notation.program.seed else notation.program.tensor(name).shape


def axis_in(axes: Axes, index: Index) -> int:
    """The place of ``index``, -1 for the last."""
    place = axes.index(index)
    return -1 if place == len(axes) - 1 else place


def common_order(pieces: Sequence[Piece], prefer: Sequence[Index]) -> Axes:
    """The axes of all pieces: as they are where all agree, else as preferred, else as the largest piece has them."""
    own = {piece.axes for piece in pieces if piece.axes}
    if len(own) == 1 and None in next(iter(own)):
        return own.pop()
    found = list(dict.fromkeys(i for p in sorted(pieces, key=lambda p: -len(p.axes)) for i in p.indices()))
    return tuple([i for i in prefer if i in found] + [i for i in found if i not in prefer])


def joint_axes(pieces: Sequence[Piece], target: Axes) -> Axes:
    """The axes that broadcasting the lined-up pieces gives."""
    lined = [aligned(p, target).axes for p in pieces]
    rank = max((len(a) for a in lined), default=0)
    result: list[Index | None] = [None] * rank
    for axes in lined:
        for place, axis in enumerate(axes, start=rank - len(axes)):
            result[place] = axis if axis is not None else result[place]
    return tuple(result)


def lined_up(pieces: Sequence[Piece], prefer: Sequence[Index]) -> tuple[list[Piece], Axes]:
    """The pieces so that they broadcast against each other, and the axes that this gives."""
    target = common_order(pieces, prefer)
    return [aligned(piece, target) for piece in pieces], joint_axes(pieces, target)


def components(factors: Sequence[Expr], apart: set[Index]) -> list[list[Expr]]:
    """Factors grouped so that those which share a free index, other than those ``apart``, are together."""
    groups: list[tuple[frozenset[Index], list[Expr]]] = []
    for factor in factors:
        free = free_indices(factor) - apart
        joined = [g for g in groups if g[0] & free]
        merged = (free.union(*(g[0] for g in joined)), [f for g in joined for f in g[1]] + [factor])
        groups = [g for g in groups if not any(g is j for j in joined)] + [merged]
    loose = [g for g in groups if not g[0]]
    if len(groups) > 2 and len(loose) > 1:
        groups = [g for g in groups if g[0]] + [(frozenset(), [f for g in loose for f in g[1]])]
    if len(groups) == 3 and len(loose) == 1:
        bound = [g for g in groups if g[0]]
        groups = [(bound[0][0], [*bound[0][1], *loose[0][1]]), bound[1]]
    return [g[1] for g in groups]


def place_of(free: Sequence[Index], prefer: Sequence[Index]) -> int:
    """Where a group's index stands in the result; a group without one goes to the side that is left."""
    return list(prefer).index(free[0]) if free and free[0] in prefer else len(prefer)


def body_order(factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]) -> tuple[Index, ...]:
    """The axes under a sum in the order of the largest factor, so that nothing need be transposed."""
    body = set().union(*(free_indices(f) for f in factors))
    for factor in factors:
        for node in sp.preorder_traversal(factor):
            if is_access(node) and set(indices_of(node)) == body and len(indices_of(node)) == len(body):
                return tuple(indices_of(node))
    return (*bound, *prefer)


def signed(terms: Iterable[Expr]) -> list[tuple[bool, Expr]]:
    """Terms without their minus, each with whether it had one."""
    return [(minus, -t if minus else t) for t in terms for minus in [t.could_extract_minus_sign()]]


def added(terms: Sequence[tuple[bool, Expr, Piece]], target: Axes) -> Piece:
    """Pieces as a sum, each with whether it is subtracted and the expression that it writes.

    A gradient is linear in the seed: of the terms of a sum all carry it, or none.
    """
    found = [(minus, boolean(t) or piece.binds == COMPARE, aligned(piece, target)) for minus, t, piece in terms]
    found.sort(key=lambda f: (f[0], f[1], f[2].axes == (), len(f[2].text), f[2].text))
    pieces = [piece for *_, piece in found]
    text = ""
    for minus, truth, piece in found:
        if truth and (minus or not text):  # torch neither subtracts booleans nor counts them when it adds two
            piece = Piece(f"1 * {piece.inside(MULTIPLY)}", MULTIPLY, piece.axes)
        operand = piece.text if piece.binds > ADD else piece.inside(MULTIPLY if minus else ADD)
        sign = "-" if minus else "+"
        text = f"{text} {sign} {operand}" if text else f"-{operand}" if minus else operand
    return Piece(text, ADD, joint_axes(pieces, target))


def mentions_seed(node: Expr, program: Program) -> bool:
    """Whether the seed or a named cotangent is read."""
    return any(program.carries_weights(name_of(n)) for n in sp.preorder_traversal(node) if is_access(n))


@lru_cache(maxsize=1024)
def weight(node: Expr) -> tuple[int, str]:
    """Short factors first; by text where they are as long."""
    return int(sp.count_ops(node)), str(node)


def factor_order(
    factor: Expr, program: Program, negative: bool
) -> tuple[bool, bool, bool, bool, bool, tuple[int, str]]:
    """Where a factor stands: decimals, then tensors, the seed first; masks last behind a minus: torch has no -mask."""
    masked, seeded = negative and isinstance(factor, TRUTHS), mentions_seed(factor, program)
    number = is_written_out(factor)
    return masked, not number, not is_access(factor), not seeded, bool(free_indices(factor)), weight(factor)
