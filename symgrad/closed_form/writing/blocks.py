"""Blocks of entries: what a tensor that is repeated, pooled or cut into windows gives back.

    Σ_j δ(q, ⌊j / 2⌋)·v[p,j]            →  v.reshape(m, n, 2).sum(-1), `numbered_apart` first
    Σ_k [2r ≤ k]·[k < 2r + 2]·v[p,k]    →  2 * avg_pool1d(v, 2), or a reshape and a sum
    Σ_k [0 ≤ r − 2k]·[r − 2k < 2]·v[p,k]   →  v.repeat_interleave(2, -1), with zeros behind what no block covers
    Σ_k [0 ≤ r − s·k + d < K]·v[p,c,k]  →  conv_transpose1d(v, x.new_ones(c, 1, K), stride=s, padding=d, groups=c)

Comes in: a sum whose conditions hold in a window of one index around another. Goes out: a piece; `NoForm` for others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.closed_form.rewriting.asking import indices_in, reads_tensor
from symgrad.closed_form.rewriting.merging import taken_apart
from symgrad.closed_form.texts.axes import axis_in
from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import ATOM, MULTIPLY, NoForm, Piece, flat, method, permuted, subscripted
from symgrad.closed_form.writing.convolutions import remainders
from symgrad.indexing import Bracket, Index, summed
from symgrad.indexing.brackets import whole_gap
from symgrad.indexing.symbols import Expr
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
    windows = [window(k, [e for e in edges if k in indices_in(e)]) for k in over]
    if len(edges) != 2 * len(over) or any(indices_in(w.place) <= {w.step} for w in windows):
        raise NoForm
    outer = {k: w.step if k is w.place else w.place for k, w in zip(over, windows, strict=True)}
    if len(set(outer.values())) < len(outer) or any(i in indices_in(sp.Mul(*rest)) for i in outer.values()):
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
    others = set().union(*map(indices_in, edges)) - {bound}
    if len(others) != 1:
        raise NoForm
    (other,) = others
    gaps = [whole_gap(edge.args[0]) for edge in edges]
    for place, step in ((bound, other), (other, bound)):
        for below, above in (gaps, gaps[::-1]):
            padding = sp.expand(below - place + (stride := -below.coeff(step)) * step)
            length = sp.expand(below + above + 1)
            plain = not indices_in(padding) and not indices_in(length) and stride.is_Integer
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
    more = {
        "stride": ([w.stride for w in windows], 1),
        "padding": ([w.padding for w in windows], 0),
        "output_padding": (over, 0),
        "groups": ([channels.size], 1),
    }
    texts = [f"{word}={alike(notation, numbers)}" for word, (numbers, usual) in more.items() if set(numbers) != {usual}]
    ones = f"{one}.new_ones({', '.join(sizes)})"
    call = f"conv_transpose{space}d({', '.join([body.text, ones, *texts])})"
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
        call = f"avg_pool{space}d({body.text}, {alike(notation, [w.length for w in windows])})"
        return Piece(f"{number} * {call}", MULTIPLY, axes)
    by_step = {w.step: w.length for w in windows}
    sizes = [n for i in axes for n in ([i.size, by_step[i]] if i in by_step else [i.size])]
    marks = [inner for i in axes for inner in ([False, True] if i in by_step else [False])]
    places = [str(n) for n, inner in enumerate(marks) if inner]
    shaped = method(body, f"reshape({', '.join(notation.texts.size(n) for n in sizes)})", axes)
    return method(shaped, f"sum({places[0] if len(places) == 1 else '(' + ', '.join(places) + ')'})", axes)


def alike(notation: Notation, numbers: Sequence[Size]) -> str:
    """One number where all are equal, else each."""
    texts = [notation.texts.size(n) for n in numbers]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"
