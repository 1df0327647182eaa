"""Kinks and jumps that a run stands on: the slopes on both sides, and the number that is chosen there.

Comes in: a program with its numbers, and what came back to each step. Goes out: `Tie`s. The sides are the derived
formula's one-sided limits; one is said only after difference quotients, taken off the point, gave the same numbers.
torch's own choice is asked of the torch that is installed, since it differs between versions.
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
from symgrad.explanation.kinks import TRIED, Place, Tie, counting
from symgrad.explanation.singular import Passage
from symgrad.numeric import Array, Values, as_float, forward, is_finite, numeric_pullback, unit_at
from symgrad.ops import entry_of
from symgrad.oracles.comparisons import Text
from symgrad.oracles.numerical import ONE_SIDED, one_sided_slopes, same_slope
from symgrad.oracles.typed_text import ask_torch
from symgrad.program import Apply, Program

BESIDE, ABOVE_ZERO = 4 * 2.0**-52, 1e-100
"""How far a neighbour of an entry is, relative to it; and that of 0: nothing else lies between."""
STEPS = (1e-5, 1e-6)
"""Steps of the difference quotients."""
WIDER = 16
"""How many times further out the slopes are looked at again."""
APART = 1e-6
"""How far apart two slopes are, relative to the larger."""
LARGEST, MOST_STEPS = 300_000, 400
"""Entries of the largest tensor that is searched, steps of the longest program of which a part is run again."""
UNSAID = (SymgradError, ValueError, ArithmeticError, RuntimeError, IndexError)
"""What may go wrong where a step is run beside the point: then nothing is said of it."""


def ties(
    program: Program, values: Values, passages: Sequence[Passage], back: Callable[[str, Array], Mapping[str, Array]]
) -> Iterator[Tie]:
    """The kinks on the way, one for each step and argument, from the output back.

    ``back`` gives the gradients of a change of what comes back to a tensor: where all are 0 it does not count.
    """

    def counts(name: str, change: Array) -> bool:
        return any(np.any(as_float(part)) for part in back(name, change).values())

    first: dict[tuple[str, str], Passage] = {}
    for passage in passages:
        first.setdefault((passage.step.result.name, str(passage.step.arguments[passage.place])), passage)
    for passage in first.values():
        with suppress(*UNSAID):
            yield from _of_step(program, values, passage, counts)


def switches(
    program: Program, values: Values, seed: Array, by: Sequence[str], met: Sequence[Passage], text: Text | None = None
) -> Iterator[Tie]:
    """Where Σ v·out has another slope beside the point: comparisons with both sides equal, jumps that 0 multiplies.

    ``sign(x)·|x|`` is x, and its slope at 0 is 1; what comes back there is 0. Jumps are told by what ``met`` them.
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
    """An entry of one argument at which a step has two slopes or a jump, and which counts; the first of them."""
    step, name, weights = passage.step, str(passage.step.arguments[passage.place]), as_float(passage.weights)
    op, one_by_one = entry_of(step.op), np.shape(values[name]) == np.shape(values[step.result.name])
    if op is None or op.smooth or not _searched(values, name, step.result.name) or not weights.any():
        return
    local = Local(program.alone(step, values.sizes), {n: as_float(values[n]) for n in step.tensors}, name)
    places = local.corners(np.random.default_rng(3).uniform(0.5, 1.5, weights.shape) * (weights != 0))
    for at in counting(places, np.shape(values[name]), lambda change: counts(name, change)):
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
    """Whether tensors are few numbers, and all finite."""
    return all(0 < np.size(values[n]) <= LARGEST and is_finite(values[n]).all() for n in names)


