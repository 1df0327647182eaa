"""What is nested too deep to be read is not written out, and is explained all the same."""

from __future__ import annotations

import pytest

from symgrad import explain
from symgrad.closed_form.number_code import NoForm
from symgrad.closed_form.source_code import SourceWriter
from symgrad.language.inference import read_program
from symgrad.language.python_text import write_python
from tests.deep_texts import DOUBLED, deep
from tests.nights import numbers


@pytest.mark.parametrize("layers", [60, pytest.param(130, marks=pytest.mark.slow)])
def test_what_is_nested_too_deep_to_be_read_is_not_written_out(layers: int) -> None:
    """Each level took three frames of Python's stack, and 300 steps within one another were a RecursionError."""
    program = read_program(deep(layers), shapes={"x": (1, 2), **{f"w{n}": (2, 2) for n in range(layers)}}).program
    with pytest.raises(NoForm):
        SourceWriter(program).tensor(f"h{layers - 1}")
    assert write_python(SourceWriter(program).tensor("h2")) == "tanh(tanh(x @ w0 + 1) @ w1 + 1)"


def test_what_is_read_twice_at_every_step_is_not_written_out() -> None:
    program = read_program(DOUBLED).program
    with pytest.raises(NoForm):
        SourceWriter(program).tensor("h39")


@pytest.mark.parametrize("text", numbers([deep(60), DOUBLED], [deep(120)]), ids=len)
def test_a_long_text_is_explained_whatever_its_depth(text: str) -> None:
    explanation = explain(text, check=False)
    assert explanation.gradients["x"].closed_form is None
    assert explanation.backward.gradients["x"].text is not None
    assert "x.grad" in explanation.to_text()
