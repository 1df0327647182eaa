"""Gradients that are not finite, or 0: which entries are derivatives, and why a gradient is 0.

Comes in: a program with its numbers, a seed, a gradient, and the entries of J that SymPy differentiated, if known. Goes
out: a `Singular`, or a `Nothing`. For an entry that is not finite there are three cases: the derivative exists and the
steps compute it; it exists and the steps lose it to 0·∞; or it does not exist, and the number is an artefact of the
arithmetic. A gradient is 0 because J is 0, because the seed is 0, or because the weighted rows cancel. Rounding is
judged relative to the terms of a sum, not to the sum.
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
"""Step of difference quotients, tolerance of slopes, and the most entries to test."""


@dataclass(frozen=True, eq=False)
class Passage:
    """The cotangent of a step, and the result of its pullback for the argument at ``place``."""

    step: Apply
    place: int
    weights: Array
    result: Array

    @property
    def places(self) -> Array:
        """Where the result is not finite."""
        return ~np.isfinite(self.result)

    @property
    def of_nothing(self) -> bool:
        """Whether the cotangent is 0 at all of these places."""
        return self.weights.shape == self.result.shape and not self.weights[self.places].any()


def record_nonfinite_origins(found: list[Passage]) -> Callable[[Apply, int, Array, Array], None]:
    """Return a hook for the reverse sweep that records where a finite cotangent gives a result that is not finite."""

    def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
        if is_finite(weights).all() and not is_finite(part).all():
            found.append(Passage(step, place, as_float(weights), as_float(part)))

    return seen


@dataclass(frozen=True, eq=False)
class Singular:
    """One gradient as computed by the ``steps`` and by ``torch``, and its mathematical value (`Standing`).

    ``without_value`` are the outputs with a nonzero seed that are not finite, ``births`` the pullbacks where ±∞ or NaN
    first appears. With ``entries`` the mathematical value is from SymPy: infinite means larger than any float, and a
    pole is NaN.
    """

    standing: Standing
    steps: Array
    torch: Array | None
    without_value: tuple[Place, ...]
    births: tuple[Passage, ...] = field(default=())
    entries: bool = False

    @property
    def beyond(self) -> Array:
        """Entries whose derivative is larger than any float."""
        return np.asarray(~self.standing.void & np.isinf(self.standing.mathematics) & self.entries)

    def born(self, where: Array) -> tuple[Passage, ...]:
        """Return the origins that may have caused the entries ``where``; those of another shape always may."""
        return tuple(b for b in self.births if b.places.shape != where.shape or (b.places & where).any())

    @property
    def lost(self) -> Array:
        """Entries with a derivative for which the steps give no number."""
        return ~self.undefined & ~self.beyond & ~np.isfinite(self.steps)

    @property
    def lost_by_torch(self) -> Array:
        """Entries with a derivative that the steps compute and torch does not."""
        if self.torch is None:
            return np.zeros(self.steps.shape, dtype=bool)
        return np.asarray(~self.undefined & np.isfinite(self.steps) & ~np.isfinite(self.torch))

    @property
    def undefined(self) -> Array:
        """Entries without a derivative."""
        return np.asarray(self.standing.void | (~np.isfinite(self.standing.mathematics) & ~self.beyond))

    def like(self, other: Singular) -> bool:
        """Whether both have no derivative at the same entries, because of the same steps."""
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
    """Return the `Singular` of one gradient; None if everything is finite."""
    out = values[program.output]
    counted = np.asarray(as_float(seed) != 0)
    lacking = counted & ~is_finite(out)
    beyond = is_exact(np.asarray(gradient))  # exact numbers have no end; torch's floats may
    if is_finite(gradient).all() and not lacking.any() and (beyond or torch is None or is_finite(torch).all()):
        return None
    if entries is not None:
        mathematics, void = gradient_from_entries(entries, seed, lacking, np.shape(gradient))
    else:
        mathematics, void = gradient_from_formula(program, values, seed, lacking, name, sweep)
    weights = np.where(lacking, 0.0, as_float(seed))
    unsure = np.isfinite(mathematics) & ~void & ~np.isfinite(as_float(gradient))
    held = confirm_slopes(program, values, weights, name, mathematics, unsure)
    if torch is not None and (left := ~np.isfinite(mathematics) & ~void & np.isfinite(torch)).any():
        # 0**y at y = 2 is 0 near by
        known = left & confirm_slopes(program, values, weights, name, torch, left, alone=True)
        mathematics = np.where(known, torch, mathematics)
    mathematics = np.where(unsure & ~held, np.nan, mathematics)
    found: list[Passage] = []
    numeric_pullback(program, values, seed, [name], record_nonfinite_origins(found))
    places = tuple(nonzero_places(lacking))
    by_sympy = entries is not None
    return Singular(Standing(mathematics, void), as_float(gradient), torch, places, tuple(found), by_sympy)


def confirm_slopes(
    program: Program, values: Values, weights: Array, name: str, slopes: Array, unsure: Array, alone: bool = False
) -> Array:  # fmt: skip
    """Return where ``slopes`` equal the one-sided slopes of Σ v·out: ``sqrt(x ** 2)`` has two at 0, hidden by √.

    An output without a value has the seed 0. At most `TRIED` entries are tested. With ``alone`` nothing else supports
    the slopes: then they must also hold starting at the point, and untested entries count as False.
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


def gradient_from_entries(entries: Array, seed: Array, lacking: Array, shape: Place) -> tuple[Array, Array]:
    """Return vᵀJ from the entries of J, and where an output without a value makes it undefined."""
    weights, J = as_float(seed).reshape(-1), as_float(entries)
    with np.errstate(all="ignore"):
        total = np.sum(weights[weights != 0, None] * J[weights != 0], axis=0)
    return total.reshape(shape), np.isnan(J[lacking.reshape(-1)]).any(axis=0).reshape(shape)


