"""The one way in which tests compare numbers: it asserts, and names the worst entry, both values and the seed."""

from __future__ import annotations

from typing import Any

import numpy as np

TOLERANCE = 1e-9


def as_array(value: Any) -> Any:
    """A torch tensor, a sparse matrix, a list or an array as an array."""
    if hasattr(value, "detach"):
        value = value.detach().numpy()
    if hasattr(value, "todense"):
        value = value.todense()
    return np.asarray(value)


def assert_same(expected: Any, got: Any, *, seed: object = None, tolerance: float = TOLERANCE, what: str = "") -> None:
    """``got`` has the shape of ``expected`` and differs by no more than ``tolerance``, entry by entry.

    The tolerance is relative for entries above 1 and absolute below. NaN agrees with NaN, an infinity with itself.
    """
    expected, got = as_array(expected), as_array(got)
    about = f"{what}, seed {seed}" if seed is not None else what
    if expected.shape != got.shape:
        raise AssertionError(f"{about}: expected the shape {expected.shape}, got {got.shape}")
    a, b = expected.astype(np.float64), got.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(same, 0.0, np.abs(a - b) / np.maximum(1.0, np.abs(a)))
    gap = np.where(np.isfinite(gap), gap, np.inf)
    if gap.size and gap.max() > tolerance:
        at = tuple(int(i) for i in np.unravel_index(int(np.argmax(gap)), gap.shape))
        raise AssertionError(
            f"{about}: the worst of {gap.size} entries is {list(at)}: expected {a[at]!r}, got {b[at]!r}, "
            f"off by {gap[at]:.3g}, allowed {tolerance:.3g} ({int((gap > tolerance).sum())} are off)\n"
            f"expected {a.tolist()}\ngot      {b.tolist()}"
        )
