"""Everything the batteries work on: the candidate, the right gradient, and one plain run with its seeds.

Comes in: a candidate that ran, and the truth, where there is one. Goes out: a `Bench`, on which each seed was pulled
back once through one graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any

import numpy as np

from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array
from symgrad.numeric.exact import gaps, largest_finite
from symgrad.oracles.torch import data_inputs, torch_forward, torch_leaves, torch_version
from symgrad.testing.candidates import Candidate, CandidateRun, PullResult, listening
from symgrad.testing.candidates.watching import to_float64
from symgrad.testing.references import DerivedReference, GradientReference
from symgrad.testing.report import FAILED, NOT_MADE, PASSED, Battery, Finding
from symgrad.testing.trial_seeds import EPSILON, LEAST, GradientTolerance, Weights, integer_seeds, null_seed, real_seeds

SHAKES, SPREAD, FARTHER, NOTHING = 4, 4.0, 64.0, 4.0
"""How often rounding is tried, how many times what it moved a gradient may be off, and how much farther it is tried."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One seed and one input: the gradient that was expected, the one that came, and what may be between them."""

    weights: Weights
    expected: Array
    got: Array
    limit: float
    scale: float
    eager: float = 0.0
    """How far off torch's own backward is in the same type, relative to ``scale``."""

    def same(self, other: Array) -> bool:
        """Whether ``other`` is what came, which may be larger than what was expected."""
        times = max(1.0, largest_finite(self.got) / self.scale) if self.scale else 1.0
        return other.shape == self.got.shape and bool((self.gaps(other) <= times * self.limit).all())

    def gaps(self, other: Array) -> Array:
        """|other − got|, infinite where only one of them is a number."""
        return gaps(self.got, other)

    @cached_property
    def off(self) -> Array:
        """Where what came is not what was expected; entries without a right answer are left out, NaN."""
        return (self.gaps(self.expected) > self.limit) & np.isfinite(self.expected)


@dataclass(frozen=True, eq=False)
class Bench:
    """``pulls`` are what came for each of ``weights``; ``expected`` the right gradients, where there is a ``truth``."""

    candidate: Candidate
    run: CandidateRun
    truth: GradientReference | None
    rounding: GradientTolerance
    arrays: Mapping[str, Array]
    weights: tuple[Weights, ...]
    pulls: tuple[PullResult, ...]
    expected: tuple[Mapping[str, Array], ...] = ()
    rows: Mapping[str, Array] = field(default_factory=dict)
    number: int = 0
    eager: EagerRun | None = None

    @property
    def formula(self) -> DerivedReference | None:
        """The truth, where it is a formula."""
        return self.truth if isinstance(self.truth, DerivedReference) else None

    @property
    def mixed(self) -> tuple[Array, ...]:
        """The first seed of random integers."""
        return self.weights[0].seeds

    @property
    def baseline(self) -> PullResult:
        """What came for it."""
        return self.pulls[0]

    @property
    def movable(self) -> tuple[str, ...]:
        """The inputs that a run may be given other numbers for: parameters of a module stay."""
        return tuple(n for n in self.candidate.names if n in getattr(self.candidate, "inputs", ()))

    @cached_property
    def flat(self) -> Array:
        """|v| of every seed as a row, all outputs one behind the other."""
        return np.abs([np.concatenate([seed.reshape(-1) for seed in w.seeds]) for w in self.weights])

    @cached_property
    def trials(self) -> dict[str, list[Trial]]:
        """All seeds for each input; an input that got no gradient got zeros."""
        return {name: self._try_seeds(name) for name in self.candidate.names}

    def _try_seeds(self, name: str) -> list[Trial]:
        """Each seed once; what the type does not hold, on the way of torch's own backward either, has no answer."""
        found = []
        largest_expected = [largest_finite(e[name]) for e in self.expected]
        if name in self.rows and len(self.rows[name]):
            with np.errstate(invalid="ignore"):  # 0·∞, where a slope is infinite
                floors = [largest_finite(sums) for sums in np.tensordot(self.flat, np.abs(self.rows[name]), 1)]
        else:
            sizes = self.flat.max(1, initial=0.0)
            each = max((e / s for e, s in zip(largest_expected, sizes, strict=True) if s), default=0.0)
            floors = [each * size for size in sizes]
        told = zip(self.weights, self.pulls, self.expected, map(max, floors, largest_expected), strict=True)
        for number, (weights, pull, expected, scale) in enumerate(told):
            came, right = pull.gradients.get(name), expected[name]
            got = np.zeros(right.shape) if came is None else came
            held, eager = self.rounding.within(right) & (not pull.failure), 0.0
            if self.eager is not None and name in self.eager.gradients[number]:
                theirs = self.eager.gradients[number][name]
                held = held & np.isfinite(theirs)
                eager = float(np.abs(theirs - right)[held & np.isfinite(right)].max(initial=0.0)) / max(scale, 1e-30)
            if not held.all():
                right, got = np.where(held, right, np.nan), np.where(held, got, np.nan)
            largest = 0.0 if scale else largest_finite(got)
            limit = self.rounding.beside(eager) * max(scale, largest, LEAST.get(self.rounding.dtype, 0.0))
            found.append(Trial(weights, right, got, limit, scale or largest, eager))
        return found

    @cached_property
    def widened(self) -> Callable[[str], Sequence[Trial]]:
        """The trials of an input, those that are off with the limit that cancellation asks for; computed once.

        1 − out² has few digits near out = 1.
        """
        return cache(
            lambda name: [self._widen(name, trial) if trial.off.any() else trial for trial in self.trials[name]]
        )

    def _widen(self, name: str, trial: Trial) -> Trial:
        """A trial with a limit beside what rounding of all that stands in the formula does to its gradient."""
        if self.formula is None:
            return trial
        share, spread = EPSILON.get(self.rounding.dtype, EPSILON["float64"]), 0.0
        for number in range(SHAKES):
            near, far = (
                np.abs(self.formula.shaken(trial.weights.seeds, name, share * by, number) - trial.expected)
                for by in (1.0, FARTHER)
            )
            smooth = np.isfinite(near) & (far >= FARTHER / 8 * near)  # at a tie it jumps, however little is moved
            spread = max(spread, float(near[smooth].max(initial=0.0)))
        return replace(trial, limit=max(trial.limit, SPREAD * spread, rounding_floor(trial, self.trials[name])))


