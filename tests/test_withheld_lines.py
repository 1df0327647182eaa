"""A line whose numbers are not those of the derivation is withheld, and the story or the page says so."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

import symgrad
from symgrad import UnsupportedError
from symgrad.backward import line_templates, simplify
from symgrad.language.syntax_tree import Literal
from symgrad.notation.tree import Binary
from tests.forgotten_lines import forget_lines
from tests.test_lines_of_stories import ROWS, pasted


@pytest.mark.parametrize("sign", ["*", "/"], ids=["no", "undefined"])
def test_a_line_with_other_numbers_is_withheld_and_the_story_says_so(
    sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that makes 0 or 1 / 0 of 1: what was proven for each group is no longer what is printed."""
    forget_lines()
    with_signs = simplify.order_signs
    monkeypatch.setattr(simplify, "order_signs", lambda value: Binary(sign, with_signs(value), Literal(0)))
    ear = pasted(ROWS, tmp_path)
    (event,) = ear.told
    assert event.agrees
    assert [leaf.form for leaf in event.leaves] == [None]
    said = "is not shown: at the numbers of this call it differs from the derivation"
    assert any(note == f"the line of A.grad {said}" for note in event.notes)
    assert all("= …  # not shown" in line for line in event.told.lines)
    assert ear.wrong == []


def test_array_operations_are_confirmed_before_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    forget_lines()
    honest = line_templates.write_array_line
    monkeypatch.setattr(
        line_templates, "write_array_line", lambda *args: honest(*args).changed(partial(Binary, "*", Literal(2)))
    )
    lines = symgrad.explain("roll(x, 1)", shapes={"x": (2, 2)}, check=False).backward
    assert not lines.whole
    assert lines.gradients["x"].own == "the array operations were not confirmed"
    with pytest.raises(UnsupportedError, match="not confirmed"):
        lines.code()
    forget_lines()
