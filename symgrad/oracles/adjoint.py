"""The identity that needs no oracle: ⟨v, J·u⟩ = ⟨vᵀJ, u⟩ for every change u of the input.

J·u comes from the derived pushforwards, vᵀJ from the derived pullbacks; they share the local Jacobians'
formulas and nothing of the sweeps. The u are small random integers, so that exact values stay exact.
"""

from __future__ import annotations

import numpy as np

from symgrad.numeric import Array, Values, exact, finite, is_exact, numeric_pushforward
from symgrad.oracles.report import Check, compare, skipped
from symgrad.program import Program

TRIALS = 3
NAME = "⟨v, J u⟩ = ⟨vᵀJ, u⟩ for 3 random u"


def check_adjoint(program: Program, values: Values, seed: Array, wanted: str, gradient: Array) -> Check:
    """Both sides of the identity for three random integer u."""
    generator = np.random.default_rng(0)
    left, right = [], []
    if not finite(gradient).all():
        return skipped(NAME, "vᵀJ is not finite here")
    for _ in range(TRIALS):
        tangent = generator.integers(-3, 4, size=values[wanted].shape)
        moved = numeric_pushforward(program, values, wanted, exact(tangent) if is_exact(values[wanted]) else tangent)
        if not finite(moved).all():
            return skipped(NAME, "J u is not finite here")
        left.append(np.sum(seed * moved) if moved.size else 0)
        right.append(np.sum(gradient * tangent) if tangent.size else 0)
    exactly = all(is_exact(a) for a in (seed, gradient)) and all(is_exact(np.asarray(e)) for e in (*left, *right))
    dtype = object if exactly else np.float64
    return compare(NAME, np.asarray(left, dtype=dtype), np.asarray(right, dtype=dtype))
