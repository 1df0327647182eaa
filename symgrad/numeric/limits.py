"""What is refused before it is computed: what would not fit into memory, and positions that are not there.

Comes in: shapes in numbers; the equation of an operation that has no forward of its own, the arrays it reads, the
numbers of its sizes. Goes out: nothing, or an `InputError` that says how large the tensors of a program or a grid of
indices would have been. What stands alone as an index, ``x[n[i]]``, or is compared with one, ``δ(n[i], p)``, has to be
a whole number from 0 up that is on that axis; of one taken modulo its size negative ones count from the end. For any
other `IndexError` is raised.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.errors import InputError
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.lowering.reading import number
from symgrad.numeric.exact import Array, as_float
from symgrad.ops.gathering import from_zero, numpy_positions
from symgrad.program import Apply, Program
from symgrad.shapes import Size, fill_sizes

MOST_ENTRIES = 3_000_000
"""Entries of all tensors of a program that is explained from a text."""
MOST_HELD = 100_000_000
"""Entries of all tensors of any program."""
MOST_IN_GRID = 30_000_000
"""Points of the largest grid of indices that is ever laid out."""
MOST_EXACT = 16_384
"""Entries of all tensors of a program that is computed in fractions."""


MEMORY = 1_000_000_000
"""Bytes that numbers may take unless more or less is said; the limits above are meant for so many."""
UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}

_memory: ContextVar[int] = ContextVar("number of bytes for numerical arrays", default=MEMORY)


def memory() -> int:
    """The bytes that numbers may take."""
    return _memory.get()


def allowed(most: int) -> int:
    """A limit that is meant for `MEMORY`, for the memory that there is."""
    return most * memory() // MEMORY


@contextmanager
def memory_of(size: int | str) -> Iterator[None]:
    """Numbers may take ``size`` bytes inside the block: a number, or a text such as ``"500M"`` or ``"4GB"``.

    Raises `InputError` for what is no size.

    >>> with memory_of("4GB"):
    ...     memory(), allowed(25_000_000)
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


def entries(program: Program) -> tuple[int, Apply | None]:
    """How many entries the tensors of ``program`` have together, and the step with the largest result."""
    counts = program.entries
    largest = max(program.steps, key=lambda step: counts[step.result.name], default=None)
    return sum(counts.values()), largest


def check_entries(count: int, most: int) -> None:
    """Refuse so many entries where they are more than ``most``."""
    if count > allowed(most):
        raise InputError("this is too large to be computed", found=(f"{count:,} entries",))


def check_program(program: Program, most: int = MOST_ENTRIES) -> None:
    """Refuse a program whose tensors have more than ``most`` entries together."""
    total, largest = entries(program)
    most = allowed(most)
    if total <= most:
        return
    span, found = None, [f"{total:,} entries in all tensors together"]
    if largest is not None and 3 * program.entries[largest.result.name] > total:
        shape = "×".join(str(fill_sizes(size, program.sizes)) for size in largest.result.shape)
        span, found = largest.span, [*found, f"{shape} here"]
    raise InputError(
        "this is too large to be computed", span=span, found=tuple(found),
        hints=(f"at most {most:,} entries; the formulas hold for every size",),
    )  # fmt: skip


def check_grid(shape: Sequence[int], most: int = MOST_IN_GRID) -> None:
    """Refuse a grid of indices with more than ``most`` points."""
    points = math.prod(shape)
    if points > allowed(most):
        raise InputError(
            "this is too large to be computed",
            found=(f"a grid of {'×'.join(map(str, shape))} = {points:,} points",),
            hints=("smaller shapes",),
        )


Evaluation = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array]


def check_places(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> None:
    """Raise `IndexError` for the first position that is not there."""
    for name, from_end, axis in places(equation.right):
        check_on_axis((numpy_positions if from_end else from_zero)(arrays[name]), axis.length(arrays, sizes))


def check_on_axis(found: Array, count: int) -> None:
    """Raise `IndexError` for the first position that an axis with so many places does not have, from either end."""
    outside = found[(found < -count) | (found >= count)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for an axis with size {count}")


def check_read(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], by: Evaluation) -> None:
    """Raise `IndexError` for the first position that a text's equation reads and that is not there.

    An entry beside a condition that does not hold is not read: ``[n[i] ≥ 0]·x[n[i]]``.
    """
    for place, axis, held in found_at(equation.right):
        beside = sp.Mul(*held)
        axes = tuple(sorted(free_indices(place) | free_indices(beside), key=str))
        found = as_float(by(Equation(axes, place), arrays, sizes))
        count = axis.length(arrays, sizes)
        lost = ~((found >= 0) & (found < count) & (found == np.floor(found)))
        if lost.any() and (lost := lost & (as_float(by(Equation(axes, beside), arrays, sizes)) != 0)).any():
            raise IndexError(f"the position {found[lost][0]:g} on an axis with {count} entries")


@lru_cache(maxsize=1024)
def found_at(right: Expr) -> tuple[tuple[Expr, Axis, tuple[Expr, ...]], ...]:
    """The indices that data decide, on which axis, and the conditions beside each."""

    def inside(node: Expr, held: tuple[Expr, ...]) -> Iterator[tuple[Expr, Axis, tuple[Expr, ...]]]:
        if node.is_Mul:
            held = (*held, *(factor for factor in node.args if factor.has(Bracket, sp.KroneckerDelta)))
        if is_access(node):
            places = enumerate(indices_of(node))
            yield from ((place, Axis(name_of(node), n), held) for n, place in places if accesses(place))
        for part in node.args:
            yield from inside(part, tuple(factor for factor in held if factor is not part))

    return tuple(dict.fromkeys(inside(right, ())))


@dataclass(frozen=True)
class Axis:
    """An axis by its ``number``, of ``tensor``, or one as long as the ``sizes`` together."""

    tensor: str = ""
    number: int = 0
    sizes: tuple[Size, ...] = ()

    def length(self, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> int:
        """How many places it has."""
        if self.tensor:
            return int(np.shape(arrays[self.tensor])[self.number])
        return math.prod(number(size, sizes) for size in self.sizes)


@lru_cache(maxsize=1024)
def places(right: Expr) -> tuple[tuple[str, bool, Axis], ...]:
    """The tensors in which an equation finds positions, whether it counts from the end, and on which axis."""
    found = []
    for place, axis in spoken_of(right):
        from_end = isinstance(place, sp.Mod)
        entry = place.args[0] if from_end else place
        if is_access(entry):
            found.append((name_of(entry), from_end, axis))
    return tuple(found)


def spoken_of(right: Expr) -> Iterator[tuple[Expr, Axis]]:
    """What stands as an index or is compared with one, and on which axis."""
    for node in sp.preorder_traversal(right):
        if is_access(node):
            yield from ((place, Axis(name_of(node), n)) for n, place in enumerate(indices_of(node)))
        elif isinstance(node, Unravel):
            yield node.args[1], Axis(sizes=node.args[2:])
        elif isinstance(node, sp.KroneckerDelta):
            for place, other in (node.args, node.args[::-1]):
                if isinstance(other, Index):
                    yield place, Axis(sizes=(other.size,))
                elif isinstance(other, Ravel):
                    yield place, Axis(sizes=other.args[len(other.args) // 2 :])
