"""Shapes as they are given from outside, and the sizes they begin with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import index
from typing import SupportsIndex

from symgrad.errors import InputError
from symgrad.language.outside.arguments import shown
from symgrad.shapes import Shape, Size, Sizes

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
