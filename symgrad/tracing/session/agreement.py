"""Compare torch's ``.grad`` with the derived gradient, and explain a difference by rounding or by a rule of torch.

Comes in: the reverse sweep while it runs, then two gradients. Goes out: a distance and a verdict. A gradient that is
mathematically zero is rounding in both; rounding is judged relative to the terms that cancel, not to their sum. If the
gradients differ, torch runs parts again. The forward pass of a call may have the derived slopes while its backward has
others, as ``polar`` at negative lengths. Single precision explains a distance if torch, run again, is as far from the
derived gradient in single precision, and equal to it in double precision.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric import forward
from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward_pass import Values, compute
from symgrad.numeric.vector_products import Taken
from symgrad.ops.lookup import entry_of
from symgrad.oracles.comparisons import Check, judge, skipped
from symgrad.oracles.forms import symmetric_part
from symgrad.oracles.numerical import perturbed, rounding_noise
from symgrad.oracles.torch import run_torch
from symgrad.oracles.torch_rules import MOST_RULES, contradicts_itself
from symgrad.render.numbers import format_digits
from symgrad.tracing.captured import Capture
from symgrad.tracing.captured.step_text import pull_recording
from symgrad.tracing.lift.boxes import CallOrigin, DoublePrecisionCall
from symgrad.tracing.lift.call_sweeps import (
    CallwisePull,
    agree_up_to_rounding,
    compare_with_torch,
    draw_weights,
    term_size_watcher,
)
from symgrad.tracing.lift.values import cancellation_floor, largest_entry, precision_of, relative_difference
from symgrad.tracing.record.trace import as_numbers

NEAR, JUMP = 1e-13, 1e-6
"""The perturbation of a matrix that is decomposed, and the change of a gradient that shows it has no value there."""
SHOWN = 1e-2
"""A larger relative difference is reported as rounding of torch."""
NO_DIGIT = 0.5
"""With a larger relative difference no digit of torch's gradient is right."""
LOTS = 4
"""The number of random draws of weights: terms may also cancel for one draw."""
SHRINKS = 1e-3
"""The largest ratio of the differences in double and in single precision if single precision is the cause."""
ALIKE = 10.0
"""The largest ratio of the script's error to the error of the same program run again in single precision."""


