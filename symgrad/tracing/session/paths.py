"""Why a tensor gets no gradient: where the path to it was cut, or why its ``.grad`` is None.

Comes in: the scene of a call, or a tensor whose ``.grad`` was read after it. Goes out: sentences of what was seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakSet

from symgrad.program import Constant
from symgrad.tracing.lift.lifted import Lifted
from symgrad.tracing.record import frames, sight
from symgrad.tracing.record.cuts import unread
from symgrad.tracing.record.names import node_names
from symgrad.tracing.record.numbers import short
from symgrad.tracing.record.trace import Cut, Node, Where, upstream
from symgrad.tracing.session.diagnose import output_name, unreached
from symgrad.tracing.session.findings import Findings
from symgrad.tracing.session.history import Filled, Last
from symgrad.tracing.session.scene import Scene
from symgrad.tracing.story.events import some


def last_of(scene: Scene) -> Last:
    """What a call leaves behind."""
    found = []
    for node in {id(n): n for call in scene.order for n in (call, *call.sources())}.values():
        if node.cut is not None:
            tensor = node.owner() if node.owner is not None else None
            new = node.kind == "leaf"
            found.append((node.cut, scene.sight.get(id(tensor), "it") if new else "", node.where if new else None))
    return Last(
        scene.where,
        output_name(scene),
        tuple(found),
        dict(scene.passed),
        WeakSet(scene.order),
        scene.kind,
        scene.asked is not None,
        tuple((WeakSet(upstream([node])), said) for node, said in scene.sensor.each() if " returned None " in said),
    )


def anew(scene: Scene, node: Node) -> str | None:
    """A leaf that was made of what a cut left; None where all that lies behind the cut is reached in another way."""
    assert node.cut is not None
    behind = scene.behind(node.cut)
    lost = [name for name, reached in behind if not reached]
    if behind and not lost:
        return None
    tensor = node.owner() if node.owner is not None else None
    who = nothing_for(lost or ["what it was computed from"])
    return f"{who}: {cut_in_words(node.cut, scene.sight.get(id(tensor), 'it'), node.where, scene.where)}"


def nothing_for(names: Sequence[str]) -> str:
    """``w gets nothing``, ``w, b get nothing``."""
    who = list(dict.fromkeys(names))
    return f"{some(who)} {'gets' if len(who) == 1 else 'get'} nothing"


def cut_in_words(cut: Cut, name: str, where: Where | None, call: Where) -> str:
    """``the path was cut in line 4 by .detach(); line 5 made loss a new leaf``; other files than the call's by name."""

    def place(of: Where) -> str:
        return f"line {of.line}" if of.file == call.file else of.short

    said = f"the path was cut in {place(cut.where)} by {cut.how}"
    return said if where is None else f"{said}; {place(where)} made {name} a new leaf"


def missing(call: Findings) -> list[str]:
    """Tensors in the program, or cut off from it, that get no gradient, and why."""
    scene, lifted = call.scene, call.lifted
    notes: list[str] = []
    unasked: list[str] = []
    buffers = sight.buffers_in(frames.user_frame())
    for name, node in lifted.nodes.items():
        if node.kind == "data" and id(node) in node_names([node], {}, scene.sight) and node.cut is None:
            tensor = node.owner() if node.owner is not None else None
            label = lifted.labels[name]
            own = id(tensor) in buffers  # a module's: nobody expects a gradient
            moves = node.held.is_floating_point() or node.held.is_complex()
            if tensor is not None and moves and tensor.dim() and not tensor.requires_grad:
                unasked += [] if own or scene.kind == "grad" else [label]
        if node.cut is not None and node.kind == "data":
            away, here = ([name for name, reached in scene.behind(node.cut) if reached is own] for own in (False, True))
            if away and scene.kind == "grad":
                continue  # it was not asked for, so nobody expects it
            if away:
                notes.append(f"{nothing_for(away)}: {cut_in_words(node.cut, '', None, scene.where)}")
            elif node.cut.meant:
                who = ", ".join(dict.fromkeys(here)) or "a leaf"
                cut = cut_in_words(node.cut, "", None, scene.where).removeprefix("the path was ")
                notes.append(f"one of the ways from {who} was {cut}: its part of {call.letter}ᵀJ is left out")
    notes += taken_out(scene, lifted)
    if scene.kind == "grad" and (nowhere := unreached(scene, nameless=False)):
        notes.append(f"{nowhere}: torch gives None there, or zeros with materialize_grads=True")
    if len(unasked) == 1:
        notes.append(f"{unasked[0]} is not asked: requires_grad=False, so {unasked[0]}.grad stays None")
    elif unasked:
        notes.append(f"{some(unasked)} are not asked: requires_grad=False, so their .grad stays None")
    if scene.kind != "grad":
        made = (anew(scene, node) for node in scene.order if node.kind == "leaf" and node.cut is not None)
        notes += [note for note in made if note is not None]
    return list(dict.fromkeys(notes))[:8]


