"""The array that an index equation defines: in fractions where everything is exact, else by a plan.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array, one axis per
index of the left-hand side, in float64. A plan is lowered once for its shapes and for what its numbers may be, and is
then a list of array operations. What would not fit is made share by share, or refused.

Positions that are not there are refused first: what stands alone as an index, ``x[n[i]]``, or is compared with one,
``δ(n[i], p)``, has to be a whole number from 0 up that is on that axis; of one taken modulo its size negative ones
count from the end. For any other `IndexError` is raised.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.entries.operands import numpy_positions, require_positions_from_zero
from symgrad.errors import bug
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, fresh
from symgrad.indexing.symbols import (
    Expr,
    accesses,
    free_indices,
    indices_of,
    is_access,
    name_of,
    names_read,
    number,
    ordered_indices,
)
from symgrad.lowering import Plan, lowered, make_plan
from symgrad.lowering.arrays import ON_NUMPY, Engine, is_rational
from symgrad.lowering.careful import Field
from symgrad.lowering.graph import (
    EDGES,
    FLOAT,
    FORWARD,
    MOST_IN_GRID,
    TAME,
    WHOLE,
    Care,
    NoPlan,
    TooLarge,
    allowed_by_memory,
    check_grid,
)
from symgrad.numeric.exact import (
    EXACT_LIMIT,
    Array,
    all_tame,
    as_float,
    as_fractions,
    contract_in_floats,
    exact_power,
    is_exact,
    kept_short,
)
from symgrad.shapes import Size

MOST_FRACTIONS = 1_000_000
"""Entries of the largest array of objects, and products of fractions that one contraction may take."""
MOST_SHARES = 64
"""Shares in which an array is made that would not fit as a whole."""


def evaluate(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The array that ``equation`` defines; at the edges of the numbers in the order of `symgrad.lowering.careful`."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    found = in_fractions(equation, used, sizes)
    if found is not None:
        return found
    if all(map(all_tame, used.values())):
        try:
            found = play(equation, used, sizes, TAME)
        except NoPlan:
            found = None
        if found is not None and all_tame(found):
            return found
    return played(equation, used, sizes, EDGES)


def evaluate_forward(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """For an operation's own equation: infinities and NaN go on as in NumPy and torch, and a view is a view."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    found = in_fractions(equation, used, sizes)
    return played(equation, used, sizes, FORWARD, lent=True) if found is None else found


