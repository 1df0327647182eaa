"""Plans one after the other as one list of calls, with what is known beforehand already in its place.

Comes in: arrays that stay the same from play to play, plans, functions, and what each of them reads. Goes out: a
`Chain`, which is played on what is given each time. A call that reads only what stays the same is made once, if its
result is a view or small; everything large is formed anew each time and let go after its last use.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from symgrad.lowering.arrays import ON_NUMPY, Engine, Play
from symgrad.lowering.plan import Plan


@dataclass(eq=False)
class Chain:
    """Calls on slots; ``start`` is what the slots hold before, nothing where it is made or given."""

    engine: Engine = ON_NUMPY
    start: list[Any] = field(default_factory=list)
    known: list[bool] = field(default_factory=list)
    calls: list[tuple[Play, tuple[int, ...], int]] = field(default_factory=list)
    gone: list[tuple[int, ...]] = field(default_factory=list)
    ends: dict[int, int] = field(default_factory=dict)

    def slot(self, value: Any = None) -> int:
        """A new slot, with a value that stays the same or with none."""
        self.start.append(value)
        self.known.append(value is not None)
        return len(self.start) - 1

    def call(self, function: Play, given: Sequence[int], over: int | None = None) -> int:
        """The slot of what a function makes; into the memory of ``over``, which nobody reads any more."""
        if all(self.known[n] for n in given):
            value = function(*(self.start[n] for n in given))
            if self.engine.light(value):
                return self.slot(value)
        if hasattr(function, "knowing") and self.known[given[-1]]:  # what it asks of places it asks once
            function, given = function.knowing(self.start[given[-1]]), given[:-1]
        place = self.slot()
        read = tuple(given) if over is None or self.known[over] else (*given, over)
        self.append(function, read, place)
        return place

    def append(self, function: Play, given: Sequence[int], place: int) -> None:
        """A call that is made each time."""
        for slot in given:
            self.ends[slot] = len(self.calls)
        self.calls.append((function, tuple(given), place))

    def plan(self, plan: Plan, given: Sequence[int]) -> list[int]:
        """The slots of a plan's results, what it reads being in ``given``."""
        at = {n: self.slot(value) for n, value in enumerate(plan.start) if value is not None}
        at |= dict(zip(plan.slots, given, strict=True))
        for call in plan.calls:
            over = None if call.over is None else at[call.over]
            at[call.place] = self.call(call.function, [at[n] for n in call.given], over)
        return [at[slot] for slot in plan.results]

    def finish(self, kept: Collection[int]) -> None:
        """Note what is let go after which call; ``kept`` is read afterwards."""
        gone: dict[int, list[int]] = {}
        for slot, last in self.ends.items():
            if not self.known[slot] and slot not in kept:
                gone.setdefault(last, []).append(slot)
        self.gone = [tuple(gone.get(n, ())) for n in range(len(self.calls))]

    def play(self, given: Sequence[tuple[int, Any]]) -> list[Any]:
        """What all slots hold afterwards, but for those that were let go."""
        held = list(self.start)
        for slot, value in given:
            held[slot] = value
        for (function, read, place), gone in zip(self.calls, self.gone, strict=True):
            held[place] = function(*[held[n] for n in read])
            for slot in gone:
                held[slot] = None
        return held