def thrown_away(call: Findings) -> Iterator[str]:
    """A function of the user's own whose result nothing read: its backward has no part in any other."""
    recorder, reached = call.scene.watch.recorder, {id(node) for node in call.scene.order}
    left = unread(recorder.asides, call.scene.order)
    gone = [aside for aside in left if aside.call() is None]
    recorder.asides = [aside for aside in left if aside not in gone]
    for aside in gone:
        if any(id(source()) in reached for source in aside.sources):
            where = f"line {aside.where.line}" if aside.where.file == call.scene.where.file else aside.where.short
            yield (
                f"nothing reads the result of {aside.spelling} ({where}), so no backward goes through it, and its own "
                "never runs; what is to come back through it has to be computed from its result"
            )


def taken_out(scene: Scene, lifted: Lifted) -> Iterator[str]:
    """Numbers of the program that were taken out of tensors: they look like constants."""
    for value in (a.value for step in lifted.program.steps for a in step.arguments if isinstance(a, Constant)):
        cut = scene.watch.recorder.taken.cuts.get(value) if isinstance(value, float) else None
        if cut is not None:
            who = ", ".join(dict.fromkeys(name for name, _ in scene.behind(cut)))
            who = f" from {who}" if who else ""
            how = cut_in_words(cut, "", None, scene.where).removeprefix("the path was ")
            yield f"a way{who} was {how}: a number ({value:.6g}), not a tensor, goes on"


def why_none(
    names: Mapping[int, str], tensor: Any, node: Node, last: Last, emptied: Where | None, filled: Filled
) -> str:
    """Why ``.grad`` is None after a backward; ``names`` are those in sight, ``filled`` whose ``.grad`` was filled."""
    name = names.get(id(tensor)) or "it"
    none = f"{name}.grad is None"
    if node.kind == "data" and node.cut is not None:
        return f"{none}: {cut_in_words(node.cut, name, None, last.where)}"
    if not tensor.requires_grad:
        kind = str(tensor.dtype).removeprefix("torch.")
        could = "" if tensor.is_floating_point() or tensor.is_complex() else f" ({kind} cannot: it does not move)"
        return f"{none}: requires_grad=False{could}, so vᵀJ by {name} was not asked for"
    if not tensor.is_leaf:
        return f"{none}: {no_leaf(names, tensor, node, last, filled)}"
    for cut, new, where in last.cuts:
        if any(reference() is tensor for reference in cut.leaves):
            ends = f", and the backward in line {last.where.line} ends there" if where is not None else ""
            return f"{none}: {cut_in_words(cut, new, where, last.where)}{ends}"
    if emptied is not None:
        return f"{none}: line {emptied.line} ({emptied.text}) set it to None"
    if last.kind == "grad":
        return f"{none}: autograd.grad (line {last.where.line}) hands gradients back, and leaves .grad as it is"
    if any(source is node for reached in last.reached for source in (reached, *reached.sources())):
        if last.chosen:
            return f"{none}: the last backward (line {last.where.line}) was asked by inputs= for others than {name}"
        ended = (said for above, said in last.ended if node in above)
        return f"{none}: {next(ended, f'the backward in line {last.where.line} passed nothing to it')}"
    return f"{none}: the last backward (line {last.where.line}) had no path to {name}"


def no_leaf(names: Mapping[int, str], tensor: Any, node: Node, last: Last, filled: Filled) -> str:
    """What a computed tensor is instead of a leaf, and what would be one."""
    name = names.get(id(tensor)) or "it"
    earlier = next((where for _, where, label in filled.values() if label == name), None)
    owners = [source.owner() for source in upstream([node]) if source.kind == "leaf" and source.owner is not None]
    nameless = not any(id(owner) in names for owner in owners)
    made = f" in line {node.where.line}" if node.where is not None else ""
    if earlier is not None:
        return (
            f"{name} is a new tensor (it was computed{made}) and no leaf; the {name} whose .grad line {earlier.line} "
            f"filled is another. Changed in place it stays the leaf: with torch.no_grad(): {name} -= …"
        )
    what = f"{name} is not a leaf (it was computed{made})"
    if node not in last.reached:
        return f"{what}, and the last backward (line {last.where.line}) had no path to it"
    owner, weights = last.passed.get(id(tensor), (None, None))
    flowed = f" ({short(weights)})" if owner is not None and owner() is tensor else ""
    asked = "" if last.output == name else f", torch.autograd.grad({last.output}, {name}) gives it"
    return (
        f"{what}; what flowed through it{flowed} is kept only for leaves. {name}.retain_grad() before backward keeps "
        f"it{asked}{'; with requires_grad_() after that computation it is a leaf itself' if nameless else ''}"
    )


__all__ = ["Last"]
