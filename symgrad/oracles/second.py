"""Independent answers for second derivatives: differences of derived gradients, and the symmetry of mixed partials.

torch's own double backward is in `symgrad.oracles.torch`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.numeric import Array, as_float, finite, forward, numeric_pullback
from symgrad.oracles.differences import FINER, UNSETTLED, settled, without_digits
from symgrad.oracles.elementwise import Elementwise, TooLarge
from symgrad.oracles.report import Check, Standing, compare, compare_some, skipped
from symgrad.oracles.torch import torch_second
from symgrad.program import Program

TORCH = "double backward (create_graph=True), torch {version}, float64"
DIFFERENCES = "central differences of the derived gradient"
SYMMETRY = "H = Hᵀ: the order of differentiation does not matter"
LARGEST = 200
"""Entries of the largest input whose Hessian is checked column by column."""
STEP, ACCURACY, ONE_SIDED = 1e-6, 1e-6, 1e-3
LARGEST_SYMPY = 64
"""Entries of the largest Hessian that SymPy is asked for."""


def second_checks(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> tuple[Check, ...]:
    """What is known of the matrix ``found``: rows are the entries of ``first``, columns those of ``second``."""
    rows, columns = found.shape
    if max(rows, columns) > LARGEST:
        why = f"{rows}×{columns} entries are too many to be checked one by one"
        return (skipped(TORCH.format(version="(any)"), why), skipped(DIFFERENCES, why))
    answer = torch_second(program, inputs, seed, first, second)
    standing = None
    if not (finite(found).all() and (answer is None or finite(answer[0]).all())):
        standing = _standing(program, inputs, seed, first, second, found)
    checks = [skipped("double backward by torch", "torch is not installed")]
    if answer is not None:
        expected, version = answer
        checks = [compare(TORCH.format(version=version), expected, as_float(found), standing=standing)]
    checks.append(_by_differences(program, inputs, seed, first, second, found, standing))
    if first == second:
        checks.append(compare(SYMMETRY, found.T, found))
    return tuple(checks)


def _standing(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> Standing:
    """What the mathematics says where something is not finite: SymPy on its own, unless its formulas are too long."""
    try:
        if found.size > LARGEST_SYMPY:
            raise TooLarge
        mathematics = Elementwise(program, forward(program, inputs)).second(first, second, seed)
    except TooLarge:
        mathematics = as_float(found)
    return Standing(mathematics, np.isnan(mathematics))


def _by_differences(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array,
    standing: Standing | None,
) -> Check:  # fmt: skip
    """(G(a + h) − G(a − h)) / 2h for every entry of ``second``, G the derived gradient by ``first``."""
    point, ours = {name: as_float(array) for name, array in inputs.items()}, as_float(found)

    def quotients(step: float, back: float = 1.0) -> Array:
        columns = np.empty(found.shape)
        for column, at in enumerate(np.ndindex(*point[second].shape)):
            sides = []
            for shift in (step, -back * step):
                moved = point[second].copy()
                moved[at] += shift
                values = forward(program, {**point, second: moved})
                sides.append(as_float(numeric_pullback(program, values, seed, (first,))[first]).reshape(-1))
            columns[:, column] = (sides[0] - sides[1]) / (step + back * step)
        return columns

    columns = quotients(STEP)
    check = compare(DIFFERENCES, columns, ours, ACCURACY, standing=standing)
    if check.passed is not False:
        return check
    able = settled(columns, quotients(STEP / FINER))
    with np.errstate(invalid="ignore"):  # a kink of the gradient has two slopes
        able &= np.abs(quotients(STEP, back=0.0) - columns) <= ONE_SIDED * np.maximum(1.0, np.abs(columns))
    gradient = numeric_pullback(program, forward(program, point), seed, (first,))[first]
    able &= not without_digits([*point.values(), gradient])
    return compare_some(DIFFERENCES, columns, ours, able, UNSETTLED, ACCURACY, standing)