def in_fractions(equation: Equation, used: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array | None:
    """The array that ``equation`` defines, in fractions where the arrays and the formula are exact; None elsewhere.

    Of many numbers it is made in floats: a fraction takes a thousand times as long.
    """
    if not (all(is_exact(a) for a in used.values()) and is_rational(equation.right)):
        return None
    count = sum(a.size for a in used.values()) + math.prod(number(axis.size, sizes) for axis in equation.axes)
    if count > 4 * EXACT_LIMIT:
        return None
    try:
        (found,) = of_objects((equation,), {n: as_fractions(a) for n, a in used.items()}, sizes, FRACTIONS)
        return as_fractions(kept_short(found))
    except (ZeroDivisionError, OverflowError, NoPlan):
        return None


def of_objects(
    equations: tuple[Equation, ...], arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care,
    kept: bool = True,
) -> list[Array]:  # fmt: skip
    """The array that each of ``equations`` defines, of the numbers that ``care`` is about; raises `NoPlan`.

    Their plan is ``kept`` where those numbers are always the same ones.
    """
    plan = (plan_for if kept else made)(asked_of(equations, arrays, sizes, care, MOST_FRACTIONS))
    with np.errstate(all="ignore"):
        return [np.array(found, dtype=object) for found in plan.play([arrays[name] for name in plan.inputs])]


def fraction_of(node: Expr) -> int | Fraction:
    """A constant as an exact number."""
    return int(node) if node.is_Integer else Fraction(int(node.p), int(node.q))


def contracted(left: Array, right: Array) -> Array:
    """A product of matrices of fractions; raises `OverflowError` for one that would take long."""
    if left.size * right.shape[-1] > MOST_FRACTIONS:
        raise OverflowError
    return np.asarray(contract_in_floats(np.matmul)(left, right))


FRACTIONS = Care(
    field=Field(fraction_of, lambda base, power: exact_power(np.asarray(base), int(power)), contract=contracted)
)


@dataclass(frozen=True)
class Asked:
    """Equations, sizes, what is read (its name, its shape, what it holds), with which care, for which engine."""

    equations: tuple[Equation, ...]
    sizes: tuple[tuple[Size, int], ...]
    told: tuple[tuple[str, tuple[int, ...], str], ...]
    care: Care
    most: int = MOST_IN_GRID
    engine: Engine = ON_NUMPY


def asked_of(
    equations: tuple[Equation, ...],
    arrays: Mapping[str, Array],
    sizes: Mapping[Size, int],
    care: Care,
    most: int = MOST_IN_GRID,
) -> Asked:
    """Equations about some arrays."""
    told = tuple((name, a.shape, WHOLE if a.dtype.kind in "iub" else FLOAT) for name, a in arrays.items())
    return Asked(equations, tuple(sizes.items()), told, care, most)


def made(asked: Asked) -> Plan:
    """The plan of equations for arrays of some shapes; raises `NoPlan`."""
    shapes, holds = {name: shape for name, shape, _ in asked.told}, {name: kind for name, _, kind in asked.told}
    graph, found = lowered(asked.equations, dict(asked.sizes), shapes, holds, asked.care, asked.most)
    own = asked.care.field
    return make_plan(graph, found, asked.engine if own is None else own.engine)


plan_for = lru_cache(maxsize=1024)(made)
"""`made`, once."""


def play(
    equation: Equation,
    arrays: Mapping[str, Array],
    sizes: Mapping[Size, int],
    care: Care = FORWARD,
    lent: bool = False,
) -> Array:
    """The array that ``equation`` defines, in memory of its own unless it may be ``lent``; raises `NoPlan`."""
    given = {name: in_type(arrays[name]) for name in names_read(equation.right)}
    plan = plan_for(asked_of((equation,), given, sizes, care, allowed_by_memory(MOST_IN_GRID)))
    with np.errstate(all="ignore"):
        (found,) = map(np.asarray, plan.play([given[name] for name in plan.inputs]))
    if lent or (found.flags.writeable and (plan.own[0] or not shares(found, (*given.values(), *plan.start)))):
        return found
    return np.array(found)


def played(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care, lent: bool = False
) -> Array:
    """`play`, with the conditions first where no number came out, and share by share where it would not fit."""
    try:
        found = play(equation, arrays, sizes, care, lent)
    except TooLarge as error:
        return in_shares(equation, arrays, sizes, care, error.shape)
    except NoPlan:
        raise bug(f"no numeric value is known for {equation.right}") from None
    if left_in(equation, found):
        try:
            return play(equation, arrays, sizes, care.guards)
        except TooLarge:
            pass
    return found


def in_shares(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care, shape: tuple[int, ...]
) -> Array:
    """Share by share along the longest axis that no condition is about, an array of ``shape`` being too large.

    So the images of a batch go back through a convolution a few at a time: before its windows are added up, each has
    all the entries of a window for each of its own.
    """
    asked = {index for guard in guards_of(equation.right) for index in guard.free_symbols}
    lengths = {axis: number(axis.size, sizes) for axis in equation.axes if axis not in asked}
    longest = max(lengths, key=lambda axis: lengths[axis], default=None)
    shares = -(-math.prod(shape) // allowed_by_memory(MOST_IN_GRID))
    if longest is None or lengths[longest] < 2 or shares > MOST_SHARES:
        check_grid(shape)
        raise bug("a grid that fits is too large")
    length, place = lengths[longest], equation.axes.index(longest)
    share, found = max(1, length // shares), []
    for begin in range(0, length, share):
        part = fresh(longest.name, sp.Integer(min(share, length - begin)))
        axes = (*equation.axes[:place], part, *equation.axes[place + 1 :])
        found.append(played(Equation(axes, equation.right.xreplace({longest: part + begin})), arrays, sizes, care))
    return np.concatenate(found, place)


def left_in(equation: Equation, found: Array) -> bool:
    """Whether what is no number came out beside a condition: a plan may have met 0/0 where it is 0."""
    return bool(guards_of(equation.right)) and bool(np.isnan(found).any())


@lru_cache(maxsize=1024)
def guards_of(expression: Expr) -> frozenset[Expr]:
    """The conditions in it."""
    return frozenset(expression.atoms(Bracket, sp.KroneckerDelta))


def shares(found: Array, others: Iterable[object]) -> bool:
    """Whether an array may lie in the memory of another, or repeats entries of its own."""
    repeats = any(stride == 0 < length - 1 for stride, length in zip(found.strides, found.shape, strict=True))
    return repeats or any(isinstance(a, np.ndarray) and np.may_share_memory(found, a) for a in others)


def in_type(array: Array) -> Array:
    """Whole numbers as they are, everything else in float64."""
    found = np.asarray(array)
    return found if found.dtype.kind in "iu" else as_float(found)


def evaluate_with_positions(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The forward of an operation that reads positions; raises `IndexError` for the first that is not there."""
    for name, from_end, axis in positions_read(equation.right):
        check_on_axis(
            (numpy_positions if from_end else require_positions_from_zero)(arrays[name]), axis.length(arrays, sizes)
        )
    return evaluate_forward(equation, arrays, sizes)


def check_on_axis(found: Array, count: int) -> None:
    """Raise `IndexError` for the first position that an axis with so many places does not have, from either end."""
    outside = found[(found < -count) | (found >= count)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for an axis with size {count}")


def evaluate_stated(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The forward of an equation that a text states; raises `IndexError` for the first position that is not there.

    An entry beside a condition that does not hold is not read: ``[n[i] ≥ 0]·x[n[i]]``.
    """
    for place, axis, held in data_indices(equation.right):
        beside = sp.Mul(*held)
        axes = tuple(ordered_indices(free_indices(place) | free_indices(beside)))
        found = as_float(evaluate_forward(Equation(axes, place), arrays, sizes))
        count = axis.length(arrays, sizes)
        lost = ~((found >= 0) & (found < count) & (found == np.floor(found)))
        if lost.any():
            lost = lost & (as_float(evaluate_forward(Equation(axes, beside), arrays, sizes)) != 0)
        if lost.any():
            raise IndexError(f"the position {found[lost][0]:g} on an axis with {count} entries")
    return evaluate_forward(equation, arrays, sizes)


@lru_cache(maxsize=1024)
def data_indices(right: Expr) -> tuple[tuple[Expr, Axis, tuple[Expr, ...]], ...]:
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
def positions_read(right: Expr) -> tuple[tuple[str, bool, Axis], ...]:
    """The tensors in which an equation finds positions, whether it counts from the end, and on which axis."""
    found = []
    for place, axis in indices_and_axes(right):
        from_end = isinstance(place, sp.Mod)
        entry = place.args[0] if from_end else place
        if is_access(entry):
            found.append((name_of(entry), from_end, axis))
    return tuple(found)


def indices_and_axes(right: Expr) -> Iterator[tuple[Expr, Axis]]:
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
