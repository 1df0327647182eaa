"""Checks that need nothing but numbers: the adjoint identity, central differences, kinks, what rounding may leave.

⟨v, J·u⟩ = ⟨vᵀJ, u⟩ for every change u of the input: J·u comes from the derived pushforwards, vᵀJ from the derived
pullbacks; they share the local Jacobians' formulas and nothing of the sweeps. The u are small random integers, so that
exact values stay exact. Central differences of L = Σ v·out need only the forward pass, and a point away from kinks;
less exact, they are used where other oracles cannot be: without torch, or where the explicit formulas are too long. At
a kink, where the slopes of both sides stay apart as the step shrinks, any number between them is valid. What rounding
may leave is found by a sweep with the last digits of all that it reads and makes moved.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, lru_cache, partial

import numpy as np

from symgrad.calculus import flows
from symgrad.numeric import (
    Array,
    Values,
    as_float,
    forward,
    is_exact,
    is_finite,
    numeric_pullback,
    numeric_pushforward,
    unit_at,
    where_exact,
)
from symgrad.numeric.exact import largest_finite
from symgrad.numeric.forward_pass import forward_from
from symgrad.numeric.vector_products import pull_step
from symgrad.oracles.comparisons import Check, Comparison, Place, Standing, compare, compare_some, judge, skipped
from symgrad.program import Apply, Program

UNIT = float(np.finfo(float).eps)
"""The last digit of a double."""
ONE_SIDED = 1e-3
"""How closely a quotient on one side shows a slope."""


Size = Callable[[Apply, Program, Values, Array, int], Array]
"""How large the terms are that a step pulls back to one place, for some weights."""


def rounding_noise(
    program: Program, values: Values, unit: float, number: int, size: Size | None = None
) -> Callable[[Apply, int, Array, Array], Array]:
    """What moves the terms of a sweep, each by the rounding of its step; ``size`` in place of `pulled_sizes`."""
    signs = np.random.default_rng(number)
    size_of = size or partial(pulled_sizes, signs=signs)

    def moved(step: Apply, place: int, weights: Array, result: Array) -> Array:
        sizes = size_of(step, program, values, weights, place)
        return np.asarray(as_float(result) + unit * sizes * signs.choice((-1.0, 1.0), np.shape(result)))

    return moved


def pulled_sizes(
    step: Apply, program: Program, values: Values, weights: Array, place: int, signs: np.random.Generator
) -> Array:
    """How large the terms are that a step pulls back: weights of one size, with signs by lot, do not cancel."""
    size = float(np.abs(as_float(weights)).max(initial=0.0))
    if not np.isfinite(size):
        return np.zeros(np.shape(values[str(step.arguments[place])]))
    lot = size * signs.choice((-1.0, 1.0), np.shape(weights))
    return np.abs(as_float(pull_step(step, program, values, lot, [place])[place]))


def perturbed(arrays: Mapping[str, Array], number: int, unit: float = UNIT) -> Mapping[str, Array]:
    """The numbers of some arrays moved by ``unit`` of each; equal ones stay equal, and whole ones as they are."""
    return Made(arrays, lambda a: a if is_exact(a) else a * (1 + unit * signs_by_digits(np.abs(a), number)))


def signs_by_digits(sizes: Array, number: int) -> Array:
    """-1, 0 or 1 for each number, by its digits: the same for equal ones, another for every ``number``.

    The digits are scattered as in SplitMix64: looking a network's weights up in their order took minutes.
    """
    bits = np.array(sizes, dtype=np.float64, order="C", ndmin=1).view(np.uint64)
    with np.errstate(over="ignore"):
        bits += np.uint64(number + 1) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            bits ^= bits >> np.uint64(shift)
            bits *= np.uint64(factor)
    bits >>= np.uint64(33)
    bits %= np.uint64(3)
    return bits.astype(np.int8).reshape(np.shape(sizes)) - np.int8(1)


TRIALS, SHAKES = 3, 4
ADJOINT = "⟨v, J u⟩ = ⟨vᵀJ, u⟩ for 3 random u"


def check_adjoint(program: Program, values: Values, seed: Array, wanted: str, gradient: Array) -> Check:
    """Both sides of the identity for three random integer u."""
    if not is_finite(gradient).all():
        return skipped(ADJOINT, "vᵀJ is not finite here")
    tangents = np.random.default_rng(0).integers(-3, 4, size=(TRIALS, *values[wanted].shape))
    left, right = inner_products(program, values, seed, wanted, gradient, tangents)
    if not is_finite(left).all():
        return skipped(ADJOINT, "J u is not finite here")
    check = compare(ADJOINT, left, right)
    if check.passed is False and rounding_decides(program, values, seed, wanted, tangents, np.abs(left - right)):
        return skipped(ADJOINT, "terms cancel here, and only rounding is left")
    return check


def inner_products(
    program: Program, values: Values, seed: Array, wanted: str, gradient: Array, tangents: Array
) -> tuple[Array, Array]:
    """⟨v, J u⟩ and ⟨vᵀJ, u⟩ for each u."""
    left, right = [], []
    changes = [where_exact(tangent) if is_exact(values[wanted]) else tangent for tangent in tangents]
    for tangent, moved in zip(
        tangents, (numeric_pushforward(program, values, wanted, u) for u in changes), strict=True
    ):
        left.append(np.sum(seed * moved) if moved.size else 0)
        right.append(np.sum(gradient * tangent) if tangent.size else 0)
    exactly = all(is_exact(a) for a in (seed, gradient)) and all(is_exact(np.asarray(e)) for e in (*left, *right))
    dtype = object if exactly else np.float64
    return np.asarray(left, dtype=dtype), np.asarray(right, dtype=dtype)


def rounding_decides(
    program: Program, values: Values, seed: Array, wanted: str, tangents: Array, gap: Array
) -> bool:  # fmt: skip
    """Whether inputs or results that move by their own rounding move a side as far as the two are apart."""
    given = {tensor.name: values[tensor.name] for tensor in program.inputs}
    points = [forward(program, perturbed(given, number)) for number in range(SHAKES)]
    points += [values.with_arrays(perturbed(values.arrays, number)) for number in range(SHAKES)]
    found = []
    for near in points:
        gradient = numeric_pullback(program, near, seed, [wanted])[wanted]
        found.append(inner_products(program, near, seed, wanted, gradient, tangents))
    with np.errstate(invalid="ignore"):
        spread = np.ptp(np.asarray(found, dtype=float), axis=0).max(axis=0)
    return bool((gap <= 16 * spread).all())


QUOTIENTS = "central differences of Σ v·out"
LARGEST = 256
MOST, DIRECTIONS = 1 << 13, 16
"""Steps that every entry asks for in turn, times two; a longer program is asked along so many directions first."""
STEP = 1e-6
ACCURACY = 1e-6
FINER = 10.0
"""A quotient that a step so much smaller changes is none of a derivative."""
UNSETTLED = "the quotients do not converge as the step shrinks, or numbers are so large that no digits are left"


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
        return skipped(QUOTIENTS, "it is only read, so it gets no gradient")
    if point.size > LARGEST:
        return skipped(QUOTIENTS, f"{point.size} entries, more than {LARGEST}")
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

    def quotients(step: float) -> Array:
        every = [slope(unit_at(at, point.shape), step) for at in np.ndindex(*point.shape)]
        return np.reshape(every, point.shape)

    ours = as_float(gradient)
    if standing is None and point.size * len(moving) > MOST:
        check = in_directions(slope, ours, 2 * point.size * len(moving))
        if check.passed:
            return check
    found = quotients(STEP)
    case = Comparison(QUOTIENTS, alone, here, seed, wanted, found, ours, standing, tolerance=ACCURACY)
    check = judge(case.check(), [partial(at_kinks, case)])
    if check.passed is not False:
        return check
    if without_digits(here.arrays.values(), float(np.abs(weights).sum())):
        return skipped(QUOTIENTS, UNSETTLED)
    able = has_converged(found, quotients(STEP / FINER))
    return compare_some(QUOTIENTS, found, ours, able, UNSETTLED, ACCURACY, standing)


def in_directions(slope: Callable[[Array, float], float], gradient: Array, steps: int) -> Check:
    """The slopes along random directions that move every entry up or down: a wrong entry is in each of them."""
    ways = np.random.default_rng(0).choice((-1.0, 1.0), size=(DIRECTIONS, *gradient.shape))
    found = np.array([slope(way, STEP) for way in ways])
    ours = (ways * gradient).reshape(DIRECTIONS, -1).sum(axis=1)
    note = f"along {DIRECTIONS} random directions, each moving every entry: one by one they would take {steps:,} steps"
    return replace(compare(QUOTIENTS, found, ours, tolerance=ACCURACY, note=note), worst=None)


def has_converged(coarse: Array, fine: Array) -> Array:
    """Where a finer step leaves a quotient as it is."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(fine - coarse)
    return np.asarray(gap <= FINER * ACCURACY * np.maximum(1.0, np.abs(fine)))


