"""What to call the values of a program: as their author did, where that can be seen.

Comes in: nodes in order, names that are known by identity, names of tensors in sight. Goes out: a name for each
node that has one: the variable it is bound to, or the one that its line assigns to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.tracing import frames
from symgrad.tracing.trace import Node, Where


def node_names(
    order: Sequence[Node],
    known: Mapping[int, str],
    in_sight: Mapping[int, str],
    outside: Where | None = None,
    given: bool = False,
) -> dict[int, str]:
    """Names by the identity of nodes; the same name may stand twice, as in programs.

    What happened in the line ``outside`` has no name, but for a gradient: there the whole was asked for. Data that a
    line made has its name only if it is ``given`` one.
    """
    names = dict(known)
    for node in order:
        tensor = node.owner() if node.owner is not None else None
        if id(node) not in names and tensor is not None and id(tensor) in in_sight:
            names[id(node)] = in_sight[id(tensor)]
    for run in runs(order):
        where = run[-1].where
        asked_here = (
            outside is not None and where is not None and (where.file, where.line) == (outside.file, outside.line)
        )
        if where is None or (asked_here and all(node.gradient is None for node in run)):
            continue
        targets = frames.assigned(where.file, where.line)
        if targets is None:
            continue
        several = len(targets) > 1
        together = [n for n in run if n.gradient is not None and n.gradient is run[-1].gradient] or run[-1:]
        for node in run if several or frames.heads(where.file, where.line) else together:
            fits = not several or node.siblings == len(targets)
            if fits and (given or node.kind != "data"):
                names.setdefault(id(node), targets[node.index] if several else one_of(node, targets[0]))
    return names


def one_of(node: Node, name: str) -> str:
    """``grads[1]``: a gradient among several that were asked for together, which one name is for."""
    return f"{name}[{node.index}]" if node.gradient is not None and node.siblings > 1 else name


def runs(order: Sequence[Node]) -> list[list[Node]]:
    """What was computed, in the order of time, by executions of one line."""
    made = [n for n in order if n.where is not None and n.kind != "leaf"]
    found: list[list[Node]] = []
    for node in sorted(made, key=lambda n: n.where.turn if n.where is not None else 0):
        before = found[-1][-1].where if found else None
        same = before is not None and node.where is not None and before.line == node.where.line
        if same and before is not None and node.where is not None and before.file == node.where.file:
            found[-1].append(node)
        else:
            found.append([node])
    return found
