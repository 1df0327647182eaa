"""Choose the calls that are printed in full, and when the recorder is on: a few calls at first, then fewer.

Comes in: the line of each call, and torch's autograd graph of its outputs, which is only read. Goes out: whether the
call is to be printed, and whether the next one will be. The recorder makes a loop several times slower, and reading the
graph costs a few microseconds per node. So the recorder is on only for calls that will be printed, from the end of the
call before.
"""

from __future__ import annotations

import gc
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from symgrad.errors import Setting
from symgrad.tracing.record.trace import SourceLine

ALWAYS = 3
"""The number of first calls of a program that are always checked."""
OFTEN = 40
"""After so many programs of one line, new ones are only checked now and then."""
ALIKE = 8
"""After so many programs of one line that differ only in sizes, further ones are only checked now and then."""
STEPS = (1, 2, 5)
"""Later calls are checked if their number is one of these times a power of ten."""
CLOSELY = 10
"""For so many calls of a program the whole graph is read; afterwards ``NODES`` nodes per call on average."""
NODES = 4
FREE, SHARE = 24, 50
"""FREE calls, and one in SHARE of all calls, may be recorded without being printed."""
PATIENCE = 16
"""Calls that are recorded while waiting for a program to run again; doubled each time it does not."""
MOST = 4096
"""The most cached outlines of last operations."""
AHEAD = 8
"""The recorder is on for so many calls before one requested by number, where its graph may begin."""


