"""A line in array operations lays out a grid: one that would not fit is refused with its size."""

from __future__ import annotations

import pytest

import symgrad
from symgrad.backward import line_templates
from symgrad.closed_form.array_code import count_grid
from symgrad.indexing import fresh
from tests.forgotten_lines import forget_lines


def test_a_grid_that_would_not_fit_is_refused_with_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_lines()
    monkeypatch.setattr(line_templates, "MOST_IN_GRID", 7)
    line = symgrad.explain("roll(x, 1)", shapes={"x": (2, 2)}, check=False).backward.gradients["x"]
    assert line.code is None
    assert line.own == "array operations would lay out a grid of 16 points"
    forget_lines()
    i, j = fresh("i", 3), fresh("j", 4)
    assert count_grid(i * j, {}) == 12
