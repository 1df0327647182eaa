"""What to call the values of a program: as their author did, where that can be seen.

Comes in: nodes in order, names that are known by identity, names of tensors in sight. Goes out: a name for each
node that has one: the variable it is bound to, the one that its line assigns to, or of data the text that reads it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from symgrad.ops.lookup import find
from symgrad.tracing.record import frames
from symgrad.tracing.record.trace import Node, Where, same
from symgrad.tracing.record.written import called, written

COPY = "out = x"
"""The equation of what only copies."""


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
        statement = frames.assigned(where)
        if statement is None:
            continue
        targets, several = statement.names, len(statement.names) > 1
        together = [n for n in run if n.gradient is not None and n.gradient is run[-1].gradient] or run[-1:]
        for node in run if several or statement.loop else together:
            fits = (not several or node.siblings == len(targets)) and (not asked_here or given_back(node))
            if fits and (given or node.kind != "data"):
                names.setdefault(id(node), targets[node.index] if several else one_of(node, targets[0]))
    return {**copies(order, in_sight), **unassigned(order, names), **names} if given else names


def copies(order: Sequence[Node], in_sight: Mapping[int, str]) -> dict[int, str]:
    """Names of data that is a copy of a tensor in sight and still equal to it: a buffer that a layer cloned."""
    found: dict[int, str] = {}
    for node in order:
        source = node.made_of() if node.made_of is not None and node.kind == "data" else None
        if source is None or id(source) not in in_sight or source.shape != node.held.shape:
            continue
        op = find(node.made_by)
        if op is not None and op.definition == COPY and same(node.held, source):
            found[id(node)] = in_sight[id(source)]
    return found


def unassigned(order: Sequence[Node], names: Mapping[int, str]) -> dict[int, str]:
    """Names of data that nobody assigned: the text that reads it, or ``seed`` for the weights of a gradient."""
    found: dict[int, str] = {}
    for node in order:
        if node.kind == "data" and id(node) not in names and node.where is not None:
            text = written(node.where, node.parts)
            if text is not None:
                found[id(node)] = text
        if node.gradient is not None:
            for weight in node.gradient.weights:
                if weight is not None and weight.kind == "data" and id(weight) not in names:
                    found.setdefault(id(weight), "seed")
    return found


def given_back(node: Node) -> bool:
    """Whether a gradient is what its line itself asked for: ``hvp`` and its like make others on their way."""
    return node.gradient is not None and (node.where is None or called(node.where) in (None, "grad"))


def one_of(node: Node, name: str) -> str:
    """``grads[1]``: a gradient among several that were asked for together, which one name is for."""
    return f"{name}[{node.index}]" if node.gradient is not None and node.siblings > 1 else name


def runs(order: Sequence[Node]) -> list[list[Node]]:
    """What was computed, in the order of time, by executions of one statement, or of one line where none assigns."""
    made = [(n, n.where) for n in order if n.where is not None and n.kind != "leaf"]
    found: list[list[Node]] = []
    before: object = None
    for node, where in sorted(made, key=lambda pair: pair[1].turn):
        here = where.file, frames.assigned(where) or where.line
        if here != before:
            found.append([])
        found[-1].append(node)
        before = here
    return found
