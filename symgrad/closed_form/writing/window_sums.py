"""Windows over an axis: what a tensor gives back that is repeated, pooled, cut into windows, unfolded or folded.

    Σ_j δ(q, ⌊j / 2⌋)·v[p,j]            →  v.reshape(m, n, 2).sum(-1), `numbered_apart` first
    Σ_k [2r ≤ k]·[k < 2r + 2]·v[p,k]    →  2 * avg_pool1d(v, 2), or a reshape and a sum
    Σ_k [0 ≤ r − 2k]·[r − 2k < 2]·v[p,k]   →  v.repeat_interleave(2, -1), with zeros behind what no block covers
    Σ_k [0 ≤ r − s·k + d < K]·v[p,c,k]  →  conv_transpose1d(v, x.new_ones(c, 1, K), stride=s, padding=d, groups=c)
    Σ_{a,b} v[n,(c,a,b),(p−a,q−b)]      →  F.fold(v, x.shape[-2:], (k, l))
    v[n,c,p+a,q+b] for (c,a,b),(p,q)    →  F.unfold(v, (k, l))

Comes in: a sum whose conditions hold in a window of one index around another, or the one entry of the seed that is read
and what is summed over. Goes out: a piece or a call; `NoForm` or None for others. A place, a step of the window and a
shift within it belong together as in `convolutions`: place = stride·step + dilation·shift − padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.closed_form.fragments import ATOM, MULTIPLY, NoForm, Piece, flat, method, permuted, subscripted
from symgrad.closed_form.notation import Notation, axis_in
from symgrad.closed_form.rewriting.shorthands import reads_tensor
from symgrad.closed_form.rewriting.sum_rules import taken_apart
from symgrad.closed_form.writing.convolution_gradients import (
    USUAL,
    Slide,
    as_told,
    one_or_each,
    remainders,
    solved,
    told,
)
from symgrad.indexing import Bracket, Index, Ravel, Unravel, summed
from symgrad.indexing.brackets import whole_gap
from symgrad.indexing.symbols import Expr, free_indices, indices_of, name_of
from symgrad.ops.contracting.convolutions import spread
from symgrad.shapes import Size

MOST_SPACE = 3
"""Axes that torch's pools and convolutions move along at most."""


@dataclass(frozen=True)
class Window:
    """0 ≤ ``place`` − ``stride``·``step`` + ``padding`` < ``length``, summed over one of the two."""

    place: Index
    step: Index
    stride: Expr
    padding: Expr
    length: Expr


