"""Graph breaks: the ends of paths to leaves, and their reasons.

Comes in: a new tensor without a gradient, and its operands. Goes out: a `GraphBreak` in words, or None; and the history
before the break, if it is short, by which a straight-through estimator is recognised.

Numbers that a call returns to Python or NumPy have no path back: each gets a `GraphBreak`, which identifies the
constant in a later program.
"""

from __future__ import annotations

import linecache
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import torch

from symgrad.ops.calls.call_texts import NEW
from symgrad.ops.lookup import find
from symgrad.program import Role
from symgrad.tracing.record import frames
from symgrad.tracing.record.aliases import is_leaf
from symgrad.tracing.record.spelling import plain_spelling, plain_word
from symgrad.tracing.record.trace import (
    ASIDE,
    COMPILED,
    GraphBreak,
    Node,
    SourceLine,
    TorchCall,
    tensors_in,
    upstream_nodes,
)

LEAVES = 50
"""The largest number of leaves that a break keeps."""
FEW, DEEP = 8, 3
"""The largest number of steps before a break, and of breaks in a row: a loop that detaches its state has many."""
VARIABLE = "Variable"
"""`torch.autograd.Variable`, called."""
OFF = {"no_grad": "torch.no_grad()", "set_grad_enabled": "torch.set_grad_enabled(False)"}
"""Switches of gradients, by the word in the source."""
INSIDE = 64
"""The largest number of kept steps of one forward of a user's own function."""


class CustomForward:
    """A forward of a user's own function: the nodes that it ``made``, and whether numbers ``escaped`` from torch.

    ``data`` are the nodes of the same values without a history, as torch has them.
    """

    def __init__(self) -> None:
        self.made: list[Node] = []
        self.data: list[Node] = []
        self.escaped = False

    def leave(self, recorder: Any) -> None:
        """Turn values that outlive the forward into data, since torch has no history of them."""
        for node in self.data:
            tensor = node.owner()
            if tensor is not None and recorder.nodes.get(tensor) is node:
                recorder.register(tensor, replace(node, detached=None, past=None, inner=bool(recorder.forwards)))


def graph_break_of(tensor: Any, call: TorchCall, sources: list[Node], where: SourceLine) -> GraphBreak | None:
    """Return why ``tensor`` has no gradient although an operand has one; an earlier break is passed on."""
    carrying = [node for node in sources if node.kind != "data"]
    if not carrying:
        return next((node.cut for node in sources if node.cut is not None), None)
    word, meant = call.spelling.removesuffix(".__get__").rpartition(".")[2], True
    if call.spelling == VARIABLE:
        how, meant = "Variable(…), which copies values without their history", False
    elif is_detach_call(call):
        how = f".{word}{'' if word == 'data' else '()'}"
    elif word in ("tensor", "as_tensor", "asarray"):
        how, meant = f"torch.{word}(…), which copies numbers without their history", False
    elif not torch.is_grad_enabled():
        how = "torch.inference_mode()" if torch.is_inference_mode_enabled() else grad_switches_in_file(where.file)
    elif not tensor.is_floating_point() and not tensor.is_complex():
        how, meant = f"{word}: its result is {str(tensor.dtype).removeprefix('torch.')}, which has no derivative", False
    else:
        how, meant = f"{word}, for which torch has no derivative", False
    return GraphBreak(how, where, find_upstream_leaves(carrying), meant)


@lru_cache(maxsize=256)
def grad_switches_in_file(file: str) -> str:
    """Return the switches of gradients that a file contains, since torch does not report which one acted."""
    text = "".join(linecache.getlines(file))
    found = [call for word, call in OFF.items() if word in text]
    return " or ".join(found) or OFF["no_grad"]


def find_upstream_leaves(nodes: list[Node]) -> tuple[Any, ...]:
    """Return weak references to the first leaf tensors upstream of ``nodes``."""
    found = {id(leaf): leaf for node in nodes if node.carries for leaf in leaves_upstream_of(node)}
    return tuple(found.values())[:LEAVES]


