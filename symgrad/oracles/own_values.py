"""Where torch's forward pass has another value than the equation: sign(NaN) is 0 there, hardswish(−∞) is NaN.

Comes in: the output as the equations make it, and torch's. Goes out: a sentence for the page; nothing where they agree.
A derivative belongs to the value beside it, so a value that is another has to be said.
"""

from __future__ import annotations

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.report import TOLERANCE

MOST = 2
"""How many entries are named."""


def values_apart(name: str, ours: Array, theirs: Array) -> str:
    """Which entries of the output torch has otherwise; empty where there are none.

    >>> values_apart("out", np.array([np.nan, 1.0]), np.array([0.0, 1.0]))
    "torch's own forward pass has another value at out[0]: 0, by the equation nan"
    """
    a, b = as_float(ours), as_float(theirs)
    if a.shape != b.shape:
        return ""
    with np.errstate(invalid="ignore"):
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= TOLERANCE * largest)
    places = [tuple(int(i) for i in at) for at in np.argwhere(~same)]
    if not places:
        return ""
    named = [f"{name}[{','.join(map(str, at))}]" if at else name for at in places[:MOST]]
    more = f" and {len(places) - MOST} more" if len(places) > MOST else ""
    at = places[0]
    return (
        f"torch's own forward pass has another value at {', '.join(named)}{more}: "
        f"{float(b[at]):.6g}, by the equation {float(a[at]):.6g}"
    )


__all__ = ["values_apart"]
