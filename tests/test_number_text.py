"""Numbers as pages write them."""

from fractions import Fraction
from typing import Any

import pytest

import symgrad
from symgrad.render import numbers


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (3, "3"),
        (Fraction(1, 3), "1/3"),
        (0.1 + 0.2, "0.3"),
        (-2.0, "-2"),
        (-0.0, "0"),
        (float("nan"), "nan"),
        (1e-9, "1e-09"),
    ],
)
def test_numbers(value: Any, text: str) -> None:
    assert numbers.text(value) == text


def test_a_number_beside_one_is_not_called_one() -> None:
    """Five digits would; what 32 bits leave of a whole number still is that."""
    page = symgrad.explain("1.00001*x", x=[1], check=False).to_text()
    assert "x.grad[0] = 1.00001·1 = 1.00001\n" in page
    assert [numbers.text(number) for number in (0.99998, 2.0000002, 1 - 1e-12, 12345.4)] == [
        "0.99998",
        "2",
        "1",
        "12345",
    ]
