"""How closely two gradients have to agree, by the type that the candidate computes in, and how far off it is in ulps.

An entry of vᵀJ is a sum, and what rounding may do to it is measured by Σ|v|·|J|: a sum that cancels has no more digits
than its terms. In low precision a candidate may be twice as far off as torch's own backward is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.numeric import Array

EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
ALLOWED = {"float64": 1e-9, "float32": 2.0**-17, "float16": 2.0**-7, "bfloat16": 2.0**-4}
"""Relative to Σ|v|·|J|; for float64 what a chain of delicate functions needs, else 64 or 8 ulps."""
LEAST = {"float64": 2.0**-1022, "float32": 2.0**-126, "float16": 2.0**-14, "bfloat16": 2.0**-126}
"""Below that a number has fewer digits."""
LARGEST = {"float64": np.inf, "float32": 2.0**128, "float16": 2.0**16, "bfloat16": 2.0**128}
"""What is no smaller is infinite in the type."""
LOWER = {"float64": ("float32", "bfloat16", "float16"), "float32": ("bfloat16", "float16")}
FACTOR = 2.0
"""A candidate may be as many times as far off as eager torch."""


@dataclass(frozen=True)
class Rounding:
    """The type that counts, what may be off relative to the scale of a sum, and torch's own error relative to it.

    ``given``: the tolerance is the user's own, and torch's error does not count.
    """

    dtype: str
    share: float
    eager: float | None = None
    given: bool = False

    @property
    def allowed(self) -> float:
        """Relative to Σ|v|·|J|."""
        return self.beside(self.eager or 0.0)

    def beside(self, eager: float) -> float:
        """Relative to Σ|v|·|J|, where torch itself is off by ``eager``."""
        return self.share if self.given else max(self.share, FACTOR * eager)

    def within(self, array: Array) -> Array:
        """Where numbers are not too large for the type."""
        return np.abs(array) < LARGEST.get(self.dtype, np.inf)

    def ulps(self, gap: float, scale: float) -> float:
        """A difference in units of the last place of ``scale``."""
        return gap / (EPSILON.get(self.dtype, 2.0**-52) * scale) if scale else 0.0


def rounding_of(dtypes: Sequence[str], tolerance: float | None, floor: float) -> Rounding:
    """From the coarsest of the types; ``tolerance`` is the user's own, ``floor`` that of the oracle."""
    coarsest = max(dtypes, key=lambda dtype: EPSILON.get(dtype, 1.0), default="float64")
    share = ALLOWED.get(coarsest, 1e-9) if tolerance is None else tolerance
    return Rounding(coarsest, max(share, floor) if tolerance is None else share, given=tolerance is not None)


def rounded(array: Array, dtype: str) -> Array:
    """Numbers in a lower type, as float64."""
    if dtype == "bfloat16":
        bits = np.asarray(array, np.float32).view(np.uint32)
        bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
        return bits.astype(np.uint32).view(np.float32).astype(np.float64)
    with np.errstate(over="ignore"):
        return np.asarray(array).astype(dtype).astype(np.float64)