def leaves_upstream_of(node: Node) -> tuple[Any, ...]:
    """Return the leaves of one node; they are cached in each node above it, so that a loop visits each step once."""
    for known in upstream_nodes([node], ends=lambda known: known.leaves is not None):
        if known.leaves is None:
            leaf = known.kind == "leaf" and known.owner() is not None
            known.leaves = (known.owner,) if leaf else union_leaves(known.sources())
    return node.leaves or ()


def union_leaves(sources: Sequence[Node]) -> tuple[Any, ...]:
    """Return the leaves of all ``sources``; if one source has them all, its tuple itself, to save memory."""
    most = max((source.leaves or () for source in sources), key=len, default=())
    found = {id(leaf): leaf for source in sources for leaf in source.leaves or ()}
    return most if len(found) == len(most) else tuple(found.values())[:LEAVES]


def is_detach_call(call: TorchCall) -> bool:
    """Whether a call detaches by its name."""
    spelling = plain_spelling(call.spelling.removesuffix(".__get__"))
    op = find(spelling)
    return spelling in ("Tensor.data", VARIABLE) or (op is not None and op.traits.role is Role.CUTS)


def detached_from(call: TorchCall, sources: list[Node]) -> Node | None:
    """Return the node that ``call`` detaches, if it has a short history with few earlier breaks, else None."""
    if not is_detach_call(call) or len(sources) != 1:
        return None
    return sources[0] if sources[0].carries and count_breaks_before(sources) < DEEP else None


def history_of_data(
    data: Node, call: TorchCall, index: int, sources: list[Node], forwards: Sequence[CustomForward]
) -> Node | None:
    """Return a node with the history of ``data``: ``call`` on detached tensors, or any call in one of ``forwards``.

    An example is the difference in ``hard - soft.detach() + soft``. None if there is no such history.
    """
    if forwards:
        new = not sources or (plain_word(call.spelling) in NEW and not is_detach_call(call))
        return None if new else history_inside_forward(forwards, data, kind="call", call=call, index=index)
    if not any(n.detached for n in sources) or count_breaks_before(sources) >= DEEP:
        return None
    return Node("call", data.held, data.version, data.where, call, index)


def history_inside_forward(forwards: Sequence[CustomForward], data: Node, **how: Any) -> Node | None:
    """Return a node with the history ``how`` of ``data`` in one of ``forwards``; None beyond `INSIDE` steps.

    Torch tracks nothing in a user's own forward, so that all values in it are data.
    """
    if not forwards:
        return None
    data.inner = bool(data.held.is_floating_point() or data.held.is_complex())
    forwards[-1].data.append(data)
    made = forwards[-1].made
    if len(made) >= INSIDE:
        return None
    made.append(Node(held=data.held, version=data.version, where=data.where, **how))
    return made[-1]


def mark_escaped(forwards: Sequence[CustomForward], *tensors: Any) -> None:
    """Mark that numbers of ``tensors`` left torch, or were written unseen by autograd, so their use is unknown."""
    for forward in forwards:
        forward.escaped |= any(t.is_floating_point() or t.is_complex() for t in tensors)


@contextmanager
def inside_forward(forwards: list[CustomForward], custom: bool) -> Iterator[CustomForward]:
    """Collect the nodes of a user's own forward while it runs, if ``custom``."""
    found = CustomForward()
    if not custom:
        yield found
        return
    forwards.append(found)
    try:
        yield found
    finally:
        forwards.pop()


def find_inner_origins(tensors: Sequence[Any], inside: CustomForward) -> tuple[Node | None, ...]:
    """Return the inner nodes of a user's own function's results; none if numbers left torch inside.

    They are compared by memory, since torch may return a view of a result.
    """

    def one(tensor: Any) -> Node | None:
        made = reversed(inside.made)
        return next((n for n in made if n.held.shape == tensor.shape and n.held.data_ptr() == tensor.data_ptr()), None)

    return () if inside.escaped else tuple(map(one, tensors))


