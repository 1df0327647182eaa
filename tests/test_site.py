"""The sources of our site: what is checked without building all of it, which CI does with warnings as errors."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import shlex
import traceback
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import nbclient
import nbformat
import pytest
from click.testing import CliRunner

import symgrad
from symgrad import operations
from symgrad.documents import file_name
from symgrad.documents import kinds as error_pages
from symgrad.documents.operation import family_of, family_says
from symgrad.sphinx.operations import search_words
from symgrad_cli.failures import reporting
from symgrad_cli.main import main
from tests.browser import Opened, browser

DOCS = Path(__file__).parent.parent / "docs"


def extension(name: str) -> ModuleType:
    """An extension that lies beside the pages."""
    spec = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


QUESTIONS = sorted((DOCS / "questions").glob("[0-9]*.md"))


def test_every_question_has_its_page() -> None:
    assert [int(path.name[:2]) for path in QUESTIONS] == list(range(1, 42))
    index = (DOCS / "questions" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^(\d\d-\S+)$", index, re.MULTILINE) == [path.stem for path in QUESTIONS]


@pytest.mark.parametrize("path", QUESTIONS, ids=lambda path: path.stem)
def test_a_question_has_a_picture_an_answer_and_something_that_is_checked(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.match(r"# .{20,}\n", text)
    assert "picture" in text
    assert re.search(r"^:?(?:says|claims|raises):", text, re.MULTILINE)
    assert "vᵀJ" in text
    assert text.rstrip().endswith("```{symgrad-stamp}\n```")


def test_every_kind_of_error_has_its_page() -> None:
    """Called as the message begins, with a message that is made when the page is built."""
    kinds = {kind.kind for kind in symgrad.SymgradError.__subclasses__()}
    pages = error_pages()
    assert set(pages) == kinds
    for name, text in pages.items():
        assert text.startswith(f"# error[{name}]\n")
        assert f":raises: {name}\n" in text
        for command in re.findall(r"^`(symgrad [^`]*)`$", text, re.MULTILINE):  # as it stands, it ends in this message
            result = CliRunner().invoke(main, shlex.split(command)[1:])
            assert result.exit_code == 2, command
            assert result.stderr.startswith(f"error[{name}]: "), command
            assert result.stderr.endswith(f"see:   symgrad errors {name}\n"), command
            told = CliRunner().invoke(main, ["errors", name])
            assert told.exit_code == 0
            assert f"  $ {command}\n  {result.stderr.splitlines()[0]}\n" in told.output
            assert "```" not in told.output
            assert "](" not in told.output


@pytest.mark.parametrize("kind", sorted(symgrad.SymgradError.__subclasses__(), key=lambda kind: kind.kind))
def test_a_message_names_the_page_of_its_kind(
    kind: type[symgrad.SymgradError], capsys: pytest.CaptureFixture[str]
) -> None:
    """On the command line, and below a traceback; the page is there and begins as the message does."""

    @reporting
    def verb() -> None:
        raise kind("something is wrong", hints=("something else",))

    with pytest.raises(SystemExit):
        verb()
    *_, last = capsys.readouterr().err.splitlines()
    label, _, page = last.strip().partition("   ")
    assert label == "see:"
    *_, verb_name, named = page.split()
    assert (verb_name, error_pages()[named].splitlines()[0]) == ("errors", f"# error[{kind.kind}]")
    assert last in "".join(traceback.format_exception(kind("something is wrong")))


def test_every_operation_has_a_family_that_says_what_it_is() -> None:
    families = Counter(family_of(op) for op in operations())
    assert all(len(family_says(op)) > 20 for op in operations())
    assert len(families) >= 20
    assert max(families.values()) <= 60, families.most_common(1)  # a helper that makes entries is none
    known = {op.name: family_of(op) for op in operations()}
    assert {name: known[name] for name in ("leaky_relu", "mse_loss", "conv1d", "svdvals", "cumsum", "linear")} == {
        "leaky_relu": "activations", "mse_loss": "losses", "conv1d": "convolutions", "svdvals": "factorizations",
        "cumsum": "reductions", "linear": "layers",
    }  # fmt: skip


def test_every_kind_of_structure_is_told_beside_the_index() -> None:
    source = (DOCS.parent / "symgrad" / "explanation" / "structure.py").read_text(encoding="utf-8")
    kinds = set(re.findall(r'(?:Structure|certain_claim|tested_claim)\(\s*"([a-z -]+)"', source))
    told = re.findall(r"^\| ([a-z -]+) \|", (DOCS / "operations" / "by-structure.md").read_text(encoding="utf-8"), re.M)
    assert kinds == set(told) - {"kind", "---"}


def test_the_book_has_a_page_for_every_operation_and_every_family(tmp_path: Path) -> None:
    extension("book").write(SimpleNamespace(srcdir=str(tmp_path)))
    folder = tmp_path / "operations"
    assert len(list((folder / "by-name").glob("*.md"))) == len({file_name(op) for op in operations()})
    assert {path.stem.replace("_", " ") for path in (folder / "families").glob("*.md")} == set(
        map(family_of, operations())
    )


@pytest.mark.parametrize("path", sorted((DOCS / "tutorial").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_was_run_whole_and_without_an_error(path: Path) -> None:
    """CI runs them again, while the site is built."""
    cells = [c for c in json.loads(path.read_text(encoding="utf-8"))["cells"] if c["cell_type"] == "code"]
    assert len(cells) >= 5
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert len(outputs) >= 4
    assert [output for output in outputs if output["output_type"] == "error"] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted((DOCS / "tutorial").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_prints_what_it_is_kept_with(path: Path) -> None:
    """GitHub shows the file as it is kept."""
    kept = nbformat.read(path, 4)
    again = nbclient.NotebookClient(nbformat.read(path, 4), timeout=240, kernel_name="python3").execute()
    assert printed(again) == printed(kept)


def printed(notebook: Any) -> list[str]:
    """What the cells print, without the versions."""
    made = (output for cell in notebook.cells for output in cell.get("outputs", ()) if output.output_type == "stream")
    return re.sub(r"\d+\.\d+\.\d+", "VERSION", "".join(output.text for output in made)).splitlines()


def test_only_what_is_inside_may_be_named_without_a_link() -> None:
    """The build checks every other link to a name of ours; what is let off is there, and has no place in the API."""
    conf = extension("conf")
    assert not any(re.fullmatch(name, "symgrad.nosuch") for _, name in conf.nitpick_ignore_regex)
    api = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    for _, name in conf.nitpick_ignore:
        module, _, own = name.rpartition(".")
        assert hasattr(importlib.import_module(module), own), name
        assert name not in api


def test_beside_a_page_stands_its_own_branch_of_the_tree() -> None:
    """All of it on every page is half of what the build takes, and of each page."""
    asked: list[dict[str, Any]] = []
    context = {"toctree": lambda **options: asked.append(options)}
    extension("conf").folded(None, "page", "page.html", context, None)
    context["toctree"](collapse=False, maxdepth=-1)
    assert asked == [{"collapse": True, "maxdepth": -1}]


GOOD = '<a href="b.html#here">b</a><img src="p.png" alt="a curve"><svg role="img" aria-labelledby="t"></svg>'
FAULTS = {
    "a page that is not there": ('<a href="c.html">c</a>', "a.html: there is no c.html"),
    "a place that is not there": ('<a href="b.html#gone">b</a>', "a.html: nothing is called b.html#gone"),
    "a picture without words": ('<img src="p.png">', "a.html: p.png has no words"),
    "a drawing without words": ('<svg role="img"></svg>', "a.html: a drawing has no words"),
    "a line that no screen holds": (
        f"<pre>short\n{'x' * 301}</pre><p>{'x' * 400}</p>",
        f"a.html: 301 characters in a line that begins {'x' * 20}",
    ),
    "an option that nobody can type": ("<p>with –format html</p>", "a.html: an option has the dash of a book: –format"),
    "a script from elsewhere": (
        '<script src="https://cdn.example/x.js"></script>',
        "a.html: fetches https://cdn.example/x.js",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_the_pages_is_seen(fault: str, tmp_path: Path) -> None:
    faults = extension("whole").faults
    (tmp_path / "p.png").write_bytes(b"")
    (tmp_path / "b.html").write_text('<p id="here"></p>', encoding="utf-8")
    (tmp_path / "a.html").write_text(f"{GOOD}<pre>{'x' * 300}</pre>", encoding="utf-8")
    assert list(faults(tmp_path)) == []
    wrong, told = FAULTS[fault]
    (tmp_path / "a.html").write_text(GOOD + wrong, encoding="utf-8")
    assert list(faults(tmp_path)) == [told]


def test_the_citation_is_of_this_version() -> None:
    cited = dict(re.findall(r"^([\w-]+): (\S.*)$", (DOCS / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE))
    assert cited["version"] == symgrad.__version__
    assert cited["cff-version"] == "1.2.0"
    assert cited["license"] == "BSD-3-Clause"
    assert cited["title"].strip('"').startswith("symgrad: ")


def test_the_workflow_builds_the_site_as_its_settings_say() -> None:
    """One command in three places: the settings, the workflow and the guide for contributors."""
    workflow = (DOCS.parent / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8")
    command = re.search(r"python -m sphinx [^`\n]*", (DOCS / "conf.py").read_text(encoding="utf-8"))
    assert command is not None
    assert f"- run: {command[0]}\n" in workflow
    assert f"path: {command[0].split()[-1]}\n" in workflow


@pytest.mark.parametrize(
    ("number", "typed"),
    [
        (1, "grad can be implicitly created only for scalar outputs"),
        (2, "Mismatch in shape: grad_output[0] has a shape of"),
        (5, "Trying to backward through the graph a second time"),
        (6, "one of the variables needed for gradient computation has been modified by an inplace operation"),
        (7, "grad is None"),
        (7, "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed."),
        (8, "element 0 of tensors does not require grad and does not have a grad_fn"),
        (9, "gradients accumulate"),
        (12, "softmax backward"),
        (15, "layer norm backward"),
        (22, "gradient of einsum"),
        (34, "Jacobian mismatch for output 0 with respect to input 0"),
        (41, "Backward is not reentrant"),
        (37, "returned an incorrect number of gradients"),
    ],
)
def test_what_people_type_into_the_search_stands_in_the_page(number: int, typed: str) -> None:
    """The search of the site shows pages that hold every word."""
    words = set(re.findall(r"\w+", QUESTIONS[number - 1].read_text(encoding="utf-8").lower()))
    assert set(re.findall(r"\w+", typed.lower())) <= words


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("attention", "scaled_dot_product_attention"), ("layer norm", "layer_norm"), ("layernorm", "layer_norm"),
        ("cross entropy", "cross_entropy"), ("batchnorm", "batch_norm"), ("max pool", "max_pool2d"),
        ("maxpool2d", "max_pool2d"), ("log softmax", "log_softmax"), ("upsample", "interpolate"),
    ],
)  # fmt: skip
def test_an_operation_is_found_by_every_spelling(typed: str, name: str) -> None:
    """Sphinx takes `layer_norm` as one word; its index gets these, too."""
    (op,) = (op for op in operations() if op.name == name)
    assert {*typed.split()} <= {*search_words(op), name}


@pytest.mark.slow
def test_among_pages_that_hold_the_words_the_question_with_the_title_stands_first(tmp_path: Path) -> None:
    """What the search of the site adds to Sphinx's score, in a browser: every title finds itself, "grad is None" its page."""
    titles = {f"questions/{path.stem}": path.read_text(encoding="utf-8").splitlines()[0][2:] for path in QUESTIONS}
    names = ("batch_norm", "layer_norm", "max_pool2d", "cross_entropy", "cross")
    found = {**titles, "questions/index": "Questions"} | {f"operations/by-name/{name}": name for name in names}
    wanted = [*titles.items(), ("questions/07-grad-is-none", "grad is None")]
    wanted += [(f"operations/by-name/{n}", t) for n, t in (("max_pool2d", "max pool"), ("layer_norm", "layer norm"))]
    (tmp_path / "search.html").write_text("<title>search</title>", encoding="utf-8")
    with browser() as chromium:
        page = chromium.new_page()
        for want, typed in wanted:
            page.goto(f"{(tmp_path / 'search.html').as_uri()}?{urlencode({'q': typed})}")
            page.add_script_tag(path=str(DOCS / "search.js"))
            score = "found => Object.entries(found).map(([page, title]) => [page, Scorer.score([page, title, '', null, 5])])"
            scores = dict(page.evaluate(score, found))
            assert max(scores, key=scores.get) == want, typed
            assert [other for other in scores if scores[other] == scores[want]] == [want], typed


