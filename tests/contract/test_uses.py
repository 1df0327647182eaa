"""How often an input is said to be used: only uses through which a gradient comes back count."""

from __future__ import annotations

import pytest

import symgrad

USES = [
    ("torch.where(x > 0, x, b)", {"x": [1, -2, 3], "b": [1, 2, 3]}, "x", 1),
    ("x * x", {"x": [1, -2, 3]}, "x", 2),
    ("x * (x >= b)", {"x": [1, -2, 3], "b": [1, 2, 3]}, "x", 1),
    ("x * sign(x)", {"x": [1, -2, 3]}, "x", 1),
    ("x + x.sin() * x.round()", {"x": [1, -2, 3]}, "x", 2),
    ("torch.where(x > 0, x.exp(), x)", {"x": [1, -2, 3]}, "x", 2),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "values", "name", "count"), USES)
def test_uses_that_carry_a_gradient_are_counted(text: str, values: dict[str, list[int]], name: str, count: int) -> None:
    page = symgrad.explain(text, **values)
    assert len(page.gradients[name].sweep.uses) in ((count,) if count > 1 else (0, 1))
    assert ("is used" in page.to_text()) is (count > 1)
