"""Evaluate an index equation: in fractions if everything is exact, else by a plan of array operations.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array, one axis per
index of the left-hand side, in float64. A plan is lowered once for the shapes and the kind of numbers. An array that
would not fit in memory is computed in parts along an axis, or refused.

Positions are checked first: a tensor used alone as an index, ``x[n[i]]``, or compared with one, ``δ(n[i], p)``, must
hold integers from 0 on that lie on that axis; with a modulo, negative ones count from the end. Otherwise `IndexError`
is raised.
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
    require_short,
)
from symgrad.shapes import Size

MOST_FRACTIONS = 1_000_000
"""The most entries of an object array, and the most products of fractions in a contraction."""
MOST_SHARES = 64
"""The most parts in which an array that would not fit is computed."""


def evaluate(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """Evaluate ``equation``; infinities, NaN and extreme numbers follow the rule of `symgrad.lowering.careful`."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    found = in_fractions(equation, used, sizes)
    if found is not None:
        return found
    if all(map(all_tame, used.values())):
        try:
            found = run_plan(equation, used, sizes, TAME)
        except NoPlan:
            found = None
        if found is not None and all_tame(found):
            return found
    return run_plan_or_parts(equation, used, sizes, EDGES)


def evaluate_forward(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """Evaluate an operation's own equation: infinities and NaN propagate as in NumPy, and the result may be a view."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    found = in_fractions(equation, used, sizes)
    return run_plan_or_parts(equation, used, sizes, FORWARD, lent=True) if found is None else found


def in_fractions(equation: Equation, used: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array | None:
    """Evaluate ``equation`` in fractions if the arrays and the formula are exact; else return None.

    None also for many numbers: a fraction takes a thousand times as long as a float.
    """
    if not (all(is_exact(a) for a in used.values()) and is_rational(equation.right)):
        return None
    count = sum(a.size for a in used.values()) + math.prod(number(axis.size, sizes) for axis in equation.axes)
    if count > 4 * EXACT_LIMIT:
        return None
    try:
        (found,) = of_objects((equation,), {n: as_fractions(a) for n, a in used.items()}, sizes, FRACTIONS)
        return as_fractions(require_short(found))
    except (ZeroDivisionError, OverflowError, NoPlan):
        return None


def of_objects(
    equations: tuple[Equation, ...], arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care,
    kept: bool = True,
) -> list[Array]:  # fmt: skip
    """Evaluate each of ``equations`` on the number type of ``care``; raise `NoPlan`.

    The plan is cached if ``kept``, for number types without state.
    """
    plan = (plan_for if kept else build_plan)(plan_key(equations, arrays, sizes, care, MOST_FRACTIONS))
    with np.errstate(all="ignore"):
        return [np.array(found, dtype=object) for found in plan.play([arrays[name] for name in plan.inputs])]


def fraction_of(node: Expr) -> int | Fraction:
    """Return a constant as an int or a fraction."""
    return int(node) if node.is_Integer else Fraction(int(node.p), int(node.q))


def contract_fractions(left: Array, right: Array) -> Array:
    """Return a matrix product of fractions; raise `OverflowError` if it would take long."""
    if left.size * right.shape[-1] > MOST_FRACTIONS:
        raise OverflowError
    return np.asarray(contract_in_floats(np.matmul)(left, right))


FRACTIONS = Care(
    field=Field(fraction_of, lambda base, power: exact_power(np.asarray(base), int(power)), contract=contract_fractions)
)


@dataclass(frozen=True)
class PlanKey:
    """The key of a plan: equations, sizes, tensors (name, shape, kind of numbers), care and engine."""

    equations: tuple[Equation, ...]
    sizes: tuple[tuple[Size, int], ...]
    tensors: tuple[tuple[str, tuple[int, ...], str], ...]
    care: Care
    most: int = MOST_IN_GRID
    engine: Engine = ON_NUMPY


def plan_key(
    equations: tuple[Equation, ...],
    arrays: Mapping[str, Array],
    sizes: Mapping[Size, int],
    care: Care,
    most: int = MOST_IN_GRID,
) -> PlanKey:
    """Return the key of the plan of ``equations`` for some arrays."""
    tensors = tuple((name, a.shape, WHOLE if a.dtype.kind in "iub" else FLOAT) for name, a in arrays.items())
    return PlanKey(equations, tuple(sizes.items()), tensors, care, most)


def build_plan(key: PlanKey) -> Plan:
    """Lower equations to a plan for arrays of some shapes; raise `NoPlan`."""
    shapes, holds = {name: shape for name, shape, _ in key.tensors}, {name: kind for name, _, kind in key.tensors}
    graph, found = lowered(key.equations, dict(key.sizes), shapes, holds, key.care, key.most)
    own = key.care.field
    return make_plan(graph, found, key.engine if own is None else own.engine)


plan_for = lru_cache(maxsize=1024)(build_plan)
"""`build_plan`, cached."""


def run_plan(
    equation: Equation,
    arrays: Mapping[str, Array],
    sizes: Mapping[Size, int],
    care: Care = FORWARD,
    lent: bool = False,
) -> Array:
    """Evaluate ``equation`` by its plan; the result shares no memory unless ``lent``. Raise `NoPlan`."""
    given = {name: integers_or_floats(arrays[name]) for name in names_read(equation.right)}
    plan = plan_for(plan_key((equation,), given, sizes, care, allowed_by_memory(MOST_IN_GRID)))
    with np.errstate(all="ignore"):
        (found,) = map(np.asarray, plan.play([given[name] for name in plan.inputs]))
    if lent or (found.flags.writeable and (plan.own[0] or not may_share_memory(found, (*given.values(), *plan.start)))):
        return found
    return np.array(found)


def run_plan_or_parts(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care, lent: bool = False
) -> Array:
    """Run `run_plan`; again with conditions applied first if NaN came out; in parts if it would not fit in memory."""
    try:
        found = run_plan(equation, arrays, sizes, care, lent)
    except TooLarge as error:
        return evaluate_in_parts(equation, arrays, sizes, care, error.shape)
    except NoPlan:
        raise bug(f"no numeric value is known for {equation.right}") from None
    if has_lost_numbers(equation, found):
        try:
            return run_plan(equation, arrays, sizes, care.guards)
        except TooLarge:
            pass
    return found


def evaluate_in_parts(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], care: Care, shape: tuple[int, ...]
) -> Array:
    """Evaluate in parts along the longest axis without conditions, since an array of ``shape`` would be too large.

    The pullback of a convolution takes a few images at a time: their windows have many times their entries.
    """
    asked = {index for guard in find_conditions(equation.right) for index in guard.free_symbols}
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
        found.append(
            run_plan_or_parts(Equation(axes, equation.right.xreplace({longest: part + begin})), arrays, sizes, care)
        )
    return np.concatenate(found, place)


def has_lost_numbers(equation: Equation, found: Array) -> bool:
    """Whether NaN came out of an equation with conditions: 0/0 may have occurred where the condition is false."""
    return bool(find_conditions(equation.right)) and bool(np.isnan(found).any())


@lru_cache(maxsize=1024)
def find_conditions(expression: Expr) -> frozenset[Expr]:
    """Return the conditions in an expression."""
    return frozenset(expression.atoms(Bracket, sp.KroneckerDelta))


def may_share_memory(found: Array, others: Iterable[object]) -> bool:
    """Whether an array may share memory with another, or repeats its own entries (stride 0)."""
    repeats = any(stride == 0 < length - 1 for stride, length in zip(found.strides, found.shape, strict=True))
    return repeats or any(isinstance(a, np.ndarray) and np.may_share_memory(found, a) for a in others)


def integers_or_floats(array: Array) -> Array:
    """Return integers unchanged, everything else in float64."""
    found = np.asarray(array)
    return found if found.dtype.kind in "iu" else as_float(found)


def evaluate_with_positions(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """Evaluate an operation that reads positions; raise `IndexError` for the first one out of bounds."""
    for name, from_end, axis in positions_read(equation.right):
        check_on_axis(
            (numpy_positions if from_end else require_positions_from_zero)(arrays[name]), axis.length(arrays, sizes)
        )
    return evaluate_forward(equation, arrays, sizes)


def check_on_axis(found: Array, count: int) -> None:
    """Raise `IndexError` for the first position out of bounds for an axis of size ``count``, from either end."""
    outside = found[(found < -count) | (found >= count)]
    if outside.size:
        raise IndexError(f"index {outside[0]} is out of bounds for an axis with size {count}")


def evaluate_stated(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """Evaluate an equation given by the user; raise `IndexError` for the first position out of bounds.

    An entry multiplied by a false condition is not read: ``[n[i] ≥ 0]·x[n[i]]``.
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
    """Return the index expressions that read tensors, their axes, and the conditions that multiply them."""

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
    """Axis ``number`` of ``tensor``, or an axis whose size is the product of ``sizes``."""

    tensor: str = ""
    number: int = 0
    sizes: tuple[Size, ...] = ()

    def length(self, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> int:
        """Return its size."""
        if self.tensor:
            return int(np.shape(arrays[self.tensor])[self.number])
        return math.prod(number(size, sizes) for size in self.sizes)


@lru_cache(maxsize=1024)
def positions_read(right: Expr) -> tuple[tuple[str, bool, Axis], ...]:
    """Return the tensors of positions that an equation reads, whether negative ones are allowed, and their axes."""
    found = []
    for place, axis in indices_and_axes(right):
        from_end = isinstance(place, sp.Mod)
        entry = place.args[0] if from_end else place
        if is_access(entry):
            found.append((name_of(entry), from_end, axis))
    return tuple(found)


def indices_and_axes(right: Expr) -> Iterator[tuple[Expr, Axis]]:
    """Iterate over expressions used as an index or compared with one, with their axes."""
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
