"""The backward sweep of a captured program, prepared once for its inputs and outputs and run for every seed.

Comes in: a captured program's recording and its forward values. Goes out: a `PreparedSweep`: one list of calls on
arrays with the forward values as constants; an opaque call, or one without a plan, is one call of
`symgrad.tracing.lift.call_sweeps`. A sweep that meets a number that is not finite, or near overflow or underflow, is
abandoned, and the whole backward runs call by call instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any

import numpy as np

from symgrad.calculus import carry_back
from symgrad.calculus.local_derivatives import SEED
from symgrad.errors import UnsupportedError
from symgrad.lowering import Chain, Plan
from symgrad.lowering.arrays import ON_NUMPY, Engine
from symgrad.numeric.exact import Array, all_tame, as_float, plus
from symgrad.numeric.vector_products import prepared
from symgrad.program import Apply
from symgrad.tracing.lift.call_sweeps import CallwisePull

SMALL = 1 << 10
"""Arrays with fewer entries are checked together, at the end."""


class BadlyScaled(Exception):
    """Raised at a number that is not finite, or near overflow or underflow."""


class Unplanned(Exception):
    """Raised at a call without a plan, on an engine that has no other way."""


def find_function(functions: Mapping[str, Callable[..., Any]], name: str) -> Callable[..., Any]:
    """Return an elementwise function of a library; raise `Unplanned` if it has none."""
    if name not in functions:
        raise Unplanned(name)
    return functions[name]


def check_well_scaled(array: Array) -> None:
    """Raise `BadlyScaled` for numbers that are not finite, or near overflow or underflow."""
    if not all_tame(array):
        raise BadlyScaled


@dataclass(frozen=True)
class GradientSlot:
    """The slot of a tensor's cotangent in the chain, with its number of ``entries``.

    ``own``: its memory is not shared. ``plain``: it comes from a call without a plan, and may be no float array.
    """

    place: int
    entries: int
    own: bool = False
    plain: bool = False


class PreparedSweep:
    """vᵀJ of one program as a chain of calls; the cotangents of ``sweep`` are slots of the chain.

    ``held`` keeps forward values in their compute dtype. ``seeds`` and ``found`` are slots by name, ``watched`` the
    slots that are checked for finite numbers, ``alone`` the gradients with their own memory. Only NumPy checks numbers.
    Raises `BadlyScaled` if a forward value is badly scaled; on other engines `Unplanned` for a call without a plan.
    """

    def __init__(self, sweep: CallwisePull, held: dict[str, Array], engine: Engine = ON_NUMPY) -> None:
        self.sweep, self.held, self.chain, self.guarded = sweep, held, Chain(engine), engine is ON_NUMPY
        self.watched, self.forward = set[int](), dict[str, int]()
        self.seeds = {name: self.chain.slot() for name in sweep.ends}
        with np.errstate(all="ignore"):
            arrived = {name: self.slot(name, place) for name, place in self.seeds.items()}
            carried = carry_back(sweep.steps, arrived, lambda s, c: self.call(s, c).items(), self.add, sweep.wanted)
        self.found = {name: carried.get(name) for name in sweep.wanted}
        shares = Counter(slot.place for slot in self.found.values() if slot is not None)
        self.alone = {name for name, slot in self.found.items() if slot and slot.own and shares[slot.place] == 1}
        self.chain.finish({*shares, *self.watched})

    def pull(self, seeds: Mapping[str, Array]) -> dict[str, Array] | None:
        """Return the gradients for floating-point seeds; None if a number is badly scaled."""
        given = [(self.seeds[name], np.asarray(seed)) for name, seed in seeds.items()]
        try:
            with np.errstate(all="ignore"):
                held = self.chain.play(given)
        except BadlyScaled:
            return None
        small = [held[slot] for slot in self.watched]
        if small and not all_tame(np.concatenate([a.reshape(-1) for a in small])):
            return None
        return {name: self.gradient(name, held) for name in self.found}

    def gradient(self, name: str, held: Sequence[Any]) -> Array:
        """Return one gradient as a writable array."""
        slot = self.found[name]
        if slot is None:
            return np.zeros(np.shape(self.sweep.values[name]), dtype=np.int64)
        return held[slot.place] if name in self.alone else np.array(held[slot.place])

    def slot(self, name: str, place: int, own: bool = False) -> GradientSlot:
        """Create a checked slot for a tensor's cotangent."""
        return self.watch(GradientSlot(place, int(np.size(self.sweep.values[name])), own))

    def watch(self, slot: GradientSlot) -> GradientSlot:
        """Check a slot: at once if it is large, else at the end."""
        if self.guarded and slot.entries < SMALL:
            self.watched.add(slot.place)
        elif self.guarded:
            self.chain.call(check_well_scaled, (slot.place,))
        return slot

    def call(self, last: Apply, cotangent: GradientSlot) -> Mapping[str, GradientSlot]:
        """Append one call to the chain."""
        sweep, steps = self.sweep, self.sweep.steps_of(last)
        empty = any(np.size(sweep.values.arrays.get(n, 1)) == 0 for s in steps for n in (*s.tensors, s.result.name))
        boxed = any(step.result.name in sweep.boxes for step in steps)
        plans = self.plans(steps) if not empty and not boxed and sweep.is_tame(steps) else None
        if plans is None and not self.guarded:
            raise Unplanned(last.result.name)
        if plans is None:
            return self.slowly(last, steps, cotangent)
        if cotangent.plain:
            cotangent = self.watch(GradientSlot(self.chain.call(as_float, (cotangent.place,)), cotangent.entries))

        def pulled(step: Apply, given: GradientSlot) -> Iterator[tuple[str, GradientSlot]]:
            if step.result.name not in plans:
                return
            plan, names = plans[step.result.name]
            made = self.chain.plan(plan, [given.place if name == SEED else self.value(name) for name in names])
            for place, slot, alone in zip(self.sweep.places[step.result.name], made, plan.own, strict=True):
                source = str(step.arguments[place])
                yield source, self.slot(source, slot, alone)

        return carry_back(steps, {last.result.name: cotangent}, pulled, self.add, ())

    def value(self, name: str) -> int:
        """Return the slot of a forward value."""
        if name not in self.forward:
            self.forward[name] = self.chain.slot(self.chain.engine.array(self.held[name]))
        return self.forward[name]

    def slowly(self, last: Apply, steps: Sequence[Apply], cotangent: GradientSlot) -> Mapping[str, GradientSlot]:
        """Append one call without a plan."""
        between = {step.result.name for step in steps}
        reached = [str(s.arguments[n]) for s in steps for n in self.sweep.places.get(s.result.name, ())]
        sources = tuple(dict.fromkeys(source for source in reached if source not in between))
        parts, found = self.chain.slot(), {}

        def pulled(cotangent: Array) -> dict[str, Array]:
            arrived = dict(self.sweep.call(last, cotangent))
            if not arrived.keys() >= {*sources}:  # of nothing, nothing is asked
                raise BadlyScaled
            return arrived

        self.chain.append(pulled, (cotangent.place,), parts)
        for source in sources:
            place = self.chain.slot()
            self.chain.append(itemgetter(source), (parts,), place)
            found[source] = GradientSlot(place, int(np.size(self.sweep.values[source])), plain=True)
        return found

    def add(self, one: GradientSlot, other: GradientSlot) -> GradientSlot:
        """Append the sum of two cotangents."""
        plain = one.plain or other.plain
        place = self.chain.call(plus if plain else self.chain.engine.add, (one.place, other.place))
        total = GradientSlot(place, one.entries, True, plain)
        return total if plain else self.watch(total)

    def plans(self, steps: Sequence[Apply]) -> dict[str, tuple[Plan, list[str]]] | None:
        """Return the plans of a call's steps; None if one has no plan."""
        found = {}
        for step in steps:
            places = self.sweep.places.get(step.result.name)
            if places is None:
                continue
            plan = prepared(step, self.sweep.program, self.sweep.values, places, self.held, self.chain.engine)
            if plan is None:
                return None
            found[step.result.name] = plan
        return found


