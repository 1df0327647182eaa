"""Whether torch put into ``.grad`` what was derived, and how far rounding alone can take the two apart.

Comes in: the sweep as it goes, then two gradients. Goes out: a distance and a verdict. A gradient that is zero in
the mathematics is rounding in both, and rounding has the size of the terms that cancel, not of their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric.exact import Array, as_float, furthest
from symgrad.numeric.forward_pass import Values, compute
from symgrad.ops.lookup import entry_of
from symgrad.oracles.comparisons import Check, judge, skipped
from symgrad.oracles.numerical import perturbed, rounding_noise
from symgrad.program import Apply
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.lift.sweeps import pull_calls, pull_random_seeds, undefined_entries
from symgrad.tracing.session.differences import Precision, by_torchs_rule

PRECISION = {"float64": (1e-9, 2.3e-16), "float32": (2e-4, 1.2e-7), "float16": (2e-2, 1e-3), "bfloat16": (1e-1, 8e-3)}
"""By torch's name: what may differ relative to the largest entry, and the rounding of one operation."""
NEAR, JUMP = 1e-13, 1e-6
"""How far a matrix is moved that is decomposed, and how far a gradient moves with it that has no value there."""
SHOWN = 1e-2
"""From what difference on, relative to the largest entry, it is said that torch's is rounding."""
NO_DIGIT = 0.5
"""From what difference on no digit of torch's gradient is right."""
LOTS = 4
"""How often weights are drawn: by one lot, much may cancel as well."""


def precision_of(kind: str) -> tuple[float, float]:
    """The row of `PRECISION` for a type."""
    return PRECISION.get(kind, (1e-3, 1e-3))