def is_checked(count: int) -> bool:
    """Whether the ``count``-th call of a program is checked in full.

    >>> [n for n in range(1, 250) if is_checked(n)]
    [1, 2, 3, 5, 10, 20, 50, 100, 200]
    """
    power = 10 ** (len(str(count)) - 1)
    return count <= ALWAYS or (count % power == 0 and count // power in STEPS)


@dataclass(frozen=True)
class CallSelection:
    """The calls requested by number: the ``call``-th, and each ``every``-th; empty if nothing was requested.

    >>> asked = CallSelection(call=1, every=100)
    >>> [n for n in range(1, 250) if n in asked], [n for n in range(1, 250) if asked.is_ahead(n)][:9]
    ([1, 100, 200], [1, 92, 93, 94, 95, 96, 97, 98, 99])
    """

    call: int | None = None
    every: int | None = None

    def __bool__(self) -> bool:
        return self.call is not None or self.every is not None

    def __contains__(self, number: int) -> bool:
        return number == self.call or (self.every is not None and number % self.every == 0)

    def is_ahead(self, number: int) -> bool:
        """Whether the recorder is on for this call, because a requested one follows or is this one."""
        return any(later in self for later in range(number, number + AHEAD + 1))


@dataclass(eq=False)
class LineProgram:
    """A program that one line runs repeatedly: the ``count`` of its calls, and the ``goal`` at which one is printed.

    ``unseen`` counts calls since its graph was read; ``after`` is the program that last ran after it.
    """

    graph: GraphOutline
    count: int = 0
    goal: int = 1
    unseen: int = 0
    after: LineProgram | None = None
    told: bool = False

    @property
    def is_due(self) -> bool:
        """Whether its last call should have been printed."""
        return self.count >= self.goal

    @property
    def apart(self) -> int:
        """The number of calls between two readings of its graph."""
        return self.graph.size // NODES if self.count >= CLOSELY and self.count + 1 < self.goal else 0


class Sampling:
    """The programs of a run, and the calls requested by number (``asked``)."""

    def __init__(self, asked: CallSelection) -> None:
        self.asked = asked
        self.programs: dict[tuple[SourceLine, Hashable], LineProgram] = {}
        self.glimpses: dict[Hashable, LineProgram] = {}
        self.lines: Counter[SourceLine] = Counter()
        self.alike: Counter[Hashable] = Counter()
        self.latest: dict[SourceLine, LineProgram] = {}
        self.thin: set[SourceLine] = set()
        self.last: LineProgram | None = None
        self.met = self.made = self.began = self.vain = self.waiting = 0
        self.patience = PATIENCE

    def meet(self, at: SourceLine, outputs: Sequence[Any]) -> LineProgram | None:
        """Return the program of a call that is about to run; None if calls are requested by number."""
        self.met += 1
        if self.asked:
            return None
        key = (at, count_graph_nodes() - self.made, *map(outline_last_operations, outputs))
        program = self.glimpses.get(key)
        if program is None or program.unseen >= program.apart:
            graph = outline_graph(outputs)
            program = self.programs.setdefault((at, graph.program), LineProgram(graph))
            program.graph, program.unseen = graph, 0
            if len(self.glimpses) >= MOST:
                self.glimpses.clear()
            self.glimpses[key] = program
            if program.count == 0:
                self.begin(at, program)
        else:
            program.unseen += 1
            self.thin.add(at)
        program.count += 1
        return program

    def begin(self, at: SourceLine, program: LineProgram) -> None:
        """Register a new program: it is printed at once, unless there are many like it."""
        kind = (at, program.graph.kind)
        self.lines[at] += 1
        self.alike[kind] += 1
        many = self.alike[kind] > ALIKE and not is_checked(self.alike[kind])
        if many or (self.lines[at] > OFTEN and not is_checked(self.lines[at])):
            program.goal = 2

    def chosen(self, number: int, program: LineProgram | None) -> bool:
        """Whether a recorded call is to be printed: it is due, and all of its graph was recorded."""
        if program is None:
            return number in self.asked
        return program.is_due and program.graph.first >= self.began

    def tell(self, program: LineProgram | None) -> None:
        """Record that the program was printed, and set the next call to print."""
        if program is not None:
            program.told, program.goal = True, program.count + 1
            while not is_checked(program.goal):
                program.goal += 1
            self.waiting, self.patience = 0, PATIENCE

    def goes_on(self, number: int, at: SourceLine, program: LineProgram | None, recorded: bool, told: bool) -> bool:
        """Finish a call; return whether the recorder must be on until the next one."""
        self.made = count_graph_nodes()
        if program is None:
            return self.asked.is_ahead(number + 1)
        if self.last is not None:
            self.last.after = program
        self.last = self.latest[at] = program
        self.vain += recorded and not told
        if self.waiting:
            self.waiting -= 1
            if not self.waiting:
                self.give_up()
        elif program.is_due:
            self.waiting = self.patience
        follows = program.after
        if follows is not None and follows.count + 1 >= follows.goal:
            return True
        able = self.vain <= FREE + number // SHARE
        return able and (follows is None or self.waiting > 0)

    def give_up(self) -> None:
        """Stop waiting for programs that did not run again; they are printed if seen by chance later."""
        self.patience *= 2
        for program in self.programs.values():
            if program.is_due:
                program.goal = program.count + self.patience

    # Words ------------------------------------------------------------------------------------------------

    def news(self, at: SourceLine, program: LineProgram, number: int) -> str:
        """Return the note about a new program that was not recorded."""
        before, now = self.latest.get(at), program.graph.operations
        old = now if before is None else before.graph.operations
        new, gone = now - old, old - now
        parts = [f"{word}: {', '.join(f'{n} {name}' for name, n in some.items())}"
                 for word, some in (("new", new), ("gone", gone)) if some]  # fmt: skip
        sizes = "" if before is None or parts else "its sizes or connections differ"
        said = "; ".join(parts) or sizes
        asked = Setting("run", value=f"--call {number}")
        return (
            f"call {number} ran a new program{f' ({said})' if said else ''} and was not recorded: symgrad explains it "
            f"when it occurs again, or with {asked}"
        )

    def words(self) -> dict[str, tuple[str, str]]:
        """Return, by line, what is known of calls that were only counted: what they share, and programs not shown."""
        found = {}
        for at in self.lines:
            here = [program for (line, _), program in self.programs.items() if line == at]
            left = [program for program in here if not program.told]
            calls = sum(program.count for program in left)
            what = "a program that is not shown" if len(left) == 1 else "programs that are not shown"
            same = (
                " with as many operations, equal where compared"
                if at in self.thin
                else " with the same operations and sizes"
            )
            found[at.short] = ("", f"; {calls:,} of them ran {what}") if left else (same, "")
        return found


AUTOGRAD: Any = torch._C._autograd
LEAST_OF_A_LEAF = 1 << 62
"""Nodes of leaves have the largest sequence number, and may be older than any other."""
NAMELESS = "CppFunction"
"""The class of nodes of operations without their own Python class."""
GLIMPSED = 3
"""The number of last operations that are read in every call."""
NUMBERED = re.compile(r"Backward\d*$")


@dataclass(frozen=True)
class GraphOutline:
    """An autograd graph: its operations and edges, ``kind``, and these with sizes, ``program``.

    ``first`` is the sequence number of its oldest node, ``size`` the number of nodes.
    """

    kind: tuple[tuple[Any, ...], Hashable, Hashable]
    program: Hashable
    first: int
    size: int

    @property
    def operations(self) -> Counter[str]:
        """The number of nodes of each operation."""
        names = [getattr(one, "__name__", one) for one in self.kind[0]]
        return Counter(NUMBERED.sub("", name) for name in names if name != "AccumulateGrad")


def graph_nodes(outputs: Sequence[Any]) -> dict[Any, Any]:
    """Return the nodes of the graph of some tensors, with their ``next_functions``."""
    waiting = [t.grad_fn for t in outputs if t is not None and t.grad_fn is not None]
    found: dict[Any, Any] = {}
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = node.next_functions
            waiting += [after for after, _ in found[node] if after is not None]
    return found


def graph_leaves(outputs: Sequence[Any]) -> list[Any]:
    """Return the leaves of the graph of some tensors."""
    stores = [node.variable for node in graph_nodes(outputs) if hasattr(node, "variable")]
    return [*(t for t in outputs if t.grad_fn is None and t.requires_grad), *reversed(stores)]


def outline_graph(outputs: Sequence[Any]) -> GraphOutline:
    """Return the outline of the graph of some tensors, without references to nodes, which would keep it alive.

    Saved tensors are not read: the user's hooks may have packed them.
    """
    collecting = gc.isenabled()
    gc.disable()  # thousands of wrappers come and go
    try:
        nodes = graph_nodes(outputs)
        places = {node: place for place, node in enumerate(nodes)}
        operations = tuple(map(operation_of, nodes))
        wiring = tuple([(places.get(to, -1), place) for after in nodes.values() for to, place in after])
        sizes = tuple([size for node in nodes for about in node._input_metadata for size in about.shape])
        first = min((node._sequence_nr() for node in nodes), default=LEAST_OF_A_LEAF)
        ends = tuple([places.get(t.grad_fn, -1) for t in outputs])
        del nodes, places
    finally:
        if collecting:
            gc.enable()
    shapes = tuple([tuple(t.shape) for t in outputs])
    known = operations, wiring, ends
    return GraphOutline(known, (known, shapes, sizes), first, len(operations))


def operation_of(node: Any) -> Any:
    """Return what identifies a node's operation: its class, or its name if it has no class of its own."""
    kind = type(node)
    return node.name() if kind.__name__ == NAMELESS else kind


def outline_last_operations(tensor: Any) -> Hashable:
    """Return the last operations of a tensor's graph, and the sizes at the earliest of them (the batch size)."""
    found: list[Any] = []
    node, last = tensor.grad_fn, None
    while node is not None and len(found) < GLIMPSED:
        found.append(operation_of(node))
        after = node.next_functions
        node, last = after[0][0] if after else None, node if after else last
    sizes = () if last is None else [tuple(about.shape) for about in last._input_metadata]
    return (*found, *sizes)


def count_graph_nodes() -> int:
    """Return the number of graph nodes that this thread has created."""
    return int(AUTOGRAD._get_sequence_nr())
