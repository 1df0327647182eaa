"""Results of torch's own differentiation that have a past: gradients, and what `torch.func`'s transforms give.

Comes in: a call of ``torch.autograd.grad`` or ``backward`` with ``create_graph=True`` while a `Recorder` is on, or the
ATen operations below one outermost transformed function, on whole tensors, batches and all. Goes out: each tensor that
came of it is a `Node`, so that what is computed from it has a past. What is noted under a transform is held against
torch's own graph afterwards; where that is another, the result has no past, and says so.
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
"""The calls that every way to run a graph backwards comes down to, and what they are called here."""

CONSTANT = "differentiation: this gradient is a constant, and has no derivative of its own"
HISTORYLESS = (
    "whose result has no history: a constant, or made of what forward computed and kept on ctx; inputs that "
    "ctx.save_for_backward keeps have one"
)


@dataclass(eq=False)
class RecordedGradient:
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


PendingGradient = tuple[str, RecordedGradient, Sequence[Any]]
"""One call before it ran: its kind, the gradient that it will give, and the tensors that it is by."""


def expect_gradient(
    recorder: Any, spelling: str, function: Any, args: tuple[Any, ...], keywords: Any
) -> PendingGradient | None:
    """What a call will give, if that can be differentiated again."""
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
    """What stands in ``.grad``, of a tensor that is no leaf, too."""
    with suppress_warnings():
        return [tensor.grad for tensor in tensors]


def note_hook(recorder: Any, tensor: Any) -> None:
    """A hook was put on the present value of ``tensor``; it is not held, since it may hold the tensor itself."""
    if has_no_numbers([tensor]):
        return
    node = recorder.node_of(tensor)
    with suppress_warnings():
        node.hooks = weakref.ref(tensor._backward_hooks)
    node.hooked = (*node.hooked, frames.user_line())


def note_results(recorder: Any, asked: PendingGradient, result: Any) -> None:
    """Give what a call gave its nodes: what was returned, or what stands in ``.grad`` now."""
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
    """A gradient without a history, though one was asked for: a constant, or a backward of the user's own lost it."""
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
    """The operations of one call of a transformed function, called ``title``, in the order in which they ran."""

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
        """The nodes of what a call is given; what it will write is copied."""
        given = map_nested((tuple(args), dict(keywords)), lambda v: self.node(v) if isinstance(v, torch.Tensor) else v)
        if func._schema.is_mutable:
            written = {storage_of(t) for t in tensors_in(args[:1])}
            for tensor, node in self.known.values():
                if storage_of(tensor) in written and node.version is not None:
                    node.held, node.version = tensor.clone(), None
        return given, torch.get_rng_state() if describe_function(func).random else None

    def after(self, func: Any, given: Any, result: Any) -> None:
        """The nodes of what it made."""
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
        """``node``, or what it is a view of, if that lies the same: a batch that was moved and put back."""
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
        """What shares memory with something that was written is other data now, or holds nobody knows what."""
        for tensor, node in list(self.known.values()):
            if storage_of(tensor) in written and (follows or node.carries):
                self.known[id(tensor)] = tensor, self.unseen(tensor, "writes in place through another name")
            elif storage_of(tensor) in written:
                self.known[id(tensor)] = tensor, Node("data", tensor, 0, node.where, owner=WeakTensor(tensor))

    def unseen(self, tensor: Any, why: str) -> Node:
        """A value without a past, and why."""
        node = Node("unknown", tensor, 0, frames.user_line(self.recorder.calls), owner=WeakTensor(tensor))
        node.notes.append(f"a value comes from {self.title}, which {why}")
        return node

    def node(self, tensor: Any) -> Node:
        """What stands for a tensor: one that nothing here made is the script's."""
        return self.known[id(tensor)][1] if id(tensor) in self.known else self.recorder.node_of(tensor)

    def settle(self, result: Any) -> None:
        """The call is over: what it gave is the recorder's from here on, if torch's graph is as it was noted."""
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
    """How a tensor lies in its memory."""
    return storage_of(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def matches_torch_graph(tensor: Any, node: Node) -> bool:
    """Whether torch's graph leads from a tensor to as many others as its call read with a gradient."""
    assert node.call is not None
    ways = () if tensor.grad_fn is None else tensor.grad_fn.next_functions
    return sum(function is not None for function, _ in ways) == sum(n.carries for n in node.call.nodes)