class Judge:
    """Compares one call's gradients with torch's; ``kinds`` are the types of all tensors of the program, by name."""

    def __init__(self, program: Capture, seeds: Mapping[str, Array], kinds: Mapping[str, str]) -> None:
        self.program, self.seeds, self.kinds = program, seeds, kinds
        self.terms: dict[str, float] = {}
        self.derived: dict[str, Array] = {}
        self.open: dict[str, Array] = {}
        self._moved: list[dict[str, float]] = []
        self._free: list[dict[str, float]] = []
        self._doubtful: set[str] = set()
        self.chosen: dict[str, str] = {}
        self.rules: dict[str, str] = {}
        self.coarse: dict[str, float] = {}
        self.rough: dict[str, float] = {}
        self.precision = Precision(program, seeds)

    def pull(self, watcher: Callable[..., Any]) -> dict[str, Array]:
        """vᵀJ for everything that is wanted, and where it has no number to agree on."""
        program, wanted = self.program, self.program.wanted
        watchers = watching(watcher, magnitudes(program.arrays, self.terms))
        self.derived = pull_calls(program.recording, program.values, program.boxes, self.seeds, wanted, seen=watchers,
                            origins=program.origins, noted=self.chosen)  # fmt: skip
        self.open = undefined_entries(program.recording, program.values, program.boxes, self.seeds, self.derived,
                                 bool(self.chosen))  # fmt: skip
        return self.derived

    def kind(self, name: str) -> str:
        """The coarsest type on the way from ``name`` to the outputs: torch's vᵀJ is no finer than that."""
        recording = self.program.recording
        on_the_way = recording.reached((name,)) & recording.reaching(self.program.ends)
        found = {self.kinds[n] for n in (*on_the_way, name) if n in self.kinds}
        return max(found, key=lambda kind: precision_of(kind)[1], default="float64")

    def floor(self, name: str) -> float:
        """What rounding may leave at the leaf itself, in its own type."""
        return floor_of(self.terms.get(name, 0.0), self.kinds.get(name, "float64"))

    def rounding(self, name: str) -> bool:
        """Whether all that is left at a leaf are the digits of terms that cancel: no slope on the way is that small."""
        size = largest(self.derived[name])
        if not self.is_small(name):
            return False
        kind = self.kinds.get(name, "float64")
        if size > self.floor(name) or name in self._doubtful:  # torch has no digit of it, doubles may have
            if self.precision.runs is not None:
                size, kind = largest(as_float(self.precision.runs[0][name])), "float64"
            elif self.kind(name) != "float64" and name not in self._doubtful:
                return False
        return any(free is None or size <= floor_of(free, kind) for free in self.free(name))

    def is_small(self, name: str) -> bool:
        """Whether a gradient is no larger than the rounding of the terms that are added up into it, or on the way."""
        size = largest(self.derived[name])
        if name in self._doubtful or 0 < size <= self.floor(name):
            return True
        widest = floor_of(max(self.terms.values(), default=0.0), self.kind(name))
        return 0 < size <= widest and any(size <= 16 * noise for noise in self.noise(name))

    def free(self, name: str) -> Iterator[float | None]:
        """The largest entry of a small gradient if nothing cancelled on the way, by one lot after the other.

        None where that cannot be computed.
        """
        program = self.program
        small = [own for own in program.wanted if self.is_small(own)]
        for lot in range(LOTS):
            if lot == len(self._free):
                try:
                    found = pull_random_seeds(program.recording, program.values, program.boxes, self.seeds, small,
                                        program.origins, lot)  # fmt: skip
                except SymgradError:  # a backward of the user's own is known for one v
                    found = {}
                self._free.append({own: largest(part) for own, part in found.items()})
            yield self._free[lot].get(name)

    def verdict(self, name: str, got: Array | None, before: Any) -> Check:
        """How far torch's vᵀJ is from the derived one, and whether that is rounding, or a rule of torch's."""
        if got is None:
            return skipped("torch", "nothing came")
        own = as_float(self.derived[name])
        if got.shape == own.shape:
            self.open[name] = self.open[name] | ~np.isfinite(got)
        kind, tolerance = self.kind(name), precision_of(self.kind(name))[0]

        def held(noise: float, other: Array = own) -> Check:
            """The two where there is something to agree on, with what rounding may leave."""
            floor = max(self.floor(name), 16 * noise)
            return Check("torch", *difference(other, got, tolerance, before, floor, self.open[name]))

        def by_noise(check: Check) -> Check:
            sizes = self.noise(name) if np.isfinite(check.max_error or 0.0) else ()
            return next((found for found in map(held, sizes) if found.passed), check)

        def at_jumps(check: Check) -> Check:
            if got.shape != own.shape or not np.any(jumps := self.jumps(name)):
                return check
            self.open[name] = self.open[name] | jumps
            return held(0.0)

        def by_own_rule(check: Check) -> Check:
            found = held(0.0, as_float(self.ruled[name])) if self.ruled and got.shape == own.shape else check
            return replace(check, passed=None, own_rule=True) if found.passed else check

        check = judge(held(0.0), [by_noise])
        error, some = check.max_error or 0.0, np.any(own[~self.open[name]]) if got.shape == own.shape else own.any()
        near = check.passed and (error <= max(tolerance, SHOWN) or self.rounding(name) or not some)
        if not near and kind == "float32" and self.precision.explains(name, np.where(self.open[name], 0.0, got)):
            if error > NO_DIGIT and some:
                self._doubtful.add(name)
                self._free.clear()
            self.coarse |= {} if self.rounding(name) or not some else {name: error}
            return replace(check, passed=True)
        if check.passed and not near and kind != "float64":
            self.rough[name] = error
        return judge(check, [at_jumps, by_own_rule])

    @cached_property
    def ruled(self) -> Mapping[str, Array]:
        """The gradients with torch's rules for calls on the way, which are no derivatives there; none without any."""
        program = self.program
        found = pull_calls(program.recording, program.values, program.boxes, self.seeds, program.wanted,
                     origins=program.origins, noted=self.rules, settle=by_torchs_rule)  # fmt: skip
        return found if self.rules else {}

    def jumps(self, name: str) -> Array:
        """Where a gradient is another one as soon as the matrices that are decomposed move by their last digits.

        The vectors of equal eigenvalues are nobody's choice, and weights that tell them apart have no gradient.
        """
        own, other = as_float(self.derived[name]), as_float(self.turned.get(name, self.derived[name]))
        still: Array = np.abs(own - other) <= JUMP * max(1.0, largest(own))
        return ~still

    @cached_property
    def turned(self) -> dict[str, Array]:
        """The gradients with every decomposed matrix moved, and with what it is decomposed into; none without any."""
        program, lots = self.program, np.random.default_rng(0)
        arrays = dict(program.arrays)
        entries = [(s, entry) for s in program.recording.steps if (entry := entry_of(s.op)) is not None]
        solved = [s for s, entry in entries if entry.saved.auxiliaries or entry.saved.residual is not None]
        arrays |= {a: symmetric_lot(arrays[a], lots) for s in solved for a in s.tensors}
        try:
            for step in (s for s, entry in entries if entry.saved.residual is not None):
                compute(step, program.recording, arrays)
            moved = program.values.with_arrays(arrays)
            return pull_calls(program.recording, moved, program.boxes, self.seeds, program.wanted,
                        origins=program.origins) if solved else {}  # fmt: skip
        except SymgradError:
            return {}

    def undefined(self, name: str) -> int:
        """How many entries have no number to agree on."""
        return int(np.sum(self.open[name]))

    def noise(self, name: str) -> Iterator[float]:
        """What rounding in every step on the way may leave: sweeps with terms shaken, and with the forward shaken.

        A term is shaken by the rounding of its step: what weights of this size, with signs by lot, come to there. Where
        1 − out² is small, as where tanh is nearly flat, the last digit of ``out`` is most of it. The largest so far is
        given after each sweep.
        """
        unit = max((precision_of(kind)[1] for kind in self.kinds.values()), default=2.3e-16)
        most = 0.0
        for number in range(1 + LOTS):
            if number == len(self._moved):
                self._moved.append(self.moved(number, unit))
            most = max(most, self._moved[number].get(name, 0.0))
            yield most

    def moved(self, number: int, unit: float) -> dict[str, float]:
        """How far each gradient moves with every term shaken first, then with another forward pass each time.

        None where a backward of the user's own is on the way: it is known for one v.
        """
        program, found = self.program, dict[str, float]()

        def taken(name: str, other: Array) -> None:
            gap = np.abs(as_float(other) - as_float(self.derived[name]))
            found[name] = float(gap.max()) if gap.size and np.isfinite(gap).all() else 0.0

        moved = partial(pull_calls, program.recording, boxes=program.boxes, seeds=self.seeds, wanted=program.wanted,
                        origins=program.origins, taken=taken)  # fmt: skip
        try:
            if number == 0:
                moved(program.values, hook=rounding_noise(program.recording, program.values, unit, 0))
            else:
                moved(Values(perturbed(program.arrays, number - 1, unit), program.values.sizes))
        except SymgradError:
            return {}
        return found


