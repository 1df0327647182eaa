"""Windows laid out as columns, and back: unfold and fold, pixel_unshuffle, and max pooling undone.

    unfold   out[(c,r), i] = x[c, stride·i + dilation·r − padding]
    fold     out[c, p]     = Σ_{r,i} δ(p, stride·i + dilation·r − padding)·x[(c,r), i]

Fold is the pullback of unfold, and the other way round: each is stated here, and the derivation finds the other.
A pair in brackets is its number row by row.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import Ints, check_space, integers_between, require_positions_from_zero, window_count
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.ops.convolutions import check_window_counts, option_per_axis, window
from symgrad.shapes import Shape, Size, Sizes, as_size


def window_places(sizes: Sizes, space: Shape, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> Shape:
    """How many places the window has on each axis."""
    axes = zip(space, map(sp.Integer, kernel_size), stride, padding, dilation, strict=True)
    return tuple(check_window_counts(sizes, [window_count(n, k, a, p, p, d) for n, k, a, p, d in axes]))


def unfolded_shape(sizes: Sizes, shapes: tuple[Shape, ...], kernel_size: Any, **options: Any) -> Shape:
    """(…, channels·window, places)."""
    (x,) = shapes
    if len(x) not in (3, 4):
        raise ShapeError("unfold takes (n, channels, h, w), or (channels, h, w) without a batch")
    places = window_places(sizes, x[-2:], kernel_size, **options)
    return (*x[:-3], x[-3] * int(np.prod(kernel_size)), sp.Mul(*places))


def spots(size: str, kernel: Any, dilation: Any, padding: Any, stride: Any) -> str:
    """h and w: how many places a window has on each of two axes."""
    axes = enumerate(zip(kernel, dilation, padding, stride, strict=True))
    each = (f"⌊({size.format(a, a - 2)} + 2·{p} − {d}·({k} − 1) − 1)/{step}⌋ + 1" for a, (k, d, p, step) in axes)
    return ", ".join(f"{name} = {places}" for name, places in zip("hw", each, strict=True))


def unfold_equation(shapes: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> str:
    """Windows as columns; 0 outside where there is padding."""
    places, held = window(stride, padding, dilation)
    where = spots("size(x, {1})", kernel_size, dilation, padding, stride)
    (height, width), hat = kernel_size, "\u0302" if 0 not in padding else ""
    entry = f"x{hat}[…,c,{','.join(places)}]{'' if hat else held}"
    return f"out[…,(c,r<{height},s<{width}),(i<h,j<w)] = {entry} where {where}"


BY_NAME = {name: option_per_axis(name, 2) for name in ("kernel_size", "dilation", "padding", "stride")}
op("im2col(x, kernel_size: 2*int >= 1, dilation: 2*int >= 1=1, padding: 2*int >= 0=0, stride: 2*int >= 1=1)", unfold_equation((), **BY_NAME),
   "every window over the last two axes as a column; h and w are how many places it has on each", ("F.unfold", "torch._C._nn.im2col", "aten.im2col"), variants=unfold_equation,
   shape=unfolded_shape,
   template="F.unfold({})", ranks={"x": (4, 3)}, letters="nql",
   examples=("F.unfold(x, 2) with x:1x2x3x3", "F.unfold(x, (2, 3), padding=1, stride=2) with x:2x4x5",
             "F.unfold(x, 2, dilation=2) with x:2x1x4x3"))  # fmt: skip


def folded_shape(sizes: Sizes, shapes: tuple[Shape, ...], output_size: Any, kernel_size: Any, **options: Any) -> Shape:
    """(…, channels, h, w)."""
    (x,) = shapes
    if len(x) not in (2, 3):
        raise ShapeError("fold takes (n, channels·window, places), or one without a batch")
    area = int(np.prod(kernel_size))
    many = sizes.number(x[-2])
    if many is not None and many % area:
        raise ShapeError(f"{many} rows cannot be divided into windows of {area} entries")
    sizes.unify(x[-1], sp.Mul(*window_places(sizes, output_size, kernel_size, **options)))
    return (*x[:-2], x[-2] / area, *output_size)


def fold_equation(shapes: Any, output_size: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any) -> str:
    """Every entry of a column added at its place."""
    places, _ = window(stride, padding, dilation)
    where = spots("output_size{0}", kernel_size, dilation, padding, stride)
    meets = "·".join(f"δ({p}, {place})" for p, place in zip("pq", places, strict=True))
    height, width = kernel_size
    return f"out[…,c,p,q] = Σ_{{r<{height},s<{width},i<h,j<w}} {meets}·x[…,(c,r,s),(i,j)] where {where}"


op("col2im(x, output_size: 2*size, kernel_size: 2*int >= 1, dilation: 2*int >= 1=1, padding: 2*int >= 0=0, "
   "stride: 2*int >= 1=1)", fold_equation((), (), **BY_NAME),
   "columns laid as windows over two axes, added up where they overlap; h and w are how many places there are on each", ("F.fold", "torch._C._nn.col2im", "aten.col2im"),
   variants=fold_equation, shape=folded_shape, result_dtype="joined", smooth=True, template="F.fold({})", ranks={"x": (3, 2)}, letters="ncij",
   examples=("F.fold(x, (3, 3), 2) with x:1x4x4", "F.fold(x, (4, 3), 2, padding=1, stride=2) with x:8x6"))  # fmt: skip


def one_fits(sizes: Sizes, x: Shape, dimension: int, size: int, step: int) -> None:
    """The operand is as long as one window at least."""
    number = sizes.number(x[dimension])
    if number is not None and number < size:
        raise ShapeError(f"a window of {size} does not fit on an axis of size {number}")
    sizes.require(x[dimension] - size)


op("unfold(x, dimension: int, size: int, step: int)", "out[i,r<size] = x[step·i + r]",
   "windows along the axis dimension, each as the last axis of the result", ("Tensor.{}", "aten.{}"), axes="dimension", least=1,
   fits=one_fits, examples=("x.unfold(0, 2, 1) with x:4", "x.unfold(1, 2, 2) with x:2x5"))  # fmt: skip


# Pixels ---------------------------------------------------------------------------------------------

CHANNELS = "out[…,(c,a<downscale_factor,b<downscale_factor),h,w] = x[…,c,(h,a),(w,b)]"
op("pixel_unshuffle(x, downscale_factor: int >= 1)", CHANNELS,
   variants=lambda shapes, downscale_factor: "out[…] = x[…]" if 0 in shapes[0] else CHANNELS,  # torch leaves nothing as it is
   summary="pixels laid out as channels: one becomes r·r with 1/r of the height and width, r being downscale_factor", home=("F.{}", "torch.{}", "aten.{}"),
   ranks={"x": (4, 3)}, letters="nchw",
   examples=("F.pixel_unshuffle(x, 2) with x:1x2x4x2", "F.pixel_unshuffle(x, 3) with x:2x3x6"))  # fmt: skip


op("pixel_shuffle(x, upscale_factor: int >= 1)", "out[…,c,(h,a<upscale_factor),(w,b<upscale_factor)] = x[…,(c,a,b),h,w]",
   "channels laid out as pixels: r·r become one with r times the height and width, r being upscale_factor",
   ("F.{}", "torch.{}", "aten.{}"), ranks={"x": (4, 3)}, letters="ijkl", examples=("F.pixel_shuffle(x, 2) with x:1x4x2x1",))  # fmt: skip

# Max pooling undone ---------------------------------------------------------------------------------


def unpooled_sizes(x: Shape, kernel_size: Any, stride: Any, padding: Any) -> list[Size]:
    """The sizes that the pooling began with, as far as they can be known."""
    along = zip(x[-len(padding) :], stride, kernel_size, padding, strict=True)
    return [as_size((n - 1) * a + k - 2 * p) for n, a, k, p in along]


def prepare_unpooled(
    shapes: Any, kernel_size: Any, padding: Any, output_size: Ints, **more: Any
) -> dict[str, Hashable]:
    """Something says how large the result is."""
    if kernel_size is None and output_size is None:
        raise InputError("this needs kernel_size or output_size")
    given = None if output_size is None else tuple(map(as_size, output_size))[-len(padding) :]
    if given is not None and len(given) < len(padding):
        raise InputError(f"output_size has {len(padding)} sizes", found=(f"output_size={output_size}",))
    return {"kernel_size": kernel_size, **more, "padding": padding, "output_size": given}


def unpooled_shape(space: int, sizes: Sizes, shapes: tuple[Shape, ...], output_size: Any, **pooled: Ints) -> Shape:
    """The leading axes, and the sizes asked for, or those that the pooling began with."""
    x = shapes[0]
    check_space(shapes, space)
    wanted = unpooled_sizes(x, **pooled) if output_size is None else output_size
    if any(known is not None and known < 1 for known in map(sizes.number, wanted)):
        raise ShapeError("nothing is left of the output")
    return (*x[:-space], *wanted)


def max_unpool_arrays(space: int, x: Any, indices: Any, output_size: Any, **pooled: Any) -> Any:
    """NumPy's forward; which of two entries for one place stays is open."""
    x, n = np.asarray(x), require_positions_from_zero(indices)
    wanted = unpooled_sizes(x.shape, **pooled) if output_size is None else output_size
    lead, places = x.shape[:-space], n.reshape(int(np.prod(x.shape[:-space])), -1)
    if any(len(np.unique(row)) < len(row) for row in places):
        raise InputError(f"max_unpool{space}d writes two entries to one place, and which of them stays is open")
    flat = np.zeros((len(places), int(np.prod([int(m) for m in wanted]))), dtype=x.dtype)
    flat[np.arange(len(flat))[:, None], places] = x.reshape(places.shape)
    return flat.reshape(*lead, *(int(m) for m in wanted))


# fmt: off
for space in (1, 2, 3):
    name, left, inner = f"max_unpool{space}d", ",".join("pqs"[:space]), ",".join("ijk"[:space])
    number, over = (left, inner) if space == 1 else (f"({left})", f"{{{inner}}}")
    op(f"{name}(x, indices: data, kernel_size: {space}*int >= 1=None, stride: {space}*int >= 1=kernel_size, "
       f"padding: {space}*int >= 0=0, output_size: tuple=None)",
       f"out[…,{left}] = Σ_{over} δ(indices[…,{inner}], {number})·x[…,{inner}]",
       "zeros but for the entries of x, each written at its number in its plane, row by row (each number once); the plane has"
       " output_size entries, or as many as pooling with this kernel_size, stride and padding began with", ("F.{}",),
       forward=partial(max_unpool_arrays, space), fits="x[…] indices[…]", shape=partial(unpooled_shape, space), prepare=prepare_unpooled,
       align=no_alignment, domain={"indices": integers_between(0, 1)}, ranks={"x": (space + 2, space + 1)}, letters="ncijk",
       examples=(f"F.{name}(x, indices, 2) with x:1x2{'x1' * space} indices:1x2{'x1' * space}",))
# fmt: on
