"""The items in the brackets of an indexed tensor: integers, slices, new axes.

A key has one item per axis it reads: ("int", i), ("slice", start, stop, step), ("new",) or ("all",). Once the axis is
known, a slice also says where it begins and how many entries it keeps: ("slice", start, stop, step, begin, count), both
formulas in the axis wherever Python's rule is one, ``n − 3`` for ``[-3:]``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sympy as sp

from symgrad.entries.equations import op
from symgrad.entries.operands import falls_with_size
from symgrad.entries.spec import At, Opening, View, no_alignment
from symgrad.errors import ShapeError, UnsupportedError
from symgrad.indexing.symbols import Expr
from symgrad.program import Role
from symgrad.shapes import Shape, Size, Sizes

Item = tuple[Any, ...]


def slice_bounds(sizes: Sizes, size: Size, start: int | None, stop: int | None, step: int) -> tuple[Size, Size]:
    """Where the slice begins, and how many entries it keeps."""
    if always_empty(start, stop):
        return sp.S.Zero, sp.S.Zero
    if falls_with_size(start, stop):
        size = require_known_size(sizes, size)
    first, last = end(sizes, size, start, sp.S.Zero), end(sizes, size, stop, sizes.find(size))
    span = last - first
    number = sizes.number(span)
    if number is not None and number <= 0:
        sizes.fix(span)
        return first, sp.S.Zero
    sizes.require(span)
    return first, span if step == 1 else sp.floor((span + step - 1) / step)


def end(sizes: Sizes, size: Size, at: int | None, usual: Size) -> Size:
    """The place ``at``, counted from the end where it is negative, and not beyond the axis."""
    if at is None:
        return usual
    number = sizes.number(size)
    if number is not None and abs(at) > number:
        sizes.fix(size)
        return sp.Integer(0 if at < 0 else number)
    sizes.require(size - abs(at))
    return sizes.find(size) + at if at < 0 else sp.Integer(at)


def always_empty(start: int | None, stop: int | None) -> bool:
    """Whether ``[start:stop]`` keeps nothing of any axis."""
    begin = start or 0
    return stop == 0 or (stop is not None and (begin < 0) == (stop < 0) and begin >= stop)


def require_known_size(sizes: Sizes, size: Size) -> Size:
    """The size as a number."""
    number = sizes.number(size)
    if number is None:
        raise UnsupportedError(
            "a slice from the end to a place counted from the front needs an axis whose size is known",
            hints=("give the tensor a shape",),
        )
    sizes.fix(size)
    return sp.Integer(number)


def read_items(key: Sequence[Item], shape: Shape) -> list[tuple[Item, Size | None]]:
    """Each item with the size of the axis it reads (None for a new axis), missing axes as full slices."""
    reads = [item for item in key if item[0] != "new"]
    if len(reads) > len(shape):
        raise ShapeError(f"{len(reads)} indices for a tensor with {len(shape)} axes")
    padded = [*key, *[("all",)] * (len(shape) - len(reads))]
    axes = iter(shape)
    return [(item, None if item[0] == "new" else next(axes)) for item in padded]


def placed_item(sizes: Sizes, size: Size, item: Item) -> Item:
    """A slice with where it begins and how many entries it keeps; anything else as it is."""
    if item[0] == "int":
        sizes.require(size - (item[1] + 1 if item[1] >= 0 else -item[1]))
    if item[0] != "slice":
        return item
    _, start, stop, step = item[:4]
    begin, count = slice_bounds(sizes, size, start, stop, step or 1)
    return ("slice", start, stop, step or 1, int(begin) if begin.is_Integer else begin, count)


def sliced_shape(sizes: Sizes, shapes: tuple[Shape, ...], key: tuple[Item, ...]) -> Shape:
    """One size per slice and new axis."""
    result: list[Size] = []
    for item, size in read_items(key, shapes[0]):
        if item[0] == "new":
            result.append(sp.Integer(1))
        elif item[0] == "all":
            result.append(size)
        elif item[0] == "int":
            number = sizes.number(size)
            if number is not None and not -number <= item[1] < number:
                raise ShapeError(f"index {item[1]} is out of range for an axis of size {number}")
        else:
            result.append(item[5])
    return tuple(result)


def python_key(key: Sequence[Item]) -> tuple[Any, ...]:
    """The key as Python's brackets take it."""
    forms: dict[str, Callable[..., Any]] = {
        "new": lambda: None, "all": lambda: slice(None), "int": int, "slice": lambda *ends: slice(*ends[:3]),
    }  # fmt: skip
    return tuple(forms[word](*numbers) for word, *numbers in key)


def open_item(open_: Opening, item: Item, size: Size | None) -> Item:
    """One item; a slice whose ends move with its axis stays as it is."""
    if item[0] not in ("int", "slice") or size is None:
        return item
    if item[0] == "int":
        return ("int", open_(item[1], size - 1))
    _, start, stop, step, begin, count = item
    if step != 1 or start is None or stop is None or start != begin or stop - start != count:
        return item
    place = open_(begin, size - count)
    return ("slice", place, place + count, step, place, count)


def entry_at(at: At, x: View, key: tuple[Item, ...]) -> Expr:
    """The entry at the places of the key."""
    out, indices = iter(at), []
    for item, size in read_items(key, x.shape):
        if item[0] == "int":
            indices.append(sp.sympify(item[1], strict=True) if item[1] >= 0 else size + item[1])
            continue
        index = next(out)
        if item[0] == "all":
            indices.append(index)
        elif item[0] == "slice":
            indices.append(item[4] + item[3] * index)
    return x[indices]


op("getitem(x, key: any)", "out[i] = x[start + step·i]", "the entries at an index or slice of each axis, as the key has them", ("Tensor.__getitem__",),
   reading=entry_at, shape=sliced_shape, align=no_alignment,
   resolve=lambda sizes, shapes, key: {"key": tuple(placed_item(sizes, size, item) for item, size in read_items(key, shapes[0]))},
   slots=lambda open_, shapes, key: {"key": tuple(open_item(open_, item, size) for item, size in read_items(key, shapes[0]))},
   torch=lambda torch, x, key: x[python_key(key)], role=Role.INDEXES, result_dtype="kept",
   examples=("x[0]", "x[:, 1:]", "x[:, None] with x:2", "x[::2] with x:5", "x[..., -1]"))  # fmt: skip