def blocks(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Piece:
    """A sum over windows, of which each stands for one place, or each place in it for the window."""
    every, over = taken_apart(summed(sp.Mul(*factors), bound))
    edges = [f for f in every if isinstance(f, Bracket) and not reads_tensor(f)]
    rest = [f for f in every if f not in edges]
    windows = [window(k, [e for e in edges if k in free_indices(e)]) for k in over]
    if len(edges) != 2 * len(over) or any(free_indices(w.place) <= {w.step} for w in windows):
        raise NoForm
    outer = {k: w.step if k is w.place else w.place for k, w in zip(over, windows, strict=True)}
    if len(set(outer.values())) < len(outer) or any(i in free_indices(sp.Mul(*rest)) for i in outer.values()):
        raise NoForm
    order = [next((k for k, o in outer.items() if o == i), i) for i in prefer]
    body = flat(notation.write(sp.Mul(*rest), order))
    if not set(over) <= set(body.axes):
        raise NoForm
    inner = tuple(i for i in order if i in body.axes)
    body = permuted(body, inner)
    chosen = {w: w.step if w.step in over else w.place for w in windows}
    if not set(chosen.values()) <= set(inner):
        raise NoForm
    found = sorted(windows, key=lambda w: inner.index(chosen[w]))
    axes = tuple(outer.get(i, i) for i in inner)
    ways = (gathered,) if found[0].place in over else (repeated, overlapping)
    for way in ways:
        try:
            return way(notation, body, found, axes)
        except NoForm:
            continue
    raise NoForm


def window(bound: Index, edges: Sequence[Expr]) -> Window:
    """What two conditions on ``bound`` and another index say."""
    if len(edges) != 2 or any(edge.args[0].func not in (sp.Le, sp.Lt, sp.Ge, sp.Gt) for edge in edges):
        raise NoForm
    others = set().union(*map(free_indices, edges)) - {bound}
    if len(others) != 1:
        raise NoForm
    (other,) = others
    gaps = [whole_gap(edge.args[0]) for edge in edges]
    for place, step in ((bound, other), (other, bound)):
        for below, above in (gaps, gaps[::-1]):
            padding = sp.expand(below - place + (stride := -below.coeff(step)) * step)
            length = sp.expand(below + above + 1)
            plain = not free_indices(padding) and not free_indices(length) and stride.is_Integer
            if plain and below.coeff(place) == 1 and (stride > 1 or (stride == 1 and place is other)):
                return Window(place, step, stride, padding, length)
    raise NoForm


def repeated(notation: Notation, body: Piece, windows: Sequence[Window], axes: tuple[Index, ...]) -> Piece:
    """Each entry as often as its window is long, where windows lie side by side."""
    margins: dict[Index, Size] = {}
    for w in windows:
        left = remainders(w.place.size - w.length * w.step.size)
        if w.stride != w.length or w.padding != 0 or not notation.is_size(left):
            raise NoForm
        margins[w.place] = left
        often = f"repeat_interleave({notation.texts.size(w.length)}, {axis_in(axes, w.place)})"
        body = Piece(body.text, body.binds, axes) if w.length == 1 else method(body, often, axes)
    if all(left == 0 for left in margins.values()):
        return body
    first = min(axes.index(i) for i, left in margins.items() if left != 0)
    told = [part for i in reversed(axes[first:]) for part in ("0", notation.texts.size(margins.get(i, sp.S.Zero)))]
    return Piece(f"pad({body.text}, ({', '.join(told)}))", ATOM, axes)


def overlapping(notation: Notation, body: Piece, windows: Sequence[Window], axes: tuple[Index, ...]) -> Piece:
    """A transposed convolution with a window of ones, channel by channel."""
    space = len(windows)
    if tuple(w.place for w in windows) != axes[-space:] or space > MOST_SPACE or len(axes) - space not in (1, 2):
        raise NoForm
    channels = axes[-space - 1]
    one = notation.program.inputs[0].name
    sizes = [notation.texts.size(n) for n in (channels.size, sp.S.One, *(w.length for w in windows))]
    left = [remainders(w.place.size - spread(w.step.size, w.length, w.stride, w.padding, sp.S.One)) for w in windows]
    over = [sp.S.Zero if n.is_nonpositive else n for n in left]
    if not all(notation.is_size(n) for n in over):
        raise NoForm
    texts = [
        told(notation, "stride", [w.stride for w in windows], 1),
        told(notation, "padding", [w.padding for w in windows], 0),
        told(notation, "output_padding", over, 0),
        told(notation, "groups", [channels.size], 1),
    ]
    ones = f"{one}.new_ones({', '.join(sizes)})"
    call = f"conv_transpose{space}d({body.text}, {ones}{''.join(texts)})"
    cut = [
        ":" if n.is_nonnegative else f":{notation.texts.size(w.place.size)}" for n, w in zip(left, windows, strict=True)
    ]
    return Piece(subscripted(call, [":"] * (len(axes) - space) + cut), ATOM, axes)


def gathered(notation: Notation, body: Piece, windows: Sequence[Window], axes: tuple[Index, ...]) -> Piece:
    """The sums of blocks that fill an axis."""
    if any(sp.expand(w.place.size - w.stride * w.step.size) != 0 or w.length != w.stride for w in windows):
        raise NoForm
    if any(w.padding != 0 for w in windows):
        raise NoForm
    space = len(windows)
    if tuple(w.step for w in windows) == axes[-space:] and space <= MOST_SPACE and len(axes) - space in (1, 2):
        number = sp.Mul(*(w.length for w in windows))
        call = f"avg_pool{space}d({body.text}, {one_or_each(notation, [w.length for w in windows])})"
        return Piece(f"{number} * {call}", MULTIPLY, axes)
    by_step = {w.step: w.length for w in windows}
    sizes = [n for i in axes for n in ([i.size, by_step[i]] if i in by_step else [i.size])]
    marks = [inner for i in axes for inner in ([False, True] if i in by_step else [False])]
    places = [str(n) for n, inner in enumerate(marks) if inner]
    shaped = method(body, f"reshape({', '.join(notation.texts.size(n) for n in sizes)})", axes)
    return method(shaped, f"sum({places[0] if len(places) == 1 else '(' + ', '.join(places) + ')'})", axes)


def folded(notation: Notation, v: Expr, bound: Sequence[Index], axes: Sequence[Index], wanted: str) -> str | None:
    """The call that gives Σ v; None where rows and columns are not numbered as in windows."""
    *lead, rows, columns = indices_of(v) if len(indices_of(v)) > 1 else (None, None)
    if not (isinstance(rows, Ravel) and isinstance(columns, Ravel) and len(columns.shape) == 2) or len(axes) < 3:
        return None
    channel, shifts = rows.indices[:-2], rows.indices[-2:]
    if tuple(lead) != tuple(axes[:-3]) or channel not in ((axes[-3],), *([()] if axes[-3].size == 1 else [])):
        return None
    try:
        found = [along(*parts, bound) for parts in zip(axes[-2:], columns.indices, shifts, strict=True)]
    except NoForm:
        return None
    text = notation.texts.tensor(name_of(v))[0]
    told_so = as_told(notation, found, reversed(USUAL))
    return f"F.fold({text}, {wanted}.shape[-2:], {one_or_each(notation, rows.shape[-2:])}{told_so})"


def unfolded(notation: Notation, v: Expr, axes: Sequence[Index]) -> str | None:
    """The windows of v, in columns; None where it is not read so."""
    if len(axes) < 2 or len(indices_of(v)) != len(axes) + 1:
        return None
    *lead, channel, first, second = indices_of(v)
    rows, columns = axes[-2:]
    steps, shifts = ([u for u in v.atoms(Unravel) if u.number == number] for number in (columns, rows))
    window = shifts[0].shape[-2:] if shifts else ()
    if tuple(lead) != tuple(axes[:-2]) or len(steps) != 2 or len(window) != 2:
        return None
    if channel not in (0, *(u for u in shifts if len(u.shape) > 2 and u.axis == 0)):
        return None
    found = []
    for number, place in enumerate((first, second)):
        step = next(u for u in steps if u.axis == number)
        shift = next((u for u in shifts if len(u.shape) - u.axis == 2 - number), None)
        if shift is None:
            return None
        stride, dilation = place.coeff(step), place.coeff(shift)
        padding = sp.expand(stride * step + dilation * shift - place)
        if not (stride.is_Integer and dilation.is_Integer and padding.is_Integer and stride > 0 and dilation > 0):
            return None
        found.append(Slide(stride, dilation, padding))
    text = notation.texts.tensor(name_of(v))[0]
    return f"F.unfold({text}, {one_or_each(notation, window)}{as_told(notation, found, reversed(USUAL))})"


def along(place: Index, step: Expr, shift: Expr, bound: Sequence[Index]) -> Slide:
    """What one axis says, whichever of the two is summed over and the other solved for."""
    if isinstance(shift, Index) and shift in bound:
        slide = solved(step, place, shift)
        return Slide(slide.dilation, slide.stride, slide.padding)
    if isinstance(step, Index) and step in bound:
        return solved(shift, place, step)
    raise NoForm
