"""What is worth a note at a call that went well: added gradients, leaves that get none, hooks.

Comes in: the scene of a call. Goes out: lines. None of this is an error, and each is what a reader of the numbers
would stumble over.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.explanation.nothing import everywhere
from symgrad.numeric.exact import as_float
from symgrad.tracing.lifted import Lifted
from symgrad.tracing.names import node_names
from symgrad.tracing.numbers import short
from symgrad.tracing.observed import changed
from symgrad.tracing.program import Program
from symgrad.tracing.story import Leaf
from symgrad.tracing.sweeps import pull
from symgrad.tracing.trace import same
from symgrad.tracing.words import shape_text

if TYPE_CHECKING:
    from symgrad.tracing.scene import Scene


FEW = 30
"""Programs with more steps than this are not pulled a second time for a remark."""


def accumulated(scene: Scene, rows: list[Leaf], repeated: bool) -> list[str]:
    """A note where this call added to what an earlier one had put there."""
    again = [r.name for r in rows if r.before is not None and np.any(r.before)]
    earlier = sorted({w.line for _, w, n in scene.watch.filled.values() if n in again})
    if not again:
        return []
    lines = "an earlier call" if len(earlier) != 1 else f"line {earlier[0]}"
    if earlier == [scene.where.line]:
        lines = "this line before"
    who = f"{again[0]}.grad" if len(again) == 1 else f".grad of {len(again)} tensors"
    row = next(r for r in rows if r.name == again[0])
    shown = repeated and len(again) == 1  # elsewhere the table has the numbers
    sums = f": {short(row.before)} + {short(row.added)} = {short(row.after)}" if shown else ""
    adds = f"{who} already held what {lines} put there; backward adds{sums}"
    return [f"{adds}. Two calls with v₁ and v₂ are one with v₁ + v₂."]


def missing(scene: Scene, lifted: Lifted) -> list[str]:
    """Tensors in the program, or cut off from it, that get no gradient, and why."""
    notes: list[str] = []
    unasked: list[str] = []
    for name, node in lifted.nodes.items():
        if node.kind == "data" and id(node) in node_names([node], {}, scene.sight) and node.cut is None:
            tensor = node.owner() if node.owner is not None else None
            label = lifted.labels[name]
            own = "." in label and type(tensor).__name__ != "Parameter"  # a module's buffer: nobody expects a gradient
            moves = node.held.is_floating_point() or node.held.is_complex()
            if tensor is not None and moves and tensor.dim() and not tensor.requires_grad:
                unasked += [] if own or scene.kind == "grad" else [label]
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


def touched(scene: Scene, tensor: Any) -> bool:
    """Whether something of the user's may have changed a gradient on its way: a hook, or a write during the call."""
    hooks = ("_backward_hooks", "_post_accumulate_grad_hooks")
    written = {id(t) for t in scene.watch.during}
    return any(getattr(tensor, name, None) for name in hooks) or bool({id(tensor), id(tensor.grad)} & written)


def hooked(program: Program, targets: dict[str, tuple[Any, Any]], rows: list[Leaf]) -> list[str]:
    """Leaves with hooks: torch's gradient is then what the hook made of vᵀJ."""
    notes = [f"{program.labels[n]} has a hook: torch adds what the hook makes of vᵀJ"
             for n, (t, _) in targets.items() if getattr(t, "_backward_hooks", None)]  # fmt: skip
    own = {program.labels[n] for n, (t, _) in targets.items() if getattr(t, "_post_accumulate_grad_hooks", None)}
    later = [row.name for row in rows if row.hooked and row.name in own]
    gone = [row.name for row in rows if row.hooked and row.name in own and row.after is None]
    if later:
        who = later[0] if len(later) == 1 else f"{len(later)} leaves"
        has = "has a hook that runs" if len(later) == 1 else "have hooks that run"
        left = "it set .grad to None" if gone == later else "what stands in .grad is what the hook left"
        notes.append(f"{who} {has} after vᵀJ was added: {left}")
    return notes


def overwritten_weights(scene: Scene) -> list[str]:
    """A v that something wrote into while torch ran the call."""
    told = [found.overwrote for found in scene.observations if found.overwrote]
    for given, now in zip(scene.seeds, scene.given.passed, strict=True):
        if not told and given is not None and not same(given, now.detach()):
            told.append(f"the v that was given was overwritten during the call ({changed(given, now)})")
    return told


def without_a_past(program: Program) -> list[str]:
    """An output that is a leaf itself: backward hands it v and reaches nothing else."""
    names = [program.labels.get(end, end) for end in program.ends if end in program.wanted]
    return [f"{name} is a leaf itself: nothing was computed on the way to it, so this reaches nothing else"
            for name in dict.fromkeys(names)]  # fmt: skip


def unmoved(program: Program, seeds: Mapping[str, Any], derived: Mapping[str, Any], rows: list[Leaf]) -> list[str]:
    """Leaves whose vᵀJ is zero up to rounding; whether J is zero too, where that is quickly found."""
    still = [name for name in derived if any(r.rounding and r.name == program.labels[name] for r in rows)]
    if not still:
        return []
    end = program.ends[0]
    value, weights = np.asarray(program.arrays[end]), as_float(seeds[end])
    names = [program.labels[name] for name in still]
    plain = [f"vᵀJ by {', '.join(names)} is 0: the digits are rounding"]
    if len(program.ends) > 1 or program.boxes or value.size < 2 or len(program.recording.steps) > FEW:
        return plain
    out = program.labels.get(end, end)
    blind = "v = ones is blind here" if (weights == weights.flat[0]).all() else "v is in J's left null space"
    single = replace(program.recording, output=end)
    notes = []
    for own, name in zip(still, names, strict=True):
        other = np.random.default_rng(0).standard_normal(value.shape)
        moved = pull(program.recording, program.values, program.boxes, {end: other}, [own], origins=program.origins)
        if not np.abs(as_float(moved[own])).max() > 1e-3:
            notes.append(f"vᵀJ by {name} is 0: the digits are rounding")
            continue
        try:
            always = everywhere(single, program.values, own, weights)
        except SymgradError:
            always = None
        why = f"Σ v·{out} stays the same whatever {name} is; {blind}" if always else blind
        notes.append(f"vᵀJ by {name} is 0 (the digits are rounding) although J is not: {why}")
    return notes


def broadcast_losses(program: Program) -> list[str]:
    """Losses whose two sides have different shapes: they are broadcast, and every pair counts."""
    made = {step.result.name: step for step in program.recording.steps}

    def before(name: Any) -> str:
        step = made.get(name)
        return before(step.arguments[0]) if step is not None and step.op == "expand" else str(name)

    notes = []
    for step in program.recording.steps:
        if not step.called.endswith("_loss") or len(step.tensors) < 2:
            continue
        sides = [before(name) for name in step.tensors[:2]]
        shapes = [np.shape(program.arrays[name]) for name in sides]
        wide, other = (np.shape(program.arrays[name]) for name in step.tensors[:2])
        if shapes[0] != shapes[1] and wide == other and wide not in shapes:
            (a, b), (m, n) = (program.labels.get(s, s) for s in sides), map(shape_text, shapes)
            notes.append(
                f"{step.op} compares {a} {m} with {b} {n}: both are broadcast to {shape_text(wide)}, so "
                f"{int(np.prod(wide))} pairs count and not {max(int(np.prod(s)) for s in shapes)}"
            )
    return notes


__all__ = [
    "accumulated",
    "broadcast_losses",
    "hooked",
    "missing",
    "overwritten_weights",
    "touched",
    "unmoved",
    "without_a_past",
]
