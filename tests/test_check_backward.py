"""`symgrad.testing` on its corpora: every fault is caught and named, each message is a golden, no right one is accused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from symgrad.testing import check_backward
from tests.candidates import Candidate
from tests.correct_backwards import CORRECT
from tests.faulty_backwards import FAULTS
from tests.kernel_backwards import RIGHT, WRONG

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


RANDOM = ("random", "dropout drawn again")
"""Faults whose numbers are other ones each time."""


@pytest.mark.skipif(UPDATE not in os.environ, reason=f"writes the goldens; set {UPDATE}")
def test_goldens_are_written() -> None:
    GOLDENS.write_text("\n".join(message(c) for c in (*FAULTS, *WRONG) if c.name not in RANDOM), encoding="utf-8")


@pytest.mark.one_in(6)
@pytest.mark.parametrize("candidate", named((*FAULTS, *WRONG)))
def test_every_fault_is_caught_and_named(candidate: Candidate) -> None:
    """Caught, named as a reader would, and in the words of the golden."""
    report = candidate.report()
    assert not report.passed
    assert report.findings[0].kind in candidate.kinds
    if candidate.name not in RANDOM:
        assert message(candidate) == goldens()[candidate.name]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("candidate", named((*CORRECT, *RIGHT)))
def test_no_right_backward_is_accused(candidate: Candidate) -> None:
    """And something was compared."""
    report = candidate.report()
    assert report.passed, report.to_text()
    assert {b.name: b for b in report.batteries}["value"].count > 0
    assert "this is not" not in report.to_text()


def test_the_corpora_are_what_the_documentation_says() -> None:
    assert len(FAULTS) >= 60
    assert len(CORRECT) >= 40
    every = (*FAULTS, *WRONG, *CORRECT, *RIGHT)
    assert len({c.name for c in every}) == len(every)
    assert set(goldens()) == {c.name for c in (*FAULTS, *WRONG) if c.name not in RANDOM}


@pytest.mark.parametrize(
    ("pull", "said"),
    [
        (lambda v, x, a: (a @ v, x.T @ v), "equals a @ v: the sides of @ stand the other way round, and the transpose"),
        (lambda v, x, a: (v @ a.T, v @ x.T), "equals v @ x.T: the sides of @ stand the other way round"),
        (lambda v, x, a: (a.T @ v, x.T @ v), "equals a.T @ v: the sides of @ stand the other way round"),
    ],
)
def test_the_sides_of_a_product_the_other_way_round_are_named(pull: Any, said: str) -> None:
    generator = np.random.default_rng(0)
    pair = (lambda x, a: x @ a), pull
    report = check_backward(pair, "x @ a", x=generator.normal(size=(3, 3)), a=generator.normal(size=(3, 3)))
    assert [f.kind for f in report.findings] == ["swapped"]
    assert said in report.findings[0].message


def test_an_equation_is_what_a_backward_is_held_against_and_its_size_rule_decides() -> None:
    x, w = torch.randn(6, dtype=torch.float64), torch.randn(3, dtype=torch.float64)

    def correlated(x: Any, w: Any) -> Any:
        return x.unfold(0, len(w), 1) @ w

    assert check_backward(correlated, "out[i] = sum_j x[i+j]*w[j]", x=x, w=w, order=2).passed
    report = check_backward(correlated, "out[i] = sum_j x[i+j]*w[j]*2", x=x, w=w)
    assert [f.kind for f in report.findings] == ["forward"]

    def differences(x: Any) -> Any:
        return x[2:] - 2 * x[1:-1] + x[:-2]

    assert check_backward(differences, "out[i] = x[i+2] - 2*x[i+1] + x[i]", x=x).passed
