"""What README and docs show is what happens: their Python runs, their commands run, their output is real."""

from __future__ import annotations

import linecache
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from symgrad.documents import SitePage, file_name, forum_page, index_page, operation_page
from symgrad.documents.article import readable_blocks
from symgrad.documents.operation import article_of, family_of, shown_example, worked_story
from symgrad.functions import PRIMITIVES
from symgrad.ops import TABLE, Op, find, operations
from symgrad.oracles.comparisons import TextOutcome
from symgrad.render.page import Code, EquationRow, Equations, Listing, Paragraph, Picture, Ready
from symgrad_cli.main import main
from tests.cases import Case, first_stories
from tests.test_site import extension
from tests.torch_side import known_to_torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs" / "how-to").glob("*.md"))]


def blocks(language: str) -> list[tuple[str, str]]:
    """The fenced blocks of a language, with where they stand."""
    found = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for number, body in enumerate(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)):
            found.append((f"{page.name}-{number}", body))
    return found


RUNNABLE = blocks("python")


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("name", "body"), RUNNABLE, ids=[name for name, _ in RUNNABLE])
def test_python_runs(name: str, body: str) -> None:
    """Each block by itself, and the tests it defines."""
    linecache.cache[name] = (len(body), None, body.splitlines(keepends=True), name)  # as a file's lines are known
    scope: dict[str, object] = {"__name__": name}
    exec(compile(body, name, "exec"), scope)
    for word, thing in scope.items():
        if word.startswith("test_") and callable(thing):
            thing()


COMMANDS = list(dict.fromkeys(
    command
    for page in (ROOT / "README.md", ROOT / "docs" / "how-to" / "pages-and-pictures.md")
    for command in re.findall(r"`(symgrad [^`]*)`", page.read_text(encoding="utf-8"))
))  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each command of the README's table and of the page about pages: it prints, writes its file, or opens a page."""
    monkeypatch.chdir(tmp_path)
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    if " serve" in command:
        pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install symgrad[serve]")
        monkeypatch.setattr("uvicorn.Server.run", lambda self, sockets=None: None)  # it listens; test_serve asks it
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n", encoding="utf-8"
    )
    arguments = shlex.split(
        command.replace("OUT_DIR", f"{tmp_path} --ops exp --no-check").replace("SCRIPT", str(script))
    )[1:]
    before = set(tmp_path.iterdir())
    result = CliRunner().invoke(main, arguments, input="\n", catch_exceptions=False)
    gave_up = command.startswith("symgrad exercise") and not {"--answer", "-o"} & set(arguments)
    assert result.exit_code == (1 if gave_up else 0), result.stderr
    if "-o" in arguments:
        assert (tmp_path / arguments[arguments.index("-o") + 1]).stat().st_size > 500
    elif "--open" in arguments:
        assert len(opened) == 1
    else:
        assert result.stdout or "serves at" in result.stderr
    assert "-o" in arguments or "OUT_DIR" in command or set(tmp_path.iterdir()) == before


COMMAND = re.compile(r"symgrad (?:explain|derive|check|code|plan|exercise|run|ops|docs|serve) [^`\n]*")
"""A command as people copy it."""


def test_what_is_copied_into_a_shell_is_quoted() -> None:
    """zsh reads [1,2] as a pattern, and every shell (3,4) as its own: what a shell would change stands in quotes."""
    pages = [ROOT / "README.md", *(p for p in (ROOT / "docs").rglob("*.md") if p.name != "changelog.md")]
    found = [(page.name, text) for page in pages for text in COMMAND.findall(page.read_text(encoding="utf-8"))]
    for module in (ROOT / "cli").rglob("*.py"):  # the examples of --help
        found += [(module.name, t) for t in re.findall(r"^  (symgrad .*)", module.read_text(encoding="utf-8"), re.M)]
    assert len(found) > 70
    bare = [(name, text) for name, text in found if re.search(r"[][(){}*?]", re.sub(r'"[^"]*"|\'[^\']*\'', "", text))]
    assert bare == []


