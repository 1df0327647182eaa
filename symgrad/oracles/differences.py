"""Central differences of L = Σ v·out: needs only the forward pass, and a point away from kinks.

Less exact than the other oracles, so it is used where they cannot be: without torch, or where the explicit
formulas would be too long.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial

import numpy as np

from symgrad.calculus import flows
from symgrad.numeric import Array, as_float, finite, forward, unit_at
from symgrad.numeric.forward import forward_from
from symgrad.oracles.report import Check, Standing, compare, compare_some, skipped
from symgrad.oracles.verdict import Comparison, at_kinks, judge
from symgrad.program import Program

NAME = "central differences of Σ v·out"
LARGEST = 256
MOST, DIRECTIONS = 1 << 13, 16
"""Steps that every entry asks for in turn, times two; a longer program is asked along so many directions first."""
STEP = 1e-6
ACCURACY = 1e-6
FINER = 10.0
"""A quotient that a step so much smaller changes is none of a derivative."""
UNSETTLED = "the quotients do not settle as the step shrinks, or numbers are so large that no digits are left for it"


def check_differences(
    program: Program,
    inputs: Mapping[str, Array],
    seed: Array,
    wanted: str,
    gradient: Array,
    standing: Standing | None = None,
) -> Check:
    """(L(x + h) − L(x − h)) / 2h for every entry of one input."""
    point = as_float(inputs[wanted])
    if not flows(program, wanted):
        return skipped(NAME, "it is only read: nothing flows back to it, whatever the output does")
    if point.size > LARGEST:
        return skipped(NAME, f"{point.size} entries, more than {LARGEST}")
    others = {name: as_float(array) for name, array in inputs.items()}
    weights, alone = as_float(seed), replace(program, steps=program.forward_steps)
    here = forward(alone, others)
    moving = alone.reached((wanted,)) & {step.result.name for step in alone.steps}

    def slope(way: Array, step: float) -> float:
        sides = []
        for direction in (1, -1):
            moved = point + direction * step * way
            found = forward_from(alone, here, {wanted: moved})[alone.output]
            sides.append(float(np.sum(weights * as_float(found))))
        return (sides[0] - sides[1]) / (2 * step)

    def quotient(at: tuple[int, ...], step: float) -> float:
        return slope(unit_at(at, point.shape), step)

    ours = as_float(gradient)
    if standing is None and point.size * len(moving) > MOST:
        check = in_directions(slope, ours, 2 * point.size * len(moving))
        if check.passed:
            return check
    found = np.empty(point.shape)
    for at in np.ndindex(*point.shape):
        found[at] = quotient(at, STEP)
    case = Comparison(NAME, alone, here, seed, wanted, found, ours, standing, tolerance=ACCURACY)
    check = judge(case.check(), [partial(at_kinks, case)])
    if check.passed is not False:
        return check
    if without_digits(here.arrays.values(), float(np.abs(weights).sum())):
        return skipped(NAME, UNSETTLED)
    finer = np.empty(point.shape)
    for at in np.ndindex(*point.shape):
        finer[at] = quotient(at, STEP / FINER)
    return compare_some(NAME, found, ours, settled(found, finer), UNSETTLED, ACCURACY, standing)


def in_directions(slope: Callable[[Array, float], float], gradient: Array, steps: int) -> Check:
    """The slopes along random directions that move every entry up or down: a wrong entry is in each of them."""
    ways = np.random.default_rng(0).choice((-1.0, 1.0), size=(DIRECTIONS, *gradient.shape))
    found = np.array([slope(way, STEP) for way in ways])
    ours = (ways * gradient).reshape(DIRECTIONS, -1).sum(axis=1)
    note = f"along {DIRECTIONS} random directions, each moving every entry: one by one they would take {steps:,} steps"
    return replace(compare(NAME, found, ours, tolerance=ACCURACY, note=note), worst=None)


def settled(coarse: Array, fine: Array) -> Array:
    """Where a finer step leaves a quotient as it is."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(fine - coarse)
    return np.asarray(gap <= FINER * ACCURACY * np.maximum(1.0, np.abs(fine)))


def without_digits(arrays: Iterable[Array], weight: float = 1.0) -> bool:
    """Whether numbers are so large that a step leaves nothing but their rounding."""
    return bool(np.finfo(float).eps * largest_number(arrays) * weight / STEP > ACCURACY)


def largest_number(arrays: Iterable[Array]) -> float:
    """The size of the largest finite entry."""
    sizes = [np.abs(as_float(array)[finite(array)]).max(initial=0.0) for array in arrays]
    return float(max(sizes, default=0.0))
