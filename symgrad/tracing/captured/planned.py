"""The sweep back through a captured program, prepared once for what is asked for and played for every seed.

Comes in: a captured program's recording and its forward values. Goes out: a `WayBack`: one list of calls on arrays, its
forward values in place; a black box, and what has no plan, is one call of `symgrad.tracing.lift.sweeps`. A sweep that
meets a number which is not finite, or so near to it that arithmetic ends there, is given up: that one takes the other
way as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from symgrad.calculus import positions
from symgrad.calculus.local import SEED
from symgrad.errors import UnsupportedError
from symgrad.lowering.arrays import ON_NUMPY, Engine
from symgrad.lowering.plan import Chain
from symgrad.numeric.exact import Array, all_tame, as_float, plus
from symgrad.numeric.plans import Prepared, prepared
from symgrad.oracles.own_rule import on_an_edge
from symgrad.program import Apply
from symgrad.tracing.lift.sweeps import Pull

SMALL = 1 << 10
"""Arrays of fewer entries are looked at together, at the end."""


class Untame(Exception):
    """A number on the way that is not finite, or nearly so."""


class Unplanned(Exception):
    """A call that has no plan, where nothing else would do."""


@dataclass(eq=False)
class WayBack:
    """vᵀJ of one program by ``wanted``.

    ``seeds`` and ``found`` are slots by name, ``watched`` the slots of what has to be tame, ``alone`` the gradients in
    memory of their own.
    """

    sweep: Pull
    chain: Chain
    seeds: Mapping[str, int]
    found: Mapping[str, int | None]
    watched: tuple[int, ...]
    alone: frozenset[str]

    def pull(self, seeds: Mapping[str, Array]) -> dict[str, Array] | None:
        """The gradients for seeds in floats; None where a number on the way is not a tame one."""
        given = [(self.seeds[name], np.asarray(seed)) for name, seed in seeds.items()]
        try:
            with np.errstate(all="ignore"):
                held = self.chain.play(given)
        except Untame:
            return None
        small = [held[slot] for slot in self.watched]
        if small and not all_tame(np.concatenate([a.reshape(-1) for a in small])):
            return None
        return {name: self.gradient(name, held) for name in self.found}

    def gradient(self, name: str, held: Sequence[Any]) -> Array:
        """One gradient, which may be written."""
        slot = self.found[name]
        if slot is None:
            return np.zeros(np.shape(self.sweep.values[name]), dtype=np.int64)
        return held[slot] if name in self.alone else np.array(held[slot])


def tame(array: Array) -> None:
    """Refuse numbers that are not finite, or nearly so."""
    if not all_tame(array):
        raise Untame


def called(sweep: Pull, name: str, steps: Sequence[Apply], sources: Sequence[str], cotangent: Array) -> list[Array]:
    """What one call sends back, the way that is not planned."""
    arrived = sweep.call(name, steps, cotangent)
    if any(source not in arrived for source in sources):
        raise Untame
    return [arrived[source] for source in sources]


def part_of(number: int, parts: Sequence[Array]) -> Array:
    """One of several results."""
    return parts[number]


@dataclass(eq=False)
class Preparing:
    """A sweep that is being written down: the slots of what is carried, and which of them have memory of their own."""

    sweep: Pull
    held: dict[str, Array]
    chain: Chain
    carried: dict[str, int] = field(default_factory=dict)
    own: set[int] = field(default_factory=set)
    plain: set[int] = field(default_factory=set)
    watched: list[int] = field(default_factory=list)
    forward: dict[str, int] = field(default_factory=dict)
    guarded: bool = True
    tame: dict[str, bool] = field(default_factory=dict)

    def entries(self, name: str) -> int:
        """How many entries a tensor has."""
        return int(np.size(self.sweep.values[name]))

    def watch(self, slot: int, entries: int) -> int:
        """Have a slot looked at: now if it is large, at the end if not."""
        if not self.guarded:
            return slot
        if entries < SMALL:
            self.watched.append(slot)
        else:
            self.chain.call(tame, (slot,))
        return slot

    def regular(self, steps: Sequence[Apply]) -> bool:
        """Whether all values that a call reads and makes are tame, none is empty, and none torch's own business."""
        values = self.sweep.values
        read = {n for s in steps for n in (*s.tensors, s.result.name) if n in values.arrays}
        for name in read - self.tame.keys():
            self.tame[name] = bool(np.size(values[name])) and all_tame(np.asarray(values[name]))
        boxed = any(step.result.name in self.sweep.boxes for step in steps)
        return (
            all(self.tame[name] for name in read)
            and not boxed
            and not any(on_an_edge(step, values.arrays) for step in steps)
        )

    def call(self, name: str, steps: Sequence[Apply]) -> None:
        """Write down what one call does."""
        cotangent = self.carried[name]
        plans = self.plans(steps) if self.regular(steps) else None
        if plans is None and not self.guarded:
            raise Unplanned(name)
        if plans is None:
            self.slowly(name, steps, cotangent)
            return
        if cotangent in self.plain:
            cotangent = self.watch(self.chain.call(as_float, (cotangent,)), self.entries(name))
        inner = {name: cotangent}
        between = {step.result.name for step in steps[:-1]}
        for step, plan in plans:
            if step.result.name not in inner:
                continue
            given = inner.pop(step.result.name)
            calls = plan.plan(self.chain.engine)
            slots = [given if read == SEED else self.value(plan.names[read]) for read in calls.inputs]
            made = self.chain.plan(calls, slots)
            for place, slot, alone in zip(plan.places, made, calls.own, strict=True):
                source = str(step.arguments[place])
                self.watch(slot, self.entries(source))
                if alone:
                    self.own.add(slot)
                self.add(source, slot, inner if source in between else self.carried)

    def value(self, name: str) -> int:
        """The slot of a forward value."""
        if name not in self.forward:
            self.forward[name] = self.chain.slot(self.chain.engine.array(self.held[name]))
        return self.forward[name]

    def slowly(self, name: str, steps: Sequence[Apply], cotangent: int) -> None:
        """One call the other way."""
        between = {step.result.name for step in steps}
        sources = tuple(
            dict.fromkeys(
                str(s.arguments[n])
                for s in steps
                for n in positions(s, self.sweep.reached)
                if s.arguments[n] not in between
            )
        )
        parts = self.chain.slot()
        self.chain.append(partial(called, self.sweep, name, tuple(steps), sources), (cotangent,), parts)
        for number, source in enumerate(sources):
            slot = self.chain.slot()
            self.chain.append(partial(part_of, number), (parts,), slot)
            self.plain.add(slot)
            self.add(source, slot, self.carried)

    def add(self, name: str, slot: int, into: dict[str, int]) -> None:
        """Another part of what arrives at a tensor."""
        there = into.get(name)
        if there is None:
            into[name] = slot
            return
        plain = {there, slot} & self.plain
        into[name] = self.chain.call(plus if plain else self.chain.engine.add, (there, slot))
        self.own.add(into[name])
        if plain:
            self.plain.add(into[name])
        else:
            self.watch(into[name], self.entries(name))

    def plans(self, steps: Sequence[Apply]) -> list[tuple[Apply, Prepared]] | None:
        """The plans of a call's steps, from the last one back; None where one has none."""
        found = []
        for step in reversed(steps):
            places = positions(step, self.sweep.reached)
            if not places:
                continue
            plan = prepared(step, self.sweep.program, self.sweep.values, places, self.held)
            if plan is None:
                return None
            found.append((step, plan))
        return found


