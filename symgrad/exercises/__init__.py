"""Exercises: the closed form is hidden, and a student's line is held against the formula.

Comes in: an expression, then a line such as ``v @ a.T``. Goes out: an `Exercise`, and for each line a `LineVerdict`:
exact, approximate, or wrong and why, by the diagnosis of the test tool. A line is read by the same whitelist as every
text and never run. As a page (`Exercise.to_html`) the question checks lines without Python.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.api import explain_values
from symgrad.errors import InputError, Setting, SymgradError, UnknownNameError
from symgrad.exercises.points import (
    EXACT,
    LEAD,
    LEAST,
    LONGEST,
    NEAR,
    case_of,
    exercise_data,
    line_trial,
    point_seeds,
    relative_error,
    sizes_tried,
    solution_error,
    test_points,
)
from symgrad.explanation import Explanation
from symgrad.explanation.evidence import shape_text
from symgrad.explanation.formulas import Shapes
from symgrad.language import arguments, format_definition
from symgrad.notebook import Listed
from symgrad.numeric import Values
from symgrad.testing.bench import Trial, format_distinct, largest_at
from symgrad.testing.slips.diagnosis import find_cause
from symgrad.testing.trial_seeds import Weights

__all__ = ["Exercise", "LineVerdict", "exercise", "exercise_data"]

SMALL = 12
"""Entries of a seed that is written out."""


@dataclass(frozen=True)
class LineVerdict(Listed):
    """What became of a line: ``kind`` is exact, approximate, wrong or unread; ``said`` are the words."""

    kind: str
    said: str

    @property
    def right(self) -> bool:
        """Whether the line is the gradient."""
        return self.kind == "exact"

    def __str__(self) -> str:
        return f"{self.kind}: {self.said}"


@dataclass(frozen=True, eq=False, repr=False)
class Exercise(Listed):
    """A question, ``x.grad = ?``; ``check`` takes a line, ``solution`` is the closed form, None where there is none."""

    expression: str
    name: str
    explanation: Explanation

    @property
    def question(self) -> str:
        """The question, with the names to use in an answer."""
        program = self.explanation.program
        sizes = ", ".join(f"{g.name} {shape_text(g.value.shape, 'a number')}" for g in self.explanation.inputs)
        known = ", ".join(dict.fromkeys([program.seed, program.output, *(g.name for g in self.explanation.inputs)]))
        return (
            f"{format_definition(self.expression, program.output)}    ({sizes}, {program.output} "
            f"{shape_text(self.explanation.output.shape, 'a number')})\n"
            f"{program.output}.backward({program.seed}):  {self.name}.grad = ?    (in {known}; any size)"
        )

    @property
    def solution(self) -> str | None:
        """The closed form."""
        return self.explanation.gradients[self.name].closed_form

    def check(self, line: str) -> LineVerdict:
        """Hold ``line`` against the formula: at several numbers, at several sizes, for several seeds."""
        line = arguments.require_text(line, "the line").strip()
        text = re.sub(rf"^{re.escape(self.name)}\.grad\s*=(?!=)\s*", "", line)
        if not text or len(text) > LONGEST:
            return LineVerdict(
                "unread", "there is no line" if not text else f"a line has at most {LONGEST:,} characters"
            )
        worst, points = 0.0, 0
        try:
            for where, values in test_points(self.explanation):
                seeds = point_seeds(self.explanation, values)
                trials = [line_trial(self.explanation, self.name, text, values, weights) for weights in seeds]
                points += 1
                other = next((t for t in trials if t.got.shape != t.expected.shape), None)
                if other is not None:
                    return self._shaped(other, where)
                worst = max(worst, *(self._off(trial, values) for trial in trials))
                if worst > NEAR:
                    why = self._why(values, trials, caused=where != "whole")
                    return LineVerdict("wrong", f"{LEAD.get(where, LEAD['sizes'])}{why}")
        except SymgradError as error:
            error.hints = tuple(h for h in error.hints if not isinstance(h, Setting))  # the sizes are the question's
            return LineVerdict("unread", str(error))
        if worst <= EXACT:
            return LineVerdict("exact", f"{self.name}.grad, at {points} points, {sizes_tried(self.explanation)}")
        return LineVerdict("approximate", f"the largest difference is {worst:.1e} of the largest entry")

    def to_html(self) -> str:
        """The question as a page in one file that checks lines without Python; its answers are hidden at first.

        Raises `InputError` where the numbers are too many to travel or the packages of ``symgrad[pages]`` are missing.
        """
        found = exercise_data(self.explanation)
        if found is None:
            raise InputError("this exercise has no page", found=("it has too many numbers for a page",))
        return self.explanation.to_html(asked=found, hidden=self.name)

    def _off(self, trial: Trial, values: Values) -> float:
        """How far the line is from what is right; 0 where the solution itself is as far, by rounding."""
        off = relative_error(trial)
        if not EXACT < off <= LEAST:
            return off
        own = solution_error(self.explanation, self.name, values, trial.weights)
        return 0.0 if own is not None and off <= 2 * own else off

    def _shaped(self, trial: Trial, where: str) -> LineVerdict:
        """What is said of another shape."""
        wanted, got = shape_text(trial.expected.shape, "a number"), shape_text(trial.got.shape, "a number")
        said = f"{self.name}.grad has the shape of {self.name}, {wanted}; this has {got}"
        return LineVerdict("wrong", f"{LEAD.get(where, LEAD['sizes'])}{said}")

    def _why(self, values: Values, trials: list[Trial], caused: bool) -> str:
        """The mistake that gives just this, and the worst entry.

        What is right at all other numbers has no mistake of those: each would be seen there, too.
        """
        cause = find_cause(case_of(self.explanation, values, self.name, trials)).said if caused else ""
        worst = max(
            trials, key=lambda t: float(np.where(np.isfinite(t.expected), t.gaps(t.expected), 0).max(initial=0))
        )
        where = largest_at(np.where(worst.off, worst.gaps(worst.expected), -1))
        wanted, found = format_distinct(float(worst.expected[where]), float(worst.got[where]))
        label, seed = arguments.format_entry_name(f"{self.name}.grad", where), seed_text(worst.weights)
        entry = f"with {self.explanation.program.seed} = {seed}, {label} is {wanted}, not {found}"
        return f"{cause}; {entry}" if cause else entry

    def __str__(self) -> str:
        return self.question

    def __repr__(self) -> str:
        return f"<exercise {self.expression!r}: {self.name}.grad = ?>"


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


def seed_text(weights: Weights) -> str:
    """A seed as it is typed where it is small, else what it is called.

    >>> seed_text(Weights("random integers 1", (np.array([[1.0, -4.0]]),))), seed_text(Weights("ones", (np.ones(99),)))
    ('[[1,-4]]', 'ones')
    """
    (seed,) = weights.seeds
    few = seed.size <= SMALL and np.array_equal(seed, np.round(seed))
    return str(seed.astype(int).tolist()).replace(" ", "") if few else weights.name
