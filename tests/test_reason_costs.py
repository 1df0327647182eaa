"""What is asked to say why a gradient is 0: once for a page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from symgrad import explain
from symgrad.explanation.reasons import Vanishing
from symgrad.explanation.singular import Point, explain_zero
from symgrad.numeric import sparse, vector_products
from tests.deep_texts import deep


def test_a_page_asks_why_once_and_not_for_each_input(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ones, 20 wide: tanh is flat in every layer, and every gradient is 0. Twice the layers are twice the sweeps' steps."""
    made = [0]

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any, **named: Any) -> Any:
            made[-1] += 1
            return function(*given, **named)

        return call

    shapes = [{"x": (1, 20), **{f"w{n}": (20, 20) for n in range(layers)}} for layers in (3, 6)]
    told = [explain(deep(len(of) - 1), check=False, **{name: np.ones(of[name]) for name in of}) for of in shapes]
    monkeypatch.setattr(vector_products, "pull_step", counted(vector_products.pull_step))
    monkeypatch.setattr(sparse, "sparse_jacobian", counted(sparse.sparse_jacobian))
    for found, of in zip(told, shapes, strict=True):
        program, values = found.program, found.values
        weights, names = np.ones((1, 20)), tuple(of)
        made.append(0)
        vanishing, point = Vanishing(program, values, weights, names), Point(program, values, names)
        for name in names:
            assert explain_zero(point, name, weights, np.zeros(of[name])) is not None
            assert vanishing.reason(name) is not None
    assert made[2] <= 2.2 * made[1]