@dataclass(eq=False)
class SweepCache:
    """The prepared sweeps of one program; ``sweep`` creates one for ends and inputs, ``held`` is shared by all."""

    sweep: Callable[[Sequence[str], Sequence[str]], CallwisePull]
    held: dict[str, Array] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)

    def pull(self, seeds: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """Return vᵀJ for each of ``wanted``, by plans if the seeds are float64."""
        key, found = (tuple(seeds), tuple(wanted)), None
        if all(np.asarray(seed).dtype == np.float64 for seed in seeds.values()):
            if key not in self.known:
                with suppress(BadlyScaled):  # whatever the seeds are
                    self.known[key] = PreparedSweep(self.sweep(*key), self.held)
            way = self.known.setdefault(key)
            found = None if way is None else way.pull(seeds)
        return self.sweep(*key).back(seeds) if found is None else found


@dataclass(eq=False)
class LibrarySweepCache(SweepCache):
    """A `SweepCache` on the arrays of another ``library``, by their dtype as well."""

    library = words = ""

    def prepared(self, ends: Sequence[str], wanted: Sequence[str], on: Engine) -> PreparedSweep:
        """Prepare a sweep; raise `UnsupportedError` if a call has no plan."""
        try:
            return PreparedSweep(self.sweep(ends, wanted), self.held, on)
        except Unplanned as refusal:
            lacks = f"a function that {self.library} lacks"
            raise UnsupportedError(
                f"this pullback has no plan on {self.library}'s {self.words}",
                found=(f"at {refusal}: an operation that is not derived, a value that is not finite, or {lacks}",),
                hints=("pullback(seed) gives its numbers on NumPy",),
            ) from None

    def played(
        self, way: PreparedSweep, seeds: Mapping[str, Any], zeros: Callable[[tuple[int, ...]], Any]
    ) -> dict[str, Any]:
        """Run a sweep for seeds; ``zeros`` creates the gradients of independent inputs."""
        slots = way.chain.play([(way.seeds[name], seed) for name, seed in seeds.items()])
        found, values = way.found.items(), way.sweep.values
        return {n: zeros(np.shape(values[n])) if slot is None else slots[slot.place] for n, slot in found}
