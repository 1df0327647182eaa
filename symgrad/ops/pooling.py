"""Pooling: one number for each window that slides over the last axes.

Max pooling selects: the forward pass finds which entry of its window won, as the entry's number in the plane
(torch's ``return_indices``), and the equation reads that entry. The first of several equal ones wins. Average
pooling adds up a window and divides by its size; entries of the padding count as 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import F, op
from symgrad.entries.operands import Ints, check_space, positive, window_count
from symgrad.entries.spec import At, HeldTensor, View, no_alignment
from symgrad.errors import InputError
from symgrad.indexing import unravel
from symgrad.indexing.symbols import Expr
from symgrad.ops.convolutions import check_window_counts, describe_last_axes, option_per_axis, window
from symgrad.ops.interpolation import COVERS
from symgrad.shapes import Shape, Size, Sizes, as_size


def half_at_most(
    shapes: Any, kernel_size: Any, padding: Any, divisor_override: Any = None, **options: Hashable
) -> None:  # fmt: skip
    """No window lies in the padding; what an average is divided by."""
    if any(2 * p > k for p, k in zip(padding, kernel_size, strict=True)):
        raise InputError(
            "padding is at most half of the kernel", found=(f"padding={padding}, kernel_size={kernel_size}",)
        )
    if divisor_override is not None and (len(padding) == 1 or divisor_override == 0):
        raise InputError("divisor_override is a number other than 0, for 2 and 3 axes of space")


def count_windows(size: Size, kernel: int, stride: int, padding: int, dilation: int) -> Size:
    """How many windows begin inside, the last of which may stick out at the end; none begins in the padding there."""
    reach = dilation * (kernel - 1)
    room = size + padding - 1 - max(reach - padding - stride + 1, 0)
    return sp.floor(as_size(room) / stride) + 1 if stride > 1 else as_size(room + 1)


def pooled_shape(
    sizes: Sizes, shapes: tuple[Shape, ...], kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, **more: Any
) -> Shape:
    """The leading axes, and the places of the window."""
    x, space = shapes[0], len(kernel_size)
    check_space(shapes, space)
    dilation = more.get("dilation", (1,) * space)
    axes = list(zip(x[-space:], kernel_size, stride, padding, dilation, strict=True))
    places = [window_count(n, sp.Integer(k), a, p, p, d) for n, k, a, p, d in axes]
    if ceil_mode:
        places = [count_windows(*axis) for axis in axes]
    return (*x[:-space], *check_window_counts(sizes, places))


MOST_READ = 200_000_000
"""Entries that all places of a window read together."""


def winners(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """The number in its plane of the entry that won each window."""
    x = np.asarray(x, dtype=np.float64)
    space, whole = len(kernel_size), x.shape[-len(kernel_size) :]
    numbers, inside = np.zeros((1,) * 2 * space, dtype=np.int64), np.ones((), dtype=bool)
    for axis, (n, k, a, p, d) in enumerate(zip(whole, kernel_size, stride, padding, dilation, strict=True)):
        count = int(count_windows(n, k, a, p, d) if ceil_mode else window_count(n, k, a, p, p, d))
        place = np.add.outer(a * np.arange(count) - p, d * np.arange(k))
        place = np.expand_dims(place, [n for n in range(2 * space) if n not in (axis, space + axis)])
        numbers, inside = numbers * n + place, inside & (place >= 0) & (place < n)
    numbers = np.where(inside, numbers, -1).reshape(*numbers.shape[:space], math.prod(kernel_size))
    if numbers.size * math.prod(x.shape[:-space]) > MOST_READ:
        raise InputError("this is too large to be computed", found=(f"{numbers.size:,} entries under all windows",))
    x = np.where(np.isnan(x), np.inf, x)  # not a number wins like the largest; an entry of the padding never does
    values = np.where(numbers < 0, -np.inf, x.reshape(*x.shape[:-space], math.prod(whole))[..., numbers])
    best = np.argmax(values, axis=-1)[..., None]
    first = np.take_along_axis(np.broadcast_to(numbers, values.shape), best, -1)[..., 0]
    return np.where(first < 0, numbers.max(axis=-1), first)


def winner(at: At, x: View, n: HeldTensor, kernel_size: Any, **options: Any) -> Expr:
    """The entry with the number n in its plane."""
    space = len(kernel_size)
    return x[[*at[:-space], *unravel(n[at], x.shape[-space:])]]


# fmt: off
for space, x in ((1, "1x2x6"), (2, "1x2x4x4"), (3, "1x1x4x4x4")):
    name, odd = f"max_pool{space}d", f"{x[:3]}{'x3' * space}"
    at, (read, _) = ",".join("ijk"[:space]), window(*(option_per_axis(option, space) for option in ("stride", "padding", "dilation")))
    op(f"{name}(x, kernel_size: {space}*int >= 1, stride: {space}*int >= 1=kernel_size, padding: {space}*int >= 0=0, "
       f"dilation: {space}*int >= 1=1, ceil_mode=False, return_indices: unused=False)",
       f"out[c,{at}] = x[c,n[c,{at}]], n: the number in its plane, row by row, of the largest x[c,{','.join(read)}]",
       f"the largest entry of every window of {describe_last_axes(space)}, kernel_size wide; with ceil_mode windows may stick out at the end", ("F.{}", "torch.{}"),
       reading=winner, checks=half_at_most, shape=pooled_shape, align=no_alignment, index_data={"n": winners},
       index_suffix=", return_indices=True)[1]", kinks=0, ranks={"x": (space + 2, space + 1)}, letters="ncijk", result_dtype="kept",
       examples=(f"F.{name}(x, 2) with x:{x}", f"F.{name}(x, 3, stride=2, padding=1) with x:{x}",
                 *((f"F.{name}(x, 2, stride=1, dilation=2) with x:{x}",) if space < 3 else ()),
                 f"F.{name}(x, 2, ceil_mode=True) with x:{odd}"))
# fmt: on


def averaged_shape(sizes: Sizes, shapes: tuple[Shape, ...], kernel_size: Any, **options: Any) -> Shape:
    """As of any pooling; torch's average over three axes does not count the padding as room."""
    if len(kernel_size) == 3:
        spatial = zip(shapes[0][-3:], kernel_size, strict=True)
        check_window_counts(sizes, [window_count(n, sp.Integer(k), 1, sp.S.Zero, sp.S.Zero, 1) for n, k in spatial])
    return pooled_shape(sizes, shapes, kernel_size, **options)