def watching(*watchers: Callable[..., None]) -> Callable[..., None]:
    """Several watchers as one."""

    def seen(*what: Any) -> None:
        for watcher in watchers:
            watcher(*what)

    return seen


def magnitudes(arrays: Mapping[str, Array], found: dict[str, float]) -> Callable[..., None]:
    """A watcher for the sweep: how large the terms are that are added up into each gradient."""

    def seen(step: Apply, place: int, weights: Array, result: Array) -> None:
        source = str(step.arguments[place])
        if not np.size(weights):
            return
        others = [arrays[name] for name in step.tensors if name != source and np.size(arrays[name])]
        size = largest(weights) * max([1.0, *filter(np.isfinite, map(largest, others))])
        found[source] = found.get(source, 0.0) + size * float(np.size(weights)) ** 0.5

    return seen


def symmetric_lot(array: Array, lots: np.random.Generator) -> Array:
    """A matrix moved by about its last digits, a square one as a symmetric one."""
    moved = lots.uniform(-1.0, 1.0, np.shape(array)) * NEAR * max(1.0, largest(array))
    square = moved.ndim > 1 and moved.shape[-1] == moved.shape[-2]
    return as_float(array) + (moved + np.swapaxes(moved, -1, -2) if square else moved)


def largest(array: Array) -> float:
    """The size of the largest entry."""
    own = as_float(array)
    return float(np.maximum(own.max(initial=0.0), -own.min(initial=0.0)))


def floor_of(terms: float, kind: str) -> float:
    """What rounding may leave of terms of this size."""
    return 16 * precision_of(kind)[1] * terms if np.isfinite(terms) else 0.0


def difference(
    derived: Array, got: Array, tolerance: float, before: Any = None, floor: float = 0.0, void: Array | None = None
) -> tuple[float, bool]:
    """How far apart, relative to the largest entry, and whether that is within rounding; not where it is ``void``."""
    if derived.shape != got.shape:
        return float("inf"), False
    held = 0.0 if before is None else float(before.abs().max()) if before.numel() else 0.0
    worst, own, theirs = furthest(derived, got, void)
    scale = max(theirs, held, 1e-30)  # where torch has 0, derived is rounding
    return worst / max(scale, own), bool(worst <= max(tolerance * scale, floor))
