"""Index equations played as plans: lowered once for their shapes, then a list of array operations.

Comes in: an equation, the arrays that it reads, the numbers of its sizes. Goes out: the array that it defines, in
float64; None where it has no plan. `symgrad.numeric.evaluator` is the reference that plans are held against.

The array that an index equation defines: in fractions where everything is exact, else by a plan, else step by step.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array, one axis per
index of the left-hand side. The three ways in differ in which plans they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket, Equation
from symgrad.indexing.symbols import Expr, accesses
from symgrad.lowering.build import lowered
from symgrad.lowering.graph import FLOAT, WHOLE, NoPlan
from symgrad.lowering.plan import Plan, planned
from symgrad.lowering.reading import names_read
from symgrad.numeric.evaluator import by_evaluator, in_fractions
from symgrad.numeric.exact import Array, all_tame, as_float
from symgrad.shapes import Size

ENOUGH = 1 << 12
"""Entries from which on an equation has a plan at its first use, and not only at its second."""
Told = tuple[tuple[str, tuple[int, ...], str], ...]


@lru_cache(maxsize=1024)
def plan_for(equation: Equation, sizes: tuple[tuple[Size, int], ...], told: Told, tame: bool) -> Plan | None:
    """The plan of an equation for arrays of some shapes."""
    shapes, holds = {name: shape for name, shape, _ in told}, {name: kind for name, _, kind in told}
    try:
        return planned(*lowered([equation], dict(sizes), shapes, holds, tame))
    except NoPlan:
        return None


@lru_cache(maxsize=1024)
def uses(equation: Equation, sizes: tuple[tuple[Size, int], ...], told: Told) -> list[None]:
    """As long as an equation was met often."""
    return []


def play(
    equation: Equation,
    arrays: Mapping[str, Array],
    sizes: Mapping[Size, int],
    tame: bool = False,
    at_once: bool = False,
    lent: bool = False,
) -> Array | None:
    """The array that ``equation`` defines, in memory of its own unless it may be ``lent``; None where it has no plan.

    Infinities and what is no number are taken as NumPy takes them; a condition that does not hold is 0 beside them.
    ``tame`` says that there are none of either, and waits for the second use of an equation on small arrays unless the
    plan is wanted ``at_once``.
    """
    given = {name: in_type(arrays[name]) for name in names_read(equation.right)}
    told = tuple((name, a.shape, FLOAT if a.dtype.kind == "f" else WHOLE) for name, a in given.items())
    key = (equation, tuple(sizes.items()), told)
    if tame and not at_once and sum(a.size for a in given.values()) < ENOUGH:
        met = uses(*key)
        if not met:
            met.append(None)
            return None
    plan = plan_for(*key, tame)
    if plan is None:
        return None
    with np.errstate(all="ignore"):
        (played,) = plan.play([given[name] for name in plan.inputs])
    found = np.asarray(played)
    if left_in(equation, found, given.values()):
        return None
    if lent or (found.flags.writeable and (plan.own[0] or not shares(found, (*given.values(), *plan.start)))):
        return found
    return np.array(found)


class Player:
    """An operation's own equation at some sizes, asked again and again: what `play` does for arrays of floats.

    What it reads is listed once, and its plan is found by the shapes alone, in the order of ``read``.
    """

    def __init__(self, equation: Equation, sizes: Mapping[Size, int]) -> None:
        self.equation, self.sizes = equation, tuple(sizes.items())
        self.read = names_read(equation.right)
        self.plans: dict[tuple[tuple[int, ...], ...], tuple[Plan, tuple[int, ...]] | None] = {}

    def __call__(self, given: Sequence[Array]) -> Array | None:
        """What the equation defines, maybe a view; None where it has no plan, or what it reads is not floats."""
        if not given or any(array.dtype.kind != "f" for array in given):
            return None
        shapes = tuple([array.shape for array in given])
        if shapes not in self.plans:
            told = tuple((name, shape, FLOAT) for name, shape in zip(self.read, shapes, strict=True))
            plan = plan_for(self.equation, self.sizes, told, False)
            self.plans[shapes] = None if plan is None else (plan, tuple(map(self.read.index, plan.inputs)))
        planned_ = self.plans[shapes]
        if planned_ is None:
            return None
        plan, order = planned_
        with np.errstate(all="ignore"):
            (played,) = plan.play([as_float(given[n]) for n in order])
        found = np.asarray(played)
        return None if left_in(self.equation, found, given) else found


def left_in(equation: Equation, found: Array, given: Iterable[Array]) -> bool:
    """Whether finite numbers came to none beside a condition on indices: a plan may have met 0/0 where it is 0."""
    return guards_places(equation.right) and bool(np.isnan(found).any()) and all(np.isfinite(a).all() for a in given)


@lru_cache(maxsize=1024)
def guards_places(expression: Expr) -> bool:
    """Whether a condition on indices alone stands in it."""
    guards = expression.atoms(Bracket, sp.KroneckerDelta)
    return any(not any(accesses(guard)) for guard in guards)


def shares(found: Array, others: Iterable[object]) -> bool:
    """Whether an array may lie in the memory of another, or repeats entries of its own."""
    repeats = any(stride == 0 < length - 1 for stride, length in zip(found.strides, found.shape, strict=True))
    return repeats or any(isinstance(a, np.ndarray) and np.may_share_memory(found, a) for a in others)


def play_tame(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], at_once: bool = False
) -> Array | None:
    """As `play`, for numbers that are finite, and so are their squares and one over those; None for others.

    What is 0·∞ on the way to a derivative is the evaluator's to say.
    """
    if not all(all_tame(np.asarray(arrays[name])) for name in names_read(equation.right)):
        return None
    found = play(equation, arrays, sizes, tame=True, at_once=at_once)
    return found if found is not None and all_tame(found) else None


def in_type(array: Array) -> Array:
    """Whole numbers as they are, everything else in float64."""
    found = np.asarray(array)
    return found if np.issubdtype(found.dtype, np.integer) else as_float(found)


Plays = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array | None]
"""A way to evaluate an equation by its plan; None where it has none, or not for these numbers."""


def evaluate(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], plays: Plays = play_tame
) -> Array:
    """The array that ``equation`` defines; a plan is made at its second use, and asked about ordinary numbers alone."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    for way in (in_fractions, plays):
        found = way(equation, used, sizes)
        if found is not None:
            return found
    return by_evaluator(equation, used, sizes)


evaluate_forward = partial(evaluate, plays=partial(play, lent=True))
"""For an operation's own equation: infinities and what is no number go on as in NumPy and torch, a view is a view."""
played = partial(evaluate, plays=partial(play_tame, at_once=True))
"""By a plan from the first use on: for what is large, or asked for again."""
