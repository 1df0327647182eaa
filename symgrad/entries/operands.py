"""Which operands an entry takes: where samples of them lie, which shapes fit, which axes an option names.

A `Domain` is for examples, assumed values and tests, and does not say where the operation is defined: relu is sampled
away from its kink at 0, a power on one side of it. What pages say about that is found by trying
(`symgrad.documents.domains`). The rules for shapes are shared by several entries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing.symbols import Expr
from symgrad.shapes import Shape, Size, Sizes, as_size


@dataclass(frozen=True)
class Domain:
    """Real numbers between ``low`` and ``high`` (open ends), drawn within ``draw``, away from ``avoid``.

    Whole numbers only if ``whole``, both ends of ``draw`` included. ``matrix`` says what the last two axes hold:
    a ``full`` matrix (of full rank, its singular values all different), a ``regular`` one (it has an inverse), a
    ``lower`` triangular one, a ``symmetric`` one (read as such, its eigenvalues all different), a ``definite`` one
    (with positive eigenvalues), or a ``dominant`` one (elimination exchanges none of its rows).
    """

    low: float = -inf
    high: float = inf
    draw: tuple[float, float] = (-2.0, 2.0)
    avoid: tuple[float, ...] = ()
    whole: bool = False
    matrix: str = ""

    @property
    def ends(self) -> bool:
        """Whether there are real numbers outside."""
        return not self.whole and (self.low, self.high) != (-inf, inf)


def reals(within: float = 2.0, avoid: tuple[float, ...] = ()) -> Domain:
    """All real numbers; samples lie within ±``within``, away from ``avoid``."""
    return Domain(draw=(-within, within), avoid=avoid)


def positive(within: float = 3.0) -> Domain:
    """x > 0; samples between 0.3 and ``within``."""
    return Domain(low=0.0, draw=(0.3, within))


def open_interval(low: float, high: float) -> Domain:
    """low < x < high; samples keep a tenth of the width away from the ends."""
    margin = (high - low) / 10
    return Domain(low, high, draw=(low + margin, high - margin))


def integers_between(low: int, high: int) -> Domain:
    """The whole numbers low, …, high: positions, classes, a mask."""
    return Domain(low - 0.5, high + 0.5, draw=(low, high), whole=True)


Ints = Any  # an int or several as users write them; one for each axis of space once prepared
Fits = Callable[..., Any]  # (sizes, *shapes, **options): refuses operands that do not fit each other
Dim = Any  # None, an int or a tuple of ints as users write it; a tuple of ints once prepared


def broadcast_all(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> tuple[Any, ...]:
    """Every operand that is there is broadcast to the common shape."""
    common = common_shape(sizes, shapes)
    return tuple(None if shape is None else common for shape in shapes)


def common_shape(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> Shape:
    """The output has the operands' common shape."""
    return sizes.broadcast_shapes([shape for shape in shapes if shape is not None])


def require_broadcastable(sizes: Sizes, own: Shape, whole: Shape, told: str) -> None:
    """``own`` broadcasts to ``whole``, not the other way round; else ``told`` is how many axes there are."""
    if len(own) > len(whole):
        raise ShapeError(told.format(len(own), len(whole)))
    for size, wanted in zip(own[::-1], whole[::-1], strict=False):
        if sizes.find(size) != 1:
            sizes.unify(size, wanted)


def require_rank(shape: Shape, rank: int) -> Shape:
    """``shape``, which has to have so many axes."""
    if len(shape) < rank:
        raise ShapeError(
            f"this takes a tensor with at least {rank} {'axis' if rank == 1 else 'axes'}, not {len(shape)}"
        )
    return shape


def require_equal_rank(sizes: Sizes, *shapes: Shape, **options: Hashable) -> None:
    """As many axes each."""
    if len({len(shape) for shape in shapes}) > 1:
        told = " and ".join(str(len(shape)) for shape in shapes)
        raise ShapeError(f"this takes tensors with as many axes each, not {told}")


def parse_fit_pattern(pattern: str, operands: Sequence[str]) -> Fits:
    """``"x[…,n] weight[n]"``: an index for each axis; axes with one letter are equally long, and those of ``…``."""
    wanted = {name: slots.split(",") for name, slots in re.findall(r"(\w+)\[(.*?)\]", pattern)}

    def fit(sizes: Sizes, *shapes: Shape | None, **options: Hashable) -> None:
        letters: dict[str, Size] = {}
        rest: Shape | None = None
        for name, shape in zip(operands, shapes, strict=False):
            if shape is None or name not in wanted:
                continue
            slots, dots = [slot for slot in wanted[name] if slot], "…" in wanted[name]
            at, more = slots.index("…") if dots else len(slots), len(shape) - len(slots) + dots
            if more < 0 or (more and not dots) or (dots and rest is not None and len(rest) != more):
                raise ShapeError(f"this takes {', '.join(pattern.split())}, but {name} has {len(shape)} axes")
            if dots:
                sizes.match(shape[at : at + more], shape[at : at + more] if rest is None else rest)
                rest = shape[at : at + more]
            for letter, size in zip(slots[:at] + slots[at + 1 :], (*shape[:at], *shape[at + more :]), strict=True):
                sizes.unify(letters.setdefault(letter, size), size)

    return fit


