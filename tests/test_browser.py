"""Pages in a real browser: nothing leaves them, nothing complains, what is pointed at is lit, what is edited follows.

Without a browser these tests are skipped, with the reason.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import symgrad
from symgrad.render import numbers
from symgrad.render.html.formula_trees import page_data
from symgrad.tracing.record.trace import SourceLine
from symgrad.tracing.story.events import Note, Session
from symgrad.tracing.story.session_pages import session_html
from tests.browser import Opened, browser
from tests.cases import cases
from tests.compare import assert_same
from tests.forum import forum as the_forum
from tests.test_run_page import TRAIN

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("browser")]

TWENTIETH = 20
"""Of the examples of the table one in so many is made a story and computed again."""
DEEP = "h = tanh(x@w + b); softmax(h@u)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as started:
        yield started


@pytest.fixture
def opened(chromium: Any) -> Iterator[Opened]:
    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    found = Opened(context.new_page())
    yield found
    assert found.complaints == []
    assert all(url.startswith(("file:", "data:")) for url in found.requests)
    assert len([url for url in found.requests if url.startswith("file:")]) <= 1
    context.close()


def written(path: Path, page: str) -> str:
    path.write_text(page, encoding="utf-8")
    return path.as_uri()


@pytest.fixture(scope="module")
def forum(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = the_forum()
    return written(tmp_path_factory.mktemp("pages") / "forum.html", found.to_html())


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory) -> str:
    found = symgrad.explain(
        DEEP, x="randn(2,3)", w="randn(3,4)", b=[1, 2, 3, 4], u="randn(4,3)", seed="randn(2,3,seed=3)"
    )
    return written(tmp_path_factory.mktemp("pages") / "deep.html", found.to_html())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("pages")
    (folder / "train.py").write_text(TRAIN, encoding="utf-8")
    done = [sys.executable, "-m", "symgrad_cli", "run", "--format", "html", "-o", "run.html", "train.py"]
    subprocess.run(done, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    return (folder / "run.html").as_uri()


def number(text: str) -> float:
    """A number as a page writes it, with a minus sign."""
    return float(text.replace("−", "-").replace("≈", ""))


def sheet(page: Any, name: str) -> np.ndarray:
    """The numbers of a tensor as they stand in the page."""
    shown = page.locator(f'.sheet[data-tensor="{name}"] output').all_text_contents()
    return np.array([*map(number, shown)])


def type_into(page: Any, label: str, text: str, within: str = ".sheets") -> None:
    page.locator(f'{within} input[aria-label="{label}"]').fill(text)


def test_a_column_is_lit_and_its_sum_is_told(opened: Opened, forum: str) -> None:
    page = opened.open(forum)
    told = page.locator("#panel-0 .told")
    assert told.text_content() == "x.grad[0,0] = 1·1 + 2·1 + 3·1 + 4·1 = 10"
    page.locator('#panel-0 td[data-row="5"][data-col="4"]').hover()
    assert told.text_content() == "x.grad[1,1] = 5·1 + 6·1 + 7·1 + 8·1 = 26"
    assert page.locator('#panel-0 td.on[data-col="4"]').count() == 9  # eight rows and the sum
    assert page.locator("#panel-0 td.on:not([data-col='4'])").count() == 0
    page.locator('.sheet[data-tensor="x"] input[aria-label="x[0,2]"]').hover()  # an entry of the input
    assert told.text_content().startswith("x.grad[0,2] = ")
    page.locator('.sheet[data-tensor="out"] output').nth(2).hover()  # an entry of the output
    assert told.text_content().startswith("out[0,2] has the weight 3: it adds 3·1 to x.grad[0,0]")
    assert page.locator("#panel-0 td.on[data-row='2']").count() == 6
    page.mouse.move(0, 0)
    page.locator('#panel-0 th button[data-col="1"]').focus()  # by keyboard
    assert told.text_content().startswith("x.grad[0,1] = ")


def test_the_seed_and_the_inputs_are_edited_and_all_follows(opened: Opened, deep: str) -> None:
    page = opened.open(deep)
    assert page.evaluate("document.documentElement.dataset.formulas") == "travel"
    rng = np.random.default_rng(0)
    new = {"x": (2, 3), "w": (3, 4), "b": (4,), "u": (4, 3), "v": (2, 3)}
    values = {name: np.round(rng.normal(size=shape), 2) for name, shape in new.items()}
    for name, array in values.items():
        for at in np.ndindex(*array.shape):
            type_into(page, f"{name}[{','.join(map(str, at))}]", repr(float(array[at])))
    seed = values.pop("v")
    wanted = symgrad.explain(DEEP, seed=seed, check=False, **values)
    np.testing.assert_allclose(sheet(page, "out"), wanted.output.reshape(-1), rtol=1e-4)
    for name, gradient in wanted.gradients.items():
        np.testing.assert_allclose(sheet(page, f"{name}.grad"), gradient.value.reshape(-1), rtol=1e-4, atol=1e-12)
        sums = page.locator(f'.panel[data-by="{name}"] tfoot output').all_text_contents()
        if sums:
            np.testing.assert_allclose([*map(number, sums)], gradient.value.reshape(-1), rtol=1e-4, atol=1e-12)
    assert page.locator("#edited").is_visible()
    page.locator("#reset").click()
    assert not page.locator("#edited").is_visible()


def test_a_sentence_about_a_weight_follows_while_it_is_typed(opened: Opened, forum: str) -> None:
    page = opened.open(forum)
    page.locator("#panel-0 input.v").first.focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("9")
    page.locator("#edited").wait_for()
    wanted = "out[0,0] has the weight 9: it adds 9·1 to x.grad[0,0], 9·1 to x.grad[0,1], 9·1 to x.grad[0,2]"
    assert page.locator("#panel-0 .told").text_content() == wanted


@pytest.mark.parametrize("typed", ["1e400", "abc"])
def test_what_no_float_holds_is_not_called_no_number(opened: Opened, forum: str, typed: str) -> None:
    page = opened.open(forum)
    type_into(page, "x[0,0]", typed)
    page.get_by_text(f"x[0,0] = {typed} is no number that a float holds.").wait_for()


@pytest.mark.parametrize(("text", "told"), [("F.cross_entropy(x, y)", " (a line without v: for v = 1)"), ("x * y", "")])
def test_a_line_that_leaves_the_seed_out_is_not_said_of_another_seed(
    opened: Opened, tmp_path: Path, text: str, told: str
) -> None:
    found = symgrad.explain(text, x=[[1, 2], [3, 4]], y=[0, 1])
    page = opened.open(written(tmp_path / "page.html", found.to_html()))
    page.locator("#panel-0 input.v").first.fill("3")
    page.locator("#edited").wait_for()
    assert f"The answer above holds for every number{told};" in (page.locator("#edited").text_content() or "")


EXPONENTS = (
    "softmax(x, dim=-1)", "log_softmax(x, dim=-1)", "logsumexp(x, dim=-1)", "cross_entropy(x, y)", "sigmoid(x)",
    "softplus(x)", "log(exp(x).sum(-1))", "tanh(x)", "sum(softmax(x, dim=-1) * x)",
)  # fmt: skip


@pytest.mark.parametrize("text", EXPONENTS)
def test_exponents_beyond_what_floats_hold_come_out_as_in_python(opened: Opened, tmp_path: Path, text: str) -> None:
    """What the page shows where no float holds the exponential is what symgrad proves there, held against torch."""
    options: dict[str, Any] = {"y": [0, 2]} if "y" in text.partition("(x, ")[2] else {}
    first = symgrad.explain(text, x=[[1.0, 2.0, 3.0], [0.0, 0.5, -1.0]], wrt="x", check=False, **options)
    page = opened.open(written(tmp_path / "far.html", first.to_html()))
    assert page.evaluate("document.documentElement.dataset.formulas") == "travel"
    for far in (99.0, 720.0, -1e5, 1e5, 1e6):
        moved = [[1.0, far, 3.0], [far, far - 1, -1.0]]
        for i, j in ((0, 1), (1, 0), (1, 1)):  # the others stay
            type_into(page, f"x[{i},{j}]", repr(moved[i][j]))
        wanted = symgrad.explain(text, x=moved, wrt="x", **options)
        assert wanted.passed
        np.testing.assert_allclose(sheet(page, "out"), wanted.output.reshape(-1), rtol=1e-4, atol=1e-12)
        gradient = wanted.gradients["x"].value.reshape(-1)
        np.testing.assert_allclose(sheet(page, "x.grad"), gradient, rtol=1e-4, atol=1e-12)


def test_what_is_no_number_changes_nothing_and_says_so(opened: Opened, forum: str) -> None:
    page = opened.open(forum)
    type_into(page, "x[0,0]", "two")
    box = page.locator('.sheet[data-tensor="x"] input').first
    assert box.get_attribute("aria-invalid") == "true"
    assert sheet(page, "a.grad").tolist() == [6, 8, 10, 12] * 3
    type_into(page, "x[0,0]", "1/2")
    assert box.get_attribute("aria-invalid") == "false"
    assert sheet(page, "a.grad").tolist()[:4] == [5.5, 7, 8.5, 10]
    type_into(page, "v, the weight of out[0,0]", "−3", "#panel-0")  # the seed beside its row is the same seed
    assert page.locator('.sheet[data-tensor="v"] input').first.input_value() == "−3"
    assert sheet(page, "x.grad").tolist() == [6, 6, 6, 26, 26, 26]


def test_a_position_that_is_not_there_is_refused(opened: Opened, tmp_path: Path) -> None:
    found = symgrad.explain("x[n]", x=[5, 6, 7, 8], n=[0, 2, 2], seed=[1, 2, 3])
    page = opened.open(written(tmp_path / "at.html", found.to_html()))
    refused = page.locator("#refused")
    for text in ("4", "-1", "1.5", "1e999", ""):
        type_into(page, "n[1]", text)
        assert sheet(page, "x.grad").tolist() == [1, 0, 5, 0]
        assert "n[1] = " in refused.text_content()
        assert refused.is_visible()
    type_into(page, "n[1]", "3")
    assert not refused.is_visible()
    assert sheet(page, "x.grad").tolist() == [1, 0, 3, 2]
    assert cells(page).tolist() == [[1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]]


def cells(page: Any) -> np.ndarray:
    """J by the first input as it stands in the page."""
    rows = page.locator("#panel-0 tbody tr").all()
    texts = [[cell.text_content() for cell in row.locator("td[data-col]").all()] for row in rows]
    return np.array([[0.0 if text == "·" else number(text) for text in row] for row in texts])


def test_what_stands_in_numbers_in_j_follows_too(opened: Opened, tmp_path: Path) -> None:
    """A cell has one number, in the colour of its sign; what is zero at some numbers is none at others."""
    expression = "exp(-x*x).sum()*x*(x+x.sum())"
    page = opened.open(written(tmp_path / "j.html", symgrad.explain(expression, x=[0, 0, 0], check=False).to_html()))
    assert not cells(page).any()
    for n, value in enumerate((1.0, -2.0, 0.5)):
        type_into(page, f"x[{n}]", str(value))
    wanted = symgrad.explain(expression, x=[1.0, -2.0, 0.5], check=False).gradients["x"].jacobian.dense()
    np.testing.assert_allclose(cells(page), wanted, rtol=1e-4)
    assert page.locator("#panel-0 td.cell.below").count() == (wanted < 0).sum()


def test_a_jacobian_without_a_formula_follows_row_by_row(opened: Opened, tmp_path: Path) -> None:
    """Where J is too long to be written out, each row of it is what comes back of a seed that is 1 at one entry."""
    text = "h = tanh(x@w); h2 = softmax(h@u, dim=-1); h3 = relu(h2@z); layer_norm(h3@z, (3,))"
    given = {"w": "randn(3,4)", "u": "randn(4,3)", "z": "randn(3,3)"}
    first = symgrad.explain(text, x="randn(2,3)", check=False, **given)
    assert first.gradients["x"].jacobian.formula is None
    page = opened.open(written(tmp_path / "rows.html", first.to_html()))
    moved = [[0.5, -1.0, 2.0], [1.0, 0.25, -0.5]]
    for i, j in np.ndindex(2, 3):
        type_into(page, f"x[{i},{j}]", repr(moved[i][j]))
    wanted = symgrad.explain(text, x=moved, check=False, **given).gradients["x"]
    np.testing.assert_allclose(cells(page), wanted.jacobian.dense(), rtol=1e-3, atol=1e-12)
    np.testing.assert_allclose(sheet(page, "x.grad"), wanted.value.reshape(-1), rtol=1e-3, atol=1e-12)


def test_every_seed_that_can_be_edited_is_followed(opened: Opened, tmp_path: Path) -> None:
    """By J in numbers, where no formula travels."""
    given = {"x": np.eye(10) + 0.01 * np.arange(100).reshape(10, 10), "seed": np.ones((10, 10))}
    page = opened.open(
        written(tmp_path / "inverse.html", symgrad.explain("inverse(x)", check=False, **given).to_html())
    )
    for at in ("v[0,0]", "v[3,7]"):
        type_into(page, at, "5")
        given["seed"][tuple(map(int, re.findall(r"\d", at)))] = 5
    wanted = symgrad.explain("inverse(x)", check=False, **given).gradients["x"].value.reshape(-1)
    np.testing.assert_allclose(sheet(page, "x.grad"), wanted, rtol=1e-3, atol=1e-12)


def test_a_name_lights_all_its_uses_and_a_line_its_forward_line(opened: Opened, deep: str) -> None:
    page = opened.open(deep)
    page.locator('.fact[data-s="w"]').focus()
    lit = page.locator(".lit-symbol")
    assert lit.count() > 5
    assert {text.removesuffix(".grad").split()[0] for text in lit.all_text_contents()} == {"w"}
    page.locator('li[data-of="h"]').hover()
    assert page.locator(".lit-line code").all_text_contents()[0].startswith("h = tanh")
    page.locator('li[data-of="u"]').focus()  # the gradient of an input: the lines that read it
    assert "t4 = h @ u" in page.locator(".lit-line code").all_text_contents()


def test_steps_fold_and_formulas_are_copied(opened: Opened, forum: str) -> None:
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened.open(forum)
    assert page.locator("details[open]").count() == 0
    page.locator("details summary").nth(3).press("Enter")
    assert page.locator("details[open]").count() == 1
    row = page.locator("details[open] .equation").nth(1)
    for which, part in (("LaTeX", r"\sum"), ("code", "x.grad[p,q] = Σ_k v[p,k]·a[q,k]")):
        row.get_by_text(which, exact=True).click()
        page.wait_for_function("document.getElementById('said').textContent === 'copied'")
        found = page.evaluate("navigator.clipboard.readText()")
        assert part in found
    page.locator("details[open] p .m").first.press("Enter")  # a formula within a sentence
    assert page.locator("#toolbar").is_visible()
    page.locator('#toolbar [data-which="latex"]').press("Enter")
    page.keyboard.press("Escape")
    assert not page.locator("#toolbar").is_visible()
    page.locator("#fold").click()
    assert page.locator("details:not(.glossary):not([open])").count() == 0
    page.locator("#fold").click()
    assert page.locator("details[open]").count() == 0


@pytest.mark.parametrize(("scheme", "width"), [("light", 1200), ("dark", 390)])
def test_everybody_can_read_it(chromium: Any, deep: str, forum: str, ran: str, scheme: str, width: int) -> None:
    context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 850})
    for address in (deep, forum, ran):
        found = Opened(context.new_page())
        page = found.open(address)
        page.evaluate("document.querySelectorAll('details').forEach(d => { d.open = true; })")
        page.wait_for_timeout(200)
        assert found.violations() == []
        assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        cut = "[...document.querySelectorAll('input[data-place]')].filter(b => b.scrollWidth > b.clientWidth).length"
        assert page.evaluate(cut) == 0
        assert found.complaints == []
    context.close()


def test_one_text_of_many_that_is_hard_to_read_is_found(opened: Opened, forum: str) -> None:
    """Contrast is looked at once for each kind of text: what has a colour of its own is another kind."""
    page = opened.open(forum)
    page.locator("#panel-0 tfoot output").nth(4).evaluate("sum => { sum.style.color = '#bbb' }")
    (found,) = opened.violations()
    assert found.startswith("color-contrast (serious)")
    assert found.endswith(" and 0 more")


def test_what_happened_lights_its_line_of_source(opened: Opened, ran: str) -> None:
    page = opened.open(ran)
    lit = page.locator(".lit-source")
    page.locator(".event summary").first.hover()
    assert [text.strip() for text in lit.all_text_contents()] == ["loss.backward()"]
    page.locator('li[data-makes="h"]').hover()
    assert [text.strip() for text in lit.all_text_contents()] == ["h = torch.relu(x @ W1.T + b1)"]
    page.locator('li[data-of="h"]').focus()  # by keyboard, and from the backward
    assert [text.strip() for text in lit.all_text_contents()] == ["h = torch.relu(x @ W1.T + b1)"]
    assert page.locator('li[data-makes="h"].lit-line').count() == 1
    page.locator(".source li.marked", has_text="(W1 * 2).backward()").focus()
    assert page.locator(".event.lit-event").count() == 1
    assert "fails" in page.locator(".event.lit-event > summary").text_content()


def test_a_line_far_down_in_the_source_comes_into_view(opened: Opened, tmp_path: Path) -> None:
    where = [SourceLine("s.py", 700, "b.backward()"), SourceLine("s.py", 2, "a.backward()")]
    session = Session("s.py", [Note(w, "something") for w in where], source="pass\n" * 800, file="s.py")
    page = opened.open(written(tmp_path / "far.html", session_html(session)))
    for number, line in enumerate((700, 2)):
        page.locator(".event").nth(number).locator("summary").hover()
        box, row = page.locator(".source").bounding_box(), page.locator(f"#file-0-{line}").bounding_box()
        assert box["y"] <= row["y"] <= box["y"] + box["height"], line


def test_a_run_folds_copies_and_prints(opened: Opened, ran: str) -> None:
    opened.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = opened.open(ran)
    page.locator("#fold").click()
    assert page.locator(".event[open]").count() == 0
    page.locator("#fold").click()
    assert page.locator(".event:not([open])").count() == 0
    page.locator("summary", has_text="As Python that runs").first.press("Enter")
    page.locator(".listing .copy").first.click()
    page.wait_for_function("document.getElementById('said').textContent === 'copied'")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert ast.parse(copied).body[-1].name == "backward"
    page.locator("summary", has_text="entry by entry").first.press("Enter")
    page.locator(".equation .copy", has_text="LaTeX").first.click()
    page.wait_for_function("navigator.clipboard.readText().then(text => text.includes('frac'))")
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not(.glossary):not([open])").count() == 0
    assert page.locator(".copy:visible").count() == 0


def test_tabs_are_walked_by_arrows(opened: Opened, deep: str) -> None:
    page = opened.open(deep)
    page.locator("#tab-0").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#tab-1").get_attribute("aria-selected") == "true"
    assert page.locator(".panel:visible").get_attribute("data-by") == "w"


def test_paper_has_everything_open(opened: Opened, deep: str) -> None:
    page = opened.open(deep)
    page.emulate_media(media="print")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".panel:visible").count() == 4
    assert page.locator("details:not(.glossary):not([open])").count() == 0
    assert page.locator(".copy:visible").count() == 0


def test_paper_keeps_its_letters(opened: Opened, tmp_path: Path) -> None:
    """A wide matrix is set smaller by itself: a browser would set the whole page smaller with it."""
    wide = symgrad.explain("h = tanh(x@w + b); softmax(h, dim=-1)", check=False).to_html()
    page = opened.open(written(tmp_path / "wide.html", wide))
    page.set_viewport_size({"width": 718, "height": 1016})  # A4
    page.emulate_media(media="print")
    assert page.evaluate("document.documentElement.scrollWidth") > 1000
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 760
    assert page.locator("table.product:visible").count() == 3
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("[style*=zoom]").count() == 0


def test_paper_keeps_short_lines_and_all_numbers(opened: Opened, tmp_path: Path) -> None:
    """However wide the screen was: only what is wider than paper is set smaller, and a vector goes on below."""
    long = symgrad.explain("sin(x).cumsum(0)", shapes={"x": (60,)}, check=False).to_html()
    page = opened.open(written(tmp_path / "long.html", long))
    page.set_viewport_size({"width": 1400, "height": 900})
    assert page.evaluate("document.querySelector('.sheet').scrollWidth <= document.querySelector('.sheet').clientWidth")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator(".answer pre[style*=zoom]").count() == 0
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 718, "height": 1016})
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert page.locator(".pointing:visible").count() == 0


def test_a_gradient_that_cancels_to_nothing_can_be_edited(opened: Opened, tmp_path: Path) -> None:
    """The roundings of a browser are not those of Python: where all that is left is rounding, they differ."""
    ones = {"q": np.ones((3, 4)), "k": np.ones((3, 4)), "u": np.ones((3, 5))}
    even = symgrad.explain("softmax(q@k.T / 2) @ u", check=False, **ones)
    page = opened.open(written(tmp_path / "even.html", even.to_html()))
    assert page.evaluate("document.documentElement.dataset.formulas") == "travel"
    assert set(page.locator('.sheet[data-tensor="q.grad"] output').all_text_contents()) <= {"0", "≈0"}
    page.locator('[aria-label="u[0,0]"]').fill("3")
    page.locator('[aria-label="k[0,0]"]').fill("2")
    x = symgrad.explain("softmax(q@k.T / 2) @ u", q=np.ones((3, 4)), k=[[2, 1, 1, 1], [1] * 4, [1] * 4],
                        u=[[3, 1, 1, 1, 1], [1] * 5, [1] * 5]).gradients["q"]  # fmt: skip
    shown = page.locator('.sheet[data-tensor="q.grad"] output').all_text_contents()
    assert np.allclose([*map(number, shown)], np.asarray(x.value, float).reshape(-1), rtol=1e-4, atol=1e-9)


@pytest.mark.parametrize("text", ["F.layer_norm(x, (3,))", "softmax(x)", "x - x.mean()"])
def test_a_page_shows_no_digits_that_rounding_left(text: str, opened: Opened, tmp_path: Path) -> None:
    """Its opening says 0, but for rounding; the product, the sum and the way back say 0, before an edit and after one."""
    found = symgrad.explain(text, x=[0.1, 0.7, 1.3], check=False)
    page = opened.open(written(tmp_path / "none.html", found.to_html()))
    for value in ("1", "3"):
        for n in range(3):
            page.locator(f'.sheet[data-tensor="v"] [aria-label="v[{n}]"]').fill(value)
        assert set(page.locator('.sheet[data-tensor="x.grad"] output').all_text_contents()) <= {"0", "≈0"}
        assert set(page.locator("tfoot output").all_text_contents()) <= {"0", "≈0"}
        page.locator("th[data-col='1']").hover()
        assert page.locator(".told:visible").text_content().endswith((" = 0", " ≈ 0"))
    assert "e-1" not in found.to_svg(program=True)


SINGULAR: dict[str, dict[str, Any]] = {
    "sqrt(x)": {"x": [0.0, 4.0]}, "1/x": {"x": [0.0, 4.0]}, "log(x)": {"x": [0.0, 4.0]}, "x**0.5": {"x": [0.0, 4.0]},
    "acos(x)": {"x": [1.0, 0.4]}, "exp(x)": {"x": [1000.0, 4.0]}, "x/y": {"x": [0.0, 1.0], "y": [0.0, 0.0]},
    "xlogy(x, y)": {"x": [0.0, 4.0, 0.0], "y": [2.0, 0.0, 0.0]}, "torch.special.entr(x)": {"x": [0.0, 1.0]},
    "torch.special.xlog1py(x, y)": {"x": [0.0, 1.0], "y": [-1.0, 0.0]}, "x * log(x)": {"x": [0.0, 1.0]},
    "F.binary_cross_entropy(x, y)": {"x": [0.0, 1.0, 1e-50, 1.0], "y": [0.0, 1.0, 1.0, 0.0]},
    "F.kl_div(x, y, reduction='sum')": {"x": [0.0, -1.0], "y": [0.0, 0.5]}, "where(x > 0, sqrt(x), 0)": {"x": [0.0, 1.0]},
}  # fmt: skip
"""Where a derivative is no finite number, or an operation is given a value that its formula has not in floats."""


@pytest.mark.one_in(5)
@pytest.mark.parametrize("text", SINGULAR)
def test_the_numbers_at_a_singular_point_are_pythons_and_can_be_edited(
    text: str, opened: Opened, tmp_path: Path
) -> None:
    """The sum of the lit column said that 1·inf is 0, and the page locked its inputs where it did not agree with that."""
    found = symgrad.explain(text, **SINGULAR[text], check=False)
    page = opened.open(written(tmp_path / "there.html", found.to_html()))
    assert page.evaluate("document.documentElement.dataset.formulas") == "travel"
    assert page.locator("#why").text_content().startswith("Change any boxed number")
    np.testing.assert_allclose(sheet(page, "out"), np.asarray(found.output, float).reshape(-1), rtol=1e-4)
    for name, gradient in found.gradients.items():
        wanted = np.asarray(gradient.value, float).reshape(-1)
        np.testing.assert_allclose(sheet(page, f"{name}.grad"), wanted, rtol=1e-4)
    told = page.locator(".told:visible").text_content()
    assert not re.search(r"(inf|nan).* = (0|≈0)$", told), told
    page.locator('[aria-label="x[0]"]').fill("0.25")
    page.locator('[aria-label="x[0]"]').fill(repr(float(np.ravel(found.inputs[0].value)[0])))
    first = np.asarray(next(iter(found.gradients.values())).value, float).reshape(-1)
    np.testing.assert_allclose(sheet(page, f"{found.inputs[0].name}.grad"), first, rtol=1e-4)


def test_a_cosine_of_quarter_turns_is_zero_after_an_edit(opened: Opened, tmp_path: Path) -> None:
    """No float is π/2: its cosine would be 6e-17."""
    dial = symgrad.explain("out[j<7, k<8] = x[j]·cos(π·(2·j + 1)·k/14)", x=[1] * 7, check=False)
    page = opened.open(written(tmp_path / "dial.html", dial.to_html()))
    page.locator('[aria-label="x[0]"]').fill("3")
    data = "symgradTree.read(document.getElementById('symgrad-data').textContent)"
    made = (
        f"symgradTree.everything({data}, {{x: {{shape: [7], values: Array(7).fill(3)}}}}, {data}.v).tensors.out.values"
    )
    found = np.reshape(page.evaluate(made), (7, 8))
    assert not found[:, 7].any()
    assert_same(found[:, 0], np.full(7, 3.0))
    assert page.locator('.sheet[data-tensor="out"] output').all_text_contents()[7] == "0"


def test_a_number_beside_a_whole_one_is_written_as_python_writes_it(opened: Opened, tmp_path: Path) -> None:
    page = opened.open(written(tmp_path / "near.html", symgrad.explain("1.00001*x", x=[1], check=False).to_html()))
    for given in (2, 12345, 99998):
        page.locator('[aria-label="x[0]"]').fill(str(given))
        assert page.locator('.sheet[data-tensor="out"] output').text_content() == numbers.text(1.00001 * given)


def test_names_of_users_do_nothing(opened: Opened, tmp_path: Path) -> None:
    evil = symgrad.explain("x*a", x=[1, 2], a=[3, 4], check=False)
    text = '"><img src=x onerror="document.title=\'broken\'"></script><script>document.title="broken"</script>'
    page = opened.open(written(tmp_path / "evil.html", dataclasses.replace(evil, expression=text).to_html()))
    assert "broken" not in re.sub(re.escape(text), "", page.title())
    assert page.locator("img").count() == 0


def test_operations_come_out_in_the_page_as_in_python(opened: Opened, tmp_path: Path) -> None:
    """What travels is computed again by the browser, for examples of the whole table."""
    opened.open(written(tmp_path / "one.html", symgrad.explain("x*a", check=False).to_html()))
    travelled, tried = 0, cases()[::TWENTIETH]
    for case in tried:
        data = page_data(case.story)
        found = opened.page.evaluate("text => symgradTree.differing(symgradTree.read(text))", json.dumps(data))
        assert found == [], case
        travelled += bool(data["stages"])
    assert travelled > 0.6 * len(tried), f"only {travelled} of {len(tried)} can be edited"