def way_back(sweep: Pull, held: dict[str, Array], engine: Engine = ON_NUMPY) -> WayBack | None:
    """Prepare a sweep; ``held`` keeps forward values in the type in which they are computed with.

    None where a number is not tame whatever the seeds are. On another engine than NumPy nothing is looked at on the
    way: raises `Unplanned` where a call has no plan.
    """
    doing = Preparing(sweep, held, Chain(engine), guarded=engine is ON_NUMPY)
    seeds = {name: doing.chain.slot() for name in sweep.ends}
    for name, slot in seeds.items():
        doing.carried[name] = doing.watch(slot, doing.entries(name))
    try:
        with np.errstate(all="ignore"):
            for name, steps in sweep.groups():
                if name in doing.carried:
                    doing.call(name, steps)
    except Untame:
        return None
    found = {name: doing.carried.get(name) for name in sweep.wanted}
    slots = [slot for slot in found.values() if slot is not None]
    alone = frozenset(name for name, slot in found.items() if slot in doing.own and slots.count(slot) == 1)
    doing.chain.finish({*slots, *doing.watched})
    return WayBack(sweep, doing.chain, seeds, found, tuple(dict.fromkeys(doing.watched)), alone)


@dataclass(eq=False)
class WaysBack:
    """The prepared sweeps of one program; ``sweep`` makes one from some ends by some inputs, ``held`` is for all."""

    sweep: Callable[[Sequence[str], Sequence[str]], Pull]
    held: dict[str, Array] = field(default_factory=dict)
    known: dict[Any, Any] = field(default_factory=dict)

    def pull(self, seeds: Mapping[str, Array], wanted: Sequence[str]) -> dict[str, Array]:
        """vᵀJ for each of ``wanted``, by plans where seeds are floats."""
        key, found = (tuple(seeds), tuple(wanted)), None
        if all(np.asarray(seed).dtype == np.float64 for seed in seeds.values()):
            if key not in self.known:
                self.known[key] = way_back(self.sweep(*key), self.held)
            way = self.known[key]
            found = None if way is None else way.pull(seeds)
        return self.sweep(*key).back(seeds) if found is None else found


@dataclass(eq=False)
class Elsewhere(WaysBack):
    """`WaysBack` on the arrays of another ``library``, by their type as well."""

    library = words = ""

    def prepared(self, ends: Sequence[str], wanted: Sequence[str], on: Engine) -> WayBack:
        """The calls, written down once; refused where one has no plan."""
        try:
            way = way_back(self.sweep(ends, wanted), self.held, on)
        except Unplanned as refusal:
            lacks = f"a function that {self.library} has not got"
            raise UnsupportedError(
                f"this pullback has no plan on {self.library}'s {self.words}",
                found=(f"at {refusal}: a black box, a value that is not finite, or {lacks}",),
                hints=("pullback(seed) gives its numbers on NumPy",),
            ) from None
        assert way is not None
        return way

    def played(self, way: WayBack, seeds: Mapping[str, Any], zeros: Callable[[tuple[int, ...]], Any]) -> dict[str, Any]:
        """The gradients for seeds; ``zeros`` makes those that nothing reaches."""
        slots = way.chain.play([(way.seeds[name], seed) for name, seed in seeds.items()])
        found, values = way.found.items(), way.sweep.values
        return {n: zeros(np.shape(values[n])) if slot is None else slots[slot] for n, slot in found}
