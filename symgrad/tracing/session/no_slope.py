"""Why there is no J where something not finite is born, and what would do: advice that fits the cause alone.

Comes in: a program, the step, and the entry with its value. Goes out: lines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from symgrad.explanation.notable import undefined_anywhere
from symgrad.numeric.exact import Array, as_float
from symgrad.ops import entry_of
from symgrad.program import Apply
from symgrad.tracing.record.numbers import digits

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

RANK = 1e-10
"""Values that differ by less than this share of the largest are equal."""


def no_slope(program: Capture, step: Apply, source: str, entry: str, value: float) -> list[str]:
    """Why there is no J, and what would do: advice that fits the cause alone."""
    if value != value or value in (float("inf"), float("-inf")):
        return [f"  {entry} is {digits(value)} already: nothing has a derivative there. Look for what made it so."]
    op = entry_of(step.op)
    known = as_float(program.arrays[source])
    reads = known.ndim > 1 and known.shape[-1] == known.shape[-2]
    if step.result.name in program.boxes or (op is not None and any(d.matrix for d in op.domain.values())):
        return vectors_of_equals(known) if reads else ["  there is no J at this matrix"]
    if whatever := undefined_anywhere(step, program.recording):
        return [f"  there is no J: {whatever}"]
    lines = [f"  there is no J at {entry} = {digits(value)}: the slope of {step.op} is infinite or undefined there."]
    made = as_float(program.arrays[step.result.name])
    if np.isfinite(made).all():
        return [*lines, away(step, entry)]
    domains = list(op.domain.values()) if op is not None else []
    outside = any(not d.low < value < d.high or value in d.avoid for d in domains)
    if not outside and not np.isnan(made).any():
        return [f"  {step.op} is too large for floats at {entry} = {digits(value)}: what comes back is no slope of it"]
    what = ": what goes into it has to be kept inside its domain" if outside else ""
    return [*lines, f"  {step.op} has no finite value there either{what}"]


def away(step: Apply, entry: str) -> str:
    """What keeps an entry from where there is no slope."""
    return f"  keep {entry} away from it: clamp it, or add a small eps to it before {step.op}"


def vectors_of_equals(matrix: Array) -> list[str]:
    """What there is to say of a matrix at which a decomposition has no derivative."""
    found = np.linalg.svd(matrix, compute_uv=False) if np.isfinite(matrix).all() else np.zeros(0)
    largest = float(found.max(initial=0.0))
    if found.size and np.any(found.min(axis=-1) <= RANK * largest):
        return [
            "  the matrix has no full rank: to a singular value of 0 belong no vectors in particular, so there is no J"
        ]
    if found.size and np.any(np.abs(np.diff(found, axis=-1)) <= RANK * largest):
        return [
            "  two of its values are equal: any two directions in their plane may be their vectors, so there is no J.",
            "  the values by themselves have one (eigvalsh, svdvals), and so has what does not change as the two turn;",
            "  small different numbers on the diagonal take the values apart",
        ]
    return ["  there is no J at this matrix"]
