"""vᵀJ and Ju through a captured program: derived steps by their equations, black boxes by torch.

The same sweep as `symgrad.numeric.sweeps`, over programs that have several outputs and steps nobody derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from symgrad.calculus import carry_back, carry_on, flowing, positions
from symgrad.numeric.exact import Array, as_float, plus
from symgrad.numeric.forward import Values
from symgrad.numeric.sweeps import pull_step, push_step
from symgrad.oracles.own_rule import on_an_edge
from symgrad.program import Apply, Program
from symgrad.tracing.lift.labels import Origin
from symgrad.tracing.lift.singular import alike, calls_in, irregular, settled

Settle = Callable[[Origin, Mapping[str, Array], Array, Mapping[str, Array]], tuple[dict[str, Array], str]]
"""What arrives at a call's arguments, made another, and why; `settled` is one."""
Event = tuple[Apply, int, Array, Array]
"""A step, a place among its arguments, the cotangent that came in, and what went out."""


@dataclass
class Pull:
    """A sweep back from ``ends`` to ``wanted``; ``noted`` says of steps why torch's numbers were taken for them.

    ``origins`` are the calls behind the steps: where one meets what is not finite, torch's own numbers for that call
    are taken where they differ, and the step's name goes to ``noted`` with the reason; ``settle`` is asked about every
    call, in place of that. ``seen(step, position, cotangent in, cotangent out)`` may watch, ``shaken`` makes another of
    each step's part, ``drawn`` of the weights that arrive at it.
    """

    program: Program
    values: Values
    boxes: Mapping[str, Any]
    ends: Sequence[str]
    wanted: Sequence[str]
    origins: Mapping[str, Origin] | None = None
    noted: dict[str, str] | None = None
    seen: Any = None
    shaken: Callable[[Apply, int, Array, Array], Array] | None = None
    settle: Settle | None = None
    drawn: Callable[[Array], Array] | None = None

    def __post_init__(self) -> None:
        self.reached = flowing(self.program, self.wanted)
        self.calls = calls_in(self.program, self.origins or {}, (*self.wanted, *self.ends))

    @cached_property
    def last(self) -> tuple[Apply, ...]:
        """The last step of each call that leads back."""
        inner = {step.result.name for steps in self.calls.values() for step in steps[:-1]}
        outer = (step for step in self.program.steps if step.result.name not in inner)
        return tuple(last for last in outer if any(positions(s, self.reached) for s in self.steps(last)))

    def steps(self, last: Apply) -> tuple[Apply, ...]:
        """The steps of a call."""
        return self.calls.get(last.result.name, (last,))

    def back(self, seeds: Mapping[str, Array]) -> dict[str, Array]:
        """vᵀJ for each of ``wanted``; a cotangent that nobody asks for is let go when it has been pulled through."""
        arrived = {name: np.asarray(seed) for name, seed in seeds.items()}
        carried = carry_back(self.last, arrived, lambda step, c: self.call(step, c).items(), plus, self.wanted)
        zero = partial(np.zeros, dtype=np.int64)
        return {n: carried[n] if n in carried else zero(np.shape(self.values[n])) for n in self.wanted}

    def call(self, last: Apply, cotangent: Array) -> Mapping[str, Array]:
        """What one call sends back to each of its arguments; torch's numbers where a derivative is none."""
        name, steps = last.result.name, self.steps(last)
        arrived, told = self.through(steps, cotangent)
        if self.origins and name in self.calls:
            read = (self.values[n] for s in steps for n in (*s.tensors, s.result.name) if n in self.values.arrays)
            odd = (
                self.settle
                or irregular(cotangent, arrived, read)
                or any(on_an_edge(step, self.values.arrays) for step in steps)
            )
            if np.size(cotangent) and odd:
                plain, settle = arrived, self.settle or settled
                arrived, reason = settle(self.origins[name], plain, cotangent, self.values.arrays)
                told = [(s, n, v, arrived.get(str(s.arguments[n]), part) if reason else part) for s, n, v, part in told]
                if reason and self.noted is not None:
                    self.noted.setdefault(name, reason)
        if self.seen is not None:
            for event in told:
                self.seen(*event)
        return arrived

    def through(self, steps: Sequence[Apply], cotangent: Array) -> tuple[dict[str, Array], list[Event]]:
        """What one call sends back to each of its arguments, step by step, and each step's part in it."""
        told: list[Event] = []

        def pulled(step: Apply, weights: Array) -> Iterator[tuple[str, Array]]:
            name, places = step.result.name, positions(step, self.reached)
            if not places:
                return
            if np.size(weights) == 0:
                parts = {n: np.zeros(np.shape(self.values[str(step.arguments[n])])) for n in places}
            elif name in self.boxes:
                parts = self.boxes[name].pull(weights, places)
            else:
                drawn = weights if self.drawn is None else self.drawn(weights)
                parts = pull_step(step, self.program, self.values, drawn, places)
            for place, plain in parts.items():
                shaken = None if name in self.boxes else self.shaken
                part = plain if shaken is None else shaken(step, place, weights, plain)
                told.append((step, place, weights, part))
                yield str(step.arguments[place]), part

        return carry_back(steps, {steps[-1].result.name: cotangent}, pulled, plus, ()), told


def pull(
    program: Program,
    values: Values,
    boxes: Mapping[str, Any],
    seeds: Mapping[str, Array],
    wanted: Sequence[str],
    **told: Any,
) -> dict[str, Array]:
    """vᵀJ for each of ``wanted``; ``told`` is what else `Pull` may be told."""
    return Pull(program, values, boxes, tuple(seeds), wanted, **told).back(seeds)


def open_entries(
    program: Program,
    values: Values,
    boxes: Mapping[str, Any],
    seeds: Mapping[str, Array],
    derived: Mapping[str, Array],
    noted: bool,
) -> dict[str, Array]:
    """Where there is no number to agree on: the equations by themselves have none, or not the one that was taken."""
    plain = pull(program, values, boxes, seeds, tuple(derived)) if noted else derived
    pairs = {name: (as_float(plain[name]), as_float(derived[name])) for name in derived}
    return {name: ~np.isfinite(a) | ~alike(a, b) for name, (a, b) in pairs.items()}


def pull_by_lot(
    program: Program,
    values: Values,
    boxes: Mapping[str, Any],
    seeds: Mapping[str, Array],
    wanted: Sequence[str],
    origins: Mapping[str, Origin],
    lot: int = 0,
) -> dict[str, Array]:
    """As `pull`, each step given weights with signs by lot; with an odd ``lot`` shortened by lot, too.

    A difference that cancels does not then; where the steps themselves shrink what they are given, it stays small.
    Signs alone would not do: of two weights they are the same every other time, and cancel as before.
    """
    lots = np.random.default_rng(lot)

    def turned(weights: Array) -> Array:
        signs = lots.choice((-1.0, 1.0), np.shape(weights))
        other: Array = np.abs(as_float(weights)) * signs
        return other * lots.uniform(size=np.shape(weights)) if lot % 2 else other

    return pull(program, values, boxes, seeds, wanted, origins=origins, drawn=turned)


def push(
    program: Program, values: Values, boxes: Mapping[str, Any], tangents: Mapping[str, Array], ends: Sequence[str]
) -> list[Array]:
    """Ju for each of ``ends``."""

    def pushed(step: Apply, changes: Mapping[int, Array]) -> Array:
        box = boxes.get(step.result.name)
        return push_step(step, program, values, changes) if box is None else box.push(changes)

    carried = carry_on(program.steps, tangents, pushed)
    return [carried.get(name, np.zeros(np.shape(values[name]), dtype=np.int64)) for name in ends]
