"""Two indices in one place: the place of an entry in a tensor laid out in a row."""

from __future__ import annotations

import numpy as np
import sympy as sp

from symgrad.indexing import Equation, Ravel, access, fresh_axes
from symgrad.numeric.playing import evaluate
from tests.compare import assert_same


def test_a_place_that_names_an_index_twice_lies_on_the_diagonal() -> None:
    (i,) = fresh_axes((sp.Integer(3),))
    x = np.arange(9.0)
    found = evaluate(Equation((i,), access("x", (Ravel(i, i, 3, 3),))), {"x": x}, {})
    assert_same(x.reshape(3, 3).diagonal(), found)
