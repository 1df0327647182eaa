"""What every operation of the table is held to, with no test written for any of them.

Parametrised over the table and over each operation's examples: a new entry is tested because it is there.
Each check compares two things that do not share code: the index equation by naive loops, NumPy's forward,
torch's, the derivation, torch's autograd, finite differences, SymPy entry by entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy as sp

from symgrad import ShapeError, SymgradError
from symgrad.calculus import local_jacobian
from symgrad.indexing import Equation
from symgrad.numeric import chain_jacobian, evaluate, forward, numeric_pullback, numeric_pushforward, sparse_jacobian
from symgrad.oracles.elementwise import Elementwise, FormulaTooLong
from tests import torch_programs, torch_side
from tests.cases import DERIVED, Case, first_by_default, first_stories
from tests.compare import assert_same
from tests.naive import Loops
from tests.sampling import draw_inputs, random_seed
from tests.sentences import assert_true, with_words

EXAMPLES = first_by_default()
"""The first example of every operation is held to one check in five in the default run, the others in the slow one."""


def each(test: Callable[..., None]) -> Any:
    """For every example of the table, one in five of them by default."""
    return pytest.mark.one_in(5)(pytest.mark.parametrize("case", EXAMPLES)(test))


FORMULAS = first_by_default(DERIVED)
"""For the formulas at every size, and for the whole Jacobian: one operation in four in the default run."""
each_derived = pytest.mark.parametrize("case", FORMULAS)
ROWS = 8
"""Of so many outputs a seed asks for the one alone, spread over them; the slow tests form the Jacobian of torch."""
WRITTEN, ALL_WRITTEN = 30, 100
"""Entries of a Jacobian that are looked at in symbols, by default and in the slow tests."""


DENSE: dict[tuple[str, str], np.ndarray] = {}
"""The Jacobians that were formed, by case and input."""


def dense_jacobian(case: Case, name: str) -> np.ndarray:
    """The derived Jacobian's formula in numbers, formed once for all checks."""
    if (case.name, name) not in DENSE:
        DENSE[case.name, name] = formed(case, name)
        DENSE[case.name, name].setflags(write=False)
    return DENSE[case.name, name]


def formed(case: Case, name: str) -> np.ndarray:
    """The derived Jacobian's formula in numbers."""
    whole = jacobian_of(case, name)
    rank = case.output.ndim
    outer, inner = whole.axes[:rank], whole.axes[rank:]
    return np.asarray(sparse_jacobian(outer, inner, whole.right, case.values).dense(), dtype=float)


def jacobian_of(case: Case, name: str) -> Equation:
    """The derived Jacobian's formula."""
    (found,) = (d for d in case.derived if d.name == name)
    assert found.jacobian is not None, "the formula of one operation is never too long"
    return Equation((*found.axes, *found.inner), found.jacobian)


# --- the definition -----------------------------------------------------------------------------------------


@each
def test_definition_numpy_and_torch_agree(case: Case) -> None:
    arrays = dict(case.values.arrays)
    for step in case.program.steps:
        by_loops = Loops(arrays, case.program.sizes).array(local_jacobian(step, case.program).equation)
        assert_same(by_loops, case.values[step.result.name], seed=case.seed, what=f"{step.op} by loops and by NumPy")
    by_torch, _ = torch_programs.program_gradients(case.program, case.inputs, np.ones(case.output.shape))
    assert_same(by_torch, case.output, seed=case.seed, what="torch's forward and NumPy's")


@pytest.mark.one_in(6)
@each
def test_without_entries_it_is_what_torch_makes_of_them(case: Case) -> None:
    """Of tensors in which every axis is empty, or the last; what symgrad refuses, and what torch refuses, is left out."""
    for empty in (lambda shape: (0,) * len(shape), lambda shape: (*shape[:-1], 0) if shape else ()):
        shapes = {name: empty(shape) for name, shape in case.shapes.items()}
        try:
            program = case.at(shapes).program
            inputs = draw_inputs(case.op, shapes, case.seed)
            values = forward(program, inputs)
            expected = torch_side.evaluate(case.example.text, torch_side.tensors(inputs, case.fixed))
        except (SymgradError, RuntimeError, IndexError):
            continue
        assert_same(expected, values[program.output], seed=case.seed, what=f"{case.example.text} at {shapes}")


@each
def test_samples_lie_in_the_domain_and_outputs_are_finite(case: Case) -> None:
    for name, array in case.inputs.items():
        domain = case.op.domain_of(name)
        assert np.all((array > domain.low) & (array < domain.high)), (name, array)
        assert all(np.all(np.abs(array - point) > 1e-3) for point in domain.avoid), (name, array)
        assert domain.whole or domain.matrix or len(np.unique(array)) == array.size, (name, array)
        if array.size > 2 and any(domain.draw[0] < point < domain.draw[1] for point in domain.avoid):
            sides = {tuple(value > point for point in domain.avoid) for value in array.reshape(-1)}
            assert len(sides) > 1, f"all samples of {name} lie on one side of {domain.avoid}"
    for name, array in case.values.arrays.items():
        assert np.all(np.isfinite(np.asarray(array, dtype=float))), (name, array)


