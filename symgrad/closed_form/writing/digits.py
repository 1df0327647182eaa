"""Entries in another order: axes that are numbered through, taken apart, and put together again otherwise.

    v[p, ⌊q/4⌋, 2·r + (⌊q/2⌋ mod 2), 2·s + (q mod 2)]
        →  v.reshape(m, n // 4, h, 2, w, 2).permute(0, 1, 3, 5, 2, 4).reshape(x.shape)

Each place of an axis is a number, its parts are digits: pixels laid out as channels are the same digits in another
order, and so is the way back.

Comes in: an access. Goes out: a piece; `NoForm` where a digit is read twice or not at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import sympy as sp

from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import Axes, NoForm, Piece, method
from symgrad.indexing import Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr
from symgrad.shapes import Size

Digit = tuple[Index, int]
"""A part of an index: which, counted from the first; one that is read whole has one."""


def in_another_order(
    notation: Notation, piece: Piece, indices: Sequence[Expr], shape: Sequence[Size], prefer: Sequence[Index]
) -> Piece:
    """x.reshape(…).permute(…).reshape(…), as far as each of the three changes something."""
    read = [[*digits_of(index)] for index in indices]
    sizes = {digit: size for digits in read for digit, size in digits}
    flat = [digit for digits in read for digit, _ in digits]
    found = dict.fromkeys(index for index, _ in flat)
    axes = tuple(dict.fromkeys([*(index for index in prefer if index in found), *found]))
    parts = [sorted((d for d in sizes if d[0] is axis), key=lambda d: d[1]) for axis in axes]
    wanted = [digit for part in parts for digit in part]
    if len(sizes) < len(flat) or not all(map(whole, axes, parts, ([sizes[d] for d in part] for part in parts))):
        raise NoForm
    for digits, size in zip(read, shape, strict=True):
        if not same(size, [own for _, own in digits]):
            raise NoForm  # a part of the axis is read
    if any(len(digits) != 1 for digits in read):
        piece = laid_out(notation, piece, [sizes[digit] for digit in flat])
    if wanted != flat:
        piece = method(piece, f"permute({', '.join(str(flat.index(digit)) for digit in wanted)})", ())
    if len(axes) < len(wanted):
        return laid_out(notation, piece, [axis.size for axis in axes], axes)
    return Piece(piece.text, piece.binds, axes)


def digits_of(index: Expr) -> Iterator[tuple[Digit, Size]]:
    """The digits of a place along an axis, the first counts most; each with how many values it takes."""
    if index == 0:
        return  # an axis of one entry
    if isinstance(index, Index):
        yield (index, 0), index.size
    elif isinstance(index, Unravel) and isinstance(index.number, Index):
        yield (index.number, index.axis), index.shape[index.axis]
    elif isinstance(index, Ravel):
        for part, size in zip(index.indices, index.shape, strict=True):
            inner = [*digits_of(part)]
            if not same(size, [own for _, own in inner]):
                raise NoForm
            yield from inner
    else:
        raise NoForm


def whole(index: Index, digits: Sequence[Digit], sizes: Sequence[Size]) -> bool:
    """Whether these are all digits of an index."""
    return [place for _, place in digits] == list(range(len(digits))) and same(index.size, sizes)


def same(size: Size, parts: Sequence[Size]) -> bool:
    """Whether the parts of an axis are the whole of it, at every size."""
    return bool(sp.expand(sp.Mul(*parts) - size) == 0)


def laid_out(notation: Notation, piece: Piece, sizes: Sequence[Size], axes: Axes = ()) -> Piece:
    """``piece.reshape(sizes)``; an input's own shape by its name."""
    for tensor in notation.program.inputs:
        if tensor.shape == tuple(sizes) and len(sizes) > 1:
            return method(piece, f"reshape({tensor.name}.shape)", axes)
    return method(piece, f"reshape({', '.join(notation.texts.size(size) for size in sizes)})", axes)
