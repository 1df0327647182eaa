"""Tensors cut up, put in another shape, and written into by position: entries that only move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.entries.shaping import axes_of
from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import Call, Compound, Last, axis_of, compound, done, enter, made
from symgrad.ops.moving.arranging import at_least
from symgrad.shapes import size_of

MOST_ROWS = 4096
"""More rows or parts than that no page holds: they are counted before they are made."""


@compound("torch.unflatten", "Tensor.unflatten", reals=True)
def unflatten(call: Call, part: int, x: Any, dim: Any, sizes: Any) -> Last:
    """One axis as several."""
    axis = axis_of(x, dim)
    pieces = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if pieces.count(-1) == 1 and 0 not in pieces:  # also where another axis is empty
        pieces = tuple(
            size_of(x.shape[axis]) / math.prod(p for p in pieces if p != -1) if p == -1 else p for p in pieces
        )
    return "reshape", (x,), {"shape": (*x.shape[:axis], *pieces, *x.shape[axis + 1 :])}


def shift(word: str, way: int, says: str) -> None:
    """Enter what turns each axis by half of its size, one way or the other."""

    def steps(call: Call, part: int, x: Any, dim: Any = None) -> Last:
        axes = axes_of(dim, len(x.shape))
        return "roll", (x,), {"shifts": tuple(way * (call.whole(x.shape[axis]) // 2) for axis in axes), "dims": axes}

    enter(Compound(word, steps, says), (f"torch.fft.{word}", f"np.fft.{word}"))


shift("fftshift", 1, "The frequency 0 in the middle.")
shift("ifftshift", -1, "The frequency 0 in front again.")


@compound("F.channel_shuffle", "torch.channel_shuffle")
def channel_shuffle(call: Call, part: int, x: Any, groups: int) -> Last:
    """Channels dealt out to the groups in turn."""
    batch, channels, *rest = at_least(x.shape, 2)
    count = call.whole(channels)
    if groups < 1 or count % groups:
        raise InputError(f"{count} channels do not make {groups} groups")
    parted = call("reshape", x, shape=(batch, groups, count // groups, *rest))
    return "reshape", (call("transpose", parted, dim0=1, dim1=2),), {"shape": tuple(x.shape)}


# Cut up ------------------------------------------------------------------------------------------------------


def bounds(call: Call, x: Any, into: Any, axis: int, even: bool) -> list[tuple[int, int]]:
    """Where the parts of an axis begin and how long they are: so many of them, or cut at these places."""
    size = call.whole(x.shape[axis])
    if isinstance(into, int):
        if into < 1 or (even and size % into):
            raise ShapeError(f"an axis of {size} cannot be cut into {into} equal parts")
        if into > MOST_ROWS:
            raise InputError(f"{into:,} parts are more than a page holds", hints=(f"at most {MOST_ROWS:,}",))
        longer = size % into
        lengths = [size // into + (n < longer) for n in range(into)]
        starts = [sum(lengths[:n]) for n in range(into)]
        return list(zip(starts, lengths, strict=True))
    places = [p if p >= 0 else max(p + size, 0) for p in into]
    ends = [0, *(min(p, size) for p in places), size]
    return [(start, max(end - start, 0)) for start, end in itertools.pairwise(ends)]


def parts_along(axis: int | None, even: bool) -> Any:
    """How many parts a call gives, which cuts along ``axis`` or the one that it is told."""

    def count(call: Call, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> int:
        x, *rest = arguments
        into = rest[0] if rest else next(v for k, v in keywords.items() if k != "dim")
        along = rest[1] if len(rest) > 1 else keywords.get("dim", 0)
        own = axis_of(x, along if axis is None else min(axis, len(x.shape) - 1))
        return len(bounds(call, x, into, own, even))

    return count


def piece(call: Call, part: int, x: Any, into: Any, axis: int, even: bool) -> Last:
    """One part of an axis."""
    start, length = bounds(call, x, into, axis, even)[part]
    return "narrow", (x,), {"dim": axis, "start": start, "length": length}


@compound("torch.tensor_split", "Tensor.tensor_split", count=parts_along(None, even=False))
def tensor_split(call: Call, part: int, x: Any, indices_or_sections: Any, dim: int = 0) -> Last:
    """Parts of nearly the same length, or cut at places."""
    return piece(call, part, x, indices_or_sections, axis_of(x, dim), even=False)


def split(word: str, axis: int, least: int, says: str) -> None:
    """Enter what cuts along one axis into parts of equal length; of a vector along its only axis."""

    def steps(call: Call, part: int, x: Any, sections: Any) -> Last:
        return piece(call, part, x, sections, min(axis, len(at_least(x.shape, least)) - 1), even=True)

    enter(Compound(word, steps, says, count=parts_along(axis, even=True)), (f"torch.{word}", f"Tensor.{word}"))


split("hsplit", 1, 1, "Parts along columns; of a vector along its only axis.")
split("vsplit", 0, 2, "Parts along rows.")
split("dsplit", 2, 3, "Parts along the third axis.")


# Written into ------------------------------------------------------------------------------------------------


@compound("torch.slice_scatter", "Tensor.slice_scatter", reals=True)
def slice_scatter(
    call: Call, part: int, x: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: int = 1
) -> Last:
    """x with src in the place of a slice."""
    axis = axis_of(x, dim)
    length = call.whole(x.shape[axis])
    if step < 1:
        raise InputError("slices step forwards", found=(f"a step of {step}",))
    places = range(length)[slice(start, end, step)]
    wanted = tuple(len(places) if a == axis else call.number(size) for a, size in enumerate(x.shape))
    if len(src.shape) != len(x.shape) or tuple(call.number(size) for size in src.shape) != wanted:
        raise ShapeError(f"src of slice_scatter has to be {'×'.join(map(str, wanted))}")

    def rows(tensor: Any, at: int, count: int = 1) -> Any:
        return call("narrow", tensor, dim=axis, start=at, length=count)

    if step == 1 and places:
        before, after = places[0], length - places[-1] - 1
        around = [rows(x, 0, before)] * bool(before), [rows(x, length - after, after)] * bool(after)
        return "cat", (*around[0], src, *around[1]), {"dim": axis}
    if length > MOST_ROWS:
        raise InputError(f"{length:,} slices one by one are more than a page holds", hints=("a step of 1",))
    parts = [rows(src, places.index(n)) if n in places else rows(x, n) for n in range(length)]
    return "cat", tuple(parts), {"dim": axis}


@compound("torch.select_scatter", "Tensor.select_scatter", reals=True)
def select_scatter(call: Call, part: int, x: Any, src: Any, dim: int, index: int) -> Last:
    """x with src in the place of one position along an axis."""
    axis = axis_of(x, dim)
    length = call.whole(x.shape[axis])
    if not -length <= index < length:
        raise ShapeError(f"there is no position {index} on an axis of {length}")
    at = index % length
    return slice_scatter(call, part, x, call("unsqueeze", src, dim=axis), axis, at, at + 1)


@compound("torch.diagonal_scatter", "Tensor.diagonal_scatter", reals=True)
def diagonal_scatter(call: Call, part: int, x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Last:
    """x with src in the place of a diagonal: src set out on it, and x where it does not lie."""
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    if first == second:
        raise InputError("diagonal_scatter takes two different axes")
    rest = tuple(size for axis, size in enumerate(x.shape) if axis not in (first, second))
    rows, columns = (call.whole(x.shape[axis]) for axis in (first, second))
    length = max(min(rows, columns - offset) if offset >= 0 else min(rows + offset, columns), 0)
    wanted = (*(call.number(size) for size in rest), length)
    if tuple(call.number(size) for size in src.shape) != wanted:
        raise ShapeError(f"src of diagonal_scatter has to be {'×'.join(map(str, wanted))}")
    if not length:
        return done(x)

    def placed(entries: Any) -> Any:
        """The entries of a diagonal set out in x's shape."""
        longer = call("pad", entries, pad=(0, max(rows, columns) - abs(offset) - length))
        wide = call("diag_embed", longer, offset=offset, dim1=first, dim2=second)
        for axis, size in ((first, rows), (second, columns)):
            wide = call("narrow", wide, dim=axis, start=0, length=size)
        return wide

    return "where", (placed(call("ones_like", src)), placed(src), x), {}


@compound("torch.combinations")
def combinations(call: Call, part: int, x: Any, r: int = 2, with_replacement: bool = False) -> Last:
    """Every choice of r entries of a vector, in order, a row each."""
    if len(x.shape) != 1:
        raise ShapeError("combinations takes a vector", found=(f"{len(x.shape)} axes",))
    size = call.whole(x.shape[0])
    count = math.comb(size + r - 1 if with_replacement else size, r) if r > 0 and size else 0
    if not 0 < count <= MOST_ROWS:
        raise InputError(f"combinations of {r} out of {size} are none, or more than a page holds")
    rows = (itertools.combinations_with_replacement if with_replacement else itertools.combinations)(range(size), r)
    each = [call("select", x, dim=0, index=n) for row in rows for n in row]
    return "reshape", (call("stack", *each, dim=0),), {"shape": (count, r)}


@compound("torch.vander", "np.vander", "aten.vander")
def vander(call: Call, part: int, x: Any, N: Any = None, increasing: bool = False) -> Last:
    """The powers of each entry of a vector as columns, the highest first unless they are to increase."""
    rising = ("vander", (x,), {"N": call.whole(x.shape[0]) if N is None else N})
    return rising if increasing else ("flip", (made(call, rising),), {"dims": (-1,)})
