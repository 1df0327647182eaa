"""A plan: the nodes of a graph as calls in order, made once for some shapes and played on arrays.

Comes in: a graph, the nodes that are wanted, an engine. Goes out: a `Plan`, without anything of SymPy
in it. NumPy's writes into arrays of its own that nobody reads any more; what is large is let go after its last use.

Plans one after the other as one list of calls, with what is known beforehand already in its place.

Comes in: arrays that stay the same from play to play, plans, functions, and what each of them reads. Goes out: a
`Chain`, which is played on what is given each time. A call that reads only what stays the same is made once, if its
result is a view or small; everything large is formed anew each time and let go after its last use.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.lowering.arrays import ON_NUMPY, UFUNCS, Engine, Play
from symgrad.lowering.graph import FLOAT, VIEWS, Graph

SELECT = ("where", "masked")
LARGE = 1 << 12
"""Entries from which on an array is let go after its last use."""


@dataclass(frozen=True)
class Call:
    """``function`` on some slots, its result in another; what is let go after it, whose memory may take the result."""

    function: Play
    given: tuple[int, ...]
    place: int
    gone: tuple[int, ...] = ()
    over: int | None = None


@dataclass(frozen=True)
class Plan:
    """``inputs`` are the names of what is read, ``own`` says which results share memory with nothing else."""

    inputs: tuple[str, ...]
    calls: tuple[Call, ...]
    start: tuple[Any, ...]
    slots: tuple[int, ...]
    results: tuple[int, ...]
    own: tuple[bool, ...]

    def play(self, arrays: Sequence[Any]) -> list[Any]:
        """The results for ``arrays``, one for each of ``inputs``."""
        held = list(self.start)
        for slot, array in zip(self.slots, arrays, strict=True):
            held[slot] = array
        for call in self.calls:
            given = [held[n] for n in call.given]
            if call.over is not None:
                given.append(held[call.over])
            held[call.place] = call.function(*given)
            for slot in call.gone:
                held[slot] = None
        return [held[slot] for slot in self.results]


def planned(graph: Graph, wanted: Sequence[int], engine: Engine = ON_NUMPY) -> Plan:
    """The plan of some nodes."""
    needed = reached(graph, wanted)
    root = roots(graph)
    last: dict[int, int] = {}
    for place in needed:
        for operand in graph.nodes[place].operands:
            last[root[operand]] = place
    kept = {root[place] for place in wanted}
    start: list[Any] = [None] * len(needed)
    at = {place: n for n, place in enumerate(needed)}
    ends: dict[int, list[int]] = {}
    for place in needed:
        if root[place] in last and root[place] not in kept and math.prod(graph.nodes[place].shape) >= LARGE:
            ends.setdefault(last[root[place]], []).append(at[place])
    calls, inputs, slots = [], [], []
    for place in needed:
        node = graph.nodes[place]
        if place in graph.constants:
            value = graph.constants[place]
            start[at[place]] = value if node.kind == "number" else engine.array(value)
        elif node.kind == "input":
            inputs.append(str(node.told[0]))
            slots.append(at[place])
        else:
            function = engine.primitives[node.kind](*node.told)
            given = tuple(at[o] for o in node.operands)
            dead = [o for o in node.operands if last[root[o]] == place and root[o] not in kept]
            over = None
            if (
                engine.writes
                and node.shape
                and (node.kind in SELECT or (node.kind == "map" and node.told[0] in UFUNCS))
            ):
                over = next((at[o] for o in dead if writable(graph, o, place)), None)
            calls.append(Call(function, given, at[place], tuple(ends.get(place, ())), over))
    alone = [root[p] for p in wanted]
    own = tuple(
        alone.count(root[p]) == 1 and graph.nodes[root[p]].kind != "input" and root[p] not in graph.constants
        and not widened(graph, p)
        for p in wanted
    )  # fmt: skip
    return Plan(tuple(inputs), tuple(calls), tuple(start), tuple(slots), tuple(at[p] for p in wanted), own)


def reached(graph: Graph, wanted: Sequence[int]) -> list[int]:
    """The nodes that ``wanted`` are computed from, in order."""
    found = set(wanted)
    for place in range(len(graph.nodes) - 1, -1, -1):
        if place in found and place not in graph.constants:
            found.update(graph.nodes[place].operands)
    return sorted(found)


def roots(graph: Graph) -> Mapping[int, int]:
    """The node whose memory each node may lie in: its own, or that of what it is a view of."""
    found: dict[int, int] = {}
    for place, node in enumerate(graph.nodes):
        found[place] = found[node.operands[0]] if node.kind in VIEWS and node.operands else place
    return found


def writable(graph: Graph, operand: int, place: int) -> bool:
    """Whether the memory of an operand, which nobody reads any more, can take the result."""
    node, result = graph.nodes[operand], graph.nodes[place]
    if node.shape != result.shape or node.holds != FLOAT or result.holds != FLOAT or operand in graph.constants:
        return False
    while node.kind in ("reshape", "transpose"):
        if node.operands[0] in graph.constants:
            return False
        node = graph.nodes[node.operands[0]]
    return node.kind not in VIEWS and node.kind != "input" and bool(node.shape)


def widened(graph: Graph, place: int) -> bool:
    """Whether a node repeats entries of another one in memory."""
    node = graph.nodes[place]
    while node.kind in VIEWS and node.operands:
        if node.kind in ("expand", "window"):
            return True
        node = graph.nodes[node.operands[0]]
    return False


@dataclass(eq=False)
class Chain:
    """Calls on slots; ``start`` is what the slots hold before, nothing where it is made or given."""

    engine: Engine = ON_NUMPY
    start: list[Any] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    calls: list[tuple[Play, tuple[int, ...], int]] = field(default_factory=list)
    gone: list[tuple[int, ...]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    def slot(self, value: Any = None) -> int:
        """A new slot, with a value that stays the same or with none."""
        self.start.append(value)
        self.known.append(value is not None)
        return len(self.start) - 1

    def call(self, function: Play, given: Sequence[int], over: int | None = None) -> int:
        """The slot of what a function makes; into the memory of ``over``, which nobody reads any more."""
        if all(self.known[n] for n in given):
            value = function(*(self.start[n] for n in given))
            if self.engine.light(value):
                return self.slot(value)
        if hasattr(function, "knowing") and self.known[given[-1]]:  # what it asks of places it asks once
            function, given = function.knowing(self.start[given[-1]]), given[:-1]
        place = self.slot()
        read = tuple(given) if over is None or self.known[over] else (*given, over)
        self.append(function, read, place)
        return place

    def append(self, function: Play, given: Sequence[int], place: int) -> None:
        """A call that is made each time."""
        for slot in given:
            self.ends[slot] = len(self.calls)
        self.calls.append((function, tuple(given), place))

    def plan(self, plan: Plan, given: Sequence[int]) -> list[int]:
        """The slots of a plan's results, what it reads being in ``given``."""
        at = {n: self.slot(value) for n, value in enumerate(plan.start) if value is not None}
        at |= dict(zip(plan.slots, given, strict=True))
        for call in plan.calls:
            over = None if call.over is None else at[call.over]
            at[call.place] = self.call(call.function, [at[n] for n in call.given], over)
        return [at[slot] for slot in plan.results]

    def finish(self, kept: Collection[int]) -> None:
        """Note what is let go after which call; ``kept`` is read afterwards."""
        gone: dict[int, list[int]] = {}
        for slot, last in self.ends.items():
            if not self.known[slot] and slot not in kept:
                gone.setdefault(last, []).append(slot)
        self.gone = [tuple(gone.get(n, ())) for n in range(len(self.calls))]

    def play(self, given: Sequence[tuple[int, Any]]) -> list[Any]:
        """What all slots hold afterwards, but for those that were let go."""
        held = list(self.start)
        for slot, value in given:
            held[slot] = value
        for (function, read, place), gone in zip(self.calls, self.gone, strict=True):
            held[place] = function(*[held[n] for n in read])
            for slot in gone:
                held[slot] = None
        return held
