"""A question with its page: `symgrad.exercise`.

Comes in: an expression. Goes out: an `Exercise`, whose `check` holds a line against the formula and whose `to_html`
does so without Python. For that plain data travels to ``exercise.js``: points with seeds and gradients, and what the
usual mistakes would give at the first of them, made by the diagnosis of the test tool; None where they are too many.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from symgrad.api import explain_values
from symgrad.errors import InputError, SymgradError, UnknownNameError
from symgrad.exercises.lines import (
    EXACT,
    LEAD,
    LEAST,
    LONGEST,
    NEAR,
    Question,
    case_of,
    known_by,
    points_of,
    relative,
    right_trial,
    seeds_of,
    sizes_tried,
)
from symgrad.explanation import Explanation
from symgrad.explanation.formulas import Shapes
from symgrad.language import arguments, format_definition
from symgrad.numeric import Array, Values
from symgrad.render.html.travel import listed
from symgrad.testing.right.bench import Trial
from symgrad.testing.slips.diagnosis import likely
from symgrad.testing.slips.slips import Slip

MOST_NUMBERS, MOST_WRONG = 6_000, 4_000
"""Numbers that travel: of points, and of mistakes."""
SEEDS = 2
MOST_SLIPS = 150
"""Mistakes that are tried for one gradient; those that give nothing of their own are left out."""
DIGITS = 8
"""Of what a mistake gives; a line is compared with it to six."""


def asked(explanation: Explanation) -> dict[str, Any] | None:
    """What ``exercise.js`` asks and checks with; None for numbers that do not travel."""
    program = explanation.program
    if explanation.downstream is not None or not explanation.gradients:
        return None
    points: list[dict[str, Any]] = []
    first: tuple[Values, dict[str, list[Trial]]] | None = None
    room = MOST_NUMBERS
    for where, values in points_of(explanation):
        known = {n: a for n, a in known_by(explanation, values, explanation.seed).items() if n != program.seed}
        trials = trials_at(explanation, values)
        per_seed = [t for several in trials.values() for t in several]
        room -= sum(np.size(a) for a in known.values()) + 2 * sum(t.expected.size for t in per_seed)
        if room < 0:
            break
        first = (values, trials) if first is None else first
        points.append({
            "where": where,
            "known": {name: tensor(array) for name, array in known.items()},
            "trials": [trial_of(explanation, values, trials, n) for n in range(len(next(iter(trials.values()))))],
        })  # fmt: skip
    if first is None:
        return None
    return {
        "seed": program.seed, "output": program.output,
        "asks": format_definition(explanation.expression, program.output),
        "inputs": list(explanation.gradients), "exact": EXACT, "near": NEAR, "least": LEAST, "longest": LONGEST,
        "lead": LEAD, "sizes": sizes_tried(explanation) if room >= 0 else "as many as fit into this page",
        "points": points, "mistakes": mistakes(explanation, *first),
    }  # fmt: skip


def trials_at(explanation: Explanation, values: Values) -> dict[str, list[Trial]]:
    """What is right for a few seeds, by every input."""
    few = list(islice(seeds_of(explanation, values), SEEDS))
    return {name: [right_trial(explanation, values, w, name) for w in few] for name in explanation.gradients}


def trial_of(
    explanation: Explanation, values: Values, trials: dict[str, list[Trial]], number: int
) -> dict[str, Any]:  # fmt: skip
    """One seed: its name, its numbers, the gradients, and what rounding takes from the closed form itself."""
    own = {name: several[number] for name, several in trials.items()}
    weights = next(iter(own.values())).weights
    return {
        "name": weights.name, "v": tensor(weights.seeds[0]),
        "expected": {name: tensor(trial.expected) for name, trial in own.items()},
        "allowed": {name: allowed(explanation, name, values, trial) for name, trial in own.items()},
    }  # fmt: skip


def allowed(explanation: Explanation, name: str, values: Values, trial: Trial) -> float:
    """What is taken for rounding: twice what the closed form itself loses, and 1e-9 at least."""
    question = Question(explanation.expression, name, explanation)
    if question.solution is None:
        return EXACT
    try:
        off = relative(question.trial(question.solution, values, trial.weights))
    except (SymgradError, ValueError):
        return EXACT
    return 2 * off if EXACT < off <= LEAST else EXACT


def mistakes(explanation: Explanation, values: Values, trials: dict[str, list[Trial]]) -> dict[str, list[Any]]:
    """For each input the mistakes that give something of their own, in the order in which they are believed."""
    room = MOST_WRONG
    found: dict[str, list[Any]] = {}
    for name, several in trials.items():
        found[name] = []
        seen = {key([t.expected for t in several])}
        blank = [replace(t, got=np.zeros_like(t.expected)) for t in several]  # nothing came yet
        for slip in islice(likely(case_of(explanation, values, name, blank)), MOST_SLIPS):
            made = gradients_of(slip, several)
            if made is None or key(made) in seen or (slip.kind == "scaled" and "every entry" in slip.said):
                continue
            room -= sum(a.size for a in made)
            if room < 0:
                break
            seen.add(key(made))
            found[name].append({"said": slip.said, "made": [rounded(a) for a in made]})
    return found


def gradients_of(slip: Slip, trials: list[Trial]) -> list[Array] | None:
    """What a mistake gives for each seed; None where it gives nothing that can be told from nothing."""
    made = [gradient for trial in trials if (gradient := slip.gives(trial)) is not None]
    fits = len(made) == len(trials) and all(
        a.shape == t.expected.shape and np.isfinite(a).all() for a, t in zip(made, trials, strict=True)
    )  # one sentence
    return made if fits and any(a.any() for a in made) else None


def key(arrays: list[Array]) -> bytes:
    """What two mistakes have in common that cannot be told apart."""
    return b"".join(np.round(a, 6).tobytes() for a in arrays)


def rounded(array: Array) -> list[float]:
    """Numbers to a few digits."""
    return [float(f"{value:.{DIGITS}g}") for value in array.reshape(-1).tolist()]


def tensor(array: Array) -> dict[str, Any]:
    """Shape and numbers."""
    return {"shape": list(np.shape(array)), "values": listed(np.asarray(array))}


@dataclass(frozen=True, eq=False, repr=False)
class Exercise(Question):
    """A question, ``x.grad = ?``; ``check`` takes a line, ``solution`` is the closed form, None where there is none."""

    def to_html(self) -> str:
        """The question as a page in one file that checks lines without Python; its answers are hidden at first.

        Raises `InputError` where the numbers are too many to travel or the packages of ``symgrad[pages]`` are missing.
        """
        found = asked(self.explanation)
        if found is None:
            raise InputError("this exercise has no page", found=("it has too many numbers for a page",))
        return self.explanation.to_html(asked=found, hidden=self.name)


def exercise(expression: str, *, wrt: str | None = None, shapes: Shapes | None = None, **values: Any) -> Exercise:
    """A question about ``expression``: what ``backward(v)`` puts into the gradient of ``wrt`` (the first input).

    Raises `SymgradError` where the expression cannot be explained, `UnknownNameError` for an input that there is not.

    >>> question = exercise("x@a")
    >>> question.check("v @ a.T").kind, question.check("v * 2").kind
    ('exact', 'wrong')
    """
    found = explain_values(expression, values, wrt=None, shapes=shapes, check=False)
    name = next(iter(found.gradients), None) if wrt is None else arguments.require_name(wrt, "wrt")
    if name is None:
        raise InputError("there is no input to differentiate with respect to", found=(expression,))
    if name not in found.gradients:
        raise UnknownNameError(f"there is no input {name!r}", found=(f"inputs: {', '.join(found.gradients)}",))
    return Exercise(found.expression, name, found)
