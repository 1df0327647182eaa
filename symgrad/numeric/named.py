"""Arrays with named axes, and what is done to them: contracting, adding at places, numbering entries."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import opt_einsum
import sympy as sp

from symgrad.exactness import in_floats
from symgrad.indexing import Index, Unravel
from symgrad.indexing.symbols import Expr
from symgrad.lowering.reading import number
from symgrad.numeric.budget import MOST_IN_GRID, allowed, check_grid
from symgrad.numeric.exact import Array, as_float, exact
from symgrad.shapes import Size

MOST_FRACTIONS = 1_000_000
"""Products of fractions that one contraction may take."""


@dataclass(frozen=True)
class Named:
    """An array whose axes are indices, in order."""

    array: Array
    axes: tuple[Index, ...]

    def __post_init__(self) -> None:
        if not hasattr(self.array, "shape"):  # NumPy hands out the one entry of an array of objects as it is
            object.__setattr__(self, "array", np.asarray(self.array))

    def on(self, axes: Sequence[Index]) -> Array:
        """The array with one axis for each of ``axes``, of size 1 where it does not vary."""
        order = [self.axes.index(a) for a in axes if a in self.axes]
        shape = iter(np.transpose(self.array, order).shape)
        return np.transpose(self.array, order).reshape([next(shape) if a in self.axes else 1 for a in axes])

    def between(self, axis: Index, span: slice) -> Named:
        """So much of the array along an axis; all of it where it does not vary."""
        if axis not in self.axes:
            return self
        key = (*[slice(None)] * self.axes.index(axis), span)
        return Named(self.array[key], self.axes)


def union(parts: Sequence[Named]) -> tuple[Index, ...]:
    """The axes of all ``parts``, each once, in order of appearance."""
    return tuple(dict.fromkeys(axis for part in parts for axis in part.axes))


def fitting(parts: Sequence[Named], exactly: bool = False) -> tuple[Index, ...]:
    """The axes of all ``parts``, whose grid is going to be laid out: refused where it would not fit.

    Raises `OverflowError` for fractions that would take long.
    """
    sizes = [size for _, size in lengths_of(parts)]
    check_grid(sizes)
    if exactly and math.prod(sizes) > MOST_FRACTIONS:
        raise OverflowError
    return union(parts)


def lengths_of(parts: Sequence[Named]) -> list[tuple[Index, int]]:
    """How long each axis of ``parts`` is."""
    return list({axis: size for part in parts for axis, size in zip(part.axes, part.array.shape, strict=True)}.items())


def multiplied(parts: Sequence[Named], masks: Sequence[Named]) -> Named:
    """The product of ``parts``; 0 where one of ``masks`` is 0, even beside an infinity or a NaN."""
    axes = fitting(parts)
    result: Any = parts[0].on(axes)
    for part in parts[1:]:
        result = result * part.on(axes)
    for mask in masks if masks and not finite([Named(np.asarray(result), axes)]) else ():
        result = np.where(mask.on(axes) == 0, 0, result)
    return Named(np.asarray(result), axes)


def divided(parts: Sequence[Named], below: Sequence[Named]) -> Sequence[Named]:
    """The product of ``parts`` over that of ``below``, which alone may be no float: y² where y is 1e300."""
    if not below:
        return parts
    axes = fitting([*parts, *below])
    found = quotient(len(parts), *(part.on(axes) for part in (*parts, *below)))
    return [Named(found, axes)]


def quotient(above: int, *arrays: Array) -> Array:
    """The product of the first arrays over that of the others: fractions and powers of two, each by themselves."""
    fractions, powers = zip(*(np.frexp(as_float(array)) for array in arrays), strict=True)
    result: Any = math.prod(fractions[:above])
    for fraction in fractions[above:]:
        result = result / fraction
    return np.asarray(np.ldexp(result, sum(powers[:above]) - sum(powers[above:])))


def finite(parts: Sequence[Named]) -> bool:
    """Whether every entry is a finite number, or a formula without 1/0 in it; fractions and integers always are."""
    return all(
        bool(np.isfinite(part.array).all())
        if part.array.dtype == np.float64
        else part.array.dtype != object
        or not any(isinstance(entry, sp.Basic) and entry.has(sp.zoo, sp.nan) for entry in part.array.flat)
        for part in parts
    )


def contract(parts: Sequence[Named], bound: Sequence[Index], sizes: Mapping[Size, int], exactly: bool) -> Named:
    """Σ over ``bound`` of the product of ``parts``."""
    axes = union(parts)
    kept = tuple(a for a in axes if a not in bound)
    check_contraction(parts, kept, exactly)
    factor = int(np.prod([number(k.size, sizes) for k in bound if k not in axes], dtype=object))
    letters = {axis: opt_einsum.get_symbol(n) for n, axis in enumerate(axes)}
    terms = ["".join(letters[a] for a in part.axes) for part in parts]
    arrays = [part.array if exactly else as_float(part.array) for part in parts]
    equation = f"{','.join(terms)}->{''.join(letters[a] for a in kept)}"
    summed = partial(opt_einsum.contract if len(arrays) > 1 else np.einsum, equation)
    result = np.asarray((in_floats(summed) if exactly else summed)(*arrays))
    return Named(result * factor if factor != 1 else result, kept)


def in_shares(
    parts: Sequence[Named],
    bound: Collection[Index],
    held: Collection[Index],
    work: Callable[[Sequence[Named]], Named],
) -> Named:
    """``work``, which sums over ``bound``, share by share along the longest axis where all at once is too much.

    Axes that are ``held`` are not shared out. So the images of a batch go back through a convolution a few at a time:
    before its windows are added up, each has all the entries of a window for each of its own.
    """
    lengths = {axis: length for axis, length in lengths_of(parts) if axis not in bound}
    points, most = math.prod(lengths.values()), allowed(MOST_IN_GRID)
    free = [axis for axis in lengths if axis not in held]
    if points <= most or not free:
        return work(parts)
    axis = max(free, key=lambda own: lengths[own])
    share = max(1, lengths[axis] * most // points)
    spans = [slice(begin, begin + share) for begin in range(0, lengths[axis], share)]
    found = [work([own.between(axis, span) for own in parts]) for span in spans]
    array = np.concatenate([own.array for own in found], axis=found[0].axes.index(axis))
    return Named(array, found[0].axes)


def check_contraction(parts: Sequence[Named], kept: Sequence[Index], exactly: bool) -> None:
    """Refuse a contraction whose result would not fit; in fractions, give up one that would take long."""
    lengths = dict(lengths_of(parts))
    check_grid([lengths[axis] for axis in kept])
    if exactly and math.prod(lengths.values()) > MOST_FRACTIONS:
        raise OverflowError


def added(places: Array, terms: Array, length: int, exactly: bool) -> Array:
    """Each term added at its place."""
    if not exactly:
        return np.bincount(places, weights=as_float(terms), minlength=length)
    result = exact(np.zeros(length, dtype=np.int64))
    np.add.at(result, places, terms)
    return result


def merged(
    array: Array, indices: Sequence[Expr], numbers: Callable[[Sequence[Size]], tuple[int, ...]]
) -> tuple[Array, list[Expr]]:
    """Axes that unravel one entry number, joined into one axis with that number as its index."""
    result: list[Expr] = []
    axis = 0
    while axis < len(indices):
        first = indices[axis]
        group = indices[axis : axis + len(first.shape)] if isinstance(first, Unravel) else ()
        whole = [isinstance(i, Unravel) and i.args[1:] == first.args[1:] and i.axis == a for a, i in enumerate(group)]
        at = len(result)
        if group and all(whole) and numbers(first.shape) == array.shape[at : at + len(group)]:
            array = array.reshape([*array.shape[:at], -1 if array.size else 0, *array.shape[at + len(group) :]])
            result.append(first.number)
            axis += len(group)
        else:
            result.append(first)
            axis += 1
    return array, result


def ravel_rows(indices: Sequence[Array], shape: Sequence[int]) -> Array:
    """Row-major numbers."""
    result: Any = 0
    for index, size in zip(indices, shape, strict=True):
        result = result * size + index
    return np.asarray(result)


def unravel_rows(numbers: Array, shape: Sequence[int]) -> tuple[Array, ...]:
    """Indices from row-major numbers."""
    result: list[Array] = []
    for size in reversed(shape):
        result.append(np.mod(numbers, size))
        numbers = np.floor_divide(numbers, size)
    return tuple(reversed(result))