def without_digits(arrays: Iterable[Array], weight: float = 1.0) -> bool:
    """Whether numbers are so large that a step leaves nothing but their rounding."""
    return bool(np.finfo(float).eps * largest_number(arrays) * weight / STEP > ACCURACY)


def largest_number(arrays: Iterable[Array]) -> float:
    """The size of the largest finite entry."""
    return max((largest_finite(as_float(array)) for array in arrays), default=0.0)


class Made(UserDict[str, Array]):
    """Arrays by name, each made of another one when it is asked for: the last few are kept, which one step reads."""

    def __init__(self, arrays: Mapping[str, Array], make: Callable[[Array], Array]) -> None:
        super().__init__(arrays)
        self.made = lru_cache(maxsize=4)(lambda name: make(arrays[name]))

    def __getitem__(self, name: str) -> Array:
        return self.made(name)


Sides = tuple[float, float]
STEPS = (1e-5, 1e-6)
APART, ROUNDING = 1e-3, 1e-4
"""How far apart the sides of a kink are, and what rounding may do to a quotient, relative to the larger side."""
MOST_KINKS, MOST_SIDES = 64, 1024
"""Entries of which the sides are looked at: where one of them is no kink, and no other can help the check; and ever."""


# Kinks ------------------------------------------------------------------------------------------------


