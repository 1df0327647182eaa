"""A loss that is computed from the output stands on the page: in its title, its lines, its picture, its numbers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.render.html.formula_trees import page_data
from symgrad.render.program_drawing import program_picture
from tests.browser import Opened, browser
from tests.compare import assert_same

LOSSES: dict[str, dict[str, Any]] = {
    "F.cross_entropy(out, y)": {"y": [0, 1]},
    "mean((out-y)**2)": {"y": [[1.0, 0.5], [0.0, 2.0]]},
    "d = out - y; t = tanh(d); (t**2).sum() + x.sum()": {"y": [[1.0, 0.5], [0.0, 2.0]]},
    "logsumexp(out.flatten(), 0)": {},
    "h = softmax(out, -1); k = F.layer_norm(h, (2,)); g = F.gelu(k) * softmax(h*k, 0); g.norm()": {},
}
"""Losses of a matrix, and what they read; the third has a tensor of the name of one of the expression's."""
TEXT = "t = x@w; tanh(t) + t"


def explained(loss: str, **more: Any) -> symgrad.Explanation:
    generator = np.random.default_rng(0)
    x, w = (np.round(generator.normal(size=shape), 2) for shape in ((2, 3), (3, 2)))
    return symgrad.explain(TEXT, **{"x": x, "w": w, **LOSSES[loss], **more}, then=loss, check=False)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("loss", LOSSES)
def test_the_loss_is_in_the_title_and_v_is_defined(loss: str) -> None:
    found = explained(loss)
    for brief in (False, True):
        told = " ".join(found.to_text(width=400, brief=brief).split())
        *before, last = loss.split("; ")
        assert told.startswith("; ".join(["t = x@w", "out = tanh(t) + t", *before, f"L = {last}"]))
        answer = told.partition("x.grad = ")[0]
        assert re.search(r"\bv(\[\w,\w\])? = ", answer), answer
    assert f"L = {last}" in re.sub(r"<[^>]*>", "", re.search(r"<h1>.*?</h1>", found.to_html())[0])


@pytest.mark.parametrize("loss", LOSSES)
def test_the_picture_of_the_program_ends_in_the_loss(loss: str) -> None:
    told = re.search(r"<desc[^>]*>(.*?)</desc>", program_picture(explained(loss)))[1]
    assert re.search(r"L a number = ", told)
    assert "∂L/∂L has norm 1" in told
    assert re.search(r"from \w+ to out [\d.]+", told)


def test_what_the_loss_assumes_is_said_and_how_to_change_it() -> None:
    told = " ".join(symgrad.explain("x@w", then="mean((out-y)**2)", check=False).to_text(width=300).split())
    assert re.search(r"Assumed: .*for the loss, y is 0.47", told)
    assert "--let y=…" in told or "y=…" in told
    assert "for the loss" not in explained("mean((out-y)**2)").to_text()


def test_what_the_loss_reads_of_the_inputs_itself_is_said() -> None:
    said = "The loss uses x directly as well as through out."
    assert said in " ".join(explained("d = out - y; t = tanh(d); (t**2).sum() + x.sum()").to_text().split())
    assert "beside out, too" not in explained("mean((out-y)**2)").to_text()


@pytest.mark.xdist_group("browser")
@pytest.mark.slow
def test_all_is_edited_through_the_loss(tmp_path: Path) -> None:
    """Each input, and what the loss alone reads: v, the loss and every gradient follow, as symgrad has them there."""
    with browser() as chromium:
        for number, loss in enumerate(list(LOSSES)[:4]):  # the length in the last is found by the forward pass
            first, place = explained(loss), tmp_path / f"{number}.html"
            place.write_text(first.to_html(), encoding="utf-8")
            opened = Opened(chromium.new_context().new_page())
            page = opened.open(place.as_uri())
            assert page.evaluate("document.documentElement.dataset.formulas") == "travel", loss
            x = np.array([[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]])
            for i, j in np.ndindex(2, 3):
                page.locator(f'.sheet[data-tensor="x"] [aria-label="x[{i},{j}]"]').fill(str(x[i, j]))
            change: dict[str, Any] = {}
            if "y" in LOSSES[loss]:
                y = np.array(LOSSES[loss]["y"])
                y.flat[-1] = 0
                page.locator('.sheet[data-tensor="y"] input').last.fill("0")
                change["y"] = y
            wanted = explained(loss, x=x, **change)

            def shown(name: str, page: Any = page) -> np.ndarray:
                texts = page.locator(f'.sheet[data-tensor="{name}"] output').all_text_contents()
                return np.array([float(text.replace("≈", "")) for text in texts])

            assert wanted.downstream is not None
            assert_same(np.ravel(wanted.downstream.output).astype(float), shown("L"), tolerance=1e-4)
            assert_same(np.ravel(wanted.seed).astype(float), shown("v"), tolerance=1e-4)
            for name, gradient in wanted.gradients.items():
                assert_same(np.ravel(gradient.value).astype(float), shown(f"{name}.grad"), tolerance=1e-4)
            page.locator("#reset").click()
            assert_same(np.ravel(first.seed).astype(float), shown("v"), tolerance=1e-4)
            assert page.locator('.sheet[data-tensor="v"] input').count() == 0
            assert opened.complaints == []


def test_what_travels_has_the_loss() -> None:
    data = json.loads(json.dumps(page_data(explained("mean((out-y)**2)"))))
    assert data["loss"]["output"] == "L"
    assert [x["name"] for x in data["inputs"]] == ["x", "w", "y"]
    assert data["why"] == ""
