"""Where one operation has no derivative, what its equation gives there, and what torch puts in its place.

Comes in: a program of one step, and numbers for some of its inputs. Goes out: both numbers, by each input.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.numeric import as_float, forward, numeric_pullback
from symgrad.oracles.torch import run_torch
from symgrad.program import Program

SAME = 1e-9
"""Relative to torch's, how far a derivative may be from it and be the same."""
ELSEWHERE = 0.5
"""What the inputs are that an edge says nothing of."""


@dataclass(frozen=True)
class OwnNumber:
    """∂L/∂x₀ by one input ``by``, L the sum of the outputs: what the equation gives ``here``, and what torch has."""

    by: str
    here: float
    torch: float


def own_numbers(program: Program, at: Mapping[str, float], names: Sequence[str]) -> Iterator[OwnNumber]:
    """Where torch has a number of its own: ``at`` are inputs of which every entry is one number."""
    inputs = {t.name: np.full(program.numbers(t.shape), at.get(t.name, ELSEWHERE)) for t in program.inputs}
    weights = np.ones(program.numbers(program.out.shape))
    answer = run_torch(program, inputs, weights, names)
    if answer is None or answer.refusal:
        return
    derived = numeric_pullback(program, forward(program, inputs), weights, names)
    for name in names:
        gradient = answer.gradients[name]
        if gradient is None or not gradient.size:
            continue
        here, torchs = float(as_float(derived[name]).reshape(-1)[0]), float(gradient.reshape(-1)[0])
        if not np.isclose(torchs, here, rtol=SAME, atol=0.0, equal_nan=True):
            yield OwnNumber(name, here, torchs)


__all__ = ["OwnNumber", "own_numbers"]
