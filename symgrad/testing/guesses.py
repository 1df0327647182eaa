"""What slip would turn the right gradient into the wrong one: the usual ones, tried in turn.

Comes in: the expected gradient, the one that came, the seed. Goes out: a sentence, or nothing.
"""

from __future__ import annotations

import numpy as np

from symgrad.numeric import Array


def guess(expected: Array, got: Array, seed: Array) -> str:
    """The first slip that explains the difference everywhere."""
    if expected.shape != got.shape:
        return f"the gradient has shape {got.shape} instead of {expected.shape}: a sum over a broadcast axis is missing"
    if not np.any(got) and np.any(expected):
        return "nothing arrives: the input is detached, or its gradient is never returned"
    if expected.ndim == 2 and expected.shape[0] == expected.shape[1] and _same(expected.T, got):
        return "it is the transpose: an operand of the product stands on the wrong side"
    if _same(-expected, got):
        return "the sign is turned"
    factor = _factor(expected, got)
    if factor is not None:
        sizes = {1 / seed.size: "divided", float(seed.size): "multiplied"}
        word = next((w for f, w in sizes.items() if np.isclose(factor, f)), "")
        return f"every entry is {factor:g} times what it should be" + (
            f": {word} by the number of outputs once too often" if word else ""
        )
    if np.any(seed != seed.reshape(-1)[:1]) and _same(got, np.broadcast_to(got.reshape(-1)[:1], got.shape)):
        return "all entries are equal: is v used at all?"
    return ""


def _same(a: Array, b: Array) -> bool:
    """Equal within rounding, and not both zero."""
    return bool(np.any(a) and np.allclose(a, b, rtol=1e-5, atol=1e-8))


def _factor(expected: Array, got: Array) -> float | None:
    """The number by which all entries are off, if there is one."""
    mask = np.abs(expected) > 1e-12
    if not mask.any() or np.any(np.abs(got[~mask]) > 1e-9):
        return None
    ratios = got[mask] / expected[mask]
    return float(ratios[0]) if np.allclose(ratios, ratios[0], rtol=1e-4) else None
