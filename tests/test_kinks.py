"""At every kink of the table: the choice lies between the sides, is the installed torch's, and a page says so."""

from __future__ import annotations

import dataclasses
import os
import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
import symgrad.explanation.kinks as kinks
from symgrad import UnsupportedError
from symgrad.documents import kinks_page
from symgrad.ops import Op, find, operations
from symgrad_cli.main import main
from tests.contract.stories import stories_of

POINTS = [(op, at) for op in operations() for at in op.kinks]


@pytest.mark.one_in(2)
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


@pytest.mark.parametrize(
    ("name", "at", "told"),
    [("sqrt", 0, "nan  inf inf inf"), ("log", 0, "nan inf inf inf"), ("reciprocal", 0, "-inf -inf -inf -inf"),
     ("acos", 1, "-inf nan -inf -inf"), ("rsqrt", -1, "nan nan nan nan")],
)  # fmt: skip
def test_an_infinite_slope_is_no_disagreement_and_no_number_beside_it(name: str, at: float, told: str) -> None:
    asked = CliRunner().invoke(main, ["ops", name, "--at", str(at)])
    assert asked.stdout.splitlines()[1].split()[2:] == told.split()


def test_many_kinks_are_no_disagreement() -> None:
    """108 entries that tie: each of them is looked at, not the first ones."""
    found = symgrad.explain("F.max_pool2d(x, 2, stride=1)", x=np.ones((2, 3, 3, 6)))
    assert found.passed


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
    for point in ("nan", "inf"):  # torch would be said to differ where there is no number
        assert "--at takes a finite number" in CliRunner().invoke(main, ["ops", "relu", "--at", point]).output


def test_the_page_in_the_repository_is_generated() -> None:
    """docs/reference/kinks.md; SYMGRAD_UPDATE_GOLDENS=1 writes it."""
    page = kinks_page(list(operations()))
    written = Path(__file__).parent.parent / "docs" / "reference" / page.path
    if os.environ.get("SYMGRAD_UPDATE_GOLDENS"):
        written.write_text(page.text + "\n", encoding="utf-8")
    assert written.read_text(encoding="utf-8") == page.text + "\n"
    assert max(map(len, page.text.splitlines())) <= 300


def test_without_torch_it_was_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinks, "run_torch", lambda *_: None)
    assert run("relu", "--at", "0").splitlines()[1].endswith("not asked")


def opening(text: str, **options: object) -> str:
    """What a page opens with, on one line."""
    return re.sub(r"\s+", " ", symgrad.explain(text, **options).to_text(brief=True))


def test_the_answer_names_the_kink_and_what_is_legal() -> None:
    told = opening("relu(x)", x=[0, 1, -1])
    assert "x[0] = 0 is a kink of relu: left 0, right 1, anything between is legal; torch 2.13.0 takes 0." in told
    assert "kink" not in opening("relu(x)", x=[2, 1, -1])
    assert "kink of relu, one of 2 such entries: left 0" in opening("relu(x)", x=[0, 0, -1])
    shared = "left 0, right 1, anything between is legal as long as the slopes of all tied entries add up to 1; "
    assert f"{shared}torch 2.13.0 takes 0.5" in opening("maximum(x, y)", x=[2, 1], y=[2, 3])
    of_three = opening("F.max_pool2d(x, 2)", x=[[[1, 1], [1, 0]]])
    assert f"is a kink of max_pool2d: {shared}torch 2.13.0 takes 1." in of_three
    assert "x[0] = 1 is a jump of floor: its slope is 0 on both sides" in opening("floor(x)", x=[1, 2.5])
    assert "x[0] = 0 is where x > 0 switches: the slope of Σ v·out is 0 on the left, 1 on the right" in opening(
        "where(x > 0, x, 0 * x)", x=[0, 1]
    )


def test_a_choice_that_changes_no_gradient_is_not_told() -> None:
    assert "kink" in opening("relu(x) @ w", x=[0, 1], w=[1, 1])
    assert "kink" not in opening("relu(x) @ w", x=[0, 1], w=[0, 1])
    assert "kink" not in opening("relu(x * w)", x=[1, 0], w=[1, 0])
    assert "kink" not in opening("relu(x)", x=[0, 1], seed=[0, 1])


@pytest.mark.parametrize(("a", "b", "ours", "torchs"), [(1, 0.1, -10, -9), (3, 0.1, -30, -29), (1, 0.2, -5, -4)])
def test_at_a_jump_either_side_is_right(a: float, b: float, ours: float, torchs: float) -> None:
    """How often 0.1 goes into 1 is 10 by the rounded quotient and 9 by the numbers: b lies where it jumps."""
    found = symgrad.explain("a % b", a=a, b=b)
    assert found.passed
    (check,) = [check for check in found.gradients["b"].checks if check.oracle.startswith("out.backward")]
    assert float(found.gradients["b"].value) == ours
    assert check.undefined == 1
    assert f"here {ours}, there {torchs}" in check.note
    assert "lies at a jump" in check.note


