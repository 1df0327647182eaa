"""Equations to a graph, with the care that their numbers ask for.

Comes in: equations, the shapes of what they read, the numbers of their sizes, what their numbers are. Goes out: a graph
of array operations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.indexing import Equation
from symgrad.lowering.arrays import NUMPY
from symgrad.lowering.build import Builder
from symgrad.lowering.care import TAME, Care
from symgrad.lowering.careful import Careful
from symgrad.lowering.graph import MOST_ENTRIES, Graph, NoPlan
from symgrad.lowering.objects import Objects
from symgrad.lowering.opened import opened
from symgrad.lowering.places import Places
from symgrad.lowering.products import Products
from symgrad.lowering.reading import number
from symgrad.lowering.terms import Lengths, Terms
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