OF_SPHINX = """<aside class="sidebar-drawer"><p class="caption" role="heading"><span>Learn</span></p><a href="#here">here</a></aside>
<main><h1 id="here">A page</h1><h2>A part</h2><pre style="width:9em;overflow:auto">code that is wider than its place is</pre>
<div class="table-wrapper" style="width:9em;overflow:auto"><table style="width:99em"><tr><td>wide</td></tr></table></div>
<pre>short</pre></main><aside class="toc-drawer"><a href="#here">here</a></aside>"""
"""What Sphinx and furo write around a text."""


@pytest.mark.slow
def test_what_sphinx_leaves_out_for_those_who_hear_a_page_or_use_keys_is_added(tmp_path: Path) -> None:
    """axe finds faults in what Sphinx and furo write, and none with what conf.py adds."""
    for name, script in (("bare", ""), ("page", extension("conf").ACCESSIBLE)):
        text = f'<!doctype html><html lang="en"><title>A page</title><body>{OF_SPHINX}<script>{script}</script>'
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    with browser() as chromium:
        opened = Opened(chromium.new_context().new_page())
        opened.open((tmp_path / "bare.html").as_uri())
        kinds = {violation.partition(" ")[0] for violation in opened.violations()}
        assert {"aria-required-attr", "landmark-unique", "scrollable-region-focusable"} <= kinds
        page = opened.open((tmp_path / "page.html").as_uri())
        assert opened.violations() == []
        assert page.locator("[tabindex]").count() == 2


