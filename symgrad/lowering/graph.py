"""Array operations as a graph: some fifteen primitives, each node there once however often it is asked for.

Comes in: requests for nodes by primitive, parameters and operands. Goes out: a `Graph`, in the order in which it is
computed. A node knows its shape and what it holds, and no index: two formulas that differ in their letters alone are
the same nodes. What depends on no tensor is computed here, once. `Care` says what the numbers may be, and so how
products are formed. An array that would not fit into the `memory` that there is, is refused before it is made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from symgrad.errors import InputError
from symgrad.lowering.arrays import NUMPY, Primitives


@dataclass(frozen=True)
class Care:
    """How a product is formed (`symgrad.lowering.careful` has the rule).

    ``tame``: every number that is read is finite, and so is what asks for that. ``ordered``: a product is formed in
    the order of the rule, not in the one that costs least. ``guarded``: a condition inside a sum comes before what it
    stands beside. ``unknown``: a condition that compares what is no number is none itself. ``whole``: whole
    numbers stay so. ``field``: what the numbers are if they are no floats.
    """

    tame: bool = False
    ordered: bool = False
    guarded: bool = False
    unknown: bool = False
    whole: bool = False
    field: Any = None

    @property
    def guards(self) -> Care:
        """The same with conditions before what they stand beside."""
        return replace(self, ordered=True, guarded=True)


TAME = Care(tame=True)
FORWARD = Care()
EDGES = Care(ordered=True, unknown=True)
"""Of a derivative at numbers that are large, small, infinite or none."""
COUNTED = Care(whole=True)
"""Of places, which are whole numbers."""


MOST_IN_GRID = 30_000_000
"""Entries of the largest array that a plan makes, and points of the largest grid, unless more or less is said."""
MEMORY = 1_000_000_000
"""Bytes that numbers may take unless more or less is said; limits on entries are meant for so many."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
MOST_REPEATS = 16
"""How often a view may have as many entries, of which windows repeat most: a product of matrices copies them."""
MOST_CONSTANT = 1 << 16
"""Entries of the largest array that is computed once and kept."""
FLOAT, WHOLE, TRUTH = "f", "i", "b"
VIEWS = frozenset({"reshape", "transpose", "expand", "item", "window"})
"""Primitives whose result may lie in the memory of their operand."""
REPEATING = frozenset({"expand", "window"})
"""Views in which entries may stand several times."""
COMMUTE = frozenset({"add", "multiply", "maximum", "minimum", "equal", "not_equal"})


class NoPlan(Exception):
    """An equation that has no plan for numbers of this kind."""


