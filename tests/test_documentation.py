"""What README and docs show is what happens: their Python runs, their commands run, their output is real."""

from __future__ import annotations

import linecache
import os
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad.functions import PRIMITIVES
from symgrad.ops import TABLE
from symgrad.oracles.comparisons import TextOutcome
from symgrad_cli.main import main
from tests.cases import Case, first_stories
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