def note_custom(recorder: Any, call: TorchCall, inside: CustomForward, result: Any) -> None:
    """Store in a call of a user's own function its results' inner nodes and its node of torch's graph."""
    made = [*tensors_in(result)]
    call.forward = find_inner_origins(made, inside)
    inside.leave(recorder)
    call.graph = next((t.grad_fn for t in made if t.requires_grad and not is_leaf(t)), None)
    results = result if isinstance(result, tuple) else (result,)
    call.slots = tuple(n for n, part in enumerate(results) for _ in tensors_in(part))


@dataclass(frozen=True, eq=False)
class Unread:
    """A call of a user's own function whose result is unread so far, and its operands, by weak references."""

    call: weakref.ref[TorchCall]
    spelling: str
    where: SourceLine
    sources: tuple[weakref.ref[Node], ...]

    @classmethod
    def of(cls, call: TorchCall, sources: Sequence[Node]) -> list[Unread]:
        """Return the call in a list, if a backward can go through it, else an empty list."""
        read = tuple(weakref.ref(node) for node in sources if node.kind != "data")
        return [] if call.graph is None else [cls(weakref.ref(call), call.spelling, call.where, read)]


def find_unread_results(asides: list[Unread], sources: Sequence[Node]) -> list[Unread]:
    """Return the latest calls whose results are not among ``sources``."""
    read = {id(node.call) for node in sources if node.call is not None}
    return [aside for aside in asides[-INSIDE:] if id(aside.call()) not in read]


def count_breaks_before(nodes: Sequence[Node]) -> int:
    """Count the kept breaks in a row above ``nodes``; `FEW` if there are more than a few steps."""
    seen: dict[int, Node] = {}
    waiting = list(nodes)
    while waiting and len(seen) <= FEW:
        node = waiting.pop()
        seen[id(node)] = node
        waiting += [n for n in node.sources() if id(n) not in seen]
    if len(seen) > FEW or any(n.kind not in ("leaf", "data", "call") for n in seen.values()):
        return FEW
    kept = [n.detached or n.past for n in seen.values()]
    return max((1 + count_breaks_before([n]) for n in kept if n is not None), default=0)


def grad_fn_of(tensor: Any, aside: bool = False) -> str:
    """Return the name of a tensor's node of torch's graph; empty if it has none, or if torch raises as in `is_leaf`.

    With ``aside``, recording was off for a while, and the name is `ASIDE` unless the node is the compiler's.
    """
    try:
        name = "" if tensor.grad_fn is None else str(tensor.grad_fn.name())
    except RuntimeError:
        return ""
    return ASIDE if aside and name != COMPILED else name


HANDS_OUT = {f"Tensor.{word}": f".{word}()" for word in ("item", "tolist", "numpy")} | {"Tensor.__float__": "float(…)"}
"""The calls that return Python or NumPy numbers, as text."""
MOST, KEPT = 1024, 8192
"""The largest number of kept values of one tensor, and of all."""


def note_escape(recorder: Any, spelling: str, tensor: Any, given: Any) -> None:
    """Record each number that left torch with its line, if the tensor has, or had, a path to leaves."""
    mark_escaped(recorder.forwards, tensor)
    node, taken = recorder.nodes.get(tensor), recorder.taken
    recorder.asides = find_unread_results(recorder.asides, [] if node is None else [node])
    if node is None or (node.kind == "data" and node.cut is None):
        return
    leaves = find_upstream_leaves([node]) if node.kind != "data" or node.cut is None else node.cut.leaves
    cut = GraphBreak(HANDS_OUT[spelling], frames.user_line(), leaves, True)
    taken.update(dict.fromkeys(find_notable_numbers(given), cut))
    while len(taken) > KEPT:
        del taken[next(iter(taken))]


def find_notable_numbers(given: Any) -> Iterator[float]:
    """Iterate over the first returned numbers with many digits; 0.5 and 3.0 may also be written by hand."""
    values = given.reshape(-1)[:MOST].tolist() if isinstance(given, np.ndarray) else given
    for value in values[:MOST] if isinstance(values, list) else [values]:
        if isinstance(value, list):
            yield from find_notable_numbers(value)
        elif isinstance(value, float) and len(repr(value)) > len("-0.0001"):
            yield value
