"""The graph that torch keeps behind tensors: its nodes, and the leaves that a backward adds to.

Comes in: tensors of the user's. Nothing is run, and what is found is torch's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


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


__all__ = ["graph_behind", "leaves_behind"]
