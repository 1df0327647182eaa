"""Independent answers for second derivatives: differences of derived gradients, and the symmetry of mixed partials.

torch's own double backward is in `symgrad.oracles.torch`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.oracles.report import Check, compare, skipped
from symgrad.oracles.torch import torch_second
from symgrad.program import Program

TORCH = "double backward (create_graph=True), torch {version}, float64"
DIFFERENCES = "central differences of the derived gradient"
SYMMETRY = "H = Hᵀ: the order of differentiation does not matter"
LARGEST = 200
"""Entries of the largest input whose Hessian is checked column by column."""
STEP, ACCURACY = 1e-6, 1e-6


def second_checks(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> tuple[Check, ...]:
    """What is known of the matrix ``found``: rows are the entries of ``first``, columns those of ``second``."""
    rows, columns = found.shape
    if max(rows, columns) > LARGEST:
        why = f"{rows}×{columns} entries are too many to be checked one by one"
        return (skipped(TORCH.format(version="(any)"), why), skipped(DIFFERENCES, why))
    checks = [_by_torch(program, inputs, seed, first, second, found)]
    checks.append(_by_differences(program, inputs, seed, first, second, found))
    if first == second:
        checks.append(compare(SYMMETRY, found.T, found))
    return tuple(checks)


def _by_torch(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> Check:
    """torch's double backward."""
    answer = torch_second(program, inputs, seed, first, second)
    if answer is None:
        return skipped("double backward by torch", "torch is not installed")
    expected, version = answer
    return compare(TORCH.format(version=version), expected, as_float(found))


def _by_differences(
    program: Program, inputs: Mapping[str, Array], seed: Array, first: str, second: str, found: Array
) -> Check:
    """(G(a + h) − G(a − h)) / 2h for every entry of ``second``, G the derived gradient by ``first``."""
    point = {name: as_float(array) for name, array in inputs.items()}
    columns = np.empty(found.shape)
    for column, at in enumerate(np.ndindex(*point[second].shape)):
        sides = []
        for direction in (1, -1):
            moved = point[second].copy()
            moved[at] += direction * STEP
            values = forward(program, {**point, second: moved})
            sides.append(as_float(numeric_pullback(program, values, seed, (first,))[first]).reshape(-1))
        columns[:, column] = (sides[0] - sides[1]) / (2 * STEP)
    return compare(DIFFERENCES, columns, as_float(found), tolerance=ACCURACY)
