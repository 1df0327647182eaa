"""Sums over windows, of whatever stride, dilation, padding and turn, held against naive loops."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import sympy as sp

from symgrad.indexing import Bracket, Equation, access, fresh_axes
from symgrad.lowering import lowered
from symgrad.lowering.graph import FLOAT
from symgrad.numeric.playing import evaluate
from tests.compare import assert_same
from tests.naive import Loops

LONG, SHORT, KERNEL = 9, 3, 4
WINDOWS = [
    *product((1, 2), (1, 2, -1), (1, 2, 3), (-2, 3), ("all", "its own", "another")),
    *product((1,), (1,), (2, 3), (-2,), ("a product",)),
]
"""Stride, dilation, divisor, padding, and which places the divisor has to divide: the window's own, or others."""


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("stride", "dilation", "divisor", "padding", "divided"), WINDOWS)
def test_a_sum_over_a_window(stride: int, dilation: int, divisor: int, padding: int, divided: str) -> None:
    """With the window on either side: as a convolution reads it, and as its gradient adds it up."""
    generator = np.random.default_rng(7)
    for outer, inner in ((LONG, SHORT), (SHORT, LONG)):
        i, j = fresh_axes((sp.Integer(outer), sp.Integer(KERNEL)))
        top = stride * i + dilation * j + padding
        place = sp.floor(top / divisor)
        inside = Bracket(sp.Ge(place, 0)) * Bracket(sp.Lt(place, inner))
        asked = {"all": sp.S.Zero, "its own": top, "another": top + i, "a product": top * i}[divided]
        rest = sp.Mod(asked, divisor)
        arrays = {"x": generator.normal(size=inner), "w": generator.normal(size=KERNEL)}
        read = sp.KroneckerDelta(rest, 0) * access("x", (place,)) * access("w", (j,))
        equation = Equation((i,), sp.Sum(inside * read, (j, 0, KERNEL - 1)))
        assert_same(Loops(arrays, {}).array(equation), evaluate(equation, arrays, {}), seed=7, tolerance=1e-9)


@pytest.mark.parametrize(("slope", "first"), list(product((1, -1), (2, 5, 8))))
def test_what_goes_around_is_read_in_slices(slope: int, first: int) -> None:
    """As `roll` and `flip` read it: of slices that are joined, without an array of positions."""
    (i,) = fresh_axes((sp.Integer(LONG),))
    equation = Equation((i,), access("x", (sp.Mod(slope * i + first, LONG),)))
    arrays = {"x": np.arange(float(LONG))}
    assert_same(Loops(arrays, {}).array(equation), evaluate(equation, arrays, {}), seed=0)
    graph, _ = lowered((equation,), {}, {"x": (LONG,)}, {"x": FLOAT})
    assert not {"iota", "take"} & {node.kind for node in graph.nodes}
