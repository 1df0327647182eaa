"""Random programs, and every sentence about them held against torch: explain, derive, plan, and run on a script.

`tests.said_programs` draws at the places where sentences go wrong (axes of size 1 and 0, ties, zeros); a sentence that
nobody tests is red, so that new words bring their test.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import symgrad
from symgrad.errors import SymgradError
from symgrad.explanation.reasons import Vanishing
from symgrad.tracing import run_script
from tests import said_pages, said_plans, said_runs
from tests.nights import numbers
from tests.said_programs import Drawn, programs
from tests.said_truth import Truth

pytestmark = pytest.mark.filterwarnings(
    "ignore:Using a target size:UserWarning"
)  # torch's own, of a loss that broadcasts

PART = 4
"""Programs of one example of a test."""


def explained(program: Drawn, check: bool) -> list[str]:
    """What is false on a page, but for texts that symgrad refuses."""
    try:
        found = symgrad.explain(program.text, seed=program.seed, check=check, **program.inputs)
    except SymgradError:
        return []
    sizes = {str(size): number for size, number in found.values.sizes.items()}
    truth = Truth(program.text, program.inputs, np.asarray(found.seed, float), program.positions, sizes)
    return [f"{program}: {said}" for said in said_pages.false_sentences(found, truth)] if truth.able else []


def told(program: Drawn, folder: Path) -> list[str]:
    """What is false in the story of a script."""
    script, events = said_runs.script_of(program), []
    path = folder / f"script{program.number}.py"
    path.write_text(script, encoding="utf-8")
    with contextlib.redirect_stderr(io.StringIO()):
        run_script(str(path), [], tell=events.append)
    return [f"{script}{said}" for said in said_runs.false_sentences(program, events, script)]


@pytest.mark.parametrize("part", numbers(range(6), range(6, 24)))
def test_pages_of_explain(part: int) -> None:
    """Every third part with the proofs, which take the time."""
    assert not [said for p in programs(1000 * part, PART) for said in explained(p, check=part % 3 == 0)]


@pytest.mark.one_in(24, slow=4)
@pytest.mark.parametrize("part", range(24))
def test_pages_of_run(part: int, tmp_path: Path) -> None:
    assert not [said for p in programs(1000 * part + 500, PART) for said in told(p, tmp_path)]


@pytest.mark.parametrize("part", numbers(range(4), range(4, 16)))
def test_structures_of_derive(part: int) -> None:
    for program in programs(1000 * part + 200, 2 * PART):
        with contextlib.suppress(SymgradError):
            said_plans.derived(program)


@pytest.mark.one_in(16, slow=4)
@pytest.mark.parametrize("part", range(16))
def test_words_of_plan(part: int) -> None:
    for program in programs(1000 * part + 300, 2 * PART):
        with contextlib.suppress(SymgradError):
            said_plans.planned(program)


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "shapes", "says"),
    [
        ("F.mse_loss(x, y)", ((3, 1), (3,)), "mse_loss compares x 3×1 with y 3: both are broadcast to 3×3, so 9 pairs"),
        ("F.l1_loss(x.exp(), y)", ((4,), (2, 1)), "compares (x.exp()) 4 with y 2×1: both are broadcast to 2×4"),
        ("F.mse_loss(x, y)", ((2, 3), (3,)), ""),
        ("F.mse_loss(x, y)", ((3,), (3,)), ""),
    ],
)
def test_pairs_that_a_loss_compares_by_broadcasting(text: str, shapes: Sequence[tuple[int, ...]], says: str) -> None:
    """Where torch's warning is meant; targets that are broadcast to the predictions pair nothing anew."""
    inputs = {name: np.arange(1.0, 1 + np.prod(s)).reshape(s) for name, s in zip("xy", shapes, strict=True)}
    assert not explained(Drawn(1, text, "{}", inputs, None, frozenset()), check=False)
    page = " ".join(symgrad.explain(text, check=False, **inputs).to_text().split())
    assert says in page
    assert ("compares" in page) == bool(says)


# The tests themselves -------------------------------------------------------------------------------

ONE = Drawn(1, "relu(x)", "{}", {"x": np.array([-1.0, -2.0])}, None, frozenset())
"""J is 0 at these numbers, and elsewhere it is not."""


def test_a_structure_that_is_not_there_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Claims that are said untested: the first is the strongest, and here it is not so."""
    monkeypatch.setattr(
        "symgrad.explanation.jacobian.choose_proven", lambda claims, *evidence: next(iter(claims)).structure
    )
    with pytest.raises(AssertionError, match="J is not I"):
        explained(replace(ONE, inner="x.flip(0)", inputs={"x": np.array([1.0, 2.0])}), check=False)


def test_a_reason_that_is_none_is_seen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`stays the same whatever x is`, of what is flat here alone; `J is not 0`, of one that is."""
    assert not explained(ONE, check=False)
    assert not told(ONE, tmp_path)
    monkeypatch.setattr("symgrad.explanation.reasons.moving_places", lambda *of: (0,))
    monkeypatch.setattr(Vanishing, "_still", lambda *of: True)
    assert any("stays the same whatever x is" in said for said in told(ONE, tmp_path))
    monkeypatch.setattr(sys.modules["symgrad.explanation.singular"], "is_jacobian_zero", lambda *of: False)
    assert any("add up to 0" in said for said in explained(ONE, check=False))


def test_a_page_that_claims_to_equal_torch_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    found = symgrad.explain("x ** 2", x=[1.0, 2.0])
    other = Truth("x ** 3", {"x": np.array([1.0, 2.0])}, np.ones(2))
    read = said_pages.Read(other, found)
    assert not said_pages.unread("Equal to torch 2.13.0 in every entry.", read, said_pages.CLAIMS, ())
    assert read.failed


def test_a_sentence_that_nobody_tests_is_red() -> None:
    read = said_pages.Read(Truth("x", {"x": np.ones(1)}, np.ones(1)), symgrad.explain("x", x=[1.0], check=False))
    said = "x is a single number. The moon is full."
    assert said_pages.unread(said, read, said_pages.CLAIMS, said_pages.READING) == said
