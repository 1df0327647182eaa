"""At every kink of the table: the choice lies between the sides, and it is the installed torch's."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from click.testing import CliRunner

import symgrad.explanation.kinks as kinks
from symgrad.documents import kinks_page
from symgrad.errors import UnsupportedError
from symgrad.ops import Op, entries, find
from symgrad_cli.main import main

POINTS = [(op, at) for op in entries() for at in op.kinks]


@pytest.mark.parametrize(("op", "at"), POINTS, ids=[f"{op.name} at {at:g}" for op, at in POINTS])
def test_the_choice_is_legal_and_torchs(op: Op, at: float) -> None:
    found = kinks.kink_of(op, at)
    assert found.legal, found
    assert found.agrees, found


def test_a_corner_has_two_sides() -> None:
    relu = find("relu")
    assert relu is not None
    found = kinks.kink_of(relu, 0)
    assert (found.left, found.here, found.right) == (0, 0, 1)
    assert not dataclasses.replace(found, here=1.5).legal
    assert not dataclasses.replace(found, here=1.0).agrees
    assert dataclasses.replace(found, torch=None).agrees is None
    away = kinks.kink_of(relu, 2)
    assert (away.left, away.here, away.right, away.torch) == (1, 1, 1, 1)


def test_what_reads_positions_has_no_point() -> None:
    op = find("embedding")
    assert op is not None
    with pytest.raises(UnsupportedError, match="positions"):
        kinks.kink_of(op, 0)


def run(*arguments: str) -> str:
    """What ``symgrad ops`` prints."""
    result = CliRunner().invoke(main, ["ops", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_the_command_shows_them() -> None:
    heading, line = run("relu", "--at", "0").splitlines()
    assert heading.split() == ["operation", "at", "left", "right", "symgrad", "torch"]
    assert line.split() == ["relu(x)", "0", "0", "1", "0", "0"]
    assert "maximum(x, y)" in run("maximum", "--kinks")
    assert run("exp", "--kinks") == "no kinks: it is smooth\n"
    assert CliRunner().invoke(main, ["ops", "--at", "0"]).exit_code == 2


def test_the_page_in_the_repository_is_generated() -> None:
    page = kinks_page(list(entries()))
    written = Path(__file__).parent.parent / "docs" / "reference" / page.path
    assert written.read_text(encoding="utf-8") == page.text + "\n"


def test_without_torch_it_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinks, "run_torch", lambda *_: None)
    assert run("relu", "--at", "0").splitlines()[1].endswith("not asked")
