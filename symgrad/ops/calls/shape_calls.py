"""Tensors cut up, put in another shape, and written into by position: entries that only move.

Tensors joined: side by side, on top of each other, over all axes, and with something put around.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from functools import partial, reduce
from typing import Any

from symgrad.entries.operands import axes_of, axis_of, require_rank
from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.call_texts import define_call
from symgrad.ops.calls.registry import (
    CallApplier,
    Compound,
    Last,
    apply_last_step,
    compound,
    done,
    enter,
    spellings_everywhere,
)
from symgrad.shapes import as_size

MOST_ROWS = 4096
"""More rows or parts than that no page holds: they are counted before they are made."""


@compound("torch.unflatten", "Tensor.unflatten", reals=True)
def unflatten(call: CallApplier, part: int, x: Any, dim: Any, sizes: Any) -> Last:
    """One axis as several."""
    axis = axis_of(dim, len(x.shape))
    pieces = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if pieces.count(-1) == 1 and 0 not in pieces:  # also where another axis is empty
        others, size = -math.prod(pieces), call.number(x.shape[axis])
        if size is not None and isinstance(others, int) and size % others:
            raise ShapeError(f"an axis of {size} does not make {others} equal parts")
        left = as_size(x.shape[axis]) / others
        pieces = tuple((int(left) if left.is_Integer else left) if p == -1 else p for p in pieces)
    return "reshape", (x,), {"shape": (*x.shape[:axis], *pieces, *x.shape[axis + 1 :])}


define_call("channel_shuffle(x, groups: int >= 1)", "reshape(transpose(unflatten(x, 1, (groups, -1)), dim0=1, dim1=2), shape=x.shape)",
     "Channels dealt out to the groups in turn.", "F.channel_shuffle", "torch.channel_shuffle")  # fmt: skip


def half_round(way: int, call: CallApplier, x: Any, dim: Any) -> str:
    """Each axis turned by half of its size, one way or the other."""
    axes = axes_of(dim, len(x.shape))
    return f"roll(x, shifts={tuple(way * (call.whole(x.shape[axis]) // 2) for axis in axes)}, dims={axes})"


# fmt: off
define_call("fftshift(x, dim: any=None)", partial(half_round, 1), "The frequency 0 in the middle.", "torch.fft.fftshift", "np.fft.fftshift")
define_call("ifftshift(x, dim: any=None)", partial(half_round, -1), "The frequency 0 in front again.", "torch.fft.ifftshift", "np.fft.ifftshift")
# fmt: on

# Cut up ------------------------------------------------------------------------------------------------------


def split_axis_steps(call: CallApplier, x: Any, into: Any, axis: int, even: bool = True) -> tuple[str, ...]:
    """The parts of an axis: so many of them, or cut at these places."""
    size = call.whole(x.shape[axis])
    if isinstance(into, int):
        if into < 1 or (even and size % into):
            raise ShapeError(f"an axis of {size} cannot be cut into {into} equal parts")
        if into > MOST_ROWS:
            raise InputError(f"{into:,} parts are more than a page holds", hints=(f"at most {MOST_ROWS:,}",))
        into = [n * (size // into) + min(n, size % into) for n in range(1, into)]  # the first ones are longer
    ends = [0, *(min(p if p >= 0 else max(p + size, 0), size) for p in into), size]
    return tuple(f"narrow(x, dim={axis}, start={a}, length={max(b - a, 0)})" for a, b in itertools.pairwise(ends))


# fmt: off
define_call("tensor_split(x, indices_or_sections: any, dim: axis=0)", lambda call, x, indices_or_sections, dim: split_axis_steps(call, x, indices_or_sections, dim, even=False),
     "Parts of nearly the same length, or cut at places.", "torch.tensor_split", "Tensor.tensor_split", counted=True)
define_call("hsplit(x, sections: any)", lambda call, x, sections: split_axis_steps(call, x, sections, min(1, len(require_rank(x.shape, 1)) - 1)),
     "Parts along columns; of a vector along its only axis.", "torch.hsplit", "Tensor.hsplit", counted=True)
define_call("vsplit(x, sections: any)", lambda call, x, sections: split_axis_steps(call, x, sections, len(require_rank(x.shape, 2)) and 0), "Parts along rows.",
     "torch.vsplit", "Tensor.vsplit", counted=True)
define_call("dsplit(x, sections: any)", lambda call, x, sections: split_axis_steps(call, x, sections, len(require_rank(x.shape, 3)) and 2), "Parts along the third axis.",
     "torch.dsplit", "Tensor.dsplit", counted=True)
# fmt: on

# Written into ------------------------------------------------------------------------------------------------


def check_shape(call: CallApplier, word: str, src: Any, sizes: Sequence[Any]) -> None:
    """Refuse what does not fit where it is to be written."""
    wanted = [call.number(size) for size in sizes]
    if [call.number(size) for size in src.shape] != wanted:
        raise ShapeError(f"src of {word} has to be {'×'.join(map(str, wanted))}")


@compound("torch.slice_scatter", "Tensor.slice_scatter", reals=True)
def slice_scatter(
    call: CallApplier, part: int, x: Any, src: Any, dim: Any = 0, start: Any = None, end: Any = None, step: int = 1
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
    return "cat", tuple(parts) or (x,), {"dim": axis}


def at_position(call: CallApplier, x: Any, dim: int, index: int) -> str:
    """x with src in the place of one position along an axis."""
    length = call.whole(x.shape[dim])
    if not -length <= index < length:
        raise ShapeError(f"there is no position {index} on an axis of {length}")
    return f"slice_scatter(x, unsqueeze(src, dim=dim), dim, {index % length}, {index % length + 1})"


def on_diagonal(call: CallApplier, x: Any, src: Any, offset: int, dim1: int, dim2: int) -> str:
    """x with src in the place of a diagonal: src set out on it in x's shape, and x where it does not lie."""
    if dim1 == dim2:
        raise InputError("diagonal_scatter takes two different axes")
    rows, columns = call.whole(x.shape[dim1]), call.whole(x.shape[dim2])
    length = max(min(rows + min(offset, 0), columns - max(offset, 0)), 0)
    others = (size for axis, size in enumerate(x.shape) if axis not in (dim1, dim2))
    check_shape(call, "diagonal_scatter", src, [*others, length])
    wide = f"diag_embed(pad({{}}, pad=(0, {max(rows, columns) - abs(offset) - length})), offset=offset, dim1=dim1, dim2=dim2)"
    placed = f"narrow(narrow({wide}, dim=dim1, start=0, length={rows}), dim=dim2, start=0, length={columns})"
    return f"where({placed.format('ones_like(src)')}, {placed.format('src')}, x)" if length else "x"