# --- the derivative -----------------------------------------------------------------------------------------


@pytest.mark.slow
@each
def test_the_jacobian_is_torchs(case: Case) -> None:
    """By default some of its rows are: those that torch's backward gives for one entry each, below."""
    expected = torch_programs.jacobians(case.program, case.inputs)
    for name in case.names:
        rows = expected[name].reshape(case.output.size, case.inputs[name].size)
        assert_same(rows, dense_jacobian(case, name), seed=case.seed, what=f"the formula's J by {name}")
        chained = chain_jacobian(case.program, name, case.values)
        assert_same(rows, chained, seed=case.seed, what=f"the chained J by {name}")
        said = with_words(case.program, case.values, name)
        if said is not None:
            tensors = torch_side.tensors({**case.values.arrays, "out": case.output, **case.inputs}, case.fixed)
            assert_true(said, np.where(np.abs(rows) < 1e-13, 0.0, rows), tensors, f"{case.name} by {name}")


ALONG = [
    *(pytest.param(*at.values, 2, id=f"{at.id}-2") for at in FORMULAS if not at.marks),
    *(pytest.param(*at.values, None, id=f"{at.id}-axes", marks=pytest.mark.slow) for at in FORMULAS),
]
"""By default along random directions, each of which goes through every entry; in the slow tests along every axis."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize(("case", "directions"), ALONG)
def test_the_jacobian_is_what_differences_find(case: Case, directions: int | None) -> None:
    if dict(case.last.options).get("padding_idx") is not None:
        pytest.skip("torch lets nothing flow to the padding row, though the output does move with it")
    step, generator = 1e-6, np.random.default_rng(case.seed)
    for name in case.names:
        if name in case.fixed or case.op.domain_of(name).whole:  # positions and masks cannot be moved a little
            assert not dense_jacobian(case, name).any(), f"something flows to {name}"
            continue
        size = case.inputs[name].size
        along = generator.uniform(-1, 1, size=(directions, size)) if directions else np.eye(size)
        found = np.empty((case.output.size, len(along)))
        for column, direction in enumerate(along):
            sides = []
            for length in (step, -step):
                moved = case.inputs[name] + length * direction.reshape(case.inputs[name].shape)
                out = forward(case.program, {**case.inputs, name: moved})[case.program.output]
                sides.append(np.asarray(out, dtype=float).reshape(-1))
            found[:, column] = (sides[0] - sides[1]) / (2 * step)
        expected = dense_jacobian(case, name) @ along.T
        assert_same(found, expected, seed=case.seed, tolerance=1e-6, what=f"differences by {name}")


@pytest.mark.slow
@each
def test_the_jacobian_is_what_sympy_finds_entry_by_entry(case: Case) -> None:
    """By default the worked examples ask the same oracle, at round numbers: tests/test_documentation.py."""
    try:
        oracle = Elementwise(case.program, case.values)
    except FormulaTooLong:  # said so on the page, too
        pytest.skip("the explicit formulas of this example grow too long; differences and torch answer for it")
    for name in case.names:
        expected = oracle.jacobian(name)
        assert_same(expected, dense_jacobian(case, name), seed=case.seed, what=f"J by {name}, entry by entry")


@pytest.mark.slow
@each
def test_the_jacobian_formula_by_loops_is_the_same(case: Case) -> None:
    """By default loops go through each step's own Jacobian: names of indices and sizes do not matter, below."""
    for name in case.names:
        expected = Loops(case.values.arrays, case.program.sizes).array(jacobian_of(case, name))
        assert_same(
            expected.reshape(case.output.size, -1), dense_jacobian(case, name), seed=case.seed, what=f"loops by {name}"
        )


