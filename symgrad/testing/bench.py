"""The input of all batteries: the candidate, its reference, and one run with its seeds.

Comes in: a candidate that ran, and its reference, if there is one. Goes out: a `Bench`, with one backward for each
seed through one graph.
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
"""The number of perturbations, the tolerance relative to their effect, their larger size, and a factor of epsilon."""


@dataclass(frozen=True, eq=False)
class Trial:
    """One seed and one input: the expected gradient, the candidate's, and the tolerance."""

    weights: Weights
    expected: Array
    got: Array
    limit: float
    scale: float
    eager: float = 0.0
    """The error of torch's own backward in the same dtype, relative to ``scale``."""

    def same(self, other: Array) -> bool:
        """Whether ``other`` equals the candidate's gradient, with a tolerance scaled to that gradient."""
        times = max(1.0, largest_finite(self.got) / self.scale) if self.scale else 1.0
        return other.shape == self.got.shape and bool((self.gaps(other) <= times * self.limit).all())

    def gaps(self, other: Array) -> Array:
        """Return |other − got|, infinite where only one of them is finite."""
        return gaps(self.got, other)

    @cached_property
    def off(self) -> Array:
        """The entries that differ; entries without a reference are NaN in ``expected`` and not compared."""
        return (self.gaps(self.expected) > self.limit) & np.isfinite(self.expected)


@dataclass(frozen=True, eq=False)
class Bench:
    """A candidate's ``pulls`` for each of ``weights``, and the ``expected`` gradients if there is a ``truth``."""

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
        """The reference, if it is a formula."""
        return self.truth if isinstance(self.truth, DerivedReference) else None

    @property
    def mixed(self) -> tuple[Array, ...]:
        """The first seed of random integers."""
        return self.weights[0].seeds

    @property
    def baseline(self) -> PullResult:
        """The candidate's gradients for that seed."""
        return self.pulls[0]

    @property
    def movable(self) -> tuple[str, ...]:
        """The inputs whose values may be replaced in a run, which a module's parameters are not."""
        return tuple(n for n in self.candidate.names if n in getattr(self.candidate, "inputs", ()))

    @cached_property
    def flat(self) -> Array:
        """|v| of every seed as a row, with all outputs concatenated."""
        return np.abs([np.concatenate([seed.reshape(-1) for seed in w.seeds]) for w in self.weights])

    @cached_property
    def trials(self) -> dict[str, list[Trial]]:
        """The trials of all seeds for each input; a missing gradient is zeros."""
        return {name: self._try_seeds(name) for name in self.candidate.names}

    def _try_seeds(self, name: str) -> list[Trial]:
        """Return one trial per seed; values outside the dtype's range, also in torch's own backward, are NaN."""
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
        """The trials of an input; wrong ones get a tolerance that allows for cancellation, as in 1 − out² near 1."""
        return cache(
            lambda name: [self._widen(name, trial) if trial.off.any() else trial for trial in self.trials[name]]
        )

    def _widen(self, name: str, trial: Trial) -> Trial:
        """Return a trial whose tolerance includes the effect of perturbing all values of the formula."""
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
    """Return the size of a gradient that is rounding alone, as cancelled terms of ordinary size; else 0."""
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
    """Run the backward for every seed, with a v of the left null space if J is known."""
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
    """Return the expected gradient for each seed, and the rows of J if the seeds contain the whole basis."""
    basis = {n for n, w in enumerate(weights) if w.basic}
    if not basis or len(basis) != sum(seed.size for seed in weights[0].seeds):
        return [truth.pull(w.seeds) for w in weights], {}
    pulled = {n: truth.pull(weights[n].seeds) for n in sorted(basis)}
    rows = {name: np.stack([pulled[n][name] for n in sorted(basis)]) for name in names}
    return [pulled[n] if n in basis else right_gradients(truth, rows, w.seeds) for n, w in enumerate(weights)], rows


def right_gradients(truth: GradientReference, rows: Mapping[str, Array], seeds: Sequence[Array]) -> Mapping[str, Array]:
    """Return vᵀJ, from the rows of J if all are known and finite, else by a backward."""
    if not rows or not all(bool(np.isfinite(array).all()) for array in rows.values()):
        return truth.pull(seeds)
    flat = np.concatenate([seed.reshape(-1) for seed in seeds])
    return {name: np.tensordot(flat, array, 1) for name, array in rows.items()}


@dataclass(frozen=True)
class BatteryResult:
    """A battery and its findings."""

    battery: Battery
    findings: tuple[Finding, ...] = ()


def battery_result(name: str, count: int, findings: Sequence[Finding], note: str = "") -> BatteryResult:
    """Return the result of a battery, which fails if it has findings."""
    return BatteryResult(Battery(name, FAILED if findings else PASSED, count, note), tuple(findings))


def not_made(name: str, why: str) -> BatteryResult:
    """Return the result of a battery that was not run, with the reason."""
    return BatteryResult(Battery(name, NOT_MADE, 0, why))


def gradient_gaps(
    bench: Bench, first: PullResult, second: PullResult, share: float = 0.0
) -> Iterator[tuple[str, str, float, float]]:
    """Iterate over the inputs whose gradients differ: the input, its worst entry, and both numbers.

    Differences up to ``share`` of the largest entry are ignored.
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
    """Return the index of the largest entry."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(array)), array.shape))


def six_digits(number: float) -> str:
    """Format a number for a message, with six digits."""
    return f"{number:.6g}"


def format_distinct(first: float, second: float) -> tuple[str, str]:
    """Format two numbers with enough digits to distinguish them."""
    for digits in (6, 9, 12, 17):
        texts = (f"{first:.{digits}g}", f"{second:.{digits}g}")
        if texts[0] != texts[1]:
            break
    return texts


@dataclass(frozen=True, eq=False)
class EagerRun:
    """The outputs of eager torch, and its gradients for each seed."""

    outputs: tuple[Array, ...]
    gradients: tuple[Mapping[str, Array], ...]


def run_eager(formula: DerivedReference, dtype: str, every: Sequence[Weights]) -> EagerRun | None:
    """Run the formula's torch calls in the candidate's dtype; None without torch."""
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
