"""Entries read or written at positions that are data: gather, take, index_select, scatter and its reductions, one_hot.

A position is an integer operand; nothing flows to it. What is read at n[i] gives a derivative with one 1 a row;
what is written at n[i] is a sum against δ(n[i], p), the same matrix the other way round. Masks hold 0 and 1.

scatter_reduce and index_reduce make one number of all that lands at a place: with ``include_self=False`` x counts
only where nothing landed, and several entries that equal the largest share the derivative evenly.

Entries that are written at positions: each of them once, or no equation says which value stays.
"""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.along import Axes
from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.operands import (
    WrittenTwice,
    integers_between,
    reals,
    require_equal_rank,
    require_positions_from_zero,
    write_moved_entries,
)
from symgrad.errors import InputError, ShapeError
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes


def require_single_writes(shape: tuple[int, ...], places: tuple[Any, ...]) -> tuple[Any, ...]:
    """``places`` in a tensor of this shape; raises `WrittenTwice` where two of them meet."""
    count = np.zeros(shape, dtype=int)
    np.add.at(count, places, 1)
    if count.max(initial=0) > 1:
        raise WrittenTwice(f"at {', '.join(map(str, np.argwhere(count > 1)[0]))}")
    return places


def no_larger(sizes: Sizes, index: Shape, other: Shape, name: str, but: int | None = None) -> None:
    """The positions are at most as many as the entries of ``other`` on every axis, except on ``but``."""
    for axis, (own, whole_) in enumerate(zip(index, other, strict=True)):
        few, many = sizes.number(own), sizes.number(whole_)
        if axis != but and few is not None and many is not None and few > many:
            raise ShapeError(f"there are {few} positions on axis {axis}, but {name} has {many} entries there")
        if axis != but:  # torch pulls nothing back to a source with more
            sizes.lesser(own, whole_) if but is None else sizes.require(whole_ - own)


def prepare_one_hot(shapes: tuple[Shape, ...], num_classes: Any = -1) -> dict[str, Hashable]:
    """How many classes there are is no matter of which ones occur."""
    if not isinstance(num_classes, sp.Expr) and num_classes < 1:
        raise InputError("one_hot needs num_classes: which classes occur depends on data", hints=("one_hot(x, 3)",))
    return {"num_classes": num_classes}


op("one_hot(x: data, num_classes: int=-1)", "out[…,k<num_classes] = δ(x[…], k)",
   "for every whole number a row of zeros with a 1 at its place", ("F.{}",), domain={"x": integers_between(0, 2)}, smooth=False, result_dtype="whole", prepare=prepare_one_hot, letters="ijkl",
   torch=lambda torch, x, num_classes: torch.nn.functional.one_hot(x.long(), int(num_classes)).to(torch.float64),
   examples=("w * F.one_hot(x, 3) with x:4 w:3", "(w * F.one_hot(x, 4)).sum(1) with x:2x3 w:4"),
   arrays="x, n: np.eye(n)[x]")  # fmt: skip


def gather_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int, **options: Any) -> Shape:
    """The shape of the positions."""
    require_equal_rank(sizes, shapes[0], shapes[1])
    no_larger(sizes, shapes[1], shapes[0], "x", but=dim)
    return shapes[1]


op("gather(x, dim: int, index: data, sparse_grad: unused=False)", "out[i] = x[index[i]]",
   "along dim the entries at the given positions, one for each", TORCH, axes="dim", shape=gather_shape,
   domain={"index": integers_between(0, 1)},
   examples=("gather(x, 1, index) with x:2x3 index:2x2", "gather(x, 0, index) with x:3 index:4"), gathers=True)  # fmt: skip


def along_align(sizes: Sizes, shapes: tuple[Shape, ...], dim: Any) -> tuple[Shape, ...]:
    """The axes but dim broadcast."""
    x, index = shapes
    if dim is None:
        return shapes
    require_equal_rank(sizes, x, index)
    rest = sizes.broadcast_shapes([(*s[:dim], sp.S.One, *s[dim + 1 :]) for s in (x, index)])
    return tuple((*rest[:dim], s[dim], *rest[dim + 1 :]) for s in (x, index))


def write_take_along(shapes: tuple[Shape, ...], dim: Any) -> str:
    """On one axis of the tensor, or on all of it as one row."""
    if dim is None:
        return "out[i<size(indices)] = x⟨indices⟨i⟩⟩"
    places = ",".join(f"i{a}" for a in range(len(shapes[0])))
    return write_moved_entries(len(shapes[0]), lambda a: f"indices[{places}] mod size(x, {a})" if a == dim else f"i{a}")