@pytest.mark.parametrize(
    ("text", "a"),
    [("kthvalue(flip(a, (0,)), 2).values", [0, 0, 0]), ("kthvalue(a, 3).values * 2", [1, 1, 1, 2, 1]),
     ("msort(a)[1:3].prod()", [3, 3, 3, 5]), ("topk(a, 2).values[1] ** 2", [2, 2, 2, 1])],
)  # fmt: skip
def test_which_of_equal_entries_is_taken_is_no_disagreement(text: str, a: list[int]) -> None:
    """torch's choice among equal entries differs from call to call; that a choice is one of them is checked."""
    assert symgrad.explain(text, a=a).passed


def test_a_tie_is_told_of_an_entry_that_counts_with_the_digits_there_are() -> None:
    assert "kink" not in opening("sort(a).values[2] * 3", a=[1, 1, 1, 2, 1])
    told = opening("topk(a, 1, 0, False).values", a=[1e8, -1e8, -1e8])
    assert "is a kink of topk: left 1, right 0" in told
    assert "add up to 1;" in told


TURNS = [*product(["1e-3", "1e-4", "1e-6"], [1, 0, 1000]), ("1e-9", 0), ("1e-9", 1)]


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("beta", "at"), TURNS)
def test_where_the_slope_only_turns_quickly_there_is_no_kink(beta: str, at: int) -> None:
    """Its slope was another a hair beside the point, as that of a kink is: left 0, right 0, it was said."""
    assert "kink" not in opening(f"F.smooth_l1_loss(x, t, beta={beta})", x=[at, at + 2], t=[at, at])
    assert "is a kink of l1_loss: left -0.5, right 0.5" in opening("F.l1_loss(x, t)", x=[at, at + 2], t=[at, at])


KINKED = """
import torch
x = torch.tensor([0.0, 1.0], requires_grad=True)
w = torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
with torch.no_grad():
    pass
for turn in range(2):
    torch.relu(x @ w - torch.tensor([3.0, 0.0])).sum().backward()
"""


def test_a_script_is_told_of_the_kink_once(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text(KINKED, encoding="utf-8")
    told = [re.sub(r"\s+", " ", story) for story in stories_of(path)]
    assert (
        "t2[0] = 0 is a kink of relu (line 8): left 0, right 1, anything between is legal; torch 2.13.0 takes 0"
        in (told[0])
    )
    assert "kink" not in told[1]


@pytest.mark.slow
def test_a_mask_that_nothing_moves_is_no_kink() -> None:
    """That of the past is ``tril(ones_like(S)) > 0``, at a corner wherever it is 0."""
    q = [[1.0, 2.0], [0.5, -1.0], [2.0, 1.0]]
    page = symgrad.explain("F.scaled_dot_product_attention(q, q + 1, q, is_causal=True)", q=q, expand=True)
    assert "switches" not in page.to_text()
    moved = symgrad.explain("where(floor(x) > 0, x, 2 * x + 1)", x=[0.5, 1.0]).to_text()
    assert "switches" in moved or "kink" in moved


@pytest.mark.parametrize(
    ("text", "count"), [("x.max(dim=1).values", 2), ("x[:1].max(dim=1).values", 1), ("x.topk(2)[0]", 2)]
)
def test_ties_in_several_rows_are_counted(text: str, count: int) -> None:
    page = " ".join(symgrad.explain(text, x=[[1, 1, 0], [2, 2, 2]]).to_text().split())
    assert ("one of" in page) == (count > 1)
    assert f"one of {count} such entries:" in page or count == 1


TIMES_0 = (
    ("sign(x)*abs(x)", "1 on both sides"), ("sign(x)*x", "-1 on the left, 1 on the right"),
    ("sign(2*x)*abs(x)", "1 on both sides"), ("x*floor(x)", "-1 on the left, 0 on the right"),
    ("where(x != 0, x, 0*x)", "1 on both sides"), ("x * trunc(x + 1)", "0 on the left, 1 on the right"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "sides"), TIMES_0)
def test_a_jump_that_0_multiplies_is_told_with_the_slopes_beside_it(text: str, sides: str) -> None:
    """Nothing comes back to the jump itself, so a look at each step by itself finds nothing there."""
    (tie,) = symgrad.explain(text, x=[0, 0.5]).kinks
    assert (tie.name, tie.at, tie.here) == ("x", (0,), 1.0 if "trunc" in text else 0.0)
    assert f"switches: the slope of Σ v·out is {sides};" in tie.says("x", text, "Σ v·out")


@pytest.mark.parametrize("text", ["x**2 * sign(x)", "x * relu(x)", "relu(x) * abs(x)", "where(x > 0, x, x)"])
def test_no_kink_is_told_where_both_sides_have_the_slope_that_is_taken(text: str) -> None:
    assert symgrad.explain(text, x=[0, 0.5]).kinks == ()


def test_a_script_is_told_of_a_jump_that_0_multiplies(tmp_path: Path) -> None:
    path = tmp_path / "script.py"
    path.write_text("import torch\nx = torch.zeros(2, requires_grad=True)\n(x.sign() * x.abs()).sum().backward()\n")
    told = [re.sub(r"\s+", " ", story) for story in stories_of(path)]
    assert "switches: the slope of out is 1 on both sides; torch" in told[0]
