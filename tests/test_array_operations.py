"""Array operations mean what torch means by them, and nothing else is evaluated."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.oracles.evaluators import evaluate_arrays
from symgrad.oracles.forms import reader_of
from tests.compare import assert_same


@pytest.mark.parametrize(
    "text",
    ["__import__('os')", "x.__class__", "[x for x in x]", "lambda: x", "x.sum.__self__", "x[x / 1]", "f'{x}'", "(x > 1) - (x > 2)"],
)  # fmt: skip
def test_only_array_operations_are_evaluated(text: str) -> None:
    with pytest.raises(symgrad.SymgradError):
        reader_of(lowered=True)(text, {"x": np.ones(3)})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("arange(3)[:, None] == arange(2)", np.eye(3, 2)),
        ("i = arange(3); where((i > 0) & (i < 2), x, 0)", [0, 2, 0]),
        ("x[(2 * arange(3)).clamp(0, 2)]", [1, 3, 3]),
        ("(x[:, None] * x).sum((0, 1)) / x.shape[0]", 12),
        ("arange(6) // 2 % 3", [0, 0, 1, 1, 2, 2]),
        ("-x.exp().log() @ x", -14),
        ("sort(x, 0).values", [1, 2, 3]),
    ],
)
def test_array_operations_mean_what_torch_means_by_them(text: str, value: Any) -> None:
    assert_same(np.asarray(value, float), reader_of(lowered=True)(text, {"x": np.array([1.0, 2.0, 3.0])}), what=text)
    assert ast.parse(text)


def test_a_call_that_is_no_primitive_is_read_by_the_language() -> None:
    asked: list[str] = []

    def read(text: str, known: Any) -> np.ndarray:
        asked.append(text)
        return np.zeros(2)

    evaluate_arrays("softmax(x + 1, dim=-1)", {"x": np.ones(2)}, read)
    assert asked == ["softmax(x0, dim=-1)"]
