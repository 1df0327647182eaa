"""``symgrad docs`` is interrupted from outside: what stands is whole, and the next run makes the rest."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad_cli.main import main
from tests.nights import numbers

NAMES = "tanh,relu,exp,matmul,sum,softmax"
COMMAND = ("docs", "--no-check", "--ops", NAMES)


def stands(folder: Path) -> dict[str, bytes]:
    """The files of a folder by their places."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def finished(folder: Path) -> int:
    """How many pages stand. The run goes on meanwhile: no file is opened, and hidden ones, which come and go, do not count."""
    return sum(not path.name.startswith(".") for path in folder.rglob("*.md"))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("whole") / "pages"
    assert CliRunner().invoke(main, [*COMMAND, str(folder)]).exit_code == 0
    return stands(folder)


def test_the_help_says_what_a_killed_run_leaves() -> None:
    said = " ".join(CliRunner().invoke(main, ["docs", "--help"]).output.split())
    assert "a run that is killed may leave a hidden folder .symgrad-…, which you can delete" in said


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
@pytest.mark.parametrize("way", numbers([("SIGTERM", 1), ("SIGKILL", 3)], [("SIGTERM", 3), ("SIGKILL", 1)]))
def test_what_stands_is_whole_and_the_next_run_makes_the_rest(
    way: tuple[str, int], whole: dict[str, bytes], tmp_path: Path
) -> None:
    sign, after = way
    folder = tmp_path / "pages"
    command = [sys.executable, "-m", "symgrad_cli", *COMMAND, str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None and (finished(folder) < after):
            time.sleep(0.002)
        process.send_signal(getattr(signal, sign))
        _, said = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "Traceback" not in said
    left = stands(folder)
    assert after <= len(left) < len(whole)
    for name, text in left.items():
        if not re.fullmatch(r"\.symgrad-\w+", Path(name).name):  # its name says that it is none
            assert text == whole[name], name
    assert CliRunner().invoke(main, [*COMMAND, str(folder)]).exit_code == 0
    after_all = stands(folder)
    assert {name: after_all.get(name) for name in whole} == whole