# fmt: off
op("take_along_dim(x, indices: data, dim: axis | None=None)", "out[i] = x[indices[i] mod size(x, 0)]",
   "along dim the entries at the given positions, −1 the last; without dim those of the whole tensor, row by row", METHOD,
   "np.take_along_axis", gathers=True, variants=write_take_along, align=along_align, domain={"indices": integers_between(0, 1)},
   examples=("take_along_dim(x, indices, 0) with x:3 indices:2", "take_along_dim(x, indices, 1) with x:2x3 indices:2x2",
   "take_along_dim(x, indices) with x:2x3 indices:2"))
op("take(x, index: data)", "out[…] = x⟨index[…] mod size(x)⟩", "the entries with the given numbers, counted row by row; −1 is the"
   " last", ("torch.{}", "Tensor.{}", "aten.{}"), domain={"index": integers_between(0, 3)},
   examples=("take(x, index) with x:2x3 index:2x2",), gathers=True)
# fmt: on


op("index_select(x, dim: int, index: data)", "out[i] = x[index[i]]", "the entries along dim at the given positions", TORCH,
   axes=Axes("dim", apart="index"), domain={"index": integers_between(0, 1)},
   examples=("index_select(x, 1, index) with x:2x3 index:2", "index_select(x, 0, index) with x:2x2 index:3"),
   arrays="x, dim, index: np.take(x, index, axis=dim)", gathers=True, role=Role.PICKS)  # fmt: skip

op("masked_fill(x, mask: data, value)", "out = (1 − [mask ≠ 0])·x + [mask ≠ 0]·value",
   "value where the mask is not 0, x[i] elsewhere", ("torch.{}", "Tensor.{}", "aten.{}"), domain={"mask": integers_between(0, 1)},
   torch=lambda torch, x, mask, value: torch.where(mask != 0, value, x),
   examples=("masked_fill(x, mask != 0, 2.0) with x:2x3 mask:2x3",), result_dtype="first", where_like=(1, (0,), None))  # fmt: skip


# Written at positions -------------------------------------------------------------------------------


def with_source(sizes: Sizes, x: Shape, index: Shape, source: Shape, **options: Any) -> None:
    """The source has as many axes as x."""
    require_equal_rank(sizes, x, source)


op("index_add(x, dim: int, index: data, source, alpha: float=1)", "out[i] = x[i] + alpha·(Σ_k δ(index[k], i)·source[k])",
   "x plus the slices of the source, each added at its position along dim, alpha times", TORCH, axes=Axes("dim", apart="index"),
   fits=with_source, role=Role.ADDS, domain={"index": integers_between(0, 1)},
   arrays="x, dim, index, source, alpha=1: x + alpha * np.moveaxis(np.tensordot(np.arange(x.shape[dim])[:, None] == index, "
          "source, (1, dim)), 0, dim)",
   examples=("index_add(x, 0, index, source) with x:3x2 index:4 source:4x2",), result_dtype="first joined")  # fmt: skip


def scatter_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int, **options: Any) -> Shape:
    """The shape of what is written to."""
    x, index, *source = shapes
    require_equal_rank(sizes, x, index)
    no_larger(sizes, index, x, "x", but=dim)
    if source and source[0]:  # a number is written everywhere
        require_equal_rank(sizes, index, source[0])
        no_larger(sizes, index, source[0], "the source")
    return x


def whole_source(sizes: Sizes, x: Shape, index: Shape, src: Shape, **options: Any) -> None:
    """The source is a tensor with an entry for each position, no number."""
    require_equal_rank(sizes, index, src)


def landing_places(index: Any, dim: int) -> tuple[Any, ...]:
    """Where the entries of a source land, as NumPy takes it."""
    n = np.atleast_1d(require_positions_from_zero(index))
    return (*np.indices(n.shape)[:dim], n, *np.indices(n.shape)[dim + 1 :])


def overwrite_entries(x: Any, places: tuple[Any, ...], source: Any) -> Any:
    """NumPy: x with what the source has at the places, each of them once; it may have more than there are places."""
    result, source = np.atleast_1d(np.array(x, copy=True)), np.asarray(source)
    found = require_single_writes(result.shape, places)
    result[found] = source[tuple(map(slice, result[found].shape))] if source.ndim else source
    return result.reshape(np.shape(x))


def landing(shapes: tuple[Shape, ...], dim: int) -> tuple[str, str, str]:
    """An entry of x, the sum over all positions, and what is 1 where one is the entry's."""
    rank = len(shapes[0])
    at, own = (",".join(f"{letter}{a}" for a in range(rank)) for letter in "ik")
    over = ",".join(f"k{a}<size(index, {a})" for a in range(rank))
    meets = "·".join(f"δ(index[{own}], i{a})" if a == dim else f"δ(k{a}, i{a})" for a in range(rank))
    return at, f"Σ_{{{over}}} {meets}", f"src[{own}]" if len(shapes) > 2 and len(shapes[2]) else "src"


