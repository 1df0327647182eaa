"""Pooling: one number for each window that slides over the last axes.

Max pooling selects: the forward pass finds which entry of its window won, as the entry's number in the plane
(torch's ``return_indices``), and the equation reads that entry. The first of several equal ones wins. Average
pooling adds up a window and divides by its size; entries of the padding count as 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, bracket, fresh, unravel
from symgrad.indexing.symbols import Expr
from symgrad.ops.convolutions import fitting, inside, per_axis, slid, windows_of
from symgrad.ops.domain import reals
from symgrad.ops.spec import At, Held, Op, View, example, operation
from symgrad.shapes import Shape, Size, Sizes, size_of

Ints = Any  # an int or a sequence of ints as users write it; one int per axis of space once prepared


def common_options(space: int, kernel_size: Ints, stride: Ints, padding: Ints) -> dict[str, Hashable]:
    """One integer for each axis of space; windows lie side by side unless a stride is given."""
    kernel = per_axis(kernel_size, space, "kernel_size")
    step = per_axis(kernel if stride is None or stride == () else stride, space, "stride")
    pads = per_axis(padding, space, "padding", least=0)
    if any(2 * p > k for p, k in zip(pads, kernel, strict=True)):
        raise InputError(
            "padding is at most half of the kernel", found=(f"padding={padding}, kernel_size={kernel_size}",)
        )
    return {"kernel_size": kernel, "stride": step, "padding": pads}


def begun(size: Size, kernel: int, stride: int, padding: int, dilation: int) -> Size:
    """How many windows begin inside, the last of which may stick out at the end; none begins in the padding there."""
    reach = dilation * (kernel - 1)
    room = size + padding - 1 - max(reach - padding - stride + 1, 0)
    return sp.floor(size_of(room) / stride) + 1 if stride > 1 else size_of(room + 1)


def pooled_shape(
    sizes: Sizes, shapes: tuple[Shape, ...], kernel_size: Any, stride: Any, padding: Any, ceil_mode: bool, **more: Any
) -> Shape:
    """The leading axes, and the places of the window."""
    (x,) = shapes
    space = len(kernel_size)
    if len(x) not in (space + 1, space + 2):
        raise ShapeError(f"the input has {len(x)} axes, it needs {space + 2}, or {space + 1} without a batch")
    dilation = more.get("dilation", (1,) * space)
    axes = list(zip(x[-space:], kernel_size, stride, padding, dilation, strict=True))
    places = [slid(n, sp.Integer(k), a, p, p, d) for n, k, a, p, d in axes]
    if ceil_mode:
        places = [begun(*axis) for axis in axes]
    return (*x[:-space], *fitting(sizes, places))


def windows_flat(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, fill: Any, over: bool) -> Any:
    """NumPy: every window's entries along one last axis; with ``over`` those of windows that stick out, too."""
    margins = [(p, p) for p in padding]
    if over:
        axes = zip(np.shape(x)[-len(kernel) :], kernel, stride, padding, dilation, strict=True)
        whole = [(int(begun(*axis)) - 1) * axis[2] + axis[4] * (axis[1] - 1) + 1 - axis[0] for axis in axes]
        margins = [(p, max(p, need - p)) for p, need in zip(padding, whole, strict=True)]
    seen = windows_of(x, kernel, stride, margins, dilation, fill)
    return np.reshape(seen, (*seen.shape[: -len(kernel)], math.prod(kernel)))


