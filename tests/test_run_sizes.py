"""Sizes that a story tells of a run: what a loss divides by, how much is clipped, what is rounding and what explodes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.compare import assert_same
from tests.played import play

LOSSES = {
    "F.mse_loss(x, torch.rand(4, 3))": "mse_loss is a mean over 12 numbers, hence the factor 1/12, which with the 2 of the square is 1/6",
    "F.huber_loss(x, torch.rand(4, 3))": "huber_loss is a mean over 12 numbers, hence the factor 1/12",
    "F.cross_entropy(x, t)": "cross_entropy is a mean over 4 samples, hence the factor 1/4",
    "F.cross_entropy(x, p)": "cross_entropy is a mean over 4 samples, hence the factor 1/4",
    "F.cross_entropy(x, t, ignore_index=1)": "cross_entropy is a mean over the 2 of 4 that count, hence the factor 1/2",
    "F.cross_entropy(x, t, weight=w)": "cross_entropy is a weighted mean: 5 is the sum of the weights",
    "F.binary_cross_entropy(x.sigmoid(), p, weight=w)": "binary_cross_entropy is a mean over 12 numbers, hence the factor 1/12",
}


@pytest.mark.parametrize("loss", LOSSES)
def test_what_a_mean_divides_by_is_said(tmp_path: Path, loss: str) -> None:
    script = f"""
import torch, torch.nn.functional as F
torch.manual_seed(0)
x, p, t = torch.randn(4, 3, requires_grad=True), torch.rand(4, 3), torch.tensor([0, 1, 2, 1])
w = torch.tensor([1.0, 1.0, 2.0])
{loss}.backward()
"""
    session, _ = play(tmp_path, script)
    assert [note for note in session.calls[0].notes if "mean" in note] == [LOSSES[loss]]


CLIPS = """
import torch
x = torch.tensor([3.0, 0.0], requires_grad=True)
y = torch.tensor([4.0], requires_grad=True)
((x ** 2).sum() / 2 + (y ** 2).sum() / 2).backward()
torch.nn.utils.clip_grad_norm_([x, y], {most}{foreach})
"""


@pytest.mark.parametrize("foreach", ["", ", foreach=False"])
@pytest.mark.parametrize("most", [1.0, 10.0])
def test_the_norm_of_all_gradients_and_the_factor_are_told(tmp_path: Path, most: float, foreach: str) -> None:
    session, _ = play(tmp_path, CLIPS.format(most=most, foreach=foreach))
    (note,) = [event for event in session.events if event not in session.calls]
    total, bound, *factor = map(float, re.findall(r"\d+(?:\.\d+)?", note.text))
    assert_same(5.0, total, tolerance=1e-6)
    assert_same(most, bound, tolerance=1e-6)
    if most < 5:
        assert "every gradient is clipped" in note.text
        assert_same(most / total, factor[0], tolerance=1e-3)
    else:
        assert note.text.startswith("no gradient is clipped")
        assert not factor


CANCELLED = """
import torch
torch.manual_seed(0)
emb, norm = torch.nn.Linear(3, 4), {norm}
out = norm(torch.randn(5, 4, 8) + emb(torch.randn(5, 3))[:, :, None])
(out ** 2 * torch.randn_like(out)).mean().backward()
"""


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["torch.nn.GroupNorm(4, 4)", "torch.nn.InstanceNorm1d(4, affine=True)"])
def test_what_a_norm_cancels_before_the_last_step_is_no_error_of_torchs(tmp_path: Path, norm: str) -> None:
    session, told = play(tmp_path, CANCELLED.format(norm=norm))
    rows = {row.name: row for row in session.calls[0].leaves}
    assert [rows[name].rounding for name in ("emb.weight", "emb.bias")] == [True, True]
    assert "of the largest entry" not in told
    assert "stays the same whatever emb.weight is" in " ".join(told.split())


EXPLODES = """
import torch
raw, w = torch.tensor([1.0, -2.0, 0.5, -1.0], requires_grad=True), torch.tensor([1.0, 1.0, 1.0, -1.0], requires_grad=True)
dist = torch.tensor([0.1, 0.2, 0.3, 1e10])
sigma = {sigma}
alpha = {alpha}
(alpha * torch.tensor([1.0, 2.0, 3.0, 4.0])).sum().backward()
"""
MASKED = "torch.relu(raw * w.sum() - 3 * torch.tensor([0.0, 1.0, 0.0, 1.0]))"


@pytest.mark.parametrize(
    ("sigma", "alpha", "said"),
    [
        (MASKED, "1 - torch.exp(-(sigma * dist))", False),
        ("raw * w.sum()", "sigma * dist", True),
    ],
)
def test_only_what_arrives_at_a_leaf_has_exploded(tmp_path: Path, sigma: str, alpha: str, said: bool) -> None:
    session, _ = play(tmp_path, EXPLODES.format(sigma=sigma, alpha=alpha))
    assert ("explodes" in session.calls[0].told.warning) == said