def write_added_sources(shapes: tuple[Shape, ...], dim: int) -> str:
    """The sources that land at an entry, added to it."""
    at, sums, source = landing(shapes, dim)
    return f"out[{at}] = x[{at}] + {sums}·{source}" if shapes[0] else "out = x + src"


def write_replaced_entry(shapes: tuple[Shape, ...], dim: int) -> str:
    """The source that lands at an entry in its place."""
    at, sums, source = landing(shapes, dim)
    return f"out[{at}] = x[{at}]·[h = 0] + ({sums}·{source}) where h = {sums}" if shapes[0] else "out = src"


# fmt: off
op("scatter_add(x, dim: axis, index: data, src)", "out[i] = x[i] + Σ_k δ(index[k], i)·src[k]",
   "x plus the entries of src, each added at its position along dim", TORCH, variants=write_added_sources, fits=whole_source, shape=scatter_shape,
   domain={"index": integers_between(0, 1)}, result_dtype="first joined",
   examples=("scatter_add(x, 0, index, src) with x:3 index:2 src:2", "scatter_add(x, 0, index, src) with x:3x2 index:2x2 src:2x2",
             "scatter_add(x, 1, index, src) with x:2x3 index:2x4 src:2x4"))
op("scatter(x, dim: axis, index: data, src)", "out[i] = x[i]·[h = 0] + (Σ_k δ(index[k], i)·src[k]) where h = Σ_k δ(index[k], i)",
   "x with the entries of src written at their positions along dim (each position once)", TORCH, variants=write_replaced_entry,
   shape=scatter_shape, result_dtype="first", domain={"index": integers_between(0, 1)}, forward=lambda x, index, src, dim: overwrite_entries(x, landing_places(index, dim), src), smooth=True,
   torch=lambda torch, x, index, src, dim: torch.scatter(x, dim, index.long(), src if src.dim() else src.expand(index.shape)),
   examples=("scatter(x, 0, index, src) with x:3 index:1 src:1", "scatter(x, 0, index, src) with x:3x2 index:1x2 src:1x2"))
op("index_copy(x, dim: int, index: data, source)", "out[i] = x[i]·[h = 0] + (Σ_j δ(index[j], i)·source[j])"
   " where h = Σ_k δ(index[k], i)", "x with the slices at the given positions along dim replaced by those of the source"
   " (each position once)", TORCH, axes=Axes("dim", apart="index"),
   forward=lambda x, index, source, dim: overwrite_entries(x, (slice(None),) * dim + (np.atleast_1d(require_positions_from_zero(index)),), source),
   domain={"index": integers_between(0, 1)}, smooth=True,
   examples=("index_copy(x, 0, index, source) with x:3x2 index:1 source:1x2",), result_dtype="first")
op("index_fill(x, dim: int, index: data, value)", "out[i] = x[i]·[h = 0] + [h ≠ 0]·value where h = Σ_k δ(index[k], i)",
   "x with a number at the given positions along dim", TORCH, axes=Axes("dim", apart="index"),
   domain={"index": integers_between(0, 1)}, smooth=True, ranks={"index": (1,), "value": (0,)}, examples=("index_fill(x, 1, index, 2.0) with x:2x3 index:2",), result_dtype="first")


EQUAL = "(e·(own·x{at} + (1 − own)·out) + ({lands}·{s}·[{s} = out])) / (e + ({lands}·[{s} = out]))"
KINDS = {
    "sum": "own·x{at} + ({lands}·{s})",
    "mean": "(own·x{at} + ({lands}·{s})) / (own + ({lands}))",
    "prod": "(own·x{at} + 1 − own)·({product})",
    "amax": EQUAL,
    "amin": EQUAL,
}
"""One number of x and of every s that lands at its place, over which ``lands`` adds up; own is whether x counts.

Where it does not, torch lets it share with the largest all the same, and that share goes nowhere."""


def write_index_reduce(reduce: str, include_self: bool, at: str, lands: str, s: str, product: str) -> str:
    """The equation."""
    own = "1" if include_self else f"[({lands}) = 0]"
    body = KINDS[reduce].format(at=at, lands=lands, s=s, product=product)
    return f"out{at} = {body} where own = {own}, e = [x{at} = out]"


