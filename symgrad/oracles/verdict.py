"""One verdict on two answers: they are equal, or differ for the first of some reasons that holds, or are at odds.

Comes in: a `Comparison` of the derived vᵀJ with another one, with all that either was computed from, and reasons in
order. Each is asked only while the check fails; it leaves entries out, or says why the check cannot be made. Every
command asks here: the reasons of a page are in this file; what only a run or a test-suite knows is beside those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, Values, as_float, forward, is_finite
from symgrad.numeric.exact import largest_finite
from symgrad.oracles.report import TOLERANCE, Check, Standing, compare, compare_some, skipped
from symgrad.oracles.text import Text, ask_torch
from symgrad.oracles.torch_rules import contradicted, with_torchs_own
from symgrad.program import Program

Place = tuple[int, ...]
Sides = tuple[float, float]
STEPS = (1e-5, 1e-6)
APART, ROUNDING = 1e-3, 1e-4
"""How far apart the sides of a kink are, and what rounding may do to a quotient, relative to the larger side."""
MOST, AT_ALL = 64, 1024
"""Entries of which the sides are looked at: where one of them is no kink, and no other can help the check; and ever."""
MOST_RULES = 16
"""Entries at which torch's backward is held against its forward pass."""
BESIDE, CLOSE = 1e-7, 1e-5
"""How far beside the point, relative to an entry or to 1, and how well an answer has to be met."""
LARGEST, POINTS = 256, 24
"""Entries of the largest gradient that is looked at, and points beside it that are drawn at random."""


class Judged(Protocol):
    """What came of a comparison so far."""

    @property
    def passed(self) -> bool | None:
        """Whether the two agree; None where that cannot be told."""


Found = TypeVar("Found", bound=Judged)


def judge(found: Found, reasons: Iterable[Callable[[Found], Found]]) -> Found:
    """``found`` with the first reason that explains a difference; as it is where there is none, or no reason holds."""
    for reason in reasons:
        if found.passed is not False:
            break
        found = reason(found)
    return found


@dataclass(frozen=True, eq=False)
class Comparison:
    """vᵀJ by the input ``name`` as it was ``derived``, beside ``reference``, which ``oracle`` gave."""

    oracle: str
    program: Program
    values: Values
    seed: Array
    name: str
    reference: Array
    derived: Array
    standing: Standing | None = None
    text: Text | None = None
    tolerance: float = TOLERANCE
    answers: tuple[Array, Array] = field(init=False)
    """Both as floats, the reference first."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "answers", (as_float(self.reference), as_float(self.derived)))

    @cached_property
    def inputs(self) -> dict[str, Array]:
        """The numbers of the inputs."""
        return {t.name: self.values[t.name] for t in self.program.inputs}

    @cached_property
    def scale(self) -> float:
        """The largest number of the reference, 1 at least."""
        return max(1.0, largest_finite(self.answers[0]))

    @cached_property
    def differ(self) -> Sequence[Place]:
        """Where the two differ."""
        with np.errstate(invalid="ignore"):
            off = np.abs(self.answers[0] - self.answers[1]) > self.tolerance * self.scale
        return [tuple(int(i) for i in at) for at in np.argwhere(off)]

    def check(self, note: str = "") -> Check:
        """The two as they are."""
        return compare(self.oracle, self.reference, self.derived, self.tolerance, note, self.standing)

    def without(self, places: Iterable[Place], note: str) -> Check:
        """The two without some entries, at which any number between is as good."""
        void = np.zeros(self.answers[0].shape, dtype=bool) if self.standing is None else self.standing.void.copy()
        for at in places:
            void[at] = True
        known = self.answers[1] if self.standing is None else self.standing.mathematics
        return replace(self, standing=Standing(as_float(known), void)).check(note)

    def entry(self, at: Place) -> str:
        """What an entry is called."""
        return f"{self.name}[{','.join(map(str, at))}]" if at else self.name

    def total(self, at: Place) -> Callable[[float], float]:
        """Σ v·out for a shift of one entry."""

        def total(shift: float) -> float:
            out = forward(self.program, self._moved(at, shift))[self.program.output]
            return float(np.sum(as_float(self.seed) * as_float(out)))

        return total

    def torchs(self, at: Place) -> Callable[[float], float]:
        """The same by torch's forward pass; NaN where it refuses."""

        def total(shift: float) -> float:
            try:
                found = ask_torch(self.text, self.program, self._moved(at, shift), self.seed, [])
            except SymgradError:
                found = None
            if found is None or found.refusal or found.refused:
                return float("nan")
            return float(np.sum(as_float(self.seed) * as_float(found.output)))

        return total

    def _moved(self, at: Place, shift: float) -> dict[str, Array]:
        moved = as_float(self.values[self.name]).copy()
        moved[at] += shift
        return {**{name: as_float(array) for name, array in self.inputs.items()}, self.name: moved}


# Kinks ------------------------------------------------------------------------------------------------


