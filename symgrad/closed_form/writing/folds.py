"""The gradients of what is unfolded into windows, and folded: each entry goes back to where it was read.

    Σ_{a,b} v[n,(c,a,b),(p−a,q−b)]     →  F.fold(v, x.shape[-2:], (k, l))
    v[n,c,p+a,q+b] for (c,a,b),(p,q)   →  F.unfold(v, (k, l))

A place of the picture, a step of the window and a shift within it belong together along both axes, as in
`convolutions`: place = stride·step + dilation·shift − padding.

Comes in: the one entry of the seed that is read, with what is summed over. Goes out: the call, or None.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.texts.notation import Notation
from symgrad.closed_form.texts.pieces import NoForm
from symgrad.closed_form.writing.convolutions import Slide, solved
from symgrad.indexing import Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, indices_of, name_of


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
    return f"F.fold({text}, {wanted}.shape[-2:], {alike(notation, rows.shape[-2:])}{told(notation, found)})"


def told(notation: Notation, slides: Sequence[Slide]) -> str:
    """How the windows lie, where it is not as usual."""
    options = (
        ("dilation", [slide.dilation for slide in slides], 1),
        ("padding", [slide.padding for slide in slides], 0),
        ("stride", [slide.stride for slide in slides], 1),
    )
    return "".join(f", {word}={alike(notation, own)}" for word, own, usual in options if set(own) != {usual})


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
    return f"F.unfold({text}, {alike(notation, window)}{told(notation, found)})"


def along(place: Index, step: Expr, shift: Expr, bound: Sequence[Index]) -> Slide:
    """What one axis says, whichever of the two is summed over and the other solved for."""
    if isinstance(shift, Index) and shift in bound:
        slide = solved(step, place, shift)
        return Slide(slide.dilation, slide.stride, slide.padding)
    if isinstance(step, Index) and step in bound:
        return solved(shift, place, step)
    raise NoForm


def alike(notation: Notation, numbers: Sequence[Expr]) -> str:
    """One number where all are equal, else each."""
    texts = [notation.texts.size(n) for n in numbers]
    return texts[0] if len(set(texts)) == 1 else f"({', '.join(texts)})"