def rounding_floor(trial: Trial, trials: Sequence[Trial]) -> float:
    """What of a gradient is rounding alone, where all of it is: what cancels beside entries of an ordinary size."""
    largest = max((largest_finite(t.expected) for t in trials if "onehot" in t.weights.name), default=0.0)
    floor = NOTHING * EPSILON["float64"] * largest
    return floor if max(largest_finite(trial.expected), largest_finite(trial.got)) <= floor else 0.0


def make_bench(
    candidate: Candidate,
    run: CandidateRun,
    truth: GradientReference | None,
    rounding: GradientTolerance,
    arrays: Mapping[str, Array],
    number: int,
) -> Bench:
    """The plain run, every seed pulled back once; a v of the left null space is added where J is known."""
    shapes = [out.shape for out in run.outputs]
    weights = list(integer_seeds(shapes, number))
    expected: list[Mapping[str, Array]] = []
    rows: dict[str, Array] = {}
    reach = 0.0
    if truth is not None:
        expected, rows = expected_gradients(truth, weights, candidate.names)
        sums = [np.abs(array).sum(0) for array in rows.values()] or [array for e in expected for array in e.values()]
        reach = max(map(largest_finite, sums), default=0.0)
    weights += real_seeds(shapes, run.dtypes, number, rounding.dtype, reach)
    blind = null_seed(rows, shapes, run.dtypes)
    weights += [blind] if blind is not None else []
    if truth is not None:
        expected += [right_gradients(truth, rows, w.seeds) for w in weights[len(expected) :]]
    pulls: list[PullResult] = []
    for w in weights:
        pulls.append(run.pull(w.seeds, watched="onehot" not in w.name))
        if pulls[-1].failure and len(pulls) == 1:
            weights, expected = weights[:1], expected[:1]
            break
    eager = None
    if isinstance(truth, DerivedReference) and rounding.dtype != "float64":
        eager = run_eager(truth, rounding.dtype, weights)
    bench = Bench(
        candidate, run, truth, rounding, arrays, tuple(weights), tuple(pulls), tuple(expected), rows, number, eager
    )  # fmt: skip
    if eager is None or rounding.given:
        return bench
    off = max((t.eager for name in candidate.names for t in bench.trials[name]), default=0.0)
    return replace(bench, rounding=replace(rounding, eager=off))


