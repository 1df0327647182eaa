"""Writing a sum of terms: what is added first, what is subtracted after it, truth values as numbers."""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.closed_form.asking import boolean, joint_axes, mentions_seed
from symgrad.closed_form.pieces import ADD, COMPARE, MULTIPLY, Axes, Piece, aligned
from symgrad.indexing.symbols import Expr
from symgrad.program import Program


def added(terms: Sequence[tuple[bool, Expr, Piece]], target: Axes, program: Program) -> Piece:
    """Pieces as a sum, each with whether it is subtracted and the expression that it writes."""
    found = [
        (minus, boolean(t) or piece.binds == COMPARE, not mentions_seed(t, program), aligned(piece, target))
        for minus, t, piece in terms
    ]
    found.sort(key=lambda f: (f[0], f[1], f[2], f[3].axes == (), len(f[3].text), f[3].text))
    pieces = [piece for *_, piece in found]
    text = ""
    for minus, truth, _, piece in found:
        if truth and (minus or not text):  # torch neither subtracts booleans nor counts them when it adds two
            piece = Piece(f"1 * {piece.inside(MULTIPLY)}", MULTIPLY, piece.axes)
        operand = piece.text if piece.binds > ADD else piece.inside(MULTIPLY if minus else ADD)
        sign = "-" if minus else "+"
        text = f"{text} {sign} {operand}" if text else f"-{operand}" if minus else operand
    return Piece(text, ADD, joint_axes(pieces, target))
