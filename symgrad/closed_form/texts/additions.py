"""Writing a sum of terms: what is added first, what is subtracted after it, truth values as numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from symgrad.closed_form.rewriting.asking import boolean
from symgrad.closed_form.texts.axes import joint_axes
from symgrad.closed_form.texts.pieces import ADD, COMPARE, MULTIPLY, Axes, Piece, aligned
from symgrad.indexing.symbols import Expr


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
