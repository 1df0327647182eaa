"""A line of a story whose numbers are not those of the derivation is withheld, and the story says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from symgrad.backward import simplify, template_cache
from symgrad.language.syntax_tree import Literal
from symgrad.notation.tree import Binary
from tests.test_lines_of_stories import ROWS, pasted


@pytest.mark.parametrize("sign", ["*", "/"], ids=["no", "undefined"])
def test_a_line_with_other_numbers_is_withheld_and_the_story_says_so(
    sign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule that makes 0 or 1 / 0 of 1: what was proven for each group is no longer what is printed."""
    template_cache.TEMPLATES.clear()
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
