"""What to call the values of a program: as their author did, where that can be seen.

Comes in: nodes in order, names that are known by identity, names of tensors in sight. Goes out: a name for each
node that has one: the variable it is bound to, or the one that its line assigns to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.tracing import frames
from symgrad.tracing.trace import Node, Where


def node_names(
    order: Sequence[Node], known: Mapping[int, str], in_sight: Mapping[int, str], outside: Where | None = None
) -> dict[int, str]:
    """Names by the identity of nodes; the same name may stand twice, as in programs.

    What happened in the line ``outside`` has no name: there the whole was asked for.
    """
    names = dict(known)
    for node in order:
        tensor = node.owner() if node.owner is not None else None
        if id(node) not in names and tensor is not None and id(tensor) in in_sight:
            names[id(node)] = in_sight[id(tensor)]
    last: dict[tuple[str, int, str], Node] = {}
    for node in order:
        where = node.where
        if (
            where is None
            or node.kind in ("leaf", "data")
            or (outside is not None and (where.file, where.line) == (outside.file, outside.line))
        ):
            continue
        name = frames.assigned(where.file, where.line)
        if name is not None:
            last[(where.file, where.line, name)] = node
    for (_, _, name), node in last.items():
        names.setdefault(id(node), name)
    return names
