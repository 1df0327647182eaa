"""Questions: the closed form is hidden, and a student's line is held against the formula.

Comes in: an explanation, then a line such as ``v @ a.T``. Goes out: a `Verdict`: exact, approximate, or wrong and why,
by the diagnosis of the test tool. The line is read by the same whitelist as every text and never run. It is tried at
several points: numbers, sizes and seeds, with the names that a line may use at each, and what is right there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symgrad.calculus import moving
from symgrad.errors import Setting, SymgradError, UnknownNameError
from symgrad.explanation import Explanation
from symgrad.explanation.evidence import shape_text
from symgrad.language import arguments, find_inputs, format_definition
from symgrad.notebook import Listed
from symgrad.numeric import Array, Values, as_float, forward
from symgrad.numeric.arranged import matrix_of_kind
from symgrad.numeric.vector_products import numeric_pullback
from symgrad.oracles.forms import evaluate_text, jittered, resized
from symgrad.program import Program
from symgrad.testing.right.bench import Trial, apart, place
from symgrad.testing.right.rounding import Weights, rounding_of, seeds
from symgrad.testing.right.truth import Formula
from symgrad.testing.slips.diagnosis import causes
from symgrad.testing.slips.slips import Case

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
LONGEST, SMALL = 2_000, 12
"""Characters of a line; entries of a seed that is written out."""


def points_of(explanation: Explanation) -> Iterator[tuple[str, Values]]:
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
    yield "here", next(jittered(first, program, able))
    for other in resized(first, program, able):
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


def seeds_of(explanation: Explanation, values: Values) -> Iterator[Weights]:
    """Seeds for one point; a basis too where it is small."""
    shape = np.shape(values[explanation.program.output])
    yield from (w for w in seeds([shape], 0) if w.name != "zeros")


def right_trial(explanation: Explanation, values: Values, weights: Weights, name: str) -> Trial:
    """One seed, and as if the right gradient had come for it."""
    right = as_float(numeric_pullback(explanation.program, values, weights.seeds[0], [name])[name])
    scale = max(float(np.abs(right[np.isfinite(right)]).max(initial=0.0)), LEAST)
    return Trial(weights, right, right, EXACT * scale, scale)


def case_of(explanation: Explanation, values: Values, name: str, trials: Sequence[Trial]) -> Case:
    """What the diagnosis asks of: one gradient is wrong, the others are right."""
    formula = Formula(explanation.expression, (explanation.program,), (values,), tuple(explanation.gradients))
    others = dict.fromkeys((n for n in explanation.gradients if n != name), True)
    wrong = tuple(trials)
    return Case(formula, name, wrong, rounding_of(["float64"], None, EXACT), others, {name: wrong})


def known_by(explanation: Explanation, values: Values, seed: Array) -> dict[str, Array]:
    """The names that a line may use: the inputs, the output, the seed, and what the text itself names."""
    program = explanation.program
    own = {t.name: np.asarray(values[t.name]) for t in program.tensors() if not re.fullmatch(r"t\d+", t.name)}
    return {**own, program.seed: seed}


def evaluated(text: str, known: Mapping[str, Array]) -> Array:
    """A line in numbers; raises `SymgradError` for what is not read."""
    missing = sorted(find_inputs(text, known) - set(known))
    if missing:
        raise UnknownNameError(f"there is no {missing[0]!r} here", found=(f"names: {', '.join(known)}",))
    return evaluate_text(text, known)


@dataclass(frozen=True)
class Verdict(Listed):
    """What became of a line: ``kind`` is exact, approximate, wrong or unread; ``said`` are the words."""

    kind: str
    said: str

    @property
    def right(self) -> bool:
        """Whether the line is the gradient."""
        return self.kind == "exact"

    def __str__(self) -> str:
        return f"{self.kind}: {self.said}"


@dataclass(frozen=True, eq=False)
class Question(Listed):
    """A question, ``x.grad = ?``; ``check`` takes a line, ``solution`` is the closed form, None where there is none."""

    expression: str
    name: str
    explanation: Explanation

    @property
    def question(self) -> str:
        """What is asked, and in which names."""
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

    def check(self, line: str) -> Verdict:
        """Hold ``line`` against the formula: at several numbers, at several sizes, for several seeds."""
        line = arguments.require_text(line, "the line").strip()
        text = re.sub(rf"^{re.escape(self.name)}\.grad\s*=(?!=)\s*", "", line)
        if not text or len(text) > LONGEST:
            return Verdict("unread", "there is no line" if not text else f"a line has at most {LONGEST:,} characters")
        worst, points = 0.0, 0
        try:
            for where, values in points_of(self.explanation):
                trials = [self.trial(text, values, weights) for weights in seeds_of(self.explanation, values)]
                points += 1
                other = next((t for t in trials if t.got.shape != t.expected.shape), None)
                if other is not None:
                    return self._shaped(other, where)
                worst = max(worst, *(self._off(trial, values) for trial in trials))
                if worst > NEAR:
                    why = self._why(values, trials, caused=where != "whole")
                    return Verdict("wrong", f"{LEAD.get(where, LEAD['sizes'])}{why}")
        except SymgradError as error:
            error.hints = tuple(h for h in error.hints if not isinstance(h, Setting))  # the sizes are the question's
            return Verdict("unread", str(error))
        if worst <= EXACT:
            return Verdict("exact", f"{self.name}.grad, at {points} points, {sizes_tried(self.explanation)}")
        return Verdict("approximate", f"the largest difference is {worst:.1e} of the largest entry")

    def trial(self, text: str, values: Values, weights: Weights) -> Trial:
        """One seed: what was expected, and what the line gives."""
        got = evaluated(text, known_by(self.explanation, values, weights.seeds[0]))
        return replace(right_trial(self.explanation, values, weights, self.name), got=as_float(got))

    def _off(self, trial: Trial, values: Values) -> float:
        """How far the line is from what is right; 0 where the solution itself is as far, by rounding."""
        off = relative(trial)
        if not EXACT < off <= LEAST or self.solution is None:
            return off
        try:
            own = self.trial(self.solution, values, trial.weights)
        except SymgradError:
            return off
        return 0.0 if own.got.shape == own.expected.shape and off <= 2 * relative(own) else off

    def _shaped(self, trial: Trial, where: str) -> Verdict:
        """What is said of another shape."""
        wanted, got = shape_text(trial.expected.shape, "a number"), shape_text(trial.got.shape, "a number")
        said = f"{self.name}.grad has the shape of {self.name}, {wanted}; this has {got}"
        return Verdict("wrong", f"{LEAD.get(where, LEAD['sizes'])}{said}")

    def _why(self, values: Values, trials: list[Trial], caused: bool) -> str:
        """The mistake that gives just this, and the worst entry.

        What is right at all other numbers has no mistake of those: each would be seen there, too.
        """
        cause = causes(case_of(self.explanation, values, self.name, trials)).said if caused else ""
        worst = max(
            trials, key=lambda t: float(np.where(np.isfinite(t.expected), t.gaps(t.expected), 0).max(initial=0))
        )
        at = np.unravel_index(int(np.argmax(np.where(worst.off, worst.gaps(worst.expected), -1))), worst.expected.shape)
        where = tuple(int(i) for i in at)
        wanted, found = apart(float(worst.expected[where]), float(worst.got[where]))
        label, seed = place(f"{self.name}.grad", where), spelled(worst.weights)
        entry = f"with {self.explanation.program.seed} = {seed}, {label} is {wanted}, not {found}"
        return f"{cause}; {entry}" if cause else entry

    def __str__(self) -> str:
        return self.question

    def __repr__(self) -> str:
        return f"<exercise {self.expression!r}: {self.name}.grad = ?>"


def spelled(weights: Weights) -> str:
    """A seed as it is typed where it is small, else what it is called.

    >>> spelled(Weights("random integers 1", (np.array([[1.0, -4.0]]),))), spelled(Weights("ones", (np.ones(99),)))
    ('[[1,-4]]', 'ones')
    """
    (seed,) = weights.seeds
    few = seed.size <= SMALL and np.array_equal(seed, np.round(seed))
    return str(seed.astype(int).tolist()).replace(" ", "") if few else weights.name


def relative(trial: Trial) -> float:
    """The largest difference, of the largest entry; where nothing is right, nothing can be wrong."""
    gaps = np.where(np.isfinite(trial.expected), trial.gaps(trial.expected), 0.0)
    return float(gaps.max(initial=0.0)) / trial.scale


def sizes_tried(explanation: Explanation) -> str:
    """Whether other sizes were tried."""
    return "also of other sizes" if explanation.program.sizes else "at the one size there is"
