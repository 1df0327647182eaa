"""The history of gradients that can be differentiated again, and of results of `torch.func`'s transforms.

Comes in: a call of ``torch.autograd.grad`` or ``backward`` with ``create_graph=True`` while a `Recorder` is active, or
the ATen operations below one outermost transformed function, on whole tensors with their batches. Goes out: a `Node`
for each resulting tensor. Nodes recorded under a transform are compared with torch's own graph afterwards; if they
differ, the result has no history and a note.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from symgrad.ops.calls.call_texts import NEW
from symgrad.reference.bounds import UncompiledMode
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import WeakTensor, detached_node, only_source, storage_of, version
from symgrad.tracing.record.graph_breaks import find_upstream_leaves
from symgrad.tracing.record.isolation import suppress_warnings
from symgrad.tracing.record.patching import has_no_numbers
from symgrad.tracing.record.spelling import BackwardArgs, describe_function, spell_aten_operation
from symgrad.tracing.record.trace import (
    GraphBreak,
    Node,
    SourceLine,
    TorchCall,
    map_nested,
    tensors_in,
    upstream_nodes,
)

CALLS = {"torch.autograd.grad": "grad", "torch.autograd.backward": "backward"}
"""The calls that every way to run a backward ends in, and their kinds."""

CONSTANT = "differentiation: this gradient is a constant, and has no derivative of its own"
HISTORYLESS = (
    "whose result has no history: a constant, or made of what forward computed and kept on ctx; inputs that "
    "ctx.save_for_backward keeps have one"
)


@dataclass(eq=False)
class RecordedGradient:
    """The gradient of Σ weights·outputs with respect to ``inputs``, which are nodes; a weight None is the number 1.

    ``before`` are the nodes of earlier values in ``.grad``, to which a backward adds; ``results`` its resulting nodes.
    ``along`` marks a Ju, which is a gradient of Σ (w·J)·u.
    """

    outputs: tuple[Node, ...]
    weights: tuple[Node | None, ...]
    inputs: tuple[Node, ...]
    before: tuple[Node | None, ...]
    results: dict[int, weakref.ref[Node]] = field(default_factory=dict)
    along: bool = False

    @property
    def parents(self) -> tuple[Node, ...]:
        """The nodes it was computed from."""
        return tuple(node for node in (*self.outputs, *self.weights, *self.inputs, *self.before) if node is not None)


PendingGradient = tuple[str, RecordedGradient, Sequence[Any]]
"""A call before it runs: its kind, its gradient, and the tensors to differentiate with respect to."""


def expect_gradient(
    recorder: Any, spelling: str, function: Any, args: tuple[Any, ...], keywords: Any
) -> PendingGradient | None:
    """Return the gradient that a call will compute, if it can be differentiated again, else None."""
    kind = CALLS[spelling]
    given = BackwardArgs.of(kind, function, args, keywords)
    if not given.again or given.batched or has_no_numbers([*given.outputs, *(given.asked or ())]):
        return None
    outputs = tuple(recorder.node_of(t) for t in given.outputs)
    weights = tuple(None if t is None else recorder.node_of(t) for t in given.passed)
    if given.asked is None:
        owned = [n.owner() for n in upstream_nodes(list(outputs)) if n.kind == "leaf"]
        tensors = [t for t in owned if t is not None]
    else:
        tensors = list(given.asked)
    before = read_grad(tensors) if kind == "backward" else [None] * len(tensors)
    nodes = tuple(recorder.node_of(t) for t in tensors)
    old = tuple(None if t is None else recorder.node_of(t) for t in before)
    return kind, RecordedGradient(outputs, weights, nodes, old), tensors


def read_grad(tensors: Sequence[Any]) -> list[Any]:
    """Return the values of ``.grad``, also of tensors that are no leaves."""
    with suppress_warnings():
        return [tensor.grad for tensor in tensors]


def note_hook(recorder: Any, tensor: Any) -> None:
    """Record a hook on the present value of ``tensor``, by a weak reference, since a hook may refer to the tensor."""
    if has_no_numbers([tensor]):
        return
    node = recorder.node_of(tensor)
    with suppress_warnings():
        node.hooks = weakref.ref(tensor._backward_hooks)
    node.hooked = (*node.hooked, frames.user_line())


def note_results(recorder: Any, asked: PendingGradient, result: Any) -> None:
    """Create the nodes of a call's results: the returned tensors, or the new ``.grad``."""
    (kind, gradient, tensors), where = asked, frames.user_line(recorder.calls)
    recorder.calls += 1
    found = result.values() if isinstance(result, dict) else result
    for place, tensor in enumerate(read_grad(tensors) if kind == "backward" else found):
        if tensor is not None and not tensor.requires_grad:
            record_lost_history(recorder, gradient, tensor, where)
        if tensor is None or not tensor.requires_grad or recorder.knows(tensor):
            continue
        node = detached_node("gradient", tensor, where, index=place, parents=gradient.parents, gradient=gradient)
        gradient.results[place] = weakref.ref(node)
        recorder.register(tensor, node)


def record_lost_history(recorder: Any, gradient: RecordedGradient, tensor: Any, where: SourceLine) -> None:
    """Record why a gradient has no history despite ``create_graph``: it is constant, or a user's backward lost it."""
    given = [node.owner() for node in gradient.weights if node is not None]
    leaves = find_upstream_leaves(list(gradient.outputs))
    if any(tensor is own for own in given) or not leaves:
        return
    calls = [node.call for node in upstream_nodes(list(gradient.outputs)) if node.call is not None]
    own = [call.spelling.removesuffix(".apply") for call in calls if call.graph is not None]
    how = CONSTANT if not own else f"{' or '.join(dict.fromkeys(own))}.backward, {HISTORYLESS}"
    node = detached_node("data", tensor, where, cut=GraphBreak(how, where, leaves))
    recorder.register(tensor, node)


