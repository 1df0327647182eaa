"""Central differences of L = Σ v·out: needs only the forward pass, and a point away from kinks.

Less exact than the other oracles, so it is used where they cannot be: without torch, or where the explicit
formulas would be too long.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from symgrad.calculus import flows
from symgrad.numeric import Array, as_float, forward
from symgrad.oracles.kinks import at_kinks
from symgrad.oracles.report import Check, Standing, compare, skipped
from symgrad.program import Program

NAME = "central differences of Σ v·out"
LARGEST = 256
STEP = 1e-6
ACCURACY = 1e-6


def check_differences(
    program: Program,
    inputs: Mapping[str, Array],
    seed: Array,
    wanted: str,
    gradient: Array,
    standing: Standing | None = None,
) -> Check:
    """(L(x + h) − L(x − h)) / 2h for every entry of one input."""
    point = as_float(inputs[wanted])
    if not flows(program, wanted):
        return skipped(NAME, "it is only read: nothing flows back to it, whatever the output does")
    if point.size > LARGEST:
        return skipped(NAME, f"{point.size} entries, more than {LARGEST}")
    found = np.empty(point.shape)
    others = {name: as_float(array) for name, array in inputs.items()}
    weights, alone = as_float(seed), replace(program, steps=program.forward_steps)
    for at in np.ndindex(*point.shape):
        sides = []
        for direction in (1, -1):
            moved = point.copy()
            moved[at] += direction * STEP
            sides.append(float(np.sum(weights * as_float(forward(alone, {**others, wanted: moved})[program.output]))))
        found[at] = (sides[0] - sides[1]) / (2 * STEP)
    check = compare(NAME, found, as_float(gradient), tolerance=ACCURACY, standing=standing)
    if check.passed is not False:
        return check
    return at_kinks(check, alone, inputs, seed, wanted, found, gradient, standing, ACCURACY)
