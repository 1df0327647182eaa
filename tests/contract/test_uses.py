"""What a page says of its numbers: how often an input is used, what nobody gave, and how small a 0 is."""

from __future__ import annotations

import math
import re

import numpy as np
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


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", [
    "inverse(x)", "solve(x, x[0])", "x.max()", "x.cummax(0)[0]", "x.sort()[0]", "1 / (x - 1)", "x / (x.norm() - 3)",
])  # fmt: skip
def test_values_that_nobody_gave_are_where_there_is_a_gradient(text: str) -> None:
    """Ones are a singular matrix, a tie, and a division by 0."""
    page = symgrad.explain(text, shapes={"x": (3, 3)}, check=False)
    numbers = np.asarray(page.gradients["x"].value, dtype=float)
    assert np.isfinite(numbers).all()
    assert numbers.any()
    assert "kink" not in page.to_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "length", "slope"), [
    ("x", 2, 1), ("x.max()", 4, 1), ("x.sort()[0]", 2, 1), ("x.topk(1)[0]", 4, 1), ("x.cummax(0)[0]", 2, 1),
    ("x.norm()", 20**0.5, 4 / 20**0.5),
])  # fmt: skip
def test_a_gradient_that_is_too_small_for_floats_is_said_to_be_as_large_as_it_is(
    text: str, length: float, slope: float
) -> None:
    """The largest entry of the gradient of exp(−1000 r), along a way that an entry was chosen for."""
    page = symgrad.explain(f"exp(-1000 * {text})", x=[2.0, 4.0], check=False).to_text()
    ((digits, power),) = re.findall(r"largest entry is ([\d.]+)e(-\d+), smaller than any float", page)
    expected = math.log10(1000 * slope) - 1000 * length * math.log10(math.e)
    assert math.log10(float(digits)) + int(power) == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("text", [
    "F.max_pool1d(x, 2, return_indices=True)[0]", "y, n = F.max_pool1d(x, 2, return_indices=True); y",
    "torch.max(x, 1, keepdim=True)[0]", "y, n = x.sort(1); y",
])  # fmt: skip
def test_of_a_result_and_its_indices_the_first_is_the_result(text: str) -> None:
    """Also where torch is not asked, which would refuse another reading."""
    unchecked, page = (symgrad.explain(text, x=[[3.0, 1, 2, 5]], check=check) for check in (False, True))
    assert unchecked.output.shape == page.output.shape
    assert page.passed
