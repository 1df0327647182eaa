"""A gradient at a point where something is not finite: which of its entries are derivatives, and what the others are.

Comes in: a program with its numbers, a seed, a gradient, and the entries of J that SymPy found on its own, where it was
asked. Goes out: a `Singular`. Three things can be true of an entry: its derivative exists and the steps have it; it
exists and the steps lose it to 0·∞; or there is none, and every number there is what some arithmetic makes of it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from symgrad.calculus import Sweep
from symgrad.errors import SymgradError
from symgrad.numeric import (
    Array,
    Values,
    as_float,
    evaluate,
    finite,
    forward,
    is_exact,
    numeric_pullback,
)
from symgrad.oracles.report import Standing
from symgrad.program import Apply, Program

Place = tuple[int, ...]
STEP, CLOSE, TRIED = 1e-6, 1e-3, 200
"""How far beside an entry the output is looked at, how well a slope has to fit there, and at how many entries."""


@dataclass(frozen=True, eq=False)
class Birth:
    """A step whose pullback by its argument at ``place`` made something that is not finite of finite weights."""

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


def births(found: list[Birth]) -> Callable[[Apply, int, Array, Array], None]:
    """A watcher for the sweep that notes where what is not finite is born."""

    def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
        if finite(weights).all() and not finite(part).all():
            found.append(Birth(step, place, as_float(weights), as_float(part)))

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
    births: tuple[Birth, ...] = field(default=())
    entries: bool = False

    @property
    def beyond(self) -> Array:
        """Where the derivative is larger than any float."""
        return np.asarray(~self.standing.void & np.isinf(self.standing.mathematics) & self.entries)

    def born(self, where: Array) -> tuple[Birth, ...]:
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


def singular(
    program: Program, values: Values, seed: Array, gradient: Array, name: str, sweep: Sweep, torch: Array | None,
    entries: Array | None = None,
) -> Singular | None:  # fmt: skip
    """What is to be said of one gradient; None where everything is finite."""
    out = values[program.output]
    counted = np.asarray(as_float(seed) != 0)
    lacking = counted & ~finite(out)
    beyond = is_exact(np.asarray(gradient))  # exact numbers have no end; torch's floats may
    if finite(gradient).all() and not lacking.any() and (beyond or torch is None or finite(torch).all()):
        return None
    if entries is not None:
        mathematics, void = by_entries(entries, seed, lacking, np.shape(gradient))
    else:
        mathematics, void = by_formula(program, values, seed, lacking, name, sweep, gradient)
    weights = np.where(lacking, 0.0, as_float(seed))
    unsure = np.isfinite(mathematics) & ~void & ~np.isfinite(as_float(gradient))
    held = confirmed(program, values, weights, name, mathematics, unsure)
    if torch is not None and (left := ~np.isfinite(mathematics) & ~void & np.isfinite(torch)).any():
        known = left & confirmed(program, values, weights, name, torch, left, alone=True)  # 0**y at y = 2 is 0 near by
        mathematics = np.where(known, torch, mathematics)
    mathematics = np.where(unsure & ~held, np.nan, mathematics)
    found: list[Birth] = []
    numeric_pullback(program, values, seed, [name], births(found))
    places = tuple(tuple(int(i) for i in at) for at in np.argwhere(lacking))
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
    held: Array = np.full(slopes.shape, not alone)
    here = as_float(values[name])
    inputs = {t.name: values[t.name] for t in program.inputs}

    def total(at: Place, by: float) -> float:
        moved = here.copy()
        moved[at] += by
        out = as_float(forward(program, {**inputs, name: moved})[program.output])
        return float(np.sum(weights[weights != 0] * out[weights != 0]))

    for at in [tuple(int(i) for i in row) for row in np.argwhere(unsure)[:TRIED]]:
        size = max(1.0, abs(float(here[at])))
        try:
            steps = [sign * STEP * size for sign in (-1, 1)]
            sides = [(total(at, 2 * h) - total(at, h)) / h for h in steps]
            sides += [(total(at, h) - total(at, 0.0)) / h for h in steps if alone]
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
    program: Program, values: Values, seed: Array, lacking: Array, name: str, sweep: Sweep, gradient: Array
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
