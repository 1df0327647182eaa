"""The points at which a line is tried: numbers, sizes and seeds, and what is right there.

Comes in: an explanation, and a line. Goes out: for each point the names that a line may use, and a `Trial` for each
seed. For the page of an exercise the same goes out as plain data (``exercise.js``): points with seeds and gradients,
and what the usual mistakes would give at the first of them; None where they are too many.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np

from symgrad.calculus import moving
from symgrad.errors import SymgradError, UnknownNameError
from symgrad.explanation import Explanation
from symgrad.language import find_inputs, format_definition
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.arranged import matrix_of_kind
from symgrad.numeric.exact import largest_finite
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.oracles.forms import evaluate_text, nearby_points, resized_points
from symgrad.program import Program
from symgrad.render.html.formula_trees import json_values
from symgrad.testing.bench import Trial
from symgrad.testing.references import DerivedReference
from symgrad.testing.slips import Case, Slip
from symgrad.testing.slips.diagnosis import LIKELY, computable_slips
from symgrad.testing.trial_seeds import Weights, coarsest_tolerance, integer_seeds

RANGES = ((-2.0, 2.0), (-3.0, -0.5), (0.5, 2.5), (0.05, 0.95))
"""Where numbers are drawn from; where a function has no value they are left out."""
EXACT, NEAR = 1e-9, 1e-3
"""Of the largest entry: what rounding explains, and what counts as approximate."""
LEAST = 1e-6
"""A gradient that is smaller than this may be what cancelling leaves of 0: of it no share is asked for."""
LEAD = {
    "here": "", "sizes": "right at the sizes of this exercise, not at others: ",
    "whole": "right but where an input is 0 or entries are equal: ",
}  # fmt: skip
LONGEST = 2_000
"""Characters of a line."""
MOST_NUMBERS, MOST_WRONG = 6_000, 4_000
"""Numbers that travel with a page: of points, and of mistakes."""
SEEDS, MOST_SLIPS = 2, 150
"""Of a page: the seeds of a point, and the mistakes that are tried for one gradient."""
DIGITS = 8
"""Of what a mistake gives; a line is compared with it to six."""


def test_points(explanation: Explanation) -> Iterator[tuple[str, Values]]:
    """Numbers that differ from each other and have both signs, whole ones with 0 among them, and other sizes."""
    program = explanation.program
    able = moving(program)
    given = {g.name: g.value for g in explanation.inputs}
    free = [g for g in explanation.inputs if g.name in able and not g.value_given]
    generator, first = np.random.default_rng(7), None
    for low, high in RANGES:
        drawn = {g.name: np.round(generator.uniform(low, high, size=np.shape(g.value)), 2) for g in free}
        values = values_at(program, given | drawn)
        if values is not None and free:
            yield "here", values
        first = values if first is None else first
    first = explanation.values if first is None or not free else first
    if not free:
        yield "here", first
    yield "here", next(nearby_points(first, program, able))
    for other in resized_points(first, program, able):
        yield "sizes", other
    whole = {g.name: np.resize([0.0, 1.0, -1.0], np.shape(g.value)) for g in free}
    values = values_at(program, given | whole) if free else None
    if values is not None:
        yield "whole", values


def values_at(program: Program, inputs: Mapping[str, Array]) -> Values | None:
    """The forward pass, where every number in it is finite."""
    try:
        found = forward(program, {name: matrix_of_kind(program, name, array) for name, array in inputs.items()})
    except (SymgradError, ValueError, IndexError):
        return None
    return found if all(np.isfinite(as_float(found[t.name])).all() for t in program.tensors()) else None


def point_seeds(explanation: Explanation, values: Values) -> Iterator[Weights]:
    """Seeds for one point; a basis too where it is small."""
    shape = np.shape(values[explanation.program.output])
    yield from (w for w in integer_seeds([shape], 0) if w.name != "zeros")


def right_trial(explanation: Explanation, values: Values, weights: Weights, name: str) -> Trial:
    """One seed, and as if the right gradient had come for it."""
    right = as_float(numeric_pullback(explanation.program, values, weights.seeds[0], [name])[name])
    scale = max(largest_finite(right), LEAST)
    return Trial(weights, right, right, EXACT * scale, scale)


def line_trial(explanation: Explanation, name: str, line: str, values: Values, weights: Weights) -> Trial:
    """One seed: what was expected, and what the line gives."""
    got = evaluate_answer(line, names_for_a_line(explanation, values, weights.seeds[0]))
    return replace(right_trial(explanation, values, weights, name), got=as_float(got))


def case_of(explanation: Explanation, values: Values, name: str, trials: Sequence[Trial]) -> Case:
    """What the diagnosis asks of: one gradient is wrong, the others are right."""
    reference = DerivedReference(
        explanation.expression, (explanation.program,), (values,), tuple(explanation.gradients)
    )
    others = dict.fromkeys((n for n in explanation.gradients if n != name), True)
    wrong = tuple(trials)
    return Case(reference, name, wrong, coarsest_tolerance(["float64"], None, EXACT), others, {name: wrong})


def names_for_a_line(explanation: Explanation, values: Values, seed: Array) -> dict[str, Array]:
    """The names that a line may use: the inputs, the output, the seed, and what the text itself names."""
    program = explanation.program
    own = {t.name: np.asarray(values[t.name]) for t in program.tensors() if not re.fullmatch(r"t\d+", t.name)}
    return {**own, program.seed: seed}


def evaluate_answer(text: str, known: Mapping[str, Array]) -> Array:
    """A line in numbers; raises `SymgradError` for what is not read."""
    missing = sorted(find_inputs(text, known) - set(known))
    if missing:
        raise UnknownNameError(f"there is no {missing[0]!r} here", found=(f"names: {', '.join(known)}",))
    return evaluate_text(text, known)


def relative_error(trial: Trial) -> float:
    """The largest difference, of the largest entry; where nothing is right, nothing can be wrong."""
    gaps = np.where(np.isfinite(trial.expected), trial.gaps(trial.expected), 0.0)
    return float(gaps.max(initial=0.0)) / trial.scale


def solution_error(explanation: Explanation, name: str, values: Values, weights: Weights) -> float | None:
    """What rounding takes from the closed form itself; None where there is none, or it is not evaluated here."""
    solution = explanation.gradients[name].closed_form
    try:
        own = None if solution is None else line_trial(explanation, name, solution, values, weights)
    except (SymgradError, ValueError):
        return None
    return relative_error(own) if own is not None and own.got.shape == own.expected.shape else None


def sizes_tried(explanation: Explanation) -> str:
    """Whether other sizes were tried."""
    return "also of other sizes" if explanation.program.sizes else "at the one size there is"


# The same for a page ------------------------------------------------------------------------------------


def exercise_data(explanation: Explanation) -> dict[str, Any] | None:
    """What ``exercise.js`` asks and checks with; None for numbers that do not travel."""
    program = explanation.program
    if explanation.downstream is not None or not explanation.gradients:
        return None
    points: list[dict[str, Any]] = []
    first: tuple[Values, dict[str, list[Trial]]] | None = None
    room = MOST_NUMBERS
    for where, values in test_points(explanation):
        known = {n: a for n, a in names_for_a_line(explanation, values, explanation.seed).items() if n != program.seed}
        few = list(islice(point_seeds(explanation, values), SEEDS))
        trials = {name: [right_trial(explanation, values, w, name) for w in few] for name in explanation.gradients}
        per_seed = [t for several in trials.values() for t in several]
        room -= sum(np.size(a) for a in known.values()) + 2 * sum(t.expected.size for t in per_seed)
        if room < 0:
            break
        first = (values, trials) if first is None else first
        points.append({
            "where": where,
            "known": {name: array_data(array) for name, array in known.items()},
            "trials": [trial_data(explanation, values, trials, n) for n in range(len(few))],
        })  # fmt: skip
    if first is None:
        return None
    return {
        "seed": program.seed, "output": program.output,
        "asks": format_definition(explanation.expression, program.output),
        "inputs": list(explanation.gradients), "exact": EXACT, "near": NEAR, "least": LEAST, "longest": LONGEST,
        "lead": LEAD, "sizes": sizes_tried(explanation) if room >= 0 else "as many as fit into this page",
        "points": points, "mistakes": mistake_data(explanation, *first),
    }  # fmt: skip


def trial_data(
    explanation: Explanation, values: Values, trials: dict[str, list[Trial]], number: int
) -> dict[str, Any]:  # fmt: skip
    """One seed: its name, its numbers, the gradients, and what rounding takes from the closed form itself."""
    own = {name: several[number] for name, several in trials.items()}
    weights = next(iter(own.values())).weights
    return {
        "name": weights.name, "v": array_data(weights.seeds[0]),
        "expected": {name: array_data(trial.expected) for name, trial in own.items()},
        "allowed": {name: rounding_allowance(explanation, name, values, weights) for name in own},
    }  # fmt: skip


def rounding_allowance(explanation: Explanation, name: str, values: Values, weights: Weights) -> float:
    """What is taken for rounding: twice what the closed form itself loses, and 1e-9 at least."""
    off = solution_error(explanation, name, values, weights)
    return 2 * off if off is not None and EXACT < off <= LEAST else EXACT


def mistake_data(explanation: Explanation, values: Values, trials: dict[str, list[Trial]]) -> dict[str, list[Any]]:
    """For each input the mistakes that give something of their own, in the order in which they are believed."""
    room = MOST_WRONG
    found: dict[str, list[Any]] = {}
    for name, several in trials.items():
        found[name] = []
        seen = {rounded_bytes([t.expected for t in several])}
        blank = [replace(t, got=np.zeros_like(t.expected)) for t in several]  # nothing came yet
        for slip in islice(computable_slips(case_of(explanation, values, name, blank), LIKELY), MOST_SLIPS):
            made = slip_gradients(slip, several)
            if made is None or rounded_bytes(made) in seen or (slip.kind == "scaled" and "every entry" in slip.said):
                continue
            room -= sum(a.size for a in made)
            if room < 0:
                break
            seen.add(rounded_bytes(made))
            numbers = [[float(f"{value:.{DIGITS}g}") for value in a.reshape(-1).tolist()] for a in made]
            found[name].append({"said": slip.said, "made": numbers})
    return found


def slip_gradients(slip: Slip, trials: list[Trial]) -> list[Array] | None:
    """What a mistake gives for each seed; None where it gives nothing that can be told from nothing."""
    made = [gradient for trial in trials if (gradient := slip.gives(trial)) is not None]
    fits = len(made) == len(trials) and all(
        a.shape == t.expected.shape and np.isfinite(a).all() for a, t in zip(made, trials, strict=True)
    )  # one sentence
    return made if fits and any(a.any() for a in made) else None


def rounded_bytes(arrays: list[Array]) -> bytes:
    """What two mistakes have in common that cannot be told apart."""
    return b"".join(np.round(a, 6).tobytes() for a in arrays)


def array_data(array: Array) -> dict[str, Any]:
    """Shape and numbers."""
    return {"shape": list(np.shape(array)), "values": json_values(np.asarray(array))}
