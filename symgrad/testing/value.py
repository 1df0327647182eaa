"""The comparison of values: for each seed and input the candidate's gradient and the derived vᵀJ.

Differences are diagnosed; a difference at a kink is accepted if the gradient lies between both slopes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from symgrad.language.arguments import format_entry_name
from symgrad.language.literals import describe_shape
from symgrad.numeric import Array
from symgrad.numeric.exact import largest_finite
from symgrad.testing.bench import (
    FARTHER,
    BatteryResult,
    Bench,
    Trial,
    battery_result,
    format_distinct,
    largest_at,
    not_made,
    run_eager,
    six_digits,
)
from symgrad.testing.candidates import CandidateRun
from symgrad.testing.purity import without_random_errors
from symgrad.testing.references import GradientReference
from symgrad.testing.report import BLIND, Finding
from symgrad.testing.slips import Case
from symgrad.testing.slips.candidate_lines import Suspect, cotangent_lines, find_suspects, where_lines
from symgrad.testing.slips.diagnosis import Cause, entry_and_line, find_cause
from symgrad.testing.special_points import GRADCHECK, Excuse, excuse_kinks
from symgrad.testing.trial_seeds import EPSILON, cancelling_step

ALIKE = 1e-6
"""The relative tolerance within which two differences count as equal."""
SMALL = 1e-9
"""The size relative to v below which a gradient may be rounding alone."""
ELSEWHERE = ("not_finite", "kink", "precision", "missing_path")
"""Causes for which no line of the candidate's backward is searched."""


def output_shape_finding(truth: GradientReference | None, run: CandidateRun) -> Finding | None:
    """Return a finding if the number or shapes of the outputs differ from the reference's."""
    if truth is None:
        return None
    name, right, got = truth.text, truth.outputs, run.outputs
    if len(right) != len(got):
        said = f"the function returns {len(got)} tensors, and {name!r} is {len(right)}"
        return Finding("forward", "out", "out", said, {"outputs": len(got)})
    for n, (a, b) in enumerate(zip(right, got, strict=True)):
        if a.shape != b.shape:
            said = f"the forward pass gives {describe_shape(b.shape)}, and {name!r} is {describe_shape(a.shape)}"
            return Finding("forward", "out", label_of(n, right), said, {"returned": b.shape, "wanted": a.shape})
    return None


def label_of(number: int, outputs: Sequence[Array]) -> str:
    """Return the label of an output."""
    return "out" if len(outputs) == 1 else f"output {number + 1}"


def forward_finding(bench: Bench) -> Finding | None:
    """Return a finding if the forward values differ from the reference's."""
    if bench.truth is None:
        return None
    right, name = bench.truth.outputs, bench.truth.text
    for n, (a, b) in enumerate(zip(right, bench.run.outputs, strict=True)):
        label = label_of(n, right)
        finite = a[np.isfinite(a)]
        limit = max(bench.rounding.allowed, 1e-7 if bench.formula is None else 0.0)
        held = bench.rounding.within(a) & (True if bench.eager is None else np.isfinite(bench.eager.outputs[n]))
        a, b = np.where(held, a, np.nan), np.where(held, b, np.nan)
        trial = Trial(bench.weights[0], a, b, limit * max(1.0, float(np.abs(finite).max(initial=0.0))), 1.0)
        if trial.off.any():
            at = worst_entry(trial)
            yours, ours = format_distinct(b[at], a[at])
            where = format_entry_name(label, at)
            said = f"the forward pass is another function: {where} is {yours}, and {name!r} gives {ours} there"
            evidence = {"expected": float(a[at]), "got": float(b[at])}
            return Finding("forward", "out", where, said, evidence)
    return None


def check_value(bench: Bench) -> BatteryResult:
    """Compare the gradients of every seed and input with the reference."""
    if bench.truth is None:
        return not_made("value", "there is no reference to compare with")
    bench, unsteady = without_random_errors(bench)
    found, notes, count, worst_ulps = list[Finding](), list[str](), 0, 0.0
    for name in bench.candidate.names:
        excuse = Excuse(bench.trials[name])
        excuse = excuse if excuse.passed else excuse_kinks(bench, name, Excuse(bench.widened(name)))
        count += len(excuse.trials)
        if excuse.note:
            notes.append(excuse.note)
        bad = [t for t in excuse.trials if t.off.any()]
        if bench.rounding.dtype != "float64":
            worst_ulps = max([worst_ulps, *(ulps(bench, t) for t in excuse.trials if not t.off.any())])
        none = all(pull.gradients.get(name) is None for pull in bench.pulls)
        if bad:
            steady = all(f.evidence["slight"] for f in unsteady)
            found.append(value_finding(bench, name, excuse, bad, none, steady))
    compared = [np.isfinite(t.expected).any() for name in bench.candidate.names for t in bench.trials[name]]
    if count and not any(compared) and all(np.size(a) for e in bench.expected for a in e.values()):
        return not_made(
            "value", next(out_of_range_notes(bench), f"no gradient here can be represented in {bench.rounding.dtype}")
        )
    found = [*unsteady, *name_wrong_lines(bench, found)]
    notes += [*out_of_range_notes(bench), *blind_spot_notes(bench)]
    if not found and bench.rounding.dtype != "float64":
        notes.append(rounding_note(bench, worst_ulps))
    if bench.truth is not None and bench.formula is None:
        notes.append(f"held against {bench.truth.said}")
    return battery_result("value", count, found, "; ".join(notes))