def readme_command() -> list[str]:
    """What the README's first command asks symgrad for."""
    command = re.search(r"symgrad (explain .*)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert command is not None
    return shlex.split(command[1])


def test_the_first_commands_of_the_readme_are_seen_whole() -> None:
    """No line of them is cut off where the README is read."""
    block = re.search(r"```sh\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert block is not None
    assert max(map(len, block[1].splitlines())) <= 90


def test_the_output_in_the_readme_is_real() -> None:
    """The block under the first command is what that command opens with, and says that there is more."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- forum-output -->\n```text\n(.*?)     …\n```", text, re.DOTALL)
    assert shown is not None
    assert shown[1].count("\n") >= 10
    result = CliRunner().invoke(main, [*readme_command(), "--no-color"], env={"COLUMNS": "100"}, catch_exceptions=False)
    assert result.stdout.startswith(shown[1])


def test_the_picture_in_the_readme_is_what_the_command_draws() -> None:
    """docs/product.svg; SYMGRAD_UPDATE_GOLDENS=1 writes it. The README says its numbers in words."""
    kept = ROOT / "docs" / "product.svg"
    drawn = CliRunner().invoke(main, [*readme_command(), "--format", "svg"], catch_exceptions=False).stdout
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        kept.write_text(drawn, encoding="utf-8")
    assert kept.read_text(encoding="utf-8") == drawn
    words = re.search(r'docs/product.svg" alt="([^"]+)"', (ROOT / "README.md").read_text(encoding="utf-8"))
    assert words is not None
    for told in ("10 10 10, 26 26 26", "1·1 + 2·1 + 3·1 + 4·1 = 10"):
        assert told in words[1]
        assert told.replace(" ", ", ").replace(",,", ",") in drawn or told in drawn


SCRIPTS = [
    (page, *found)
    for page in (ROOT / "README.md", ROOT / "docs" / "how-to" / "explain-a-script.md")
    for found in re.findall(
        r"<!-- run: (\S+) -->\n```python\n(.*?)```.*?```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("page", "name", "script", "shown"), SCRIPTS, ids=[name for _, name, _, _ in SCRIPTS])
def test_what_is_told_about_a_script_is_real(page: Path, name: str, script: str, shown: str, tmp_path: Path) -> None:
    """Under a script stands what `symgrad run` prints; SYMGRAD_UPDATE_GOLDENS=1 writes it."""
    (tmp_path / name).write_text(script, encoding="utf-8")
    result = CliRunner().invoke(main, ["run", str(tmp_path / name)], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    told = result.stdout.rstrip() + "\n"
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        begin, end = page.read_text(encoding="utf-8").split(f"<!-- run: {name} -->", 1)
        end = end.replace(f"```text\n{shown}```", f"```text\n{told}```", 1)
        page.write_text(f"{begin}<!-- run: {name} -->{end}", encoding="utf-8")
        shown = told
    assert shown == told


def test_readme_and_how_to_show_a_training_step() -> None:
    assert [name for page, name, _, _ in SCRIPTS if page.name == "README.md"] == ["step.py"]
    assert len(SCRIPTS) >= 3


OPS = list(operations())
SAMPLE = ["matmul", "softmax", "floor", "cross_entropy"]


HELD = extension("held")
"""What every page of an operation is held to while the site is built; here a sample of them is, and that it can fail."""


def page_of(op: Op) -> SitePage:
    """The page of an operation, which breaks no promise."""
    page = operation_page(op)
    assert [*HELD.faults(op, page.text, {path.name: svg for path, svg in page.pictures})] == []
    return page


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", SAMPLE)
def test_the_page_of_an_operation(name: str) -> None:
    """A sample; the site, which CI builds, has every page."""
    op = find(name)
    assert op is not None
    page_of(op)


VISUAL = [op for op in OPS if family_of(op) in ("convolutions", "pooling", "interpolation")]


@pytest.mark.one_in(12)
@pytest.mark.parametrize(
    "op", [*VISUAL[3::7], pytest.param(VISUAL[8], marks=pytest.mark.night)], ids=lambda op: op.name
)
def test_the_page_of_an_operation_on_images_draws_its_band(op: Op) -> None:
    """Entry by entry, with zeros beside what a window reads; matrices of numbers stood there, and no picture."""
    drawn = next(block for block in article_of(op, check=False).box if isinstance(block, Picture)).svg
    rows, *_ = re.findall(r"J is (\d+) by", drawn)
    assert "The lit column" in drawn or op.name == "affine_grid"  # J of two images is 24×12
    assert ">·<" in drawn or rows == "1" or op.name == "affine_grid"


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS[5::120], ids=lambda op: op.name)
def test_the_page_of_every_operation_has_a_picture(op: Op) -> None:
    """Where something flows back, be J small or large: so the site holds every page."""
    found = article_of(op, check=False)
    assert [*HELD.undrawn(found)] == []
    assert [*HELD.undrawn(replace(found, structure="diagonal", box=()))] == ["no picture of J"]


SPOILED = {
    "it does not begin with its name": ("# tanh", "# tangent"),
    "a line of ": ("## Proof", f"{'x' * 400}\n## Proof"),
    "no ## Proof": ("## Proof", "## Evidence"),
    "no What torch writes": ("What torch writes", "What it writes"),
    "it says disagree": ("## Proof", "## Proof\n\nThe oracles disagree."),
    "neither a 2×3 input": ("2×3", "a few"),
    "the answer lacks the equation": ("out = tanh(x)", "tanh(x)"),
    "no x.grad = ": ("x.grad", "x.slope"),
    "a picture that it does not show": ("](", "]["),
    "a part that is folded and not closed": ("</details>", ""),
}


def test_a_page_that_breaks_a_promise_is_told() -> None:
    op = find("tanh")
    assert op is not None
    page = operation_page(op)
    pictures = {path.name: svg for path, svg in page.pictures}
    for fault, (found, instead) in SPOILED.items():
        assert found in page.text, found
        told = [*HELD.faults(op, page.text.replace(found, instead), pictures)]
        assert any(fault in sentence for sentence in told), (fault, told)
    assert [*HELD.faults(op, page.text, {**pictures, "other.svg": "<svg/>"})][1:] == [
        "a picture without words, other.svg",
        "a picture that is not there, or a part that is folded and not closed",
    ]


def test_a_page_says_the_answer_the_kink_the_second_derivative_and_what_torch_writes() -> None:
    softmax, relu = (page_of(op).text for op in map(find, ("softmax", "relu")) if op is not None)
    assert "x.grad = out * (v - (v * out).sum(-1, keepdim=True))" in softmax
    assert r"\frac{\partial \mathrm{out}_{ij}}{\partial x_{pq}} = " in softmax
    assert "_softmax_backward_data(grad, result, dim, self.scalar_type())" in softmax
    assert r"\frac{\partial^2 L}{\partial x_{pq}\thinspace\partial x_{rs}} &= " in softmax
    assert "is 0 on the left and 1 on the right; at the point itself the equation takes 0, and so does torch" in relu
    assert "threshold_backward(grad, result, 0)" in relu


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("conv2d", "(… are the axes that may stand there; x̂ is x, continued by 0)"),
        ("conv2d", "With x 1×m×n×h, weight c×m×d×e, and out 1×c×(1 + n − d)×(1 + h − e):"),
        (
            "cross_entropy",
            "Where rank(target) = rank(x):\n\n```text\nout = −Σ_k weight[k]·((1 − label_smoothing)·target[k]",
        ),
        ("max_pool2d", "and out 1×m×⌊n/2⌋×⌊h/2⌋:"),
        ("zeros_like", "records no backward node for this call: its output requires no gradient."),
        ("diag", "`diagonal_backward_symint("),
        ("det", "Not with x 2×3: the sizes 2 and 3 do not fit together in det."),
        ("max_unpool1d", r"Not with x 2×3: max\_unpool1d writes two entries to one place"),
        ("addmv", "beta·x plus"),
    ],
)
def test_what_a_page_lacks_it_says(name: str, said: str) -> None:
    """And no formula begins with a capital that is another letter."""
    op = find(name)
    assert op is not None
    assert said in page_of(op).text


def told(what: str, it: str) -> Paragraph:
    """That something is not shown."""
    return Paragraph((f"({what} too long to show here: ", Code('symgrad derive "f(x)"'), f" prints {it}.)"))


def test_what_is_too_long_to_read_is_said_and_not_shown() -> None:
    long = Listing("x" * 301)
    assert list(readable_blocks([Listing("x" * 300), long], "f(x)")) == [
        Listing("x" * 300),
        told("A line of 301 characters is", "it"),
    ]
    assert list(readable_blocks([long, long], "f(x)")) == [told("2 lines of up to 301 characters are", "them")]


def test_notation_waits_for_a_formula_that_is_shown() -> None:
    long, short = (Equations((EquationRow((Ready("x" * n, "x"),)),)) for n in (301, 3))
    note, other = Paragraph(("(Σ adds up)",), aside=True, notation=True), Paragraph(("Dense.",))
    cut = told("A formula of 301 characters is", "it")
    assert list(readable_blocks([long, other, note, short], "f(x)")) == [cut, other, short, note]
    assert list(readable_blocks([long, note, other], "f(x)")) == [cut, other]
    assert list(readable_blocks([short, note], "f(x)")) == [short, note]
    assert list(readable_blocks([long, note, long, note, other], "f(x)")) == [
        told("2 formulas of up to 301 characters are", "them"), other,
    ]  # fmt: skip


@pytest.mark.slow
def test_samples_lie_where_there_is_something_to_be_seen() -> None:
    """Outside of −1 to 1 a grid reads zeros."""
    grid = find("grid_sample")
    assert grid is not None
    story, _ = worked_story(grid, shown_example(grid), check=False)
    assert np.count_nonzero(story.gradients["x"].jacobian.dense()) > 8


def test_the_index_lists_every_operation() -> None:
    page = index_page(OPS).text
    assert [op.name for op in OPS if f"[`{op.name}`](ops/{file_name(op)})" not in page] == []
    assert len({file_name(op) for op in OPS}) == len(OPS)


def test_the_table_is_read_by_families_with_options_and_the_equations_under_them() -> None:
    *_, table = index_page(OPS).text.partition("## Operations on each entry by itself")
    rows = [line for line in table.partition("## Calls")[0].splitlines() if line.startswith("| [")]
    assert len(rows) == len(OPS)
    assert [op.name for op in OPS if table.count(f"\n### {family_of(op).capitalize()}\n") != 1] == []
    linear = next(row for row in rows if "[`linear`]" in row)
    assert "`(x, weight, bias=None)`" in linear
    assert "<br>rank(weight) = 1: `out[…] = Σ_j x[…,j]·weight[j] + bias`" in linear


def test_the_forum_page_answers_the_thread() -> None:
    page = forum_page().text
    assert "The thread guesses that the argument is multiplied onto the output. It is not." in page
    assert "10 & 10 & 10" in page
    assert "Equal to torch" in page


NO_PATH = "element 0 of tensors does not require grad"
"""What torch says of a backward from a constant."""
OTHERWISE: dict[str, TextOutcome] = {
    "np.dot(x, a)": TextOutcome.AS_READ, "identity(x)": TextOutcome.AS_READ, "triangular_factor(x)": TextOutcome.AS_READ, "lu_factors(x)": TextOutcome.AS_READ,
    "eigh(x).eigenvectors": TextOutcome.AS_READ,
    "softmax(x)": TextOutcome.REFUSED, "log_softmax(x)": TextOutcome.REFUSED, "layer_norm(x)": TextOutcome.REFUSED, "solve(a, b, left=False)": TextOutcome.REFUSED,
    "svd(x, full_matrices=False).U": TextOutcome.REFUSED, "svd(x, full_matrices=False).Vh": TextOutcome.REFUSED,
    "F.hardsigmoid(x)": TextOutcome.NOT_COMPARED,
}  # fmt: skip
"""Examples of the table that are not simply equal: NumPy's and our own words, signs of vectors, help with arguments."""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("case", first_stories())
def test_the_worked_example_of_every_operation_is_proven(case: Case) -> None:
    """At the round numbers of its page, no oracle fails and none disagrees, and the text is what torch runs."""
    found, asked = case.story, case.story.asked
    assert found.gradients
    assert found.passed
    for gradient in found.gradients.values():
        assert [c for c in gradient.checks if c.passed is False] == []
        first = gradient.checks[0]
        assert (
            first.passed
            or first.own_rule
            or (asked is not None and (asked.dialect or asked.refusal or gradient.name in asked.data))
        )
    constant = asked is not None and ({*found.gradients} <= asked.data or asked.refusal.startswith(NO_PATH))
    usual = TextOutcome.UNDERIVED if constant else TextOutcome.EQUAL
    if not known_to_torch(case.example.text):
        usual = TextOutcome.AS_READ
    assert found.outcome in (
        OTHERWISE.get(case.example.text, usual),
        TextOutcome.EQUAL if case.example.text.startswith("eigh") else usual,
    )


@pytest.mark.parametrize(
    "page", sorted(p for p in (ROOT / "docs").rglob("*.md") if "_build" not in p.parts), ids=lambda p: p.name
)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links between pages."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_a_word_that_the_table_alone_has_is_on_the_page_of_the_notation() -> None:
    page = (ROOT / "docs" / "reference" / "notation.md").read_text(encoding="utf-8")
    own = [name for name in PRIMITIVES if name not in TABLE]
    assert len(own) > 5
    assert not [name for name in own if f"`{name}(" not in page]


GROUPS = ("Added", "Changed", "Fixed")
"""What a line of the changelog is about."""


def test_the_changelog_says_each_change_in_one_short_line() -> None:
    text = (ROOT / "docs" / "changelog.md").read_text(encoding="utf-8")
    for version in text.split("\n## ")[1:]:
        lines = [line for line in version.splitlines() if line.startswith("- ")]
        assert lines
        assert len(set(lines)) == len(lines)
        groups = [line for line in version.splitlines() if line in GROUPS]
        assert groups == [group for group in GROUPS if group in groups]
        assert [line for line in version.splitlines() if len(line) > 160] == []


@pytest.mark.slow
def test_pages_in_html_have_an_index_and_a_search(tmp_path: Path) -> None:
    folder = tmp_path / "site"
    found = CliRunner().invoke(main, ["docs", str(folder), "--ops", "exp", "--format", "html"], catch_exceptions=False)
    assert found.exit_code == 0, found.stderr
    assert found.stdout == f"2 pages in {folder}\n"
    index = (folder / "index.html").read_text(encoding="utf-8")
    assert 'href="op-exp.html"' in index
    assert "diagonal" in index
    assert (folder / "searchindex.js").is_file()


def test_pages_in_html_without_sphinx_name_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("symgrad_cli.catalog.find_spec", lambda name: None)
    found = CliRunner().invoke(main, ["docs", str(tmp_path), "--ops", "exp", "--format", "html"])
    assert found.exit_code == 2
    assert 'pip install "symgrad[docs]"' in found.stderr
