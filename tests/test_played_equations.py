"""Places and zeros that a run_plan_or_parts equation has exactly."""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

import symgrad
from symgrad.calculus.local_derivatives import local_jacobian
from symgrad.indexing import Equation, access, fresh
from symgrad.lowering.arrays import place_in_zeros
from symgrad.lowering.graph import EDGES
from symgrad.numeric.playing import evaluate, run_plan_or_parts
from tests.compare import assert_same


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("torch.fft.fft(torch.complex(x, y))", 8), ("torch.fft.rfft(x)", 8), ("torch.fft.fft(torch.complex(x, y))", 6),
        ("torch.fft.irfft(torch.complex(x, y), n=4)", 3), ("out[k<5] = x[k]·sin(π·k/2)", 5),
        ("out[k<8] = Σ_j x[j]·cos(2·π·j·k/size(x, 0))", 8),
    ],
)  # fmt: skip
def test_a_cosine_of_quarter_turns_is_zero(text: str, size: int) -> None:
    """Where a cosine or a sine of a Fourier matrix is 0, J is, and not 6e-17."""
    found = np.abs(symgrad.jacobian(text, "x", check=False, shapes={"x": (size,)}).dense().astype(float))
    small = found < 1e-12
    assert small.any()
    assert_same(found[small], np.zeros(small.sum()), tolerance=0.0)


def test_a_cosine_of_quarter_turns_is_zero_at_the_edges_too() -> None:
    made = symgrad.explain("out[j<7, k<8] = x[j]·cos(π·(2·j + 1)·k/14)", shapes={"x": (7,)}, check=False).program
    found = run_plan_or_parts(local_jacobian(made.steps[-1], made).equation, {"x": np.ones(7)}, {}, EDGES)
    assert_same(found[:, 7], np.zeros(7), tolerance=0.0)
    assert np.abs(found[:, 6]).min() > 0.1


def test_a_bare_number_is_placed_as_an_array_is() -> None:
    """Which factors of a constant come first is not said: what is left may be a number of Python's."""
    assert_same([0, 1], place_in_zeros(1, 2, 1), what="a number")
    assert_same([[0, 0], [3, 4]], place_in_zeros(1, 2, np.array([3, 4])), what="a row")


def test_a_place_that_there_is_not_is_nowhere() -> None:
    """δ(2, p)·x[q] of an axis of two entries was written past its end."""
    p, q = fresh("p", sp.Integer(2)), fresh("q", sp.Integer(3))
    equation = Equation((p, q), sp.KroneckerDelta(2, p) * access("x", (q,)))
    assert_same(np.zeros((2, 3)), evaluate(equation, {"x": np.ones(3)}, {}))