def require_distinct_positions(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool) -> str:
    """Every entry of the source has a position of its own; 1 for each that lands elsewhere."""
    if not shapes[0]:
        return write_index_reduce(reduce, include_self, "", "1", "src", "src")
    at, lands, source = landing(shapes, dim)
    row = ",".join("k" if a == dim else f"i{a}" for a in range(len(shapes[0])))
    inside = "".join(f"[i{a} < size(index, {a})]·" for a in range(len(shapes[0])) if a != dim)
    product = f"Π_{{k<size(index, {dim})}} (lands·src[{row}] + 1 − lands)".replace(
        "lands", f"{inside}δ(index[{row}], i{dim})"
    )
    return write_index_reduce(reduce, include_self, f"[{at}]", lands, source, product)


def require_position_per_slice(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool) -> str:
    """Every slice of the source has one."""
    product = "Π_k (δ(index[k], i)·source[k] + 1 − δ(index[k], i))"
    return write_index_reduce(reduce, include_self, "[i]", "Σ_k δ(index[k], i)", "source[k]", product)


NUMPY: dict[str, Any] = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def landed_values(x: Any, places: tuple[Any, ...], values: Any, reduce: str, include_self: bool) -> Any:
    """NumPy's forward, one kind of landing after the other."""
    result = np.atleast_1d(np.array(x, float))
    count = np.zeros(result.shape)
    np.add.at(count, places, 1.0)
    if not include_self:
        result[count > 0] = EMPTY[reduce]
    NUMPY[reduce].at(result, places, values)
    if reduce == "mean":
        result = result / np.maximum(count + include_self, 1)
    return result.reshape(np.shape(x))


def scatter_values(x: Any, index: Any, src: Any, dim: int, **how: Any) -> Any:
    """NumPy's forward of scatter_reduce."""
    places, values = landing_places(index, dim), np.atleast_1d(np.asarray(src, float))
    return landed_values(x, places, values[tuple(map(slice, places[dim].shape))], **how)


def torch_index_reduce(torch: Any, x: Any, index: Any, source: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """torch's forward, of which torch says that it may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.index_reduce(x, dim, index.long(), source, reduce, include_self=include_self)


LARGEST = "out[i] = ([x[i] = out]·x[i] + (Σ_k δ(index[k], i)·{0}·[{0} = out])) / ([x[i] = out] + (Σ_l δ(index[l], i)·[{1} = out]))"
HOW = "'sum' | 'prod' | 'mean' | 'amax' | 'amin'"
# fmt: off
op(f"scatter_reduce(x, dim: axis, index: data, src, reduce: {HOW}, include_self: bool=True)", LARGEST.format("src[k]", "src[l]"),
   "along dim what lands at the same position, with include_self beside x, is reduced to its sum, product, mean, largest or smallest entry, as reduce says: to this for the last two", TORCH,
   variants=require_distinct_positions, fits=whole_source, shape=scatter_shape, forward=scatter_values, result_dtype="first joined",
   domain={"index": integers_between(0, 1), "src": reals(within=1.9)},
   examples=(*(f"scatter_reduce(x, 0, index, src, {how}) with x:3 index:{n} src:{n}" for how, n in (
                 ('"amax"', 4), ('"prod"', 4), ('"amin", include_self=False', 4), ('"prod", include_self=False', 3))),
             'scatter_reduce(x, 0, index, src, "sum") with x:3x2 index:2x2 src:2x2',
             'scatter_reduce(x, 1, index, src, "mean") with x:2x3 index:2x4 src:2x4'))
op(f"index_reduce(x, dim: int, index: data, source, reduce: {HOW}, include_self: bool=True)", LARGEST.format("source[k]", "source[l]"),
   "along dim the slices that land at the same position, with include_self beside x, are reduced to product, mean, largest or smallest, as reduce says: to this for the last two", TORCH,
   axes=Axes("dim", apart="index"), variants=require_position_per_slice,
   checks={"reduce=sum": (InputError, "index_reduce has no sum", "index_add")}, fits=with_source, result_dtype="first joined",
   forward=lambda x, index, source, dim, **how: landed_values(
       x, (slice(None),) * dim + (np.atleast_1d(require_positions_from_zero(index)),), np.asarray(source, float), **how),
   torch=torch_index_reduce, domain={"index": integers_between(0, 1), "source": reals(within=1.9)},
   examples=('index_reduce(x, 0, index, source, "prod") with x:3x2 index:4 source:4x2',
             'index_reduce(x, 1, index, source, "mean") with x:2x3 index:2 source:2x2',
             'index_reduce(x, 0, index, source, "amax") with x:3 index:4 source:4',
             'index_reduce(x, 0, index, source, "amin", include_self=False) with x:3 index:2 source:2'))
# fmt: on
