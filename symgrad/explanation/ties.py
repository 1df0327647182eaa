"""Find kinks and jumps at the numbers of a run: the slopes on both sides, and the number chosen there.

Comes in: a program with its numbers, and the cotangent of each step. Goes out: `Tie`s. The slopes are one-sided limits
of the derived formula, and are reported only if difference quotients beside the point give the same numbers. torch's
choice is taken from the installed torch, since it differs between versions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from symgrad.calculus import depending
from symgrad.entries.derived_facts import is_non_differentiable
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import nonzero_places
from symgrad.explanation.kinks import TRIED, Place, Tie, find_ties_that_count
from symgrad.explanation.singular import Passage
from symgrad.numeric import Array, Values, as_float, forward, is_finite, numeric_pullback, unit_at
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import Text
from symgrad.oracles.numerical import ONE_SIDED, one_sided_slopes, same_slope
from symgrad.oracles.typed_text import ask_torch
from symgrad.program import Apply, Program

BESIDE, ABOVE_ZERO = 4 * 2.0**-52, 1e-100
"""The relative distance to the neighbour of an entry, and the distance to the neighbour of 0."""
STEPS = (1e-5, 1e-6)
"""Steps of the difference quotients."""
WIDER = 16
"""The factor of the distance at which slopes are evaluated again."""
APART = 1e-6
"""The least difference of two slopes, relative to the larger."""
LARGEST, MOST_STEPS = 300_000, 400
"""The most entries of a tensor that is searched, and the most steps of a program whose parts are run again."""
UNSAID = (SymgradError, ValueError, ArithmeticError, RuntimeError, IndexError)
"""Errors that may occur when a step is run beside the point; then nothing is reported."""


def find_ties(
    program: Program, values: Values, passages: Sequence[Passage], back: Callable[[str, Array], Mapping[str, Array]]
) -> Iterator[Tie]:
    """Iterate over the kinks, one for each step and argument, from the output back.

    ``back`` returns the gradients of a change of a tensor's cotangent; a kink counts if one of them is not 0.
    """

    def counts(name: str, change: Array) -> bool:
        return any(np.any(as_float(part)) for part in back(name, change).values())

    first: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        first.setdefault((passage.step.result.name, str(passage.step.arguments[passage.place])), passage)
    for passage in first.values():
        with suppress(*UNSAID):
            yield from _of_step(program, values, passage, counts)


def find_switches(
    program: Program, values: Values, seed: Array, by: Sequence[str], met: Sequence[Passage], text: Text | None = None
) -> Iterator[Tie]:
    """Iterate over comparisons with equal sides and jumps multiplied by 0, where Σ v·out has another slope nearby.

    ``sign(x)·|x|`` is x, and its slope at 0 is 1, but the computed gradient is 0. ``met`` are the pullbacks of the run.
    """
    if len(program.steps) > MOST_STEPS:
        return
    arrived = {passage.step.result.name: as_float(passage.weights) for passage in met}
    ops = [(step, entry_of(step.op)) for step in program.steps if step.result.name in program.relevant]
    cutting = [step for step, op in ops if op is not None and is_non_differentiable(op)]
    jumping = [step for step, op in ops if op is not None and not (is_non_differentiable(op) or op.smooth)]
    reached = depending(program, by) & program.relevant if cutting or jumping else ()
    for step in (*cutting, *jumping):
        still: Array | bool = True
        names = [name for name in program.outside(step) if name in reached]
        if step in jumping:
            still = arrived.get(step.result.name, np.zeros(())) == 0
            if not np.any(still) or not _jumps(program, values, step, names):
                continue
            names += [name for name in by if name in program.reaching((step.result.name,))]
        for name in dict.fromkeys(names):
            with suppress(*UNSAID):
                if (found := _of_switch(program, values, seed, step, name, text, still)) is not None:
                    yield found
                    break


def _of_step(program: Program, values: Values, passage: Passage, counts: Callable[[str, Array], bool]) -> Iterator[Tie]:
    """Yield the first entry of one argument at which a step has a kink or a jump that affects a gradient."""
    step, name, weights = passage.step, str(passage.step.arguments[passage.place]), as_float(passage.weights)
    op, one_by_one = entry_of(step.op), np.shape(values[name]) == np.shape(values[step.result.name])
    if op is None or op.smooth or not _searched(values, name, step.result.name) or not weights.any():
        return
    local = Local(program.alone(step, values.sizes), {n: as_float(values[n]) for n in step.tensors}, name)
    places = local.corners(np.random.default_rng(3).uniform(0.5, 1.5, weights.shape) * (weights != 0))
    for at in find_ties_that_count(places, np.shape(values[name]), lambda change: counts(name, change)):
        found = local.tie(step, at, weights != 0)
        if found is not None and (found.jump or not local.has_one_slope(at, weights)):
            if op.index_call("") is not None:  # which of them tie, no hair shows
                met = (local.tie(step, place, weights != 0) for place in places[:TRIED])
                count = len({tie.to for tie in met if tie is not None})
            else:
                count = len(places) if (one_by_one or not found.jump) and found.count else 1
            together, alone = local.together(found) or (None, count > 1 and not one_by_one)
            yield replace(found, together=together, alone=alone, count=count)
            return


def _searched(values: Values, *names: str) -> bool:
    """Whether tensors are small enough to be searched, and finite."""
    return all(0 < np.size(values[n]) <= LARGEST and is_finite(values[n]).all() for n in names)


@dataclass(frozen=True, eq=False)
class Local:
    """A program as a function of the tensor ``name``: its value and its derived slope at other points.

    With a ``seed`` the value is Σ v·out; ``text`` is the user's text if the program is all of it.
    """

    program: Program
    inputs: dict[str, Array]
    name: str
    seed: Array | None = None
    text: Text | None = None

    def moved(self, by: Array) -> Values:
        """Return the forward pass with ``name`` moved."""
        return forward(self.program, {**self.inputs, self.name: self.inputs[self.name] + by})

    def out(self, by: Array) -> Array:
        """Return the value with ``name`` moved."""
        found = as_float(self.moved(by)[self.program.output])
        return found if self.seed is None else np.asarray(np.sum(self.seed * found))

    def slope(self, by: Array, weights: Array) -> Array:
        """Return the derived vᵀJ with ``name`` moved."""
        weights = weights if self.seed is None else self.seed * weights
        return as_float(numeric_pullback(self.program, self.moved(by), weights, [self.name])[self.name])

    @property
    def neighbour(self) -> Array:
        """The step to a neighbouring number of each entry."""
        own = np.abs(self.inputs[self.name])
        return np.where(own == 0, ABOVE_ZERO, BESIDE * own)

    def across(self, hair: Array) -> Array:
        """Return where the value jumps between the point and a neighbouring number."""
        low, here, high = (self.out(sign * hair) for sign in (-1.0, 0.0, 1.0))
        return differ(low, here) | differ(here, high)

    def corners(self, weights: Array, known: Array | bool = False) -> list[Place]:
        """Return the entries whose slope or value changes at a neighbouring point in a random direction.

        Entries ``known`` already move opposite to the others.
        """
        generator = np.random.default_rng(4)
        shape = self.inputs[self.name].shape
        way = generator.uniform(0.5, 1, shape) * generator.choice([-1.0, 1.0], shape) * self.neighbour
        way = np.where(known, -np.abs(way), np.abs(way)) if np.any(known) else way
        here, there, back = (self.slope(by, weights) for by in (0 * way, way, -way))
        places = differ(here, there) | differ(here, back) | differ(there, back)
        if (jumps := self.across(way)).any():
            places |= jumps if jumps.shape == shape else np.ones(shape, dtype=bool)
        return nonzero_places(places)

    def tie(self, step: Apply, at: Place, counted: Array | bool = True) -> Tie | None:
        """Return the tie at one entry if the derived slopes agree with difference quotients, else None."""
        unit = unit_at(at, self.inputs[self.name].shape)
        hair = unit * self.neighbour
        jumps = self.across(hair)
        left, right = (self.quotients(unit, sign) for sign in (-1.0, 1.0))
        gaps = np.where(counted, np.where(jumps, np.inf, np.abs(left - right)), -1.0)
        to = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps)), gaps.shape))
        one = unit_at(to, jumps.shape)
        jump, quotients = bool(jumps[to]), (float(left[to]), float(right[to]))
        sides, wider = self.sides(at, one, hair), self.sides(at, one, WIDER * hair)
        one_around = self.seed is not None and has_one_slope_beside(sides, quotients)
        sure = jump or one_around or is_two_sided(sides, quotients)
        if not sure:  # a hair is rounding: in the std of equal values
            far = STEPS[1] * unit * max(1.0, float(np.abs(self.inputs[self.name][at])))
            sides, wider = self.sides(at, one, far / WIDER**3), self.sides(at, one, far)
        clear = sure or abs(sides[0] - sides[2]) > 10 * ONE_SIDED * max(map(abs, sides))
        if not one_around and not (
            clear and is_two_sided(sides, quotients, jump) and (jump or is_gap_constant(sides, wider))
        ):
            return None
        chosen, version = self.by_torch(one, at)
        value, (below, taken, above) = float(self.inputs[self.name][at]), sides
        return Tie(step, self.name, at, value, to, below, taken, above, chosen, version, int(sure), jump)

    def sides(self, at: Place, weights: Array, by: Array) -> list[float]:
        """Return the slopes of one entry on the left, at the point, and on the right."""
        return [float(self.slope(way, weights)[at]) for way in (-by, 0 * by, by)]

    def together(self, tie: Tie) -> tuple[float, bool] | None:
        """Return the common slope when all tied entries move together, and whether that is not the only condition.

        None if the slopes on both sides differ. The sum is the only condition where the output follows one of the
        entries, as a maximum does when they move at different speeds.
        """
        one = unit_at(tie.to, self.out(0 * self.inputs[self.name]).shape)
        ways = {}
        for name in self.inputs:
            other = replace(self, name=name)
            way: Array = np.zeros(self.inputs[name].shape)
            while new := [at for at in other.corners(one, way != 0) if not way[at]]:  # of three, a hair shows two
                for at in new:
                    way[at] = 1.0
            ways[name] = way
        if sum(np.count_nonzero(way) for way in ways.values()) < 2:
            return None
        lots = np.random.default_rng(5)
        speeds = {name: way * lots.uniform(0.5, 1, way.shape) for name, way in ways.items()}

        def out(h: float, ways: Mapping[str, Array] = ways) -> float:
            moved = {name: self.inputs[name] + h * ways[name] for name in self.inputs}
            return float(as_float(forward(self.program, moved)[self.program.output])[tie.to])

        moved = [np.abs(self.inputs[name][way != 0]).max(initial=0.0) for name, way in ways.items()]
        step = STEPS[0] * max(1.0, *map(float, moved))
        left, right = one_sided_slopes(out, step, away=1)
        apart_by = (out(2 * step, speeds) - out(step, speeds)) / step
        follows = any(same_slope(apart_by, right * speed) for way in speeds.values() for speed in way[way != 0])
        return (round(right, 9), not follows) if same_slope(left, right) else None

    def has_one_slope(self, at: Place, weights: Array) -> bool:
        """Whether results with two slopes each have one slope when weighted and summed: two eigenvalues that cross."""
        unit = unit_at(at, self.inputs[self.name].shape)
        sides = [np.sum(weights * self.quotients(unit, sign)) / np.abs(weights).max() for sign in (-1.0, 1.0)]
        return bool(same_slope(*sides))

    def quotients(self, unit: Array, sign: float) -> Array:
        """Return slopes on one side by the forward pass alone, without evaluating at the point."""
        scale = sign * max(1.0, float(np.abs(unit * self.inputs[self.name]).max()))
        with np.errstate(invalid="ignore"):
            found = [(self.out(2 * h * unit) - self.out(h * unit)) / h for h in (scale * size for size in STEPS)]
        return found[1] + (found[1] - found[0]) / (STEPS[0] / STEPS[1] - 1)

    def by_torch(self, weights: Array, at: Place) -> tuple[float | None, str | None]:
        """Return torch's number for the entry, and its version."""
        weights = weights if self.seed is None else self.seed * weights
        answer = ask_torch(self.text, self.program, self.inputs, weights, [self.name])
        if answer is None or answer.refusal or answer.refused:
            return None, None
        gradient = answer.gradients[self.name]
        return 0.0 if gradient is None else float(gradient[at]), answer.version


