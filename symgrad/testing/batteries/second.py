"""Second derivatives: the backward of the candidate's backward against the symbols.

A gradient that was computed of what is kept on ctx and not saved has lost a path; ``once_differentiable`` says so, and
is as good as right. Also here: ⟨v, Ju⟩ = ⟨vᵀJ, u⟩, where a candidate has a forward mode.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from symgrad.calculus import back
from symgrad.errors import SymgradError
from symgrad.numeric import Array, as_float, forward, numeric_pullback, numeric_pushforward
from symgrad.testing.report import Finding
from symgrad.testing.right.bench import Bench, Outcome, Trial, apart, largest_at, not_made, outcome, place, shown
from symgrad.testing.right.rounding import EPSILON, drawn_integers
from symgrad.testing.right.truth import Formula

ONCE = "once_differentiable"


def double_backward(bench: Bench) -> Outcome:
    """∂(Σ w·x.grad) by every input and by v, for random w."""
    formula = bench.formula
    if formula is None:
        return not_made("double_backward", "there is no formula")
    if not bench.candidate.masks:
        return not_made("double_backward", "a forward,backward pair has no graph")
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
            right = second(formula, bench, name, weights)
        except SymgradError as error:
            return not_made("double_backward", error.problem)
        count += len(right)
        if pull.failure:
            said = f"differentiating {name}.grad again {pull.failure}"
            found.append(Finding("double_backward", name, f"{name}.grad", said, {}))
            continue
        found += list(compared(bench, name, right, pull.gradients))
    return outcome("double_backward", count, found[:1])


def second(formula: Formula, bench: Bench, name: str, weights: Array) -> dict[str, Array]:
    """What the symbols say: by every input the shares of all outputs together, and by the seed of each output."""
    count = len(formula.programs)
    total = {n: np.zeros(bench.candidate.shapes[n]) for n in bench.candidate.names if n in formula.inputs}
    for number, seed in enumerate(bench.mixed):
        label = f"v{number + 1}" if count > 1 else "v"
        for by, share in of_output(formula, number, seed, name, weights, tuple(total), label).items():
            total[by] = total[by] + share if by in total else share
    return total


def of_output(
    formula: Formula, number: int, seed: Array, name: str, weights: Array, wanted: tuple[str, ...], label: str
) -> dict[str, Array]:
    """The backward of one output as a program, pulled back once more; ``label`` is what its seed is called."""
    program, values = formula.programs[number], formula.values[number]
    given = {t.name: values[t.name] for t in program.inputs}
    if name not in given:
        return {label: np.zeros(np.shape(seed))}
    twice = back(program, (name,))
    if not isinstance(twice.cotangents.get(name), str):
        return {label: np.zeros(np.shape(seed))}
    seeds = {str(weight): seed for weight in twice.weights.values() if isinstance(weight, str)}
    names = [n for n in wanted if n in given]
    point = forward(twice.program, {**given, **seeds})
    found = numeric_pullback(twice.program, point, weights, [*names, *seeds])
    return {**{n: as_float(found[n]) for n in names}, label: as_float(next(iter(found[s] for s in seeds)))}


def compared(bench: Bench, name: str, right: dict[str, Array], came: object) -> Iterator[Finding]:
    """The second derivatives that are not what they should be."""
    gradients = came if isinstance(came, dict) else {}
    for by, expected in right.items():
        got = gradients.get(by)
        numbers = np.zeros(expected.shape) if got is None else got
        scale = max(1.0, float(np.abs(expected[np.isfinite(expected)]).max(initial=0.0)))
        trial = Trial(bench.weights[0], expected, numbers, 100 * bench.rounding.allowed * scale, scale)
        if not trial.off.any():
            continue
        at = largest_at(np.where(trial.off, trial.gaps(expected), -1))
        yours, ours = apart(float(numbers[at]), float(expected[at]))
        where = f"∂(Σ w·{name}.grad)/∂{place(by, at)}"
        lost = "" if numbers.any() else f": {name}.grad has lost its dependence on {by}"
        said = f"{where}: yours {'None' if got is None else yours}, the formula gives {ours}{lost}"
        advice = "backward has to use tensors of save_for_backward and operations of torch, or be marked "
        evidence = {"got": float(numbers[at]), "expected": float(expected[at])}
        yield Finding("double_backward", name, where, f"{said}\n{advice}@once_differentiable", evidence)
        return


def duality(bench: Bench) -> Outcome:
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
        left = sum(float(np.sum(s * p)) for s, p in zip(bench.mixed, pushed, strict=True))
        gradient = bench.baseline.gradients.get(name)
        right = 0.0 if gradient is None else float(np.sum(gradient * u))
        scale = sum(float(np.sum(np.abs(s * p))) for s, p in zip(bench.mixed, pushed, strict=True))
        scale = max(scale, 0.0 if gradient is None else float(np.sum(np.abs(gradient * u))), 1.0)
        if abs(left - right) > bench.rounding.allowed * scale or np.isnan(left - right):
            said = f"⟨v, Ju⟩ = {shown(left)} by jvp and ⟨vᵀJ, u⟩ = {shown(right)} by backward, for random u of {name}"
            said += wrong_side(bench, name, u, left, right)
            found.append(Finding("duality", name, name, said, {"jvp": left, "backward": right}))
    return outcome("duality", count, found) if count else not_made("duality", "the function has no jvp")


def wrong_side(bench: Bench, name: str, u: Array, left: float, right: float) -> str:
    """Which of the two the formula contradicts."""
    formula = bench.formula
    if formula is None or name not in formula.inputs:
        return ""
    true = 0.0
    for program, values, seed in zip(formula.programs, formula.values, bench.mixed, strict=True):
        if any(t.name == name for t in program.inputs):
            true += float(np.sum(seed * as_float(numeric_pushforward(program, values, name, u))))
    near = max(bench.rounding.allowed, 1e3 * EPSILON["float64"]) * max(1.0, abs(true), abs(left), abs(right))
    fits = [abs(true - side) <= near for side in (left, right)]
    if fits == [True, False]:
        return f"; the formula gives {shown(true)}: backward is wrong"
    return f"; the formula gives {shown(true)}: jvp is wrong" if fits == [False, True] else ""
