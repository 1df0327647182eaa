"""Whether a disagreement with torch is torch's own: its backward may be no derivative of its forward pass.

Comes in: a check against torch that failed. Goes out: a check that was not made, with the reason, where torch's forward
pass, moved to either side, has the derived slope at every entry on which torch's backward says something else, as that
of ``polar`` does at negative lengths. The forward pass that is asked is torch's: nothing derived is taken for granted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float
from symgrad.oracles.report import TOLERANCE, Check, Standing, compare_some, skipped
from symgrad.oracles.torch import run_torch
from symgrad.program import Program

STEP, CLOSE, ROUGH, APART = 1e-5, 1e-6, 1e-4, 1e-3
"""How far the input moves, how closely the slope is met by both sides and by each, how far torch's number is off."""
MOST = 16
"""Entries that are looked at."""


def own_rule(
    check: Check, program: Program, inputs: Mapping[str, Array], seed: Array, name: str, expected: Array,
    gradient: Array, standing: Standing | None,
) -> Check:  # fmt: skip
    """Not made, with the reason, where torch contradicts its own forward pass and agrees elsewhere; else ``check``."""
    torchs, derived = as_float(expected), as_float(gradient)
    scale = max(1.0, float(np.abs(torchs[np.isfinite(torchs)]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        differ = [tuple(int(i) for i in at) for at in np.argwhere(np.abs(torchs - derived) > TOLERANCE * scale)]
    able = np.ones(torchs.shape, dtype=bool)
    for at in differ[:MOST]:
        sides = slopes(program, inputs, seed, name, at)
        able[at] = not confirmed(float(derived[at]), float(torchs[at]), *sides)
    if able.all() or compare_some(check.oracle, expected, gradient, able, "", standing=standing).passed is False:
        return check
    at, count = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
    entry = f"{name}[{','.join(map(str, at))}]" if at else name
    why = (
        f"torch's backward says {torchs[at]:.4g} for {entry}{count}, where its own forward pass has the slope "
        f"{derived[at]:.4g} on both sides: a rule of torch's, and no derivative"
    )
    return replace(skipped(check.oracle, why), own_rule=True)


def confirmed(derived: float, torchs: float, left: float, right: float) -> bool:
    """Whether the sides have the derived slope, closely in the middle, and torch's number is far from it."""
    size, middle = max(1.0, abs(derived)), (left + right) / 2
    near = abs(middle - derived) <= CLOSE * size and max(abs(left - derived), abs(right - derived)) <= ROUGH * size
    return near and abs(torchs - derived) > APART * size


def slopes(
    program: Program, inputs: Mapping[str, Array], seed: Array, name: str, at: tuple[int, ...]
) -> tuple[float, float]:
    """The slopes of Σ v·out left and right of one entry, by torch's forward pass; NaN where it refuses."""

    def total(shift: float) -> float:
        moved = as_float(inputs[name]).copy()
        moved[at] += shift
        try:
            found = run_torch(program, {**inputs, name: moved}, seed, [])
        except SymgradError:
            found = None
        return (
            float("nan") if found is None or found.refusal else float(np.sum(as_float(seed) * as_float(found.output)))
        )

    low, here, high = total(-STEP), total(0.0), total(STEP)
    return (here - low) / STEP, (high - here) / STEP