def largest(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """NumPy's forward: the largest entry of every window."""
    padded = ceil_mode or any(padding)
    fill = -np.inf if padded else 0
    x = np.asarray(x, float) if padded else x
    return windows_flat(x, kernel_size, stride, padding, dilation, fill, ceil_mode).max(axis=-1)


def winners(x: Any, kernel_size: Any, stride: Any, padding: Any, dilation: Any, ceil_mode: bool) -> Any:
    """The number in its plane of the entry that won each window."""
    x = np.asarray(x, dtype=np.float64)
    space = len(kernel_size)
    plane = np.arange(int(np.prod(x.shape[-space:]))).reshape(x.shape[-space:])
    values = windows_flat(x, kernel_size, stride, padding, dilation, -np.inf, ceil_mode)
    numbers = np.broadcast_to(windows_flat(plane, kernel_size, stride, padding, dilation, -1, ceil_mode), values.shape)
    # not a number wins like the largest; an entry of the padding never does
    best = np.argmax(np.where(numbers < 0, -np.inf, np.where(np.isnan(values), np.inf, values)), axis=-1)
    hidden = np.take_along_axis(numbers, best[..., None], axis=-1)[..., 0]
    return np.where(hidden < 0, numbers.max(axis=-1), hidden)


def max_pooling(space: int) -> Op:
    """max_pool1d, 2d or 3d."""
    name = f"max_pool{space}d"
    shape = {1: (1, 2, 6), 2: (1, 2, 4, 4), 3: (1, 1, 4, 4, 4)}[space]

    def prepare(
        shapes: tuple[Shape, ...],
        kernel_size: Ints,
        stride: Ints = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> dict[str, Hashable]:
        options = common_options(space, kernel_size, stride, padding)
        return {**options, "dilation": per_axis(dilation, space, "dilation"), "ceil_mode": bool(ceil_mode)}

    @operation(
        name=name,
        says=f"the largest entry of every window of the last {space} {'axis' if space == 1 else 'axes'}",
        numpy=largest,
        torch=lambda torch, x, **options: getattr(torch.nn.functional, name)(x, **options),
        known={"n": winners},
        places=", return_indices=True)[1]",
        shape=pooled_shape,
        prepare=prepare,
        spelled=(f"F.{name}", f"torch.{name}"),
        domain={"x": reals(distinct=True)},
        smooth=False,
        ranks={"x": (space + 2, space + 1)},
        letters="ncijk",
        kinks=(0.0,),
        examples=(
            example(f"F.{name}(x, 2)", x=shape),
            example(f"F.{name}(x, 3, stride=2, padding=1)", x=shape),
            *((example(f"F.{name}(x, 2, stride=1, dilation=2)", x=shape),) if space < 3 else ()),
            example(f"F.{name}(x, 2, ceil_mode=True)", x=(*shape[:2], *[3] * space)),
        ),
    )
    def max_pool(
        at: At,
        x: View,
        n: Held,
        kernel_size: Ints,
        stride: Ints = None,
        padding: Ints = 0,
        dilation: Ints = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Expr:
        """out[c,i] = x[c, n[c,i]], n: where the largest entry of the window is"""
        return x[[*at[:-space], *unravel(n[at], x.shape[-space:])]]

    return max_pool


max_pool1d, max_pool2d, max_pool3d = (max_pooling(space) for space in (1, 2, 3))


def average_pooling(space: int) -> Op:
    """avg_pool1d, 2d or 3d."""
    name = f"avg_pool{space}d"
    shape = {1: (1, 2, 6), 2: (1, 2, 4, 4), 3: (1, 1, 4, 4, 4)}[space]  # no size comes to 1, which would broadcast

    def prepare(
        shapes: tuple[Shape, ...],
        kernel_size: Ints,
        stride: Ints = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> dict[str, Hashable]:
        if divisor_override is not None and (space == 1 or divisor_override == 0):
            raise InputError("divisor_override is a number other than 0, for 2 and 3 axes of space")
        options = common_options(space, kernel_size, stride, padding)
        return {
            **options,
            "ceil_mode": bool(ceil_mode),
            "count_include_pad": count_include_pad,
            "divisor_override": divisor_override,
        }

    def averaged_shape(sizes: Sizes, shapes: tuple[Shape, ...], kernel_size: Any, **options: Any) -> Shape:
        shape = pooled_shape(sizes, shapes, kernel_size, **options)
        if space == 3:  # torch's average over three axes does not count the padding as room
            spatial = zip(shapes[0][-3:], kernel_size, strict=True)
            fitting(sizes, [slid(n, sp.Integer(k), 1, sp.S.Zero, sp.S.Zero, 1) for n, k in spatial])
        return shape

    def by_torch(torch: Any, x: Any, divisor_override: Any, **options: Any) -> Any:
        more = {} if divisor_override is None else {"divisor_override": divisor_override}
        return getattr(torch.nn.functional, name)(x, **options, **more)

    @operation(
        name=name,
        says=f"the average of every window of the last {space} {'axis' if space == 1 else 'axes'}",
        torch=by_torch,
        shape=averaged_shape,
        prepare=prepare,
        letters="ncijk",
        spelled=(f"F.{name}", *(("torch.avg_pool1d",) if space == 1 else (f"aten.{name}",))),
        ranks={"x": (space + 2, space + 1)},
        examples=(
            example(f"F.{name}(x, 2)", x=shape),
            example(f"F.{name}(x, 3, stride=2, padding=1)", x=shape),
            example(f"F.{name}(x, 3, stride=2, padding=1, count_include_pad=False)", x=shape),
            example(f"F.{name}(x, 2, ceil_mode=True)", x=(*shape[:2], *[3] * space)),
            *(
                (example(f"F.{name}(x, 3, stride=2, padding=1, ceil_mode=True)", x=(*shape[:2], *[4] * space)),)
                if space == 1
                else ()
            ),
        ),
    )
    def avg_pool(
        at: At,
        x: View,
        kernel_size: Ints,
        stride: Ints = None,
        padding: Ints = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Expr:
        """out[c,i] = Σ_r x[c, stride·i + r − padding] / R"""
        shifts = [fresh(h, sp.Integer(k)) for h, k in zip("rst", kernel_size, strict=False)]
        reached = [a * i + r - p for a, i, r, p in zip(stride, at[-space:], shifts, padding, strict=True)]
        axes = list(zip(reached, x.shape[-space:], padding, strict=True))
        held = sp.Mul(*(inside(e, n) for e, n, p in axes if p or ceil_mode))
        sums = add_up(x[[*at[:-space], *reached]] * held, shifts)
        if divisor_override is not None:
            return sums / sp.sympify(divisor_override, strict=True)
        if count_include_pad:  # entries of the padding count, those of a window that sticks out further do not
            held = sp.Mul(*(bracket(sp.Lt(e, n + p, evaluate=False)) for e, n, p in axes)) if ceil_mode else sp.S.One
        return sums / add_up(held, shifts) if held != 1 else sums / int(np.prod(kernel_size))

    return avg_pool


avg_pool1d, avg_pool2d, avg_pool3d = (average_pooling(space) for space in (1, 2, 3))

# Adaptive -------------------------------------------------------------------------------------------


def adaptive_pooling(space: int) -> Op:
    """adaptive_avg_pool1d, 2d or 3d: windows of nearly equal length that cover the axis."""
    name = f"adaptive_avg_pool{space}d"
    shape = {1: (1, 2, 5), 2: (1, 2, 4, 5), 3: (1, 1, 2, 3, 4)}[space]

    def prepare(shapes: tuple[Shape, ...], output_size: Ints) -> dict[str, Hashable]:
        values = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * space
        if len(values) != space:
            raise InputError(f"output_size has to be one size or {space}", found=(f"output_size={output_size!r}",))
        sizes = [old if new is None else size_of(new) for old, new in zip(shapes[0][-space:], values, strict=True)]
        if not all(s.is_Symbol or (s.is_Integer and s >= 1) for s in sizes):
            raise InputError("output_size has to be integers from 1 up", found=(f"output_size={output_size!r}",))
        return {"output_size": tuple(sizes)}

    def pooled(sizes: Sizes, shapes: tuple[Shape, ...], output_size: Any) -> Shape:
        if len(shapes[0]) not in (space + 1, space + 2):
            raise ShapeError(
                f"the input has {len(shapes[0])} axes, it needs {space + 2}, or {space + 1} without a batch"
            )
        return (*shapes[0][:-space], *output_size)

    @operation(
        name=name,
        says="the averages of windows of nearly equal length that cover the last axes",
        numpy=adaptive_averages,
        shape=pooled,
        prepare=prepare,
        letters="ncijk",
        ranks={"x": (space + 2, space + 1)},
        torch=lambda torch, x, output_size: getattr(torch.nn.functional, name)(x, tuple(map(int, output_size))),
        spelled=(f"F.{name}", *(("torch.adaptive_avg_pool1d",) if space == 1 else (f"aten._{name}",))),
        examples=(
            example(f"F.{name}(x, 2)", x=shape),
            example(f"F.{name}(x, 1)", x=shape),
            example(f"F.{name}(x, 3)", x=shape),
        ),
    )
    def adaptive_avg_pool(at: At, x: View, output_size: Ints) -> Expr:
        """out[c,i] = the average of x[c,j] over ⌊i·n/m⌋ ≤ j < ⌈(i+1)·n/m⌉"""
        inner = [fresh(h, n) for h, n in zip("jkl", x.shape[-space:], strict=False)]
        held = [covers(i, j, size_of(m)) for i, j, m in zip(at[-space:], inner, output_size, strict=True)]
        sums = add_up(x[[*at[:-space], *inner]] * sp.Mul(*held), inner)
        return sums / sp.Mul(*(add_up(h, [j]) for h, j in zip(held, inner, strict=True)))

    return adaptive_avg_pool


def covers(place: Expr, entry: Any, places: Size) -> Expr:
    """[⌊i·n/m⌋ ≤ j < ⌈(i+1)·n/m⌉] in whole numbers: i·n < (j+1)·m and j·m < (i+1)·n."""
    if places == 1:
        return sp.S.One
    first = Bracket(sp.Lt(place * entry.size, (entry + 1) * places, evaluate=False))
    return first * Bracket(sp.Lt(entry * places, (place + 1) * entry.size, evaluate=False))


def adaptive_averages(x: Any, output_size: Sequence[int]) -> Any:
    """NumPy's forward: one axis after the other."""
    x = np.asarray(x)
    space = len(output_size)
    for axis, places in zip(range(x.ndim - space, x.ndim), map(int, output_size), strict=True):
        length = x.shape[axis]
        edges = [(i * length // places, -(-(i + 1) * length // places)) for i in range(places)]
        x = np.stack([x.take(range(a, b), axis=axis).sum(axis=axis) / (b - a) for a, b in edges], axis=axis)
    return x


adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d = (adaptive_pooling(space) for space in (1, 2, 3))
