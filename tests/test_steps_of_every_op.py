"""Each step's own equation and derivatives, for every operation: what it solves, where it has edges, whatever letters it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from symgrad.calculus import local_jacobian
from symgrad.calculus.differentiate import differentiate
from symgrad.indexing import Bracket, Equation, access, contracted_sum, fresh, fresh_axes, instantiate
from symgrad.indexing.symbols import accesses, bound_indices, name_of
from symgrad.numeric import chain_jacobian, evaluate
from tests.cases import Case
from tests.compare import assert_same
from tests.naive import Loops
from tests.sampling import random_seed
from tests.test_every_op import EXAMPLES, each


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", [at for at in EXAMPLES if at.values[0].op.saved.residual])
def test_what_solves_an_equation_moves_as_the_equation_does(case: Case) -> None:
    """F = 0 at the result, and dF = 0 along every change: ∂F/∂x + Σ_t ∂F/∂t·∂t/∂x, t the result and what is read beside.

    Where F determines the result by itself, ∂F/∂out has full rank, so no other derivative would do.
    """
    program, values = case.program, case.values
    for step in program.steps:
        if step.op != case.op.name:
            continue
        read = dict.fromkeys((*step.tensors, step.result.name, *(name for _, name in step.beside)))
        by_result = []
        for equation in local_jacobian(step, program).residual:
            at_point = evaluate(equation, values.arrays, values.sizes)
            assert_same(np.zeros(at_point.shape), at_point, seed=case.seed, what=f"{step.op}: F at the result")
            partials = {name: by_entries(equation, name, case) for name in read}
            by_result.append(partials[step.result.name])
            for wanted in case.names:
                moved = sum(
                    partials[name] @ np.asarray(chain_jacobian(replace(program, output=name), wanted, values).todense())
                    for name in read
                )
                about = f"{step.op}: dF along {wanted}"
                assert_same(np.zeros(moved.shape), moved, seed=case.seed, what=about)
        stacked = np.concatenate(by_result)
        if np.abs(stacked).max() > 1e-9 and "V" not in dict(step.beside):
            assert np.linalg.matrix_rank(stacked) == stacked.shape[1], f"{step.op} is not determined by its equations"


def by_entries(equation: Equation, name: str, case: Case) -> np.ndarray:
    """∂F/∂name, a row for each entry of F."""
    inner = fresh_axes(case.program.tensor(name).shape)
    whole = Equation((*equation.axes, *inner), differentiate(equation.right, name, inner))
    rows = evaluate(whole, case.values.arrays, case.values.sizes)
    return np.asarray(rows, dtype=float).reshape(-1, case.values[name].size)


# kinks: tests/contract/test_operations.py holds what is said there against torch
@each
def test_an_operation_with_conditions_on_entries_is_not_called_smooth(case: Case) -> None:
    """A condition on entries is an edge, where the derivative is a choice: ``kinks`` has it tested against torch's.

    Entries that are only read, such as positions, do not move: a condition on them alone is no edge.
    """
    for step in case.program.steps:
        read = {a for name, a in zip(case.op.operands, step.arguments, strict=False) if name in case.op.data}
        conditions = local_jacobian(step, case.program).equation.right.atoms(Bracket)
        if step.op == case.op.name and any({name_of(a) for a in accesses(c)} - read for c in conditions):
            assert not case.op.smooth


@pytest.mark.one_in(48)
@each
def test_names_of_indices_and_sizes_do_not_matter(case: Case) -> None:
    """Every index called k, every size otherwise: entry by entry the same, and contracted with weights."""
    names = {tensor.name: tensor.name for tensor in case.program.tensors()}
    renamed = {size: type(size)(f"size{n}", **size.assumptions0) for n, size in enumerate(case.program.sizes)}
    sizes = {renamed[size]: number for size, number in case.program.sizes.items()}
    for step in case.program.steps:
        for d in local_jacobian(step, case.program).derivatives.values():
            whole = Equation((*d.axes, *d.inner), d.formula)
            other = instantiate(whole, names, renamed)
            assert not (set(other.axes) | bound_indices(other.right)) & (set(whole.axes) | bound_indices(whole.right))
            same_hint = {k: fresh("k", k.size) for k in (*other.axes, *bound_indices(other.right))}
            again = Equation(tuple(same_hint[k] for k in other.axes), other.right.xreplace(same_hint))
            expected = evaluate(whole, case.values.arrays, case.program.sizes)
            by_loops = Loops(case.values.arrays, sizes).array(again)
            assert_same(expected, by_loops, what=f"{step.op} with other names")
            outer, inner = again.axes[: len(d.axes)], again.axes[len(d.axes) :]
            weights = random_seed(np.shape(expected)[: len(outer)], np.random.default_rng(case.seed))
            weighed = Equation(inner, contracted_sum(access("v", outer) * again.right, outer))
            found = evaluate(weighed, {**case.values.arrays, "v": weights}, sizes)
            total = np.tensordot(weights, by_loops, axes=len(outer))
            assert_same(total, found, what=f"{step.op} contracted with other names")
