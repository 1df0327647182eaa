"""A closed form is tried at other sizes, where these come out whole, and its text is read once."""

from __future__ import annotations

import numpy as np
import pytest

import symgrad
from symgrad.calculus import pullback
from symgrad.numeric import forward
from symgrad.oracles import forms
from symgrad.oracles.forms import check_form, resized_points
from tests.compare import assert_same


@pytest.mark.parametrize(("behind", "general"), [("x.shape[0] - 2", True), ("2", False)])
def test_a_closed_form_has_to_agree_at_other_sizes(behind: str, general: bool) -> None:
    """What fits the sizes at hand alone is not shown."""
    program = symgrad.explain("sin(x[:2])", shapes={"x": (4,)}, check=False).program
    values = forward(program, {"x": np.array([1.0, 2.0, 3.0, 4.0])})
    form = f"pad(v * x[:2].cos(), (0, {behind}))"
    assert check_form(form, program, pullback(program, "x"), values, np.array([1, 2])).passed == general


def test_half_of_the_channels_is_no_size_where_they_are_odd() -> None:
    """What an equation takes an axis apart into has to come out whole as well, where a form is tried."""
    shapes = {"x": (1, 4, 5), "weight": (2, 2, 2)}
    found = symgrad.explain("F.conv1d(x, weight, groups=2)", shapes=shapes, check=False)
    program, values = found.program, forward(found.program, {n: np.ones(s) for n, s in shapes.items()})
    points = list(resized_points(values, program, ["x"]))
    assert points
    assert all(point["x"].shape[1] % 2 == 0 and point["out"].shape[1] % 2 == 0 for point in points)


def test_a_text_is_read_back_once_for_the_same_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The line of a layer is asked at every step of a loop; other shapes are read anew."""
    known = {"v": np.arange(3.0), "x": np.arange(3.0), "unread": np.ones(7)}
    assert_same(known["x"] ** 3, forms.evaluate_text("v * x * x", known))
    monkeypatch.setattr(forms, "read_program", lambda *_, **__: pytest.fail("it is read again"))
    assert_same(known["x"] * 4, forms.evaluate_text("v * x * x", {**known, "x": np.full(3, 2.0)}))
    with pytest.raises(pytest.fail.Exception):
        forms.evaluate_text("v * x * x", {**known, "x": np.ones(()), "v": np.ones(())})
