"""Tensors joined: side by side, on top of each other, over all axes, and with something put around."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import Any

from symgrad.entries.shaping import axis_of
from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import Call, Compound, Last, compound, done, enter, everywhere, made
from symgrad.ops.calls.written import said


def listed(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors that are given in a row or as one list."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tuple(tensors)


def parts_of(tensors: Any) -> tuple[Any, ...]:
    """The tensors of one list."""
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise InputError("this takes a list of tensors", hints=("((x, y))",))
    return tuple(tensors)


def one_each(call: Call, *tensors: Any, **options: Any) -> int:
    """One result for each tensor that is given."""
    return len(listed(tensors))


def with_axes(call: Call, x: Any, dims: Sequence[int]) -> Any:
    """``x`` with an axis of size 1 put in at each of ``dims`` for which it has none: torch's atleast_1d, _2d and _3d."""
    for rank, dim in enumerate(dims):
        if len(x.shape) == rank:
            x = call("unsqueeze", x, dim=dim)
    return x


def with_more_axes(says: str, dims: Sequence[int], axis: int | None, *spelled: str) -> None:
    """Enter what gives a tensor more axes, or joins tensors that have got them along ``axis``, or the last one."""

    def steps(call: Call, part: int, tensors: Any) -> Last:
        if axis is None:
            return done(with_axes(call, tensors, dims))
        parts = [with_axes(call, tensor, dims) for tensor in parts_of(tensors)]
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
def block_diag(call: Call, part: int, *tensors: Any) -> Last:
    """Matrices along the diagonal, 0 elsewhere."""
    blocks = [with_axes(call, tensor, (0, 0)) for tensor in listed(tensors)]
    if any(len(block.shape) != 2 for block in blocks):
        raise ShapeError("block_diag takes matrices", found=tuple(f"{len(b.shape)} axes" for b in blocks))
    widths = [call.whole(block.shape[1]) for block in blocks]
    margins = [(sum(widths[:n]), sum(widths[n + 1 :])) for n in range(len(blocks))]
    rows = (call("pad", b, pad=margin) if any(margin) else b for b, margin in zip(blocks, margins, strict=True))
    return "cat", tuple(rows), {"dim": 0}


@compound("torch.broadcast_tensors", count=one_each)
def broadcast_tensors(call: Call, part: int, *tensors: Any) -> Last:
    """Each tensor in the shape that all of them have together."""
    given = listed(tensors)
    whole = reduce(lambda found, tensor: call("add", call("zeros_like", found), tensor), given)
    return "expand", (given[part],), {"shape": tuple(whole.shape)}


@compound("torch.meshgrid", count=one_each, reals=True)
def meshgrid(call: Call, part: int, *tensors: Any, indexing: Any = "ij") -> Last:
    """Each vector along an axis of its own, over all axes."""
    if indexing not in ("ij", "xy"):
        raise InputError(f"indexing is 'ij' or 'xy', not {indexing!r}")
    tensors = listed(tensors)
    if any(len(t.shape) > 1 for t in tensors):
        raise ShapeError("meshgrid takes vectors", found=tuple(f"{len(t.shape)} axes" for t in tensors))
    sizes = [t.shape[0] if t.shape else 1 for t in tensors]
    order = [1, 0, *range(2, len(sizes))] if indexing == "xy" and len(sizes) > 1 else range(len(sizes))
    own = call("reshape", tensors[part], shape=tuple(sizes[n] if n == part else 1 for n in order))
    return "expand", (own,), {"shape": tuple(sizes[n] for n in order)}


@compound("torch.cartesian_prod")
def cartesian_prod(call: Call, part: int, *tensors: Any) -> Last:
    """Every choice of one entry of each vector, a row each."""
    given = listed(tensors)
    columns = (call("flatten", made(call, meshgrid(call, n, *given))) for n in range(len(given)))
    return ("stack", tuple(columns), {"dim": 1}) if len(given) > 1 else done(given[0])


def margins(x: Any, pad: Any, mode: str, value: Any) -> str | None:
    """Around with ∞ or NaN, which no formula adds; what is negative cuts off before the rest is mirrored or repeated."""
    if mode == "constant":
        endless = isinstance(value, float) and not math.isfinite(value)
        return "where(pad(ones_like(x), pad=pad), pad(x, pad=pad), value)" if endless else None
    cut, rest = tuple(min(p, 0) for p in pad), tuple(max(p, 0) for p in pad)
    return f"pad(pad(x, pad={cut}), pad={rest}, mode=mode)" if any(cut) else None


said("pad(x, pad: any, mode='constant', value: float=None)", margins, None, "F.pad")


@compound(*everywhere("diff"))
def diff(
    call: Call, part: int, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Last | None:
    """Differences of x with something put before and behind."""
    if n == 0:
        return done(x)
    parts = [part for part in (prepend, x, append) if part is not None]
    x = call("cat", *parts, dim=dim) if len(parts) > 1 else x
    size = call.number(x.shape[axis_of(dim, len(x.shape))]) if x.shape else None
    beyond = size is not None and n > size > 0  # nothing is left, however often one goes on
    return ("diff", (x,), {"n": size if beyond else n, "dim": dim}) if beyond or len(parts) > 1 else None