def gradient_from_formula(
    program: Program, values: Values, seed: Array, lacking: Array, name: str, sweep: Sweep
) -> tuple[Array, Array]:
    """Return vᵀJ by the index formula of the whole program, and where it is undefined.

    In the formula a false condition removes NaN and ∞; an output without a value has the seed NaN.
    """
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
"""The number of other points at which a gradient must be 0 to be called 0 everywhere."""
SPREADS = (0.05, 8.0, 60.0, 1000.0)
"""Ranges of random entries: a function that is flat between two kinks may not be flat beyond them."""


@dataclass(frozen=True)
class Nothing:
    """A gradient that is 0: ``why`` is "J", "weights" (the seed is 0), "balance" (rows cancel) or "floats".

    "floats": J is 0 in floats, but not mathematically (``lost``), or that is unknown. ``rounding``: the numbers are a
    rounded 0. ``everywhere``: whether it was 0 at other points too; None if no other point could be tried.
    """

    why: str
    rounding: bool
    everywhere: bool | None = None
    lost: Lost | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """A program at some numbers. One reverse sweep serves all of ``names`` and is cached."""

    program: Program
    values: Values
    names: tuple[str, ...]
    _kept: dict[tuple[str, bytes], Mapping[str, Array | None]] = field(default_factory=dict)

    @cached_property
    def truth(self) -> PreciseGradients:
        """The gradients in high precision."""
        return PreciseGradients(self.program, self.values, self.names)

    def pulled(self, weights: Array) -> Mapping[str, Array | None]:
        """Return vᵀJ with respect to every name."""
        return self._once("pulled", weights, lambda: numeric_pullback(self.program, self.values, weights, self.names))

    def sizes(self, weights: Array) -> Mapping[str, Array | None]:
        """Return the sizes of the terms of vᵀJ; None where they are unknown."""
        return self._once(
            "sizes", weights, lambda: term_sizes(self.program, self.names, self.values, weights, within=True)
        )

    def _once(self, what: str, weights: Array, sweep: Callable[[], Mapping[str, Any]]) -> Mapping[str, Array | None]:
        key = what, as_float(weights).tobytes()
        if key not in self._kept:
            self._kept[key] = sweep()
        return self._kept[key]


def explain_zero(point: Point, name: str, seed: Array, gradient: Array) -> Nothing | None:
    """Return why ``gradient``, vᵀJ with respect to ``name``, is 0; None if it is not, or may be rounding."""
    digits = bool(np.any(as_float(gradient) != 0))
    if not np.any(as_float(seed)):
        return Nothing("weights", digits)
    if not vanishes(point, name, seed, gradient) or (still := is_jacobian_zero(point, name)) is None:
        return None
    if is_exact(gradient):
        return Nothing("J", digits) if still else Nothing("balance", digits, is_zero_everywhere(point, name, seed))
    if digits and point.truth.moves(name, seed):
        return None
    if still:
        rows = point.truth.rows
        lost = None if rows is None else rows.get(name)
        return Nothing("J" if rows is not None and lost is None else "floats", digits, lost=lost)
    return Nothing("balance", digits, is_zero_everywhere(point, name, seed))


def vanishes(point: Point, name: str, seed: Array, gradient: Array) -> bool | None:
    """Whether every entry is 0 or may be a rounded 0; None if the sizes of the terms are unknown."""
    sizes = point.sizes(seed)[name]
    if sizes is None:
        return None
    return bool(np.all((as_float(gradient) == 0) | is_rounding(gradient, sizes)))


def is_jacobian_zero(point: Point, name: str) -> bool | None:
    """Whether J is 0, tested by vᵀJ = 0 for random v; None if it may be rounding."""
    generator = np.random.default_rng(11)
    shape = np.shape(point.values[point.program.output])
    for _ in range(2):
        weights = generator.uniform(0.5, 1.5, size=shape) * generator.choice([-1.0, 1.0], size=shape)
        found = point.pulled(weights)[name]
        still = None if found is None else vanishes(point, name, weights, found)
        if found is not None and still is False and changes_only_last_digits(point, name, weights, found):
            return None
        if not still:
            return still
    return True


def changes_only_last_digits(point: Point, name: str, weights: Array, found: Array) -> bool:
    """Whether the gradient changes the output only in its last digits, because terms cancel inside a factor.

    ``x / norm(x)`` of one entry is 1 or −1, and its slope ``1/r − x²/r³`` is rounding.
    """
    out, here = as_float(point.values[point.program.output]), as_float(point.values[name])
    moved = np.abs(found).max(initial=0.0) * np.abs(here).max(initial=0.0)
    return bool(moved == 0 or is_rounding(moved, np.sum(np.abs(weights * out))))


def is_zero_everywhere(point: Point, name: str, seed: Array) -> bool | None:
    """Whether vᵀJ is 0 at other values of ``name``, too; None if too few other points can be evaluated."""
    program, values, tried = point.program, point.values, 0
    for there in elsewhere(program, values, name, SPREADS):
        if np.array_equal(as_float(there[name]), as_float(values[name])):
            continue
        found = as_float(numeric_pullback(program, there, seed, [name])[name])
        if not np.isfinite(found).all():
            continue
        beside = Point(program, there, (name,))
        still = vanishes(beside, name, seed, found)
        if still is False and not changes_only_last_digits(beside, name, seed, found):
            return False
        tried += bool(still)
    return True if tried >= ENOUGH else None
