"""Values and shapes from outside → NumPy arrays that are exact where they can be, and the sizes to begin with.

Comes in: nested lists, numbers, fractions, NumPy arrays, torch tensors (recognised by what they can do; torch
is never imported here); shapes. Goes out: int64 where all entries are integers, fractions in an object array where
some are, float64 otherwise. What is not finite, not real, ragged or too large is refused by name and place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from numbers import Rational
from operator import index
from typing import Any, SupportsIndex

import numpy as np
import numpy.typing as npt

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.language.outside.arguments import shown
from symgrad.shapes import Shape, Size, Sizes

Array = npt.NDArray[Any]

MOST = 10**7
"""No array has more entries than this."""
MOST_AXES = 16


def value_from(given: object, name: str = "the value") -> Array:
    """``given`` as an array.

    >>> value_from([[1, 2], [3, 4]]).dtype, value_from([0.5, 1]).dtype
    (dtype('int64'), dtype('float64'))
    >>> value_from([Fraction(1, 2), 1])
    array([Fraction(1, 2), Fraction(1, 1)], dtype=object)

    Raises `InputError` for entries that are no finite numbers and for arrays that are too large, `ShapeError`
    for ragged lists, `UnsupportedError` for complex numbers.
    """
    if isinstance(given, Mapping):
        keys = [str(key) for key in given if str(key).isidentifier()][:3]
        raise InputError(
            f"{name} is a dictionary, not numbers", found=(shown(given),),
            hints=(f"each input by its own name: {', '.join(f'{key}=…' for key in keys or ['x'])}",
                   "sizes: shapes={'x': (2, 3)}"),
        )  # fmt: skip
    if hasattr(given, "detach") and hasattr(given, "cpu"):
        given = from_torch(given, name)
    if isinstance(given, (np.ndarray, np.generic)):
        return from_array(np.asarray(given), name)
    shape = shape_of(given, name)
    if math.prod(shape) > MOST:
        raise too_large(shape, name)
    return from_entries(flat(given), shape, name)


def too_large(shape: Sequence[int], name: str) -> InputError:
    """The refusal of an array with more than `MOST` entries."""
    return InputError(
        f"{name} is too large", found=(f"{'×'.join(map(str, shape))} entries",), hints=(f"at most {MOST:,} entries",)
    )


def from_torch(tensor: Any, name: str) -> Array:
    """The entries of a torch tensor, wherever it lives and whether or not it requires a gradient."""
    try:
        plain = tensor.detach().cpu()
        try:
            return np.asarray(plain.numpy())
        except TypeError:  # bfloat16, which NumPy lacks
            return np.asarray(plain.double().numpy())
    except (TypeError, RuntimeError, ValueError, AttributeError) as error:
        raise InputError(f"{name} cannot be read as an array", found=(str(error).splitlines()[0],)) from None


def holds_truths(given: object) -> bool:
    """Whether ``given`` is an array, a list or a `Value` of truth values, which torch takes for a mask."""
    if hasattr(given, "truths"):
        return bool(given.truths)
    if hasattr(given, "dtype"):
        return str(given.dtype) in ("bool", "torch.bool")
    entries = flat(given)
    return bool(entries) and all(isinstance(entry, (bool, np.bool_)) for entry in entries)


def from_array(array: Array, name: str) -> Array:
    """A NumPy array in one of the three types."""
    if array.size > MOST:
        raise too_large(array.shape, name)
    if array.dtype.kind == "c":
        raise complex_number(name)
    if array.dtype.kind == "O":
        return from_entries(list(array.reshape(-1)), array.shape, name)
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name} does not hold numbers", found=(f"dtype {array.dtype}",))
    if array.dtype.kind == "u" and array.size and int(array.max()) > np.iinfo(np.int64).max:
        raise too_long(int(array.max()), name)
    if array.dtype.kind != "f":
        return np.array(array, dtype=np.int64)
    result = np.array(array, dtype=np.float64)
    finite = np.isfinite(result)
    if not finite.all():
        bad = np.argwhere(~finite)[0]
        raise not_finite(float(result[tuple(bad)]), tuple(int(i) for i in bad), name)
    return result


def from_entries(entries: list[object], shape: tuple[int, ...], name: str) -> Array:
    """An array of ``shape`` from its entries in row-major order."""
    numbers = [number(entry, n, shape, name) for n, entry in enumerate(entries)]
    if any(isinstance(entry, float) for entry in numbers):
        return np.array([float(entry) for entry in numbers], dtype=np.float64).reshape(shape)
    if any(isinstance(entry, Fraction) for entry in numbers):
        result = np.empty(len(numbers), dtype=object)
        result[:] = [Fraction(entry) for entry in numbers]
        return result.reshape(shape)
    return np.array(numbers, dtype=np.int64).reshape(shape)


def number(entry: object, place: int, shape: tuple[int, ...], name: str) -> int | float | Fraction:
    """The entry at ``place`` (in row-major order) as an int, a fraction or a finite float."""
    if isinstance(entry, np.generic) or (hasattr(entry, "detach") and hasattr(entry, "item")):
        entry = entry.item()
    if isinstance(entry, (bool, int)):
        if abs(int(entry)) > np.iinfo(np.int64).max:
            raise too_long(int(entry), name)
        return int(entry)
    if isinstance(entry, Rational):
        fraction = Fraction(int(entry.numerator), int(entry.denominator))
        if max(abs(fraction.numerator), fraction.denominator) > np.iinfo(np.int64).max:
            raise too_long(max(abs(fraction.numerator), fraction.denominator), name)
        return int(fraction) if fraction.denominator == 1 else fraction
    if isinstance(entry, complex):
        raise complex_number(name)
    if isinstance(entry, float):
        if not math.isfinite(entry):
            raise not_finite(entry, place_of(place, shape), name)
        return entry
    raise InputError(f"{spot(name, place_of(place, shape))} is not a number", found=(shown(entry),))


def place_of(place: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The indices of an entry counted in row-major order."""
    return tuple(int(i) for i in np.unravel_index(place, shape)) if shape else ()


