"""Small whole numbers: where every number on the way is whole, low precision has no excuse, and equality is exact.

Only for functions that are linear in each input (products, sums, convolutions), and types below float64; and only where
each share on the way back is a fraction that the type holds: a mean of five divides by 5, and 1/5 is no float.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float, is_exact
from symgrad.numeric.sweeps import Pull
from symgrad.program import Apply
from symgrad.testing.candidates.attempts import Variation
from symgrad.testing.data import Finding
from symgrad.testing.right.bench import Bench, Outcome, apart, eager_of, not_made, outcome, place
from symgrad.testing.right.rounding import EPSILON, Weights
from symgrad.testing.right.truth import Formula

LARGEST = 2
SPARE = 2
"""How many times larger what is added up on the way may be than what is seen of it."""
MOST_SEEDS = 64
"""Outputs up to which every row of J is asked for."""


def exactness(bench: Bench) -> Outcome:
    """The candidate and the formula at whole inputs and a whole seed."""
    formula, dtype = bench.formula, bench.rounding.dtype
    if formula is None or dtype == "float64" or dtype not in EPSILON:
        return not_made("whole numbers", "float64" if dtype == "float64" else "there is no formula")
    generator = np.random.default_rng(bench.number + 3)
    names = [n for n in bench.movable if n in formula.inputs]
    whole = {n: generator.integers(-LARGEST, LARGEST + 1, bench.candidate.shapes[n]) for n in names}
    seeds = [generator.integers(-LARGEST, LARGEST + 1, s.shape) for s in bench.mixed]
    try:
        at = formula.at(whole)
        if set(names) != set(bench.candidate.names) or not at.whole or not linear(formula, whole, seeds):
            return not_made("whole numbers", "not linear in each input with whole numbers")
        way = Way(EPSILON[dtype])
        right = {n: np.zeros(bench.candidate.shapes[n]) for n in names}
        for number, seed in enumerate(seeds):
            for name, share in way.followed(at, number, seed).items():
                right[name] = right[name] + share
    except SymgradError as error:
        return not_made("whole numbers", error.problem)
    if way.refusal:
        return not_made("whole numbers", f"{way.refusal} {dtype}")
    weights = Weights("", tuple(seed.astype(np.float64) for seed in seeds))
    eager = eager_of(at, dtype, [weights])
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
        yours, ours = apart(float(came[where]), float(expected[where]))
        far = float(np.abs(came - expected).max()) > bench.rounding.allowed * max(1.0, float(np.abs(expected).max()))
        why = "this is no rounding" if far else "something on the way is rounded that need not be"
        said = f"{place(f'{name}.grad', where)}: yours {yours}, right is {ours}, at small whole numbers, where {dtype} "
        said += f"rounds nothing: {why}"
        evidence = {"got": float(came[where]), "expected": float(expected[where])}
        found.append(Finding("value" if far else "precision", name, place(f"{name}.grad", where), said, evidence))
    return outcome("whole numbers", len(right), found)


class Way:
    """Looks at every share on the way back; ``refusal`` says what a type with this ``epsilon`` does not hold of it."""

    def __init__(self, epsilon: float) -> None:
        self.epsilon, self.refusal = epsilon, ""

    def followed(self, at: Formula, number: int, seed: Array) -> dict[str, Array]:
        """vᵀJ of one output; row by row where it has few entries, so that what is added up shows in each sum."""
        program, values = at.programs[number], at.values[number]
        names = [n for n in at.wanted if any(t.name == n for t in program.inputs)]
        places = list(map(tuple, np.argwhere(seed)))
        rows = [seed] if len(places) > MOST_SEEDS else [only(seed, place) for place in places]
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
        """Whether a share is made of whole halves, quarters, …"""
        denominators = {getattr(entry, "denominator", 1) for entry in part.flat} if is_exact(part) else {3}
        if any(n & (n - 1) or n > 1 / self.epsilon for n in denominators):
            self.refusal = "shares on the way that are no numbers of"


def only(seed: Array, place: tuple[int, ...]) -> Array:
    """A seed with all entries but one 0."""
    one = np.zeros_like(seed)
    one[place] = seed[place]
    return one


def linear(formula: Formula, whole: Mapping[str, Array], seeds: Sequence[Array]) -> bool:
    """Whether the gradient by each input is the same wherever that input is."""
    for name, array in whole.items():
        here = formula.at(whole).pull(seeds)[name]
        there = formula.at({**whole, name: 2 * array + 1}).pull(seeds)[name]
        if not np.array_equal(here, there):
            return False
    return True
