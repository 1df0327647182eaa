"""vᵀJ through a captured program, call by call, with torch's numbers where there is no derivative.

The sweep of `symgrad.numeric.vector_products`, for programs with several outputs and opaque steps. Comes in: the
derived cotangents of a call's arguments, and the call. Goes out: the same with torch's numbers at ±∞ and NaN, and where
the equation has no finite value. Such an entry has no derivative, and every library makes a choice; an explanation of
torch must use torch's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from symgrad.calculus import carry_back
from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, all_tame, as_float, is_finite, plus
from symgrad.numeric.vector_products import Event, Pull, pull_step
from symgrad.oracles.torch_rules import on_an_edge
from symgrad.program import Apply, Program
from symgrad.render.numbers import format_digits
from symgrad.tracing.lift.values import TOLERANCE, largest_entry
from symgrad.tracing.record.trace import real_precision

if TYPE_CHECKING:
    from symgrad.tracing.lift.boxes import CallOrigin  # it loads torch, which a sweep that asks no box need not


NEAR_AN_EDGE = "torch uses a rule of its own this close to an edge: at"
"""Prefix of a reason at finite numbers."""
OVERFLOWS = "torch's own backward overflows"
"""Prefix of a reason where there is a derivative."""
IN_DOUBLES = ", as torch finds in float64"
"""Suffix of a reason where torch's backward computes it in double precision."""
TO_DOUBLES = "the tensors are doubles from the start"
NEAR = 1e-3
"""The relative difference up to which a derived number and torch's count as equal, also in float16."""

LEAST = {"float64": 1e-322, "float32": 2e-44, "float16": 1e-6, "bfloat16": 1.5e-39}
"""About sixteen times the smallest number of each dtype."""

CANCELS = {"float64": 1e-13, "float32": 1e-5, "float16": 1e-2, "bfloat16": 5e-2}
"""The rounding error of a sum that is 0, relative to the largest term, by dtype."""


def group_steps_by_call(
    program: Program, origins: Mapping[str, CallOrigin], wanted: Sequence[str]
) -> dict[str, tuple[Apply, ...]]:
    """Return the steps of each call, by the name of its result, if nothing else reads their intermediate values."""
    made = program.makers
    readers: dict[str, set[str]] = {}
    for step in program.steps:
        for name in step.tensors:
            readers.setdefault(name, set()).add(step.result.name)
    found = {}
    for end, origin in origins.items():
        inner = {*origin.steps} - {end}
        own = inner | {end}
        alone = all(readers.get(name, set()) <= own for name in inner) and not inner & {*wanted, program.output}
        if alone and end in made and all(name in made for name in origin.steps):
            found[end] = tuple(made[name] for name in origin.steps)
    return found


