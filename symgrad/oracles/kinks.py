"""Whether a disagreement is one: at a kink or a jump there is no derivative, and two programs may choose differently.

Comes in: a check that failed. Goes out: the same check with the entries left out at which L = Σ v·out has another slope
on the left than on the right, and both answers lie between the two. Needs the forward pass alone: the sides are
difference quotients, and what parts them has to stay as the step shrinks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from symgrad.numeric import Array, as_float, forward
from symgrad.oracles.report import TOLERANCE, Check, Standing, compare
from symgrad.program import Program

STEPS = (1e-5, 1e-6)
APART, ROUNDING = 1e-3, 1e-4
"""How far apart the sides of a kink are, and what rounding may do to a quotient, relative to the larger side."""
MOST, AT_ALL = 64, 1024
"""Entries of which the sides are looked at: where one of them is no kink, and no other can help the check; and ever."""


def at_kinks(
    check: Check,
    program: Program,
    inputs: Mapping[str, Array],
    seed: Array,
    name: str,
    expected: Array,
    gradient: Array,
    standing: Standing | None,
    tolerance: float = TOLERANCE,
) -> Check:
    """``check`` without the entries that lie at a kink, where both answers are legal; as it is if there are none."""
    first, second = as_float(expected), as_float(gradient)
    scale = max(1.0, float(np.abs(first[np.isfinite(first)]).max(initial=0.0)))
    with np.errstate(invalid="ignore"):
        differ = np.argwhere(np.abs(first - second) > tolerance * scale)
    void = np.zeros(first.shape, dtype=bool) if standing is None else standing.void.copy()
    places: list[tuple[tuple[int, ...], tuple[float, float]]] = []
    jump = False
    for count, at in enumerate(tuple(int(i) for i in row) for row in differ):
        if count >= MOST and (len(places) < count or count >= AT_ALL):
            break
        sides = slopes(program, inputs, seed, name, at)
        if sides is None:
            continue
        if not all(legal(answer[at], sides) for answer in (first, second)):
            sides, jump = beside(program, inputs, seed, name, at), jump or not places
            if not all(legal(answer[at], sides) for answer in (first, second)):
                continue
        void[at] = True
        places.append((at, sides))
    if not places:
        return check
    at, (left, right) = places[0]
    entry = f"{name}[{','.join(map(str, at))}]" if at else name
    what, told = "jump" if jump else "kink", "from the right, and any number between is as good"
    note = (
        f"{entry} lies at a {what}, where the slope is {left:.4g} from the left and {right:.4g} {told}: here "
        f"{second[at]:.4g}, there {first[at]:.4g}"
    )
    known = second if standing is None else standing.mathematics
    return compare(check.oracle, expected, gradient, tolerance, note, Standing(as_float(known), void))


def slopes(
    program: Program, inputs: Mapping[str, Array], seed: Array, name: str, at: tuple[int, ...]
) -> tuple[float, float] | None:
    """The slopes of L left and right of one entry, where they are two; a jump has infinite ones."""
    return two_slopes(lambda shift: _sum(program, inputs, seed, name, at, shift))


def two_slopes(value: Callable[[float], float]) -> tuple[float, float] | None:
    """The slopes of a function of one number left and right of 0, where they are two."""
    gaps, left, right, here = [], 0.0, 0.0, value(0.0)
    for step in STEPS:
        left, right = (here - value(-step)) / step, (value(step) - here) / step
        gaps.append(abs(right - left))
    large = max(1.0, abs(left), abs(right))
    stays = gaps[1] > APART * large and gaps[1] > gaps[0] / 2
    return (left, right) if stays and np.isfinite(gaps).all() else None


def beside(
    program: Program, inputs: Mapping[str, Array], seed: Array, name: str, at: tuple[int, ...]
) -> tuple[float, float]:
    """The slopes of L to the left and to the right of one entry, its own value not among the points: beside a jump."""
    step = STEPS[-1]
    low, high = (
        [_sum(program, inputs, seed, name, at, sign * shift) for shift in (step, 2 * step)] for sign in (-1, 1)
    )
    return (low[0] - low[1]) / step, (high[1] - high[0]) / step


def legal(value: float, sides: tuple[float, float]) -> bool:
    """Whether a number lies between the sides."""
    low, high = sorted(sides)
    return bool(low - ROUNDING * max(1.0, abs(low)) <= value <= high + ROUNDING * max(1.0, abs(high)))


def _sum(
    program: Program, inputs: Mapping[str, Array], seed: Array, name: str, at: tuple[int, ...], shift: float
) -> float:
    """L with one entry moved."""
    moved = as_float(inputs[name]).copy()
    moved[at] += shift
    others = {n: as_float(a) for n, a in inputs.items()}
    return float(np.sum(as_float(seed) * as_float(forward(program, {**others, name: moved})[program.output])))
