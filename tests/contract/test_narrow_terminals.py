"""Terminals of 40, 60 and 80 columns: nothing is wider, but for what is copied from the screen.

A command to type and a line of Python stay whole where they are to be copied; everything else goes on in the next line.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from symgrad_cli.main import main

SCRIPT = """\
import torch
hidden_weight = torch.randn(5, 3, requires_grad=True)
loss = torch.relu(torch.randn(4, 3) @ hidden_weight.T).pow(2).mean()
loss.backward()
"""
NO_CHECK = {"explain": ("--no-check",)}
COPIED = re.compile(r" *(\$|try:) |x\.grad = ")


def on_terminal(columns: int, *command: str) -> list[str]:
    """The lines that a command writes to a terminal of so many columns, without what is written over."""
    pty = pytest.importorskip("pty", reason="this system has no terminals of its own")
    ours, theirs = pty.openpty()
    found: list[bytes] = []

    def read() -> None:
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            found.append(part)

    reader = threading.Thread(target=read)
    reader.start()
    environment = os.environ | {"COLUMNS": str(columns), "NO_COLOR": "1"}
    subprocess.run([sys.executable, "-m", "symgrad_cli", *command], stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    reader.join(10)
    os.close(ours)
    return b"".join(found).decode().replace("\x1b[K", "\r").replace("\r\n", "\n").split("\n")


@pytest.mark.one_in(9, alone=4)
@pytest.mark.parametrize("columns", [40, 60, 80])
@pytest.mark.parametrize(
    "command",
    [
        ("explain", "x@a", "--seed", "[[1,2,3,4],[5,6,7,8]]"), ("explain", "softmax(x@w)", "--let", "w=ones"), ("derive", "softmax(x@w)"),
        ("explain", "layer_norm(x, (4,), weight, bias)"), ("explain", "relu(x)", "--let", "x=[-1,0,2]"),
        ("ops", "softmax"), ("plan", "softmax(x@w)@u"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_lines_end_where_the_terminal_does(command: tuple[str, ...], columns: int) -> None:
    result = CliRunner().invoke(main, [*command, *NO_CHECK.get(command[0], ())], env={"COLUMNS": str(columns)})
    assert result.exit_code == 0
    wide = [line for line in result.stdout.splitlines() if len(line) > columns]
    assert wide == []


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "command",
    [("errors", "shape"), ("exercise", "tanh(x@w)", "--answer", "v"), ("run", SCRIPT)],
    ids=lambda c: c[0],
)
def test_only_what_is_copied_is_wider_than_a_terminal(command: tuple[str, ...], tmp_path: Path) -> None:
    if command[0] == "run":
        script = tmp_path / "a_script_with_a_long_name.py"
        script.write_text(command[1], encoding="utf-8")
        command = ("run", str(script))
    lines = on_terminal(40, *command)
    assert len(lines) > 1
    parts = [part for line in lines for part in line.split("\r") if not COPIED.match(part)]
    assert [part for part in parts if len(part) > 40] == []
