"""What a view selects along one axis goes back to where arange, viewed in the same way, says; diagonals to theirs.

    [2 | p − 1]·v[⌊(p − 1)/2⌋]        →  zeros_like(x).index_add(0, arange(x.shape[0])[1::2], v)
    Σ_j v[p − j, j]                   →  zeros_like(x).index_add(0, arange(n).unfold(0, k, 1).flatten(), v.flatten())
    δ(q, p + 1)·v[p]                  →  zeros_like(x).diagonal_scatter(v, 1)

Comes in: the one entry of the seed that is read, and what is beside it. Goes out: the call; None where no call says it.
The conditions under which the entry is read are not looked at: that the call has them is for the proof to say.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.texts.notation import Notation, shape_of
from symgrad.closed_form.texts.pieces import NoForm, subscripted
from symgrad.closed_form.writing.convolutions import solved
from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr, indices_of, name_of
from symgrad.shapes import Size


def by_steps(notation: Notation, v: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """Every s-th entry from the a-th on; of several axes the last ones first, into zeros as others have left them."""
    moved, indices, text = axes_of_view(indices_of(v), axes), indices_of(v), notation.texts.tensor(name_of(v))[0]
    counts = shape_of(notation, name_of(v))
    places = [n for n, axis in enumerate(axes) if n in moved or counts[n] != axis.size] if moved else []
    taken = {place: slice_of(indices[place], axes[place], counts[place]) for place in places}
    if not taken or None in taken.values():
        return None
    for place in reversed(places):
        items = [str(taken[n]) if n in places else ":" for n in range(place)]
        whole = subscripted(wanted, items) if set(items) - {":"} else wanted
        text = added(notation, whole, place, axes[place].size, f"[{taken[place]}]", text)
    return text


def slice_of(step: Expr, index: Index, count: Size) -> str | None:
    """a:b:s, where an entry is read at ⌊(index − a) / s⌋."""
    quotient = sp.Add(*(part.args[0] if isinstance(part, sp.floor) else part for part in sp.Add.make_args(step)))
    stride = 1 / quotient.coeff(index) if quotient.coeff(index) else sp.S.Zero
    start = sp.expand((index / stride - quotient) * stride) if stride else sp.S.Zero
    if not (stride.is_Integer and stride > 0 and start.is_Integer and start >= 0):
        return None
    end = end_of(count, index.size, start, stride)
    return None if end is None else f"{start if start else ''}:{end}{f':{stride}' if stride > 1 else ''}"


def end_of(count: Size, size: Size, start: Expr, stride: Expr) -> str | None:
    """Where a slice of so many entries ends: empty for the end of the axis, −c for c entries before it."""
    if sp.expand(count - sp.floor((size - start + stride - 1) / stride)) == 0:
        return ""
    if count.is_Integer:
        return str(start + stride * (count - 1) + 1)
    steps = count.args[0] if isinstance(count, sp.floor) else count
    left = sp.expand(size - start + stride - 1 - steps * stride)
    return f"-{left}" if left.is_Integer and left > 0 else None


def by_windows(notation: Notation, v: Expr, shift: Index, axes: Sequence[Index], wanted: str) -> str | None:
    """Windows that were laid along one axis, each as a last axis of its own."""
    indices = indices_of(v)
    places = axes_of_view(indices[:-1], axes)
    if len(places) != 1 or indices[-1] != shift:
        return None
    (place,) = places
    try:
        slide = solved(indices[place], axes[place], shift)  # solved for the step: its divisor is how far windows move
    except NoForm:
        return None
    if slide.stride != 1 or slide.padding != 0 or not slide.dilation.is_Integer:
        return None
    *counts, width = shape_of(notation, name_of(v))
    many = sp.floor((axes[place].size - shift.size) / slide.dilation) + 1
    ends = end_of(counts[place], many, sp.S.Zero, sp.S.One), end_of(width, shift.size, sp.S.Zero, sp.S.One)
    if None in ends or any(counts[n] != axis.size for n, axis in enumerate(axes) if n != place):
        return None
    part = subscripted("", [f":{end}" for end in ends])  # of the windows that there are
    windows = f".unfold(0, {notation.texts.size(shift.size)}, {slide.dilation}){part}.flatten()"
    moved = notation.texts.tensor(name_of(v))[0]
    if place < len(axes) - 1:
        moved = f"{moved}.movedim(-1, {place + 1})"
    moved += ".flatten()" if len(axes) == 1 else f".flatten({place}, {place + 1})"
    return added(notation, wanted, place, axes[place].size, windows, moved)


def axes_of_view(indices: Sequence[Expr], axes: Sequence[Index]) -> list[int]:
    """The axes along which an entry is looked for elsewhere, all others as they are; none where the view is no such."""
    if len(indices) != len(axes):
        return []
    moved = [n for n, (index, axis) in enumerate(zip(indices, axes, strict=True)) if index != axis]
    return moved if all(indices[n].has(axes[n]) for n in moved) else []


def added(notation: Notation, wanted: str, place: int, size: Size, taken: str, moved: str) -> str:
    """``moved`` added at the numbers of an axis that a view takes."""
    return f"zeros_like({wanted}).index_add({place}, arange({notation.texts.size(size)}){taken}, {moved})"


def on_diagonal(notation: Notation, delta: Expr, v: Expr, axes: Sequence[Index], wanted: str) -> str | None:
    """δ(q, p + k)·v[…, p]: the k-th diagonal above the main one, or below it; of a matrix the main one has a name."""
    for row, column in (delta.args, delta.args[::-1]):
        ahead = sp.expand(column - row)
        if not (row in axes and len(column.free_symbols & {*axes}) == 1 and not ahead.is_Integer):
            continue
        (other,) = column.free_symbols & {*axes}
        offset = sp.expand(column - other)
        if not (offset.is_Integer and other != row) or (offset == 0 and len(axes) == 2):
            return None
        above = list(axes).index(row) > list(axes).index(other)
        first, second = (other, row) if above else (row, other)
        number = offset if above else -offset
        rest = [axis for axis in axes if axis not in (row, other)]
        if indices_of(v) != (*rest, first if number >= 0 else second):
            return None
        planes = [] if len(axes) == 2 else [list(axes).index(first), list(axes).index(second)]
        ends = (first.size, second.size - number) if number >= 0 else (second.size, first.size + number)
        *counts, length = shape_of(notation, name_of(v))
        whole = any(sp.expand(length - end) == 0 for end in ends)
        if not whole or any(count != axis.size for count, axis in zip(counts, rest, strict=True)):
            return None  # a part of the diagonals, as x.diagonal(1)[:2]
        text = notation.texts.tensor(name_of(v))[0]
        return f"zeros_like({wanted}).diagonal_scatter({', '.join(map(str, [text, number, *planes]))})"
    return None