class TooLarge(NoPlan):
    """An array of ``shape`` would not fit."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__()
        self.shape = shape


@dataclass(frozen=True)
class ArrayNode:
    """One operation: the primitive, what it is told, the nodes it reads; its shape and what it holds."""

    kind: str
    told: tuple[Any, ...]
    operands: tuple[int, ...]
    shape: tuple[int, ...]
    holds: str


@dataclass
class Graph:
    """Nodes, operands first; ``constants`` are the values of those that depend on no tensor.

    No array is made that has more entries than ``most``; views repeat them up to `MOST_REPEATS` times.
    """

    primitives: Primitives = field(default_factory=lambda: NUMPY)
    most: int = MOST_IN_GRID
    nodes: list[ArrayNode] = field(default_factory=list)
    known: dict[ArrayNode, int] = field(default_factory=dict)
    constants: dict[int, Any] = field(default_factory=dict)

    def add(self, node: ArrayNode, value: Any = None) -> int:
        """The place of a node; it is there once."""
        place = self.known.get(node)
        if place is None:
            if math.prod(node.shape) > self.most * (MOST_REPEATS if node.kind in VIEWS else 1):
                raise TooLarge(node.shape)
            place = self.known[node] = len(self.nodes)
            self.nodes.append(node)
            if value is not None:
                self.constants[place] = value
        return place

    def input(self, name: str, shape: tuple[int, ...], holds: str) -> int:
        """A tensor that is read."""
        return self.add(ArrayNode("input", (name,), (), shape, holds))

    def number(self, value: float) -> int:
        """A number."""
        holds = WHOLE if isinstance(value, int) else FLOAT
        return self.add(ArrayNode("number", (repr(value),), (), (), holds), value)

    def value(self, place: int) -> Any:
        """The number that a node is, None for any other node."""
        return self.constants.get(place) if self.nodes[place].kind == "number" else None

    def shape(self, place: int) -> tuple[int, ...]:
        """The shape of a node."""
        return self.nodes[place].shape

    def holds(self, place: int) -> str:
        """What a node holds."""
        return self.nodes[place].holds

    def apply(
        self, kind: str, told: tuple[Any, ...], operands: Sequence[int], shape: Sequence[int], holds: str = FLOAT
    ) -> int:
        """The node of a primitive; its value where all its operands are constant."""
        node = ArrayNode(kind, told, tuple(operands), tuple(shape), holds)
        place = self.known.get(node)
        if place is not None:
            return place
        if all(o in self.constants for o in operands) and math.prod(node.shape) <= MOST_CONSTANT:
            with np.errstate(all="ignore"):
                value = self.primitives[kind](*told)(*(self.constants[o] for o in operands))
            if not node.shape:
                return self.number(np.asarray(value).item())
            return self.add(node, np.asarray(value))
        return self.add(node)

    # Views ----------------------------------------------------------------------------------------------

    def reshape(self, place: int, shape: Sequence[int]) -> int:
        """The same entries, row by row, in another shape."""
        if self.shape(place) == tuple(shape):
            return place
        node = self.nodes[place]
        if node.kind == "number":
            return self.expand(place, shape)
        if node.kind == "reshape":
            return self.reshape(node.operands[0], shape)
        return self.apply("reshape", (tuple(shape),), (place,), shape, node.holds)

    def transpose(self, place: int, order: Sequence[int]) -> int:
        """The axes in another order."""
        if tuple(order) == tuple(range(len(order))):
            return place
        node = self.nodes[place]
        if node.kind == "transpose":
            return self.transpose(node.operands[0], [node.told[0][n] for n in order])
        return self.apply("transpose", (tuple(order),), (place,), [node.shape[n] for n in order], node.holds)

    def expand(self, place: int, shape: Sequence[int]) -> int:
        """Axes of one entry repeated."""
        if self.shape(place) == tuple(shape):
            return place
        own = self.shape(place)
        if len(own) > len(shape) or any(n not in (1, m) for n, m in zip(own[::-1], tuple(shape)[::-1], strict=False)):
            raise NoPlan  # what reads an axis twice, as x[i,i] does, has no such view
        return self.apply("expand", (tuple(shape),), (place,), shape, self.holds(place))

    def has_view(self, place: int, kinds: Collection[str]) -> bool:
        """Whether a node shows the entries of another one by a view of one of some ``kinds``."""
        node = self.nodes[place]
        while node.kind in VIEWS and node.operands:
            if node.kind in kinds:
                return True
            node = self.nodes[node.operands[0]]
        return False

    # Entries --------------------------------------------------------------------------------------------

    def map(self, function: str, *operands: int, holds: str = "") -> int:
        """A function of entries, operands broadcast against each other."""
        shapes = {self.shape(o) for o in operands}
        shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
        if not holds:
            kinds = {self.holds(o) for o in operands}
            holds = FLOAT if FLOAT in kinds else WHOLE
        if holds == FLOAT and function != "float" and not any(self.floating(o) for o in operands):
            # torch would make floats of its usual type of a condition times 0.5
            operands = tuple(o if self.value(o) is not None else self.floats(o) for o in operands)
        given = tuple(sorted(operands)) if function in COMMUTE else operands
        return self.apply("map", (function,), given, shape, holds)

    def floating(self, place: int) -> bool:
        """Whether a node is a tensor of floats, not a number."""
        return self.holds(place) == FLOAT and self.value(place) is None

    def floats(self, place: int) -> int:
        """The entries as floats."""
        return place if self.holds(place) == FLOAT else self.map("float", place, holds=FLOAT)

    def whole(self, place: int) -> int:
        """The entries as whole numbers."""
        return place if self.holds(place) == WHOLE else self.map("whole", place, holds=WHOLE)

    def reduce(self, function: str, place: int, axes: Sequence[int]) -> int:
        """A sum, a product or the largest along ``axes``."""
        if not axes:
            return place
        if self.holds(place) == TRUTH:
            place = self.map("whole", place, holds=WHOLE)
        shape = [n for axis, n in enumerate(self.shape(place)) if axis not in axes]
        return self.apply("reduce", (function, tuple(sorted(axes))), (place,), shape, self.holds(place))


_memory: ContextVar[int] = ContextVar("number of bytes for numerical arrays", default=MEMORY)


def memory() -> int:
    """The bytes that numbers may take."""
    return _memory.get()


def allowed_by_memory(most: int) -> int:
    """A limit that is meant for `MEMORY`, for the memory that there is."""
    return most * memory() // MEMORY


@contextmanager
def memory_of(size: int | str) -> Iterator[None]:
    """Numbers may take ``size`` bytes inside the block: a number, or a text such as ``"500M"`` or ``"4GB"``.

    Raises `InputError` for what is no size.

    >>> with memory_of("4GB"):
    ...     memory(), allowed_by_memory(25_000_000)
    (4000000000, 100000000)
    """
    before = _memory.set(bytes_of(size))
    try:
        yield
    finally:
        _memory.reset(before)


def bytes_of(size: int | str) -> int:
    """A size in bytes; raises `InputError` for anything else."""
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?\s*", str(size), re.IGNORECASE | re.ASCII)
    found = int(float(match[1]) * UNITS[match[2].lower()]) if match and not isinstance(size, bool) else 0
    if not 0 < found < 2**62:
        raise InputError("memory is a number of bytes", found=(str(size)[:60],), hints=("500M", "4G"))
    return found


def check_grid(shape: Sequence[int], most: int = MOST_IN_GRID) -> None:
    """Refuse a grid of indices with more than ``most`` points."""
    points = math.prod(shape)
    if points > allowed_by_memory(most):
        raise InputError(
            "this is too large to be computed",
            found=(f"a grid of {'×'.join(map(str, shape))} = {points:,} points",),
            hints=("smaller shapes",),
        )
