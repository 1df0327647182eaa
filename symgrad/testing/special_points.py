"""Checks at special points: kinks, where several gradients are valid, and small integers, where rounding is excluded.

At a kink any number between both slopes is a valid derivative. Slopes are one-sided quotients of the formula's forward
pass whose difference does not vanish with the step. Comes in: the bench, and the trials of one input. Goes out: an
`Excuse`, the same trials with valid choices accepted, or a message about an invalid one; and the battery that reports
samples within a difference step of a kink.

If all intermediate numbers are integers, low precision does not round, and a battery requires equality. It applies to
functions that are linear in each input (products, sums, convolutions), in dtypes below float64, if every intermediate
gradient is representable: a mean of five divides by 5, and 1/5 is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symgrad.errors import SymgradError
from symgrad.explanation.evidence import nonzero_places
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, as_float, is_exact, unit_at
from symgrad.numeric.vector_products import Pull
from symgrad.oracles.numerical import APART, STEPS, Sides, lies_between, one_sided_slopes, two_slopes
from symgrad.program import Apply
from symgrad.testing.bench import (
    BatteryResult,
    Bench,
    Trial,
    battery_result,
    format_distinct,
    not_made,
    right_gradients,
    run_eager,
    six_digits,
)
from symgrad.testing.candidates import Seeds, Variation
from symgrad.testing.references import DerivedReference
from symgrad.testing.report import Finding
from symgrad.testing.trial_seeds import EPSILON, Weights

GRADCHECK = 1e-6
"""The step of ``torch.autograd.gradcheck``."""
MOST, DIRECTIONS = 16, 6
JUMP = 1e-3

LARGEST = 2
SPARE = 2
"""A factor for intermediate sums larger than the observed ones."""
MOST_SEEDS = 64
"""The largest number of outputs for which every row of J is computed."""


@dataclass(frozen=True, eq=False)
class Excuse:
    """The trials after valid choices at kinks were accepted, a note on these, and a message about an invalid one."""

    trials: Sequence[Trial]
    note: str = ""
    outside: str = ""

    @property
    def passed(self) -> bool:
        """Whether all trials are right."""
        return not any(trial.off.any() for trial in self.trials)


def output_along(
    formula: DerivedReference, seeds: Seeds, direction: Mapping[str, Array]
) -> Callable[[float], float]:  # fmt: skip
    """Return Σ v·out as a function of a step along a direction."""
    return lambda shift: weighted_output(reference_at_step(formula, direction, shift), seeds)


def reference_at_step(formula: DerivedReference, direction: Mapping[str, Array], step: float) -> DerivedReference:
    """Return the formula at a step along a direction."""
    known = formula.inputs
    return formula.at({name: as_float(known[name]) + step * u for name, u in direction.items() if name in known})


def weighted_output(formula: DerivedReference, seeds: Seeds) -> float:
    """Return Σ v·out."""
    return float(sum(np.sum(s * out) for s, out in zip(seeds, formula.outputs, strict=True) if s is not None))


def excuse_kinks(bench: Bench, name: str, excuse: Excuse) -> Excuse:
    """Accept gradients at kinks that are valid."""
    formula, trials = bench.formula, excuse.trials
    if formula is None or name not in formula.inputs:
        return excuse
    found, note, named = [], "", False
    for number, trial in enumerate(trials):
        off = [tuple(int(i) for i in at) for at in np.argwhere(trial.off)]
        right = trial.expected.copy()
        size = max((float(np.abs(s).max(initial=0.0)) for s in trial.weights.seeds), default=0.0) or 1.0
        for at in off[:MOST]:
            seeds = [s / size for s in trial.weights.seeds]
            unscaled = two_slopes(output_along(formula, seeds, {name: unit_at(at, right.shape)}))
            if unscaled is None:
                return excuse
            sides = size * unscaled[0], size * unscaled[1]
            entry, yours = format_entry_name(name, at), float(trial.got[at])
            value = float(as_float(formula.inputs[name])[at])
            told = f"{entry} = {six_digits(value)} is a kink: left {six_digits(round(sides[0], 6))}, "
            told += f"right {six_digits(round(sides[1], 6))}"
            if not lies_between_slopes(yours / size, unscaled, bench.rounding.allowed):
                return Excuse(trials, outside=f"{told}, and {six_digits(yours)} does not lie between")
            right[at] = yours
            if not note or (trial.weights.basic and not named):
                named = trial.weights.basic
                note = f"{told}, yours {six_digits(yours)} is valid, as is any number between them"
        if off and trial.weights.basic:
            lost = tied_gradients(bench, formula, number, name, off[:MOST])
            if lost:
                return Excuse(trials, outside=lost)
        found.append(replace(trial, expected=right))
    return Excuse(found, note)


def lies_between_slopes(value: float, sides: Sides, share: float) -> bool:
    """Whether a number lies between two slopes, up to rounding."""
    low, high = sorted(sides)
    return lies_between(value, (low - share * abs(low), high + share * abs(high)))


def tied_gradients(
    bench: Bench, formula: DerivedReference, number: int, name: str, off: Sequence[tuple[int, ...]]
) -> str:
    """Return a message if gradients are valid one by one but not together, as two zeros at a tie; else empty."""
    seeds, gradients = bench.weights[number].seeds, bench.pulls[number].gradients
    generator = np.random.default_rng(0)
    tied = {n: tied_entries(bench, formula, number, n) for n in bench.candidate.names}
    for trial in range(DIRECTIONS):
        u = {n: np.where(t, 1.0 if trial == 0 else generator.integers(1, 4, t.shape), 0.0) for n, t in tied.items()}
        if not any(a.any() for a in u.values()):
            return ""
        alone = [{n: a * unit_at(at, a.shape)} for n, a in u.items() for at in nonzero_places(a)]
        whole, *parts = (one_sided_slopes(output_along(formula, seeds, way), STEPS[1]) for way in (u, *alone))
        if abs(whole[1] - sum(p[1] for p in parts)) <= APART * max(1.0, abs(whole[1])):
            continue
        got = [0.0 if gradients.get(n) is None else float(np.sum(np.asarray(gradients[n]) * a)) for n, a in u.items()]
        if not lies_between_slopes(sum(got), whole, bench.rounding.allowed):
            names = ", ".join(format_entry_name(n, at) for n, a in u.items() for at in nonzero_places(a)[:2])
            low, high = sorted(six_digits(round(side, 6)) for side in whole)
            between = low if low == high else f"{low} to {high}"
            return f"{names} are tied, and their gradients add up to {six_digits(sum(got))} instead of {between}"
    return ""


def tied_entries(bench: Bench, formula: DerivedReference, number: int, name: str) -> Array:
    """Return the entries of an input at which an output has two slopes."""
    found = np.zeros(bench.candidate.shapes[name], dtype=bool)
    for at in list(np.ndindex(*found.shape))[: 4 * MOST]:
        total = output_along(formula, bench.weights[number].seeds, {name: unit_at(at, found.shape)})
        found[at] = two_slopes(total) is not None
    return found


def check_kinks(bench: Bench) -> BatteryResult:
    """Report samples at a kink, or within a difference step of one."""
    formula = bench.formula
    if formula is None:
        return not_made("kink", "there is no formula")
    notes = list(kink_notes(bench, formula))
    return battery_result("kink", sum(bench.arrays[n].size for n in bench.candidate.names), (), "; ".join(notes[:4]))


def kink_notes(bench: Bench, formula: DerivedReference) -> Iterator[str]:
    """Iterate over a sentence for each entry at or near a kink."""
    generator = np.random.default_rng(1)
    seeds = tuple(np.ones(s.shape) for s in bench.mixed)
    names = [n for n in bench.candidate.names if n in formula.inputs]
    base = right_gradients(formula, bench.rows, seeds)
    scale = max([1.0, *(float(np.abs(g[np.isfinite(g)]).max(initial=0.0)) for g in base.values())])
    lots = {n: generator.uniform(0.5, 1.0, np.shape(formula.inputs[n])) for n in names}
    sides = [reference_at_step(formula, lots, shift).pull(seeds) for shift in (-GRADCHECK, GRADCHECK)]
    for name in names:
        with np.errstate(invalid="ignore"):
            jumps = np.max([np.abs(side[name] - base[name]) for side in sides], axis=0) > JUMP * scale
        told = [
            note for at in nonzero_places(jumps)[:MOST] for note in entry_kink_notes(formula, name, at, seeds, scale)
        ]
        count = int(jumps.sum())
        if len(told) == min(count, MOST) and 2 * count > jumps.size > 1:
            yield (
                f"{count} of the {jumps.size} entries of {name} lie at or beside a kink, where any number between the "
                f"two slopes passes: this test says little about {'them' if count < jumps.size else name}"
            )
        yield from told


def entry_kink_notes(
    formula: DerivedReference, name: str, at: tuple[int, ...], seeds: Seeds, scale: float
) -> Iterator[str]:
    """Yield a sentence about one entry if it is at or near a kink by itself."""
    direction = {name: unit_at(at, np.shape(formula.inputs[name]))}
    outs = [reference_at_step(formula, direction, shift) for shift in (-GRADCHECK, GRADCHECK)]
    left, right = (float(f.pull(seeds)[name][at]) for f in outs)
    values = [weighted_output(f, seeds) for f in (outs[0], formula, outs[1])]
    if abs(right - left) <= JUMP * scale or not np.isfinite(values).all():
        return
    if not all(lies_between(secant, (left, right)) for secant in np.diff(values) / GRADCHECK):  # a pole, or a cusp
        return
    value = float(as_float(formula.inputs[name])[at])
    closer = [reference_at_step(formula, direction, shift / 1000) for shift in (-GRADCHECK, GRADCHECK)]
    low, high = (float(f.pull(seeds)[name][at]) for f in closer)
    lies = "is" if abs(high - low) > JUMP * scale else f"lies within {GRADCHECK:g} of"
    secant = (values[2] - values[0]) / (2 * GRADCHECK)
    entry, here = format_entry_name(name, at), float(formula.pull(seeds)[name][at])
    yield (
        f"{entry} = {six_digits(value)} {lies} a kink: the slope is {six_digits(left)} left of it and "
        f"{six_digits(right)} right of it, the formula gives {six_digits(here)}; a difference of step {GRADCHECK:g}, "
        f"as gradcheck takes, gives {six_digits(secant)}"
    )


def check_whole_numbers(bench: Bench) -> BatteryResult:
    """Compare the candidate with the formula at integer inputs and seeds."""
    formula, dtype = bench.formula, bench.rounding.dtype
    if formula is None or dtype == "float64" or dtype not in EPSILON:
        return not_made("whole numbers", "the inputs are float64" if dtype == "float64" else "there is no formula")
    generator = np.random.default_rng(bench.number + 3)
    names = [n for n in bench.movable if n in formula.inputs]
    whole = {n: generator.integers(-LARGEST, LARGEST + 1, bench.candidate.shapes[n]) for n in names}
    seeds = [generator.integers(-LARGEST, LARGEST + 1, s.shape) for s in bench.mixed]
    try:
        at = formula.at(whole)
        if set(names) != set(bench.candidate.names) or not at.whole or not is_linear_per_input(formula, whole, seeds):
            return not_made("whole numbers", "the function is not linear in each input with integer coefficients")
        way = ExactSweep(EPSILON[dtype])
        right = {n: np.zeros(bench.candidate.shapes[n]) for n in names}
        for number, seed in enumerate(seeds):
            for name, share in way.followed(at, number, seed).items():
                right[name] = right[name] + share
    except SymgradError as error:
        return not_made("whole numbers", error.problem)
    if way.refusal:
        return not_made("whole numbers", f"{way.refusal} {dtype}")
    weights = Weights("", tuple(seed.astype(np.float64) for seed in seeds))
    eager = run_eager(at, dtype, [weights])
    if eager is not None and any(not np.array_equal(a, right[n]) for n, a in eager.gradients[0].items()):
        return not_made("whole numbers", "torch itself rounds there")
    values = {n: a.astype(np.float64) for n, a in whole.items()}
    pull = bench.candidate.run(Variation(values=values)).pull(weights.seeds)
    found = []
    for name, expected in right.items():
        came = pull.gradients.get(name)
        if pull.failure or came is None or came.shape != expected.shape or not (came != expected).any():
            continue
        where = tuple(int(i) for i in np.argwhere(came != expected)[0])
        entry = format_entry_name(f"{name}.grad", where)
        yours, ours = format_distinct(float(came[where]), float(expected[where]))
        far = float(np.abs(came - expected).max()) > bench.rounding.allowed * max(1.0, float(np.abs(expected).max()))
        why = "this is not rounding" if far else "an intermediate value is rounded unnecessarily"
        said = f"{entry}: yours {yours}; the right value is {ours}, at small integers, "
        said += f"where {dtype} rounds nothing: {why}"
        evidence = {"got": float(came[where]), "expected": float(expected[where])}
        found.append(Finding("value" if far else "precision", name, entry, said, evidence))
    return battery_result("whole numbers", len(right), found)


class ExactSweep:
    """Checks every intermediate gradient; ``refusal`` is why a dtype with this ``epsilon`` cannot represent one."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.refusal = epsilon, ""

    def followed(self, at: DerivedReference, number: int, seed: Array) -> dict[str, Array]:
        """Return vᵀJ of one output, row by row if it has few entries, so that sums of magnitudes are known."""
        program, values = at.programs[number], at.values[number]
        names = [n for n in at.wanted if any(t.name == n for t in program.inputs)]
        places = list(map(tuple, np.argwhere(seed)))
        rows = (
            [seed] if len(places) > MOST_SEEDS else [np.where(unit_at(place, seed.shape), seed, 0) for place in places]
        )
        sums: dict[tuple[str, int], Array] = {}

        def seen(step: Apply, position: int, cotangent: Array, part: Array) -> None:
            self.held(part)
            key = step.result.name, position
            sums[key] = sums.get(key, 0.0) + np.abs(as_float(part))

        sweep = Pull(program, values, names, hook=seen)
        found = [sweep.back({program.output: row}) for row in rows if names]
        largest = max(
            (float(a.max(initial=0.0)) * (a.size if rows[0] is seed else 1) for a in sums.values()), default=0
        )
        largest = max(largest, *(float(np.abs(out).max(initial=0.0)) for out in at.outputs))
        if largest > 1 / (SPARE * self.epsilon):
            self.refusal = self.refusal or "the sums are too large for"
        return {n: np.asarray(sum(as_float(row[n]) for row in found)) for n in names if found}

    def held(self, part: Array) -> None:
        """Record a refusal unless an intermediate gradient consists of dyadic fractions."""
        denominators = {getattr(entry, "denominator", 1) for entry in part.flat} if is_exact(part) else {3}
        if any(n & (n - 1) or n > 1 / self.epsilon for n in denominators):
            self.refusal = "intermediate values that cannot be represented in"


def is_linear_per_input(formula: DerivedReference, whole: Mapping[str, Array], seeds: Sequence[Array]) -> bool:
    """Whether the gradient with respect to each input does not depend on that input."""
    here = formula.at(whole).pull(seeds)
    moved = ((name, formula.at({**whole, name: 2 * array + 1})) for name, array in whole.items())
    return all(np.array_equal(here[name], there.pull(seeds)[name]) for name, there in moved)
