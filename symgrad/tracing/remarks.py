"""What is worth a note at a call that went well: added gradients, leaves that get none, hooks.

Comes in: the scene of a call. Goes out: lines. None of this is an error, and each is what a reader of the numbers
would stumble over.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.tracing.lifted import Lifted
from symgrad.tracing.names import node_names
from symgrad.tracing.program import Program
from symgrad.tracing.story import Leaf

if TYPE_CHECKING:
    from symgrad.tracing.scene import Scene


def accumulated(scene: Scene, rows: list[Leaf]) -> list[str]:
    """A note where this call added to what an earlier one had put there."""
    again = [r.name for r in rows if r.before is not None and np.any(r.before)]
    earlier = sorted({w.line for _, w, n in scene.watch.filled.values() if n in again})
    if not again:
        return []
    lines = f"line {earlier[0]}" if len(earlier) == 1 else "an earlier call"
    who = f"{again[0]}.grad" if len(again) == 1 else f".grad of {len(again)} tensors"
    return [f"{who} already held what {lines} put there; backward adds: two calls with v₁ and v₂ are one with v₁ + v₂"]


def missing(scene: Scene, lifted: Lifted) -> list[str]:
    """Tensors in the program, or cut off from it, that get no gradient, and why."""
    notes: list[str] = []
    unasked: list[str] = []
    for name, node in lifted.nodes.items():
        if node.kind == "data" and id(node) in node_names([node], {}, scene.sight) and node.cut is None:
            tensor = node.owner() if node.owner is not None else None
            if tensor is not None and tensor.is_floating_point() and tensor.dim() and not tensor.requires_grad:
                unasked.append(lifted.labels[name])
        if node.cut is not None:
            reached = {id(t) for _, t in scene.leaves}
            lost = [t for t in (r() for r in node.cut.leaves) if t is not None]
            away = [scene.sight.get(id(t), "a leaf") for t in lost if id(t) not in reached]
            here = [scene.sight.get(id(t), "a leaf") for t in lost if id(t) in reached]
            if away:
                who = ", ".join(dict.fromkeys(away))
                notes.append(f"{who} gets nothing: the path was cut in {node.cut.where.short} by {node.cut.how}")
            elif "detach" in node.cut.how or "data" in node.cut.how or "no_grad" in node.cut.how:
                who = ", ".join(dict.fromkeys(here)) or "a leaf"
                notes.append(
                    f"one of the ways from {who} was cut in {node.cut.where.short} by {node.cut.how}: "
                    "its part of vᵀJ is left out"
                )
    if len(unasked) == 1:
        notes.append(f"{unasked[0]} is not asked: requires_grad=False, so {unasked[0]}.grad stays None")
    elif unasked:
        notes.append(f"{', '.join(unasked)} are not asked: requires_grad=False, so their .grad stays None")
    return list(dict.fromkeys(notes))[:8]


def hooked(scene: Scene, program: Program, targets: dict[str, tuple[Any, Any]]) -> list[str]:
    """Leaves with hooks: torch's gradient is then what the hook made of vᵀJ."""
    return [program.labels[n] for n, (t, _) in targets.items() if getattr(t, "_backward_hooks", None)]


__all__ = ["accumulated", "hooked", "missing"]
