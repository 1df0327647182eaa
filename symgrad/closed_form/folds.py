"""The gradient of what is unfolded into windows: each entry of a column goes back to where it was read.

    Σ_{a,b} v[n,(c,a,b),(p−a,q−b)]     →  F.fold(v, x.shape[-2:], (k, l))

A place of the picture, a step of the window and a shift within it belong together along both axes, as in
`convolutions`: place = stride·step + dilation·shift − padding.

Comes in: the one entry of the seed that is read, with what is summed over. Goes out: the call, or None.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.closed_form.convolutions import Slide, solved
from symgrad.closed_form.notation import Notation
from symgrad.closed_form.pieces import NoForm
from symgrad.indexing import Index, Ravel
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
    told = [
        f", {word}={alike(notation, numbers)}"
        for word, numbers, usual in (
            ("dilation", [slide.dilation for slide in found], 1),
            ("padding", [slide.padding for slide in found], 0),
            ("stride", [slide.stride for slide in found], 1),
        )
        if set(numbers) != {usual}
    ]
    text = notation.texts.tensor(name_of(v))[0]
    return f"F.fold({text}, {wanted}.shape[-2:], {alike(notation, rows.shape[-2:])}{''.join(told)})"


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


__all__ = ["folded"]
