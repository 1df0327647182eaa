"""``x[[0, 0, 1]]``, ``x[:, n]``, ``logits[torch.arange(3), y]``: entries picked at positions.

Comes in: what the rest of the index leaves of a tensor, and lists or tensors of positions on some of its axes. Goes
out: the last step of what picks them. As in torch, whole numbers and slices are taken first; positions on several axes
go together entry by entry, and what they pick stands where the first of them stood, or in front where something is
between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import ShapeError, Span, UnsupportedError
from symgrad.language.outside.values import from_entries
from symgrad.language.steps.builder import Builder, Caller
from symgrad.language.steps.calls import Meaning, Ref
from symgrad.language.steps.extents import LARGEST_GUESS, Extents
from symgrad.language.steps.kinds import Kind
from symgrad.language.steps.made import Fill, Made
from symgrad.ops import ground
from symgrad.shapes import size_of

MASK = ("torch.where(mask, x, 0)", "(mask * x).sum()")


def picked(
    builder: Builder,
    extents: Extents,
    x: Ref,
    axes: Sequence[int],
    picks: Sequence[Meaning],
    span: Span,
    name: str | None,
) -> Ref:
    """The entries of ``x`` at the positions ``picks`` on ``axes``, called ``name``."""
    call = Caller(builder, span)
    places = [positions(builder, extents, x.shape[axis], index, span) for axis, index in zip(axes, picks, strict=True)]
    first = axes[0]
    along = axis_of_one_each(builder, extents, x, axes, places)
    if along is not None:
        place = places[along]
        sizes = list(x.shape)
        sizes[along] = size_of(1)
        index = call(ground.reshape, place, shape=tuple(sizes))
        taken = call(ground.gather, x, index, dim=along)
        return call.last(ground.reshape, (taken,), {"shape": place.shape}, name)
    if len(axes) > 1:
        together = list(axes) == list(range(first, first + len(axes)))
        sizes = [size_of(extents.whole(x.shape[axis], span)) for axis in axes]
        first = first if together else 0
        rest = [n for n in range(len(x.shape)) if n not in axes]
        order = (*rest[:first], *axes, *rest[first:])
        if order != tuple(range(len(x.shape))):
            x = call(ground.permute, x, dims=order)
        shape = (*x.shape[:first], sp.Mul(*sizes), *x.shape[first + len(axes) :])
        x = call(ground.reshape, x, shape=shape)
        flat, *others = (from_front(builder, call, place, int(size)) for place, size in zip(places, sizes, strict=True))
        for place, size in zip(others, sizes[1:], strict=True):
            flat = call(ground.add, call(ground.mul, flat, int(size)), place)
        places = [replace(flat, kind=Kind.WHOLE)]
    (place,) = places
    if len(place.shape) == 1:
        return call.last(ground.index_select, (x, place), {"dim": first}, name)
    shape = (*x.shape[:first], *place.shape, *x.shape[first + 1 :])
    row = call(ground.reshape, place, shape=(sp.Mul(*place.shape),))
    return call.last(ground.reshape, (call(ground.index_select, x, row, dim=first),), {"shape": shape}, name)


def axis_of_one_each(
    builder: Builder, extents: Extents, x: Ref, axes: Sequence[int], places: Sequence[Ref]
) -> int | None:
    """The axis on which ``x[arange(n), y]`` picks one entry of each row; None where every row has not one."""
    if len(x.shape) != 2 or list(axes) != [0, 1] or any(len(place.shape) != 1 for place in places):
        return None
    for row, place in enumerate(places):
        counts = place.name in builder.made and builder.made[place.name][1].counts
        (count,), size = place.shape, x.shape[row]
        if counts and count.is_Integer and extents.sizes.number(size) is None:
            extents.assume(size, int(count))
        known = extents.sizes.number(size)
        if counts and (extents.sizes.find(size) == count or (known is not None and known == count)):
            extents.sizes.unify(size, count)
            return 1 - row
    return None


def positions(builder: Builder, extents: Extents, size: Any, index: Meaning, span: Span) -> Ref:
    """The positions on an axis as a tensor: a list becomes one of the text's own, counted from the front."""
    if isinstance(index, Ref):
        if index.kind is Kind.TRUTH:
            raise UnsupportedError("how many entries a mask keeps depends on its values", span=span, hints=MASK)
        if index.complex or index.pair:
            raise UnsupportedError("positions are whole numbers", span=span)
        said = written(builder, index)
        if len(index.shape) > 1 or all(n >= 0 for n in said):
            extents.need(size, least_size(said), span)
            return index
        index = tuple(said)
    if index and all(isinstance(row, tuple) for row in index):
        # torch takes the rows for positions on one axis each, and says that they will be one tensor's in a later one.
        hints = tuple(form.format(places_in(index)) for form in ("x[{0[0]}]", "x[torch.tensor({0[1]})]"))
        raise UnsupportedError("a list of lists means two things: write which", span=span, hints=hints)
    if not all(isinstance(n, int) for n in index):
        raise UnsupportedError("a list of positions holds whole numbers", span=span, hints=("x[[0, 2]]",))
    if index and all(isinstance(n, bool) for n in index):
        extents_agree(extents, size, len(index), span)
        index = tuple(n for n, kept in enumerate(index) if kept)
    least = least_size(index)
    if any(n < 0 for n in index):
        extents.assume(size, least)
        length = extents.whole(size, span)
        index = tuple(n + length if n < 0 else n for n in index)
    known = extents.sizes.number(size)
    outside = [n for n in index if known is not None and not 0 <= n < known]
    if outside:
        raise ShapeError(f"there is no position {outside[0]} on an axis of {known}", span=span)
    extents.need(size, least, span)
    made = Made((size_of(len(index)),), listing(index), Kind.WHOLE)
    return builder.make(made, f"torch.tensor({list(index)})")