def at_kinks(case: Comparison, check: Check) -> Check:
    """Without the entries that lie at a kink or a jump, where both answers lie between the slopes of its sides."""
    places: list[tuple[Place, Sides]] = []
    jump = False
    for count, at in enumerate(case.differ):
        if count >= MOST_KINKS and (len(places) < count or count >= MOST_SIDES):
            break
        total, answers = case.total(at), [answer[at] for answer in case.answers]
        sides = two_slopes(total)
        if sides is None:
            continue
        if not all(lies_between(answer, sides) for answer in answers):
            sides, jump = one_sided_slopes(total, STEPS[-1], away=1), jump or not places
            if not all(lies_between(answer, sides) for answer in answers):
                continue
        places.append((at, sides))
    if not places:
        return check
    at, (left, right) = places[0]
    note = (
        f"{case.entry(at)} lies at a {'jump' if jump else 'kink'}, where the slope is {left:.4g} from the left and "
        f"{right:.4g} from the right, and any number between is valid: here {case.answers[1][at]:.4g}, there "
        f"{case.answers[0][at]:.4g}"
    )
    return case.without([at for at, _ in places], note)


def two_slopes(total: Callable[[float], float]) -> Sides | None:
    """The slopes of a function of one number left and right of 0, where they are two; a jump has infinite ones."""
    coarse, fine = map(partial(one_sided_slopes, cache(total)), STEPS)
    gaps, large = [abs(right - left) for left, right in (coarse, fine)], max(1.0, *map(abs, fine))
    stays = gaps[1] > APART * large and gaps[1] > gaps[0] / 2
    return fine if stays and np.isfinite(gaps).all() else None


def one_sided_slopes(total: Callable[[float], float], step: float, away: int = 0) -> Sides:
    """The slopes left and right of 0, over a step that begins so many steps ``away``: with 1 a jump does not count."""
    near, far = away * step, (away + 1) * step
    return (total(-near) - total(-far)) / step, (total(far) - total(near)) / step


def lies_between(value: float, sides: Sides, rounding: float = ROUNDING) -> bool:
    """Whether a number lies between the sides, but for what ``rounding`` does to them, relative to each or to 1."""
    low, high = sorted(sides)
    return value in sides or bool(low - rounding * max(1.0, abs(low)) <= value <= high + rounding * max(1.0, abs(high)))


def same_slope(one: Array | float, other: Array | float) -> Array:
    """Where two numbers are the same as closely as a quotient on one side shows."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(one - other) <= ONE_SIDED * np.maximum(1.0, np.abs(one)))
