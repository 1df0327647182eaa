"""Pieces of matrix notation: a text, how tightly it binds, and which index each of its axes runs over.

A piece knows how to be lined up with others for broadcasting: transposed, or with axes of size 1 put in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from symgrad.indexing import Index

COMPARE, ADD, MULTIPLY, MATMUL, NEGATE, POWER, ATOM = range(7)
"""How tightly operators bind. In Python @ binds like *; a reader should not have to know that."""

Axes = tuple[Index | None, ...]
Text = tuple[str, int]
"""What is written, and how tightly it binds."""


class NoForm(Exception):
    """There is no matrix notation for this; the index formula is the answer."""


@dataclass(frozen=True)
class Piece:
    """``text`` with axes running over ``axes`` (None: of size 1).

    ``kept`` is a sum's form with keepdim, ``flipped`` a matrix product's transpose, written as one; ``inverts`` is the
    matrix whose inverse this is, where a product with it is better written as a solution.
    """

    text: str
    binds: int
    axes: Axes
    kept: Piece | None = None
    flipped: Piece | None = None
    inverts: Piece | None = None

    def inside(self, operator: int) -> str:
        """The text as an operand of an operator, in brackets if it binds less tightly."""
        return bracketed(self.text, self.binds, operator)

    def indices(self) -> tuple[Index, ...]:
        """The indices, without axes of size 1."""
        return tuple(a for a in self.axes if a is not None)


def bracketed(text: str, binds: int, operator: int) -> str:
    """``text`` as an operand: in brackets if it binds less tightly, or where * and @ would meet."""
    return text if binds >= operator and {binds, operator} != {MULTIPLY, MATMUL} else f"({text})"


def method(piece: Piece, call: str, axes: Axes) -> Piece:
    """``piece.call`` with the given axes."""
    return Piece(f"{piece.inside(ATOM)}.{call}", ATOM, axes)


def applied(piece: Piece, call: str) -> Piece:
    """``piece.call`` entry by entry; a sum that may keep its axis may keep it here."""
    kept = None if piece.kept is None else method(piece.kept, call, piece.kept.axes)
    return replace(method(piece, call, piece.axes), kept=kept)


def keeping(pieces: Sequence[Piece]) -> list[Piece] | None:
    """``pieces`` with the axes of one entry that some of them have: sums keep theirs; None where they differ."""
    wanted = {piece.axes for piece in pieces if None in piece.axes}
    if len(wanted) != 1:
        return None
    (axes,) = wanted
    found = [piece.kept if piece.kept is not None and piece.kept.axes == axes else piece for piece in pieces]
    return found if all(piece.axes in (axes, ()) for piece in found) else None


def subscripted(text: str, items: Sequence[str]) -> str:
    """``text[items]`` without the colons at the end, which say nothing."""
    needed = len(items)
    while needed and items[needed - 1] == ":":
        needed -= 1
    return f"{text}[{', '.join(items[:needed])}]" if needed else text


def flat(piece: Piece) -> Piece:
    """``piece`` without its axes of size 1: v[:, 0]."""
    if None not in piece.axes:
        return piece
    items = ["0" if axis is None else ":" for axis in piece.axes]
    return Piece(subscripted(piece.inside(ATOM), items), ATOM, piece.indices())


def permuted(piece: Piece, order: Sequence[Index]) -> Piece:
    """``piece`` with its axes in ``order``."""
    piece = flat(piece)
    if piece.axes == tuple(order):
        return piece
    if piece.flipped is not None and piece.flipped.axes == tuple(order):
        return piece.flipped
    if len(order) == 2:
        turned = piece.inverts and permuted(piece.inverts, order)
        if piece.text.endswith(".T") and piece.binds == ATOM:
            return Piece(piece.text.removesuffix(".T"), ATOM, tuple(order), inverts=turned)
        return replace(method(piece, "T", tuple(order)), inverts=turned)
    if piece.axes[:-2] == tuple(order[:-2]) and piece.axes[-2:] == tuple(order[:-3:-1]):
        return method(piece, "mT", tuple(order))
    places = ", ".join(str(piece.axes.index(i)) for i in order)
    return method(piece, f"permute({places})", tuple(order))


def aligned(piece: Piece, target: Sequence[Index | None]) -> Piece:
    """``piece`` so that it broadcasts against a tensor with the axes ``target``."""
    for candidate in (piece, piece.kept):
        if candidate is not None and _broadcasts(candidate.axes, target) and not _prefers_kept(candidate, target):
            return candidate
    own = [i for i in target if i in piece.indices()]
    if len(own) < len(piece.indices()):
        raise NoForm
    bare = permuted(piece, own)
    if not own:
        return bare
    wanted: Axes = tuple(i if i in own else None for i in target[list(target).index(own[0]) :])
    if wanted == bare.axes:
        return bare
    items = ", ".join(":" if i is not None else "None" for i in wanted)
    return Piece(f"{bare.inside(ATOM)}[{items}]", ATOM, wanted)


def _broadcasts(axes: Axes, target: Sequence[Index | None]) -> bool:
    """Whether a tensor with ``axes`` lines up with ``target`` from the right as it is."""
    if len(axes) > len(target):
        return False
    tail = target[len(target) - len(axes) :]
    return all(a is None or a == t for a, t in zip(axes, tail, strict=True))


def _prefers_kept(piece: Piece, target: Sequence[Index | None]) -> bool:
    """A sum that is put back beside what it was summed over keeps its axis; one number needs none beside a matrix."""
    if piece.kept is not None and len(piece.kept.axes) > 1 and not piece.axes:
        return False
    return piece.kept is not None and len(piece.kept.axes) == len(target) and _broadcasts(piece.kept.axes, target)


def matmul(left: Piece, right: Piece, axes: Axes) -> Piece:
    """``left @ right``, and its transpose ``right.T @ left.T`` where both are matrices."""
    if left.inverts is not None and right.inverts is None:
        return Piece(f"solve({left.inverts.text}, {right.text})", ATOM, axes)
    if right.inverts is not None and left.inverts is None and len(left.axes) < 3:
        matrix, vector = right.inverts, len(left.axes) == 1
        text = f"solve({permuted(matrix, matrix.indices()[::-1]).text if vector else matrix.text}, {left.text}"
        return Piece(f"{text})" if vector else f"{text}, left=False)", ATOM, axes)
    text = f"{left.inside(MATMUL)} @ {right.inside(MATMUL + 1)}"
    if len(left.axes) != 2 or len(right.axes) != 2 or None in (*left.axes, *right.axes):
        return Piece(text, MATMUL, axes)
    (rows, inner), (_, columns) = left.axes, right.axes
    turned = [permuted(right, (columns, inner)), permuted(left, (inner, rows))]  # type: ignore[arg-type]  # no None here
    other = f"{turned[0].inside(MATMUL)} @ {turned[1].inside(MATMUL + 1)}"
    flipped = Piece(other, MATMUL, (columns, rows))
    return Piece(text, MATMUL, axes, flipped=flipped if axes == (rows, columns) else None)


def matrix(piece: Piece, axes: Sequence[Index]) -> Piece:
    """``piece`` with exactly the axes ``axes`` in this order, for a matrix product."""
    if set(piece.indices()) != set(axes) or piece.binds == COMPARE:
        raise NoForm  # torch multiplies no matrix of booleans
    return permuted(piece, tuple(axes))


def of_ones(number: Piece, wanted: str, axes: Sequence[Index]) -> Piece:
    """A number everywhere: 2 * ones_like(x), -ones_like(x) / 3."""
    ones = f"ones_like({wanted})"
    if number.text == "1":
        return Piece(ones, ATOM, tuple(axes))
    sign = "-" if number.text.startswith("-") else ""
    rest = number.text.removeprefix("-")
    if rest.startswith("1 / ") and (number.binds == MULTIPLY or sign):
        return Piece(sign + ones + rest.removeprefix("1"), NEGATE if sign else MULTIPLY, tuple(axes))
    return Piece(f"{number.inside(MULTIPLY)} * {ones}", MULTIPLY, tuple(axes))


def fits(piece: Piece, axes: Sequence[Index]) -> bool:
    """Whether a piece has exactly these axes, of which those of one entry need no index."""
    return len(piece.axes) == len(axes) and all(
        a is i or (a is None and i.size == 1) for a, i in zip(piece.axes, axes, strict=True)
    )
