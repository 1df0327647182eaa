"""Pages without a mouse and without a screen: every part is reached by Tab and seen to be, and what is heard makes sense."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch

import symgrad
from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import session_html
from tests.browser import Opened, browser
from tests.test_run_page import TRAIN

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

PARTS = "a[href], button, input, select, summary, [tabindex='0']"
WALK = f"""() => {{
  const parts = [...document.querySelectorAll({PARTS!r})].filter(p => p.tabIndex >= 0 && !p.disabled && p.checkVisibility());
  parts.forEach((part, n) => part.dataset.walked = n);
  return parts.map(p => p.outerHTML.slice(0, 90));
}}"""
AT = """() => {
  const at = document.activeElement, style = getComputedStyle(at);
  return [at.dataset.walked, style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1];
}"""


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("keyboard")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    with contextlib.redirect_stdout(io.StringIO()):
        ran = session_html(run_script(str(folder / "train.py"), [], pictures=True))
    shown = symgrad.explain("h = tanh(x@w); softmax(h@u)", shapes={"x": (2, 3), "w": (3, 2), "u": (2, 2)})
    made = {
        "explain": shown.to_html(), "exercise": symgrad.exercise("x@w").to_html(), "run": ran,
        "complex": symgrad.capture(lambda z, w: z * w.exp(), *COMPLEX).explain().to_html(),
    }  # fmt: skip
    for name, page in made.items():
        (folder / f"{name}.html").write_text(page, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


COMPLEX = torch.tensor([1 + 2j, 3 - 1j]), torch.tensor([2j, 1 + 0j])


@pytest.fixture
def opened(chromium: Any) -> Iterator[Opened]:
    context = chromium.new_context(viewport={"width": 1000, "height": 900})
    found = Opened(context.new_page())
    yield found
    assert found.complaints == []
    context.close()


@pytest.mark.parametrize("name", ["explain", "exercise", "run", "complex"])
def test_tab_reaches_every_part_and_it_is_seen_where(opened: Opened, pages: dict[str, str], name: str) -> None:
    page = opened.open(pages[name])
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    page.wait_for_timeout(200)
    parts = page.evaluate(WALK)
    assert len(parts) > 5
    reached, unseen = set(), []
    for _ in range(len(parts) + 2):
        page.keyboard.press("Tab")
        at, visible = page.evaluate(AT)
        if at is not None:
            reached.add(int(at))
            unseen += [] if visible else [parts[int(at)]]
    assert [part for n, part in enumerate(parts) if n not in reached] == []
    assert unseen == []


def test_escape_and_arrows_do_what_is_expected(opened: Opened, pages: dict[str, str]) -> None:
    page = opened.open(pages["explain"])
    page.locator("#tab-0").focus()
    page.keyboard.press("End")
    assert page.locator("#tab-2").get_attribute("aria-selected") == "true"
    page.keyboard.press("Home")
    assert page.locator("#tab-0").get_attribute("aria-selected") == "true"
    box = page.locator('.sheets input[aria-label="x[0,0]"]')
    before = box.input_value()
    box.fill("nothing")
    assert page.locator("#refused").is_visible()
    box.press("Escape")
    assert (box.input_value(), box.get_attribute("aria-invalid")) == (before, "false")
    assert not page.locator("#refused").is_visible()
    page.locator(".story summary").first.press("Enter")
    formula = page.locator(".story details[open] p .m").first
    formula.press("Enter")
    assert page.locator("#toolbar").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#toolbar").is_visible()
    assert formula.evaluate("f => f === document.activeElement")
    formula.press("Enter")
    for _ in range(3):
        page.keyboard.press("Tab")
    assert not page.locator("#toolbar").is_visible()


def test_what_is_heard_makes_sense(opened: Opened, pages: dict[str, str]) -> None:
    page = opened.open(pages["explain"])
    page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
    heard = page.locator("body").aria_snapshot()
    levels = [int(level) for level in re.findall(r"\[level=(\d)\]", heard)]
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert heard.count("- text: =") > 5  # an equation has both sides and what stands between
    assert re.search(r'status "x\.grad\[0,0\]": "?-?\d', heard)
    assert "always 0" in heard
    assert (
        re.findall(r"^ *- (?:button|textbox|img|tab|tabpanel|combobox)(?::.*)?$", heard, re.MULTILINE) == []
    )  # without names
    loud = (
        "[...document.querySelectorAll('output, [role=status], [aria-live]')].filter(p => p.ariaLive !== 'off').length"
    )
    assert page.evaluate(loud) <= 6  # what changes with every number that is typed is not read out cell by cell


def test_complex_numbers_are_edited_as_pairs_and_all_follows(opened: Opened, pages: dict[str, str]) -> None:
    page = opened.open(pages["complex"])
    assert "complex, shown as pairs" in page.locator(".answer").text_content()
    assert page.evaluate("document.documentElement.dataset.formulas") == "travel"
    page.locator('.sheets input[aria-label="z[0,1]"]').fill("-1.5")
    page.locator('.sheets input[aria-label="w[1,0]"]').fill("0.5")
    z = torch.tensor([1 - 1.5j, 3 - 1j], dtype=torch.complex128, requires_grad=True)
    w = torch.tensor([2j, 0.5 + 0j], dtype=torch.complex128, requires_grad=True)
    torch.view_as_real(z * w.exp()).sum().backward()
    for name, tensor in (("z", z), ("w", w)):
        shown = page.locator(f'.sheet[data-tensor="{name}.grad"] output').all_text_contents()
        torch.testing.assert_close(
            torch.tensor([float(text) for text in shown], dtype=torch.float64),
            torch.view_as_real(tensor.grad).reshape(-1), rtol=1e-4, atol=1e-6,
        )  # fmt: skip
