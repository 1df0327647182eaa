"""Exercises: right lines are exact, wrong ones are told why, and nothing a student types is run."""

from __future__ import annotations

import re

import pytest

import symgrad
from symgrad.closed_form.form import assign_form
from symgrad.errors import SymgradError
from symgrad.exercises import Exercise
from tests.cases import Case, first_stories


@pytest.mark.parametrize("name", ["inf", "nan"])
def test_a_line_may_read_an_input_that_is_called_as_a_number_is(name: str) -> None:
    question = symgrad.exercise(f"x * {name}", x=[1.0, 2], **{name: [3.0, 4]}, wrt="x")
    assert question.check(f"v * {name}").kind == "exact"
    assert question.check(f"2 * v * {name}").kind == "wrong"


def test_what_is_right_at_other_numbers_has_no_mistake_of_those() -> None:
    """At 0 alone all of v comes back, and yet nobody left out a derivative."""
    verdict = symgrad.exercise("relu(x)").check("v*(x >= 0)")
    assert "left out" not in verdict.said
    assert re.search(r"entries are equal: with v = .*, x\.grad\[\d\] is 0, not ", verdict.said)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("case", first_stories())
def test_the_closed_form_is_right_and_its_double_is_wrong(case: Case) -> None:
    """What symgrad itself answers passes its own exercise."""
    for name, gradient in case.story.gradients.items():
        form = gradient.closed_form
        if form is None or not gradient.value.size:
            continue
        question = Exercise(case.story.expression, name, case.story)
        *named, last = assign_form(name, form)
        line = "; ".join([*named, last.partition(" = ")[2]])
        verdict = question.check(line)
        if verdict.kind == "unread":  # a form may use a word that texts do not know
            continue
        assert verdict.kind == "exact", (name, line, verdict)
        if gradient.value.astype(float).any():
            double = "; ".join([*named, f"2 * ({last.partition(' = ')[2]})"])
            assert question.check(double).kind == "wrong"


def test_the_solution_is_not_shown_before_it_is_asked_for() -> None:
    question = symgrad.exercise("softmax(x@w)", wrt="w")
    for shown in (repr(question), str(question), question._repr_html_(), question._repr_markdown_()):
        assert "keepdim" not in shown
    assert "x.T" in question.solution
    with pytest.raises(SymgradError, match="no input 'q'"):
        symgrad.exercise("x@a", wrt="q")


def test_a_small_seed_is_shown_as_it_is_typed() -> None:
    """``random integers 2`` is no seed that anybody could try."""
    verdict = symgrad.exercise("softmax(x)", shapes={"x": (3,)}).check("v")
    assert re.search(r"with v = \[-?\d(,-?\d)*\], x\.grad", verdict.said), verdict.said
