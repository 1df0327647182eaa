"""Small whole numbers: where every number on the way is whole, low precision has no excuse, and equality is exact.

Only for functions that are linear in each input (products, sums, convolutions), and types below float64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array
from symgrad.testing.candidates.attempts import Variation
from symgrad.testing.data import Finding
from symgrad.testing.right.bench import Bench, Outcome, apart, not_made, outcome, place
from symgrad.testing.right.rounding import EPSILON
from symgrad.testing.right.truth import Formula

LARGEST = 2
SPARE = 2
"""How many times larger what is added up on the way may be than what comes out."""
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
    seeds = [generator.integers(-LARGEST, LARGEST + 1, s.shape).astype(np.float64) for s in bench.mixed]
    try:
        at = formula.at(whole)
        if set(names) != set(bench.candidate.names) or not at.whole or not linear(formula, whole, seeds):
            return not_made("whole numbers", "not linear in each input with whole numbers")
    except SymgradError as error:
        return not_made("whole numbers", error.problem)
    right = at.pull(seeds)
    if largest_sum(at, seeds) > 1 / (SPARE * EPSILON[dtype]):
        return not_made("whole numbers", f"the sums are too large for {dtype}")
    pull = bench.candidate.run(Variation(values={n: a.astype(np.float64) for n, a in whole.items()})).pull(seeds)
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


def largest_sum(at: Formula, seeds: Sequence[Array]) -> float:
    """The largest output, or entry of Σ|v|·|J|: no number on the way is much larger, in whatever order it is summed."""
    found = [float(np.abs(out).max(initial=0.0)) for out in at.outputs]
    if sum(seed.size for seed in seeds) > MOST_SEEDS:
        return max(found + [float(np.abs(g).max(initial=0.0)) * g.size for g in at.pull(seeds).values()])
    sums: dict[str, Array] = {}
    for number, seed in enumerate(seeds):
        for at_one in map(tuple, np.argwhere(seed)):
            one = np.zeros(seed.shape)
            one[at_one] = seed[at_one]
            for name, row in at.part(number, one).items():
                sums[name] = sums.get(name, 0.0) + np.abs(row)
    return max(found + [float(total.max(initial=0.0)) for total in sums.values()])


def linear(formula: Formula, whole: Mapping[str, Array], seeds: Sequence[Array]) -> bool:
    """Whether the gradient by each input is the same wherever that input is."""
    for name, array in whole.items():
        here = formula.at(whole).pull(seeds)[name]
        there = formula.at({**whole, name: 2 * array + 1}).pull(seeds)[name]
        if not np.array_equal(here, there):
            return False
    return True
