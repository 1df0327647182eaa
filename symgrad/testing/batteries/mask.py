"""Which inputs require a gradient, and which outputs are used, must not change the gradients that are asked for.

Every subset of ``requires_grad`` (of many inputs: each alone, and all but each), and None for every output that does
not count, against the candidate's own answer when all are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from symgrad.testing.candidates.attempts import Variation
from symgrad.testing.data import Finding
from symgrad.testing.right.bench import Bench, Outcome, apart, differing, not_made, outcome

MOST = 4
"""Inputs of which all subsets are tried."""


def mask(bench: Bench) -> Outcome:
    """All subsets but the whole, and every output alone."""
    names = bench.candidate.names
    subsets = list(subsets_of(names)) if bench.candidate.masks else []
    alone = range(len(bench.run.outputs)) if len(bench.run.outputs) > 1 else ()
    if not subsets and not alone:
        why = "one input, one output" if bench.candidate.masks else "a pair is asked for all gradients"
        return not_made("mask", why)
    found = [f for subset in subsets for f in of_subset(bench, subset)]
    found += [f for n in alone for f in of_output(bench, n)]
    return outcome("mask", len(subsets) + len(alone), found[:1], "")


def subsets_of(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """The subsets that are neither empty nor the whole."""
    sizes = range(1, len(names)) if len(names) <= MOST else sorted({1, len(names) - 1} - {0})
    for size in sizes:
        for chosen in combinations(names, size):
            yield frozenset(chosen)


def of_subset(bench: Bench, required: frozenset[str]) -> Iterator[Finding]:
    """Only some inputs require a gradient."""
    asked = ", ".join(n for n in bench.candidate.names if n in required)
    frozen = ", ".join(n for n in bench.candidate.names if n not in required)
    run = bench.candidate.run(Variation(required=required))
    evidence = {"required": sorted(required)}
    if run.failure:
        said = f"when only {asked} requires a gradient, the forward pass {run.failure}"
        yield Finding("mask", asked, asked, said, evidence)
        return
    pull = run.pull(bench.mixed)
    if pull.failure:
        said = f"when {frozen} requires no gradient, backward {pull.failure}"
        yield Finding("mask", asked, asked, said, evidence)
        return
    for name, where, first, second in differing(bench, bench.baseline, pull, bench.rounding.allowed):
        yours, right = apart(second, first)
        came = "None" if pull.gradients.get(name) is None else yours
        said = f"{where}: {came} when {frozen} requires no gradient, {right} when it does: look at needs_input_grad"
        yield Finding("mask", name, where, said, {**evidence, "got": second, "expected": first})
        return


def of_output(bench: Bench, number: int) -> Iterator[Finding]:
    """All outputs but one are left unused."""
    zeros = [s if n == number else np.zeros(s.shape) for n, s in enumerate(bench.mixed)]
    plain = bench.run.pull(zeros)
    pull = bench.run.pull([s if n == number else None for n, s in enumerate(bench.mixed)])
    if plain.failure:
        return
    said = f"when only output {number + 1} is used"
    if pull.failure:
        yield Finding("mask", "", f"output {number + 1}", f"{said}, backward {pull.failure}", {"output": number + 1})
        return
    for name, where, first, second in differing(bench, plain, pull, bench.rounding.allowed):
        yours, right = apart(second, first)
        text = f"{where}: {yours} {said}, {right} when the others get zeros"
        yield Finding("mask", name, where, text, {"output": number + 1, "got": second, "expected": first})
        return
