"""Equations to a graph, with the care that their numbers ask for.

Comes in: equations, the shapes of what they read, the numbers of their sizes, what their numbers are. Goes out: a graph
of array operations. An axis of m·n entries that is read as (i // n, i mod n) becomes two, of m and of n, and axes that
are read as entry i·n + j become one: the result is reshaped, and what was looked up place by place is a view.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from symgrad.indexing import Equation, Index, Ravel, Unravel, fresh
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.arrays import NUMPY
from symgrad.lowering.build import Builder
from symgrad.lowering.careful import Careful, Objects
from symgrad.lowering.graph import MOST_ENTRIES, TAME, Care, Graph, NoPlan
from symgrad.lowering.places import Places
from symgrad.lowering.reading import number
from symgrad.lowering.terms import Lengths, Products, Terms
from symgrad.lowering.windows import line
from symgrad.shapes import Size


def lowered(
    equations: Sequence[Equation],
    sizes: Mapping[Size, int],
    shapes: Mapping[str, tuple[int, ...]],
    holds: Mapping[str, str],
    care: Care = TAME,
    most: int = MOST_ENTRIES,
) -> tuple[Graph, list[int]]:
    """The graph of several equations, and the node of each result; `NoPlan` where one has none."""
    graph = Graph(primitives=NUMPY if care.field is None else care.field.primitives, most=most)
    found = []
    terms = Terms(graph, Lengths(sizes), {})
    kind = Objects if care.field is not None else Careful if care.ordered else Builder
    builder = kind(Products(terms), Places(terms, shapes, holds, sizes), sizes, care)
    for equation in equations:
        shape = [number(axis.size, sizes) for axis in equation.axes]
        over = opened(equation, builder.size)
        terms.first = {axis: n for n, axis in enumerate(over.axes)}
        value = builder.value(over.right)
        term = terms.numeric(value) if care.whole else terms.floats(value)
        if not set(term.axes) <= set(over.axes):
            raise NoPlan
        found.append(graph.reshape(terms.whole(term, over.axes), shape))
    return graph, found


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
