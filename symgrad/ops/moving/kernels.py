"""How much an entry counts at a distance: straight lines, cubics, windows.

Kernels are pieces between whole distances, and each piece holds its left end, so that at a border the derivative by a
place is the one of the cell that begins there, as in torch.
"""

from __future__ import annotations

from typing import Any

import numpy as np

HAT = "k[d] = (1 + d)·[−1 ≤ d < 0] + (1 − d)·[0 ≤ d < 1]"
"""1 − |d| up to distance 1: a straight line from entry to entry."""

COVERS = "covers[i,h,n,m] = [i·n < (h + 1)·m]·[h·m < (i + 1)·n]"
"""Whether the i-th of m windows over n entries holds the entry h: ⌊i·n/m⌋ ≤ h < ⌈(i + 1)·n/m⌉."""


def cubic(a: str) -> str:
    """Keys' kernel: four pieces of a cubic, with continuous slope."""
    return (
        "k[d] = far[−d]·[−2 ≤ d < −1] + near[−d]·[−1 ≤ d < 0] + near[d]·[0 ≤ d < 1] + far[d]·[1 ≤ d < 2], "
        f"near[d] = ({a} + 2)·d^3 − ({a} + 3)·d² + 1, far[d] = {a}·d^3 − 5·{a}·d² + 8·{a}·d − 4·{a}"
    )


def keys(d: Any, a: float) -> Any:
    """NumPy: Keys' cubic of a distance."""
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, inner, np.where(d < 2, ((d - 5) * d + 8) * d * a - 4 * a, 0))