def averaged(
    shapes: tuple[Shape, ...], kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, count_include_pad: bool,
    divisor_override: Any,
) -> str:  # fmt: skip
    """The equation, for any number of axes of space."""
    space = len(kernel_size)
    places, held = window(stride, padding, (1,) * space, over=ceil_mode)
    # entries of the padding count, those of a window that sticks out further do not
    reached = (f"[{place} < size(x, {n - space}) + {padding[n]}]" for n, place in enumerate(places))
    left, shifts = ",".join("ijk"[:space]), ",".join(f"{r}<{k}" for r, k in zip("rst", kernel_size, strict=False))
    counted = held.removeprefix("·") if not count_include_pad else "·".join(reached) if ceil_mode else ""
    counts = [f"(Σ_{{{shifts}}} {counted})"] if counted else kernel_size
    divisor = below(counts if divisor_override is None else [divisor_override])
    hat, inside = ("\u0302", "") if ceil_mode or 0 not in padding else ("", held)
    return f"out[…,{left}] = (Σ_{{{shifts}}} x{hat}[…,{','.join(places)}]{inside}) / {divisor}"


def below(counts: Sequence[Any]) -> str:
    """What is divided by: a product of counts."""
    return str(counts[0]) if len(counts) == 1 else f"({'·'.join(map(str, counts))})"


# fmt: off
for space, home, x in ((1, "torch", "1x2x6"), (2, "aten", "1x2x4x4"), (3, "aten", "1x1x4x4x4")):  # no size comes to 1
    name, odd, more = f"avg_pool{space}d", "1x1x3x3x3" if space == 3 else f"1x2{'x3' * space}", "3, stride=2, padding=1"
    op(f"{name}(x, kernel_size: {space}*int >= 1, stride: {space}*int >= 1=kernel_size, padding: {space}*int >= 0=0, "
       "ceil_mode=False, count_include_pad=True, divisor_override: int=None)", averaged((), option_per_axis("kernel_size", space), option_per_axis("stride", space), option_per_axis("padding", space), False, True, None),
       f"the average of every window of {describe_last_axes(space)}; with ceil_mode windows may stick out at the end; divided is by divisor_override,"
       " or how many entries there are, without count_include_pad those inside", ("F.{}", f"{home}.{{}}"),
       variants=averaged, checks=half_at_most, shape=averaged_shape, smooth=True, result_dtype="cut",
       letters="ncijk", ranks={"x": (space + 2, space + 1)},
       examples=(f"F.{name}(x, 2) with x:{x}", f"F.{name}(x, {more}) with x:{x}",
                 f"F.{name}(x, {more}, count_include_pad=False) with x:{x}", f"F.{name}(x, 2, ceil_mode=True) with x:{odd}",
                 *((f"F.{name}(x, {more}, ceil_mode=True) with x:1x2x4",) if space == 1 else ())))
