"""The primitives of a plan in NumPy, and what plays a plan: NumPy here, other libraries where they are at home.

Comes in: what a node of a graph is told. Goes out: a function of the arrays of its operands; `Engine`, the few things
that differ from one library of arrays to the other; and what SymPy's classes are called among the primitives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from symgrad.functions import PRIMITIVES, finite, high, low, number_or_zero, sign
from symgrad.indexing import Bracket, Ravel, Unravel, is_constant
from symgrad.indexing.symbols import Expr, is_access
from symgrad.lowering.windows import fold_slices, strided

Array = npt.NDArray[Any]
Play = Callable[..., Any]
Primitives = Mapping[str, Callable[..., Play]]
"""By the kind of a node: what makes its function from what it is told."""

UFUNCS: dict[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.true_divide, "power": np.power,
    "sqrt": np.sqrt, "negative": np.negative,
    "maximum": lambda a, b, out=None: np.maximum(a, b, out=out),
    "minimum": lambda a, b, out=None: np.minimum(a, b, out=out),
    **{name: function for name, (_, function) in PRIMITIVES.items() if isinstance(function, np.ufunc)},
}  # fmt: skip
"""Functions that can write into the memory of an operand, by name."""
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **UFUNCS,
    "remainder": np.remainder, "floor_divide": np.floor_divide,
    "equal": np.equal, "not_equal": np.not_equal, "less": np.less, "less_equal": np.less_equal,
    "greater": np.greater, "greater_equal": np.greater_equal, "both": np.logical_and, "any": np.logical_or,
    "not": np.logical_not,
    "clip": np.clip,
    "float": lambda x: np.asarray(x).astype(np.float64), "whole": lambda x: np.asarray(x).astype(np.int64),
    "steady": lambda x: np.where(np.isfinite(x), x, 0.0),
    **{name: function for name, (_, function) in PRIMITIVES.items()},
}  # fmt: skip
"""Functions of entries, by name."""
ROWS = 1 << 10
LARGE, BLOCK = 1 << 12, 1 << 15
"""From how many entries on a choice goes by bits, and how many at a time: as many as stay near the processor."""


def product(left: Array, right: Array) -> Array:
    """Stacks of matrices multiplied: BLAS takes rows or columns that lie together; a copy is quicker than a loop."""
    if left.ndim > 2:
        left, right = together(left), together(right)
    found: Array = np.matmul(left, right)
    return found


def together(array: Array) -> Array:
    """The array, or a copy, with rows or columns that lie together in each matrix."""
    rows, columns = array.strides[-2:]
    size = array.itemsize
    if (columns == size and rows >= size * array.shape[-1]) or (rows == size and columns >= size * array.shape[-2]):
        return array
    return np.ascontiguousarray(array)


def sum_along(axes: tuple[int, ...], array: Array) -> Array:
    """The sum along axes; of everything in one go, along the first ones row by row."""
    if len(axes) == array.ndim:
        return np.asarray(np.add.reduce(array, axis=None))
    if axes == tuple(range(len(axes))):
        return rows_summed(len(axes), array)
    found: Array = np.add.reduce(array, axis=axes)
    return found


def rows_summed(first: int, array: Array) -> Array:
    """The sum along the first axes."""
    rest = array.shape[first:]
    rows = array.reshape((math.prod(array.shape[:first]), math.prod(rest)))
    if rows.shape[0] >= ROWS and rows.dtype == np.float64:  # in blocks, so that few digits are lost
        rows = np.asarray([np.add.reduce(rows[n : n + ROWS], axis=0) for n in range(0, rows.shape[0], ROWS)])
    found: Array = np.add.reduce(rows, axis=0)
    return found.reshape(rest)


def quotient(above: int, *arrays: Array) -> Array:
    """The product of the first arrays over that of the others: fractions and powers of two, each by themselves."""
    fractions, powers = zip(*map(np.frexp, arrays), strict=True)
    found: Any = math.prod(fractions[:above])
    for fraction in fractions[above:]:
        found = found / fraction
    return np.asarray(np.ldexp(found, sum(powers[:above]) - sum(powers[above:])))


def taken(axis: int, array: Array, places: Array) -> Array:
    """Entries at places along an axis, the nearest where one lies outside; 0 of an axis without entries."""
    if not array.shape[axis]:
        return np.zeros([*array.shape[:axis], *places.shape, *array.shape[axis + 1 :]], dtype=array.dtype)
    return np.take(array, places, axis=axis, mode="clip")


@dataclass(frozen=True, eq=False)
class Put:
    """Row by row, each term added at its place; one that lies outside is left out."""

    length: int

    def __call__(self, terms: Array, places: Array) -> Array:
        """For places that are given with the terms."""
        found: Array = self.knowing(places)(terms)
        return found

    def knowing(self, places: Array) -> Play:
        """For places that stay the same: whether they lie inside is asked once."""
        inside = (places >= 0) & (places < self.length)
        return partial(self.put, places, None if inside.all() else inside)

    def put(self, places: Array, inside: Array | None, terms: Array) -> Array:
        """Each term at its place, those outside left out."""
        rows, length = len(terms), self.length
        if inside is not None:
            terms, places = np.where(inside, terms, 0), np.where(inside, places, 0)
        if rows > 1:
            places = places + np.arange(0, rows * length, length).reshape(-1, 1)
        return np.bincount(places.reshape(-1), weights=terms.reshape(-1), minlength=rows * length).reshape(rows, length)


def place_in_zeros(place: int, length: int, array: Array) -> Array:
    """Zeros, with an array at one place of a new first axis."""
    array = np.asarray(array)  # a constant may be a bare number
    result = np.zeros((length, *array.shape), dtype=array.dtype)
    result[place] = array
    return result


SCANS: dict[str, Any] = {"sum": np.cumsum, "prod": np.cumprod, "logaddexp": np.logaddexp.accumulate}


def scanned(function: str, axis: int, backwards: bool, array: Array) -> Array:
    """What the entries so far come to."""
    if backwards:
        array = np.flip(array, axis)
    found: Array = SCANS[function](array, axis=axis)
    return np.flip(found, axis) if backwards else found


def masked(mask: Any, array: Any, out: Any = None) -> Array:
    """An array where a condition holds, 0 elsewhere, be there an infinity."""
    return by_bits(out, mask, array) if alike(mask, array) else np.where(mask, array, 0)


def picked(mask: Any, array: Any, other: Any, out: Any = None) -> Array:
    """One of two by a condition."""
    return by_bits(out, mask, array, other) if alike(mask, array, other) else np.where(mask, array, other)


def alike(mask: Any, *arrays: Any) -> bool:
    """Whether arrays are large, lie in memory in the same order, and hold floats; or numbers."""
    if np.size(mask) < LARGE or not mask.flags.c_contiguous:
        return False
    return all(
        np.ndim(a) == 0 or (a.dtype == np.float64 and a.shape == mask.shape and a.flags.c_contiguous) for a in arrays
    )


def by_bits(out: Any, mask: Any, *arrays: Any) -> Array:
    """One of two by the bits of floats: no slower where the condition changes from entry to entry."""
    found = np.empty(mask.shape) if out is None else out
    whole, kept = found.reshape(-1).view(np.int64), mask.reshape(-1).view(np.int8)
    given = [np.asarray(a, dtype=np.float64).reshape(-1).view(np.int64) for a in arrays]
    for start in range(0, kept.size, BLOCK):
        part = slice(start, start + BLOCK)
        bits = np.negative(kept[part], dtype=np.int64)
        first, *second = (a[part] if a.size > 1 else a for a in given)
        for other in second:
            bits &= first ^ other
            np.bitwise_xor(bits, other, out=whole[part])
        if not second:
            np.bitwise_and(bits, first, out=whole[part])
    return found


def reduce_with_numpy(function: str, axes: tuple[int, ...]) -> Play:
    """A reduction by its name."""
    if function == "sum":
        return partial(sum_along, axes)
    if function == "max":  # of no entries −∞
        return partial(np.maximum.reduce, axis=axes, initial=-np.inf)
    return partial(np.multiply.reduce, axis=axes)


NUMPY: Primitives = {
    "iota": lambda length: lambda: np.arange(length),
    "reshape": lambda shape: lambda array: array.reshape(shape),
    "transpose": lambda order: lambda array: array.transpose(order),
    "expand": lambda shape: lambda array: np.broadcast_to(array, shape),
    "item": lambda axis, place: lambda array: array[(slice(None),) * axis + (place,)],
    "window": lambda *told: lambda array: strided(array, *told),
    "map": lambda name: FUNCTIONS[name],
    "where": lambda: picked,
    "masked": lambda: masked,
    "join": lambda axis: lambda *arrays: np.concatenate(arrays, axis),
    "reduce": reduce_with_numpy,
    "product": lambda: product,
    "quotient": lambda above: partial(quotient, above),
    "take": lambda axis: partial(taken, axis),
    "put": Put,
    "place": lambda place, length: partial(place_in_zeros, place, length),
    "fold": lambda parts, length, axis: lambda array: fold_slices(array, parts, length, axis),
    "scan": lambda function, axis, backwards: partial(scanned, function, axis, backwards),
}


LIGHT = 1 << 15
"""Bytes up to which a result that never changes is kept."""


@dataclass(frozen=True, eq=False)
class Engine:
    """``array`` makes one of its own arrays of NumPy's; ``light``: whether keeping a result costs hardly any memory.

    ``writes``: whether arrays may be written into, which nobody reads any more.
    """

    primitives: Primitives
    array: Callable[[Any], Any]
    add: Callable[[Any, Any], Any]
    light: Callable[[Any], bool]
    writes: bool


def is_light(value: Any) -> bool:
    """A view, or a small array."""
    return np.asarray(value).nbytes < LIGHT or (isinstance(value, np.ndarray) and not value.flags.owndata)


ON_NUMPY = Engine(NUMPY, lambda value: value, np.add, is_light, True)


RELATIONS = {
    sp.Eq: "equal", sp.Ne: "not_equal", sp.Lt: "less", sp.Le: "less_equal", sp.Gt: "greater", sp.Ge: "greater_equal",
}  # fmt: skip

NAMES: dict[Any, str] = {
    symbolic: name
    for name, (symbolic, _) in PRIMITIVES.items()
    if isinstance(symbolic, type) and symbolic is not sp.exp
}
"""Functions of floats; a power of e has rules of its own."""

EITHER: dict[Any, str] = {
    sp.Abs: "abs", sp.sign: "sign", sign: "sign", sp.floor: "floor", sp.Max: "maximum", high: "high", low: "low",
}  # fmt: skip
"""Functions that leave whole numbers whole, and exact ones exact."""

FINITE = (finite, high, low, number_or_zero)
"""Functions that ask whether a number is one: of an entry that is, they say nothing."""

MOST_FACTORS = 8
"""A power up to this one is a product."""

RATIONAL: Any = (
    sp.Add, sp.Mul, sp.Sum, sp.Product, sp.KroneckerDelta, Bracket, sp.Tuple, Ravel, Unravel, sp.Mod,
    sp.Abs, sp.sign, sign, high, low, sp.floor, sp.Max, sp.Eq, sp.Ne, sp.Lt, sp.Le, sp.Gt, sp.Ge,
)  # fmt: skip


@lru_cache(maxsize=1024)
def is_rational(expression: Expr) -> bool:
    """Whether rational numbers in give rational numbers out."""
    if is_access(expression) or expression.is_Symbol or expression.is_Rational:
        return True
    if is_constant(expression):
        return False
    if expression.is_Pow:
        return bool(expression.exp.is_Integer) and is_rational(expression.base)
    return isinstance(expression, RATIONAL) and all(is_rational(a) for a in expression.args)
