"""What rounding leaves of 0 is shown as that wherever a number stands, and a small number that is none stays one."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.explanation import Explanation
from symgrad.explanation.evidence import Rounding, is_rounding
from symgrad.explanation.singular import Point, vanishes
from symgrad.render.program_drawing import program_picture

DRAWS = 40
CANCELLING: dict[str, Callable[[np.random.Generator], dict[str, Any]]] = {
    "softmax(x@w)": lambda draw: {"x": draw.random((2, 3)), "w": np.repeat(draw.random((3, 1)), 5, axis=1)},
    "torch.linalg.cholesky(x)": lambda draw: {"x": [[4.0, 2, 0], [2, 5, 3], [0, 3, 6]]},
    "F.layer_norm(x, (3,))": lambda draw: {"x": draw.random(3)},
    "F.normalize(x, dim=0)": lambda draw: {"x": draw.random(1)},
    "x.std() / x.std()": lambda draw: {"x": draw.random(3)},
    "(softmax(x@w) * u).sum()": lambda draw: {
        "x": draw.random((2, 2)), "w": draw.random((2, 3)), "u": np.full((2, 3), draw.random())
    },
    "softmax(x)": lambda draw: {"x": draw.random(3)},
    "x - x.mean()": lambda draw: {"x": [0.1, 0.7, 1.3]},
}  # fmt: skip
"""Texts in which terms cancel, at numbers at which floats leave digits of it."""
SMALL: dict[str, dict[str, Any]] = {
    "sigmoid(x)": {"x": [-40.0, 1.0]},
    "x * 1e-17": {"x": [1.0, 2.0]},
    "exp(x)": {"x": [-40.0, 1.0]},
    "x ** 2": {"x": [3e-17, 1.0]},
    "x * y": {"x": [1e-20, 1.0], "y": [1e-19, 1e-18]},
}
"""Texts whose derivatives are small and right to the last digit."""


def faces(found: Explanation) -> dict[str, str]:
    """All that is written of one explanation for people; numbers that travel in a page to be computed with left out."""
    page = re.sub(r"<script.*?</script>|data-[a-z]+=\"[^\"]*\"", "", found.to_html(), flags=re.DOTALL)
    proofs = r"(?s)(The oracles|Proof|Checked|Equal to torch).*"
    return {
        "text": re.sub(proofs, "", found.to_text().partition("Equal to torch")[2].partition("\n")[2]),
        "html": re.sub(r"(?s)<details[^>]*>\s*<summary>[^<]*(Proof|proof).*?</details>", "", page),
        "picture": found.to_svg(),
        "program": program_picture(found),
    }


def rounding_in(found: Explanation) -> int:
    """How many numbers are rounding; every other one is 0, or large beside the largest."""
    met = 0
    for gradient in found.gradients.values():
        for shown in (gradient.shown, gradient.jacobian.shown(), found.shown):
            values = [v for v in np.asarray(shown, dtype=object).reshape(-1) if v != 0]
            met += sum(isinstance(v, Rounding) for v in values)
            assert all(isinstance(v, Rounding) or abs(v) > 1e-13 for v in values)
        entries, left = gradient.jacobian.clear
        assert entries.values.size + left.size == np.count_nonzero(np.asarray(gradient.jacobian.dense(), float))
    return met


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", CANCELLING)
def test_no_digits_that_rounding_left_are_shown(text: str) -> None:
    draw = np.random.default_rng(0)
    for _ in range(DRAWS):
        found = symgrad.explain(text, **CANCELLING[text](draw), check=False)
        if rounding_in(found):
            break
    else:
        pytest.fail("no draw leaves any rounding")
    for name, face in faces(found).items():
        assert not re.findall(r"\d(?:\.\d+)?e[-−]1[3-9]", face), (name, re.findall(r".{60}e[-−]1[3-9].{10}", face))


@pytest.mark.parametrize("text", SMALL)
def test_a_small_number_stays_a_number(text: str) -> None:
    found = symgrad.explain(text, **SMALL[text], check=False)
    for gradient in found.gradients.values():
        for shown in (gradient.shown, gradient.jacobian.shown()):
            assert not any(isinstance(v, Rounding) for v in np.asarray(shown, dtype=object).reshape(-1))
    assert "≈0" not in found.to_text() + found.to_svg() + program_picture(found)


def test_the_sentence_the_count_and_the_picture_of_a_large_matrix_agree() -> None:
    found = symgrad.explain("softmax(x@w)", x=np.ones((16, 32)), w=np.ones((32, 10)), check=False)
    assert "x.grad is 0: every entry of J is 0" in " ".join(found.to_text().split())
    assert "0 of 81,920 entries are not 0 here, up to rounding: 5,120 more are at most 1.4e-17" in found.to_svg()
    entries, left = found.gradients["x"].jacobian.clear
    assert (entries.values.size, left.size) == (0, 5120)


def test_json_has_the_digits() -> None:
    found = symgrad.explain("softmax(x)", x=[1.0, 2, 3], check=False)
    told = json.loads(found.to_json())["gradients"]["x"]["value"]
    assert told == np.asarray(found.gradients["x"].value, float).tolist()


def test_exact_numbers_are_never_rounding() -> None:
    assert not is_rounding(np.array([1, 0]), np.array([10**18, 1])).any()


@pytest.mark.parametrize(
    ("text", "x"), [("softmax(x, 0)", [0, 800, 1600]), ("sigmoid(x)", [800]), ("tanh(x)", [-900]), ("exp(x)", [-900])]
)
def test_a_cell_that_floats_have_as_0_is_told_to_be_that(text: str, x: list[float]) -> None:
    """The page said that every entry is 0 here, of derivatives that no formula makes 0."""
    page = " ".join(symgrad.explain(text, x=x).to_text().split())
    assert "In numbers: every entry written out above is 0 here in floats." in page
    assert "0 are here." not in page


@pytest.mark.parametrize(("text", "x"), [("relu(x)", [-2, -1]), ("x ** 2", [0, 0]), ("x * sin(x)", [0])])
def test_a_cell_that_is_0_is_told_to_be_0(text: str, x: list[float]) -> None:
    page = " ".join(symgrad.explain(text, x=x).to_text().split())
    assert "every entry written out above is 0 here." in page
    assert "in floats" not in page


def test_some_cells_that_floats_have_as_0_are_told_beside_others() -> None:
    assert "some zeros are only due to rounding:" in symgrad.explain("sigmoid(x)", x=[0.5, 800]).to_text()


def test_a_small_slope_is_not_taken_for_rounding() -> None:
    """5e-13 beside terms of 1 is a thousand times what floats leave of a sum that is 0."""
    found = symgrad.explain("(x * w).sum()", x=[1.0, 1.0], w=[1.0, -1.0])
    point = Point(found.program, found.values, ("x",))
    assert vanishes(point, "x", found.seed, np.array([5e-15, 0.0]))
    assert not vanishes(point, "x", found.seed, np.array([5e-13, 0.0]))
