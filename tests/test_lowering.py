"""One lowering: a plan in the cheapest order, one in the order of the edges and naive loops agree for every operation.

The loops know neither contractions nor views nor put-adds. Held at the sizes of the examples and at others, for the
equation and for its pullbacks.
"""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from symgrad.language import read_program
from symgrad.lowering.arrays import masked, picked
from symgrad.lowering.graph import EDGES
from symgrad.numeric import as_float, forward
from symgrad.numeric.playing import evaluate, evaluate_forward, run_plan_or_parts
from tests.cases import Case, first_by_default
from tests.compare import assert_same
from tests.local_equations import by_plan, local_equations
from tests.naive import Loops
from tests.sampling import draw_inputs

OTHER = {2: 3, 3: 5, 4: 2, 5: 4, 6: 7}
"""Sizes that plans are held against each other at beside the examples' own."""


LOST = ("svd", "eigh", "eigvalsh", "eig", "matrix_norm", "norm", "pinv", "lstsq")
"""Of operations that begin so, a plan may meet 1/0 behind a condition: then it is not used."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", first_by_default(4))
def test_a_plan_is_what_loops_and_the_order_of_the_edges_compute(case: Case) -> None:
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        found = by_plan(equation, arrays, sizes)
        expected = run_plan_or_parts(equation, arrays, sizes, EDGES)
        if not np.isfinite(found).all():
            assert what.startswith(LOST) or not np.isfinite(expected).all(), what
            continue
        assert_same(expected, found, seed=case.seed, what=f"{what} in another order")
        if found.size <= 64:
            loops = Loops(arrays, sizes).array(equation)
            assert_same(loops, found, seed=case.seed, tolerance=1e-8, what=f"{what} by loops")


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", first_by_default(4))
def test_a_plan_at_other_sizes(case: Case) -> None:
    shapes = case.resized(OTHER)
    if shapes is None:
        return
    program = read_program(case.example.text, shapes=shapes).program
    values = forward(program, draw_inputs(case.op, shapes, case.seed))
    for what, equation, arrays, sizes in local_equations(program, values, case.seed):
        if all(array.size for array in arrays.values()):
            found, expected = by_plan(equation, arrays, sizes), run_plan_or_parts(equation, arrays, sizes, EDGES)
            if np.isfinite(found).all():
                assert_same(expected, found, seed=case.seed, what=f"{what} at {dict(shapes)}")


def laid_out(array: np.ndarray) -> np.ndarray:
    """The same entries, backwards and with gaps in memory."""
    held = np.zeros((*array.shape[::-1], 3), dtype=array.dtype)
    there = held[(*[slice(None, None, -1)] * array.ndim, slice(1, 2))][..., 0].T if array.ndim else array.copy()
    there[...] = array
    return there


@pytest.mark.parametrize("case", first_by_default(12))
def test_whichever_way_an_equation_is_evaluated(case: Case) -> None:
    """A cached plan knows no call before it: not its layout, nor what became of its result."""
    for what, equation, arrays, sizes in local_equations(case.program, case.values, case.seed):
        expected = run_plan_or_parts(equation, arrays, sizes, EDGES)
        strange = {name: laid_out(array) for name, array in arrays.items()}
        for way, given in product((evaluate, evaluate_forward), (arrays, strange, arrays)):
            found = way(equation, given, sizes)
            if way is not evaluate_forward or np.isfinite(as_float(found)).all():
                assert_same(expected, found, seed=case.seed, what=f"{what}, {way}")
            if way is not evaluate_forward:  # which may hand on the memory of what it was given
                found[...] = 7


LAYOUTS = {
    "a row for all": lambda a: a[:1],
    "turned": lambda a: np.asfortranarray(a),
    "every other column": lambda a: np.repeat(a, 2, 1)[:, ::2],
    "single precision": lambda a: a.astype(np.float32),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_large_array_in_any_layout_is_masked_entry_by_entry(name: str) -> None:
    generator = np.random.default_rng(1)
    whole, other = generator.normal(size=(2, 96, 64))
    array, mask = LAYOUTS[name](whole), other > 0
    assert_same(np.where(mask, array, 0), masked(mask, array), seed=1)
    assert_same(np.where(mask, array, other), picked(mask, array, other), seed=1)
