"""A backward is a function of v, and of what was kept: it writes nothing, and says the same when asked again.

The engine owns v, and other branches read it; a gradient is added to what ``.grad`` holds. Also here is what a backward
hands to the engine: how many gradients, of which shapes, types and devices, before any repair. The engine adds up what
was broadcast and casts what has another type, so that ``.grad`` is right and the slip stays until the backward is
called by something else; and what is raised or printed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from symgrad.errors import SymgradError
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array
from symgrad.render.numbers import count_noun
from symgrad.testing.bench import (
    BatteryResult,
    Bench,
    battery_result,
    format_distinct,
    gradient_gaps,
    largest_at,
    not_made,
)
from symgrad.testing.candidates import CandidateRun, Mutation, PullResult, ReturnedGradients, Variation
from symgrad.testing.report import Finding
from symgrad.testing.requests import sum_to_shape

ADVICE = {
    "mutates_seed": "v belongs to autograd, and other branches of the graph read it",
    "mutates_saved": "a second backward through the same graph reads it",
    "mutates_input": "the input belongs to the caller",
    "mutates_gradient": "the call before returned it, and autograd may not have added it up yet: return a new tensor",
}

TWICE, SPREAD = 2, 4.0
"""The number of repetitions that find an error in every second call, and the spreads that a steady error exceeds."""
CALLS, ENTRIES = 24, 1 << 20
"""The largest number of repeated calls with the same v, and of entries in all of them."""
ALIKE = 100
"""The ratio to the rounding error above which two gradients count as different."""
Gradients = Mapping[str, Array]
BATTERY = "contract"


def check_purity(bench: Bench) -> BatteryResult:
    """Compare v, inputs and saved tensors before and after each call."""
    changes = [*bench.run.changes, *(change for pull in bench.pulls for change in pull.changes)]
    seen: dict[tuple[str, str], Mutation] = {}
    for change in changes:
        seen.setdefault((change.kind, change.where), change)
    kinds = {change.kind for change in seen.values()}
    if "mutates_input" in kinds:  # it was saved, too
        seen = {key: change for key, change in seen.items() if change.kind != "mutates_saved"}
    return battery_result("purity", len(bench.pulls), [mutation_finding(change) for change in seen.values()])


def mutation_finding(change: Mutation) -> Finding:
    """Return the finding of a write into a tensor."""
    before, after = format_distinct(change.before, change.after)
    said = f"{change.what} was {before} before the call and is {after} after it: {ADVICE[change.kind]}"
    kind = "mutates_input" if change.kind == "mutates_saved" else change.kind
    name = change.where if change.kind == "mutates_input" else ""
    return Finding(kind, name, change.what, said, {"before": change.before, "after": change.after})


def check_determinism(bench: Bench) -> BatteryResult:
    """Repeat a seed through the same graph and a new one, also after a forward pass at other inputs.

    Further repetitions alternate, since a reused buffer may be wrong only in one of many calls.
    """
    fresh = bench.candidate.run()
    unsteady = random_forward_finding(bench, fresh)
    if unsteady is not None:
        return battery_result("determinism", 3, [unsteady])
    found = list(repeat_findings(bench, bench.baseline, bench.run.pull(bench.mixed), "through the same graph"))
    if not found:
        other, right = run_at_reversed_inputs(bench)
        pull = fresh.pull(bench.mixed)
        found = list(stale_state_findings(bench, pull, right) if right is not None else ())
        found = found or list(repeat_findings(bench, bench.baseline, pull, "afresh"))
        if not found and other is not None and right is not None:
            found = list(stale_state_findings(bench, other.pull(bench.mixed), right, there=True))
    if found:
        return battery_result("determinism", 3, found[:1])
    entries = sum(array.size for array in (*bench.arrays.values(), *bench.run.outputs))
    calls = 3 + min(CALLS, ENTRIES // max(1, entries))
    for call in range(4, calls + 1):
        run, when = (bench.run, "through the same graph") if call % 2 else (bench.candidate.run(), "afresh")
        found = list(repeat_findings(bench, bench.baseline, run.pull(bench.mixed), when, f"in call {call}"))
        if found:
            return battery_result("determinism", call, found)
    return battery_result(
        "determinism", calls, (), f"an error that occurs less often than once in {calls} calls may be missed"
    )


def random_forward_finding(bench: Bench, fresh: CandidateRun) -> Finding | None:
    """Return a finding if a second forward pass differs from the first."""
    if fresh.failure:
        return Finding("nondeterministic", "", "out", f"the second time, the forward pass {fresh.failure}", {})
    for n, (a, b) in enumerate(zip(bench.run.outputs, fresh.outputs, strict=False)):
        if a.shape != b.shape or not np.array_equal(a, b, equal_nan=True):
            said = (
                f"the forward pass gives other numbers the second time (output {n + 1}): hand its random draws in as "
            )
            return Finding("nondeterministic", "out", "out", f"{said}an input, or fix their seed inside", {})
    return None


def repeat_findings(
    bench: Bench, once: PullResult, pull: PullResult, when: str, time: str = "the second time"
) -> Iterator[Finding]:
    """Yield a finding if a repetition differs; ``slight`` if the difference may be rounding."""
    if pull.failure:
        yield Finding("nondeterministic", "", "backward", f"{time}, {when}, backward {pull.failure}", {})
        return
    slight = not any(gradient_gaps(bench, once, pull, bench.rounding.allowed))
    for name, where, first, second in gradient_gaps(bench, once, pull):
        before, after = format_distinct(first, second)
        said = f"{where}: {before} the first time, {after} {time}, {when}, with the same v"
        yield Finding("nondeterministic", name, where, said, {"first": first, "second": second, "slight": slight})
        return


def without_random_errors(bench: Bench) -> tuple[Bench, tuple[Finding, ...]]:
    """Return the bench without errors that vary between calls, and a finding about them; wrong seeds are repeated.

    An entry stays wrong if its error exceeds the spread of the repetitions.
    """
    pulls, found = list(bench.pulls), list[Finding]()
    trials = {name: bench.trials[name] for name in bench.candidate.names}
    for number, (weights, pull) in enumerate(zip(bench.weights, bench.pulls, strict=True)):
        wrong = [name for name, every in trials.items() if every[number].off.any()]
        more = [bench.run.pull(weights.seeds) for _ in range(TWICE if wrong else 0)]
        others = [other for other in more if any(gradient_gaps(bench, pull, other))]
        if not others:
            continue
        more += [bench.run.pull(weights.seeds) for _ in range(TWICE)]
        found += repeat_findings(bench, pull, others[0], "through the same graph")
        gradients = dict(pull.gradients)
        for name in wrong:
            right, shape = trials[name][number].expected, bench.candidate.shapes[name]
            came = np.stack([np.zeros(shape) if (g := p.gradients.get(name)) is None else g for p in (pull, *more)])
            room = SPREAD * np.ptp(came, axis=0)
            steady = (right < came.min(0) - room) | (right > came.max(0) + room)
            gradients[name] = np.where(steady, came[0], right)
        pulls[number] = replace(pull, gradients=gradients)
    return (replace(bench, pulls=tuple(pulls)), tuple(found[:1])) if found else (bench, ())


def run_at_reversed_inputs(bench: Bench) -> tuple[CandidateRun | None, tuple[Gradients, Gradients] | None]:
    """Run a forward pass at reversed inputs; return it with the right gradients of both, or None without a formula."""
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


def stale_state_findings(
    bench: Bench, pull: PullResult, right: tuple[Gradients, Gradients], there: bool = False
) -> Iterator[Finding]:
    """Yield a finding if the backward of one of two forward passes returns the gradient of the other.

    All its entries must be right at the other pass's inputs.
    """
    own, others = reversed(right) if there else right
    for name, came in pull.gradients.items():
        expected, strange = own[name], others[name]
        if came is None or came.shape != expected.shape:
            continue
        limit = bench.rounding.allowed * max(1.0, float(np.abs(strange).max(initial=0.0)))
        if (np.abs(came - strange) <= limit).all() and (np.abs(expected - strange) > ALIKE * limit).any():
            at = largest_at(np.abs(expected - strange))
            where = format_entry_name(f"{name}.grad", at)
            yours, ours = format_distinct(float(came[at]), float(expected[at]))
            said = f"{where}: of two forward passes at different inputs, the backward of one gives {yours}, which "
            said += f"is right for the other; {ours} is right: what it reads is kept from another call (a global, "
            said += "a cache), not its own"
            yield Finding("nondeterministic", name, where, said, {"got": float(came[at])})
            return


def check_accumulation(bench: Bench) -> BatteryResult:
    """Check that the backward adds to ``.grad``, which has ones before."""
    pull = bench.run.accumulated(bench.mixed)
    if pull is None:
        return not_made("accumulation", "there is no .grad")
    if pull.failure:
        finding = Finding("accumulation", "", "backward", f"out.backward(v) {pull.failure}", {})
        return battery_result("accumulation", 1, [finding])
    found = []
    for name, where, first, second in gradient_gaps(bench, bench.baseline, pull, max(bench.rounding.allowed, 1e-7)):
        yours, right = format_distinct(second + 1, first + 1)
        added, _ = format_distinct(first, second)
        said = f"{where}: .grad held 1 and is {yours} after backward, not 1 + {added} = {right}"
        found.append(Finding("accumulation", name, where, said, {"got": second + 1, "expected": first + 1}))
    return battery_result("accumulation", 1, found[:1])


def check_contract(bench: Bench) -> BatteryResult:
    """Check the number, shapes, dtypes and devices of the gradients that custom backwards return."""
    seen = [returned for pull in bench.pulls for returned in pull.returned]
    breaches: dict[tuple[object, ...], Finding] = {}
    for returned in seen:
        for breach in contract_breaches(returned):
            breaches.setdefault((breach.kind, returned.function, breach.evidence.get("argument")), breach)
    found = [*exception_findings(bench), *breaches.values()]
    if not seen and not found:
        return not_made(BATTERY, "not an autograd.Function in Python, so what it returns cannot be observed")
    return battery_result(BATTERY, len(seen), found)


def exception_findings(bench: Bench) -> Iterator[Finding]:
    """Yield a finding if a backward raises, for some v or the second time, unless its results are wrong anyway."""
    for weights, pull in zip(bench.weights, bench.pulls, strict=True):
        who = pull.functions[0] if len(pull.functions) == 1 else "backward"
        if bench.candidate.spent and not pull.failure:
            said = f"{who} {bench.candidate.spent} when it is called a second time through the same graph"
            yield Finding("raises", "", who, said, {})
            return
        if pull.failure and any(True for returned in pull.returned for _ in contract_breaches(returned)):
            return
        if pull.failure:
            yield Finding("raises", "", who, f"{who} {pull.failure} with v = {weights.name}", {"seed": weights.name})
            return


def contract_breaches(returned: ReturnedGradients) -> Iterator[Finding]:
    """Iterate over the findings about the results of one custom backward."""
    got, wanted = returned.got, returned.wanted
    extra = got[len(wanted) :]
    if len(got) < len(wanted) or any(meta is not None for meta in extra):
        returns, arguments = count_noun(len(got), "gradient"), count_noun(len(wanted), "argument")
        said = f"{returned.function} returns {returns} for {arguments} of forward"
        hint = "return one for each, None where there is no gradient"
        evidence: dict[str, object] = {"returned": len(got), "arguments": len(wanted)}
        yield Finding("arity", "", returned.function, f"{said}: {hint}", evidence)
        return
    for position, (meta, right) in enumerate(zip(got, wanted, strict=False)):
        if meta is None or right is None:
            continue
        name = returned.names[position] if position < len(returned.names) else ""
        what = name or f"argument {position + 1}"
        evidence = {"function": returned.function, "argument": position + 1}
        returns = f"{returned.function} returns"
        breach = "shape" if sum_to_shape(np.zeros(meta.shape), right.shape) is None else "unreduced"
        reduced = f": {advise_reduction(meta.shape, right.shape)}" if breach == "unreduced" else ""
        for kind, came, due, said in (
            (breach, meta.shape, right.shape, f"the shape {meta.shape} for {what}, which is {right.shape}{reduced}"),
            ("dtype", meta.dtype, right.dtype, f"{meta.dtype} for {what}, which is {right.dtype}: the engine casts it"),
            (
                "device",
                meta.device,
                right.device,
                f"a gradient on {meta.device} for {what}, which is on {right.device}",
            ),
        ):
            if came != due:
                yield Finding(kind, name, what, f"{returns} {said}", {**evidence, "returned": came, "wanted": due})


def advise_reduction(shape: tuple[int, ...], right: tuple[int, ...]) -> str:
    """Explain how to sum an unreduced gradient, and that autograd does so silently."""
    extra = len(shape) - len(right)
    axes = (*range(extra), *(extra + n for n, size in enumerate(right) if size == 1 and shape[extra + n] != 1))
    said = f"sum over the broadcast axes, .sum({axes[0] if len(axes) == 1 else axes}); autograd does that "
    return f"{said}silently; other callers get the wrong shape"


def print_findings(bench: Bench) -> Iterator[Finding]:
    """Yield a finding if the candidate prints."""
    for where, text in (("the forward pass", bench.run.printed), *(("backward", p.printed) for p in bench.pulls)):
        if text:
            first = text.strip().splitlines() or ["a blank line"]
            yield Finding("prints", "", where, f"{where} prints {first[0][:80]!r}", {"printed": text[:2000]})
            return
