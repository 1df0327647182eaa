"""The same numbers lying otherwise in memory: what reaches a backward inside a model is rarely contiguous.

Comes in: an array. Goes out: a `Placed`, from which NumPy and torch make the same view. ``.sum()`` sends strides of 0,
a transpose the strides the other way round, ``cat`` and slices those of a wider tensor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from symgrad.numeric import Array

JUNK = 97.0
"""What lies between the entries of a view: code that reads by its own idea of the strides shows it."""


@dataclass(frozen=True, eq=False)
class Placed:
    """A flat buffer and how a tensor lies in it, strides and offset counted in entries."""

    buffer: Array
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def view(self, dtype: np.dtype[np.generic]) -> Array:
        """The tensor as NumPy sees it."""
        flat = self.buffer.astype(dtype)
        bytes_of = tuple(stride * flat.itemsize for stride in self.strides)
        return np.lib.stride_tricks.as_strided(flat[self.offset :], self.shape, bytes_of)


@dataclass(frozen=True)
class Layout:
    """A name, the values that a tensor can have in it (a stride of 0 repeats entries), and how they are placed."""

    name: str
    fits: Callable[[Array], bool]
    values: Callable[[Array], Array]
    place: Callable[[Array], Placed]


def ordered(array: Array, order: tuple[int, ...]) -> Placed:
    """Axes stored in ``order``, the last of them next to each other."""
    moved = np.ascontiguousarray(array.transpose(order))
    strides = [0] * array.ndim
    step = 1
    for axis in reversed(order):
        strides[axis] = step
        step *= max(1, array.shape[axis])
    return Placed(moved.reshape(-1), array.shape, tuple(strides))


def transposed(array: Array) -> Placed:
    """The first axis fastest; a vector at every other place."""
    if array.ndim > 1:
        return ordered(array, tuple(reversed(range(array.ndim))))
    buffer = np.full(2 * array.size, JUNK)
    buffer[::2] = array
    return Placed(buffer, array.shape, (2,))


def wider(array: Array) -> Placed:
    """Rows of a tensor with two more columns, of which these are the middle ones."""
    padded = np.full((*array.shape[:-1], array.shape[-1] + 2), JUNK)
    padded[..., 1:-1] = array
    strides = tuple(stride // padded.itemsize for stride in padded.strides)
    return Placed(padded.reshape(-1), array.shape, strides, 1)


def shifted(array: Array) -> Placed:
    """Contiguous, but not at the beginning of its storage."""
    plain = contiguous(array)
    return Placed(np.concatenate([np.full(3, JUNK), plain.buffer]), array.shape, plain.strides, 3)


def contiguous(array: Array) -> Placed:
    """Row by row."""
    return ordered(array, tuple(range(array.ndim)))


def repeated(array: Array, axes: tuple[int, ...]) -> Placed:
    """Stored once along ``axes``."""
    picked = array[tuple(slice(0, 1) if axis in axes else slice(None) for axis in range(array.ndim))]
    plain = contiguous(picked)
    return Placed(plain.buffer, array.shape, tuple(0 if a in axes else s for a, s in enumerate(plain.strides)))


def first_along(array: Array, axes: tuple[int, ...]) -> Array:
    """The first entry along ``axes``, everywhere."""
    return repeated(array, axes).view(np.dtype(np.float64)).copy()


def same(array: Array) -> Array:
    """The values as they are."""
    return array


def every(array: Array) -> tuple[int, ...]:
    """All axes."""
    return tuple(range(array.ndim))


def several(array: Array) -> bool:
    """Whether there is more than one entry along some axis."""
    return array.size > 1


LAYOUTS = (
    Layout("transposed", several, same, transposed),
    Layout(
        "expanded, as .sum() sends it", several, lambda a: first_along(a, every(a)), lambda a: repeated(a, every(a))
    ),
    Layout(
        "expanded along axis 0, as .sum(0) sends it", lambda a: a.ndim > 1 and a.shape[0] > 1 < a.size // a.shape[0],
        lambda a: first_along(a, (0,)), lambda a: repeated(a, (0,)),
    ),
    Layout("a slice of a wider tensor, as cat sends it", lambda a: a.ndim > 1 and several(a), same, wider),
    Layout("at an offset in its storage", several, same, shifted),
    Layout("channels last", lambda a: a.ndim == 4 and several(a), same, lambda a: ordered(a, (0, 2, 3, 1))),
)  # fmt: skip


def layouts(array: Array) -> Iterator[Layout]:
    """The layouts that an array of this shape can have."""
    yield from (layout for layout in LAYOUTS if layout.fits(array))