def at_kinks(case: Comparison, check: Check) -> Check:
    """Without the entries that lie at a kink or a jump, where both answers lie between the slopes of its sides."""
    places: list[tuple[Place, Sides]] = []
    jump = False
    for count, at in enumerate(case.differ):
        if count >= MOST and (len(places) < count or count >= AT_ALL):
            break
        total, answers = case.total(at), [answer[at] for answer in case.answers]
        sides = two_slopes(total)
        if sides is None:
            continue
        if not all(legal(answer, sides) for answer in answers):
            sides, jump = beside_a_jump(total), jump or not places
            if not all(legal(answer, sides) for answer in answers):
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
    gaps, left, right, here = [], 0.0, 0.0, total(0.0)
    for step in STEPS:
        left, right = (here - total(-step)) / step, (total(step) - here) / step
        gaps.append(abs(right - left))
    large = max(1.0, abs(left), abs(right))
    stays = gaps[1] > APART * large and gaps[1] > gaps[0] / 2
    return (left, right) if stays and np.isfinite(gaps).all() else None


def beside_a_jump(total: Callable[[float], float]) -> Sides:
    """The slopes to the left and to the right of 0, the value there not among the points."""
    step = STEPS[-1]
    low, high = ([total(sign * shift) for shift in (step, 2 * step)] for sign in (-1, 1))
    return (low[0] - low[1]) / step, (high[1] - high[0]) / step


def legal(value: float, sides: Sides, rounding: float = ROUNDING) -> bool:
    """Whether a number lies between the sides, but for what ``rounding`` does to them, relative to each or to 1."""
    low, high = sorted(sides)
    return value in sides or bool(low - rounding * max(1.0, abs(low)) <= value <= high + rounding * max(1.0, abs(high)))


# Ties: a hair beside the point there is one answer ------------------------------------------------------


def at_ties(case: Comparison, check: Check) -> Check:
    """Without the entries that differ, where torch has several gradients beside the point and both lie between."""
    first, second = case.answers
    if first.shape != second.shape or not 0 < first.size <= LARGEST:
        return check
    if not all(is_finite(array).all() for array in (first, second, *case.inputs.values())):
        return check
    found = list(gradients_beside(case))
    if not found or max(float(np.ptp(entry)) for entry in np.transpose(found)) <= CLOSE * case.scale:
        return check
    if not all(between(found, answer.reshape(-1), CLOSE * case.scale) for answer in case.answers):
        return check
    at = case.differ[0]
    note = (
        f"{case.entry(at)} ties with others, and either may be taken: here {second[at]:.4g}, there {first[at]:.4g}, "
        "both between the gradients beside the point"
    )
    return case.without(case.differ, note)


def gradients_beside(case: Comparison) -> Iterator[Array]:
    """torch's gradients at points beside the given one: drawn at random, and towards and away from each answer."""
    generator, point = np.random.default_rng(13), as_float(case.inputs[case.name])
    ways = [generator.uniform(-1, 1, point.shape) for _ in range(POINTS)]
    for answer in case.answers:
        size = max(float(np.abs(answer).max()), 1e-300)
        for sign in (1.0, -1.0, 1.0, -1.0):
            ways.append(sign * answer / size + 0.1 * generator.uniform(-1, 1, point.shape))
    for way in ways:
        moved = point + BESIDE * np.maximum(1.0, np.abs(point)) * way
        try:
            found = ask_torch(case.text, case.program, {**case.inputs, case.name: moved}, case.seed, [case.name])
        except SymgradError:
            continue
        gradient = None if found is None else found.gradients.get(case.name)
        if gradient is not None and is_finite(gradient).all():
            yield as_float(gradient).reshape(-1)


def between(found: list[Array], answer: Array, allowed: float) -> bool:
    """Whether an answer is a mean of the found ones, each with a weight that is not negative."""
    from scipy.optimize import nnls  # loads much, and only a check that failed comes here

    weight = max(1.0, float(np.abs(found).max()))
    table = np.vstack([np.transpose(found), np.full((1, len(found)), weight)])
    wanted = np.append(answer, weight)
    shares, _ = nnls(table, wanted)
    return bool(np.abs(table @ shares - wanted).max() <= allowed)


# torch's own rules --------------------------------------------------------------------------------------


def own_rule(case: Comparison, check: Check) -> Check:
    """Not made where torch contradicts its own forward pass and agrees elsewhere, or has a rule of its own at an edge.

    The forward pass that is asked is torch's: nothing derived is taken for granted.
    """
    torchs, derived = case.answers
    able = np.ones(torchs.shape, dtype=bool)
    for at in case.differ[:MOST_RULES]:
        here = float(as_float(case.inputs[case.name])[at])
        able[at] = not contradicted(float(derived[at]), float(torchs[at]), here, case.torchs(at))
    rest = compare_some(case.oracle, case.reference, case.derived, able, "", standing=case.standing)
    if able.all() or rest.passed is False:
        return near_edges(case, check)
    at, more = case.differ[0], len(case.differ) - 1
    why = (
        f"torch's backward says {torchs[at]:.4g} for {case.entry(at)}{f' and {more} more' if more else ''}, where its "
        f"own forward pass has the slope {derived[at]:.4g} on both sides: that is torch's own rule, not a derivative"
    )
    return replace(skipped(case.oracle, why), own_rule=True)


def near_edges(case: Comparison, check: Check) -> Check:
    """Not made, with the reason, where torch's number follows from rules of its own at edges; else ``check``."""
    found = with_torchs_own(case.program, case.values, case.seed, case.name, case.derived)
    if found is None or compare(case.oracle, case.reference, found[0], standing=case.standing).passed is False:
        return check
    return replace(skipped(case.oracle, found[1]), own_rule=True)
