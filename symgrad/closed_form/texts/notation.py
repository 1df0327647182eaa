"""What every way to write a piece of matrix notation knows: the program, its texts, the names given on the way.

Comes in: a program. Goes out: answers about its sizes and names. How an expression is written, `Forms` of
`symgrad.closed_form.writing.writer` decides; the ways, one file each, know this class alone and ask it for what stands
inside.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence

import sympy as sp

from symgrad.closed_form.texts.pieces import ATOM, Piece
from symgrad.closed_form.texts.source_text import Writer
from symgrad.indexing import Index
from symgrad.indexing.brackets import implied
from symgrad.indexing.symbols import Expr
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

    @abstractmethod
    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Piece:
        """``node`` in exactly the shape of ``wanted``."""


def solved_in(program: Program) -> dict[str, str]:
    """What is read beside linear systems, and the matrices it is the inverses of."""
    solutions = [step for step in program.steps if plays(step.op, Role.SOLVES)]
    return {inverse: str(step.arguments[0]) for step in solutions for _, inverse in step.beside}


def shape_of(notation: Notation, name: str) -> Sequence[Size]:
    """The shape of a tensor of the program, or of the seed."""
    return notation.program.out.shape if name == notation.program.seed else notation.program.tensor(name).shape
