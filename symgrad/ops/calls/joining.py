"""Tensors joined: side by side, on top of each other, over all axes, and with something put around."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import Call, Compound, Last, axis_of, compound, done, enter, everywhere, made


def listed(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Tensors that are given in a row or as one list."""
    return tuple(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tuple(tensors)


def parts_of(tensors: Any) -> tuple[Any, ...]:
    """The tensors of one list."""
    if not isinstance(tensors, (tuple, list)) or not tensors:
        raise InputError("this takes a list of tensors", hints=("((x, y))",))
    return tuple(tensors)


def one_each(call: Call, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> int:
    """One result for each tensor that is given."""
    return len(listed(arguments))


def with_axes(call: Call, x: Any, rank: int) -> Any:
    """``x`` with axes of size 1 as torch's atleast_1d, _2d and _3d put them."""
    for axes, dim in enumerate((0, 0, -1)[:rank]):
        if len(x.shape) == axes:
            x = call("unsqueeze", x, dim=dim)
    return x


def atleast(rank: int, says: str) -> None:
    """Enter what gives a tensor so many axes at least."""

    def steps(call: Call, part: int, x: Any) -> Last:
        return done(with_axes(call, x, rank))

    enter(Compound(f"atleast_{rank}d", steps, says), (f"torch.atleast_{rank}d", f"np.atleast_{rank}d"))


for word in enumerate(("A number as a vector.", "A vector as a row.", "A matrix with a last axis of size 1."), 1):
    atleast(*word)


@compound("torch.hstack", "np.hstack")
def hstack(call: Call, part: int, tensors: Any) -> Last:
    """cat along columns; of vectors and numbers along their only axis."""
    parts = [with_axes(call, t, 1) for t in parts_of(tensors)]
    return "cat", tuple(parts), {"dim": 0 if len(parts[0].shape) == 1 else 1}


def stacked(axis: int, says: str, *spelled: str) -> None:
    """Enter what is cat along an axis that tensors get where they have fewer."""

    def steps(call: Call, part: int, tensors: Any) -> Last:
        return "cat", tuple(with_axes(call, t, max(axis + 1, 2)) for t in parts_of(tensors)), {"dim": axis}

    enter(Compound(spelled[0].removeprefix("torch."), steps, says), spelled)


stacked(0, "cat along rows; vectors are rows.", "torch.vstack", "torch.row_stack", "np.vstack")
stacked(2, "cat along the third axis.", "torch.dstack", "np.dstack")


@compound("torch.column_stack", "np.column_stack")
def column_stack(call: Call, part: int, tensors: Any) -> Last:
    """cat along columns; vectors are columns."""
    parts = [
        call("unsqueeze", t, dim=1) if len(t.shape) == 1 else t
        for t in (with_axes(call, t, 1) for t in parts_of(tensors))
    ]
    return "cat", tuple(parts), {"dim": 1}


@compound("torch.block_diag")
def block_diag(call: Call, part: int, *tensors: Any) -> Last:
    """Matrices along the diagonal, 0 elsewhere."""
    blocks = [with_axes(call, t, 2) for t in listed(tensors)]
    if any(len(b.shape) != 2 for b in blocks):
        raise ShapeError("block_diag takes matrices", found=tuple(f"{len(b.shape)} axes" for b in blocks))
    widths = [call.whole(b.shape[1]) for b in blocks]
    rows = [
        call("pad", b, pad=(sum(widths[:n]), sum(widths[n + 1 :]))) if len(blocks) > 1 else b
        for n, b in enumerate(blocks)
    ]
    return "cat", tuple(rows), {"dim": 0}


@compound("torch.broadcast_tensors", count=one_each)
def broadcast_tensors(call: Call, part: int, *tensors: Any) -> Last:
    """Each tensor in the shape that all of them have together."""
    given = listed(tensors)
    whole = given[0]
    for tensor in given[1:]:
        whole = call("add", call("zeros_like", whole), tensor)
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
    order = [1, 0, *range(2, len(sizes))] if indexing == "xy" and len(sizes) > 1 else list(range(len(sizes)))
    own = tuple(size if n == part else 1 for n, size in enumerate(sizes))
    wide = call("expand", call("reshape", tensors[part], shape=own), shape=tuple(sizes))
    return "permute", (wide,), {"dims": tuple(order)}


@compound("torch.cartesian_prod")
def cartesian_prod(call: Call, part: int, *tensors: Any) -> Last:
    """Every choice of one entry of each vector, a row each."""
    given = listed(tensors)
    if len(given) == 1:
        return done(given[0])
    columns = [made(call, meshgrid(call, n, *given)) for n in range(len(given))]
    flat = [call("unsqueeze", call("flatten", column), dim=1) for column in columns]
    return "cat", tuple(flat), {"dim": 1}


@compound("F.pad")
def pad(call: Call, part: int, x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Last | None:
    """Around with ∞ or NaN, which no formula adds; what is negative cuts off before the rest is mirrored or repeated."""
    if mode == "constant" and isinstance(value, float) and not math.isfinite(value):
        inside = call("pad", call("ones_like", x), pad=tuple(pad))
        return "where", (inside, call("pad", x, pad=tuple(pad)), value), {}
    if mode == "constant" or min(pad) >= 0:
        return None
    for n in range(len(pad) // 2):
        before, after = (max(-p, 0) for p in pad[2 * n : 2 * n + 2])
        axis = len(x.shape) - 1 - n
        length = call.whole(x.shape[axis]) - before - after
        x = call("narrow", x, dim=axis, start=before, length=length)
    return "pad", (x,), {"pad": tuple(max(p, 0) for p in pad), "mode": mode}


@compound(*everywhere("diff"))
def diff(
    call: Call, part: int, x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None
) -> Last | None:
    """Differences of x with something put before and behind."""
    if n == 0:
        return done(x)
    parts = [part for part in (prepend, x, append) if part is not None]
    if len(parts) > 1:
        x = call("cat", *parts, dim=dim)
    size = call.number(x.shape[axis_of(x, dim)]) if x.shape else None
    if size is not None and n > size > 0:  # nothing is left, however often one goes on
        return "diff", (x,), {"n": size, "dim": dim}
    return ("diff", (x,), {"n": n, "dim": dim}) if len(parts) > 1 else None
