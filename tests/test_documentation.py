"""What README and docs show is what happens: their Python runs, their commands run, their output is real."""

from __future__ import annotations

import linecache
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad.documents import Page, forum_page, index_page, operation_page
from symgrad.documents.pages import file_name
from symgrad.ops import Op, entries, find
from symgrad_cli.main import main
from tests.cases import STORIES, Case, first_by_default

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


@pytest.mark.parametrize(("name", "body"), RUNNABLE, ids=[name for name, _ in RUNNABLE])
def test_python_runs(name: str, body: str) -> None:
    """Each block by itself, and the tests it defines."""
    linecache.cache[name] = (len(body), None, body.splitlines(keepends=True), name)  # as a file's lines are known
    scope: dict[str, object] = {"__name__": name}
    exec(compile(body, name, "exec"), scope)
    for word, thing in scope.items():
        if word.startswith("test_") and callable(thing):
            thing()


COMMANDS = re.findall(r"`(symgrad [^`]*)`", (ROOT / "README.md").read_text(encoding="utf-8"))


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run(command: str, tmp_path: Path) -> None:
    """Each command of the README's table."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n", encoding="utf-8"
    )
    arguments = shlex.split(
        command.replace("OUT_DIR", f"{tmp_path} --ops exp --no-check").replace("SCRIPT", str(script))
    )[1:]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    assert result.stdout


def test_the_output_in_the_readme_is_real() -> None:
    """The block under the first command is what that command prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = re.search(r"<!-- forum-output -->\n```text\n(.*?)```", text, re.DOTALL)
    assert shown is not None
    command = re.search(r"symgrad (explain .*)$", text, re.MULTILINE)
    assert command is not None
    result = CliRunner().invoke(
        main, [*shlex.split(command[1]), "--no-color"], env={"COLUMNS": "100"}, catch_exceptions=False
    )
    assert shown[1] == result.stdout


SCRIPTS = [
    (page, *found)
    for page in (ROOT / "README.md", ROOT / "docs" / "how-to" / "explain-a-script.md")
    for found in re.findall(
        r"<!-- run: (\S+) -->\n```python\n(.*?)```.*?```text\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
]


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


OPS = list(entries())
SAMPLE = ["matmul", "softmax", "floor", "cross_entropy", "max_pool2d"]


def in_repository(page: Page) -> bool:
    """Whether the page is what `symgrad docs docs/reference` writes today."""
    kept = (ROOT / "docs" / "reference" / page.path).read_text(encoding="utf-8")
    return steady(kept) == steady(page.text.rstrip("\n") + "\n")


def steady(text: str) -> str:
    """``text`` without what differs from run to run: of decimals the last bit, by where arrays lie in memory."""
    return re.sub(r"\b(equal|\de-1[5-9])\b", "·", text) if "Decimal numbers:" in text else text


def test_only_the_last_bit_of_decimals_may_differ() -> None:
    assert steady("Decimal numbers: | equal | 3e-17 |") == steady("Decimal numbers: | 2e-16 | equal |")
    assert steady("Decimal numbers: | 3e-17 |") != steady("Decimal numbers: | 3e-9 |")
    assert steady("Exact integers | equal |") != steady("Exact integers | 3e-17 |")


@pytest.mark.parametrize("name", SAMPLE)
def test_pages_in_the_repository_are_generated(name: str) -> None:
    """A sample by default; every page with -m slow."""
    op = find(name)
    assert op is not None
    assert in_repository(operation_page(op)), "symgrad docs docs/reference"


@pytest.mark.slow
@pytest.mark.parametrize("op", [op for op in OPS if op.name not in SAMPLE], ids=lambda op: op.name)
def test_every_page_in_the_repository_is_generated(op: Op) -> None:
    assert in_repository(operation_page(op)), "symgrad docs docs/reference"


@pytest.mark.parametrize("page", [index_page, forum_page], ids=["index", "forum"])
def test_index_and_forum_page_are_generated(page: Callable[..., Page]) -> None:
    """The index lists every operation of the table."""
    assert in_repository(page(OPS) if page is index_page else page()), "symgrad docs docs/reference"


def test_every_operation_has_its_page_and_no_page_is_left_over() -> None:
    there = {path.name for path in (ROOT / "docs" / "reference" / "ops").iterdir()}
    assert there == {file_name(op) for op in OPS}
    assert len(there) == len(OPS)


@pytest.mark.parametrize("case", first_by_default(STORIES))
def test_the_worked_example_of_every_operation_is_proven(case: Case) -> None:
    """At the round numbers of its page, no oracle fails and none disagrees; torch is always asked."""
    assert case.story.gradients
    for gradient in case.story.gradients.values():
        assert [c for c in gradient.checks if c.passed is False] == []
        assert gradient.checks[0].passed


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Relative links between pages."""
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"