def settle_singular(
    origin: CallOrigin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """Return ``arrived`` with torch's numbers where there is no derivative, and the reason (empty if unchanged).

    ``arrived`` are the cotangents of the call's arguments, by name.
    """
    found, reason = dict(arrived), ""
    for name, ours, choice, differ in compare_with_torch(origin, arrived, cotangent):
        beyond = differ & np.isfinite(ours) & np.isinf(choice) & is_finite_call(origin, cotangent, arrays)
        if beyond.any():  # the derivative is a number, which torch's own way to it does not reach
            reason = reason or overflow_of(
                origin, name, tuple(map(int, np.argwhere(beyond)[0])), cotangent, ours, choice
            )
            differ &= ~beyond
        if differ.any():
            found[name] = np.where(differ, choice, ours)
            told = np.argwhere(differ & ~is_cancelled_rounding(ours, choice, cotangent, computing_dtypes(origin)))
            if len(told):
                at = tuple(map(int, told[0]))
                reason = reason or explain_choice(
                    origin, name, at, arrays, cotangent, (float(ours[at]), float(choice[at]))
                )
    return found, reason


def compare_with_torch(
    origin: CallOrigin, arrived: Mapping[str, Array], cotangent: Array
) -> Iterator[tuple[str, Array, Array, Array]]:
    """Iterate over a call's arguments with derived numbers, torch's, and where they differ by more than rounding.

    Empty if torch refuses the call's pullback, or its operands were overwritten.
    """
    places = {name: origin.box.names.index(name) for name in arrived if name in origin.box.names}
    try:
        chosen = origin.box.pull(cotangent, list(places.values()))
    except SymgradError:
        return
    for name, place in places.items():
        ours, theirs = as_float(arrived[name]), as_float(chosen[place])
        if ours.shape == theirs.shape:
            apart = ~agree_up_to_rounding(ours, theirs)
            yield name, ours, theirs, apart & ~differs_by_rounding(ours, theirs, computing_dtypes(origin))


def is_finite_call(origin: CallOrigin, cotangent: Array, arrays: Mapping[str, Array]) -> bool:
    """Whether a call's operands, result and cotangent are finite."""
    read = [arrays[name] for name in (*origin.box.names, origin.steps[-1])]
    return all(is_finite(array).all() for array in (cotangent, *read))


def overflow_of(
    origin: CallOrigin, name: str, at: tuple[int, ...], cotangent: Array, ours: Array, choice: Array
) -> str:
    """Return a sentence about the number that torch's backward overflows, and whether float64 would help."""
    import torch  # a sweep need not load it

    from symgrad.tracing.lift.boxes import DoublePrecisionCall, UnderivedCall

    kind, box = min(computing_dtypes(origin), default="float64"), origin.box
    torchs, own = (format_digits(float(array[at])) for array in (choice, ours))
    said = f"{OVERFLOWS} in {kind} and gives {torchs}, the derivative is {own}"
    if kind == "float64" or type(box) is not UnderivedCall:
        return said
    place, wide = box.names.index(name), DoublePrecisionCall(**vars(box))
    try:
        reached = bool(agree_up_to_rounding(ours, as_float(wide.pull(cotangent, [place])[place]))[at])
    except (SymgradError, RuntimeError):
        return said
    if not reached:
        return said
    held = abs(float(ours[at])) <= torch.finfo(getattr(torch, kind)).max
    return f"{said}{IN_DOUBLES if held else f', which overflows {kind}: torch computes it if {TO_DOUBLES}'}"


def agree_up_to_rounding(first: Array, second: Array) -> Array:
    """Return where two arrays are equal up to rounding; NaN equals NaN."""
    with np.errstate(invalid="ignore"):
        near = np.abs(first - second) <= NEAR * np.maximum(np.abs(first), np.abs(second))
    near &= np.isfinite(first) & np.isfinite(second)
    return np.asarray(near | (first == second) | (np.isnan(first) & np.isnan(second)))


def computing_dtypes(origin: CallOrigin) -> set[str]:
    """Return the dtypes in which a call computes."""
    call = origin.box.call
    return {real_precision(node.held.dtype) for node in call.nodes} | ({"bfloat16"} if call.autocast else set())


def differs_by_rounding(first: Array, second: Array, kinds: set[str]) -> Array:
    """Return where two finite numbers differ by no more than rounding in these dtypes, relative to the largest.

    In float64 only differences below its smallest numbers count.
    """
    coarse = [2 * TOLERANCE.get(kind, 0.0) for kind in kinds if kind != "float64"]
    largest = np.abs(second[np.isfinite(second)]).max(initial=0.0)
    allowed = max(NEAR, *coarse) * largest if coarse else 0.0
    return is_gap_within(first, second, max([allowed, *(LEAST.get(kind, 0.0) for kind in kinds)]))


def is_cancelled_rounding(first: Array, second: Array, weights: Array, kinds: set[str]) -> Array:
    """Return where two numbers differ by no more than the rounding of cotangents that cancel, in these dtypes."""
    sizes = np.abs(as_float(weights))
    allowed = max((CANCELS.get(kind, 0.0) for kind in kinds), default=CANCELS["float64"])
    return is_gap_within(first, second, allowed * sizes[np.isfinite(sizes)].max(initial=0.0))


def is_gap_within(first: Array, second: Array, allowed: float) -> Array:
    """Return where two numbers are finite and differ by at most ``allowed``."""
    with np.errstate(invalid="ignore"):
        gap = np.abs(first - second)
    return np.asarray(np.isfinite(gap) & (gap <= allowed))


def explain_choice(
    origin: CallOrigin, name: str, at: tuple[int, ...], arrays: Mapping[str, Array], cotangent: Array,
    numbers: tuple[float, float],
) -> str:  # fmt: skip
    """Return why torch's number was taken: what is not finite there, or both ``numbers`` if everything is."""
    value = float(as_float(arrays[name])[at])
    if not np.isfinite(value):
        return f"an argument is {format_digits(value)}"
    for other in origin.box.names:
        if not is_finite(arrays[other]).all():
            return "an argument is not finite"
    if not is_finite(arrays[origin.steps[-1]]).all():
        return "the result has no finite value"
    if not is_finite(cotangent).all():
        return "the gradient that reaches it is not finite"
    if not all(all_tame(as_float(a)) for a in (arrays[name], arrays[origin.steps[-1]], cotangent)):
        return "intermediate values overflow or underflow when squared"
    if np.isfinite(numbers).all():
        own, torchs = map(format_digits, numbers)
        return f"{NEAR_AN_EDGE} {format_digits(value)} its number is {torchs}, the equation's {own}"
    return f"the slope is infinite or undefined at {format_digits(value)}"


Settle = Callable[["CallOrigin", Mapping[str, Array], Array, Mapping[str, Array]], tuple[dict[str, Array], str]]
"""Replaces cotangents of a call's arguments, with a reason; `settle_singular` is one."""


@dataclass(eq=False)
class CallwisePull(Pull):
    """A reverse sweep from ``ends`` to ``wanted`` that may take torch's numbers for single calls.

    ``origins`` are the calls of the steps. If one meets numbers that are not finite, torch's numbers are taken where
    they differ, and ``noted`` gets the reason by the step's name; ``settle`` replaces this rule, for every call. Each
    function in ``seen`` is called with a step, a place, the cotangent and the pullback's result; ``hook`` may change
    the result before, and ``drawn`` the cotangent.
    """

    ends: Sequence[str] = ()
    origins: Mapping[str, CallOrigin] | None = None
    noted: dict[str, str] | None = None
    seen: Sequence[Callable[..., None]] = ()
    settle: Settle | None = None
    drawn: Callable[[Array], Array] | None = None
    tame: dict[str, bool] = field(default_factory=dict)

    @cached_property
    def calls(self) -> Mapping[str, tuple[Apply, ...]]:
        """The steps of each call, by its result's name."""
        return group_steps_by_call(self.program, self.origins or {}, (*self.wanted, *self.ends))

    @cached_property
    def steps(self) -> tuple[Apply, ...]:
        """The last step of each call in the sweep."""
        inner = {step.result.name for steps in self.calls.values() for step in steps[:-1]}
        outer = (step for step in self.program.steps if step.result.name not in inner)
        return tuple(last for last in outer if any(s.result.name in self.places for s in self.steps_of(last)))

    def steps_of(self, last: Apply) -> tuple[Apply, ...]:
        """Return the steps of a call, given its last one."""
        return self.calls.get(last.result.name, (last,))

    def call(self, last: Apply, cotangent: Array) -> Iterable[tuple[str, Array]]:
        """Iterate over a call's contributions to its arguments' cotangents, with torch's numbers if needed."""
        name, steps, told = last.result.name, self.steps_of(last), list[Event]()

        def pulled(step: Apply, weights: Array) -> Iterator[tuple[str, Array]]:
            for event in self.through(step, weights):
                told.append(event)
                yield str(step.arguments[event[1]]), event[3]

        arrived = carry_back(steps, {name: cotangent}, pulled, plus, ())
        if self.origins and name in self.calls:
            odd = self.settle or not all(map(all_tame, (cotangent, *arrived.values()))) or not self.is_tame(steps)
            if np.size(cotangent) and odd:
                plain, settle = arrived, self.settle or settle_singular
                arrived, reason = settle(self.origins[name], plain, cotangent, self.values.arrays)
                told = [(s, n, v, arrived.get(str(s.arguments[n]), part) if reason else part) for s, n, v, part in told]
                if reason and self.noted is not None:
                    self.noted.setdefault(name, reason)
        for event in told:
            for watcher in self.seen:
                watcher(*event)
        return arrived.items()

    def is_tame(self, steps: Sequence[Apply]) -> bool:
        """Whether all values of a call are tame, and none is at an edge where torch has its own rule."""
        arrays = self.values.arrays
        read = {n for s in steps for n in (*s.tensors, s.result.name) if n in arrays}
        self.tame |= {name: all_tame(np.asarray(arrays[name])) for name in read - self.tame.keys()}
        return all(self.tame[name] for name in read) and not any(on_an_edge(step, arrays) for step in steps)

    def pulled(self, step: Apply, cotangent: Array, places: Sequence[int]) -> Mapping[int, Array]:
        """Return the pullbacks of a step by the derived equations; zeros for an empty cotangent."""
        if np.size(cotangent) == 0:
            return {n: np.zeros(np.shape(self.values[str(step.arguments[n])])) for n in places}
        drawn = cotangent if self.drawn is None else self.drawn(cotangent)
        return pull_step(step, self.program, self.values, drawn, places)


def draw_weights(lot: int = 0) -> Callable[[Array], Array]:
    """Return a function for `CallwisePull.drawn`: random signs, and for an odd ``lot`` also random sizes.

    Terms that cancel do not cancel then, while steps that shrink their cotangent still do. Signs alone are not enough:
    two of them are equal half of the time.
    """
    lots = np.random.default_rng(lot)

    def drawn(weights: Array) -> Array:
        signs = lots.choice((-1.0, 1.0), np.shape(weights))
        other: Array = np.abs(as_float(weights)) * signs
        return other * lots.uniform(size=np.shape(weights)) if lot % 2 else other

    return drawn


def term_size_watcher(arrays: Mapping[str, Array], found: dict[str, float]) -> Callable[..., None]:
    """Return a watcher of the sweep that records the sizes of the terms of each gradient."""

    def seen(step: Apply, place: int, weights: Array, result: Array) -> None:
        source = str(step.arguments[place])
        if not np.size(weights):
            return
        others = [arrays[name] for name in step.tensors if name != source and np.size(arrays[name])]
        size = largest_entry(weights) * max([1.0, *filter(np.isfinite, map(largest_entry, others))])
        found[source] = found.get(source, 0.0) + size * float(np.size(weights)) ** 0.5

    return seen
