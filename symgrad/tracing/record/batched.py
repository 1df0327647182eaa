"""What `torch.func`'s transforms make of a function that ran under them, as it ran: on whole tensors, batches and all.

Comes in: the ATen operations below the transforms, while one outermost transformed function is called. Goes out: nodes
of a `Recorder` for the tensors that it gave, so that a backward through `vmap(f)(x)`, or through the gradient that
`grad(f)` gave, has a past. What is noted is held against torch's own graph afterwards; where that is another, the
result has no past, and says so.
"""

from __future__ import annotations

from typing import Any

import torch

from symgrad.ops.calls.written import NEW
from symgrad.reference.bounds import Uncompiled
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import storage
from symgrad.tracing.record.gradients import Nodes
from symgrad.tracing.record.spelling import facts, said_by_users
from symgrad.tracing.record.trace import Call, Node, mapped, only_of, tensors_in, version
from symgrad.tracing.record.weakly import Weakly


class Batched(Uncompiled):  # type: ignore[no-untyped-call]  # torch annotates half of it
    """The operations of one call of a transformed function, called ``title``, in the order in which they ran."""

    def __init__(self, recorder: Nodes, title: str) -> None:
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
        given = mapped((tuple(args), dict(keywords)), lambda v: self.node(v) if isinstance(v, torch.Tensor) else v)
        if func._schema.is_mutable:
            written = {storage(t) for t in tensors_in(args[:1])}
            for tensor, node in self.known.values():
                if storage(tensor) in written and node.version is not None:
                    node.held, node.version = tensor.clone(), None
        return given, torch.get_rng_state() if facts(func).random else None

    def after(self, func: Any, given: Any, result: Any) -> None:
        """The nodes of what it made."""
        (arguments, keywords), random = given
        word = func._schema.name.removeprefix("aten::")
        writes = func._schema.is_mutable
        call = Call(func, said_by_users(word), arguments, keywords, frames.here(self.recorder.calls), random,
                    in_place=writes, number=self.recorder.calls)  # fmt: skip
        made = list(tensors_in(result))
        call.results, self.recorder.calls = len(made), self.recorder.calls + 1
        follows = torch.is_grad_enabled() and word not in NEW and any(n.carries for n in call.nodes())
        writes = writes and torch.Tag.inplace_view not in func.tags  # squeeze_ and its like write no number
        if writes:
            self.forget({storage(t) for t in made}, follows)
        for index, tensor in enumerate(made):
            if follows and (tensor.is_floating_point() or tensor.is_complex()):
                node = Node("call", tensor, 0, call.where, call, index, owner=Weakly(tensor))
            else:
                node = Node("data", tensor, 0, call.where, owner=Weakly(tensor))
            read = () if writes or len(made) > 1 else call.nodes()
            node.made_by, node.made_of = call.spelling, only_of(read)
            found = self.come_back(tensor, node, read)
            if writes:
                node.held, node.version = tensor.clone(), None
            self.known[id(tensor)] = tensor, found  # held, so that nobody else gets its identity

    def come_back(self, tensor: Any, node: Node, read: tuple[Node, ...]) -> Node:
        """``node``, or what it is a view of, if that lies the same: a batch that was moved and put back."""
        own = layout(tensor)
        self.lies[id(node)] = node, own, read
        while len(read) == 1:
            (before,) = read
            owner = None if before.owner is None else before.owner()
            nowhere = before, () if owner is None else layout(owner), ()
            _, found, read = self.lies.get(id(before), nowhere)
            if found[:1] != own[:1] or before.carries != node.carries:
                break
            if found == own:
                return before
        return node

    def forget(self, written: set[Any], follows: bool) -> None:
        """What shares memory with something that was written is other data now, or holds nobody knows what."""
        for tensor, node in list(self.known.values()):
            if storage(tensor) in written and (follows or node.carries):
                self.known[id(tensor)] = tensor, self.unseen(tensor, "writes in place through another name")
            elif storage(tensor) in written:
                self.known[id(tensor)] = tensor, Node("data", tensor, 0, node.where, owner=Weakly(tensor))

    def unseen(self, tensor: Any, why: str) -> Node:
        """A value without a past, and why."""
        node = Node("unknown", tensor, 0, frames.here(self.recorder.calls), owner=Weakly(tensor))
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
            if node.kind == "call" and node.owner is not None and node.owner() is tensor and not as_noted(tensor, node):
                node.notes.append(f"a value comes from {self.title}, which cuts or joins paths where nobody looked")
        for tensor in tensors_in(result):
            if id(tensor) in self.known and self.known[id(tensor)][1].carries == tensor.requires_grad:
                self.recorder.register(tensor, self.known[id(tensor)][1])
            elif tensor.requires_grad:
                self.recorder.register(tensor, self.unseen(tensor, "is not followed"))


def layout(tensor: Any) -> tuple[Any, ...]:
    """How a tensor lies in its memory."""
    return storage(tensor), tensor.storage_offset(), tensor.shape, tensor.stride()


def as_noted(tensor: Any, node: Node) -> bool:
    """Whether torch's graph leads from a tensor to as many others as its call read with a gradient."""
    assert node.call is not None
    ways = () if tensor.grad_fn is None else tensor.grad_fn.next_functions
    return sum(function is not None for function, _ in ways) == sum(n.carries for n in node.call.nodes())
