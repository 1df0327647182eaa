"""vᵀJ through a captured program, call by call: where a derivative is none, torch's own numbers for that call.

The sweep of `symgrad.numeric.sweeps`, over programs that have several outputs and steps nobody derived.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.calculus import carry_back
from symgrad.numeric.exact import Array, as_float, plus
from symgrad.numeric.forward import Values
from symgrad.numeric.sweeps import Event, Pull, pull_step
from symgrad.oracles.torch_rules import on_an_edge
from symgrad.program import Apply, Program
from symgrad.tracing.lift.labels import Origin
from symgrad.tracing.lift.singular import alike, calls_in, irregular, settled

Settle = Callable[[Origin, Mapping[str, Array], Array, Mapping[str, Array]], tuple[dict[str, Array], str]]
"""What arrives at a call's arguments, made another, and why; `settled` is one."""


@dataclass(eq=False)
class PullCalls(Pull):
    """A sweep back from ``ends`` to ``wanted``; ``noted`` says of steps why torch's numbers were taken for them.

    ``origins`` are the calls behind the steps: where one meets what is not finite, torch's own numbers for that call
    are taken where they differ, and the step's name goes to ``noted`` with the reason; ``settle`` is asked about every
    call, in place of that. ``seen(step, position, cotangent in, cotangent out)`` may watch what comes of it, the
    ``hook`` makes another of each step's part before, ``drawn`` of the weights that arrive at it.
    """

    ends: Sequence[str] = ()
    origins: Mapping[str, Origin] | None = None
    noted: dict[str, str] | None = None
    seen: Any = None
    settle: Settle | None = None
    drawn: Callable[[Array], Array] | None = None

    @cached_property
    def calls(self) -> Mapping[str, tuple[Apply, ...]]:
        """The steps of each call, by the name of its result."""
        return calls_in(self.program, self.origins or {}, (*self.wanted, *self.ends))

    @cached_property
    def steps(self) -> tuple[Apply, ...]:
        """The last step of each call that leads back."""
        inner = {step.result.name for steps in self.calls.values() for step in steps[:-1]}
        outer = (step for step in self.program.steps if step.result.name not in inner)
        return tuple(last for last in outer if any(s.result.name in self.places for s in self.steps_of(last)))

    def steps_of(self, last: Apply) -> tuple[Apply, ...]:
        """Those of its call."""
        return self.calls.get(last.result.name, (last,))

    def call(self, last: Apply, cotangent: Array) -> Iterable[tuple[str, Array]]:
        """What one call sends back to each of its arguments; torch's numbers where a derivative is none."""
        name, steps, told = last.result.name, self.steps_of(last), list[Event]()

        def pulled(step: Apply, weights: Array) -> Iterator[tuple[str, Array]]:
            for event in self.through(step, weights):
                told.append(event)
                yield str(step.arguments[event[1]]), event[3]

        arrived = carry_back(steps, {name: cotangent}, pulled, plus, ())
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
        return arrived.items()

    def pulled(self, step: Apply, cotangent: Array, places: Sequence[int]) -> Mapping[int, Array]:
        """By the derived equations; of nothing, nothing is asked."""
        if np.size(cotangent) == 0:
            return {n: np.zeros(np.shape(self.values[str(step.arguments[n])])) for n in places}
        drawn = cotangent if self.drawn is None else self.drawn(cotangent)
        return pull_step(step, self.program, self.values, drawn, places)


def pull(
    program: Program,
    values: Values,
    boxes: Mapping[str, Any],
    seeds: Mapping[str, Array],
    wanted: Sequence[str],
    taken: Callable[[str, Array], None] | None = None,
    **told: Any,
) -> dict[str, Array]:
    """vᵀJ for each of ``wanted``, as `Pull.back` has it; ``told`` is what else `PullCalls` may be told."""
    return PullCalls(program, values, wanted, boxes, ends=tuple(seeds), **told).back(seeds, taken=taken)


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
