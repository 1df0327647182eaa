"""The graph that torch keeps behind tensors: its nodes, the leaves that a backward adds to, and what it is known by.

Comes in: tensors of the user's. Nothing is run, and what is found is torch's own.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

AUTOGRAD: Any = torch._C._autograd
LEAST_OF_A_LEAF = 1 << 62
"""The nodes of leaves have the largest number that there is: they may be older than any other."""
NAMELESS = "CppFunction"
"""What the nodes of operations are that have no class of their own in Python."""
GLIMPSED = 3
"""Operations that are looked at in every call."""
NUMBERED = re.compile(r"Backward\d*$")


@dataclass(frozen=True)
class Outline:
    """A graph by its operations and their wiring, ``kind``, and with the sizes on the way, ``program``.

    ``first`` is the number of its oldest node, ``size`` how many it has.
    """

    kind: tuple[tuple[Any, ...], Hashable, Hashable]
    program: Hashable
    first: int
    size: int

    @property
    def operations(self) -> Counter[str]:
        """How many there are of each operation."""
        names = [getattr(one, "__name__", one) for one in self.kind[0]]
        return Counter(NUMBERED.sub("", name) for name in names if name != "AccumulateGrad")


def graph_behind(outputs: Sequence[Any]) -> list[Any]:
    """The nodes of the graph behind some tensors, each once."""
    waiting = [t.grad_fn for t in outputs if t is not None and t.grad_fn is not None]
    found: dict[int, Any] = {}
    while waiting:
        node = waiting.pop()
        if id(node) in found:
            continue
        found[id(node)] = node
        waiting += [after for after, _ in node.next_functions if after is not None]
    return list(found.values())


def leaves_behind(outputs: Sequence[Any]) -> list[Any]:
    """The leaves behind some tensors, in whose ``.grad`` a backward leaves something."""
    stores = [node.variable for node in graph_behind(outputs) if hasattr(node, "variable")]
    return [*(t for t in outputs if t.grad_fn is None and t.requires_grad), *reversed(stores)]


def outline(outputs: Sequence[Any]) -> Outline:
    """What the graph behind some tensors is known by; its nodes are not kept, since each keeps all behind it.

    Nor is anything asked that a node has saved: that may be packed by the user's own hook.
    """
    collecting = gc.isenabled()
    gc.disable()  # thousands of wrappers come and go
    try:
        places: dict[Any, int] = {}
        waiting = [t.grad_fn for t in outputs if t.grad_fn is not None]
        operations, wiring, sizes, first = [], [], [], LEAST_OF_A_LEAF
        while waiting:
            node = waiting.pop()
            if node in places:
                continue
            places[node] = len(places)
            operations.append(operation_of(node))
            after = node.next_functions
            for to, place in after:
                wiring.append((places.get(to, -1), place))
                if to is not None:
                    waiting.append(to)
            for about in node._input_metadata:
                sizes += about.shape
            first = min(first, node._sequence_nr())
        ends = tuple([places.get(t.grad_fn, -1) for t in outputs])
        del waiting, places
    finally:
        if collecting:
            gc.enable()
    shapes = tuple([tuple(t.shape) for t in outputs])
    known = tuple(operations), tuple(wiring), ends
    return Outline(known, (known, shapes, tuple(sizes)), first, len(operations))


def operation_of(node: Any) -> Any:
    """What tells the operation of a node: its class, or its name where that has none of its own."""
    kind = type(node)
    return node.name() if kind.__name__ == NAMELESS else kind


def glimpse(tensor: Any) -> Hashable:
    """The last operations behind a tensor, and the sizes of the first of them: the batch has its size there."""
    found: list[Any] = []
    node, last = tensor.grad_fn, None
    while node is not None and len(found) < GLIMPSED:
        found.append(operation_of(node))
        after = node.next_functions
        node, last = after[0][0] if after else None, node if after else last
    sizes = () if last is None else [tuple(about.shape) for about in last._input_metadata]
    return (*found, *sizes)


def nodes_made() -> int:
    """How many nodes of graphs this thread has made."""
    return int(AUTOGRAD._get_sequence_nr())