SEARCH = """const Search = {htmlToText: text => text, performTermsSearch: words => Object.entries({
  a: ["returned", "incorrect", "number", "gradients"], b: ["returned", "number", "gradients"], c: ["number"],
}).filter(([page, held]) => [...words].every(word => held.includes(word))).map(([page]) => [page])};"""


@pytest.mark.slow
def test_a_message_with_words_of_the_readers_own_finds_the_pages_that_hold_the_most_of_it(tmp_path: Path) -> None:
    """Where one page holds every word, Sphinx's own answer stands."""
    (tmp_path / "search.html").write_text("<title>search</title>", encoding="utf-8")
    with browser() as chromium:
        page = chromium.new_page()
        page.goto((tmp_path / "search.html").as_uri())
        page.add_script_tag(content=SEARCH)
        page.add_script_tag(path=str(DOCS / "search.js"))
        for typed, pages in {
            "returned incorrect number": ["a"],
            "mybackward returned incorrect number gradients": ["a", "b"],
            "mybackward yours number": [],
            "mybackward": [],
        }.items():
            asked = "words => Search.performTermsSearch(new Set(words)).map(([page]) => page)"
            assert page.evaluate(asked, typed.split()) == pages, typed
        formula = "a <math>b<annotation encoding='application/x-tex'>\\\\frac\\n{b}</annotation></math> c"
        assert page.evaluate("text => Search.htmlToText(text)", formula) == "a <math>b</math> c"
