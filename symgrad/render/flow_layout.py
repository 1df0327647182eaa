"""The layout of a program's graph, with few crossings of edges.

Comes in: stations (nodes) and ways (edges), plain data. Goes out: a column and a row for each station, and a lane in
each column that a way passes. An input is drawn again beside other operations that read it, if that avoids crossings.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

BAND = 6
"""Columns side by side where nothing else is said; those after them stand below."""
MOST = 48
"""Stations that are drawn one by one."""
SWEEPS, TRIES = 8, 12
"""Times that each column is put in the order of its neighbours; other orders to begin with, where ways cross."""


@dataclass(frozen=True)
class Station:
    """A tensor: an input (``made`` is empty) or what an operation, ``made``, results in.

    ``again`` is the name of an input that is drawn once more, beside another operation that reads it.
    """

    name: str
    made: str
    shape: str
    again: str = ""


@dataclass(frozen=True)
class FlowEdge:
    """From a tensor to the operation that reads it; ``length`` is that of what comes back, None where nothing does."""

    source: str
    target: str
    length: float | None


@dataclass(frozen=True)
class FlowGraph:
    """A program and one backward through it; ``seed`` is what goes in at ``output``, and how long it is."""

    title: str
    below: str
    stations: tuple[Station, ...]
    ways: tuple[FlowEdge, ...]
    output: str
    seed: str
    length: float
    band: int = BAND


Slot = str | tuple[str, str, int]
"""A station by its name, or the lane of a way (source, target) in a column."""
Orders = dict[int, list[Slot]]
"""What stands in each column, from the top."""


@dataclass(frozen=True)
class FlowLayout:
    """A flow with a column for each station, a row for each slot, and how often ways cross."""

    flow: FlowGraph
    column: Mapping[str, int]
    row: Mapping[Slot, int]
    crossings: int

    def same_band(self, way: FlowEdge) -> bool:
        """Whether a way is drawn from one end to the other."""
        return self.column[way.source] // self.flow.band == self.column[way.target] // self.flow.band


def lay_out(flow: FlowGraph) -> FlowLayout:
    """Inputs that are far from a reader stand beside it too; beside every reader, where fewer ways cross so."""
    found = reduce_crossings(with_inputs_beside(flow, each=False))
    if not found.crossings:
        return found
    other = with_inputs_beside(flow, each=True)
    return found if len(other.stations) > MOST else min(found, reduce_crossings(other), key=lambda laid: laid.crossings)


def with_inputs_beside(flow: FlowGraph, each: bool) -> FlowGraph:
    """Inputs drawn once more before each operation that is far from the first that reads them; or before ``each``."""
    column = columns(flow)
    inputs = {s.name: s for s in flow.stations if not s.made}
    more: dict[str, Station] = {}
    read: set[str] = set()
    ways = []
    for way in flow.ways:
        if way.source in inputs:
            far = column[way.target] > column[way.source] + 1
            if far or (each and way.source in read):
                name = f"{way.source} before {way.target if each else column[way.target]}"
                more[name] = replace(inputs[way.source], name=name, again=way.source)
                way = replace(way, source=name)
            else:
                read.add(way.source)
        ways.append(way)
    return replace(flow, stations=(*inputs.values(), *more.values(), *(s for s in flow.stations if s.made)),
                   ways=tuple(ways))  # fmt: skip


def columns(flow: FlowGraph) -> dict[str, int]:
    """How many operations lie before a tensor; what comes from one input alone stands just before its first reader."""
    column: dict[str, int] = {}
    sources: dict[str, list[str]] = {}
    for way in flow.ways:
        sources.setdefault(way.target, []).append(way.source)
    late: set[str] = set()
    for station in flow.stations:
        before = sources.get(station.name, ())
        column[station.name] = max((column[s] for s in before), default=-1) + 1
        if not station.made or (len(before) == 1 and late.issuperset(before)):
            late.add(station.name)
    for station in reversed(flow.stations):
        readers = [column[w.target] for w in flow.ways if w.source == station.name]
        if station.name in late and readers:
            column[station.name] = max(column[station.name], min(readers) - 1)
    return column


def slots(column: Mapping[str, int], way: FlowEdge) -> list[Slot]:
    """The stations of a way, and its lanes in the columns between them."""
    lanes = range(column[way.source] + 1, column[way.target])
    return [way.source, *((way.source, way.target, place) for place in lanes), way.target]


def reduce_crossings(flow: FlowGraph) -> FlowLayout:
    """Every column in an order in which few ways cross, and rows in which they are straight."""
    column = columns(flow)
    chains = [slots(column, w) for w in flow.ways if column[w.source] // flow.band == column[w.target] // flow.band]
    edges = [edge for chain in chains for edge in pairwise(chain)]
    start = initial_orders(flow, column, chains)
    best = sort_by_neighbours(start, edges)
    for number in range(TRIES):
        if best[0]:
            best = min(best, sort_by_neighbours(shuffle_orders(start, number), edges), key=lambda found: found[0])
    count, orders = best
    return FlowLayout(flow, column, straight_rows(orders, edges, flow.band), count)


def initial_orders(flow: FlowGraph, column: Mapping[str, int], chains: Sequence[Sequence[Slot]]) -> Orders:
    """What is computed in the order in which it is, below it what begins here, as it is read, and lanes below these."""
    first = {way.source: n for n, way in reversed(list(enumerate(flow.ways)))}
    names = sorted((s for s in flow.stations if not s.made), key=lambda s: first.get(s.name, len(first)))
    orders: Orders = {}
    for station in (*(s for s in flow.stations if s.made), *names):
        orders.setdefault(column[station.name], []).append(station.name)
    for chain in chains:
        for place, lane in enumerate(chain[1:-1], start=column[str(chain[0])] + 1):
            orders.setdefault(place, []).append(lane)
    return dict(sorted(orders.items()))


def shuffle_orders(orders: Orders, number: int) -> Orders:
    """Every column in another order, the same one for the same ``number``."""
    draw = random.Random(number)
    return {place: draw.sample(order, len(order)) for place, order in orders.items()}


def sort_by_neighbours(orders: Orders, edges: Sequence[tuple[Slot, Slot]]) -> tuple[int, Orders]:
    """The fewest crossings that are found by putting each column in the order of its neighbours, and by exchanging."""
    before, after = joined_slots(edges)
    best = crossings(orders, edges), orders
    for sweep in range(SWEEPS):
        if not best[0]:
            break
        forward = sweep % 2 == 0
        beside = before if forward else after
        for place in orders if forward else reversed(orders):
            at, order = ranks(orders), orders[place]
            wish = {slot: mean([at[other] for other in beside.get(slot, ())], at[slot]) for slot in order}
            orders = {**orders, place: sorted(order, key=wish.__getitem__)}
        best = min(best, swap_neighbours(orders, edges), key=lambda found: found[0])
    return best


def swap_neighbours(orders: Orders, edges: Sequence[tuple[Slot, Slot]]) -> tuple[int, Orders]:
    """Fewer crossings by exchanging what stands next to each other, as long as that helps."""
    count, helped = crossings(orders, edges), True
    while count and helped:
        helped = False
        for place, order in orders.items():
            for n in range(len(order) - 1):
                other = {**orders, place: [*order[:n], order[n + 1], order[n], *order[n + 2 :]]}
                if (fewer := crossings(other, edges)) < count:
                    count, orders, order, helped = fewer, other, other[place], True
    return count, orders


def joined_slots(edges: Sequence[tuple[Slot, Slot]]) -> tuple[dict[Slot, list[Slot]], dict[Slot, list[Slot]]]:
    """What each slot is joined to in the column before, and in the one after."""
    before: dict[Slot, list[Slot]] = {}
    after: dict[Slot, list[Slot]] = {}
    for first, second in edges:
        before.setdefault(second, []).append(first)
        after.setdefault(first, []).append(second)
    return before, after


def ranks(orders: Orders) -> dict[Slot, int]:
    """The place of each slot in its column."""
    return {slot: n for order in orders.values() for n, slot in enumerate(order)}


def mean(found: Sequence[float], otherwise: float) -> float:
    """The middle of several places."""
    return sum(found) / len(found) if found else otherwise


def crossings(orders: Orders, edges: Sequence[tuple[Slot, Slot]]) -> int:
    """How many pairs of ways between two columns cross."""
    at = ranks(orders)
    column = {slot: place for place, order in orders.items() for slot in order}
    by_gap: dict[int, list[tuple[int, int]]] = {}
    for first, second in edges:
        by_gap.setdefault(column[first], []).append((at[first], at[second]))
    return sum((a - c) * (b - d) < 0 for gap in by_gap.values() for (a, b), (c, d) in combinations(gap, 2))


def straight_rows(orders: Orders, edges: Sequence[tuple[Slot, Slot]], wide: int) -> dict[Slot, int]:
    """Rows in the order given, each near the rows of what it is joined to, and no more of them than needed."""
    before, after = joined_slots(edges)
    row: dict[Slot, int] = ranks(orders)
    high: dict[int, int] = {}
    for place, order in orders.items():
        high[place // wide] = max(high.get(place // wide, 0), len(order))
    for beside, places in ((before, list(orders)), (after, list(reversed(orders))), (before, list(orders))):
        for place in places:
            least, order = 0, orders[place]
            for n, slot in enumerate(order):
                wish = round(mean([row[other] for other in beside.get(slot, ())], row[slot]))
                row[slot] = max(least, min(wish, high[place // wide] - len(order) + n))
                least = row[slot] + 1
    return row
