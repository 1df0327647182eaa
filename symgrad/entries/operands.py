"""The operands of an entry: domains of samples, rules for shapes, axes named by an option.

A `Domain` serves examples, assumed values and tests. It is not the domain of definition: relu is sampled away from its
kink at 0, a power on one side of it. Pages state domains of definition that were found by trying
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

    Integers only if ``whole``, both ends of ``draw`` included. ``matrix`` is the kind of matrix in the last two axes:
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
        """Whether the domain has a bound."""
        return not self.whole and (self.low, self.high) != (-inf, inf)


def reals(within: float = 2.0, avoid: tuple[float, ...] = ()) -> Domain:
    """Return the domain of all real numbers, sampled within ±``within``, away from ``avoid``."""
    return Domain(draw=(-within, within), avoid=avoid)


def positive(within: float = 3.0) -> Domain:
    """Return the domain x > 0, sampled between 0.3 and ``within``."""
    return Domain(low=0.0, draw=(0.3, within))


def open_interval(low: float, high: float) -> Domain:
    """Return the domain low < x < high, sampled at least a tenth of the width away from the ends."""
    margin = (high - low) / 10
    return Domain(low, high, draw=(low + margin, high - margin))


def integers_between(low: int, high: int) -> Domain:
    """Return the domain of the integers low, …, high: positions, classes, a mask."""
    return Domain(low - 0.5, high + 0.5, draw=(low, high), whole=True)


Ints = Any  # an int or several as users write them; one for each axis of space once prepared
Fits = Callable[..., Any]  # (sizes, *shapes, **options): refuses operands that do not fit each other
Dim = Any  # None, an int or a tuple of ints as users write it; a tuple of ints once prepared


def broadcast_all(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> tuple[Any, ...]:
    """Return the common shape for every operand that is not left out."""
    common = common_shape(sizes, shapes)
    return tuple(None if shape is None else common for shape in shapes)


def common_shape(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> Shape:
    """Return the common shape of the operands under broadcasting."""
    return sizes.broadcast_shapes([shape for shape in shapes if shape is not None])


def require_broadcastable(sizes: Sizes, own: Shape, whole: Shape, message: str) -> None:
    """Require that ``own`` broadcasts to ``whole``; with more axes it is refused by ``message``, given both numbers."""
    if len(own) > len(whole):
        raise ShapeError(message.format(len(own), len(whole)))
    for size, wanted in zip(own[::-1], whole[::-1], strict=False):
        if sizes.find(size) != 1:
            sizes.unify(size, wanted)


def require_rank(shape: Shape, rank: int) -> Shape:
    """Return ``shape`` if it has at least ``rank`` axes, else raise `ShapeError`."""
    if len(shape) < rank:
        raise ShapeError(
            f"this takes a tensor with at least {rank} {'axis' if rank == 1 else 'axes'}, not {len(shape)}"
        )
    return shape


def require_equal_rank(sizes: Sizes, *shapes: Shape, **options: Hashable) -> None:
    """Raise `ShapeError` unless all shapes have equally many axes."""
    if len({len(shape) for shape in shapes}) > 1:
        ranks = " and ".join(str(len(shape)) for shape in shapes)
        raise ShapeError(f"this takes tensors with as many axes each, not {ranks}")


def parse_fit_pattern(pattern: str, operands: Sequence[str]) -> Fits:
    """Return the check that ``"x[…,n] weight[n]"`` describes: axes with the same letter, and those of ``…``, match."""
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
    """Require that the first shape is (n, channels, space…) or (channels, space…)."""
    x = shapes[0]
    if len(x) not in (space + 1, space + 2):
        raise ShapeError(f"the input has {len(x)} axes, it needs {space + 2}, or {space + 1} without a batch")


def channels_per_group(sizes: Sizes, channels: Size, groups: int | Size) -> Size:
    """Return the number of channels of each of ``groups`` equal groups; raise `ShapeError` if they do not divide."""
    known, count = sizes.number(channels), sizes.number(as_size(groups))
    if known is not None and count is not None and known % count:
        raise ShapeError(f"{known} channels do not make {count} equal groups")
    sizes.whole(channels / groups)
    return channels / groups


def unify_vector(sizes: Sizes, shape: Shape | None, size: Any, name: str) -> None:
    """Require that ``shape`` is None or that of a vector with ``size`` entries."""
    if shape is None:
        return
    if len(shape) != 1:
        raise ShapeError(f"{name} is a vector, not a tensor with {len(shape)} axes")
    sizes.unify(shape[0], size)


def exact_number(value: Any) -> Expr:
    """Return a plain number as an exact one: 1e-5 is 1/100000. Very large and very small floats stay floats."""
    short = isinstance(value, float) and (value == 0 or 1e-30 < abs(value) < 1e8)
    return sp.Rational(str(value)) if short else sp.sympify(value, strict=True)


def axis_of(dim: Any, rank: int) -> int:
    """Return ``dim`` counted from the front; raise `ShapeError` if there is no such axis."""
    if not isinstance(dim, int) or isinstance(dim, bool):
        raise InputError("dim has to be an integer", found=(repr(dim),))
    if not -max(rank, 1) <= dim < max(rank, 1):
        raise ShapeError(
            f"there is no axis {dim} in a tensor with {rank} {'axis' if rank == 1 else 'axes'}",
            hints=(f"dim from {-max(rank, 1)} to {max(rank, 1) - 1}",),
        )
    return dim % max(rank, 1)


def axes_of(dim: Dim, rank: int) -> tuple[int, ...]:
    """Return the axes that ``dim`` names, counted from the front and sorted; all axes for None."""
    if dim is None or dim == ():
        return tuple(range(rank))
    axes = tuple(axis_of(d, rank) for d in (dim if isinstance(dim, (tuple, list)) else (dim,)))
    if len(set(axes)) < len(axes):
        raise ShapeError("an axis is named twice in dim", found=(f"dim={dim}",))
    return tuple(sorted(axes)) if rank else ()


def reduced_shape(
    sizes: Sizes, shapes: tuple[Shape, ...], dim: tuple[int, ...], keepdim: bool = False, **options: Hashable
) -> Shape:
    """Return the shape without the reduced axes, or with 1 in their place."""
    kept = [sp.Integer(1) if a in dim else size for a, size in enumerate(shapes[0]) if keepdim or a not in dim]
    return tuple(kept)


def write_moved_entries(count: int, places: Callable[[int], str], sizes: Callable[[int], str] | None = None) -> str:
    """Write ``out[i0,i1] = x[…]`` for an output with ``count`` axes: the index of x on each axis, and ranges of out's.

    >>> write_moved_entries(2, lambda a: f"i{1 - a}")
    'out[i0,i1] = x[i1,i0]'
    """
    left = ",".join(f"i{a}" + (f"<{sizes(a)}" if sizes else "") for a in range(count))
    right = ",".join(filter(None, map(places, range(count))))
    return f"out{f'[{left}]' if left else ''} = x{f'[{right}]' if right else ''}"


PAIR = sp.Integer(2)


def complex_shape(sizes: Sizes, shape: Shape) -> Shape:
    """Return the shape of the complex tensor whose pairs (re, im) have ``shape``."""
    if not shape:
        raise ShapeError("a complex number is a pair (re, im): a last axis of size 2", found=("a single number",))
    if sizes.number(shape[-1]) not in (None, 2):
        raise ShapeError("a complex tensor is one of pairs (re, im): its last axis has size 2")
    sizes.unify(shape[-1], PAIR)
    return shape[:-1]


def window_count(size: Size, kernel: Size, stride: int, before: Size, after: Size, dilation: int) -> Size:
    """Return the number of positions of a window along an axis."""
    room = sp.expand(as_size(size + before + after - dilation * (kernel - 1) - 1))
    return room + 1 if stride == 1 else sp.floor(room / stride) + 1


def transposed_positions(size: Size, kernel: Size, stride: int, padding: int, dilation: int, extra: int = 0) -> Size:
    """Return the output size of a transposed convolution along an axis."""
    return as_size((size - 1) * stride - 2 * padding + dilation * (kernel - 1) + extra + 1)


def numpy_positions(n: Any) -> Any:
    """Return positions as integers, which may be negative as in NumPy; raise `IndexError` for fractions."""
    given = np.asarray(n)
    with np.errstate(invalid="ignore"):  # NaN and ∞ are no whole numbers either
        found = given.astype(np.int64)
    if (found != given).any():
        raise IndexError(f"the position {given[found != given][0]} is not an integer")
    return found


def require_positions_from_zero(n: Any) -> Any:
    """Return positions as integers; raise `IndexError` for negative ones, as torch does."""
    found = numpy_positions(n)
    if found.size and found.min() < 0:
        raise IndexError(f"the position {found.min()} is negative")
    return found


class WrittenTwice(Exception):
    """Raised when an entry is written more than once, so that its value depends on the order."""


def falls_with_size(start: int | None, stop: int | None) -> bool:
    """Whether a slice such as ``[-3:2]`` keeps fewer entries of a longer axis: no formula holds for every size."""
    return start is not None and stop is not None and start < 0 < stop
