"""How far a gradient turns between floats that lie side by side: nothing less than that can be seen there.

Comes in: a program at numbers. Goes out: the largest change of an entry. Of steps that are smooth alone: where a kink
lies between neighbours, the gradient has two values, and that is no rounding.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.ops import entry_of
from symgrad.program import Program

DRAWN = 8
"""Neighbours that are looked at."""


def turn(program: Program, inputs: Mapping[str, Array], seed: Array, name: str) -> float:
    """The largest change of an entry of ∂out/∂``name`` from the point to a neighbour; 0 where a step has kinks."""
    entries = [entry_of(step.op) for step in program.steps]
    if not all(entry is not None and entry.smooth for entry in entries):
        return 0.0
    generator, point = np.random.default_rng(13), as_float(inputs[name])
    found = []
    try:
        for _ in range(DRAWN):
            moved = point + np.spacing(np.abs(point)) * generator.choice([-1.0, 0.0, 1.0], point.shape)
            values = forward(program, {**inputs, name: moved})
            found.append(as_float(numeric_pullback(program, values, seed, [name])[name]))
    except (SymgradError, ArithmeticError):
        return 0.0
    return float(np.nan_to_num(np.ptp(np.stack(found), axis=0)).max(initial=0.0))


__all__ = ["turn"]