def from_front(builder: Builder, call: Caller, place: Ref, size: int) -> Ref:
    """Positions on one of several axes, which become one number: those that are data may count from the end."""
    said = written(builder, place)
    if said and min(said) >= 0 and max(said) < size:
        return place
    builder.positions[place.name, size] = None
    return call(ground.remainder, place, size)


def least_size(positions: Sequence[int]) -> int:
    """How large an axis has to be for these positions on it."""
    return max((n + 1 if n >= 0 else -n for n in positions), default=0)


def written(builder: Builder, index: Ref) -> list[int]:
    """The positions that the text itself writes, as in ``torch.tensor([0, 2])``; none where a size decides one."""
    made = builder.made[index.name][1] if index.name in builder.made else None
    if made is None or made.drawn or made.kind is not Kind.WHOLE or not all(size.is_Integer for size in made.shape):
        return []
    shape = tuple(map(int, made.shape))
    if prod(shape) > LARGEST_GUESS:
        return []
    decided: list[sp.Expr] = []

    def plain(value: Any) -> Any:
        decided.extend([value] if isinstance(value, sp.Expr) else [])
        return 0 if decided else value

    found = made.fill(shape, plain, np.random.default_rng())
    return [] if decided else [int(n) for n in found.reshape(-1)]


def places_in(rows: Sequence[Any]) -> tuple[str, str]:
    """Lists of positions as those of one axis each, and as one list."""
    lists = [list(row) for row in rows]
    return ", ".join(map(str, lists)), str(lists)


def extents_agree(extents: Extents, size: Any, count: int, span: Span) -> None:
    """A list of truth values has one for each entry of its axis."""
    found = extents.sizes.number(size)
    if found is not None and found != count:
        raise ShapeError(f"{count} truth values do not fit an axis of {found}", span=span)
    extents.sizes.unify(size, size_of(count))


def listing(entries: Sequence[int]) -> Fill:
    """The entries as they stand."""
    return lambda shape, *_: from_entries(list(entries), shape, "the list")
