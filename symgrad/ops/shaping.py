"""Shape rules that several entries share, and numbers as their equations have them."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import sympy as sp

from symgrad.indexing.symbols import Expr
from symgrad.shapes import Shape, Sizes


def broadcast(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> tuple[Any, ...]:
    """Every operand that is there is broadcast to the common shape."""
    common = common_shape(sizes, shapes)
    return tuple(None if shape is None else common for shape in shapes)


def common_shape(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Hashable) -> Shape:
    """The output has the operands' common shape."""
    return sizes.broadcast_shapes([shape for shape in shapes if shape is not None])


def number(value: Any) -> Expr:
    """A plain number as an exact one: 1e-5 is 1/100000."""
    return sp.Rational(str(value)) if isinstance(value, float) else sp.sympify(value, strict=True)
