"""What excuses torch: its choice among equal entries, its side of a jump, a rule of its own; and what excuses nothing."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from symgrad.numeric import forward
from symgrad.oracles.comparisons import Comparison
from symgrad.oracles.numerical import at_kinks
from symgrad.oracles.torch import run_torch
from symgrad.oracles.torch_rules import at_ties, own_rule


def test_what_is_no_choice_among_equal_entries_is_seen() -> None:
    point = {"a": np.zeros(3)}
    program = symgrad.explain("kthvalue(a, 2).values", shapes={"a": (3,)}, check=False).program
    torchs = np.array([0.0, 0.0, 1.0])
    for wrong, passed in (([1.0, 0, 0], True), ([0.5, 0.25, 0.25], True), ([1.0, 1, 0], False), ([2.0, -1, 0], False)):
        case = Comparison("torch", program, forward(program, point), np.array(1.0), "a", torchs, np.array(wrong))
        found = at_ties(case, case.check())
        assert bool(found.passed) is passed, wrong
    smooth = symgrad.explain("(a ** 3).sum()", shapes={"a": (3,)}, check=False).program
    off, there = np.array([1e-4, 0, 0]), forward(smooth, point)
    case = Comparison("torch", smooth, there, np.array(1.0), "a", np.zeros(3), off)
    check = case.check()
    assert check.passed is False
    assert at_ties(case, check) is check


def test_a_wrong_slope_at_a_jump_is_seen() -> None:
    point = {"a": np.array(1.0), "b": np.array(0.1)}
    program = symgrad.explain("a % b", **point).program
    for wrong, passed in ((-9.0, True), (-8.0, False)):
        here, torchs = forward(program, point), np.array(-10.0)
        case = Comparison("torch", program, here, np.array(1.0), "b", torchs, np.array(wrong))
        found = at_kinks(case, case.check())
        assert bool(found.passed) is passed


def test_a_wrong_number_beside_an_edge_is_no_rule_of_torchs() -> None:
    text, values = "F.gaussian_nll_loss(x, t, s)", {"x": [1.0, 2.0], "t": [1.0, 1.0], "s": [1e-8, 1.0]}
    found = symgrad.explain(text, check=False, **values)
    inputs = {name: np.array(value) for name, value in values.items()}
    answer = run_torch(found.program, inputs, np.array(1.0), ["s"])
    assert answer is not None
    expected, got = answer.gradients["s"], np.asarray(found.gradients["s"].value)
    assert expected is not None
    for wrong, passed in (([0.0, 0.0], None), ([1e3, 0.0], False), ([0.0, 0.1], False)):
        other = got + np.array(wrong)
        values = forward(found.program, inputs)
        case = Comparison("torch", found.program, values, np.array(1.0), "s", expected, other)
        told = own_rule(case, case.check())
        assert told.passed is passed, wrong


@pytest.mark.parametrize("text", ["r ** 2", "relu(r)", "view_as_real(torch.polar(r, t))[:, 0]"])
def test_a_derived_number_that_is_wrong_is_no_rule_of_torchs(text: str) -> None:
    values = {n: np.array(v) for n, v in (("r", [1.5, -2.0]), ("t", [1.0, 2.0])) if n == "r" or "t)" in text}
    found = symgrad.explain(text, check=False, **values)
    answer = run_torch(found.program, values, np.ones(2), ["r"])
    assert answer is not None
    expected = answer.gradients["r"]
    for wrong in (np.array([0.002, 0.0]), np.array([0.0, 0.002]), np.array([2.0, -2.0])):
        got = np.asarray(found.gradients["r"].value) + wrong
        case = Comparison("torch", found.program, forward(found.program, values), np.ones(2), "r", expected, got)
        check = case.check()
        assert own_rule(case, check) is check
        assert check.passed is False