def out_of_range_notes(bench: Bench) -> Iterator[str]:
    """Iterate over notes on entries that are not compared, since they are out of the dtype's range."""
    for name in bench.candidate.names:
        for right, trial, pull in zip(bench.expected, bench.trials[name], bench.pulls, strict=True):
            lost = np.isnan(trial.expected) & np.isfinite(right[name])
            if lost.any() and not pull.failure:
                at = tuple(int(i) for i in np.argwhere(lost)[0])
                dtype = bench.rounding.dtype
                what = (
                    "is too large for"
                    if not bench.rounding.within(right[name])[at]
                    else "is out of range on the way in"
                )
                entry = format_entry_name(f"{name}.grad", at)
                yield (
                    f"{entry} = {six_digits(float(right[name][at]))} {what} {dtype} with "
                    f"v = {trial.weights.name}, and is not compared"
                )
                break


def blind_spot_notes(bench: Bench) -> Iterator[str]:
    """Iterate over notes on inputs whose gradients are all 0, since a cotangent is in a step's left null space."""
    formula = bench.formula
    for name in bench.candidate.names if formula is not None else ():
        sizes = zip(bench.trials[name], bench.flat.max(1, initial=0.0), strict=True)
        if formula is None or any(largest_finite(t.expected) > SMALL * size for t, size in sizes):
            continue
        right = bench.expected[0][name]
        noise = largest_finite(formula.shaken(bench.mixed, name, EPSILON["float64"], 0) - right)
        for program, values, seed in zip(formula.programs, formula.values, bench.mixed, strict=True):
            step = cancelling_step(program, values, seed, name) if largest_finite(right) <= FARTHER * noise else None
            if step is not None:
                yield (
                    f"{BLIND}: {name}.grad is 0 whatever v is, because the gradient of {step.called} sums to 0 in it: "
                    "a wrong factor there cannot be seen; use different weights for its entries"
                )
                break


def rounding_note(bench: Bench, worst_ulps: float) -> str:
    """Return a note on the size of rounding errors in low precision."""
    eager = bench.rounding.eager
    dtype = bench.rounding.dtype
    said = f"only rounding: at most {six_digits(worst_ulps)} ulps of {dtype}"
    if eager is not None:
        said += f" (eager torch: {six_digits(eager / EPSILON[dtype])})"
    sizes = [float(np.abs(bench.arrays[name]).max(initial=0.0)) for name in bench.candidate.names]
    step = GRADCHECK / (EPSILON[dtype] * max(max(sizes), 1e-30))
    return f"{said}; no step is taken here: gradcheck's 1e-06 is {step:.2g} ulps of the largest input"


def eager_torch_note(bench: Bench, name: str, trial: Trial, at: tuple[int, ...]) -> str:
    """Return a note on the entry's value by torch's own backward of the formula; empty if there is none."""
    answer = None if bench.formula is None else run_eager(bench.formula, "float64", [trial.weights])
    gradient = None if answer is None else answer.gradients[0].get(name)
    if gradient is None:
        return ""
    theirs, right = float(gradient[at]), float(trial.expected[at])
    if abs(theirs - right) <= max(trial.limit, 1e-9 * max(1.0, abs(right))):
        return ", while eager PyTorch agrees with the formula"
    return f", and eager PyTorch gives {format_distinct(theirs, right)[0]}"


def ulps(bench: Bench, trial: Trial) -> float:
    """Return the largest error of a trial in ulps."""
    finite = np.isfinite(trial.expected)
    return bench.rounding.ulps(float(np.abs(trial.expected - trial.got)[finite].max(initial=0.0)), trial.scale)


def worst_entry(trial: Trial) -> tuple[int, ...]:
    """Return the index of the largest difference, the first of several equal ones."""
    gaps = np.where(trial.off, trial.gaps(trial.expected), -1.0)
    largest = gaps >= gaps.max() * (1 - ALIKE)
    return largest_at(largest)


def most_telling_trial(bad: Sequence[Trial]) -> Trial:
    """Return the trial to report: the basis seed with the largest difference, else the first."""
    basis = [t for t in bad if "onehot" in t.weights.name]
    sizes = [float(np.where(t.off, t.gaps(t.expected), 0.0).max()) for t in basis]
    return next((t for t, size in zip(basis, sizes, strict=True) if size >= max(sizes) * (1 - ALIKE)), bad[0])