def check_space(shapes: Sequence[Shape], space: int, **options: Hashable) -> None:
    """The first is (n, channels, space…), or (channels, space…)."""
    x = shapes[0]
    if len(x) not in (space + 1, space + 2):
        raise ShapeError(f"the input has {len(x)} axes, it needs {space + 2}, or {space + 1} without a batch")


def in_groups(sizes: Sizes, channels: Size, groups: int | Size) -> Size:
    """How many channels one of several equal groups has."""
    known, count = sizes.number(channels), sizes.number(as_size(groups))
    if known is not None and count is not None and known % count:
        raise ShapeError(f"{known} channels do not make {count} equal groups")
    sizes.whole(channels / groups)
    return channels / groups


def unify_vector(sizes: Sizes, shape: Shape | None, size: Any, name: str) -> None:
    """``shape`` is that of a vector of ``size`` entries, or left out."""
    if shape is None:
        return
    if len(shape) != 1:
        raise ShapeError(f"{name} is a vector, not a tensor with {len(shape)} axes")
    sizes.unify(shape[0], size)


def exact_number(value: Any) -> Expr:
    """A plain number as an exact one: 1e-5 is 1/100000; one of very many digits stays a float."""
    short = isinstance(value, float) and (value == 0 or 1e-30 < abs(value) < 1e8)
    return sp.Rational(str(value)) if short else sp.sympify(value, strict=True)


def axis_of(dim: Any, rank: int) -> int:
    """``dim`` counted from the front; raises `ShapeError` when there is no such axis."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise InputError("dim has to be an integer", found=(repr(dim),))
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise ShapeError(
            f"there is no axis {dim} in a tensor with {rank} {'axis' if rank == 1 else 'axes'}",
            hints=(f"dim from {-max(rank, 1)} to {max(rank, 1) - 1}",),
        )
    return dim % max(rank, 1)


def axes_of(dim: Dim, rank: int) -> tuple[int, ...]:
    """The axes that ``dim`` names, from the front, in order; all of them for None."""
    if dim is None or dim == ():
        return tuple(range(rank))
    axes = tuple(axis_of(d, rank) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(axes)) < len(axes):
        raise ShapeError("an axis is named twice in dim", found=(f"dim={dim}",))
    return tuple(sorted(axes)) if rank else ()


def reduced_shape(
    sizes: Sizes, shapes: tuple[Shape, ...], dim: tuple[int, ...], keepdim: bool = False, **options: Hashable
) -> Shape:
    """The shape without the reduced axes, or with 1 in their place."""
    kept = [sp.Integer(1) if a in dim else size for a, size in enumerate(shapes[0]) if keepdim or a not in dim]
    return tuple(kept)


def write_moved_entries(count: int, places: Callable[[int], str], sizes: Callable[[int], str] | None = None) -> str:
    """``out[i0,i1] = x[…]`` for an output with so many axes: where each index of x is, and how far each of out runs.

    >>> write_moved_entries(2, lambda a: f"i{1 - a}")
    'out[i0,i1] = x[i1,i0]'
    """
    left = ",".join(f"i{a}" + (f"<{sizes(a)}" if sizes else "") for a in range(count))
    right = ",".join(filter(None, map(places, range(count))))
    return f"out{f'[{left}]' if left else ''} = x{f'[{right}]' if right else ''}"


PAIR = sp.Integer(2)


def unpaired(sizes: Sizes, shape: Shape) -> Shape:
    """The shape of the complex tensor whose pairs have ``shape``."""
    if not shape:
        raise ShapeError("a complex number is a pair (re, im): a last axis of size 2", found=("a single number",))
    if sizes.number(shape[-1]) not in (None, 2):
        raise ShapeError("a complex tensor is one of pairs (re, im): its last axis has size 2")
    sizes.unify(shape[-1], PAIR)
    return shape[:-1]


def window_count(size: Size, kernel: Size, stride: int, before: Size, after: Size, dilation: int) -> Size:
    """How many places a window has on an axis."""
    room = sp.expand(as_size(size + before + after - dilation * (kernel - 1) - 1))
    return room + 1 if stride == 1 else sp.floor(room / stride) + 1


def transposed_positions(size: Size, kernel: Size, stride: int, padding: int, dilation: int, extra: int = 0) -> Size:
    """The places that a transposed convolution adds to."""
    return as_size((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)


def numpy_positions(n: Any) -> Any:
    """Positions as NumPy takes them, which counts negative ones from the end; a fraction is none."""
    given = np.asarray(n)
    with np.errstate(invalid="ignore"):  # NaN and ∞ are no whole numbers either
        found = given.astype(np.int64)
    if (found != given).any():
        raise IndexError(f"the position {given[found != given][0]} is not an integer")
    return found


def from_zero(n: Any) -> Any:
    """Positions where torch takes no negative ones."""
    found = numpy_positions(n)
    if found.size and found.min() < 0:
        raise IndexError(f"the position {found.min()} is negative")
    return found


class WrittenTwice(Exception):
    """An entry that is written more than once: which value stays is a matter of the order."""


def falls_with_size(start: int | None, stop: int | None) -> bool:
    """Whether less is kept the longer the axis is, as by ``[-3:2]``: no formula says that for every size."""
    return start is not None and stop is not None and start < 0 < stop
