"""A call of a function that `torch.func` transformed, as one event: what J is, how it is built, and that torch agrees.

Comes in: an `Ask` of `symgrad.tracing.record.transforms` whose call is over, and what it returned. Goes out: the event
of a gradient, told as any call of ``grad``; or a note about a Jacobian, a Hessian, or the gradients of a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.words import NOT_CHECKED, counted, shape_text
from symgrad.tracing.lift.lifter import Lifter
from symgrad.tracing.lift.verify import precision
from symgrad.tracing.record.given import Found, Given
from symgrad.tracing.record.gradients import Gradient
from symgrad.tracing.record.names import node_names
from symgrad.tracing.record.trace import Node, as_array, beginnings, upstream
from symgrad.tracing.record.transforms import GRADIENTS, PRODUCTS, Ask
from symgrad.tracing.session.agreement import difference, precision_of
from symgrad.tracing.session.event import told_of
from symgrad.tracing.session.history import History
from symgrad.tracing.session.rows import about
from symgrad.tracing.session.scene import Scene
from symgrad.tracing.story.events import Backward, Note
from symgrad.tracing.story.passages import passages
from symgrad.tracing.story.told_lines import told_lines

MOST = 250_000
"""Entries of a Jacobian that is laid out to be compared."""
HOW = {
    "jacrev": ", by one sweep back for each row",
    "jacfwd": ", by one sweep forward for each column",
    "hessian": ", by one sweep forward for each column through the gradient",
}
"""How each transform gets there."""


def told(watch: History, ask: Ask, result: Any) -> Backward | Note | None:
    """The event of one outermost call; None where nothing was differentiated."""
    returned = ask.returned(result)
    ask.inside.settle()
    if ask.word == "vmap":
        inner = next((one for one in ask.inside.nested if one.word != "vmap"), None)
        return None if inner is None else of_a_batch(watch, ask, inner)
    if not ask.ran:
        raise UnsupportedError("its function never ran")
    return one_call(watch, ask, [t.detach() for t in returned], ask.title)


def of_a_batch(watch: History, ask: Ask, inner: Ask) -> Backward | Note:
    """``vmap(grad(f))``: the first example's, told as one."""
    event = one_call(watch, inner, [node.held for node in inner.results], ask.title)
    said = f"vmap: the same for each of {counted(ask.rows, 'example')}, in one batched sweep; told here is the first"
    if isinstance(event, Note):
        return replace(event, more=(f"  {said}", *event.more))
    return replace(event, lead=(said, *event.lead))


def one_call(watch: History, ask: Ask, returned: Sequence[Any], title: str) -> Backward | Note:
    """A gradient or a Jacobian, from its function's ends."""
    unknown = next((n for n in upstream(list(ask.ends)) if n.kind == "unknown"), None)
    if unknown is not None:
        raise UnsupportedError(unknown.notes[0], found=(f"{unknown.where.short}: {unknown.where.text}",))  # type: ignore[union-attr]  # `unseen` says where
    if ask.word in (*GRADIENTS, "vjp"):
        scene = scene_of(watch, ask)
        event = told_of(scene, list(returned), None)
        return replace(event, lead=(f"{title}: one sweep back through the function", *event.lead))
    return forward(ask, returned, title) if ask.word in PRODUCTS else jacobian(ask, returned, title)


def scene_of(watch: History, ask: Ask) -> Scene:
    """The gradient as `Scene` tells those of ``torch.autograd.grad``."""
    outputs = tuple(node.held for node in ask.ends)
    wanted = tuple(node.held for node in ask.wanted)
    seeds = tuple(seed.detach().clone() for seed in ask.seeds) or (None,)
    given = Given("grad", outputs, ask.seeds or (None,), seeds, wanted, retained=True, batched=False)
    return Scene(watch, given, ask.where, Found(ask.ends, ask.wanted, ask.inside.names, ask.sight))


def jacobian(ask: Ask, returned: Sequence[Any], title: str) -> Note:
    """All of J, or all second derivatives."""
    ends = list(ask.ends)
    if len(ends) != 1:
        raise UnsupportedError(f"its function gives {len(ends)} tensors, and a J by each of them is several in one")
    if ask.word == "hessian" and (ends[0].held.numel() != 1 or len(ask.wanted) != 1):
        what = "gives more than one number" if ends[0].held.numel() != 1 else f"is asked by {len(ask.wanted)} tensors"
        raise UnsupportedError(f"its function {what}: that is several Hessians in one")
    named = dict(ask.inside.names)
    if ask.word == "hessian":
        ends = [slope(ask, named)]
    second = ends[0].kind == "gradient"
    program = program_of(ask, ends, named)
    agreed, said = True, []
    for own, found in zip(program.wanted, returned, strict=True):
        label = program.labels[own]
        whole = program.jacobian(label)
        for line in about(program, whole, label, program.outputs[0], ask.word):
            said.append(line.replace("J by", "H by").replace("J is", "H is") if second else line)
        same, sentence = compared(whole, found, kind_of(ends))
        agreed = agreed and same is not False
        said.append(sentence)
    ran = [f"  {line}" for line in passages(program)]
    boxes = [f"{box.name}: {box.spelling} is a black box, {NOT_CHECKED}: {box.reason}" for box in program.black_boxes]
    what = f"{title} gives all {'second derivatives' if second else 'of J'}{HOW.get(ask.word, '')}:"
    head = ("the function, and its gradient:" if second else "the function:",) if ran else ()
    return Note(ask.where, what, (*said, *head, *ran, *by_lines(program), *boxes), agreed)