def value_finding(bench: Bench, name: str, excuse: Excuse, bad: Sequence[Trial], none: bool, steady: bool) -> Finding:
    """Return the finding about one wrong input, with its cause."""
    trial = most_telling_trial(bad)
    at = worst_entry(trial)
    where = format_entry_name(f"{name}.grad", at)
    formula = bench.formula
    cause = Cause("value", "")
    entry = line = ""
    if not np.isfinite(trial.got[at]):
        count = int((~np.isfinite(trial.got)).sum())
        cause = Cause("not_finite", f"{count} of {trial.got.size} entries {'is' if count == 1 else 'are'} not finite")
    elif excuse.outside:
        cause = Cause("kink", excuse.outside)
    elif formula is not None:
        every = {n: bench.widened(n) for n in bench.candidate.names}
        whole = [all(np.isfinite(t.expected).all() for t in row) for row in zip(*every.values(), strict=True)]
        sound = [number for number, fine in enumerate(whole) if fine] or range(len(whole))
        wrong = {n: [ts[i] for i in sound] for n, ts in every.items() if any(t.off.any() for t in ts)}
        others = {n: n not in wrong for n in every if n != name}
        sure = tuple(excuse.trials[i] for i in sound)
        cause = find_cause(Case(formula, name, sure, bench.rounding, others, wrong, none, steady))
    if formula is not None:
        entry, line = entry_and_line(formula, name, at, trial)
    yours, right = format_distinct(float(trial.got[at]), float(trial.expected[at]))
    if none:
        yours = "None"
    said = f"{where}: yours {yours}; {f'{entry} = ' if entry not in ('', right) else 'the right value is '}{right}"
    lines = [f"{said}; {cause.said}" if cause.said else said]
    seed = f"v = {trial.weights.name}" + (f", {line}" if line else "")
    total = len(excuse.trials)
    lines += [*cause.more, f"{seed}  (wrong for {len(bad)} of {total} seeds{eager_torch_note(bench, name, trial, at)})"]
    if formula is not None:
        lines += where_lines(formula, lines)
    evidence = {
        "seed": trial.weights.name, "entry": list(at), "got": float(trial.got[at]),
        "expected": float(trial.expected[at]), "formula": entry, "line": line, "cause": cause.said,
        "ulps": bench.rounding.ulps(float(trial.gaps(trial.expected)[at]), trial.scale),
    }  # fmt: skip
    return Finding(cause.kind, name, where, "\n".join(lines), evidence)


def name_wrong_lines(bench: Bench, found: Sequence[Finding]) -> Iterator[Finding]:
    """Iterate over findings, with the wrong line of the candidate's backward if one is confirmed."""
    lines = find_suspects(bench) if any(finding.kind not in ELSEWHERE for finding in found) else []
    for finding in found:
        if finding.kind in ELSEWHERE or not lines:
            yield finding
            continue
        said = "".join(f"\n{'or ' * (n > 0)}in {suspect.said}" for n, suspect in enumerate(lines))
        first, *rest = finding.message.split("\n")
        rest += [line for line in suspect_definitions(bench, lines) if line not in rest]
        kind = "wrong_line" if finding.kind == "value" else finding.kind
        evidence = {**finding.evidence, "lines": [suspect_as_data(suspect) for suspect in lines]}
        yield replace(finding, kind=kind, message=first + said + "".join(f"\n{r}" for r in rest), evidence=evidence)


def suspect_definitions(bench: Bench, lines: Sequence[Suspect]) -> list[str]:
    """``where v_t1 = v_h * (1 - h ** 2)``, and what stands in there."""
    if bench.formula is None:
        return []
    found = dict[str, str]()
    for suspect in lines:
        found |= cotangent_lines(bench.formula, suspect.right)
    ours = [f"where {name} = {text}" for name, text in found.items() if not name.endswith("grad")]
    return ours + where_lines(bench.formula, [*(suspect.right for suspect in lines), *ours])


def suspect_as_data(suspect: Suspect) -> dict[str, object]:
    """A line of the candidate's, for a program to read."""
    path, line, name, _ = suspect.key
    return {"file": path, "line": line, "text": suspect.text, "gives": name, "right": suspect.right}


def cut_output_findings(bench: Bench) -> Iterator[Finding]:
    """Outputs that require no gradient although one flows through them."""
    for n, gone in enumerate(bench.run.cut):
        if not gone:
            continue
        label = label_of(n, bench.run.outputs)
        truth = bench.formula
        if truth is not None:
            moved = truth.part(n, bench.mixed[n])
            if not any(np.any(g) for g in moved.values()):
                continue
        said = f"{label} requires no gradient: the forward pass cut the graph (detach, no_grad, .data)"
        yield Finding("missing_path", "", label, said, {})
