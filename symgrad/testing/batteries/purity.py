"""A backward is a function of v, and of what was kept: it writes nothing, and says the same when asked again.

The engine owns v, and other branches read it; a gradient is added to what ``.grad`` holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import Array
from symgrad.testing.candidates.attempts import Change, Pull, Run, Variation
from symgrad.testing.data import Finding
from symgrad.testing.right.bench import Bench, Outcome, apart, differing, largest_at, not_made, outcome, place

ADVICE = {
    "mutates_seed": "v belongs to the engine, and other branches read it",
    "mutates_saved": "a second backward through the same graph reads it",
    "mutates_input": "the input belongs to the caller",
}

TWICE, SPREAD = 2, 4.0
"""Of two calls one is right where every second is wrong; and how far, in spreads, a steady error has to stick out."""
ALIKE = 100
"""How many times what rounding may do two gradients have to be apart to be told from one another."""


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
    """The same seed again, through the same graph and through a fresh one, beside a forward pass at other numbers."""
    fresh = bench.candidate.run()
    unsteady = random_forward(bench, fresh)
    if unsteady is not None:
        return outcome("determinism", 3, [unsteady])
    found = list(again(bench, bench.baseline, bench.run.pull(bench.mixed), "through the same graph"))
    if not found:
        other, right = elsewhere(bench)
        pull = fresh.pull(bench.mixed)
        found = list(of_another_call(bench, pull, right) if right is not None else ())
        found = found or list(again(bench, bench.baseline, pull, "afresh"))
        if not found and other is not None and right is not None:
            found = list(of_another_call(bench, other.pull(bench.mixed), right, there=True))
    return outcome("determinism", 3, found[:1])


def random_forward(bench: Bench, fresh: Run) -> Finding | None:
    """What a second forward pass says else than the first."""
    if fresh.failure:
        return Finding("nondeterministic", "", "out", f"the second time, the forward pass {fresh.failure}", {})
    for n, (a, b) in enumerate(zip(bench.run.outputs, fresh.outputs, strict=False)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=True):
            said = (
                f"the forward pass gives other numbers the second time (output {n + 1}): hand its random draws in as "
            )
            return Finding("nondeterministic", "out", "out", f"{said}an input, or fix their seed inside", {})
    return None


def again(bench: Bench, once: Pull, pull: Pull, when: str) -> Iterator[Finding]:
    """What differs the second time; ``slight`` where rounding may be as large."""
    if pull.failure:
        yield Finding("nondeterministic", "", "backward", f"the second time, {when}, backward {pull.failure}", {})
        return
    slight = not any(differing(bench, once, pull, bench.rounding.allowed))
    for name, where, first, second in differing(bench, once, pull):
        before, after = apart(first, second)
        said = f"{where}: {before} the first time, {after} the second time, {when}, with the same v"
        yield Finding("nondeterministic", name, where, said, {"first": first, "second": second, "slight": slight})
        return


def steadied(bench: Bench) -> tuple[Bench, tuple[Finding, ...]]:
    """The bench without what comes only now and then, which is told: wrong seeds are asked for again.

    An entry stays wrong where what came is farther from the right number than it is from itself.
    """
    pulls, found = list(bench.pulls), list[Finding]()
    trials = {name: bench.trials(name) for name in bench.candidate.names}
    for number, (weights, pull) in enumerate(zip(bench.weights, bench.pulls, strict=True)):
        wrong = [name for name, every in trials.items() if every[number].off.any()]
        more = [bench.run.pull(weights.seeds) for _ in range(TWICE if wrong else 0)]
        others = [other for other in more if any(differing(bench, pull, other))]
        if not others:
            continue
        more += [bench.run.pull(weights.seeds) for _ in range(TWICE)]
        found += again(bench, pull, others[0], "through the same graph")
        gradients = dict(pull.gradients)
        for name in wrong:
            right, shape = trials[name][number].expected, bench.candidate.shapes[name]
            came = np.stack([np.zeros(shape) if (g := p.gradients.get(name)) is None else g for p in (pull, *more)])
            room = SPREAD * np.ptp(came, axis=0)
            steady = (right < came.min(0) - room) | (right > came.max(0) + room)
            gradients[name] = np.where(steady, came[0], right)
        pulls[number] = replace(pull, gradients=gradients)
    return (replace(bench, pulls=tuple(pulls)), tuple(found[:1])) if found else (bench, ())


Gradients = Mapping[str, Array]


def elsewhere(bench: Bench) -> tuple[Run | None, tuple[Gradients, Gradients] | None]:
    """A forward pass at the same numbers in reverse order, and what is right here and there; None without a formula."""
    formula = bench.formula
    if formula is None:
        return None, None
    others = {n: np.flip(formula.inputs[n]) for n in bench.movable if n in formula.inputs}
    try:
        there = formula.at(others).pull(bench.mixed)
    except SymgradError:
        return None, None
    run = bench.candidate.run(Variation(values=others))
    same = [a.shape for a in run.outputs] == [a.shape for a in bench.run.outputs]
    return (run, (bench.expected[0], there)) if same and not run.failure else (None, None)


def of_another_call(
    bench: Bench, pull: Pull, right: tuple[Gradients, Gradients], there: bool = False
) -> Iterator[Finding]:
    """Of two forward passes, here and ``there``, each backward is that of its own pass.

    Named only where the gradient of one pass is, entry for entry, the right one at the numbers of the other.
    """
    own, others = reversed(right) if there else right
    for name, came in pull.gradients.items():
        expected, strange = own[name], others[name]
        if came is None or came.shape != expected.shape:
            continue
        limit = bench.rounding.allowed * max(1.0, float(np.abs(strange).max(initial=0.0)))
        if (np.abs(came - strange) <= limit).all() and (np.abs(expected - strange) > ALIKE * limit).any():
            at = largest_at(np.abs(expected - strange))
            where = place(f"{name}.grad", at)
            yours, ours = apart(float(came[at]), float(expected[at]))
            said = f"{where}: of two forward passes at different inputs, the backward of one gives {yours}, which "
            said += f"is right for the other; {ours} is right: what it reads is kept from another call (a global, "
            said += "a cache), and not by its own"
            yield Finding("nondeterministic", name, where, said, {"got": float(came[at])})
            return


def accumulation(bench: Bench) -> Outcome:
    """``.grad`` held ones before: ones have to be added to."""
    pull = bench.run.accumulated(bench.mixed)
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
