"""What a page calls the equation of an entry is what defines it, and its words are functions of numbers."""

from __future__ import annotations

from typing import Any

import pytest

from symgrad.entries.along import LossReading
from symgrad.notation.read_write import read_statement
from symgrad.ops.decompositions import Solves, equation_as_difference
from tests.entry_readings import SAID, reading


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", SAID, ids=lambda op: op.name)
def test_what_the_page_calls_its_equation_is_what_defines_it(op: Any) -> None:
    found = reading(op)
    text = found.entry.text if isinstance(found, LossReading) else found.text  # type: ignore[attr-defined]  # one of SAID
    assert read_statement(text).name == "out"
    if isinstance(op.saved.residual, Solves):  # what is 0 at the result; the text is a step towards it
        assert all(
            read_statement(equation_as_difference(equation)).name == "F" for equation in op.definition.split("; ")
        )
        return
    assert op.definition.startswith(text)
