"""Gradients that can be differentiated again: what a backward with ``create_graph=True`` was asked, and its results.

Comes in: a call of ``torch.autograd.grad`` or ``torch.autograd.backward`` while a `Recorder` is on. Goes out: each
tensor that it gave is a `Node` of kind ``gradient`` from then on, so that what is computed from it has a past.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from symgrad.tracing.record import frames
from symgrad.tracing.record.cuts import leaves_of
from symgrad.tracing.record.given import Given
from symgrad.tracing.record.guard import Guard, numberless, unheard
from symgrad.tracing.record.trace import Cut, Node, Where, upstream, version
from symgrad.tracing.record.weakly import Weakly

CALLS = {"torch.autograd.grad": "grad", "torch.autograd.backward": "backward"}
"""The calls that every way to run a graph backwards comes down to, and what they are called here."""

CONSTANT = "differentiation: this gradient is a constant, and has no derivative of its own"
HISTORYLESS = (
    "whose result has no history: a constant, or made of what forward computed and kept on ctx; inputs that "
    "ctx.save_for_backward keeps have one"
)


class Nodes(Protocol):
    """What a recorder knows of tensors: the nodes of their present values, and how many calls there were."""

    guard: Guard
    calls: int

    def node_of(self, tensor: Any) -> Node:
        """The node of a tensor's present value."""

    def knows(self, tensor: Any) -> bool:
        """Whether that value has a node."""

    def register(self, tensor: Any, node: Node) -> None:
        """Give it one."""


@dataclass(eq=False)
class Gradient:
    """Σ weights·outputs differentiated by ``inputs``, which are nodes; a weight of None is the number 1.

    ``before`` are the nodes of what stood in ``.grad``, to which a backward added; ``results`` the nodes that it gave.
    ``along`` says that it is a Ju, which is a gradient of Σ (w·J)·u.
    """

    outputs: tuple[Node, ...]
    weights: tuple[Node | None, ...]
    inputs: tuple[Node, ...]
    before: tuple[Node | None, ...]
    results: dict[int, weakref.ref[Node]] = field(default_factory=dict)
    along: bool = False

    @property
    def parents(self) -> tuple[Node, ...]:
        """What it was computed from."""
        return tuple(node for node in (*self.outputs, *self.weights, *self.inputs, *self.before) if node is not None)


@dataclass(eq=False)
class Asked:
    """One call before it ran: the gradient that it will give, and the tensors that it is by."""

    kind: str
    gradient: Gradient
    tensors: Sequence[Any]


def asked(recorder: Nodes, spelling: str, function: Any, args: tuple[Any, ...], keywords: Any) -> Asked | None:
    """What a call will give, if that can be differentiated again."""
    kind = CALLS[spelling]
    given = Given.of(kind, function, args, keywords)
    if not given.again or given.batched or numberless([*given.outputs, *(given.asked or ())]):
        return None
    outputs = tuple(recorder.node_of(t) for t in given.outputs)
    weights = tuple(None if t is None else recorder.node_of(t) for t in given.passed)
    if given.asked is None:
        owned = [n.owner() for n in upstream(list(outputs)) if n.kind == "leaf" and n.owner is not None]
        tensors = [t for t in owned if t is not None]
    else:
        tensors = list(given.asked)
    before = in_grad(tensors) if kind == "backward" else [None] * len(tensors)
    nodes = tuple(recorder.node_of(t) for t in tensors)
    old = tuple(None if t is None else recorder.node_of(t) for t in before)
    return Asked(kind, Gradient(outputs, weights, nodes, old), tensors)


def in_grad(tensors: Sequence[Any]) -> list[Any]:
    """What stands in ``.grad``, of a tensor that is no leaf, too."""
    with unheard():
        return [tensor.grad for tensor in tensors]


def hooked(recorder: Nodes, tensor: Any) -> None:
    """A hook was put on the present value of ``tensor``; it is not held, since it may hold the tensor itself."""
    if numberless([tensor]):
        return
    node = recorder.node_of(tensor)
    with unheard():
        node.hooks = weakref.ref(tensor._backward_hooks)
    node.hooked = (*node.hooked, frames.here())


def note(recorder: Nodes, asked: Asked, result: Any) -> None:
    """Give what a call gave its nodes: what was returned, or what stands in ``.grad`` now."""
    gradient, where = asked.gradient, frames.here(recorder.calls)
    recorder.calls += 1
    found = result.values() if isinstance(result, dict) else result
    for place, tensor in enumerate(in_grad(asked.tensors) if asked.kind == "backward" else found):
        if tensor is not None and not tensor.requires_grad:
            ended(recorder, gradient, tensor, where)
        if tensor is None or not tensor.requires_grad or recorder.knows(tensor):
            continue
        node = Node(
            "gradient",
            tensor.detach(),
            version(tensor),
            where,
            index=place,
            parents=gradient.parents,
            owner=Weakly(tensor),
            gradient=gradient,
        )
        gradient.results[place] = weakref.ref(node)
        recorder.register(tensor, node)


def ended(recorder: Nodes, gradient: Gradient, tensor: Any, where: Where) -> None:
    """A gradient without a history, though one was asked for: a constant, or a backward of the user's own lost it."""
    given = [node.owner() for node in gradient.weights if node is not None and node.owner is not None]
    leaves = leaves_of(list(gradient.outputs))
    if any(tensor is own for own in given) or not leaves:
        return
    calls = [node.call for node in upstream(list(gradient.outputs)) if node.call is not None]
    own = [call.spelling.removesuffix(".apply") for call in calls if call.graph is not None]
    how = CONSTANT if not own else f"{' or '.join(dict.fromkeys(own))}.backward, {HISTORYLESS}"
    node = Node("data", tensor.detach(), version(tensor), where, cut=Cut(how, where, leaves), owner=Weakly(tensor))
    recorder.register(tensor, node)
