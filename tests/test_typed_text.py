"""How torch is asked for a typed text: as often as it has to be, and for the call itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad import reference
from symgrad.language import read_program as language_read
from symgrad.oracles import typed_text as oracle
from symgrad.oracles.comparisons import Text
from symgrad.oracles.typed_text import ask_torch
from tests.compare import assert_same

X = [[1.0, 2.0, 3.0], [0.5, -1.0, 2.0]]


def test_a_second_run_of_torchs_is_made_of_the_text_alone() -> None:
    """The reader takes the place of the program's run: one forward pass and one backward of torch's for a plain text."""
    counts = {"text": 0, "steps": 0}
    with pytest.MonkeyPatch.context() as patch:
        run, steps = reference.run_reference, oracle.run_torch

        def counted(*arguments: Any) -> Any:
            counts["text"] += 1
            return run(*arguments)

        def counted_steps(*arguments: Any) -> Any:
            counts["steps"] += 1
            return steps(*arguments)

        patch.setattr(reference, "run_reference", counted)
        patch.setattr(oracle, "run_torch", counted_steps)
        symgrad.explain("softmax(x @ w + b, dim=-1)")
        assert counts == {"text": 1, "steps": 0}
        symgrad.explain("out[i] = Σ_j x[i,j]*a[j]")
        assert counts["steps"] == 1


def test_what_the_reader_computes_is_what_torch_says_of_a_text() -> None:
    reading = language_read("x @ a")
    given = {"x": np.array(X), "a": np.arange(12.0).reshape(3, 4)}
    found = ask_torch(Text("x @ a"), reading.program, given, np.ones((2, 4)), ["x", "a"])
    assert found is not None
    assert found.text
    assert_same(given["x"] @ given["a"], found.output)
    expected = found.gradients["x"]
    assert expected is not None
    assert_same(np.ones((2, 4)) @ given["a"].T, expected)


def test_torch_is_asked_for_the_call_in_the_second_order_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "torch_forward", lambda *of: pytest.fail("the steps were requested"))
    assert symgrad.explain("F.gelu(x) * x", order=2, x=0.5).passed