class BatchedRecording(UncompiledMode):  # type: ignore[no-untyped-call]  # torch annotates half of it
    """Records the operations of one call of a transformed function, named ``title``, in the order of execution."""

    def __init__(self, recorder: Any, title: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch annotates half of it
        self.recorder, self.title = recorder, title
        self.known: dict[int, tuple[Any, Node]] = {}
        self.lies: dict[int, tuple[Node, tuple[Any, ...], tuple[Node, ...]]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        given = self.recorder.guard(self.before, func, args, keywords)
        result = func(*args, **keywords)
        if given is not None:
            self.recorder.guard(self.after, func, given, result)
        return result

    def before(self, func: Any, args: Any, keywords: Any) -> tuple[Any, Any]:
        """Return the call's arguments as nodes, and the random state; values that it will write are copied."""
        given = map_nested((tuple(args), dict(keywords)), lambda v: self.node(v) if isinstance(v, torch.Tensor) else v)
        if func._schema.is_mutable:
            written = {storage_of(t) for t in tensors_in(args[:1])}
            for tensor, node in self.known.values():
                if storage_of(tensor) in written and node.version is not None:
                    node.held, node.version = tensor.clone(), None
        return given, torch.get_rng_state() if describe_function(func).random else None

    def after(self, func: Any, given: Any, result: Any) -> None:
        """Create the nodes of its results."""
        (arguments, keywords), random = given
        word = func._schema.name.removeprefix("aten::")
        writes = func._schema.is_mutable
        call = TorchCall(func, spell_aten_operation(word), arguments, keywords, frames.user_line(self.recorder.calls),
                    random, in_place=writes, number=self.recorder.calls)  # fmt: skip
        made = list(tensors_in(result))
        call.results, self.recorder.calls = len(made), self.recorder.calls + 1
        follows = torch.is_grad_enabled() and word not in NEW and any(n.carries for n in call.nodes)
        writes = writes and torch.Tag.inplace_view not in func.tags  # squeeze_ and its like write no number
        if writes:
            self.forget({storage_of(t) for t in made}, follows)
        for index, tensor in enumerate(made):
            if follows and (tensor.is_floating_point() or tensor.is_complex()):
                node = Node("call", tensor, 0, call.where, call, index, owner=WeakTensor(tensor))
            else:
                node = Node("data", tensor, 0, call.where, owner=WeakTensor(tensor))
            read = () if writes or len(made) > 1 else call.nodes
            node.made_by, node.made_of = call.spelling, only_source(read)
            found = self.come_back(tensor, node, read)
            if writes:
                node.held, node.version = tensor.clone(), None
            self.known[id(tensor)] = tensor, found  # held, so that nobody else gets its identity

    def come_back(self, tensor: Any, node: Node, read: tuple[Node, ...]) -> Node:
        """Return ``node``, or its base if that has the same layout, as after a batch axis was moved and moved back."""
        own = memory_layout(tensor)
        self.lies[id(node)] = node, own, read
        while len(read) == 1:
            (before,) = read
            owner = before.owner()
            nowhere = before, () if owner is None else memory_layout(owner), ()
            _, found, read = self.lies.get(id(before), nowhere)
            if found[:1] != own[:1] or before.carries != node.carries:
                break
            if found == own:
                return before
        return node

    def forget(self, written: set[Any], follows: bool) -> None:
        """Replace the nodes of tensors that share written storage: by new data, or by unknown values."""
        for tensor, node in list(self.known.values()):
            if storage_of(tensor) in written and (follows or node.carries):
                self.known[id(tensor)] = tensor, self.unseen(tensor, "writes in place through another name")
            elif storage_of(tensor) in written:
                self.known[id(tensor)] = tensor, Node("data", tensor, 0, node.where, owner=WeakTensor(tensor))

    def unseen(self, tensor: Any, why: str) -> Node:
        """Create a node without a history, with the reason."""
        node = Node("unknown", tensor, 0, frames.user_line(self.recorder.calls), owner=WeakTensor(tensor))
        node.notes.append(f"a value comes from {self.title}, which {why}")
        return node

    def node(self, tensor: Any) -> Node:
        """Return the node of a tensor: one recorded here, or the script's."""
        return self.known[id(tensor)][1] if id(tensor) in self.known else self.recorder.node_of(tensor)

    def settle(self, result: Any) -> None:
        """Register the results with the recorder after the call, if torch's graph agrees with the recorded one."""
        for tensor, node in self.known.values():
            if node.version is not None:
                node.held, node.version = tensor.detach(), version(tensor)
            if node.kind == "call" and node.owner() is tensor and not matches_torch_graph(tensor, node):
                node.notes.append(f"a value comes from {self.title}, which changed the graph outside the recording")
        for tensor in tensors_in(result):
            if id(tensor) in self.known and self.known[id(tensor)][1].carries == tensor.requires_grad:
                self.recorder.register(tensor, self.known[id(tensor)][1])
            elif tensor.requires_grad:
                self.recorder.register(tensor, self.unseen(tensor, "is not followed"))


def memory_layout(tensor: Any) -> tuple[Any, ...]:
    """Return a tensor's storage, offset, shape and strides."""
    return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def matches_torch_graph(tensor: Any, node: Node) -> bool:
    """Whether torch's graph node of a tensor has as many inputs as its call has operands with a gradient."""
    assert node.call is not None
    ways = () if tensor.grad_fn is None else tensor.grad_fn.next_functions
    return sum(function is not None for function, _ in ways) == sum(n.carries for n in node.call.nodes)