# fmt: on

# Adaptive -------------------------------------------------------------------------------------------


def prepare_adaptive(space: int, shapes: tuple[Shape, ...], output_size: Ints) -> dict[str, Hashable]:
    """A size for each axis of space; None keeps the axis."""
    values = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * space
    if len(values) != space:
        raise InputError(f"output_size has to be one size or {space}", found=(f"output_size={output_size!r}",))
    sizes = [old if new is None else as_size(new) for old, new in zip(shapes[0][-space:], values, strict=True)]
    if not all(s.is_Symbol or (s.is_Integer and s >= 1) for s in sizes):
        raise InputError("output_size has to be integers from 1 up", found=(f"output_size={output_size!r}",))
    return {"output_size": tuple(sizes)}


def adapted(shapes: tuple[Shape, ...], output_size: Any) -> str:
    """The equation: the average over the entries that a place covers."""
    space, held, counts = len(output_size), [], []
    for axis, m in enumerate(output_size):
        r, size = "rst"[axis], f"size(x, {axis - space})"
        if m == 1:
            counts.append(size)
            continue
        held.append(f"covers[{'ijk'[axis]},{r},{size},output_size{axis}]")
        counts.append(f"(Σ_{{{r}<{size}}} {held[-1]})")
    left, inner = ",".join(f"{i}<output_size{axis}" for axis, i in enumerate("ijk"[:space])), ",".join("rst"[:space])
    over, where = inner if space == 1 else f"{{{inner}}}", f" where {COVERS}" if held else ""
    return f"out[…,{left}] = (Σ_{over} {'·'.join([f'x[…,{inner}]', *held])}) / {below(counts)}{where}"


# fmt: off
for space, home, x in ((1, "torch.{}", "1x2x5"), (2, "aten._{}", "1x2x4x5"), (3, "aten._{}", "1x1x2x3x4")):
    name = f"adaptive_avg_pool{space}d"
    op(f"{name}(x, output_size: sizes)", adapted((), option_per_axis("output_size", space)),
       "averages of windows of nearly equal length that cover the last axes: covers says which of m windows i holds which of n entries h", ("F.{}", home), variants=adapted,
       prepare=partial(prepare_adaptive, space),
       checks=partial(check_space, space=space), letters="ncijk", smooth=True,
       ranks={"x": (space + 2, space + 1)},
       examples=tuple(f"F.{name}(x, {size}) with x:{x}" for size in (2, 1, 3)))
op("lp_pool1d(x, norm_type: float, kernel_size: int >= 1, stride: int >= 1=kernel_size)",
   "out[…,i] = [out[…,i] ≠ 0]·(Σ_{r<kernel_size} x[…,i·stride + r]^norm_type)^(1/norm_type)",
   "the length of every window of the last axis, of positive entries; the derivative at 0 is 0", F, domain=positive(), result_dtype="cut", reuse=True,
   checks=partial(check_space, space=1),
   examples=("F.lp_pool1d(x, 2, 2) with x:1x2x6", "F.lp_pool1d(x, 3, 3, stride=1) with x:2x5"))  # fmt: skip
op("lp_pool2d(x, norm_type: float, kernel_size: 2*int >= 1, stride: 2*int >= 1=kernel_size)",
   "out[…,i,j] = [out[…,i,j] ≠ 0]·(Σ_{r<kernel_size0,s<kernel_size1} x[…,i·stride0 + r,j·stride1 + s]^norm_type)^(1/norm_type)",
   "the length of every window of the last two axes, of positive entries; the derivative at 0 is 0", F, domain=positive(), result_dtype="cut", reuse=True,
   checks=partial(check_space, space=2),
   examples=("F.lp_pool2d(x, 2, 2) with x:1x2x4x6", "F.lp_pool2d(x, 3, (1, 2), stride=1) with x:2x3x3"))  # fmt: skip
