"""Pages without a browser: one file, what users wrote is escaped, every formula is set, the numbers that travel."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
from symgrad import SymgradError
from symgrad.errors import Frontend, for_frontend
from symgrad.exercises import exercise_data
from symgrad.numeric import as_float
from symgrad.render.html import pieces
from symgrad.render.html.formula_trees import page_data
from symgrad.render.html.pieces import mathml
from symgrad_cli.main import main
from tests.cases import Case, first_stories
from tests.compare import assert_same
from tests.forum import forum

VOID = {"meta", "input", "link", "br", "img", "wbr"}


class Reader(HTMLParser):
    """Reads a page as a browser does: every element closed, ids unique, addresses collected."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.latex: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"]] if found.get("id") else []
        self.latex += [found["data-latex"]] if found.get("data-latex") else []
        self.addresses += [found[name] for name in ("href", "src", "action", "data", "poster") if found.get(name)]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes nothing that is open"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def travels(page: str) -> dict:
    """What the page computes with."""
    return json.loads(
        re.search(r'<script type="application/json" id="symgrad-data">(.*?)</script>', page, re.DOTALL)[1]
    )


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_every_story_is_one_well_formed_page(case: Case) -> None:
    page = case.story.to_html()
    found = Reader(page)
    assert found.open == []
    assert len(found.ids) == len(set(found.ids))
    assert all(address.startswith("data:") for address in found.addresses)
    assert found.latex
    for latex in found.latex:
        assert "\\" not in re.sub(r"<[^>]*>", "", mathml(latex)), f"latex2mathml does not know a command in {latex}"
        assert "&amp;" not in mathml(latex), f"an alignment mark is left in {latex}"
    data = travels(page)
    for gradient, own in zip(data["gradients"], case.story.gradients.values(), strict=True):
        wanted = as_float(own.value).reshape(-1)
        assert_same(np.array([float(v) for v in gradient["values"]]), wanted)


def test_what_users_write_stays_text() -> None:
    shown = symgrad.explain("x*a", x=[1, 2], a=[3, 4])

    evil = replace(shown, expression='</title><script>alert("1")</script>&"\'')
    found = evil.to_html()
    assert "<script>alert" not in found
    assert Reader(found).open == []


def test_tensors_without_entries_have_pages_too() -> None:
    for expression, given in (("x*2", {"x": []}), ("x@w", {"x": np.zeros((2, 0)), "w": np.zeros((0, 3))})):
        shown = symgrad.explain(expression, **given)
        assert Reader(shown.to_html()).open == []
        assert not re.search(r"=\s*=", shown.to_text() + shown.to_markdown() + shown.to_latex())


def test_an_equation_stands_in_its_page_as_it_was_given() -> None:
    page = symgrad.explain("out[i] = sum_j x[i+j]*w[j]", x=[1, 2, 3, 4, 5], w=[1, 0, -1], check=False).to_html()
    assert "out[i] = Σ_j x[i + j]·w[j]</code><span" in re.sub(
        r"</?span data-s[^>]*>|</span>(?=[^<]*[\[\] ·])", "", page
    )
    assert "out = out[" not in page
    assert "out = …" not in page


def test_a_page_says_what_its_lines_leave_out() -> None:
    """The seed of one number is 1: the lines of the backward have none, and the answer above them has."""
    for expression, left_out in (("sum(x*x)", True), ("x*x", False)):
        page = symgrad.explain(expression, x=[1, 2], check=False).to_html()
        assert ("The seed is 1 here and is not shown." in page) is left_out


def test_without_its_packages_a_page_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    explanation = symgrad.explain("x*a", check=False)
    for package in ("jinja2", "latex2mathml.converter"):
        with monkeypatch.context() as without:
            without.setitem(sys.modules, package, None)
            pieces.environment.cache_clear()
            mathml.cache_clear()
            with pytest.raises(SymgradError, match="is not installed") as error:
                explanation.to_html()
            assert 'pip install "symgrad[pages]"' in str(error.value)
    pieces.environment.cache_clear()


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("expression", "values", "why"),
    [
        ("sort(x).values", {"x": [3.0, 1.0, 2.0]}, "found in the forward pass"),
        ("inverse(x)", {"x": [[2.0, 0.0], [0.0, 4.0]]}, "found in the forward pass"),
        ("digamma(x)", {"x": [1.0, 2.0]}, "does not know the function"),
        ("x@a", {"x": np.ones((12, 12)), "a": np.ones((12, 12))}, "more than 100 entries"),
    ],
)
def test_what_the_page_cannot_compute_is_said(expression: str, values: dict, why: str) -> None:
    explanation = symgrad.explain(expression, check=False, **values)
    found = page_data(explanation)
    assert why in found["why"]
    assert found["steps"] == found["stages"] == []
    assert why in explanation.to_html()


def test_a_page_is_no_larger_for_numbers_that_it_does_not_show() -> None:
    few, many = (
        symgrad.explain("A@x", A=np.eye(n), x=np.ones(n), seed=np.ones(n), check=False).to_html() for n in (20, 500)
    )
    assert len(many) < len(few) + 200_000