# fmt: off
define_call("select_scatter(x, src, dim: axis, index: int)", at_position, None, "torch.select_scatter", "Tensor.select_scatter", reals=True)
define_call("diagonal_scatter(x, src, offset: int=0, dim1: axis=0, dim2: axis=1)", on_diagonal, None,
     "torch.diagonal_scatter", "Tensor.diagonal_scatter", reals=True)
# fmt: on


@compound("torch.combinations")
def combinations(call: CallApplier, part: int, x: Any, r: int = 2, with_replacement: bool = False) -> Last:
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


define_call("vander(x, N: int=None, increasing=False)", lambda call, x, N, increasing: "unsqueeze(ones_like(x), dim=1)" if N == 1 else ("vander(x, N={})" if increasing else "flip(vander(x, N={}), dims=(-1,))")
     .format(call.whole(x.shape[0]) if N is None else N), "The powers of each entry of a vector as columns, the highest first unless they are to increase.",
     "torch.vander", "np.vander", "aten.vander")  # fmt: skip


def tensors_from_arguments(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors that are given in a row or as one list."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tuple(tensors)


def single_list(tensors: Any) -> tuple[Any, ...]:
    """The tensors of one list."""
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise InputError("this takes a list of tensors", hints=("((x, y))",))
    return tuple(tensors)


def one_each(call: CallApplier, *tensors: Any, **options: Any) -> int:
    """One result for each tensor that is given."""
    return len(tensors_from_arguments(tensors))


def with_axes(call: CallApplier, x: Any, dims: Sequence[int]) -> Any:
    """``x`` with an axis of size 1 put in at each of ``dims`` for which it has none: torch's atleast_1d, _2d and _3d."""
    for rank, dim in enumerate(dims):
        if len(x.shape) == rank:
            x = call("unsqueeze", x, dim=dim)
    return x


def with_more_axes(says: str, dims: Sequence[int], axis: int | None, *spelled: str) -> None:
    """Enter what gives a tensor more axes, or joins tensors that have got them along ``axis``, or the last one."""

    def steps(call: CallApplier, part: int, tensors: Any) -> Last:
        if axis is None:
            return done(with_axes(call, tensors, dims))
        parts = [with_axes(call, tensor, dims) for tensor in single_list(tensors)]
        return "cat", tuple(parts), {"dim": min(axis, len(parts[0].shape) - 1)}

    enter(Compound(spelled[0].removeprefix("torch."), steps, says), spelled)


with_more_axes("A number as a vector.", (0,), None, "torch.atleast_1d", "np.atleast_1d")
with_more_axes("A vector as a row.", (0, 0), None, "torch.atleast_2d", "np.atleast_2d")
with_more_axes("A matrix with a last axis of size 1.", (0, 0, -1), None, "torch.atleast_3d", "np.atleast_3d")
with_more_axes("cat along columns; of vectors and numbers along their only axis.", (0,), 1, "torch.hstack", "np.hstack")
with_more_axes("cat along rows; vectors are rows.", (0, 0), 0, "torch.vstack", "torch.row_stack", "np.vstack")
with_more_axes("cat along the third axis.", (0, 0, -1), 2, "torch.dstack", "np.dstack")
with_more_axes("cat along columns; vectors are columns.", (0, 1), 1, "torch.column_stack", "np.column_stack")


@compound("torch.block_diag")
def block_diag(call: CallApplier, part: int, *tensors: Any) -> Last:
    """Matrices along the diagonal, 0 elsewhere."""
    blocks = [with_axes(call, tensor, (0, 0)) for tensor in tensors_from_arguments(tensors)]
    if any(len(block.shape) != 2 for block in blocks):
        raise ShapeError("block_diag takes matrices", found=tuple(f"{len(b.shape)} axes" for b in blocks))
    widths = [call.whole(block.shape[1]) for block in blocks]
    margins = [(sum(widths[:n]), sum(widths[n + 1 :])) for n in range(len(blocks))]
    rows = (call("pad", b, pad=margin) if any(margin) else b for b, margin in zip(blocks, margins, strict=True))
    return "cat", tuple(rows), {"dim": 0}


@compound("torch.broadcast_tensors", count=one_each)
def broadcast_tensors(call: CallApplier, part: int, *tensors: Any) -> Last:
    """Each tensor in the shape that all of them have together."""
    given = tensors_from_arguments(tensors)
    whole = reduce(lambda found, tensor: call("add", call("zeros_like", found), tensor), given)
    return "expand", (given[part],), {"shape": tuple(whole.shape)}


@compound("torch.meshgrid", count=one_each, reals=True)
def meshgrid(call: CallApplier, part: int, *tensors: Any, indexing: Any = "ij") -> Last:
    """Each vector along an axis of its own, over all axes."""
    if indexing not in ("ij", "xy"):
        raise InputError(f"indexing is 'ij' or 'xy', not {indexing!r}")
    tensors = tensors_from_arguments(tensors)
    if any(len(t.shape) > 1 for t in tensors):
        raise ShapeError("meshgrid takes vectors", found=tuple(f"{len(t.shape)} axes" for t in tensors))
    sizes = [t.shape[0] if t.shape else 1 for t in tensors]
    order = [1, 0, *range(2, len(sizes))] if indexing == "xy" and len(sizes) > 1 else range(len(sizes))
    own = call("reshape", tensors[part], shape=tuple(sizes[n] if n == part else 1 for n in order))
    return "expand", (own,), {"shape": tuple(sizes[n] for n in order)}


@compound("torch.cartesian_prod")
def cartesian_prod(call: CallApplier, part: int, *tensors: Any) -> Last:
    """Every choice of one entry of each vector, a row each."""
    given = tensors_from_arguments(tensors)
    columns = (call("flatten", apply_last_step(call, meshgrid(call, n, *given))) for n in range(len(given)))
    return ("stack", tuple(columns), {"dim": 1}) if len(given) > 1 else done(given[0])


def pad_steps(x: Any, pad: Any, mode: str, value: Any) -> str | None:
    """Around with ∞ or NaN, which no formula adds; what is negative cuts off before the rest is mirrored or repeated."""
    if mode == "constant":
        endless = isinstance(value, float) and not math.isfinite(value)
        return "where(pad(ones_like(x), pad=pad), pad(x, pad=pad), value)" if endless else None
    cut, rest = tuple(min(p, 0) for p in pad), tuple(max(p, 0) for p in pad)
    return f"pad(pad(x, pad={cut}), pad={rest}, mode=mode)" if any(cut) else None


define_call("pad(x, pad: any, mode='constant', value: float=None)", pad_steps, None, "F.pad")


@compound(*spellings_everywhere("diff"))
def diff(
    call: CallApplier, part: int, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Last | None:
    """Differences of x with something put before and behind."""
    if n == 0:
        return done(x)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = call("cat", *parts, dim=dim) if len(parts) > 1 else x
    size = call.number(x.shape[axis_of(dim, len(x.shape))]) if x.shape else None
    beyond = size is not None and n > size > 0  # nothing is left, however often one goes on
    return ("diff", (x,), {"n": size if beyond else n, "dim": dim}) if beyond or len(parts) > 1 else None
