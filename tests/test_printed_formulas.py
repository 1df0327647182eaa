"""Every formula of every operation's examples is printed, read back, evaluated entry by entry, and held against the array."""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from symgrad import Explanation
from symgrad.calculus import local_jacobian
from symgrad.indexing import Equation
from symgrad.numeric import evaluate
from symgrad.render.formula import Unicode
from symgrad.render.letters import Names, choose_names
from tests.cases import Case, first_stories
from tests.formula_reader import Reader


@dataclass(frozen=True)
class Printed:
    """One formula under its names, and the numbers it stands for."""

    what: str
    equation: Equation
    names: Names
    explanation: Explanation


def formulas_of(explanation: Explanation) -> Iterator[Printed]:
    """Every forward equation, Jacobian and gradient of an explanation."""
    program, names = explanation.program, choose_names(explanation.program)
    for step in program.steps:
        equation = local_jacobian(step, program).equation
        yield Printed(step.result.name, equation, names.entry(equation.axes, step.result.name), explanation)
    for name, gradient in explanation.gradients.items():
        jacobian = gradient.jacobian
        if jacobian.formula is not None:
            scope = names.entry(jacobian.axes, program.output).inner(jacobian.inner)
            yield Printed(
                f"J {name}", Equation((*jacobian.axes, *jacobian.inner), jacobian.formula), scope, explanation
            )
        if gradient.sweep.whole:
            yield Printed(f"grad {name}", gradient.sweep.equation, names.inner(gradient.inner), explanation)


class Sized(Unicode):
    """The printer, with the length of every sum: Σ_{i:2,k:4}."""

    def __init__(self, sizes: Mapping[Any, int]) -> None:
        self.sizes = sizes

    def bounded(self, letter: str, index: Any, body: Any, names: Names) -> str:
        return f"{letter}:{index.size.xreplace(dict(self.sizes))}"

    def over(self, sign: str, letters: Sequence[str], text: str) -> str:
        return f"{sign}_{{{','.join(letters)}}} {text}"


class Unsaid(Unicode):
    """The printer without the lengths of sums that no entry tells."""

    def bounded(self, letter: str, index: Any, body: Any, names: Names) -> str:
        return letter


@pytest.mark.parametrize("case", first_stories())
def test_what_is_printed_is_what_was_computed(case: Case) -> None:
    explanation = case.story
    arrays = {**explanation.values.arrays, "v": explanation.seed}
    sizes = explanation.values.sizes
    for printed in formulas_of(explanation):
        names = printed.names
        text = Sized(sizes).write(printed.equation.right, names)
        assert re.sub(r"_\{(\w+)\}", r"_\1", re.sub(r":\d+", "", text)) == Unsaid().write(printed.equation.right, names)
        wanted = np.asarray(evaluate(printed.equation, arrays, sizes), dtype=float)
        called = {names.name(name): np.asarray(array, dtype=float) for name, array in arrays.items()}
        reader = Reader(text, called, {str(s): n for s, n in sizes.items()})
        letters = [names.letter(i) for i in printed.equation.axes]
        assert len(set(letters)) == len(letters)
        assert not set(letters) & set(called)
        with np.errstate(all="ignore"):
            for at in list(np.ndindex(*wanted.shape))[:24]:
                found = reader.value(dict(zip(letters, at, strict=True)))
                expected = wanted[at]
                same = found == expected or (math.isnan(found) and math.isnan(expected))
                assert same or found == pytest.approx(expected, rel=1e-7, abs=1e-9), (printed.what, text, at)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2·x0 + 1", 7.0),
        ("Σ_{i:3} x[i]·2 + 1", 19.0),
        ("(Σ_{i:3} x[i]) / 3", 3.0),
        ("Σ_{i:3} (x[i] − 1)²", 14.0),
        ("1 / Σ_{i:3} x[i]", 1 / 9),
        ("−x0/(2·x1)", -0.75),
        ("[x0 > 2]·Π_{i:3} x[i]", 24.0),
        ("⌊x2/2⌋ + (7 mod 4)", 5.0),
        ("x0^(x1 − 1)·√x2", 6.0),
    ],
)
def test_the_reader_reads(text: str, value: float) -> None:
    reader = Reader(text, {"x": np.array([3.0, 2.0, 4.0])}, {})
    assert reader.value({}) == pytest.approx(value)
