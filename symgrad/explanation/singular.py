"""A gradient that is not finite, or 0: which of its entries are derivatives, what the others are, and why it is 0.

Comes in: a program with its numbers, a seed, a gradient, and the entries of J that SymPy found on its own, where it was
asked. Goes out: a `Singular`, or a `Nothing`. Of an entry that meets what is not finite three things can be true: its
derivative exists and the steps have it; it exists and the steps lose it to 0·∞; or there is none, and every number
there is what some arithmetic makes of it. A gradient is 0 because J is, because the weights are, or because the
weighted rows cancel; what rounding leaves is measured by the terms that were added up, not by their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.calculus import Sweep
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import elsewhere, is_rounding, nonzero_places
from symgrad.numeric import (
    Array,
    Values,
    as_float,
    evaluate,
    is_exact,
    is_finite,
    numeric_pullback,
    term_sizes,
)
from symgrad.oracles.comparisons import Comparison, Standing
from symgrad.oracles.digits import Lost, PreciseGradients
from symgrad.program import Apply, Program

Place = tuple[int, ...]
STEP, CLOSE, TRIED = 1e-6, 1e-3, 200
"""How far beside an entry the output is looked at, how well a slope has to fit there, and at how many entries."""


@dataclass(frozen=True, eq=False)
class Passage:
    """What came back to a step, and what its pullback by the argument at ``place`` made of it."""

    step: Apply
    place: int
    weights: Array
    result: Array

    @property
    def places(self) -> Array:
        """Where it is not finite."""
        return ~np.isfinite(self.result)

    @property
    def of_nothing(self) -> bool:
        """Whether only weights of 0 arrived there."""
        return self.weights.shape == self.result.shape and not self.weights[self.places].any()


def births(found: list[Passage]) -> Callable[[Apply, int, Array, Array], None]:
    """A watcher for the sweep that notes where what is not finite is born: of weights that are."""

    def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
        if is_finite(weights).all() and not is_finite(part).all():
            found.append(Passage(step, place, as_float(weights), as_float(part)))

    return seen


@dataclass(frozen=True, eq=False)
class Singular:
    """One gradient as ``steps`` have it and as ``torch`` has it, and what the mathematics says (`Standing`).

    ``without_value`` are the outputs that count and are not finite, ``births`` where the way back meets ±∞ or NaN. By
    ``entries`` of J that SymPy found: what is infinite there is a number that no float holds, and a pole is NaN.
    """

    standing: Standing
    steps: Array
    torch: Array | None
    without_value: tuple[Place, ...]
    births: tuple[Passage, ...] = field(default=())
    entries: bool = False

    @property
    def beyond(self) -> Array:
        """Where the derivative is larger than any float."""
        return np.asarray(~self.standing.void & np.isinf(self.standing.mathematics) & self.entries)

    def born(self, where: Array) -> tuple[Passage, ...]:
        """The births that can be those of some entries: what has their shape is not finite at one of them."""
        return tuple(b for b in self.births if b.places.shape != where.shape or (b.places & where).any())

    @property
    def lost(self) -> Array:
        """Where there is a derivative and the steps have none."""
        return ~self.undefined & ~self.beyond & ~np.isfinite(self.steps)

    @property
    def lost_by_torch(self) -> Array:
        """Where there is a derivative, the steps have it and torch has none."""
        if self.torch is None:
            return np.zeros(self.steps.shape, dtype=bool)
        return np.asarray(~self.undefined & np.isfinite(self.steps) & ~np.isfinite(self.torch))

    @property
    def undefined(self) -> Array:
        """Where there is no derivative."""
        return np.asarray(self.standing.void | (~np.isfinite(self.standing.mathematics) & ~self.beyond))

    def like(self, other: Singular) -> bool:
        """Whether the same is to be said of both: no derivative at the same places, by the same step."""
        place, (mine, others) = self.undefined, ([birth.step for birth in g.births] for g in (self, other))
        if (
            mine != others
            or not place.any()
            or (self.lost | self.beyond).any()
            or (other.lost | other.beyond).any()
            or not np.array_equal(place, other.undefined)
        ):
            return False
        numbers = [(g.steps[place], place if g.torch is None else g.torch[place]) for g in (self, other)]
        return all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*numbers, strict=True))


def find_singular(
    program: Program, values: Values, seed: Array, gradient: Array, name: str, sweep: Sweep, torch: Array | None,
    entries: Array | None = None,
) -> Singular | None:  # fmt: skip
    """What is to be said of one gradient; None where everything is finite."""
    out = values[program.output]
    counted = np.asarray(as_float(seed) != 0)
    lacking = counted & ~is_finite(out)
    beyond = is_exact(np.asarray(gradient))  # exact numbers have no end; torch's floats may
    if is_finite(gradient).all() and not lacking.any() and (beyond or torch is None or is_finite(torch).all()):
        return None
    if entries is not None:
        mathematics, void = by_entries(entries, seed, lacking, np.shape(gradient))
    else:
        mathematics, void = by_formula(program, values, seed, lacking, name, sweep)
    weights = np.where(lacking, 0.0, as_float(seed))
    unsure = np.isfinite(mathematics) & ~void & ~np.isfinite(as_float(gradient))
    held = confirmed(program, values, weights, name, mathematics, unsure)
    if torch is not None and (left := ~np.isfinite(mathematics) & ~void & np.isfinite(torch)).any():
        known = left & confirmed(program, values, weights, name, torch, left, alone=True)  # 0**y at y = 2 is 0 near by
        mathematics = np.where(known, torch, mathematics)
    mathematics = np.where(unsure & ~held, np.nan, mathematics)
    found: list[Passage] = []
    numeric_pullback(program, values, seed, [name], births(found))
    places = tuple(nonzero_places(lacking))
    by_sympy = entries is not None
    return Singular(Standing(mathematics, void), as_float(gradient), torch, places, tuple(found), by_sympy)


def confirmed(
    program: Program, values: Values, weights: Array, name: str, slopes: Array, unsure: Array, alone: bool = False
) -> Array:  # fmt: skip
    """Where ``slopes`` are those of Σ v·out on both sides of an entry: ``sqrt(x ** 2)`` has two at 0, and √ hides it.

    An output without a value has the weight 0: what it is made of is no question of slopes.

    Of very many entries the first are tried. Where nothing else speaks for the slopes they have to hold from the point
    on, ``alone``, and what is not tried does not hold.
    """
    from symgrad.oracles.numerical import one_sided_slopes

    held: Array = np.full(slopes.shape, not alone)
    case = Comparison("", program, values, weights, name, slopes, slopes)
    for at in nonzero_places(unsure)[:TRIED]:
        step = STEP * max(1.0, abs(float(values[name][at])))
        try:
            sides = [one_sided_slopes(case.total(at), step, away) for away in ((1, 0) if alone else (1,))]
        except (SymgradError, ValueError, ArithmeticError):
            continue
        held[at] = np.allclose(sides, slopes[at], rtol=CLOSE, atol=CLOSE)
    return held


def by_entries(entries: Array, seed: Array, lacking: Array, shape: Place) -> tuple[Array, Array]:
    """vᵀJ of the outputs that count, J differentiated entry by entry."""
    weights, J = as_float(seed).reshape(-1), as_float(entries)
    with np.errstate(all="ignore"):
        total = np.sum(weights[weights != 0, None] * J[weights != 0], axis=0)
    return total.reshape(shape), np.isnan(J[lacking.reshape(-1)]).any(axis=0).reshape(shape)


def by_formula(
    program: Program, values: Values, seed: Array, lacking: Array, name: str, sweep: Sweep
) -> tuple[Array, Array]:
    """The index formula as a whole, where conditions beat what is not finite; what has no value has the weight NaN."""
    weights = np.where(lacking, np.nan, as_float(seed))
    if sweep.whole:
        found = evaluate(sweep.equation, {**values.arrays, program.seed: weights}, values.sizes)
    else:
        found = numeric_pullback(program, values, weights, [name])[name]
    mathematics = as_float(found)
    void = ~np.isfinite(mathematics) & bool(lacking.any())
    if sweep.whole and lacking.any() and not void.any():  # of 0/0 the formula has nothing left, and the steps have
        void = ~np.isfinite(as_float(numeric_pullback(program, values, weights, [name])[name]))
    return np.where(void, np.nan, mathematics), void


ENOUGH = 2
"""Other points at which a gradient has to be 0 before it is said to be 0 everywhere."""
SPREADS = (0.05, 8.0, 60.0, 1000.0)
"""How far from 0 entries are drawn: what is flat between two corners is not so beyond them."""


@dataclass(frozen=True)
class Nothing:
    """A gradient that is 0: ``why`` is "J", "weights" or "balance"; ``rounding`` says that digits are left.

    "floats" has J of it 0 in floats, but not in truth (``lost``), or as far as is known.

    ``everywhere`` is whether it was 0 at other points too: None where none was found to be tried.
    """

    why: str
    rounding: bool
    everywhere: bool | None = None
    lost: Lost | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """A program at some numbers: what is swept back from its output reaches all of ``names`` at once, and is kept."""

    program: Program
    values: Values
    names: tuple[str, ...]
    _kept: dict[tuple[str, bytes], Mapping[str, Array | None]] = field(default_factory=dict)

    @cached_property
    def truth(self) -> PreciseGradients:
        """The same with many digits."""
        return PreciseGradients(self.program, self.values, self.names)

    def pulled(self, weights: Array) -> Mapping[str, Array | None]:
        """vᵀJ by every name."""
        return self._once("pulled", weights, lambda: numeric_pullback(self.program, self.values, weights, self.names))

    def sizes(self, weights: Array) -> Mapping[str, Array | None]:
        """How large the terms of it are, where that is known."""
        return self._once(
            "sizes", weights, lambda: term_sizes(self.program, self.names, self.values, weights, within=True)
        )

    def _once(self, what: str, weights: Array, sweep: Callable[[], Mapping[str, Any]]) -> Mapping[str, Array | None]:
        key = what, as_float(weights).tobytes()
        if key not in self._kept:
            self._kept[key] = sweep()
        return self._kept[key]


def explain_zero(point: Point, name: str, seed: Array, gradient: Array) -> Nothing | None:
    """Why ``gradient``, vᵀJ by ``name``, is 0; None where it is not, or where that cannot be told from rounding."""
    digits = bool(np.any(as_float(gradient) != 0))
    if not np.any(as_float(seed)):
        return Nothing("weights", digits)
    if not vanishes(point, name, seed, gradient) or (still := stands_still(point, name)) is None:
        return None
    if is_exact(gradient):
        return Nothing("J", digits) if still else Nothing("balance", digits, everywhere(point, name, seed))
    if digits and point.truth.moves(name, seed):
        return None
    if still:
        rows = point.truth.rows
        lost = None if rows is None else rows.get(name)
        return Nothing("J" if rows is not None and lost is None else "floats", digits, lost=lost)
    return Nothing("balance", digits, everywhere(point, name, seed))


def vanishes(point: Point, name: str, seed: Array, gradient: Array) -> bool | None:
    """Whether every entry is 0, or no more than rounding leaves of its terms; None where those are not known."""
    sizes = point.sizes(seed)[name]
    if sizes is None:
        return None
    return bool(np.all((as_float(gradient) == 0) | is_rounding(gradient, sizes)))


def stands_still(point: Point, name: str) -> bool | None:
    """Whether J is 0: rows weighed at random come to nothing; None where that cannot be told from rounding."""
    generator = np.random.default_rng(11)
    shape = np.shape(point.values[point.program.output])
    for _ in range(2):
        weights = generator.uniform(0.5, 1.5, size=shape) * generator.choice([-1.0, 1.0], size=shape)
        found = point.pulled(weights)[name]
        still = None if found is None else vanishes(point, name, weights, found)
        if found is not None and still is False and rounding_alone(point, name, weights, found):
            return None
        if not still:
            return still
    return True


def rounding_alone(point: Point, name: str, weights: Array, found: Array) -> bool:
    """Whether what came back moves the output by no more than its last digits: terms that cancel inside a factor.

    ``x / norm(x)`` of one entry is 1 or −1, and its slope ``1/r − x²/r³`` a few digits of rounding.
    """
    out, here = as_float(point.values[point.program.output]), as_float(point.values[name])
    moved = np.abs(found).max(initial=0.0) * np.abs(here).max(initial=0.0)
    return bool(moved == 0 or is_rounding(moved, np.sum(np.abs(weights * out))))


def everywhere(point: Point, name: str, seed: Array) -> bool | None:
    """Whether vᵀJ is 0 too where ``name`` has other entries; None where too few other points can be reached."""
    program, values, tried = point.program, point.values, 0
    for there in elsewhere(program, values, name, SPREADS):
        if np.array_equal(as_float(there[name]), as_float(values[name])):
            continue
        found = as_float(numeric_pullback(program, there, seed, [name])[name])
        if not np.isfinite(found).all():
            continue
        beside = Point(program, there, (name,))
        still = vanishes(beside, name, seed, found)
        if still is False and not rounding_alone(beside, name, seed, found):
            return False
        tried += bool(still)
    return True if tried >= ENOUGH else None
