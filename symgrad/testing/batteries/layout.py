"""The gradient may not depend on how v or an input lies in memory, nor on what else is asked for.

Each layout is held against the candidate's own answer for the same numbers row by row, so that a wrong formula is not
told twice; at other numbers (a stride of 0 repeats entries) that is asked for only where the formula is not met. So is
every subset of ``requires_grad`` (of many inputs: each alone, and all but each), and None for every output that does
not count, against the answer when all are asked for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array
from symgrad.testing.candidates.attempts import Layout, Pull, Run, Variation, layouts
from symgrad.testing.report import Finding
from symgrad.testing.right.bench import Bench, Outcome, apart, differing, not_made, outcome

MOST = 4
"""Inputs of which all subsets are tried."""

NEAR = 1e-14
"""How far, relatively, numbers are moved to see whether the formula is steady there."""


def layout(bench: Bench) -> Outcome:
    """Every layout of every seed, and of every input."""
    found, notes, count = [], list[str](), 0
    for n, seed in enumerate(bench.mixed):
        label = "v" if len(bench.mixed) == 1 else f"v{n + 1}"
        bad = []
        for way in layouts(seed):
            count += 1
            bad += list(of_seed(bench, n, way, label))
        found += merged(bad)
    for name in bench.candidate.names:
        bad = []
        for way in layouts(bench.arrays[name]):
            count += 1
            said = list(of_input(bench, name, way))
            bad += [finding for finding in said if isinstance(finding, Finding)]
            notes += [note for note in said if isinstance(note, str)]
        found += merged(bad)
    refused = f"{notes[0]}: it raises an error there, so no result is wrong" if notes else ""
    more = f" (also other layouts: {len(notes)} in all)" if len(notes) > 1 else ""
    return outcome("layout", count, found, refused + more)


def merged(found: list[Finding]) -> list[Finding]:
    """One finding of several that are alike, with the other layouts named."""
    if len(found) < 2:
        return found
    others = "; ".join(str(f.evidence["layout"]) for f in found[1:])
    first = found[0]
    return [Finding(first.kind, first.input, first.where, f"{first.message}\nalso {others}", first.evidence)]


def of_seed(bench: Bench, number: int, way: Layout, label: str) -> Iterator[Finding]:
    """One seed in one layout."""
    seeds = list(bench.mixed)
    seeds[number] = way.values(seeds[number])
    ways = [way if n == number else None for n in range(len(seeds))]
    laid = bench.run.pull(seeds, ways)
    if np.array_equal(seeds[number], bench.mixed[number]):
        plain = bench.baseline
    elif bench.truth is not None and as_derived(bench, laid, bench.right(tuple(seeds))):
        return
    else:
        plain = bench.run.pull(seeds)
    for finding in beside(bench, "", label, way, seeds[number], plain, laid):
        if not laid.failure and misread(bench, number, way, laid):
            read = f": {label} is read as if it were contiguous (.contiguous() first, or use its strides)"
            finding = replace(finding, message=finding.message + read)
        yield finding


def beside(
    bench: Bench, name: str, label: str, way: Layout, values: Array, plain: Pull, laid: Pull
) -> Iterator[Finding]:
    """What a backward says where one tensor lies in some layout, and not where it lies row by row."""
    what = way.lying(label, values)
    if laid.failure and not plain.failure:
        yield Finding("layout", name, label, f"with {what} backward {laid.failure}", {"layout": way.name})
    if laid.failure:
        return
    for wrong, where, first, second in differing(bench, plain, laid, bench.rounding.allowed):
        yours, right = apart(second, first)
        said = f"{where}: {yours} with {what}, {right} with the same numbers in contiguous memory"
        evidence = {"layout": way.name, "strides": way.place(values).strides, "got": second, "expected": first}
        yield Finding("layout", name or wrong, where, said, evidence)
        return


def as_derived(bench: Bench, laid: Pull, expected: Mapping[str, Array]) -> bool:
    """Whether what came is what is right, and need not be held against what comes row by row."""
    return not laid.failure and not any(differing(bench, Pull({**expected}), laid, bench.rounding.allowed))


def misread(bench: Bench, number: int, way: Layout, laid: Pull) -> bool:
    """Whether the storage of v, read row by row from its first entry or from the offset, gives what came."""
    seeds = list(bench.mixed)
    placed = way.place(way.values(seeds[number]))
    size = seeds[number].size
    for begin in {0, placed.offset}:
        if len(placed.buffer) >= begin + size:
            seeds[number] = placed.buffer[begin : begin + size].reshape(placed.shape)
            if not any(differing(bench, bench.run.pull(seeds), laid, bench.rounding.allowed)):
                return True
    return False


def of_input(bench: Bench, name: str, way: Layout) -> Iterator[Finding | str]:
    """One input in one layout; a forward pass that raises is no wrong gradient, and is only told."""
    if name not in bench.movable:  # a parameter of a module stays where it is
        return
    values = way.values(bench.arrays[name])
    numbers = {} if np.array_equal(values, bench.arrays[name]) else {name: values}
    laid = bench.candidate.run(Variation(values=numbers, layouts={name: way}))
    second = Pull() if laid.failure else laid.pull(bench.mixed)
    if numbers and derived_at(bench, numbers, laid, second):
        return
    plain: Run = bench.candidate.run(Variation(values=numbers)) if numbers else bench.run
    if plain.failure or "unsupported operation" in laid.failure:  # in-place on what is stored once
        return
    if numbers and not steady(bench, numbers):
        return
    if laid.failure:
        yield f"with {way.lying(name, values)} the forward pass {laid.failure}"
        return
    if not alike(bench, plain.outputs, laid.outputs):
        said = f"with {way.lying(name, values)} the forward pass gives other numbers than with contiguous tensors"
        yield Finding("layout", name, "out", said, {"layout": way.name})
        return
    first = plain.pull(bench.mixed) if numbers else bench.baseline
    yield from beside(bench, name, name, way, values, first, second)


def alike(bench: Bench, outputs: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether two forward passes are the same but for rounding."""
    for a, b in zip(outputs, others, strict=True):
        if np.array_equal(a, b):
            continue
        if a.shape != b.shape:
            return False
        with np.errstate(invalid="ignore"):
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        largest = max(1.0, float(np.abs(a).max(initial=0.0)))
        if gap.max(initial=0.0) > bench.rounding.allowed * largest:
            return False
    return True