@pytest.mark.one_in(6)
@each_derived
def test_the_pullback_is_torchs_backward(case: Case) -> None:
    sweeps = {d.name: d.sweep for d in case.derived}
    assert all(sweep.whole for sweep in sweeps.values())
    hot = np.eye(case.output.size, dtype=int).reshape(case.output.size, *case.output.shape)
    for weights in (*hot[:: 1 + len(hot) // ROWS], *case.weights(2)):
        _, expected = torch_programs.program_gradients(case.program, case.inputs, weights)
        derived = numeric_pullback(case.program, case.values, weights, case.names)
        for name in case.names:
            assert_same(expected[name], derived[name], seed=case.seed, what=f"backward({weights.tolist()}) by {name}")
            whole = evaluate(sweeps[name].equation, {**case.values.arrays, "v": weights}, case.program.sizes)
            assert_same(expected[name], whole, seed=case.seed, what=f"the index formula by {name}")
            rows = (weights.reshape(-1) @ dense_jacobian(case, name)).reshape(whole.shape)
            assert_same(expected[name], rows, seed=case.seed, what=f"rows of the formula's J by {name}")
    for name in case.names:
        tangent = random_seed(case.inputs[name].shape, np.random.default_rng(case.seed))
        moved = np.asarray(numeric_pushforward(case.program, case.values, name, tangent), dtype=float)
        by_rows = dense_jacobian(case, name) @ tangent.reshape(-1)
        assert_same(by_rows, moved.reshape(-1), seed=case.seed, what=f"J·u by {name}")


@pytest.mark.one_in(16)
@each
def test_pullback_and_pushforward_are_adjoint(case: Case) -> None:
    generator = np.random.default_rng(case.seed)
    for weights in case.weights(2):
        derived = numeric_pullback(case.program, case.values, weights, case.names)
        for name in case.names:
            tangent = generator.integers(-3, 4, size=case.inputs[name].shape)
            moved = np.asarray(numeric_pushforward(case.program, case.values, name, tangent), dtype=float)
            assert moved.shape == case.output.shape
            left, right = np.sum(weights * moved), np.sum(np.asarray(derived[name], dtype=float) * tangent)
            assert_same(left, right, seed=case.seed, what=f"⟨v, Ju⟩ = ⟨vᵀJ, u⟩ by {name}")


def in_numbers(case: Case, entry: sp.Expr) -> float:
    """An entry of J that stands in symbols, with the numbers of the forward pass in their place."""
    values = case.story.values
    return float(evaluate(Equation((), entry), values.arrays, values.sizes))


LOOKED_AT = [
    *(pytest.param(*at.values, WRITTEN, id=f"{at.id}-{WRITTEN}") for at in first_stories() if not at.marks),
    *(
        pytest.param(*at.values, ALL_WRITTEN, id=f"{at.id}-{ALL_WRITTEN}", marks=at.marks or pytest.mark.slow)
        for at in first_stories()
    ),
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("case", "most"), LOOKED_AT)
def test_what_is_written_out_adds_up_and_never_divides_by_zero(case: Case, most: int) -> None:
    """1/0 beside a condition that does not hold is not there: neither in an entry of J nor in one of a gradient."""
    for name, gradient in case.story.gradients.items():
        if gradient.jacobian.formula is not None and gradient.jacobian.nonzeros <= most:
            entries = gradient.jacobian.matrix()
            assert not entries.has(sp.zoo, sp.nan), f"J by {name}: {entries}"
            numbers = {e: in_numbers(case, e) for e in list(dict.fromkeys(entries))[:WRITTEN]}
            known = np.array([e in numbers for e in entries]).reshape(entries.shape)
            written = np.array([numbers.get(e, 0.0) for e in entries]).reshape(entries.shape)
            dense = np.where(known, np.asarray(gradient.jacobian.dense(), dtype=float), 0.0)
            assert_same(dense, written, seed=case.seed, what=f"J by {name}, its symbols in numbers")
        last = tuple(size - 1 for size in np.shape(gradient.value))
        story = gradient.entry(last) if min(last, default=0) >= 0 else None
        if story is not None and story.terms:
            about = f"the terms of {name}.grad{list(last)}"
            assert_same(story.total, sum(value for _, value in story.terms), seed=case.seed, what=about)


# --- shapes -------------------------------------------------------------------------------------------------


OUTSIDE = re.compile("tried to access index|index out of range in self|index out of bounds|out of bounds with size")


def changed_shapes(case: Case) -> list[dict[str, tuple[int, ...]]]:
    """The example's shapes, with one axis of one input longer, gone, or new."""
    found = []
    for name, shape in case.shapes.items():
        for axis in range(len(shape)):
            found.append({**case.shapes, name: (*shape[:axis], shape[axis] + 2, *shape[axis + 1 :])})
            found.append({**case.shapes, name: (*shape[:axis], *shape[axis + 1 :])})
        found.append({**case.shapes, name: (5, *shape)})
    return found


@pytest.mark.one_in(32)
@each
def test_shapes_that_torch_refuses_are_shape_errors(case: Case) -> None:
    for shapes in changed_shapes(case):
        inputs = draw_inputs(case.op, shapes, case.seed)
        try:
            expected = torch_side.evaluate(case.example.text, torch_side.tensors(inputs, case.fixed))
        except (RuntimeError, IndexError, ValueError, TypeError) as refusal:
            if "dtype" in str(refusal) or "scalar type" in str(refusal):
                continue  # torch asks for another kind of number, not for another shape
            if OUTSIDE.search(str(refusal)):
                continue  # a position lies outside of the shorter tensor: its value is refused, not a shape
            with pytest.raises(SymgradError) as caught:
                assert case.at(shapes).program
            assert isinstance(caught.value, ShapeError), f"{shapes}: {caught.value}"
            continue
        try:
            program = case.at(shapes).program
        except SymgradError:
            continue  # symgrad may be stricter than torch: .T of a vector
        out = forward(program, inputs)[program.output]
        assert_same(expected, out, seed=case.seed, what=f"{case.example.text} at {shapes}")
