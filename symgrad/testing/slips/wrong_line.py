"""Which line of the backward is wrong, where no single mistake explains it: the one after which everything fits.

If the gradients that came follow from another cotangent of one tensor h on the way, by the right lines after it, and
that is no accident (there are more entries than unknowns), then those lines are right and v_h is not.

Comes in: the formula, the wrong inputs and their trials. Goes out: the step whose result is h, nearest to the inputs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from symgrad.calculus import flowing
from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float, numeric_pullback
from symgrad.ops.entry import plays
from symgrad.program import Apply, Program, Role
from symgrad.testing.right.bench import Trial
from symgrad.testing.right.truth import Formula

MOST = 64
"""Entries of a cotangent that is solved for."""
SPARE = 2
"""Entries beyond the unknowns that have to fit: one may do so by accident of the numbers."""


def wrong_step(formula: Formula, trials: Mapping[str, Sequence[Trial]]) -> Apply | None:
    """The step nearest to the inputs with another cotangent of which everything would follow."""
    if len(formula.programs) > 1:
        return None
    program = formula.programs[0]
    names = [name for name in trials if any(t.name == name for t in program.inputs)]
    on_the_way = flowing(program, names) & program.relevant()
    for step in program.steps:
        name = step.result.name
        if name == program.output or name not in on_the_way or plays(step.op, Role.COPIES):
            continue
        if 0 < np.size(formula.values[0][name]) <= MOST and follows(formula, program, name, names, trials):
            return step
    return None


def follows(
    formula: Formula, program: Program, through: str, names: Sequence[str], trials: Mapping[str, Sequence[Trial]]
) -> bool:
    """Whether one change of the cotangent of ``through`` gives all differences, for every seed."""
    try:
        matrix = pulls(formula, replace(program, output=through), through, names)
    except SymgradError:
        return False
    rank = int(np.linalg.matrix_rank(matrix))
    reached = np.abs(matrix).max(axis=1) > 0
    if rank == 0 or int(reached.sum()) < rank + SPARE:
        return False
    for row in zip(*(trials[name] for name in names), strict=True):
        gaps = np.concatenate([(t.got - t.expected).reshape(-1) for t in row])
        limits = np.concatenate([np.full(t.got.size, 100 * t.limit) for t in row])
        if not np.isfinite(gaps).all():
            return False
        solved, *_ = np.linalg.lstsq(matrix, gaps, rcond=None)
        if (np.abs(matrix @ solved - gaps) > limits).any():
            return False
    return True


def pulls(formula: Formula, part: Program, through: str, names: Sequence[str]) -> Array:
    """The linear map from a cotangent of ``through`` to the gradients, a column for each of its entries."""
    shape = np.shape(formula.values[0][through])
    columns = []
    for at in np.ndindex(*shape):
        one = np.zeros(shape)
        one[at] = 1.0
        found = numeric_pullback(part, formula.values[0], one, names)
        columns.append(np.concatenate([as_float(found[name]).reshape(-1) for name in names]))
    return np.stack(columns, axis=1)
