"""From equations to one list of calls on slots, made once and played on arrays again and again.

Comes in: equations, the shapes of what they read, the numbers of their sizes, with which care, an engine; or such
lists, functions and what each of them reads. Goes out: a graph of array operations, and the `Plan` of some of its
nodes: a `Chain` without anything of SymPy in it. A call that reads only what stays the same is made once, if its result
is a view or small; everything else is let go after its last use. NumPy's calls write into arrays of the chain's own
that nobody reads any more.

An axis of m·n entries that is read as (i // n, i mod n) becomes two, of m and of n, and axes that are read as entry
i·n + j become one: the result is reshaped, and what was looked up place by place is a view.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Equation, Index, Ravel, Unravel, fresh
from symgrad.indexing.symbols import Expr, accesses, number
from symgrad.lowering.arrays import NUMPY, ON_NUMPY, UFUNCS, Engine, Play
from symgrad.lowering.build import Builder
from symgrad.lowering.careful import Careful, Objects
from symgrad.lowering.graph import FLOAT, MOST_IN_GRID, REPEATING, TAME, VIEWS, Care, Graph, NoPlan
from symgrad.lowering.places import TensorPlaces
from symgrad.lowering.terms import Lengths, Number, Products, Terms
from symgrad.lowering.windows import line
from symgrad.shapes import Size


def lowered(
    equations: Sequence[Equation],
    sizes: Mapping[Size, int],
    shapes: Mapping[str, tuple[int, ...]],
    holds: Mapping[str, str],
    care: Care = TAME,
    most: int = MOST_IN_GRID,
) -> tuple[Graph, list[int]]:
    """The graph of several equations, and the node of each result; `NoPlan` where one has none."""
    graph = Graph(primitives=NUMPY if care.field is None else care.field.primitives, most=most)
    found = []
    terms = Terms(graph, Lengths(sizes), {})
    kind = Objects if care.field is not None else Careful if care.ordered else Builder
    builder = kind(Products(terms), TensorPlaces(terms, shapes, holds), care)
    for equation in equations:
        shape = [number(axis.size, sizes) for axis in equation.axes]
        over = split_axes(equation, builder.size)
        terms.first = {axis: n for n, axis in enumerate(over.axes)}
        value = builder.value(over.right)
        term = terms.numeric(value) if care.whole else terms.floats(value)
        if not set(term.axes) <= set(over.axes):
            raise NoPlan
        found.append(graph.reshape(terms.whole(term, over.axes), shape))
    return graph, found


def split_axes(equation: Equation, number: Number) -> Equation:
    """``equation`` over axes that it is read by, in the same order of entries."""
    found = numbered_through(equation, number)
    axes: list[Index] = []
    swap: dict[Expr, Expr] = {}
    every = found.right.atoms(Unravel)
    for axis in found.axes:
        reads = [u for u in every if u.number == axis]
        shapes = {u.shape for u in reads}
        if len(shapes) != 1 or not numbers_all_entries(shape := next(iter(shapes)), number(axis.size), number):
            axes.append(axis)
            continue
        parts = [fresh(axis.name, size) for size in shape]
        swap |= {u: parts[u.axis] for u in reads}
        swap[axis] = Ravel(*parts, *shape)
        axes += parts
    return Equation(tuple(axes), found.right.xreplace(swap)) if swap else found


def numbers_all_entries(shape: tuple[Size, ...], length: int, number: Number) -> bool:
    """Whether a shape numbers all entries of an axis."""
    return 0 < length == math.prod(number(size) for size in shape)


def numbered_through(equation: Equation, number: Number) -> Equation:
    """All axes as one, where they are read by the remainder of their row-major number alone."""
    rests = equation.right.atoms(sp.Mod) if len(equation.axes) > 1 else set[Expr]()
    if len(rests) != 1 or any(a for rest in rests for a in accesses(rest)):
        return equation
    (rest,) = rests
    lengths = [number(axis.size) for axis in equation.axes]
    top = line(rest.args[0].xreplace({s: sp.Integer(number(s)) for s in sizes_in(rest.args[0])}))
    slopes = dict(top.slopes) if top is not None else {}
    if top is None or any(slopes.get(a) != math.prod(lengths[n + 1 :]) for n, a in enumerate(equation.axes)):
        return equation
    whole = fresh(equation.axes[0].name, sp.Integer(math.prod(lengths)))
    right = equation.right.xreplace({rest: sp.Mod(whole + top.constant, number(rest.args[1]))})
    return equation if set(equation.axes) & right.free_symbols else Equation((whole,), right)


def sizes_in(node: Expr) -> list[Size]:
    """The sizes among the symbols of an index expression."""
    return [s for s in node.free_symbols if not isinstance(s, Index)]


SELECT = ("where", "masked")


@dataclass(eq=False)
class Chain:
    """Calls on slots; ``start`` is what the slots hold before, nothing where it is made or given.

    The memory of ``over`` some slot takes the result of the call that is made into another.
    """

    engine: Engine = ON_NUMPY
    start: list[Any] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    calls: list[tuple[Play, tuple[int, ...], int]] = field(default_factory=list)
    over: dict[int, int] = field(default_factory=dict)
    steps: list[tuple[Play, tuple[int, ...], int, tuple[int, ...]]] = field(default_factory=list)

    def slot(self, value: Any = None) -> int:
        """A new slot, with a value that stays the same or with none."""
        self.start.append(value)
        self.known.append(value is not None)
        return len(self.start) - 1

    def call(self, function: Play, given: Sequence[int], over: int | None = None) -> int:
        """The slot of what a function makes; into the memory of ``over``, which nobody reads any more."""
        if all(self.known[n] for n in given):
            with np.errstate(all="ignore"):
                value = function(*(self.start[n] for n in given))
            if self.engine.light(value):
                return self.slot(value)
        if hasattr(function, "knowing") and self.known[given[-1]]:  # what it asks of places it asks once
            function, given = function.knowing(self.start[given[-1]]), given[:-1]
        place = self.slot()
        if over is not None and not self.known[over]:
            self.over[place] = over
        self.append(function, given, place)
        return place

    def append(self, function: Play, given: Sequence[int], place: int) -> None:
        """A call that is made each time."""
        self.calls.append((function, tuple(given), place))

    def plan(self, plan: Plan, given: Sequence[int]) -> list[int]:
        """The slots of a plan's results, what it reads being in ``given``."""
        own = plan.chain
        at = {n: self.slot(own.start[n]) for n, known in enumerate(own.known) if known}
        at |= dict(zip(plan.slots, given, strict=True))
        for function, read, place in own.calls:
            over = at[own.over[place]] if place in own.over else None
            at[place] = self.call(function, [at[n] for n in read], over)
        return [at[slot] for slot in plan.results]

    def finish(self, kept: Collection[int]) -> None:
        """Note what is let go after which call; ``kept`` is read afterwards."""
        reads = [(*given, self.over[place]) if place in self.over else given for _, given, place in self.calls]
        last = {slot: call for call, read in enumerate(reads) for slot in read}
        gone: dict[int, list[int]] = {}
        for slot, call in last.items():
            if not self.known[slot] and slot not in kept:
                gone.setdefault(call, []).append(slot)
        self.steps = [
            (function, reads[call], place, tuple(gone.get(call, ())))
            for call, (function, _, place) in enumerate(self.calls)
        ]

    def play(self, given: Iterable[tuple[int, Any]]) -> list[Any]:
        """What all slots hold afterwards, but for those that were let go."""
        held = list(self.start)
        for slot, value in given:
            held[slot] = value
        for function, read, place, gone in self.steps:
            held[place] = function(*[held[n] for n in read])
            for slot in gone:
                held[slot] = None
        return held


