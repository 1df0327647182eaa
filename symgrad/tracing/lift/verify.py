"""Is a step's value by the table's own forward what torch computed? If not, the entry does not mean this call."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.record.trace import Node, real_precision

TOLERANCE = {"float64": 1e-9, "float32": 1e-4, "float16": 1e-2, "bfloat16": 5e-2}
"""Relative to the largest entry, by the precision torch computed in."""
CHUNK = 1 << 14
"""Entries that are looked at in one go."""


def precision(*nodes: Node) -> str:
    """The least precise of the types that nodes and what they were computed from have."""
    read = [source for node in nodes for source in node.sources()]
    kinds = {real_precision(n.held.dtype) for n in (*nodes, *read)}
    return next((p for p in ("bfloat16", "float16", "float32") if p in kinds), "float64")


def pieces(*arrays: Array) -> Iterator[tuple[Array, ...]]:
    """Arrays of one shape in pieces that stay near the processor, entry beside entry."""
    repeated = [all(a.strides[axis] == 0 for a in arrays) for axis in range(arrays[0].ndim)]
    once = [a[(*(slice(0, 1) if again else slice(None) for again in repeated), ...)] for a in arrays]
    alike = all(a.strides == once[0].strides for a in once) and 0 not in once[0].strides
    flat = [a.ravel(order="K" if alike and a.itemsize == once[0].itemsize else "C") for a in once]
    for start in range(0, flat[0].size, CHUNK):
        yield tuple(a[start : start + CHUNK] for a in flat)


def near(found: Array, expected: Array, allowed: float) -> bool:
    """Whether floats are all finite, and nowhere apart by more than ``allowed`` of the largest, or of 1.

    No difference is larger than all of them as one vector are long: where that is little, none is looked at.
    """
    gap, room = 0.0, np.empty(min(CHUNK, found.size))
    with np.errstate(invalid="ignore", over="ignore"):
        for ours, theirs in pieces(found, expected):
            apart = np.subtract(ours, theirs, out=room[: ours.size])
            if float(apart @ apart) <= allowed * allowed:
                continue
            ends = float(apart.max()), -float(apart.min())
            if not np.isfinite(ends).all():
                return False
            gap = max(gap, *ends)
    return gap <= allowed or gap <= allowed * float(np.abs(expected).max())


def equal(found: Array, expected: Array) -> bool:
    """Whether every entry is the same number; told at the first piece that is not."""
    if found.shape != expected.shape:
        return False
    return all(np.array_equal(ours, theirs) for ours, theirs in pieces(found, expected))


def disagreement(found: Array, torch_value: Array, kind: str) -> str | None:
    """None when they agree; otherwise what differs, in a sentence."""
    if np.shape(found) != np.shape(torch_value):
        return f"its shape would be {np.shape(found)}, torch's is {np.shape(torch_value)}"
    if not np.size(found):
        return None
    allowed = TOLERANCE.get(kind, 1e-4)
    if found.dtype.kind == torch_value.dtype.kind == "f" and near(found, torch_value, allowed):
        return None
    expected, got = as_float(torch_value), as_float(found)
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
