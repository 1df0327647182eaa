"""What torch's single precision rounds off is no disagreement, and nothing else is taken for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.tracing import run_script
from symgrad.tracing.lift import values
from symgrad.tracing.session import agreement
from symgrad.tracing.session.agreement import Judge
from symgrad.tracing.story.session_pages import event_text


def normal(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A layer whose gradients are what is left of much that cancels."""
    return F.batch_norm(F.conv2d(x, w), None, None, training=True).relu().mean()


@pytest.fixture
def given() -> tuple[Judge, dict[str, np.ndarray]]:
    """A program that ran in single precision, and torch's gradients there."""
    torch.manual_seed(0)
    leaves = [torch.randn(*shape, requires_grad=True) for shape in ((3, 2, 9, 9), (4, 2, 3, 3))]
    captured = symgrad.capture(normal, *(leaf.detach() for leaf in leaves))
    torchs = torch.autograd.grad(normal(*leaves), leaves)
    judge = Judge(captured, {captured.ends[0]: np.ones(())}, {})
    return judge, {name: g.numpy().astype(float) for name, g in zip(captured.wanted, torchs, strict=True)}


@pytest.mark.parametrize(("factor", "explained"), [(1.0, True), (1.0004, False), (2.0, False)])
def test_a_gradient_is_explained_if_torch_gives_it_again(given, factor: float, explained: bool) -> None:
    """What a hook made of it is no rounding."""
    judge, torchs = given
    for name, got in torchs.items():
        assert judge.is_torch_rounding(name, got * factor) == explained


def test_a_wrong_derivative_is_not_explained_by_rounding(given, monkeypatch: pytest.MonkeyPatch) -> None:
    judge, torchs = given
    own, double, single = judge.precision_runs
    monkeypatch.setattr(judge, "precision_runs", ({name: 1.0001 * part for name, part in own.items()}, double, single))
    for name, got in torchs.items():
        assert not judge.is_torch_rounding(name, got)


SCRIPT = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
x, w = torch.randn(3, 2, 9, 9), torch.randn(4, 2, 3, 3, requires_grad=True)
F.batch_norm(F.conv2d(x, w), None, None, training=True).relu().mean().backward()
"""


@pytest.mark.parametrize("asked", [True, False])
def test_a_script_is_told_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: bool) -> None:
    """It was ``≠ torch, by 0.0042``, and the exit status 1, for a network of four images of 160×160."""

    def nothing(*given: object) -> Iterator[float]:
        return iter(())

    monkeypatch.setattr(values, "PRECISION", {**values.PRECISION, "float32": (1e-9, 1e-12)})
    monkeypatch.setattr(agreement.Judge, "noise", nothing)
    if not asked:
        monkeypatch.setattr(Judge, "is_torch_rounding", lambda self, name, got: False)
    path, told = tmp_path / "script.py", list[str]()
    path.write_text(SCRIPT, encoding="utf-8")
    session = run_script(str(path), [], tell=lambda event: told.append(" ".join(event_text(event).split())))
    assert session.agrees == asked
    assert ("w: torch's float32 is off by up to" in told[0]) == asked


BEFORE_NORMS = """
import torch
from torch import nn
for seed in range(3):
    torch.manual_seed(seed)
    net = nn.Sequential(nn.Linear(3, 7), nn.BatchNorm1d(7), nn.Sigmoid(), nn.Linear(7, 9), nn.BatchNorm1d(9))
    net(torch.randn(4 + seed, 3) * {scale}){loss}.backward()
"""
IN_FRONT = ("net[0].bias", "net[3].bias")
"""Biases of which a batch norm behind them takes the mean off."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("scale", [0.1, 100])
@pytest.mark.parametrize("loss", [".sum()", ".pow(2).mean()", ".pow(3).mean()"])
def test_a_bias_before_a_batch_norm_is_rounding_and_no_disagreement(tmp_path: Path, loss: str, scale: float) -> None:
    """Whatever the digits that torch's single precision leaves of 0, and if symgrad's own are exactly 0."""
    path, told = tmp_path / "script.py", list[str]()
    path.write_text(BEFORE_NORMS.format(loss=loss, scale=scale), encoding="utf-8")
    session = run_script(str(path), [], tell=lambda event: told.append(event_text(event)))
    assert session.agrees
    assert "length 0  " not in told[0]
    for call in session.calls:
        noted = " ".join(note for note in call.notes if "of the largest entry" in note)
        for row in call.leaves:
            assert row.rounding or not row.after.any() or row.error <= agreement.SHOWN or row.name in noted
        rows = {row.name: row for row in call.leaves}
        assert loss == ".sum()" or [rows[name].rounding for name in (*IN_FRONT, "net[0].weight")] == [True, True, False]


STILL = """
import torch
torch.manual_seed(0)
x, w = torch.randn(64, 8), torch.randn(8, 8, requires_grad=True)
torch.nn.functional.layer_norm(x @ w * 1e3, (8,)).pow(2).mean().backward()
"""


def test_a_gradient_that_is_hardly_more_than_its_rounding_says_so(tmp_path: Path) -> None:
    """The squares of a layer norm add up to nearly the same whatever goes in: torch's digits are no gradient."""
    path, told = tmp_path / "script.py", list[str]()
    path.write_text(STILL, encoding="utf-8")
    session = run_script(str(path), [], tell=lambda event: told.append(" ".join(event_text(event).split())))
    (leaf,) = session.calls[0].leaves
    assert session.agrees
    assert np.abs(leaf.added - leaf.after).max() > 0.1 * np.abs(leaf.after).max()
    assert "w: torch's float32 is off by up to" in told[0]
