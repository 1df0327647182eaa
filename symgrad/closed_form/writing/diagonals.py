"""Writing matrices that are 0 off their diagonal: f.diag(), and c * eye(n) where every entry there is the same.

Comes in: δ(p, q) and what it multiplies. Goes out: a piece; `NoForm` where one of the two is no index.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import ATOM, MULTIPLY, NoForm, Piece, flat, method
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr


def on_diagonal(notation: Notation, factor: Expr, rest: Sequence[Expr]) -> Piece:
    """δ_pq·f(p) is f.diag(), with zeros behind it where there are more rows or columns."""
    p, q = factor.args
    if not (isinstance(p, Index) and isinstance(q, Index)):
        raise NoForm
    less, more = (p, q) if notation.is_size(q.size - p.size) else (q, p)
    behind = sp.expand(more.size - less.size)
    inner = flat(notation.write(sp.Mul(*rest).xreplace({more: less}), (less,)))
    if inner.axes not in ((less,), ()) or not notation.is_size(behind):
        raise NoForm
    if not inner.axes and (notation.is_hessian or not any(sign.isalpha() for sign in inner.text)):
        return identity(notation, inner, p, q)
    if not inner.axes:
        inner = repeated(notation, inner, less)
    square = method(inner, "diag()", (less, more))
    if behind == 0:
        return square
    return Piece(f"pad({square.text}, (0, {notation.texts.size(behind)}))", ATOM, (less, more))


def identity(notation: Notation, number: Piece, p: Index, q: Index) -> Piece:
    """A number on the diagonal of a matrix."""
    sizes = ", ".join(dict.fromkeys(notation.texts.size(index.size) for index in (p, q)))
    one = Piece(f"eye({sizes})", ATOM, (p, q))
    if number.text == "1":
        return one
    above, slash, below = number.text.partition(" / ")
    if slash and number.binds == MULTIPLY and above.isalnum():
        text = f"{one.text} / {below}" if above == "1" else f"{above} * {one.text} / {below}"
    else:
        text = f"{number.inside(MULTIPLY)} * {one.text}"
    return Piece(text, MULTIPLY, (p, q))


def repeated(notation: Notation, number: Piece, index: Index) -> Piece:
    """A number at every place of a vector: by a vector of that size where there is one."""
    alike = [t.name for t in notation.program.inputs if t.shape == (index.size,)]
    if not alike:
        return method(number, f"expand({notation.texts.size(index.size)})", (index,))
    return Piece(f"{number.inside(MULTIPLY)} * ones_like({alike[0]})", MULTIPLY, (index,))
