"""`symgrad.testing` on its corpora: every fault is caught and named, each message is a golden, no right one is accused."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.candidates import Candidate
from tests.correct_backwards import CORRECT
from tests.faulty_backwards import FAULTS

GOLDENS = Path(__file__).parent / "golden" / "faulty_backwards.txt"
LINE = re.compile(r"\.py:\d+\)")
FORM = re.compile(r", \w+\.grad = .*?(?=  \()")
"""The closed form beside a finding has tests of its own."""
UPDATE = "SYMGRAD_UPDATE_GOLDENS"


def named(candidates: tuple[Candidate, ...]) -> list[object]:
    """Parameters with ids."""
    return [pytest.param(c, id=c.name) for c in candidates]


def message(candidate: Candidate) -> str:
    """Everything that is found, without the batteries."""
    found = candidate.report().findings
    text = "".join(f"{finding}\n" for finding in found)
    return f"## {candidate.name}\n{FORM.sub('', LINE.sub('.py:…)', text))}"


def goldens() -> dict[str, str]:
    """The messages as they were read and judged, by candidate."""
    parts = GOLDENS.read_text(encoding="utf-8").split("## ")[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


RANDOM = ("random",)
"""Faults whose numbers are other ones each time."""


@pytest.mark.skipif(UPDATE not in os.environ, reason=f"writes the goldens; set {UPDATE}")
def test_goldens_are_written() -> None:
    GOLDENS.write_text("\n".join(message(c) for c in FAULTS if c.name not in RANDOM), encoding="utf-8")


@pytest.mark.one_in(3)
@pytest.mark.parametrize("candidate", named(FAULTS))
def test_every_fault_is_caught_and_named(candidate: Candidate) -> None:
    """Caught, named as a reader would, and in the words of the golden."""
    report = candidate.report()
    assert not report.passed
    assert report.findings[0].kind in candidate.kinds
    if candidate.name not in RANDOM:
        assert message(candidate) == goldens()[candidate.name]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("candidate", named(CORRECT))
def test_no_right_backward_is_accused(candidate: Candidate) -> None:
    """And something was compared."""
    report = candidate.report()
    assert report.passed, report.to_text()
    assert {b.name: b for b in report.batteries}["value"].count > 0
    assert "this is not" not in report.to_text()


def test_the_corpora_are_what_the_documentation_says() -> None:
    assert len(FAULTS) >= 60
    assert len(CORRECT) >= 40
    assert len({c.name for c in (*FAULTS, *CORRECT)}) == len(FAULTS) + len(CORRECT)
    assert set(goldens()) == {c.name for c in FAULTS if c.name not in RANDOM}