# Comparisons ----------------------------------------------------------------------------------------


def _jumps(program: Program, values: Values, step: Apply, names: Sequence[str]) -> bool:
    """Whether a step's value jumps when one of its operands moves to a neighbouring number."""
    own = program.alone(step, values.sizes)
    read = [name for name in names if name in step.tensors and _searched(values, name)]
    parts = (Local(own, {t.name: as_float(values[t.name]) for t in own.inputs}, name) for name in read)
    with suppress(*UNSAID):
        return any(part.across(part.neighbour).any() for part in parts)
    return False


def _of_switch(
    program: Program, values: Values, seed: Array, step: Apply, name: str, text: Text | None, still: Array | bool
) -> Tie | None:
    """The first entry at which the value of a step turns over, where that is ``still``, and what Σ v·out does there."""
    if not _searched(values, name, step.result.name, program.output):
        return None
    whole = program.with_given((name,))
    own = program.alone(step, values.sizes) if name in step.tensors else replace(whole, output=step.result.name)
    compared = Local(own, {t.name: as_float(values[t.name]) for t in own.inputs}, name)
    shape, far = np.shape(values[name]), STEPS[1] * np.maximum(1.0, np.abs(compared.inputs[name]))
    turned = compared.across(compared.neighbour if name in step.tensors else far) & still
    if turned.shape != shape:  # broadcast: which entry turns which is found one by one
        places = list(np.ndindex(*shape))[:TRIED] if turned.any() else []
    else:
        places = nonzero_places(turned)
    there = {t.name: as_float(values[t.name]) for t in whole.inputs}
    scalar = Local(whole, there, name, as_float(seed), text if whole is program else None)
    met = (scalar.tie(step, at) for at in places[:TRIED])
    found = next((tie for tie in met if tie is not None and not (tie.jump and still is not True)), None)
    return None if found is None else replace(found, whole=True)


def differ(a: Array, b: Array) -> Array:
    """Return where two arrays differ by more than rounding."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(a - b) > APART * np.maximum(1e-6, np.maximum(np.abs(a), np.abs(b))))


def is_two_sided(sides: Sequence[float], quotients: tuple[float, float], jump: bool = False) -> bool:
    """Whether an entry has two slopes or a jump, and the difference quotients agree with both sides."""
    if not np.isfinite(sides).all() or not (jump or differ(np.array(sides[0]), np.array(sides[2])).any()):
        return False
    return bool(same_slope(np.array(sides[::2]), np.array(quotients)).all())


def has_one_slope_beside(sides: Sequence[float], quotients: tuple[float, float]) -> bool:
    """Whether both sides and the difference quotients have one slope, and the point has another."""
    same = same_slope(sides[0], np.array([sides[2], quotients[0]])).all() and same_slope(sides[2], quotients[1])
    return bool(same and not same_slope(sides[0], sides[1]))


def is_gap_constant(sides: Sequence[float], wider: Sequence[float]) -> bool:
    """Whether two slopes differ as much as further out; for a smooth bend the difference shrinks near the point."""
    return abs(sides[2] - sides[0]) > abs(wider[2] - wider[0]) / 2
