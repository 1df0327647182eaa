"""The identity that needs no oracle: ⟨v, J·u⟩ = ⟨vᵀJ, u⟩ for every change u of the input.

J·u comes from the derived pushforwards, vᵀJ from the derived pullbacks; they share the local Jacobians'
formulas and nothing of the sweeps. The u are small random integers, so that exact values stay exact.
"""

from __future__ import annotations

import numpy as np

from symgrad.numeric import (
    Array,
    Values,
    finite,
    forward,
    is_exact,
    numeric_pullback,
    numeric_pushforward,
    where_exact,
)
from symgrad.oracles.noise import shaken
from symgrad.oracles.report import Check, compare, skipped
from symgrad.program import Program

TRIALS, SHAKES = 3, 4
NAME = "⟨v, J u⟩ = ⟨vᵀJ, u⟩ for 3 random u"


def check_adjoint(program: Program, values: Values, seed: Array, wanted: str, gradient: Array) -> Check:
    """Both sides of the identity for three random integer u."""
    if not finite(gradient).all():
        return skipped(NAME, "vᵀJ is not finite here")
    tangents = np.random.default_rng(0).integers(-3, 4, size=(TRIALS, *values[wanted].shape))
    left, right = sides(program, values, seed, wanted, gradient, tangents)
    if not finite(left).all():
        return skipped(NAME, "J u is not finite here")
    check = compare(NAME, left, right)
    if check.passed is False and rounding_decides(program, values, seed, wanted, tangents, np.abs(left - right)):
        return skipped(NAME, "terms cancel here, and what is left of them is rounding")
    return check


def sides(
    program: Program, values: Values, seed: Array, wanted: str, gradient: Array, tangents: Array
) -> tuple[Array, Array]:
    """⟨v, J u⟩ and ⟨vᵀJ, u⟩ for each u."""
    left, right = [], []
    changes = [where_exact(tangent) if is_exact(values[wanted]) else tangent for tangent in tangents]
    for tangent, moved in zip(
        tangents, (numeric_pushforward(program, values, wanted, u) for u in changes), strict=True
    ):
        left.append(np.sum(seed * moved) if moved.size else 0)
        right.append(np.sum(gradient * tangent) if tangent.size else 0)
    exactly = all(is_exact(a) for a in (seed, gradient)) and all(is_exact(np.asarray(e)) for e in (*left, *right))
    dtype = object if exactly else np.float64
    return np.asarray(left, dtype=dtype), np.asarray(right, dtype=dtype)


def rounding_decides(
    program: Program, values: Values, seed: Array, wanted: str, tangents: Array, gap: Array
) -> bool:  # fmt: skip
    """Whether inputs or results that move by their own rounding move a side as far as the two are apart."""
    given = {tensor.name: values[tensor.name] for tensor in program.inputs}
    points = [forward(program, shaken(given, number)) for number in range(SHAKES)]
    points += [values.with_arrays(shaken(values.arrays, number)) for number in range(SHAKES)]
    found = []
    for near in points:
        gradient = numeric_pullback(program, near, seed, [wanted])[wanted]
        found.append(sides(program, near, seed, wanted, gradient, tangents))
    with np.errstate(invalid="ignore"):
        spread = np.ptp(np.asarray(found, dtype=float), axis=0).max(axis=0)
    return bool((gap <= 16 * spread).all())
