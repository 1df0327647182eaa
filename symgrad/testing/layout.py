"""v is a value: the gradient may not depend on how v, or an input, lies in memory.

Each layout is held against the candidate's own answer for the same numbers row by row, so that a wrong formula is not
told twice.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.testing.attempts import Pull, Run, Variation
from symgrad.testing.bench import Bench, Outcome, apart, differing, outcome
from symgrad.testing.data import Finding
from symgrad.testing.layouts import Layout, layouts


def layout(bench: Bench) -> Outcome:
    """Every layout of every seed, and of every input."""
    found, count = [], 0
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
            bad += list(of_input(bench, name, way))
        found += merged(bad)
    return outcome("layout", count, found)


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
    same = np.array_equal(seeds[number], bench.mixed[number])
    plain = bench.baseline if same else bench.run.pull(seeds)
    ways = [way if n == number else None for n in range(len(seeds))]
    laid = bench.run.pull(seeds, ways)
    placed = way.place(seeds[number])
    what = f"{label} {way.name} (strides {placed.strides}, offset {placed.offset})"
    if laid.failure:
        if not plain.failure:
            yield Finding("layout", "", label, f"with {what} backward {laid.failure}", {"layout": way.name})
        return
    for name, where, first, second in differing(bench, plain, laid, bench.rounding.allowed):
        yours, right = apart(second, first)
        said = f"{where}: {yours} with {what}, {right} with the same numbers row by row"
        if misread(bench, number, way, laid):
            said += f": {label} is read as if it were contiguous (.contiguous() first, or use its strides)"
        evidence = {"layout": way.name, "strides": placed.strides, "got": second, "expected": first}
        yield Finding("layout", name, where, said, evidence)
        return


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


def of_input(bench: Bench, name: str, way: Layout) -> Iterator[Finding]:
    """One input in one layout."""
    if name not in bench.candidate.shapes or not can_lie(bench, name):
        return
    values = way.values(bench.arrays[name])
    numbers = {} if np.array_equal(values, bench.arrays[name]) else {name: values}
    plain: Run = bench.candidate.run(Variation(values=numbers)) if numbers else bench.run
    laid = bench.candidate.run(Variation(values=numbers, layouts={name: way}))
    placed = way.place(values)
    what = f"{name} {way.name} (strides {placed.strides}, offset {placed.offset})"
    if laid.failure or plain.failure:
        if not plain.failure and "unsupported operation" not in laid.failure:  # in-place on what is stored once
            yield Finding("layout", name, name, f"with {what} the forward pass {laid.failure}", {"layout": way.name})
        return
    for a, b in zip(plain.outputs, laid.outputs, strict=True):
        with np.errstate(invalid="ignore"):
            gap = np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.abs(a - b))
        if a.shape != b.shape or gap.max(initial=0.0) > bench.rounding.allowed * max(
            1.0, float(np.abs(a).max(initial=0.0))
        ):
            said = f"with {what} the forward pass gives other numbers than row by row"
            yield Finding("layout", name, "out", said, {"layout": way.name})
            return
    first = bench.baseline if not numbers else plain.pull(bench.mixed)
    second = laid.pull(bench.mixed)
    if second.failure and not first.failure:
        yield Finding("layout", name, name, f"with {what} backward {second.failure}", {"layout": way.name})
        return
    for _, where, right, yours in differing(bench, first, second, bench.rounding.allowed):
        texts = apart(yours, right)
        said = f"{where}: {texts[0]} with {what}, {texts[1]} with the same numbers row by row"
        evidence = {"layout": way.name, "strides": placed.strides, "got": yours, "expected": right}
        yield Finding("layout", name, where, said, evidence)
        return


def can_lie(bench: Bench, name: str) -> bool:
    """Whether an input is given anew in each run: a parameter of a module stays where it is."""
    return name in getattr(bench.candidate, "inputs", {})