class Judge:
    """Compares one call's gradients with torch's; ``kinds`` are the dtypes of all tensors of the program, by name."""

    def __init__(self, program: Capture, seeds: Mapping[str, Array], kinds: Mapping[str, str]) -> None:
        self.program, self.seeds, self.kinds = program, seeds, kinds
        self.terms: dict[str, float] = {}
        self.derived: dict[str, Array] = {}
        self.pulled = False
        self.open: dict[str, Array] = {}
        self._doubtful: set[str] = set()
        self.chosen: dict[str, str] = {}
        self.rules: dict[str, str] = {}
        self.coarse: dict[str, float] = {}
        self.rough: dict[str, float] = {}
        self._drawn: dict[int, dict[str, float]] = {}
        self._moved: dict[int, dict[str, float]] = {}

    def pull(
        self, watchers: Sequence[Callable[..., Any]], between: Sequence[str] = (), taken: Taken | None = None
    ) -> dict[str, Array]:
        """Return vᵀJ of all leaves, and note entries without a number; pass cotangents of ``between`` to ``taken``."""
        program, found = self.program, dict[str, Array]()

        def finished(name: str, cotangent: Array) -> None:
            if name in program.wanted:
                found[name] = cotangent
            if taken is not None and name in between:
                taken(name, cotangent)

        seen, names = (*watchers, term_size_watcher(program.arrays, self.terms)), (*program.wanted, *between)
        pull_recording(program, self.seeds, names, seen=seen, noted=self.chosen, taken=finished)
        self.derived, self.pulled = {name: found[name] for name in program.wanted}, True
        plain = pull_recording(program, self.seeds, origins=None) if self.chosen else self.derived
        self.open = {name: ~np.isfinite(as_float(part)) for name, part in plain.items()}
        for name, part in plain.items() if self.chosen else ():
            self.open[name] |= ~agree_up_to_rounding(as_float(part), as_float(self.derived[name]))
        return self.derived

    def kind(self, name: str) -> str:
        """Return the lowest precision between ``name`` and the outputs, which bounds that of torch's vᵀJ."""
        recording = self.program.recording
        on_the_way = recording.reached((name,)) & recording.reaching(self.program.ends)
        found = {self.kinds[n] for n in (*on_the_way, name) if n in self.kinds}
        return max(found, key=lambda kind: precision_of(kind)[1], default="float64")

    def floor(self, name: str) -> float:
        """Return the rounding error at the leaf itself, in its dtype."""
        return cancellation_floor(self.terms.get(name, 0.0), self.kinds.get(name, "float64"))

    def rounding(self, name: str) -> bool:
        """Whether the gradient of a leaf is only rounding of terms that cancel, rather than a small slope."""
        size = largest_entry(self.derived[name])
        if not self.is_small(name):
            return False
        kind = self.kinds.get(name, "float64")
        if size > self.floor(name) or name in self._doubtful:  # torch has no digit of it, doubles may have
            if self.precision_runs is not None:
                size, kind = largest_entry(as_float(self.precision_runs[0][name])), "float64"
            elif self.kind(name) != "float64" and name not in self._doubtful:
                return False
        return any(free is None or size <= cancellation_floor(free, kind) for free in self.free(name))

    def is_small(self, name: str) -> bool:
        """Whether a gradient is no larger than the rounding of its terms, or of the steps before it."""
        size = largest_entry(self.derived[name])
        if name in self._doubtful or 0 < size <= self.floor(name):
            return True
        return name in self.faint and any(size <= 16 * noise for noise in self.noise(name))

    @cached_property
    def faint(self) -> frozenset[str]:
        """The leaves with a gradient no larger than the rounding of the largest terms of the sweep."""
        most = max(self.terms.values(), default=0.0)
        floors = {name: cancellation_floor(most, self.kind(name)) for name in self.derived}
        return frozenset(name for name, floor in floors.items() if 0 < largest_entry(self.derived[name]) <= floor)

    def free(self, name: str) -> Iterator[float | None]:
        """Iterate over the largest entry of a small gradient with random weights, for which terms do not cancel.

        None if that cannot be computed.
        """
        for lot in range(LOTS):
            if lot not in self._drawn:
                self._drawn[lot] = self.draw(lot)
            yield self._drawn[lot].get(name)

    def draw(self, lot: int) -> dict[str, float]:
        """Return the largest entries of all small gradients for one draw of weights."""
        try:
            small = [own for own in self.program.wanted if self.is_small(own)]
            found = pull_recording(self.program, self.seeds, small, drawn=draw_weights(lot))
        except SymgradError:  # a backward of the user's own is known for one v
            return {}
        return {own: largest_entry(part) for own, part in found.items()}

    def verdict(self, name: str, got: Array | None, before: Any) -> Check:
        """Return how far torch's vᵀJ is from the derived one, and whether rounding or a rule of torch explains it."""
        if got is None:
            return skipped("torch", "nothing came")
        own = as_float(self.derived[name])
        if got.shape == own.shape:
            self.open[name] = self.open[name] | ~np.isfinite(got)
        kind, tolerance = self.kind(name), precision_of(self.kind(name))[0]

        def held(noise: float, other: Array = own) -> Check:
            """Compare where both have numbers, with an allowance for rounding."""
            floor = max(self.floor(name), 16 * noise)
            return Check("torch", *relative_difference(other, got, tolerance, before, floor, self.open[name]))

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
        if not near and kind == "float32" and self.is_torch_rounding(name, np.where(self.open[name], 0.0, got)):
            if error > NO_DIGIT and some:
                self._doubtful.add(name)
                self._drawn.clear()
            self.coarse |= {} if self.rounding(name) or not some else {name: error}
            return replace(check, passed=True)
        if check.passed and not near and kind != "float64":
            self.rough[name] = error
        return judge(check, [at_jumps, by_own_rule])

    @cached_property
    def ruled(self) -> Mapping[str, Array]:
        """The gradients with torch's rules for calls where these are not derivatives; empty without such calls."""
        found = pull_recording(self.program, self.seeds, noted=self.rules, settle=apply_torch_rule)
        return found if self.rules else {}

    def jumps(self, name: str) -> Array:
        """Return where a gradient changes when the matrices that are decomposed change in their last digits.

        Vectors of equal eigenvalues are not unique, so a loss that distinguishes them has no gradient.
        """
        own, other = as_float(self.derived[name]), as_float(self.turned.get(name, self.derived[name]))
        still: Array = np.abs(own - other) <= JUMP * max(1.0, largest_entry(own))
        return ~still

    @cached_property
    def turned(self) -> dict[str, Array]:
        """The gradients with every decomposed matrix, and its factors, perturbed; empty without such matrices."""
        program, lots = self.program, np.random.default_rng(0)
        arrays = dict(program.arrays)
        entries = [(s, entry) for s in program.recording.steps if (entry := entry_of(s.op)) is not None]
        solved = [s for s, entry in entries if entry.saved.auxiliaries or entry.saved.residual is not None]
        arrays |= {a: nudge_matrix(arrays[a], lots) for s in solved for a in s.tensors}
        try:
            for step in (s for s, entry in entries if entry.saved.residual is not None):
                compute(step, program.recording, arrays)
            moved = program.values.with_arrays(arrays)
            return pull_recording(program, self.seeds, values=moved) if solved else {}
        except SymgradError:
            return {}

    def noise(self, name: str) -> Iterator[float]:
        """Iterate over estimates of the rounding error: sweeps with perturbed terms, and with a perturbed forward.

        A term is perturbed by the rounding of its step: the step's result for cotangents of this size with random
        signs. Where 1 − out² is small (tanh is nearly flat), the last digit of ``out`` matters most. Each value is the
        largest so far.
        """
        most = 0.0
        for number in range(1 + LOTS):
            moved = self._moved.setdefault(number, {})
            if name not in moved:
                moved |= self.move(number, {*self.faint, name})
            most = max(most, moved[name])
            yield most

    def move(self, number: int, names: Collection[str]) -> dict[str, float]:
        """Return how far gradients move with perturbed terms (number 0), or with a perturbed forward pass."""
        unit = max((precision_of(kind)[1] for kind in self.kinds.values()), default=2.3e-16)
        program, found = self.program, dict.fromkeys(names, 0.0)
        wanted = [name for name in program.wanted if name in found]

        def taken(name: str, other: Array) -> None:
            gap = np.abs(as_float(other) - as_float(self.derived[name]))
            found[name] = float(gap.max()) if gap.size and np.isfinite(gap).all() else 0.0

        moved = partial(pull_recording, program, self.seeds, wanted, taken=taken)
        try:
            if number == 0:
                moved(hook=rounding_noise(program.recording, program.values, unit, 0))
            else:
                moved(values=Values(perturbed(program.arrays, number - 1, unit), program.values.sizes))
        except SymgradError:
            return dict.fromkeys(names, 0.0)
        return found

    @cached_property
    def precision_runs(self) -> tuple[Mapping[str, Array | None], ...] | None:
        """The gradients in double precision, derived and by torch, and torch's in single precision.

        None if a step is opaque, several outputs have seeds, or torch does not run the program.
        """
        program = self.program
        if program.boxes or len(set(program.ends)) != 1:
            return None
        whole = replace(program.recording, output=program.ends[0])
        given = {tensor.name: as_float(program.arrays[tensor.name]) for tensor in whole.inputs}
        seed = as_float(self.seeds[program.ends[0]])
        try:
            own = CallwisePull(whole, forward(whole, given), program.wanted).back(self.seeds)
            double, single = (run_torch(whole, given, seed, program.wanted, k) for k in ("float64", "float32"))
        except (SymgradError, RuntimeError, ValueError, TypeError):
            return None
        return None if double is None or single is None else (own, double.gradients, single.gradients)

    def is_torch_rounding(self, name: str, got: Array) -> bool:
        """Whether the difference of ``got`` from the derived gradient is explained by torch's rounding."""
        if self.precision_runs is None or any(run.get(name) is None for run in self.precision_runs):
            return False
        own, double, single = (as_float(run[name]) for run in self.precision_runs)
        if not own.shape == double.shape == got.shape:
            return False
        left, here, again = (float(np.abs(a - double).max(initial=0)) for a in (own, got, single))
        return bool(np.isfinite([left, here, again]).all()) and left <= SHRINKS * here and here <= ALIKE * again


