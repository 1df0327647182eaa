"""Is a step's value by the table's own forward what torch computed? If not, the entry does not mean this call."""

from __future__ import annotations

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.trace import Node, real_precision

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Relative to the largest entry, by the precision torch computed in."""


def precision(*nodes: Node) -> str:
    """The least precise of the types that nodes and what they were computed from have."""
    read = [source for node in nodes for source in node.sources()]
    kinds = {real_precision(n.held.dtype) for n in (*nodes, *read)}
    return next((p for p in ("bfloat16", "float16", "float32") if p in kinds), "float64")


def disagreement(found: Array, torch_value: Array, kind: str) -> str | None:
    """None when they agree; otherwise what differs, in a sentence."""
    expected = as_float(torch_value)
    got = as_float(found)
    if got.shape != expected.shape:
        return f"its shape would be {got.shape}, torch's is {expected.shape}"
    if not got.size:
        return None
    allowed = TOLERANCE.get(kind, 1e-4)
    with np.errstate(invalid="ignore", over="ignore"):
        finite = np.abs(expected[np.isfinite(expected)])
        scale = max(1.0, float(finite.max())) if finite.size else 1.0
        gap = np.abs(got - expected)
        same = (got == expected) | (np.isnan(got) & np.isnan(expected)) | (gap <= allowed * scale)
        overflow = ~np.isfinite(expected) & (kind != "float64") & (np.abs(got) > 1e4)
    if (same | overflow).all():
        return None
    worst = np.unravel_index(int(np.argmin(same | overflow)), gap.shape)
    at = ",".join(str(int(i)) for i in worst)
    return f"at [{at}] it would be {got[worst]:.6g}, torch's is {expected[worst]:.6g}"
