"""The lines of code that `symgrad run` prints of a script, pasted into Python and run by torch with the script's tensors.

Comes in: scripts, of the corpus, of the kept stories, and those that tests write. Goes out: what did not run, read a
name that stands for nothing, or gave other numbers than torch, in words.
"""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.session import call_events as events
from symgrad.tracing.session import transform_events, watch
from tests.pasted_lines import Ear, Heard
from tests.played import ACCUMULATION, HEAD, NETWORK_HEAD

ROOT = Path(__file__).resolve().parents[1]


def scripts() -> Iterator[tuple[str, str]]:
    """Every script of the corpus, of the kept stories, and every one that a test of stories runs: its name and text."""
    for path in sorted((ROOT / "tests" / "corpus").glob("*.py")):
        yield path.stem, path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "tests" / "contract" / "golden" / "run").glob("*.txt")):
        yield path.stem, path.read_text(encoding="utf-8").partition("\n-----\n")[0]
    for path in sorted((ROOT / "tests").glob("test_*.py")):
        yield from written_in(path)


PLAYING = {"play": HEAD, "tell": HEAD, "play_network": NETWORK_HEAD, "tell_network": NETWORK_HEAD}
"""What plays a script in tests, with the lines that it puts before it."""


def written_in(path: Path) -> Iterator[tuple[str, str]]:
    """The scripts that one file of tests hands to what plays them, as they stand there."""
    source = path.read_text(encoding="utf-8")
    if not any(f"{name}(" in source for name in PLAYING):
        return
    tree = ast.parse(source)
    known = {"ACCUMULATION": ACCUMULATION} | {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in PLAYING
            and len(node.args) > 1
        ):
            given = node.args[1]
            text = given.value if isinstance(given, ast.Constant) else known.get(getattr(given, "id", ""))
            if isinstance(text, str) and "import torch" not in text.splitlines()[:1]:
                text = f"{PLAYING[node.func.id]}{text}"
            if isinstance(text, str):
                yield f"{path.stem}:{node.lineno}", text


def slips_of(path: Path) -> Ear:
    """Run a script and paste what is told of it."""
    ear, kinds = Ear(), {}
    judge, told_lines, told_of = events.Judge, events.make_lines, events.explain_call

    class Judge(judge):
        def __init__(self, program: Any, seeds: Any, types: Mapping[str, str]) -> None:
            super().__init__(program, seeds, types)
            kinds[id(program)] = types

    def heard(program: Any, seeds: Any, *rest: Any) -> Any:
        told = told_lines(program, seeds, *rest)
        ear.heard[id(told)] = Heard(program, seeds, told, kinds.get(id(program), {}))
        return told

    def event_of(*given: Any) -> Any:
        event = told_of(*given)
        ear.events.append(event)
        return event

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(events, "Judge", Judge)
        patch.setattr(events, "make_lines", heard)
        patch.setattr(sys, "excepthook", sys.excepthook)  # a script may set its own
        for place in (watch, transform_events):
            patch.setattr(place, "explain_call", event_of)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            run_script(str(path), [], tell=ear.tell)
    return ear
