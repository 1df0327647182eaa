"""What people see whole: a question in every format, the stories of scripts, the text of two networks.

Each is kept under ``golden/``, to be read as a page and reviewed as a difference; SYMGRAD_UPDATE_GOLDENS=1 writes it.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import symgrad
from symgrad_cli.main import main
from tests.networks import LENET

GOLDEN = Path(__file__).parent / "golden"
FORUM = ("explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]")
COMMANDS = {
    "forum.txt": FORUM,
    "forum.md": (*FORUM, "--format", "markdown"),
    "forum.tex": (*FORUM, "--format", "latex"),
    "forum.json": (*FORUM, "--format", "json"),
    "forum-entry.txt": (*FORUM, "--entry", "x[0,1]"),
    "derive.txt": ("derive", "h = relu(x@w + b); h @ w2"),
}
STORIES = sorted((GOLDEN / "run").glob("*.txt"))


def assert_kept(path: Path, found: str, before: str = "") -> None:
    """A file has ``found``, behind what it begins with."""
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        path.write_text(before + found, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == before + found, (
        "SYMGRAD_UPDATE_GOLDENS=1 writes it, see the head of the file"
    )


def steady(text: str) -> str:
    """``text`` without what differs from one installation to the next."""
    return re.sub(r'(torch:? "?)\d+\.\d+\.\d+|("torch": ")\d+\.\d+\.\d+', r"\1\2VERSION", text)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_answer_in_every_format(name: str) -> None:
    ran = CliRunner(env={"COLUMNS": "100"}).invoke(main, [*COMMANDS[name]], catch_exceptions=False)
    assert ran.exit_code == 0
    assert_kept(GOLDEN / name, steady(ran.stdout))


@pytest.mark.one_in(8, alone=3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_the_stories_of_a_script(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A script, a line of dashes, and what is told of it."""
    monkeypatch.chdir(tmp_path)
    source, dashes, _ = path.read_text(encoding="utf-8").partition("-----\n")
    Path("script.py").write_text(source, encoding="utf-8")
    precision = torch.get_default_dtype()
    try:
        ran = CliRunner().invoke(main, ["run", "-o", "told.txt", "script.py"], catch_exceptions=False)
    finally:
        torch.set_default_dtype(precision)
    assert ran.exit_code == int("Traceback" in ran.stderr), ran.output  # some end in an error of torch
    assert_kept(path, Path("told.txt").read_text(encoding="utf-8"), source + dashes)


def test_there_are_enough_stories() -> None:
    assert len(STORIES) >= 15


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["lenet", "transformer"])
def test_the_text_of_a_program(name: str) -> None:
    """What `repr` shows of two networks that everybody knows."""
    torch.manual_seed(0)
    if name == "lenet":
        space: dict[str, Any] = {"torch": torch, "nn": nn}
        exec(compile(LENET.partition("torch.manual_seed")[0], "lenet", "exec"), space)
        program = symgrad.capture(space["Net"](), torch.randn(1, 1, 32, 32))
    else:
        layer = nn.TransformerEncoderLayer(d_model=16, nhead=2, dim_feedforward=32, dropout=0.0, batch_first=True)
        program = symgrad.capture(layer, torch.randn(2, 5, 16))
    assert_kept(GOLDEN / f"program-{name}.txt", f"{program!r}\n")
