"""Whether the positions that an equation reads are places of the axes that it reads or writes them on.

Comes in: the equation of an operation that has no forward of its own, the arrays it reads, the numbers of its sizes.
What stands alone as an index, ``x[n[i]]``, or is compared with one, ``δ(n[i], p)``, has to be a whole number from 0 up
that is on that axis; of one taken modulo its size negative ones count from the end. Raises `IndexError` for any other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel
from symgrad.indexing.symbols import Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.lowering.reading import number
from symgrad.numeric.exact import Array, as_float
from symgrad.ops.moving.positions import from_zero, positions
from symgrad.shapes import Size

Evaluation = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array]


def check_places(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> None:
    """Raise `IndexError` for the first position that is not there."""
    for name, from_end, axis in places(equation.right):
        check_on_axis((positions if from_end else from_zero)(arrays[name]), axis.length(arrays, sizes))


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
