"""Where a matrix can be nonzero is told before it is there: held against the matrix, over the whole table."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.sparse import csr_array

import symgrad
from symgrad.explanation.jacobian_plan import make_jacobian_plan, multiply_patterns
from symgrad.indexing import fresh
from symgrad.numeric import chain_jacobian, patterns, sparse_jacobian
from symgrad.numeric.jacobian_places import enumerated, parts_of, solve_deltas
from symgrad.numeric.patterns import measured, pattern_of
from tests.cases import Case, first_by_default
from tests.compare import assert_same


def found_in(matrix: csr_array) -> patterns.Pattern:
    """The pattern of a matrix that was formed, counted one by one."""
    whole = matrix.tocoo()
    return measured(whole.row.astype(np.int64), whole.col.astype(np.int64), *matrix.shape)


@pytest.mark.one_in(30)
@pytest.mark.parametrize("case", first_by_default())
def test_a_plan_says_what_the_matrix_turns_out_to_be(case: Case) -> None:
    for d in case.derived:
        if d.jacobian is None:
            continue
        triplets = sparse_jacobian(d.axes, d.inner, d.jacobian, case.values)
        numbers = np.unique(triplets.rows * max(triplets.shape[1], 1) + triplets.columns)
        seen = measured(*np.divmod(numbers, max(triplets.shape[1], 1)), *triplets.shape)
        told = pattern_of(d.axes, d.inner, d.jacobian, case.values.sizes, case.values.arrays)
        assert told.exact
        assert (told.nonzeros, told.in_row, told.in_column) == (seen.nonzeros, seen.in_row, seen.in_column)
        assert told.blocks in (seen.blocks, None)
        assert seen.in_column <= told.row_colors <= seen.row_colors
        assert seen.in_row <= told.column_colors <= seen.column_colors
        before = pattern_of(d.axes, d.inner, d.jacobian, case.values.sizes, None)
        assert before.nonzeros == told.nonzeros if before.exact else before.nonzeros >= told.nonzeros
        assert before.row_colors >= told.in_column
        assert before.column_colors >= told.in_row


@pytest.mark.one_in(45)
@pytest.mark.parametrize("case", first_by_default())
def test_numbers_from_the_structure_are_those_of_the_chain(case: Case) -> None:
    for d in case.derived:
        if d.jacobian is None:
            continue
        found = sparse_jacobian(d.axes, d.inner, d.jacobian, case.values)
        chained = chain_jacobian(case.program, d.name, case.values)
        assert_same(chained, found.sparse(), seed=case.seed, what=f"{case.name} by {d.name}, sparse")
        assert_same(chained, np.asarray(found.dense(), dtype=float), seed=case.seed, what=f"{case.name}, dense")
        again = sparse_jacobian(d.axes, d.inner, d.jacobian, case.values)  # what was laid out is there
        assert_same(found.sparse(), again.sparse(), seed=case.seed, what=f"{case.name} by {d.name}, again")


@pytest.mark.one_in(30)
@pytest.mark.parametrize("case", first_by_default())
def test_places_put_together_hold_every_entry(case: Case) -> None:
    for d in case.derived:
        bound = pattern_of(*multiply_patterns(case.program, d.name), case.values.sizes, case.values.arrays)
        matrix = chain_jacobian(case.program, d.name, case.values)
        seen = found_in(matrix)
        assert bound.nonzeros >= matrix.count_nonzero()
        assert bound.row_colors >= (np.asarray(matrix.todense()) != 0).sum(0).max(initial=0)
        assert bound.rows, bound.columns == (seen.rows, seen.columns)


def test_a_band_is_laid_out_without_its_square() -> None:
    matrix = symgrad.jacobian("F.conv1d(x, w)", "x", shapes={"x": (1, 1, 10**5), "w": (1, 1, 3)}, check=False)
    assert matrix.formula is not None
    (term,) = patterns.widest(matrix.formula)
    parts = parts_of(solve_deltas(term, matrix.axes, matrix.inner), matrix.axes, matrix.inner)
    (band,) = (part for part in parts if part.conditions)
    found = enumerated(band, matrix.program.sizes, {}, most=4 * 10**5)  # the grid of both indices has 10¹⁰ points
    assert found is not None
    assert {array.size for array in found.values()} == {3 * (10**5 - 2)}


@pytest.mark.parametrize("wrt", ["x", "w"])
@pytest.mark.parametrize("end", ["k[0]", "k"])
def test_the_chain_from_either_end_is_the_formula(wrt: str, end: str) -> None:
    """From the output back where that is narrower than the input, else from the input on."""
    text = f"h = tanh(x @ w); k = softmax(h + h * h, -1); {end}"
    values = {"x": np.random.default_rng(1).normal(size=(4, 3)), "w": np.random.default_rng(2).normal(size=(3, 5))}
    found = symgrad.explain(text, wrt=[wrt], check=False, **values)
    formula, chain = found.gradients[wrt].jacobian, chain_jacobian(found.program, wrt, found.values)
    assert formula.formula is not None
    assert_same(formula.dense(), chain, seed=1, what="the formula and the chain")


def test_an_exact_zero_has_no_entries() -> None:
    outer, inner = (fresh("i", 3),), (fresh("p", 2),)
    assert pattern_of(outer, inner, 0 * outer[0], {}, None).nonzeros == 0
    matrix = symgrad.jacobian("round(x)", "x", shapes={"x": (3,)}, check=False)
    assert matrix.plan().structure == make_jacobian_plan(matrix.program, "x", None, (3,), (3,)).structure == "zero"


def test_many_entries_have_colours_by_how_many_others_each_line_meets(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as a line meets others, and one: more than are needed, never fewer."""
    there = np.random.default_rng(3).random((12, 40)) < 0.1
    rows, columns = np.nonzero(there)
    least = measured(rows, columns, *there.shape)
    monkeypatch.setattr(patterns, "MOST_GREEDY", 0)
    told = measured(rows, columns, *there.shape)
    meets = (
        [(there[row] * (there.sum(0) - 1)).sum() + 1 for row in range(12)],
        [(there[:, column] * (there.sum(1) - 1)).sum() + 1 for column in range(40)],
    )
    assert (told.row_colors, told.column_colors) == (min(12, max(meets[0])), min(40, max(meets[1])))
    assert told.row_colors >= least.row_colors
    assert told.column_colors >= least.column_colors


def test_what_is_not_laid_out_is_at_most_what_its_terms_have(monkeypatch: pytest.MonkeyPatch) -> None:
    """x + xᵀ: two terms that meet on the diagonal."""
    _, (derived,) = symgrad.derive("x + x.T", shapes={"x": (3, 3)})
    sizes = {index.size: 3 for index in (*derived.axes, *derived.inner)}
    asked = derived.axes, derived.inner, derived.jacobian, sizes, None
    assert (pattern_of(*asked).nonzeros, pattern_of(*asked).exact) == (15, True)
    monkeypatch.setattr(patterns, "LARGEST_WHOLE", 0)
    assert (pattern_of(*asked).nonzeros, pattern_of(*asked).exact) == (15, True)
    monkeypatch.setattr(patterns, "MOST_TERMS", 1)
    assert (pattern_of(*asked).nonzeros, pattern_of(*asked).exact) == (18, False)
