"""What the table says about operands of known sizes, asked once for the same numbers.

Comes in: an entry, the shapes of its operands and the options. Goes out: a `Ruling`: the options in canonical form,
what the operands are broadcast to, and the result's shape. Where every size is a number nothing else decides these and
nothing is learned from them, so they are kept; sizes that are symbols are unified, and asked anew.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy as sp

from symgrad.entries.spec import Op
from symgrad.shapes import Shape, Sizes

MOST = 4096
"""Rulings that are kept."""
PLAIN = (type(None), bool, int, float, complex, str, Fraction)
"""Options that their own words tell apart: 1, 1.0 and True are three."""

Shapes = tuple[Shape | None, ...]


@dataclass(frozen=True)
class Ruling:
    """Options, shapes to broadcast to, and the shape of the result before it is looked up among known sizes."""

    options: Mapping[str, Hashable]
    targets: Shapes
    shape: Shape


_KEPT: dict[Hashable, tuple[Op, Ruling]] = {}
"""With the entry, so that no other one gets its identity."""


def ruling(op: Op, sizes: Sizes, shapes: Shapes, tensors: Sequence[bool], options: Mapping[str, Any]) -> Ruling:
    """What ``op`` says; ``tensors`` are those of the operands that are no numbers. Raises what the table raises."""
    key = key_of(op, shapes, tensors, options)
    if key is not None and key in _KEPT:
        return _KEPT[key][1]
    prepared = op.resolve(sizes, shapes, **op.prepare(shapes, **options))
    targets = op.align(sizes, shapes, **prepared)
    whole = zip(targets, tensors, shapes, strict=True)
    aligned = tuple(sizes.shape(t) if tensor else None if s is None else () for t, tensor, s in whole)
    found = Ruling(prepared, targets, sizes.shape(op.shape(sizes, aligned, **prepared)))
    if key is not None:
        if len(_KEPT) >= MOST:
            _KEPT.clear()
        _KEPT[key] = op, found
    return found


def key_of(op: Op, shapes: Shapes, tensors: Sequence[bool], options: Mapping[str, Any]) -> Hashable | None:
    """What a ruling depends on; None where that is more than numbers and words."""
    if not all(n.is_Integer for shape in shapes if shape is not None for n in shape):
        return None
    said = [(name, spoken(value)) for name, value in sorted(options.items())]
    if any(value is None for _, value in said):
        return None
    return id(op), shapes, tuple(tensors), tuple(said)


def spoken(value: Any) -> Hashable | None:
    """An option with its type, since 1, 1.0 and True are three; None where it is more than numbers and words."""
    if type(value) in (tuple, list):
        parts = tuple(spoken(part) for part in value)
        return None if None in parts else (type(value), parts)
    return (type(value), repr(value)) if type(value) in PLAIN or isinstance(value, sp.Integer) else None
