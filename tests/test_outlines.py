"""Whether a program is the same as one before, and what of it is not."""

from __future__ import annotations

import pytest

from symgrad.tracing.session.history import Outline, compare_outlines


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["y = t1 * t2", "t3 = y + t1"], ["y = t2 * t1", "t3 = y + t1"]),
        (["y = relu(x)"], ["y = tanh(x)"]),
        (["y = x * w"], ["y = x * u"]),
        (["y = x ** 2"], ["y = x ** n"]),
        (["a = x[1:3] * 2", "b = a[2:5] * 7"], ["a = x[2:4] * 3", "b = a[3:6] * 7"]),
    ],
)
def test_another_program_is_not_the_same(old, new):
    assert compare_outlines(Outline(tuple(old), ()), Outline(tuple(new), ())) is None
    assert compare_outlines(Outline(tuple(old), ()), Outline(tuple(old), ())) == ()


def test_shapes_that_differ():
    lines = ("y = linear(x, w)",)

    def given(*shapes):
        return Outline(lines, tuple(zip("xw", shapes, strict=True)))

    assert compare_outlines(given((8, 3), (2, 3)), given((5, 3), (2, 3))) == ("5 rows instead of 8",)
    assert compare_outlines(given((8, 3), (2, 3)), given((8, 4), (2, 4))) == (
        "x 8×4 instead of 8×3",
        "w 2×4 instead of 2×3",
    )
    assert compare_outlines(given((8, 3), (2, 3)), given((8, 3, 1), (2, 3))) is None


def test_a_changed_constant_has_as_many_digits_as_tell() -> None:
    def scaled(number: str) -> Outline:
        return Outline((f"y = x*{number}",), ())

    assert compare_outlines(scaled("0.55"), scaled("0.6050000000000001")) == ("0.605 instead of 0.55",)
    assert compare_outlines(scaled("0.12345678"), scaled("0.12345699")) == ("0.123457 instead of 0.1234568",)
    assert compare_outlines(scaled("1234567"), scaled("1234568")) == ("1234568 instead of 1234567",)
    assert compare_outlines(scaled("0.30000000000000004"), scaled("0.3")) == ("0.3 instead of 0.30000000000000004",)
