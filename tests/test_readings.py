"""An entry's text as it is read: names it does not have, operands and options that are left out."""

from __future__ import annotations

import re

import pytest
import sympy as sp

from symgrad.entries.readings import AxisView, condition_holds, drop_absent_operands, parse_entry_equation
from symgrad.entries.spec import View
from symgrad.notation.meaning import EquationMeaning
from symgrad.notation.read_write import read_statement
from symgrad.ops import equation_functions


@pytest.mark.parametrize(
    ("text", "told"),
    [("out = x·y", "the equation reads y, and its call has x"), ("out[i] = y[i]", "the equation reads y, and its call has x"),
     ("out[i] = y⟨i⟩", "the equation reads y"), ("out = x·size(y, 0)", "the equation reads y"),
     ("out = sqroot(x)", "no function sqroot in equations: sqrt?"), ("out = Piecewise(x)", "no function Piecewise in equations")],
)  # fmt: skip
def test_a_name_that_an_entry_does_not_have_is_told_with_those_that_it_has(text: str, told: str) -> None:
    """Whoever writes a row of the table meets this first."""
    index = sp.Symbol("i", integer=True)
    meaning = EquationMeaning({"x": AxisView(View("x", ()), (), ())}, {"i": index}, {}, equation_functions())
    with pytest.raises(KeyError, match=re.escape(told)):
        meaning.of(read_statement(text).right)


def test_what_is_left_out_falls_away() -> None:
    text = "out = weight·x + bias − x"
    assert drop_absent_operands(text, frozenset({"bias"})) == read_statement("out = weight·x − x")
    assert drop_absent_operands(text, frozenset({"weight"})) == read_statement("out = x + bias − x")
    assert drop_absent_operands("out = −bias + x", frozenset({"bias"})).right == read_statement("out = x").right


def test_conditions_on_options() -> None:
    assert condition_holds("not eps=None", {"eps": 0.1})
    assert not condition_holds("not eps=None", {"eps": None})
    assert condition_holds("full and not log_input", {"full": True, "log_input": False})
    assert not condition_holds("approximate=tanh", {"approximate": "none"})
    assert condition_holds("rank(y)=rank(x)", {"rank(x)": 2, "rank(y)": 2})
    assert not condition_holds("rank(y)=rank(x)", {"rank(x)": 2, "rank(y)": 1})


def test_an_entry_that_does_not_read_is_our_fault_and_shows_its_own_text():
    with pytest.raises(AssertionError, match=r"the equation 'out = \[x = ∞\]' does not read, at \(11, 12\)"):
        parse_entry_equation("out = [x = ∞]")