def derived_at(bench: Bench, numbers: Mapping[str, Array], laid: Run, pull: Pull) -> bool:
    """Whether forward and backward at other numbers are what the formula gives there: no further run is needed."""
    formula = bench.formula
    if formula is None or laid.failure or not formula.inputs.keys() >= numbers.keys():
        return False
    try:
        there = formula.at(numbers)
        return alike(bench, there.outputs, laid.outputs) and as_derived(bench, pull, there.pull(bench.mixed))
    except SymgradError:
        return False


def steady(bench: Bench, numbers: Mapping[str, Array]) -> bool:
    """Whether rounding stays rounding at other numbers: equal rows make a matrix singular, and its log is anything."""
    formula = bench.formula
    if formula is None or not formula.inputs.keys() >= numbers.keys():
        return True
    draw = np.random.default_rng(0)
    near = {name: array * (1 + NEAR * draw.choice((-1.0, 1.0), array.shape)) for name, array in numbers.items()}
    try:
        return alike(bench, formula.at(numbers).outputs, formula.at(near).outputs)
    except SymgradError:
        return False


def mask(bench: Bench) -> Outcome:
    """All subsets but the whole, and every output alone."""
    names = bench.candidate.names
    subsets = list(subsets_of(names)) if bench.candidate.masks else []
    alone = range(len(bench.run.outputs)) if len(bench.run.outputs) > 1 else ()
    if not subsets and not alone:
        pair = "a forward,backward pair always returns all gradients"
        why = "there is only one input and one output" if bench.candidate.masks else pair
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