@dataclass(frozen=True, eq=False)
class Plan:
    """``inputs`` are the names of what is read, ``own`` says which results share memory with nothing else."""

    inputs: tuple[str, ...]
    chain: Chain
    slots: tuple[int, ...]
    results: tuple[int, ...]
    own: tuple[bool, ...]

    @property
    def start(self) -> Sequence[Any]:
        """What is there before."""
        return self.chain.start

    def play(self, arrays: Sequence[Any]) -> list[Any]:
        """The results for ``arrays``, one for each of ``inputs``."""
        held = self.chain.play(zip(self.slots, arrays, strict=True))
        return [held[slot] for slot in self.results]


def make_plan(graph: Graph, wanted: Sequence[int], engine: Engine = ON_NUMPY) -> Plan:
    """The plan of some nodes."""
    needed, root = reached(graph, wanted), roots(graph)
    last = {root[operand]: place for place in needed for operand in graph.nodes[place].operands}
    kept = {root[place] for place in wanted}
    chain, at, inputs = Chain(engine), dict[int, int](), dict[str, int]()
    for place in needed:
        node = graph.nodes[place]
        if place in graph.constants:
            value = graph.constants[place]
            at[place] = chain.slot(value if node.kind == "number" else engine.array(value))
        elif node.kind == "input":
            at[place] = inputs[str(node.told[0])] = chain.slot()
        else:
            dead = [o for o in node.operands if last[root[o]] == place and root[o] not in kept]
            mapped = node.kind in SELECT or (node.kind == "map" and node.told[0] in UFUNCS)
            writes = engine.writes and node.shape and mapped
            over = next((at[o] for o in dead if writes and writable(graph, o, place)), None)
            at[place] = chain.call(engine.primitives[node.kind](*node.told), [at[o] for o in node.operands], over)
    results = tuple(at[place] for place in wanted)
    chain.finish(results)
    alone = [root[p] for p in wanted]
    own = tuple(
        alone.count(root[p]) == 1 and graph.nodes[root[p]].kind != "input" and root[p] not in graph.constants
        and not chain.known[at[p]] and not graph.has_view(p, REPEATING)
        for p in wanted
    )  # fmt: skip
    return Plan(tuple(inputs), chain, tuple(inputs.values()), results, own)


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
