"""Axes that are numbered through: an axis of m·n entries as two, of m and of n, or two as one.

Comes in: an equation whose axis i is read as (i // n, i mod n), or whose axes i, j are read as entry i·n + j. Goes out:
the same entries over other axes; the result is reshaped, and what was looked up place by place is a view.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import sympy as sp

from symgrad.indexing import Equation, Index, Ravel, Unravel, fresh
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.windows import line
from symgrad.shapes import Size

Number = Callable[[Size], int]


def opened(equation: Equation, number: Number) -> Equation:
    """``equation`` over axes that it is read by, in the same order of entries."""
    found = numbered_through(equation, number)
    axes: list[Index] = []
    swap: dict[Expr, Expr] = {}
    for axis in found.axes:
        reads = [u for u in found.right.atoms(Unravel) if u.number == axis]
        shapes = {u.shape for u in reads}
        if len(shapes) != 1 or not fits(shape := next(iter(shapes)), number(axis.size), number):
            axes.append(axis)
            continue
        parts = [fresh(axis.name, size) for size in shape]
        swap |= {u: parts[u.axis] for u in reads}
        swap[axis] = Ravel(*parts, *shape)
        axes += parts
    return Equation(tuple(axes), found.right.xreplace(swap)) if swap else found


def fits(shape: tuple[Size, ...], length: int, number: Number) -> bool:
    """Whether a shape numbers all entries of an axis."""
    return 0 < length == math.prod(number(size) for size in shape)


def numbered_through(equation: Equation, number: Number) -> Equation:
    """All axes as one, where they are read by the remainder of their row-major number alone."""
    rests = equation.right.atoms(sp.Mod)
    if len(equation.axes) < 2 or len(rests) != 1 or any(a for rest in rests for a in accesses(rest)):
        return equation
    (rest,) = rests
    lengths = [number(axis.size) for axis in equation.axes]
    top = line(rest.args[0].xreplace({s: sp.Integer(number(s)) for s in sizes_in(rest.args[0])}))
    slopes = dict(top.slopes) if top is not None else {}
    if top is None or any(slopes.get(a) != math.prod(lengths[n + 1 :]) for n, a in enumerate(equation.axes)):
        return equation
    whole = fresh(equation.axes[0].name, sp.Integer(math.prod(lengths)))
    right = equation.right.xreplace({rest: sp.Mod(whole + top.constant, number(rest.args[1]))})
    return equation if set(equation.axes) & right.free_symbols else Equation((whole,), right)


def sizes_in(node: Expr) -> list[Size]:
    """The sizes among the symbols of an index expression."""
    return [s for s in node.free_symbols if not isinstance(s, Index)]