def spot(name: str, at: tuple[int, ...]) -> str:
    """``x[0,1]``."""
    return f"{name}[{','.join(map(str, at))}]" if at else name


def not_finite(entry: float, at: tuple[int, ...], name: str) -> InputError:
    """The refusal of nan and infinities."""
    return InputError(f"{spot(name, at)} is not a finite number", found=(str(entry),))


def complex_number(name: str) -> UnsupportedError:
    """The refusal of complex numbers."""
    return UnsupportedError(
        f"{name} holds complex numbers, which symgrad does not differentiate yet",
        hints=("pairs (re, im): view_as_complex(x)", "symgrad.capture takes complex tensors"),
    )


def too_long(entry: int, name: str) -> InputError:
    """The refusal of integers beyond 64 bits."""
    digits = len(f"{abs(entry):x}") * 4
    return InputError(
        f"{name} holds an integer of about {digits} bits", hints=("at most 63 bits, or a decimal number",)
    )


def shape_of(given: object, name: str) -> tuple[int, ...]:
    """The shape of a nested list; raises `ShapeError` where its rows differ."""
    shape: list[int] = []
    level: list[tuple[tuple[int, ...], object]] = [((), given)]
    while level and any(isinstance(entry, (list, tuple)) for _, entry in level):
        first = len(level[0][1]) if isinstance(level[0][1], (list, tuple)) else None
        for place, entry in level:
            length = len(entry) if isinstance(entry, (list, tuple)) else None
            if length != first:
                raise ragged(name, place, length, level[0][0], first)
        shape.append(first or 0)
        if len(shape) > MOST_AXES or len(level) * (first or 0) > MOST:
            raise too_large((*shape,), name)
        level = [
            ((*place, n), item)
            for place, entry in level
            if isinstance(entry, (list, tuple))
            for n, item in enumerate(entry)
        ]
    return tuple(shape)


def ragged(
    name: str, place: tuple[int, ...], length: int | None, first: tuple[int, ...], expected: int | None
) -> ShapeError:
    """The refusal of a list whose rows differ."""

    def told(where: tuple[int, ...], count: int | None) -> str:
        row = f"{name}{''.join(f'[{n}]' for n in where)}"
        entries = "1 entry" if count == 1 else f"{count} entries"
        return f"{row} has {entries}" if count is not None else f"{row} is a single number"

    return ShapeError(
        f"{name} is ragged", found=(f"{told(first, expected)}, {told(place, length)}",), hints=("rows of one length",)
    )


def flat(given: object) -> list[object]:
    """The entries of a nested list in row-major order."""
    if not isinstance(given, (list, tuple)):
        return [given]
    entries: list[object] = []
    for item in given:
        if isinstance(item, (list, tuple)):
            entries += flat(item)
        else:
            entries.append(item)
    return entries


Wanted = tuple[int | str | None, ...]
"""A given shape: a number, a letter (one size wherever it stands), or None for unknown."""

EXAMPLE = "2,3 or n,3, where n is to be inferred"


def checked_shapes(shapes: Mapping[str, Sequence[SupportsIndex | str]]) -> dict[str, Wanted]:
    """Given shapes in plain integers and letters; raises `InputError` for anything else."""
    return {name: tuple(checked_size(name, size) for size in shape) for name, shape in shapes.items()}


def checked_size(name: str, size: object) -> int | str:
    """One given size."""
    if isinstance(size, str) and size.isidentifier():
        return size
    if isinstance(size, SupportsIndex) and not isinstance(size, bool) and index(size) >= 0:
        return index(size)
    raise InputError(f"the shape of {name} is not made of sizes", found=(shown(size),), hints=(EXAMPLE,))


def starting_shape(sizes: Sizes, wanted: Wanted, same: dict[str, Size]) -> Shape:
    """Sizes for a given shape: numbers as given, one new size per letter, a new one for every None.

    ``same`` holds the letters met so far, and is added to.
    """
    shape = []
    for size in wanted:
        if isinstance(size, str) and size not in same:
            same[size] = sizes.fresh()
        if size is None:
            shape.append(sizes.fresh())
        else:
            shape.append(same[size] if isinstance(size, str) else sizes.given(size))
    return tuple(shape)
