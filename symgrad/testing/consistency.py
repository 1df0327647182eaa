"""A candidate beside itself: other layouts in memory, fewer gradients asked for, its forward mode, its own backward.

Each layout of v and of every input is held against the candidate's own answer for the same numbers row by row, so that
a wrong formula is not told twice; at other numbers (a stride of 0 repeats entries) that is asked for only where the
formula is not met. So is every subset of ``requires_grad`` (of many inputs: each alone, and all but each), and None for
every output that does not count. Then ⟨v, Ju⟩ = ⟨vᵀJ, u⟩, where there is a forward mode, and second derivatives: a
gradient that was computed of what is kept on ctx and not saved has lost a path; ``once_differentiable`` says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations

import numpy as np

from symgrad.calculus import back
from symgrad.errors import SymgradError
from symgrad.language.arguments import format_entry_name
from symgrad.numeric import Array, as_float, forward, numeric_pullback, numeric_pushforward
from symgrad.numeric.exact import gaps, largest_finite
from symgrad.testing.bench import (
    BatteryResult,
    Bench,
    Trial,
    battery_result,
    format_distinct,
    gradient_gaps,
    largest_at,
    not_made,
    right_gradients,
    six_digits,
)
from symgrad.testing.candidates import LAYOUTS, CandidateRun, MemoryLayout, PullResult, Variation
from symgrad.testing.references import DerivedReference
from symgrad.testing.report import Finding
from symgrad.testing.trial_seeds import EPSILON, drawn_integers

MOST, NEAR = 4, 1e-14
"""Inputs of which all subsets are tried; how far, relatively, numbers are moved to see whether they are steady."""
ONCE = "once_differentiable"


def check_layouts(bench: Bench) -> BatteryResult:
    """Every layout of every seed, and of every input."""
    found, notes, count = list[Finding](), list[str](), 0
    tried: list[tuple[Array, Callable[[MemoryLayout], Iterator[Finding | str]]]] = [
        *((seed, partial(seed_layout_findings, bench, n)) for n, seed in enumerate(bench.mixed)),
        *((bench.arrays[name], partial(input_layout_findings, bench, name)) for name in bench.candidate.names),
    ]
    for array, look in tried:
        ways = [way for way in LAYOUTS if array.size > 1 and way.fits(array)]
        said = [one for way in ways for one in look(way)]
        bad = [one for one in said if isinstance(one, Finding)]
        if len(bad) > 1:  # they are alike
            others = "; ".join(str(f.evidence["layout"]) for f in bad[1:])
            bad = [replace(bad[0], message=f"{bad[0].message}\nalso {others}")]
        found, notes, count = found + bad, notes + [one for one in said if isinstance(one, str)], count + len(ways)
    refused = f"{notes[0]}: it raises an error there, so no result is wrong" if notes else ""
    more = f" (also other layouts: {len(notes)} in all)" if len(notes) > 1 else ""
    return battery_result("layout", count, found, refused + more)


def seed_layout_findings(bench: Bench, number: int, way: MemoryLayout) -> Iterator[Finding]:
    """One seed in one layout."""
    seeds, label = list(bench.mixed), "v" if len(bench.mixed) == 1 else f"v{number + 1}"
    seeds[number] = way.values(seeds[number])
    ways = [way if n == number else None for n in range(len(seeds))]
    laid = bench.run.pull(seeds, ways)
    if np.array_equal(seeds[number], bench.mixed[number]):
        plain = bench.baseline
    elif bench.truth is not None and matches_expected(bench, laid, right_gradients(bench.truth, bench.rows, seeds)):
        return
    else:
        plain = bench.run.pull(seeds)
    for finding in layout_differences(bench, "", label, way, seeds[number], plain, laid):
        if not laid.failure and is_read_as_contiguous(bench, number, way, laid):
            read = f": {label} is read as if it were contiguous (.contiguous() first, or use its strides)"
            finding = replace(finding, message=finding.message + read)
        yield finding


def layout_differences(
    bench: Bench, name: str, label: str, way: MemoryLayout, values: Array, plain: PullResult, laid: PullResult
) -> Iterator[Finding]:
    """What a backward says where one tensor lies in some layout, and not where it lies row by row."""
    there = Finding("layout", name, label, f"with {way.lying(label, values)}", {"layout": way.name})
    if laid.failure and not plain.failure:
        yield replace(there, message=f"{there.message} backward {laid.failure}")
    if not laid.failure:
        there = replace(there, evidence={**there.evidence, "strides": way.place(values).strides})
        yield from first_gap(bench, there, "with the same numbers in contiguous memory", plain, laid)


def first_gap(bench: Bench, there: Finding, here: str, plain: PullResult, other: PullResult) -> Iterator[Finding]:
    """The first gradient that is another one ``there`` than ``here``, with its entry and both numbers."""
    for name, where, first, second in gradient_gaps(bench, plain, other, bench.rounding.allowed):
        yours, right = format_distinct(second, first)
        if "required" in there.evidence and other.gradients.get(name) is None:
            yours = "None"
        said = f"{where}: {yours} {there.message}, {right} {here}"
        evidence = {**there.evidence, "got": second, "expected": first}
        yield replace(there, input=there.input or name, where=where, message=said, evidence=evidence)
        break


def matches_expected(bench: Bench, laid: PullResult, expected: Mapping[str, Array]) -> bool:
    """Whether what came is what is right, and need not be held against what comes row by row."""
    return not laid.failure and not any(gradient_gaps(bench, PullResult({**expected}), laid, bench.rounding.allowed))


def is_read_as_contiguous(bench: Bench, number: int, way: MemoryLayout, laid: PullResult) -> bool:
    """Whether the storage of v, read row by row from its first entry or from the offset, gives what came."""
    seeds = list(bench.mixed)
    placed = way.place(way.values(seeds[number]))
    size = seeds[number].size
    for begin in {0, placed.offset}:
        if len(placed.buffer) >= begin + size:
            seeds[number] = placed.buffer[begin : begin + size].reshape(placed.shape)
            if not any(gradient_gaps(bench, bench.run.pull(seeds), laid, bench.rounding.allowed)):
                return True
    return False


def input_layout_findings(bench: Bench, name: str, way: MemoryLayout) -> Iterator[Finding | str]:
    """One input in one layout; a forward pass that raises is no wrong gradient, and is only told."""
    if name not in bench.movable:  # a parameter of a module stays where it is
        return
    values = way.values(bench.arrays[name])
    numbers = {} if np.array_equal(values, bench.arrays[name]) else {name: values}
    laid = bench.candidate.run(Variation(values=numbers, layouts={name: way}))
    second = PullResult() if laid.failure else laid.pull(bench.mixed)
    if numbers and matches_formula_at(bench, numbers, laid, second):
        return
    plain: CandidateRun = bench.candidate.run(Variation(values=numbers)) if numbers else bench.run
    if plain.failure or "unsupported operation" in laid.failure:  # in-place on what is stored once
        return
    if numbers and not is_well_conditioned_at(bench, numbers):
        return
    if laid.failure:
        yield f"with {way.lying(name, values)} the forward pass {laid.failure}"
        return
    if not same_outputs(bench, plain.outputs, laid.outputs):
        said = f"with {way.lying(name, values)} the forward pass gives other numbers than with contiguous tensors"
        yield Finding("layout", name, "out", said, {"layout": way.name})
        return
    first = plain.pull(bench.mixed) if numbers else bench.baseline
    yield from layout_differences(bench, name, name, way, values, first, second)


def same_outputs(bench: Bench, outputs: Sequence[Array], others: Sequence[Array]) -> bool:
    """Whether two forward passes are the same but for rounding."""
    pairs, share = zip(outputs, others, strict=True), bench.rounding.allowed
    return all(a.shape == b.shape and (gaps(a, b) <= share * max(1.0, largest_finite(a))).all() for a, b in pairs)


def matches_formula_at(bench: Bench, numbers: Mapping[str, Array], laid: CandidateRun, pull: PullResult) -> bool:
    """Whether forward and backward at other numbers are what the formula gives there: no further run is needed."""
    formula = bench.formula
    if formula is None or laid.failure or not formula.inputs.keys() >= numbers.keys():
        return False
    try:
        there = formula.at(numbers)
        same = same_outputs(bench, there.outputs, laid.outputs)
        return same and matches_expected(bench, pull, there.pull(bench.mixed))
    except SymgradError:
        return False


def is_well_conditioned_at(bench: Bench, numbers: Mapping[str, Array]) -> bool:
    """Whether rounding stays rounding at other numbers: equal rows make a matrix singular, and its log is anything."""
    if bench.formula is None or not bench.formula.inputs.keys() >= numbers.keys():
        return True
    draw = np.random.default_rng(0)
    near = {name: array * (1 + NEAR * draw.choice((-1.0, 1.0), array.shape)) for name, array in numbers.items()}
    try:
        return same_outputs(bench, bench.formula.at(numbers).outputs, bench.formula.at(near).outputs)
    except SymgradError:
        return False


def check_masks(bench: Bench) -> BatteryResult:
    """All subsets but the whole, and every output alone."""
    names = bench.candidate.names
    subsets = list(subsets_of(names)) if bench.candidate.masks else []
    alone = range(len(bench.run.outputs)) if len(bench.run.outputs) > 1 else ()
    if not subsets and not alone:
        pair = "a forward,backward pair always returns all gradients"
        why = "there is only one input and one output" if bench.candidate.masks else pair
        return not_made("mask", why)
    found = [f for subset in subsets for f in subset_findings(bench, subset)]
    found += [f for n in alone for f in single_output_findings(bench, n)]
    return battery_result("mask", len(subsets) + len(alone), found[:1], "")


def subsets_of(names: tuple[str, ...]) -> Iterator[frozenset[str]]:
    """The subsets that are neither empty nor the whole."""
    sizes = range(1, len(names)) if len(names) <= MOST else sorted({1, len(names) - 1} - {0})
    for size in sizes:
        yield from map(frozenset, combinations(names, size))


def subset_findings(bench: Bench, required: frozenset[str]) -> Iterator[Finding]:
    """Only some inputs require a gradient."""
    names = bench.candidate.names
    asked, frozen = (", ".join(n for n in names if (n in required) == needed) for needed in (True, False))
    there = Finding("mask", asked, asked, f"when {frozen} requires no gradient", {"required": sorted(required)})
    run = bench.candidate.run(Variation(required=required))
    if run.failure:
        yield replace(there, message=f"when only {asked} requires a gradient, the forward pass {run.failure}")
        return
    pull = run.pull(bench.mixed)
    if pull.failure:
        yield replace(there, message=f"{there.message}, backward {pull.failure}")
        return
    here = "when it does: look at needs_input_grad"
    yield from first_gap(bench, replace(there, input=""), here, bench.baseline, pull)


def single_output_findings(bench: Bench, number: int) -> Iterator[Finding]:
    """All outputs but one are left unused."""
    zeros = [s if n == number else np.zeros(s.shape) for n, s in enumerate(bench.mixed)]
    plain = bench.run.pull(zeros)
    pull = bench.run.pull([s if n == number else None for n, s in enumerate(bench.mixed)])
    output = f"output {number + 1}"
    there = Finding("mask", "", output, f"when only {output} is used", {"output": number + 1})
    if pull.failure and not plain.failure:
        yield replace(there, message=f"{there.message}, backward {pull.failure}")
    elif not plain.failure:
        yield from first_gap(bench, there, "when the others get zeros", plain, pull)


def check_double_backward(bench: Bench) -> BatteryResult:
    """∂(Σ w·x.grad) by every input and by v, for random w."""
    formula = bench.formula
    if formula is None or not bench.candidate.masks:
        why = "there is no formula" if formula is None else "a forward,backward pair has no graph"
        return not_made("double_backward", why)
    generator = np.random.default_rng(bench.number + 1)
    found, count = [], 0
    for name in bench.candidate.names:
        if name not in formula.inputs:
            continue
        weights = drawn_integers(generator, bench.candidate.shapes[name], 3)
        pull = bench.candidate.second(name, bench.mixed, weights)
        if ONCE in pull.failure:
            compiled = "compiled" in pull.failure
            return not_made("double_backward", "torch.compile has none" if compiled else f"backward is {ONCE}")
        try:
            right = second_derivatives(formula, bench, name, weights)
        except SymgradError as error:
            return not_made("double_backward", error.problem)
        count += len(right)
        if pull.failure:
            said = f"differentiating {name}.grad again {pull.failure}"
            found.append(Finding("double_backward", name, f"{name}.grad", said, {}))
            continue
        found += list(second_order_findings(bench, name, right, pull.gradients))
    return battery_result("double_backward", count, found[:1])


def second_derivatives(formula: DerivedReference, bench: Bench, name: str, weights: Array) -> dict[str, Array]:
    """What the symbols say: by every input the shares of all outputs together, and by the seed of each output."""
    count = len(formula.programs)
    total = {n: np.zeros(bench.candidate.shapes[n]) for n in bench.candidate.names if n in formula.inputs}
    wanted = tuple(total)
    for number, (program, values, seed) in enumerate(zip(formula.programs, formula.values, bench.mixed, strict=True)):
        label = f"v{number + 1}" if count > 1 else "v"
        total[label] = np.zeros(np.shape(seed))
        given = {t.name: values[t.name] for t in program.inputs}
        twice = back(program, (name,)) if name in given else None
        if twice is None or not isinstance(twice.cotangents.get(name), str):
            continue
        seeds = {str(weight): seed for weight in twice.weights.values() if isinstance(weight, str)}
        names = [n for n in wanted if n in given]
        point = forward(twice.program, {**given, **seeds})
        found = numeric_pullback(twice.program, point, weights, [*names, *seeds])
        for by in names:
            total[by] = total[by] + as_float(found[by])
        total[label] = as_float(next(iter(found[s] for s in seeds)))
    return total


def second_order_findings(
    bench: Bench, name: str, right: Mapping[str, Array], came: Mapping[str, Array | None]
) -> Iterator[Finding]:
    """The second derivatives that are not what they should be."""
    for by, expected in right.items():
        got = came.get(by)
        numbers = np.zeros(expected.shape) if got is None else got
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
        trial = Trial(bench.weights[0], expected, numbers, 100 * bench.rounding.allowed * scale, scale)
        if not trial.off.any():
            continue
        at = largest_at(np.where(trial.off, trial.gaps(expected), -1))
        yours, ours = format_distinct(float(numbers[at]), float(expected[at]))
        where = f"∂(Σ w·{name}.grad)/∂{format_entry_name(by, at)}"
        lost = "" if numbers.any() else f": {name}.grad has lost its dependence on {by}"
        said = f"{where}: yours {'None' if got is None else yours}, the formula gives {ours}{lost}"
        advice = "backward has to use tensors of save_for_backward and operations of torch, or be marked "
        evidence = {"got": float(numbers[at]), "expected": float(expected[at])}
        yield Finding("double_backward", name, where, f"{said}\n{advice}@once_differentiable", evidence)
        return


def check_duality(bench: Bench) -> BatteryResult:
    """⟨v, Ju⟩ by the candidate's forward mode, ⟨vᵀJ, u⟩ by its backward."""
    generator = np.random.default_rng(bench.number + 2)
    found, count = [], 0
    for name in bench.candidate.names:
        u = drawn_integers(generator, bench.candidate.shapes[name], 3)
        pushed = bench.candidate.pushed(name, u)
        if pushed is None:
            continue
        count += 1
        if isinstance(pushed, str):
            found.append(Finding("duality", name, name, f"jvp {pushed}", {}))
            continue
        gradient = bench.baseline.gradients.get(name)
        ours = [s * p for s, p in zip(bench.mixed, pushed, strict=True)]
        theirs = np.zeros(1) if gradient is None else gradient * u
        left, right = sum(float(np.sum(part)) for part in ours), float(np.sum(theirs))
        scale = max(sum(float(np.sum(np.abs(part))) for part in ours), float(np.sum(np.abs(theirs))), 1.0)
        if abs(left - right) > bench.rounding.allowed * scale or np.isnan(left - right):
            said = f"⟨v, Ju⟩ = {six_digits(left)} by jvp and ⟨vᵀJ, u⟩ = {six_digits(right)} by backward, for random u "
            said += f"of {name}{name_wrong_side(bench, name, u, left, right)}"
            found.append(Finding("duality", name, name, said, {"jvp": left, "backward": right}))
    return battery_result("duality", count, found) if count else not_made("duality", "the function has no jvp")


def name_wrong_side(bench: Bench, name: str, u: Array, left: float, right: float) -> str:
    """Which of the two the formula contradicts."""
    formula = bench.formula
    if formula is None or name not in formula.inputs:
        return ""
    true = 0.0
    for program, values, seed in zip(formula.programs, formula.values, bench.mixed, strict=True):
        reached = any(t.name == name for t in program.inputs)
        true += float(np.sum(seed * as_float(numeric_pushforward(program, values, name, u)))) if reached else 0.0
    near = max(bench.rounding.allowed, 1e3 * EPSILON["float64"]) * max(1.0, abs(true), abs(left), abs(right))
    fits = [abs(true - side) <= near for side in (left, right)]
    wrong = {(True, False): "backward", (False, True): "jvp"}.get((fits[0], fits[1]), "")
    return f"; the formula gives {six_digits(true)}: {wrong} is wrong" if wrong else ""
