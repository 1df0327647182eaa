"""Tensors cut up, put in another shape, and written into by position: entries that only move."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

from symgrad.entries.shaping import axes_of, axis_of
from symgrad.entries.signatures import call_of
from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import Call, Compound, Last, compound, done, enter, made
from symgrad.ops.calls.written import said
from symgrad.ops.moving.arranging import at_least
from symgrad.shapes import size_of

MOST_ROWS = 4096
"""More rows or parts than that no page holds: they are counted before they are made."""


@compound("torch.unflatten", "Tensor.unflatten", reals=True)
def unflatten(call: Call, part: int, x: Any, dim: Any, sizes: Any) -> Last:
    """One axis as several."""
    axis = axis_of(dim, len(x.shape))
    pieces = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if pieces.count(-1) == 1 and 0 not in pieces:  # also where another axis is empty
        others, size = -math.prod(pieces), call.number(x.shape[axis])
        if size is not None and isinstance(others, int) and size % others:
            raise ShapeError(f"an axis of {size} does not make {others} equal parts")
        left = size_of(x.shape[axis]) / others
        pieces = tuple((int(left) if left.is_Integer else left) if p == -1 else p for p in pieces)
    return "reshape", (x,), {"shape": (*x.shape[:axis], *pieces, *x.shape[axis + 1 :])}


said("channel_shuffle(x, groups: int >= 1)", "reshape(transpose(unflatten(x, 1, (groups, -1)), dim0=1, dim1=2), shape=x.shape)",
     "Channels dealt out to the groups in turn.", "F.channel_shuffle", "torch.channel_shuffle")  # fmt: skip


def shift(word: str, way: int, says: str) -> None:
    """Enter what turns each axis by half of its size, one way or the other."""

    def steps(call: Call, part: int, x: Any, dim: Any = None) -> Last:
        axes = axes_of(dim, len(x.shape))
        return "roll", (x,), {"shifts": tuple(way * (call.whole(x.shape[axis]) // 2) for axis in axes), "dims": axes}

    enter(Compound(word, steps, says), (f"torch.fft.{word}", f"np.fft.{word}"))


shift("fftshift", 1, "The frequency 0 in the middle.")
shift("ifftshift", -1, "The frequency 0 in front again.")

# Cut up ------------------------------------------------------------------------------------------------------


def bounds(call: Call, x: Any, into: Any, axis: int, even: bool) -> list[int]:
    """Where the parts of an axis begin, and the last one ends: so many of them, or cut at these places."""
    size = call.whole(x.shape[axis])
    if isinstance(into, int):
        if into < 1 or (even and size % into):
            raise ShapeError(f"an axis of {size} cannot be cut into {into} equal parts")
        if into > MOST_ROWS:
            raise InputError(f"{into:,} parts are more than a page holds", hints=(f"at most {MOST_ROWS:,}",))
        into = [n * (size // into) + min(n, size % into) for n in range(1, into)]  # the first ones are longer
    return [0, *(min(p if p >= 0 else max(p + size, 0), size) for p in into), size]


def cut(text: str, says: str, axis: Callable[..., int], even: bool) -> None:
    """Enter what cuts an axis into parts, by how it is called, and which axis that is."""
    declared = call_of(text)

    def pieces(call: Call, *given: Any, **spoken: Any) -> list[Last]:
        bound = declared.signature.bind(*given, **spoken)
        bound.apply_defaults()
        x, into, *rest = bound.arguments.values()
        dim = axis(x, *rest)
        ends = itertools.pairwise(bounds(call, x, into, dim, even))
        return [("narrow", (x,), {"dim": dim, "start": start, "length": max(end - start, 0)}) for start, end in ends]

    def steps(call: Call, part: int, *given: Any, **spoken: Any) -> Last:
        return pieces(call, *given, **spoken)[part]

    enter(Compound(declared.name, steps, says, count=lambda *given, **spoken: len(pieces(*given, **spoken)), declared=declared.signature),
          (f"torch.{declared.name}", f"Tensor.{declared.name}"))  # fmt: skip


cut("tensor_split(x, indices_or_sections, dim=0)", "Parts of nearly the same length, or cut at places.",
    lambda x, dim: axis_of(dim, len(x.shape)), even=False)  # fmt: skip
cut(
    "hsplit(x, sections)",
    "Parts along columns; of a vector along its only axis.",
    lambda x: min(1, len(at_least(x.shape, 1)) - 1),
    even=True,
)
cut("vsplit(x, sections)", "Parts along rows.", lambda x: len(at_least(x.shape, 2)) and 0, even=True)
cut("dsplit(x, sections)", "Parts along the third axis.", lambda x: len(at_least(x.shape, 3)) and 2, even=True)

# Written into ------------------------------------------------------------------------------------------------


def check_shape(call: Call, word: str, src: Any, sizes: Sequence[Any]) -> None:
    """Refuse what does not fit where it is to be written."""
    wanted = [call.number(size) for size in sizes]
    if [call.number(size) for size in src.shape] != wanted:
        raise ShapeError(f"src of {word} has to be {'×'.join(map(str, wanted))}")


@compound("torch.slice_scatter", "Tensor.slice_scatter", reals=True)
def slice_scatter(
    call: Call, part: int, x: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: int = 1
) -> Last:
    """x with src in the place of a slice: what is before it, of it, between its places, and behind it."""
    axis = axis_of(dim, len(x.shape))
    length = call.whole(x.shape[axis])
    if step < 1:
        raise InputError("slices step forwards", found=(f"a step of {step}",))
    places = range(length)[slice(start, end, step)]
    check_shape(call, "slice_scatter", src, [*x.shape[:axis], len(places), *x.shape[axis + 1 :]])
    if step > 1 and length > MOST_ROWS:
        raise InputError(f"{length:,} slices one by one are more than a page holds", hints=("a step of 1",))
    parts = []
    for inside, run in itertools.groupby(range(length), places.__contains__):
        first, *rest = run
        tensor, at = (src, places.index(first)) if inside else (x, first)
        whole = len(rest) + 1 == (len(places) if inside else length)
        parts.append(tensor if whole else call("narrow", tensor, dim=axis, start=at, length=len(rest) + 1))
    return "cat", tuple(parts), {"dim": axis}


@compound("torch.select_scatter", "Tensor.select_scatter", reals=True)
def select_scatter(call: Call, part: int, x: Any, src: Any, dim: int, index: int) -> Last:
    """x with src in the place of one position along an axis."""
    axis = axis_of(dim, len(x.shape))
    length = call.whole(x.shape[axis])
    if not -length <= index < length:
        raise ShapeError(f"there is no position {index} on an axis of {length}")
    at = index % length
    return slice_scatter(call, part, x, call("unsqueeze", src, dim=axis), axis, at, at + 1)


@compound("torch.diagonal_scatter", "Tensor.diagonal_scatter", reals=True)
def diagonal_scatter(call: Call, part: int, x: Any, src: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Last:
    """x with src in the place of a diagonal: src set out on it, and x where it does not lie."""
    first, second = axis_of(dim1, len(x.shape)), axis_of(dim2, len(x.shape))
    if first == second:
        raise InputError("diagonal_scatter takes two different axes")
    rows, columns = call.whole(x.shape[first]), call.whole(x.shape[second])
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    others = (size for axis, size in enumerate(x.shape) if axis not in (first, second))
    check_shape(call, "diagonal_scatter", src, [*others, length])
    if not length:
        return done(x)

    def placed(entries: Any) -> Any:
        """The entries of a diagonal set out in x's shape."""
        longer = call("pad", entries, pad=(0, max(rows, columns) - abs(offset) - length))
        wide = call("diag_embed", longer, offset=offset, dim1=first, dim2=second)
        tall = call("narrow", wide, dim=first, start=0, length=rows)
        return call("narrow", tall, dim=second, start=0, length=columns)

    return "where", (placed(call("ones_like", src)), placed(src), x), {}


@compound("torch.combinations")
def combinations(call: Call, part: int, x: Any, r: int = 2, with_replacement: bool = False) -> Last:
    """Every choice of r entries of a vector, in order, a row each."""
    if len(x.shape) != 1:
        raise ShapeError("combinations takes a vector", found=(f"{len(x.shape)} axes",))
    size = call.whole(x.shape[0])
    chosen = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(itertools.islice(chosen(range(size), r), MOST_ROWS + 1)) if r > 0 else []
    if not 0 < len(rows) <= MOST_ROWS:
        raise InputError(f"combinations of {r} out of {size} are none, or more than a page holds")
    each = [call("select", x, dim=0, index=n) for row in rows for n in row]
    return "reshape", (call("stack", *each, dim=0),), {"shape": (len(rows), r)}


@compound("torch.vander", "np.vander", "aten.vander")
def vander(call: Call, part: int, x: Any, N: Any = None, increasing: bool = False) -> Last:
    """The powers of each entry of a vector as columns, the highest first unless they are to increase."""
    rising = ("vander", (x,), {"N": call.whole(x.shape[0]) if N is None else N})
    return rising if increasing else ("flip", (made(call, rising),), {"dims": (-1,)})