def expected_gradients(
    truth: GradientReference, weights: Sequence[Weights], names: Sequence[str]
) -> tuple[list[Mapping[str, Array]], dict[str, Array]]:
    """The right gradient for each seed, and the rows of J where the seeds hold the whole basis."""
    basis = {n for n, w in enumerate(weights) if w.basic}
    if not basis or len(basis) != sum(seed.size for seed in weights[0].seeds):
        return [truth.pull(w.seeds) for w in weights], {}
    pulled = {n: truth.pull(weights[n].seeds) for n in sorted(basis)}
    rows = {name: np.stack([pulled[n][name] for n in sorted(basis)]) for name in names}
    return [pulled[n] if n in basis else right_gradients(truth, rows, w.seeds) for n, w in enumerate(weights)], rows


def right_gradients(truth: GradientReference, rows: Mapping[str, Array], seeds: Sequence[Array]) -> Mapping[str, Array]:
    """vᵀJ, which is linear in v: where every row of J is known and finite they are weighed, and nothing is pulled."""
    if not rows or not all(bool(np.isfinite(array).all()) for array in rows.values()):
        return truth.pull(seeds)
    flat = np.concatenate([seed.reshape(-1) for seed in seeds])
    return {name: np.tensordot(flat, array, 1) for name, array in rows.items()}


@dataclass(frozen=True)
class BatteryResult:
    """A battery and what it found."""

    battery: Battery
    findings: tuple[Finding, ...] = ()


def battery_result(name: str, count: int, findings: Sequence[Finding], note: str = "") -> BatteryResult:
    """Failed where anything was found."""
    return BatteryResult(Battery(name, FAILED if findings else PASSED, count, note), tuple(findings))


def not_made(name: str, why: str) -> BatteryResult:
    """A battery that says nothing here, and why."""
    return BatteryResult(Battery(name, NOT_MADE, 0, why))


def gradient_gaps(
    bench: Bench, first: PullResult, second: PullResult, share: float = 0.0
) -> Iterator[tuple[str, str, float, float]]:
    """Where two gradients of the candidate differ: the input, the worst entry and both numbers, by input.

    ``share`` of the largest entry may be between them; rounding is no difference.
    """
    for name, a in first.gradients.items():
        if name not in second.gradients:
            continue
        b = second.gradients[name]
        if a is not None and b is not None and np.array_equal(a, b):
            continue
        shape = bench.candidate.shapes[name]
        left, right = (np.zeros(shape) if g is None else g for g in (a, b))
        gap = gaps(left, right)
        if gap.size and gap.max() > share * max(largest_finite(left), 1.0):
            at = largest_at(gap)
            yield name, format_entry_name(f"{name}.grad", at), float(left[at]), float(right[at])


def largest_at(array: Array) -> tuple[int, ...]:
    """The place of the largest entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape))


def six_digits(number: float) -> str:
    """A number in a message: six digits, more where they are needed."""
    return f"{number:.6g}"


def format_distinct(first: float, second: float) -> tuple[str, str]:
    """Two numbers in as many digits as it takes to tell them apart."""
    for digits in (6, 9, 12, 17):
        texts = (f"{first:.{digits}g}", f"{second:.{digits}g}")
        if texts[0] != texts[1]:
            break
    return texts


@dataclass(frozen=True, eq=False)
class EagerRun:
    """The outputs, and for each seed the gradients."""

    outputs: tuple[Array, ...]
    gradients: tuple[Mapping[str, Array], ...]


def run_eager(formula: DerivedReference, dtype: str, every: Sequence[Weights]) -> EagerRun | None:
    """The table's torch calls on inputs of the candidate's type."""
    if torch_version() is None:
        return None
    import torch

    wanted = {*formula.wanted}.difference(*map(data_inputs, formula.programs))
    with listening(), torch.enable_grad():
        found = torch_leaves(formula.inputs, wanted, dtype)
        outs = [torch_forward(program, found) for program in formula.programs]
        leaves = {n: found[n] for n in formula.wanted if n in found and found[n].requires_grad}
        ends = [out for out in outs if out.requires_grad]
        gradients = []
        for weights in every:
            pairs = zip(outs, weights.seeds, strict=True)
            seeds = [torch.as_tensor(seed).to(out.dtype) for out, seed in pairs if out.requires_grad]
            came: Sequence[Any] = [torch.zeros_like(leaf) for leaf in leaves.values()]
            if ends and leaves:
                came = torch.autograd.grad(ends, [*leaves.values()], seeds, retain_graph=True, materialize_grads=True)
            gradients.append({n: to_float64(g) for n, g in zip(leaves, came, strict=True)})
        return EagerRun(tuple(map(to_float64, outs)), tuple(gradients))
    return None
