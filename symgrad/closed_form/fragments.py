"""Fragments of matrix notation: code, and which index each of its axes runs over.

A `Fragment` can be lined up with others for broadcasting: transposed, or with axes of size 1 put in. `Notation` is what
all writers of one program share: its tensors, the names that were given on the way, in which order axes and factors
stand, how terms are added. The writers, one file for each kind of expression, know `Notation` alone and ask it for what
stands inside; `FormWriter` of `symgrad.closed_form.writing` decides which of them writes an expression.

Comes in: fragments, or expressions of one program. Goes out: fragments.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial

import sympy as sp

from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.rewriting.scalar_rules import is_written_out
from symgrad.closed_form.rewriting.shorthands import TRUTHS, is_boolean
from symgrad.closed_form.source_code import SourceWriter
from symgrad.indexing import Index
from symgrad.indexing.brackets import implied
from symgrad.indexing.symbols import ByText, Expr, free_indices, indices_of, is_access, name_of
from symgrad.language.python_text import (
    COLON,
    Part,
    add,
    call,
    index,
    is_comparison,
    method,
    multiply,
    negate,
    to_code,
    write_python,
)
from symgrad.language.syntax_tree import Attribute, Literal, Subscript
from symgrad.language.trees import FormCode, count_mentions, fill_ones, replace_part, transpose_matrix
from symgrad.notation.tree import Binary, Name, SyntaxNode
from symgrad.ops.lookup import has_role
from symgrad.program import Program, Role
from symgrad.shapes import Size

Axes = tuple[Index | None, ...]


@dataclass(frozen=True)
class Fragment:
    """``code`` with axes running over ``axes`` (None: of size 1).

    ``kept`` is a sum's form with keepdim, ``flipped`` a matrix product's transpose, written as one; ``inverts`` is the
    matrix whose inverse this is, where a product with it is better written as a solution.
    """

    code: SyntaxNode
    axes: Axes
    kept: Fragment | None = None
    flipped: Fragment | None = None
    inverts: Fragment | None = None

    @cached_property
    def text(self) -> str:
        """The code as text."""
        return write_python(self.code)

    @property
    def compares(self) -> bool:
        """Whether it is a condition: true or false at each place."""
        return is_comparison(self.code)

    def indices(self) -> tuple[Index, ...]:
        """The indices, without axes of size 1."""
        return tuple(a for a in self.axes if a is not None)


def call_method(piece: Fragment, axes: Axes, word: str, *positional: Part, **keywords: Part) -> Fragment:
    """``piece.word(…)`` with the given axes."""
    return Fragment(method(piece.code, word, *positional, **keywords), axes)


def call_elementwise(piece: Fragment, function: Callable[[SyntaxNode], SyntaxNode]) -> Fragment:
    """A function of each entry; a sum that may keep its axis may keep it here."""
    kept = None if piece.kept is None else Fragment(function(piece.kept.code), piece.kept.axes)
    return Fragment(function(piece.code), piece.axes, kept)


def truths_as_numbers(piece: Fragment, one: float = 1) -> Fragment:
    """Truth values as numbers: 1 * (x > 0)."""
    return Fragment(multiply(to_code(one), piece.code), piece.axes)


def keep_size_one_axes(pieces: Sequence[Fragment]) -> list[Fragment] | None:
    """``pieces`` with the axes of one entry that some of them have: sums keep theirs; None where they differ."""
    wanted = {piece.axes for piece in pieces if None in piece.axes}
    if len(wanted) != 1:
        return None
    (axes,) = wanted
    found = [piece.kept if piece.kept is not None and piece.kept.axes == axes else piece for piece in pieces]
    return found if all(piece.axes in (axes, ()) for piece in found) else None


def drop_size_one_axes(piece: Fragment) -> Fragment:
    """``piece`` without its axes of size 1: v[:, 0]."""
    if None not in piece.axes:
        return piece
    return Fragment(index(piece.code, [0 if axis is None else COLON for axis in piece.axes]), piece.indices())


def permute_axes(piece: Fragment, order: Sequence[Index]) -> Fragment:
    """``piece`` with its axes in ``order``."""
    piece = drop_size_one_axes(piece)
    if piece.axes == tuple(order):
        return piece
    if piece.flipped is not None and piece.flipped.axes == tuple(order):
        return piece.flipped
    if len(order) == 2:
        turned = piece.inverts and permute_axes(piece.inverts, order)
        return Fragment(transpose_matrix(piece.code), tuple(order), inverts=turned)
    if piece.axes[:-2] == tuple(order[:-2]) and piece.axes[-2:] == tuple(order[:-3:-1]):
        return Fragment(Attribute(piece.code, "mT"), tuple(order))
    return call_method(piece, tuple(order), "permute", *map(piece.axes.index, order))


def align_axes(piece: Fragment, target: Sequence[Index | None]) -> Fragment:
    """``piece`` so that it broadcasts against a tensor with the axes ``target``."""
    for candidate in (piece, piece.kept):
        if candidate is not None and _lines_up_with(candidate.axes, target) and not _prefers_kept(candidate, target):
            return candidate
    own = [i for i in target if i in piece.indices()]
    if len(own) < len(piece.indices()):
        raise NoForm
    bare = permute_axes(piece, own)
    if not own:
        return bare
    wanted: Axes = tuple(i if i in own else None for i in target[list(target).index(own[0]) :])
    if wanted == bare.axes:
        return bare
    items = tuple(COLON if i is not None else Literal(None) for i in wanted)
    return Fragment(Subscript(bare.code, items), wanted)


def _lines_up_with(axes: Axes, target: Sequence[Index | None]) -> bool:
    """Whether a tensor with ``axes`` lines up with ``target`` from the right as it is."""
    if len(axes) > len(target):
        return False
    tail = target[len(target) - len(axes) :]
    return all(a is None or a == t for a, t in zip(axes, tail, strict=True))


def _prefers_kept(piece: Fragment, target: Sequence[Index | None]) -> bool:
    """A sum that is put back beside what it was summed over keeps its axis; one number needs none beside a matrix."""
    if piece.kept is not None and len(piece.kept.axes) > 1 and not piece.axes:
        return False
    return piece.kept is not None and len(piece.kept.axes) == len(target) and _lines_up_with(piece.kept.axes, target)


def write_matmul(left: Fragment, right: Fragment, axes: Axes) -> Fragment:
    """``left @ right``, and its transpose ``right.T @ left.T`` where both are matrices."""
    if left.inverts is not None and right.inverts is None:
        return Fragment(call("solve", left.inverts.code, right.code), axes)
    if right.inverts is not None and left.inverts is None and len(left.axes) < 3:
        matrix = right.inverts
        if len(left.axes) == 1:
            return Fragment(call("solve", permute_axes(matrix, matrix.indices()[::-1]).code, left.code), axes)
        return Fragment(call("solve", matrix.code, left.code, left=False), axes)
    code = Binary("@", left.code, right.code)
    if len(left.axes) != 2 or len(right.axes) != 2 or None in (*left.axes, *right.axes):
        return Fragment(code, axes)
    (rows, inner), (_, columns) = left.axes, right.axes
    turned = [permute_axes(right, (columns, inner)), permute_axes(left, (inner, rows))]  # type: ignore[arg-type]  # no None here
    flipped = Fragment(Binary("@", turned[0].code, turned[1].code), (columns, rows))
    return Fragment(code, axes, flipped=flipped if axes == (rows, columns) else None)


def as_matrix(piece: Fragment, axes: Sequence[Index]) -> Fragment:
    """``piece`` with exactly the axes ``axes`` in this order, for a matrix product."""
    if set(piece.indices()) != set(axes) or piece.compares:
        raise NoForm  # torch multiplies no matrix of booleans
    return permute_axes(piece, tuple(axes))


def fill_with_number(number: Fragment, wanted: str, axes: Sequence[Index]) -> Fragment:
    """A number everywhere: 2 * ones_like(x), -ones_like(x) / 3."""
    return Fragment(fill_ones(number.code, call("ones_like", wanted)), tuple(axes))


def has_exact_axes(piece: Fragment, axes: Sequence[Index]) -> bool:
    """Whether a piece has exactly these axes, of which those of one entry need no index."""
    return len(piece.axes) == len(axes) and all(
        a is i or (a is None and i.size == 1) for a, i in zip(piece.axes, axes, strict=True)
    )


class Notation(ABC):
    """The tensors of one program, the names that were given, and the three questions that every way to write asks."""

    def __init__(self, program: Program, symmetric: Collection[str] = ()) -> None:
        self.program = program
        self.symmetric = symmetric
        """The tensors that are their own transposes."""
        self.source = SourceWriter(program)
        self.solved = find_solved_matrices(program)
        """The inverses that only the gradients of linear systems read, and the matrices they are the inverses of."""
        self.is_hessian = False
        """Whether a second derivative is written, which is read; a gradient also runs, in the type of its inputs."""
        self._names: dict[SyntaxNode, str] = {}

    def is_size(self, size: Expr) -> bool:
        """Whether ``size`` is known not to be negative, at all sizes that the program is for."""
        axes = (n for tensor in self.program.tensors() for n in tensor.shape)
        return bool(size.is_nonnegative) or implied((*self.program.required, *axes), sp.expand(size))

    def with_definitions(self, code: SyntaxNode) -> FormCode:
        """``code`` behind ``K = …; ``, for each name that it needs."""
        form = FormCode(code)
        for own, name in reversed(self._names.items()):
            if is_comparison(own):
                form = form.changed(partial(replace_part, part=own, other=Name(name)))
            if any(count_mentions(tree, name) for tree in form.trees):  # what was given up may have left others
                form = FormCode(form.last, ((name, own), *form.definitions))
        return form

    def name(self, letter: str, piece: Fragment) -> Fragment:
        """``piece`` under a name of its own, if it is more than a name."""
        if isinstance(piece.code, Name):
            return piece
        taken = {self.program.seed, self.program.output, *(t.name for t in self.program.inputs), *self._names.values()}
        free = (name for name in (letter, *(f"{letter}{n}" for n in range(1, 100))) if name not in taken)
        name = self._names.get(piece.code) or next(free)
        self._names[piece.code] = name
        return Fragment(Name(name), piece.axes)

    @abstractmethod
    def write(self, node: Expr, prefer: Sequence[Index]) -> Fragment:
        """``node`` as a piece; its axes come in the order of ``prefer`` where there is a choice."""

    @abstractmethod
    def product(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
        """The factors as one elementwise product."""

    def multiplied(self, factors: Sequence[Expr], prefer: Sequence[Index]) -> Fragment:
        """The factors as one elementwise product, or the only one as it is."""
        return self.write(factors[0], prefer) if len(factors) == 1 else self.product(factors, prefer)

    @abstractmethod
    def whole(self, node: Expr, axes: Sequence[Index], wanted: str) -> Fragment:
        """``node`` in exactly the shape of ``wanted``."""


def find_solved_matrices(program: Program) -> dict[str, str]:
    """What is read beside linear systems, and the matrices it is the inverses of."""
    solutions = [step for step in program.steps if has_role(step.op, Role.SOLVES)]
    return {inverse: str(step.arguments[0]) for step in solutions for _, inverse in step.beside}


def shape_in_scope(notation: Notation, name: str) -> Sequence[Size]:
    """The shape of a tensor of the program, or of the seed; of whole numbers that the forward found, `NoForm`."""
    if "·" in name:  # nothing in scope holds them
        raise NoForm
    return notation.program.out.shape if name == notation.program.seed else notation.program.tensor(name).shape


def axis_number(axes: Axes, index: Index) -> int:
    """The place of ``index``, -1 for the last."""
    place = axes.index(index)
    return -1 if place == len(axes) - 1 else place


def common_axis_order(pieces: Sequence[Fragment], prefer: Sequence[Index]) -> Axes:
    """The axes of all pieces: as they are where all agree, else as preferred, else as the largest piece has them."""
    own = {piece.axes for piece in pieces if piece.axes}
    if len(own) == 1 and None in next(iter(own)):
        return own.pop()
    found = list(dict.fromkeys(i for p in sorted(pieces, key=lambda p: -len(p.axes)) for i in p.indices()))
    return tuple([i for i in prefer if i in found] + [i for i in found if i not in prefer])


def broadcast_axes(pieces: Sequence[Fragment], target: Axes) -> Axes:
    """The axes that broadcasting the lined-up pieces gives."""
    lined = [align_axes(p, target).axes for p in pieces]
    rank = max((len(a) for a in lined), default=0)
    result: list[Index | None] = [None] * rank
    for axes in lined:
        for place, axis in enumerate(axes, start=rank - len(axes)):
            result[place] = axis if axis is not None else result[place]
    return tuple(result)


def align_all(pieces: Sequence[Fragment], prefer: Sequence[Index]) -> tuple[list[Fragment], Axes]:
    """The pieces so that they broadcast against each other, and the axes that this gives."""
    target = common_axis_order(pieces, prefer)
    return [align_axes(piece, target) for piece in pieces], broadcast_axes(pieces, target)


def choose_body_order(factors: Sequence[Expr], bound: Sequence[Index], prefer: Sequence[Index]) -> tuple[Index, ...]:
    """The axes under a sum in the order of the largest factor, so that nothing need be transposed."""
    body = set().union(*(free_indices(f) for f in factors))
    for factor in factors:
        for node in sp.preorder_traversal(factor):
            if is_access(node) and set(indices_of(node)) == body and len(indices_of(node)) == len(body):
                return tuple(indices_of(node))
    return (*bound, *prefer)


def split_signs(terms: Iterable[Expr]) -> list[tuple[bool, Expr]]:
    """Terms without their minus, each with whether it had one."""
    return [(minus, -t if minus else t) for t in terms for minus in [t.could_extract_minus_sign()]]


def add_fragments(terms: Sequence[tuple[bool, Expr, Fragment]], target: Axes) -> Fragment:
    """Pieces as a sum, each with whether it is subtracted and the expression that it writes.

    A gradient is linear in the seed: of the terms of a sum all carry it, or none.
    """
    found = [(minus, is_boolean(t) or piece.compares, align_axes(piece, target)) for minus, t, piece in terms]
    found.sort(key=lambda f: (f[0], f[1], f[2].axes == (), len(f[2].text), f[2].text))
    pieces = [piece for *_, piece in found]
    whole: SyntaxNode | None = None
    for minus, truth, piece in found:
        if truth and (minus or whole is None):  # torch neither subtracts booleans nor counts them when it adds two
            piece = truths_as_numbers(piece)
        if whole is None:
            whole = negate(piece.code) if minus else piece.code
        else:
            whole = add(whole, piece.code, "-" if minus else "+")
    assert whole is not None
    return Fragment(whole, broadcast_axes(pieces, target))


def mentions_seed(node: Expr, program: Program) -> bool:
    """Whether the seed or a named cotangent is read."""
    return any(program.carries_weights(name_of(n)) for n in sp.preorder_traversal(node) if is_access(n))


@lru_cache(maxsize=1024)
def factor_length(node: Expr) -> tuple[int, ByText]:
    """Short factors first; by text where they are as long."""
    return int(sp.count_ops(node)), ByText(node)


def factor_sort_key(
    factor: Expr, program: Program, negative: bool
) -> tuple[bool, bool, bool, bool, bool, tuple[int, ByText]]:
    """Where a factor stands: decimals, then tensors, the seed first; masks last behind a minus: torch has no -mask."""
    masked, seeded = negative and isinstance(factor, TRUTHS), mentions_seed(factor, program)
    number = is_written_out(factor)
    return masked, not number, not is_access(factor), not seeded, bool(free_indices(factor)), factor_length(factor)
