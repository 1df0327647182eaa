"""A formula beside a line of a run is shown where it has the numbers of its line."""

from __future__ import annotations

from dataclasses import replace

import torch

import symgrad
from symgrad.tracing.story.line_checks import line_equation, values_on_page


def test_a_formula_with_other_numbers_than_its_line_is_left_out() -> None:
    program = symgrad.capture(lambda x, w: torch.tanh(x @ w).sum(), torch.randn(2, 3), torch.randn(3, 2))
    lines = program.backward()
    known, line = values_on_page(program, lines), lines.gradients["w"]
    assert line_equation(program, line, known) is not None
    assert line_equation(program, replace(line, value=line.value + 1), known) is None
    assert line_equation(program, line, {name: a for name, a in known.items() if name != "x"}) is None