@dataclass(frozen=True, eq=False)
class Local:
    """A program as a function of ``name``: its value and its derived slope wherever that tensor is moved to.

    With a ``seed`` the value is Σ v·out; a ``text`` is the user's, where it is the whole of it.
    """

    program: Program
    inputs: dict[str, Array]
    name: str
    seed: Array | None = None
    text: Text | None = None

    def moved(self, by: Array) -> Values:
        """The forward pass with ``name`` moved."""
        return forward(self.program, {**self.inputs, self.name: self.inputs[self.name] + by})

    def out(self, by: Array) -> Array:
        """The value there."""
        found = as_float(self.moved(by)[self.program.output])
        return found if self.seed is None else np.asarray(np.sum(self.seed * found))

    def slope(self, by: Array, weights: Array) -> Array:
        """vᵀJ by ``name`` there, as derived."""
        weights = weights if self.seed is None else self.seed * weights
        return as_float(numeric_pullback(self.program, self.moved(by), weights, [self.name])[self.name])

    @property
    def neighbour(self) -> Array:
        """The step to the next number of each entry."""
        own = np.abs(self.inputs[self.name])
        return np.where(own == 0, ABOVE_ZERO, BESIDE * own)

    def across(self, hair: Array) -> Array:
        """Where the value is not the same a hair to both sides of the point."""
        low, here, high = (self.out(sign * hair) for sign in (-1.0, 0.0, 1.0))
        return apart(low, here) | apart(here, high)

    def corners(self, weights: Array, known: Array | bool = False) -> list[Place]:
        """Entries at which the slope or the value is another a hair beside the point, in some direction.

        Those that are ``known`` move one way, against the others.
        """
        generator = np.random.default_rng(4)
        shape = self.inputs[self.name].shape
        way = generator.uniform(0.5, 1, shape) * generator.choice([-1.0, 1.0], shape) * self.neighbour
        way = np.where(known, -np.abs(way), np.abs(way)) if np.any(known) else way
        here, there, back = (self.slope(by, weights) for by in (0 * way, way, -way))
        differ = apart(here, there) | apart(here, back) | apart(there, back)
        if (jumps := self.across(way)).any():
            differ |= jumps if jumps.shape == shape else np.ones(shape, dtype=bool)
        return nonzero_places(differ)

    def tie(self, step: Apply, at: Place, counted: Array | bool = True) -> Tie | None:
        """What stands at one entry, if the derived sides are those of the difference quotients, where it is counted."""
        unit = unit_at(at, self.inputs[self.name].shape)
        hair = unit * self.neighbour
        jumps = self.across(hair)
        left, right = (self.quotients(unit, sign) for sign in (-1.0, 1.0))
        gaps = np.where(counted, np.where(jumps, np.inf, np.abs(left - right)), -1.0)
        to = tuple(int(i) for i in np.unravel_index(int(np.argmax(gaps)), gaps.shape))
        one = unit_at(to, jumps.shape)
        jump, quotients = bool(jumps[to]), (float(left[to]), float(right[to]))
        sides, wider = self.sides(at, one, hair), self.sides(at, one, WIDER * hair)
        one_around = self.seed is not None and all_around(sides, quotients)
        if not (sure := jump or one_around or two(sides, quotients)):  # a hair is rounding: in the std of equal values
            far = STEPS[1] * unit * max(1.0, float(np.abs(self.inputs[self.name][at])))
            sides, wider = self.sides(at, one, far / WIDER**3), self.sides(at, one, far)
        clear = sure or abs(sides[0] - sides[2]) > 10 * ONE_SIDED * max(map(abs, sides))
        if not one_around and not (clear and two(sides, quotients, jump) and (jump or steady(sides, wider))):
            return None
        chosen, version = self.by_torch(one, at)
        value, (below, taken, above) = float(self.inputs[self.name][at]), sides
        return Tie(step, self.name, at, value, to, below, taken, above, chosen, version, int(sure), jump)

    def sides(self, at: Place, weights: Array, by: Array) -> list[float]:
        """The slopes at one entry on its left, at the point, and on its right."""
        return [float(self.slope(way, weights)[at]) for way in (-by, 0 * by, by)]

    def together(self, tie: Tie) -> tuple[float, bool] | None:
        """The slope along all entries that tie there, where it is one on both sides, and whether more is asked of them.

        Only what follows one of several that move at different speeds asks no more.
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
        """Whether results with two slopes each have one together, as they are weighed: two eigenvalues that cross."""
        unit = unit_at(at, self.inputs[self.name].shape)
        sides = [np.sum(weights * self.quotients(unit, sign)) / np.abs(weights).max() for sign in (-1.0, 1.0)]
        return bool(same_slope(*sides))

    def quotients(self, unit: Array, sign: float) -> Array:
        """Slopes on one side by the forward pass alone, the point itself left out."""
        scale = sign * max(1.0, float(np.abs(unit * self.inputs[self.name]).max()))
        with np.errstate(invalid="ignore"):
            found = [(self.out(2 * h * unit) - self.out(h * unit)) / h for h in (scale * size for size in STEPS)]
        return found[1] + (found[1] - found[0]) / (STEPS[0] / STEPS[1] - 1)

    def by_torch(self, weights: Array, at: Place) -> tuple[float | None, str | None]:
        """What torch takes at the entry, and its version."""
        weights = weights if self.seed is None else self.seed * weights
        answer = ask_torch(self.text, self.program, self.inputs, weights, [self.name])
        if answer is None or answer.refusal or answer.refused:
            return None, None
        gradient = answer.gradients[self.name]
        return 0.0 if gradient is None else float(gradient[at]), answer.version


# Comparisons ----------------------------------------------------------------------------------------


def _jumps(program: Program, values: Values, step: Apply, names: Sequence[str]) -> bool:
    """Whether the value of a step is another one right beside one of what it reads; not of what is only a position."""
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


def apart(a: Array, b: Array) -> Array:
    """Where two arrays are not the same but for rounding."""
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(a - b) > APART * np.maximum(1e-6, np.maximum(np.abs(a), np.abs(b))))


def two(sides: Sequence[float], quotients: tuple[float, float], jump: bool = False) -> bool:
    """Whether an entry has two slopes, or a jump, and the difference quotients give both sides."""
    if not np.isfinite(sides).all() or not (jump or apart(np.array(sides[0]), np.array(sides[2])).any()):
        return False
    return bool(same_slope(np.array(sides[::2]), np.array(quotients)).all())


def all_around(sides: Sequence[float], quotients: tuple[float, float]) -> bool:
    """Whether there is one slope on both sides, which the difference quotients give, and the point has another."""
    same = same_slope(sides[0], np.array([sides[2], quotients[0]])).all() and same_slope(sides[2], quotients[1])
    return bool(same and not same_slope(sides[0], sides[1]))


def steady(sides: Sequence[float], wider: Sequence[float]) -> bool:
    """Whether two slopes are as far apart as further out: where the function only bends they come closer and closer."""
    return abs(sides[2] - sides[0]) > abs(wider[2] - wider[0]) / 2