def nudge_matrix(array: Array, lots: np.random.Generator) -> Array:
    """Return a matrix perturbed in its last digits, symmetrically if it is square."""
    moved = lots.uniform(-1.0, 1.0, np.shape(array)) * NEAR * max(1.0, largest_entry(array))
    nudged: Array = as_float(array) + 2 * symmetric_part(moved)
    return nudged


def apply_torch_rule(
    origin: CallOrigin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """Return ``arrived`` with torch's numbers where its backward contradicts its forward pass, and a description.

    Nothing is replaced unless that explains every entry that differs.
    """
    found, reason = dict(arrived), ""
    for name, ours, theirs, apart in compare_with_torch(origin, arrived, cotangent):
        if not apart.any():
            continue
        differ = [tuple(int(i) for i in at) for at in np.argwhere(apart)]
        entries = as_float(arrays[name])
        for at in differ[:MOST_RULES]:
            total = total_at(origin, name, at, cotangent)
            if total is None or not contradicts_itself(float(ours[at]), float(theirs[at]), float(entries[at]), total):
                return dict(arrived), ""
        at, count = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        found[name] = theirs
        reason = reason or (
            f"its backward returns {format_digits(float(theirs[at]))} for entry {list(at)}{count} of its argument, "
            f"where its forward pass has the slope {format_digits(float(ours[at]))} on both sides"
        )
    return found, reason


def total_at(origin: CallOrigin, name: str, at: tuple[int, ...], cotangent: Array) -> Callable[[float], float] | None:
    """Σ v·result of a call in double precision, for a shift of one entry of an argument; None where it is complex."""
    box = DoublePrecisionCall(**vars(origin.box))
    moving = box.arguments[box.names.index(name)]
    if moving.held.is_complex():
        return None

    def total(shift: float) -> float:
        tensors = {node: box.fresh(node.tensor().detach()).clone() for node in box.arguments}
        tensors[moving][at] += shift
        try:
            with torch.no_grad():
                result = as_float(as_numbers(box.run([tensors[node] for node in box.arguments])[box.index]))
        except (RuntimeError, TypeError, ValueError):  # not of these types, then
            return float("nan")
        return float(np.sum(as_float(cotangent) * result.reshape(np.shape(cotangent))))

    return total
