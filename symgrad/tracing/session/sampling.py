"""Which calls are told in full, and for which the recorder has to be on: a few at first, then fewer and fewer.

Comes in: of each call its line and the graph that torch keeps behind its outputs, of which nothing is run. Goes out:
whether it is one to be told, and whether the next one will be. A recorder that is on makes a loop several times slower,
and a look at the graph costs a few microseconds for each node; so the recorder is on only for calls that will be told,
from the end of the call before.
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
"""So many calls of the same program are checked, however long they take."""
OFTEN = 40
"""Programs from one line after which also others are only looked at now and then."""
ALIKE = 8
"""Programs from one line with the same operations on other sizes, after which others of them are."""
STEPS = (1, 2, 5)
"""After these, the ones whose number is one of these times a power of ten."""
CLOSELY = 10
"""So many calls of a program have all of their graph looked at; after them, ``NODES`` nodes a call on the mean."""
NODES = 4
FREE, SHARE = 24, 50
"""So many calls may be recorded in vain, and one in so many of all besides."""
PATIENCE = 16
"""Calls that are recorded in waiting for a program to come again; each time that it does not, twice as many."""
MOST = 4096
"""Glimpses that are kept."""
AHEAD = 8
"""Calls before one that is asked for by its number, for which the recorder is on: its graph may begin there."""


def is_checked(count: int) -> bool:
    """Whether the ``count``-th call of a program is checked in full.

    >>> [n for n in range(1, 250) if is_checked(n)]
    [1, 2, 3, 5, 10, 20, 50, 100, 200]
    """
    power = 10 ** (len(str(count)) - 1)
    return count <= ALWAYS or (count % power == 0 and count // power in STEPS)


@dataclass(frozen=True)
class CallSelection:
    """The calls that are wanted by their number, none if all are open: the ``call``-th, and each ``every``-th.

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
        """Whether the recorder is on for a call with this number, since one that is wanted follows, or is this one."""
        return any(later in self for later in range(number, number + AHEAD + 1))


@dataclass(eq=False)
class LineProgram:
    """What one line runs again and again: how often it did, and from which of these calls on one is to be told.

    ``unseen`` calls are counted until its graph is looked at again; ``after`` is what ran after it last.
    """

    graph: GraphOutline
    count: int = 0
    goal: int = 1
    unseen: int = 0
    after: LineProgram | None = None
    told: bool = False

    @property
    def is_due(self) -> bool:
        """Whether its last call should have been told."""
        return self.count >= self.goal

    @property
    def apart(self) -> int:
        """How many calls pass between two looks at its graph."""
        return self.graph.size // NODES if self.count >= CLOSELY and self.count + 1 < self.goal else 0


class Sampling:
    """The programs of a run, and which calls of them are ``asked`` for by number, if any are."""

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
        """The program of a call that is about to run; None where calls are wanted by number: nothing is compared."""
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
        """A program that was not there before: it is told, but for one of many like it."""
        kind = (at, program.graph.kind)
        self.lines[at] += 1
        self.alike[kind] += 1
        many = self.alike[kind] > ALIKE and not is_checked(self.alike[kind])
        if many or (self.lines[at] > OFTEN and not is_checked(self.lines[at])):
            program.goal = 2

    def chosen(self, number: int, program: LineProgram | None) -> bool:
        """Whether a call that was recorded is to be told: it is due, and all of its graph was made meanwhile."""
        if program is None:
            return number in self.asked
        return program.is_due and program.graph.first >= self.began

    def tell(self, program: LineProgram | None) -> None:
        """It was told."""
        if program is not None:
            program.told, program.goal = True, program.count + 1
            while not is_checked(program.goal):
                program.goal += 1
            self.waiting, self.patience = 0, PATIENCE

    def goes_on(self, number: int, at: SourceLine, program: LineProgram | None, recorded: bool, told: bool) -> bool:
        """A call is over: whether the recorder is to be on until the next one."""
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
        """What did not come again is not waited for any longer; where it is seen by chance later it is told."""
        self.patience *= 2
        for program in self.programs.values():
            if program.is_due:
                program.goal = program.count + self.patience

    # Words ------------------------------------------------------------------------------------------------

    def news(self, at: SourceLine, program: LineProgram, number: int) -> str:
        """What is said of it."""
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
        """By line what is known of the calls that were only counted: what they share, and how many stand alone."""
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
"""The nodes of leaves have the largest number that there is: they may be older than any other."""
NAMELESS = "CppFunction"
"""What the nodes of operations are that have no class of their own in Python."""
GLIMPSED = 3
"""Operations that are looked at in every call."""
NUMBERED = re.compile(r"Backward\d*$")


@dataclass(frozen=True)
class GraphOutline:
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


def graph_nodes(outputs: Sequence[Any]) -> dict[Any, Any]:
    """The nodes of the graph behind some tensors, each once, with its ``next_functions``."""
    waiting = [t.grad_fn for t in outputs if t is not None and t.grad_fn is not None]
    found: dict[Any, Any] = {}
    while waiting:
        node = waiting.pop()
        if node not in found:
            found[node] = node.next_functions
            waiting += [after for after, _ in found[node] if after is not None]
    return found


def graph_leaves(outputs: Sequence[Any]) -> list[Any]:
    """The leaves behind some tensors, in whose ``.grad`` a backward leaves something."""
    stores = [node.variable for node in graph_nodes(outputs) if hasattr(node, "variable")]
    return [*(t for t in outputs if t.grad_fn is None and t.requires_grad), *reversed(stores)]


def outline_graph(outputs: Sequence[Any]) -> GraphOutline:
    """What the graph behind some tensors is known by; its nodes are not kept, since each keeps all behind it.

    Nor is anything asked that a node has saved: that may be packed by the user's own hook.
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
    """What tells the operation of a node: its class, or its name where that has none of its own."""
    kind = type(node)
    return node.name() if kind.__name__ == NAMELESS else kind


def outline_last_operations(tensor: Any) -> Hashable:
    """The last operations behind a tensor, and the sizes of the first of them: the batch has its size there."""
    found: list[Any] = []
    node, last = tensor.grad_fn, None
    while node is not None and len(found) < GLIMPSED:
        found.append(operation_of(node))
        after = node.next_functions
        node, last = after[0][0] if after else None, node if after else last
    sizes = () if last is None else [tuple(about.shape) for about in last._input_metadata]
    return (*found, *sizes)


def count_graph_nodes() -> int:
    """How many nodes of graphs this thread has made."""
    return int(AUTOGRAD._get_sequence_nr())
