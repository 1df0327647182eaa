"""The array that an index equation defines: in fractions where everything is exact, else by a plan.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array, one axis per
index of the left-hand side, in float64. A plan is lowered once for its shapes and for what its numbers may be, and is
then a list of array operations. What would not fit is made share by share, or refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.errors import bug
from symgrad.indexing import Bracket, Equation, fresh
from symgrad.indexing.symbols import Expr
from symgrad.lowering.arrays import ON_NUMPY, Engine
from symgrad.lowering.careful import Field
from symgrad.lowering.graph import EDGES, FLOAT, FORWARD, TAME, WHOLE, Care, NoPlan, TooLarge
from symgrad.lowering.plan import Plan, lowered, planned
from symgrad.lowering.reading import is_rational, names_read, number
from symgrad.numeric.exact import (
    EXACT_LIMIT,
    Array,
    all_tame,
    as_float,
    exact,
    exact_power,
    in_floats,
    is_exact,
    kept_short,
)
from symgrad.numeric.limits import MOST_IN_GRID, allowed, check_grid
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
        return exact(kept_short(of_objects(equation, {n: exact(a) for n, a in used.items()}, sizes, FRACTIONS)))
    except (ZeroDivisionError, OverflowError, NoPlan):
        return None


def of_objects(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care, kept: bool = True
) -> Array:
    """The array that ``equation`` defines, of the numbers that ``care`` is about; raises `NoPlan`.

    Its plan is ``kept`` where those numbers are always the same ones.
    """
    plan = (plan_for if kept else made)(asked_of((equation,), arrays, sizes, care, MOST_FRACTIONS))
    with np.errstate(all="ignore"):
        (found,) = plan.play([arrays[name] for name in plan.inputs])
    return np.array(found, dtype=object)


def fraction_of(node: Expr) -> int | Fraction:
    """A constant as an exact number."""
    return int(node) if node.is_Integer else Fraction(int(node.p), int(node.q))


def contracted(left: Array, right: Array) -> Array:
    """A product of matrices of fractions; raises `OverflowError` for one that would take long."""
    if left.size * right.shape[-1] > MOST_FRACTIONS:
        raise OverflowError
    return np.asarray(in_floats(np.matmul)(left, right))


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
    return planned(graph, found, asked.engine if own is None else own.engine)


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
    plan = plan_for(asked_of((equation,), given, sizes, care, allowed(MOST_IN_GRID)))
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
    shares = -(-math.prod(shape) // allowed(MOST_IN_GRID))
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


class Player:
    """An operation's own equation at some sizes, asked again and again: what `play` does for arrays of floats.

    What it reads is listed once, and its plan is found by the shapes alone, in the order of ``read``.
    """

    def __init__(self, equation: Equation, sizes: Mapping[Size, int]) -> None:
        self.equation, self.sizes = equation, sizes
        self.read = names_read(equation.right)
        self.plans: dict[tuple[tuple[int, ...], ...], tuple[Plan, tuple[int, ...]] | None] = {}

    def __call__(self, given: Sequence[Array]) -> Array | None:
        """What the equation defines, maybe a view; None where it has no plan, or what it reads is not floats."""
        if not given or any(array.dtype.kind != "f" for array in given):
            return None
        shapes = tuple([array.shape for array in given])
        if shapes not in self.plans:
            asked = asked_of((self.equation,), dict(zip(self.read, given, strict=True)), self.sizes, FORWARD)
            try:
                plan = plan_for(asked)
            except NoPlan:
                self.plans[shapes] = None
            else:
                self.plans[shapes] = (plan, tuple(map(self.read.index, plan.inputs)))
        planned_ = self.plans[shapes]
        if planned_ is None:
            return None
        plan, order = planned_
        with np.errstate(all="ignore"):
            (played,) = plan.play([as_float(given[n]) for n in order])
        found = np.asarray(played)
        return None if left_in(self.equation, found) else found


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
    return found if np.issubdtype(found.dtype, np.integer) else as_float(found)
