"""`symgrad run --call N --order 2`: the second derivatives of one call, confirmed without torch's double backward."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from symgrad.tracing import run_script
from symgrad.tracing.session import second_derivatives
from symgrad.tracing.story.events import CallEvent, Note
from symgrad.tracing.story.session_pages import event_text
from symgrad_cli.main import main

HEAD = """
import torch
from torch.nn import functional as F
torch.manual_seed(0)
x, y, w = torch.randn(5, 3), torch.randn(5, 1), torch.randn(3, requires_grad=True)
net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))
"""


def play(tmp_path: Path, body: str, call: int = 1, **options: object) -> tuple[Note, str]:
    """The note of the second derivatives, and what it says on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body + "\n", encoding="utf-8")
    session = run_script(str(path), [], call=call, order=2, **options)
    assert session.status == 0
    assert session.agrees
    first, second = session.events
    assert isinstance(first, CallEvent)
    assert isinstance(second, Note)
    return second, re.sub(r"\s+", " ", event_text(second))


CONFIRMED = "confirmed by difference quotients of the gradient"
TOLD = {
    "the logistic loss": (
        "F.binary_cross_entropy_with_logits(x @ w, (y[:, 0] > 0).float()).backward()",
        ["3×3 in all", "H with respect to w is 3×3, dense", "gᵀH for w = (g_v_t1 * t1.sigmoid() * (-t1).sigmoid() / 5) @ x", CONFIRMED],
    ),
    "a seed": (
        "(w ** 3).backward(torch.tensor([1.0, 2.0, 3.0]))",
        ["H with respect to w is 3×3, diag(6 * seed * w)", "1 of 3 passes are enough", "gᵀH for w = 6 * g * seed * w", CONFIRMED],
    ),
    "grad": ("torch.autograd.grad((w.sin() * w).sum(), w)", ["H with respect to w is 3×3, diagonal", CONFIRMED]),
    "what is linear": ("(w.relu() * 3).sum().backward()", ["H with respect to w is 3×3, 0, 100% zeros", CONFIRMED]),
    "a network": (
        "F.mse_loss(net(x), y).backward()",
        ["11×11 in all", "H with respect to net[0].weight is 6×6", "H with respect to net[0].weight and net[0].bias is 6×2", "H with respect to net[2].bias is 1×1, 2·I",
         "g1 … g4, weights of the gradients of net[0].weight, net[0].bias, net[2].weight, net[2].bias",
         "gᵀH for net[0].weight = ", CONFIRMED],
    ),
    "twice": (
        "s, = torch.autograd.grad((w ** 3).sum(), w, create_graph=True)\n(s ** 2).sum().backward()",
        ["H with respect to w is 3×3, diagonal", CONFIRMED],
    ),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", TOLD)
def test_the_second_derivatives_of_a_call_have_sizes_and_lines(name: str, tmp_path: Path) -> None:
    body, wanted = TOLD[name]
    _, told = play(tmp_path, body, call=2 if name == "twice" else 1)
    assert not [part for part in wanted if part not in told], told


def test_they_are_those_of_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs: list[Any] = []
    made = second_derivatives.capture_gradient
    monkeypatch.setattr(
        second_derivatives, "capture_gradient", lambda scene: programs.append(made(scene)) or programs[-1]
    )
    play(tmp_path, "F.mse_loss(net(x), y).backward()", only=("0.weight",))
    torch.manual_seed(0)
    x, y, _ = torch.randn(5, 3), torch.randn(5, 1), torch.randn(3)
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh(), torch.nn.Linear(2, 1))

    def loss(weight: torch.Tensor) -> torch.Tensor:
        found = torch.func.functional_call(net, {"0.weight": weight}, (x,))
        return torch.nn.functional.mse_loss(found, y)

    right = torch.autograd.functional.hessian(loss, net[0].weight.detach()).reshape(6, 6).numpy()
    own = programs[0].jacobian("net[0].weight").dense()
    worst = float(np.abs(np.asarray(own, dtype=float) - right).max())
    assert worst < 1e-6 * float(np.abs(right).max()), worst


def test_a_wrong_second_derivative_is_not_confirmed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = second_derivatives.Capture.pushforward

    def wrong(self: Any, tangents: Any) -> Any:
        return right(self, tangents) * 1.001

    monkeypatch.setattr(second_derivatives.Capture, "pushforward", wrong)
    _, told = play(tmp_path, TOLD["grad"][0])
    assert "disagree" in told
    assert CONFIRMED not in told


def test_difference_quotients_see_what_two_sweeps_have_wrong_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(second_derivatives.Capture, "pushforward", twice(second_derivatives.Capture.pushforward))
    monkeypatch.setattr(
        second_derivatives.Capture, "pullback", twice(second_derivatives.Capture.pullback, of_the_gradient=True)
    )
    _, told = play(tmp_path, TOLD["grad"][0])
    assert CONFIRMED not in told


def twice(right: Any, of_the_gradient: bool = False) -> Any:
    """A product with H that is wrong by a factor; the first gradient stays right."""

    def wrong(self: Any, *args: Any) -> Any:
        found = right(self, *args)
        if of_the_gradient:
            second = self.ends[0].startswith("v_")
            return {name: array * (2 if second else 1) for name, array in found.items()}
        return found * 2

    return wrong


def test_what_cannot_be_told_says_why(tmp_path: Path) -> None:
    body = """
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return torch.from_numpy(x.detach().numpy() ** 2)
    @staticmethod
    def backward(ctx, v):
        return 2 * v * ctx.saved_tensors[0]
Own.apply(w).sum().backward()"""
    _, told = play(tmp_path, body)
    assert "order 2: not explained: " in told
    assert "not derived" in told


@pytest.mark.parametrize("options", [["--order", "2"], ["--order", "2", "--code", "1"]])
def test_it_is_asked_of_one_call(options: list[str], tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text("print('never')\n", encoding="utf-8")
    found = CliRunner().invoke(main, ["run", *options, str(tmp_path / "script.py")])
    assert found.exit_code == 2
    assert "--call N --order 2" in found.output
    assert "never" not in found.output
