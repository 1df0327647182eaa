"""Whether torch put into ``.grad`` what was derived, and how far rounding alone can take the two apart.

Comes in: the sweep as it goes, then two gradients. Goes out: a distance and a verdict. A gradient that is zero in
the mathematics is rounding in both, and rounding has the size of the terms that cancel, not of their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.program import Apply
from symgrad.tracing.trace import real_precision

PRECISION = {"float64": (1e-9, 2.3e-16), "float32": (2e-4, 1.2e-7), "float16": (2e-2, 1e-3), "bfloat16": (1e-1, 8e-3)}
"""By torch's name: what may differ relative to the largest entry, and the rounding of one operation."""


def precision_of(tensor: Any) -> tuple[float, float]:
    """The row of `PRECISION` for a tensor."""
    return PRECISION.get(real_precision(tensor.dtype), (1e-3, 1e-3))


def magnitudes(arrays: Mapping[str, Array], leaves: Mapping[str, Any], found: dict[str, float]) -> Callable[..., None]:
    """A watcher for the sweep: how large the terms are that are added up into each leaf's gradient."""

    def seen(step: Apply, place: int, weights: Array, result: Array) -> None:
        source = str(step.arguments[place])
        if source not in leaves or not np.size(weights):
            return
        others = [arrays[name] for name in step.tensors if name != source and np.size(arrays[name])]
        factors = [float(np.abs(as_float(other)).max()) for other in others]
        size = float(np.abs(as_float(weights)).max()) * max([1.0, *(f for f in factors if np.isfinite(f))])
        found[source] = found.get(source, 0.0) + size * float(np.size(weights)) ** 0.5

    return seen


def floor_of(terms: float, tensor: Any) -> float:
    """What rounding may leave of terms of this size."""
    return 16 * precision_of(tensor)[1] * terms if np.isfinite(terms) else 0.0


def difference(derived: Any, got: Any, tolerance: float, before: Any, floor: float) -> tuple[float, bool]:
    """How far apart, relative to the largest entry, and whether that is within rounding."""
    if derived.shape != got.shape:
        return float("inf"), False
    held = 0.0 if before is None else float(before.abs().max()) if before.numel() else 0.0
    finite = np.abs(got[np.isfinite(got)])
    scale = max(float(finite.max()) if finite.size else 0.0, held, 1e-30)
    with np.errstate(invalid="ignore"):
        same = (derived == got) | (np.isnan(derived) & np.isnan(got))
        gap = np.where(same, 0.0, np.abs(derived - got))
    worst = float(np.max(np.where(np.isfinite(gap), gap, np.inf))) if gap.size else 0.0
    return worst / scale, bool(worst <= max(tolerance * scale, floor))


__all__ = ["difference", "floor_of", "magnitudes", "precision_of"]
