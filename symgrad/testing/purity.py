"""A backward is a function of v, and of what was kept: it writes nothing, and says the same when asked again.

The engine owns v, and other branches read it; a gradient is added to what ``.grad`` holds.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.testing.attempts import Change
from symgrad.testing.bench import Bench, Outcome, apart, differing, not_made, outcome
from symgrad.testing.data import Finding

ADVICE = {
    "mutates_seed": "v belongs to the engine, and other branches read it",
    "mutates_saved": "a second backward through the same graph reads it",
    "mutates_input": "the input belongs to the caller",
}


def purity(bench: Bench) -> Outcome:
    """v, inputs and saved tensors before and after each call."""
    changes = [*bench.run.changes, *(change for pull in bench.pulls for change in pull.changes)]
    seen: dict[tuple[str, str], Change] = {}
    for change in changes:
        seen.setdefault((change.kind, change.where), change)
    kinds = {change.kind for change in seen.values()}
    if "mutates_input" in kinds:  # it was saved, too
        seen = {key: change for key, change in seen.items() if change.kind != "mutates_saved"}
    return outcome("purity", len(bench.pulls), [told(change) for change in seen.values()])


def told(change: Change) -> Finding:
    """What was written into, from what to what."""
    before, after = apart(change.before, change.after)
    said = f"{change.what} was {before} before and is {after} after it: {ADVICE[change.kind]}"
    kind = "mutates_input" if change.kind == "mutates_saved" else change.kind
    name = change.where if change.kind == "mutates_input" else ""
    return Finding(kind, name, change.what, said, {"before": change.before, "after": change.after})


def nondeterministic(bench: Bench) -> Outcome:
    """The same seed again, through the same graph and through a fresh one."""
    return outcome("determinism", 2, list(again(bench))[:1])


def again(bench: Bench) -> Iterator[Finding]:
    """What differs the second time."""
    fresh = bench.candidate.run()
    if fresh.failure:
        yield Finding("nondeterministic", "", "out", f"the second time, the forward pass {fresh.failure}", {})
        return
    for n, (a, b) in enumerate(zip(bench.run.outputs, fresh.outputs, strict=False)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=True):
            said = f"the forward pass gives other numbers the second time (output {n + 1}): fix its seed"
            yield Finding("nondeterministic", "out", "out", said, {})
            return
    for pull, when in ((bench.run.pull(bench.mixed), "through the same graph"), (fresh.pull(bench.mixed), "afresh")):
        if pull.failure:
            yield Finding("nondeterministic", "", "backward", f"the second time, {when}, backward {pull.failure}", {})
            return
        for name, where, first, second in differing(bench, bench.baseline, pull):
            before, after = apart(first, second)
            said = f"{where}: {before} the first time, {after} the second time, {when}, with the same v"
            yield Finding("nondeterministic", name, where, said, {"first": first, "second": second})
            return


def accumulation(bench: Bench) -> Outcome:
    """``.grad`` held ones before: ones have to be added to."""
    pull = bench.candidate.accumulated(bench.mixed)
    if pull is None:
        return not_made("accumulation", "there is no .grad")
    if pull.failure:
        finding = Finding("accumulation", "", "backward", f"out.backward(v) {pull.failure}", {})
        return outcome("accumulation", 1, [finding])
    found = []
    for name, where, first, second in differing(bench, bench.baseline, pull, max(bench.rounding.allowed, 1e-7)):
        yours, right = apart(second + 1, first + 1)
        said = f"{where}: .grad held 1 and is {yours} after backward, not 1 + {apart(first, second)[0]} = {right}"
        found.append(Finding("accumulation", name, where, said, {"got": second + 1, "expected": first + 1}))
    return outcome("accumulation", 1, found[:1])