def forward(ask: Ask, returned: Sequence[Any], title: str) -> Note:
    """Ju: one product with a change of the inputs."""
    program = program_of(ask, list(ask.ends), ask.inside.names)
    labels = [program.labels[own] for own in program.wanted]
    found = program.pushforward({n: as_array(t) for n, t in zip(labels, ask.tangents, strict=True)})
    own, torchs = found if isinstance(found, tuple) else (found,), [as_float(as_array(t)) for t in returned]
    pairs = [difference(as_float(a), b, precision_of(kind_of(ask.ends))[0], None, 0.0)
             for a, b in zip(own, torchs, strict=True)]  # fmt: skip
    agrees = all(same for _, same in pairs)
    said = "= torch in every entry" if agrees else f"≠ torch, by {max(e for e, _ in pairs):.2g} of the largest entry"
    ran = [f"  {line}" for line in passages(program)]
    sweep = (
        "gives Ju, by a sweep forward that is kept for any u"
        if ask.word == "linearize"
        else "gives Ju, by one sweep forward"
    )
    move = "moves" if len(labels) == 1 else "move"
    what = f"{title} {sweep}: how the outputs move if {', '.join(labels)} {move} along u"
    return Note(ask.where, what, (said, *(("the function:",) if ran else ()), *ran, *by_lines(program)), agrees)


def slope(ask: Ask, named: Mapping[int, str]) -> Node:
    """The gradient that a Hessian differentiates again, as a node; its numbers are ours, its derivative is compared."""
    (wanted,) = ask.wanted
    first = program_of(ask, list(ask.ends), named)
    seed = np.ones(np.shape(first.arrays[first.ends[0]]))
    held = as_float(first.pullback(seed)[first.inputs[0]])
    import torch  # for one tensor that holds what was derived

    gradient = Gradient(ask.ends, (None,), ask.wanted, (None,))
    value = torch.as_tensor(held).to(wanted.held.dtype)
    return Node("gradient", value, None, ask.where, parents=gradient.parents, gradient=gradient)


def program_of(ask: Ask, ends: list[Node], named: Mapping[int, str]) -> Capture:
    """What ran in the function, lifted: by the tensors that were asked for."""
    order = upstream(ends)
    names = node_names(order, named, ask.sight, outside=ask.where, given=True)
    lifted = Lifter(names, beginnings(ask.wanted)).lift(ends, [n for n in ask.wanted if n.kind in ("leaf", "data")])
    inputs = tuple(lifted.refs[id(node)].name for node in ask.wanted)
    return Capture(lifted.program, lifted.outputs, lifted.arrays, lifted.boxes, lifted.labels, inputs,
                   lifted.lines, lifted.spellings, origins=lifted.origins)  # fmt: skip


def by_lines(program: Capture) -> Iterator[str]:
    """vᵀJ for any row of weights, as lines."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, np.shape(program.arrays[program.ends[0]]))
    found = told_lines(program, {program.ends[0]: weights}, False, False)
    letter = found.letter(program.recording.seed)
    lines = found.every(opened=True)
    if lines:
        yield f"{letter}ᵀJ, for {letter} of the shape {shape_text(weights.shape)}:"
        yield from (f"  {line}" for line in lines)


def kind_of(ends: Sequence[Node]) -> str:
    """The coarsest type that torch computed in."""
    return max((precision(n) for n in upstream(list(ends))), key=lambda kind: precision_of(kind)[1])


def compared(whole: Any, found: Any, kind: str) -> tuple[bool | None, str]:
    """Whether what was returned is J as it was derived, and a sentence of it."""
    rows, columns = whole.shape
    if rows * columns > MOST:
        return None, f"{rows * columns:,} entries were not compared with torch's"
    try:
        own: Array = as_float(whole.dense()).reshape(tuple(found.shape))
    except (SymgradError, ValueError):
        return None, "its numbers were not compared with torch's"
    torchs = as_float(as_array(found))
    error, agrees = difference(own, torchs, precision_of(kind)[0], None, 0.0)
    if agrees:
        far = f" (largest difference {error:.1g} of the largest entry)" if error else ""
        return True, f"= torch in every entry{far}"
    return False, f"≠ torch, by {error:.2g} of the largest entry"


__all__ = ["told"]