def test_entry_and_brief_are_pages_too() -> None:
    explanation = forum()
    entry = explanation.to_html(entry=("x", (0, 0)))
    assert 'id="symgrad-data"' not in entry
    assert Reader(entry).open == []
    assert "v @ a.T" in re.sub("<[^>]*>", "", explanation.to_html(brief=True))


def test_the_commands_write_pages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: shown.append(url) or True)
    run = CliRunner()
    one = tmp_path / "one.html"
    result = run.invoke(main, ["explain", "x@a", "--format", "html", "-o", str(one)])
    assert (result.exit_code, shown) == (0, [])
    with for_frontend(Frontend.COMMAND):
        expected = (explanation := symgrad.explain("x@a")).to_html(asked=exercise_data(explanation))
    assert one.read_text(encoding="utf-8") == expected
    result = run.invoke(main, ["explain", "x@a", "--no-check", "--open", "-o", str(one)])
    assert (result.exit_code, shown) == (0, [one.resolve().as_uri()])
    assert one.name in result.stderr
    result = run.invoke(main, ["derive", "x@a", "--open"])
    assert result.exit_code == 0
    assert Reader(Path(shown[-1].removeprefix("file://")).read_text(encoding="utf-8")).open == []
    result = run.invoke(main, ["explain", "x@a", "--open", "--format", "json"])
    assert result.exit_code == 2
    assert "--open shows a page" in result.stderr


def test_a_program_is_a_picture_with_every_length() -> None:
    explanation = symgrad.explain("h = tanh(x@w); (h*h).sum()", x=[[1.0, 2.0]], w=[[0.5, 0.0], [0.0, 0.25]])
    picture = explanation.to_svg(program=True)
    values, back = explanation.values, 2 * explanation.values["h"]
    for name, wanted in {
        "from h to t1": np.linalg.norm(back * (1 - values["h"] ** 2)),
        "from t1 to x": np.linalg.norm(explanation.gradients["x"].value.astype(float)),
        "from t1 to w": np.linalg.norm(explanation.gradients["w"].value.astype(float)),
    }.items():
        found = float(re.search(rf"{name} (\d[\d.]*\d)", picture)[1])
        assert found == pytest.approx(wanted, rel=1e-4), name
    assert len(re.findall('class="flow"', picture)) == 5  # h reaches h*h twice, as one way


@pytest.mark.slow
def test_every_length_can_be_read_in_its_picture() -> None:
    """Lengths are drawn after all ways, none at the place of another."""
    for expression in ("x@x.T + x@x.T@x@x.T", "sigmoid(x@w)*tanh(x@u) + x", "a*b + c*d - e/f"):
        picture = symgrad.explain(expression, check=False).to_svg(program=True)
        told = list(re.finditer(r'<text x="(\S+)" y="(\S+)"[^>]*class="back"[^>]*>[\d.]', picture))
        assert told[0].start() > picture.rindex('class="flow"')
        places = [(float(m[1]), float(m[2])) for m in told]
        assert len(places) > 4
        near = [(a, b) for n, a in enumerate(places) for b in places[n + 1 :] if np.hypot(*np.subtract(a, b)) < 10]
        assert near == []


def test_what_comes_from_one_input_stands_beside_its_reader() -> None:
    """The transpose of a late weight is late, too: no way passes behind what lies between."""
    picture = symgrad.explain("h = tanh(x@a.T + b); h@w.T + c", check=False).to_svg(program=True)
    spans = re.findall(r'd="M(\S+) \S+ (?:L|C\S+ \S+ \S+ \S+ )(\S+) \S+" class="way"', picture)
    assert len(spans) > 8
    reach = {float(end) - float(begin) for begin, end in spans}
    assert reach <= {70, 42, -42}  # from a station to the next, or an end of what goes on in another band
    assert 70 in reach


def test_long_names_stand_above_the_table_not_in_every_column() -> None:
    name = "hidden_representation_of_layer_one"
    page = symgrad.explain(f"{name} @ a", shapes={name: (2, 3), "a": (3, 2)}, check=False).to_html()
    assert f'aria-label="{name}[1,2]">[1,2]</button>' in page
    assert f"entries of {name}</td>" in page
    short = symgrad.explain("x @ a", x="ones(2,3)", a="ones(3,2)", check=False).to_html()
    assert ">x[1,2]</button>" in short
    assert "entries of" not in short.partition("</table>")[0]


@pytest.mark.slow
def test_a_long_program_is_a_curve_of_its_lengths() -> None:
    text = "; ".join(f"h{n + 1} = sigmoid(h{n}*w)" for n in range(30)).replace("h0*", "x*")
    picture = symgrad.explain(text, check=False, x=[1.0, 2.0], w=[0.5, 0.25]).to_svg(program=True)
    assert picture.count('class="box"') == 0
    assert picture.count('class="flow"') == 1
    assert "1e-2" in picture
    assert "grey: forward" not in picture  # that is said of stations and ways
    assert "the norm of the gradient with respect to each result" in picture
