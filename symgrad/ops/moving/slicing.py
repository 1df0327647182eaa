"""Python's slices on axes whose sizes may be symbols: where ``[start:stop:step]`` begins and how many entries it keeps.

Comes in: an axis and the three numbers that were written. Goes out: both answers as sizes. They are formulas in the
axis wherever Python's rule is one, ``n − 3`` for ``[-3:]``, and the sizes for which it is one are noted. Where an end
lies outside the axis at hand, the axis is taken to be as long as it is here.
"""

from __future__ import annotations

import sympy as sp

from symgrad.errors import UnsupportedError
from symgrad.shapes import Size, Sizes


def cut(sizes: Sizes, size: Size, start: int | None, stop: int | None, step: int) -> tuple[Size, Size]:
    """Where the slice begins, and how many entries it keeps."""
    if always_empty(start, stop):
        return sp.S.Zero, sp.S.Zero
    if falls_with_size(start, stop):
        size = known(sizes, size)
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


def falls_with_size(start: int | None, stop: int | None) -> bool:
    """Whether less is kept the longer the axis is, as by ``[-3:2]``: no formula says that for every size."""
    return start is not None and stop is not None and start < 0 < stop


def known(sizes: Sizes, size: Size) -> Size:
    """The size as a number."""
    number = sizes.number(size)
    if number is None:
        raise UnsupportedError(
            "a slice from the end to a place counted from the front needs an axis whose size is known",
            hints=("give the tensor a shape",),
        )
    sizes.fix(size)
    return sp.Integer(number)
