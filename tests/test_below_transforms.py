"""A backward through what `torch.func` made: `vmap(f)(x)`, or a gradient that `grad(f)` gave, has a past to the leaves."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.events import CallEvent
from symgrad.tracing.story.session_pages import event_text

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own

HEAD = """
import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, stack_module_state, vmap
torch.manual_seed(0)
x, X3 = torch.randn(5, 4), torch.randn(2, 5, 4)
w, b = torch.randn(4, 3, requires_grad=True), torch.randn(3, requires_grad=True)
"""
SCRIPTS = {
    "a layer for each example": "loss = vmap(lambda s: torch.tanh(F.linear(s, w.T, b)))(x).pow(2).mean()",
    "a module's call": """
net = nn.Linear(4, 2)
p = dict(net.named_parameters())
loss = (vmap(lambda s: functional_call(net, p, (s,)))(x) ** 2).mean()""",
    "images one by one": """
net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(2 * 16, 3))
p = dict(net.named_parameters())
images, y = torch.randn(4, 1, 6, 6), torch.tensor([0, 2, 1, 1])
loss = vmap(lambda i, t: F.cross_entropy(functional_call(net, p, (i[None],)), t[None]))(images, y).mean()""",
    "an ensemble": """
models = [nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 1)) for _ in range(3)]
p, buffers = stack_module_state(models)
loss = vmap(lambda p, s: functional_call(models[0], p, (s,)), in_dims=(0, None))(p, x).pow(2).mean()""",
    "a penalty on gradients": """
slopes = vmap(grad(lambda s: torch.tanh(s @ w + b).sum()))(x)
loss = (slopes.norm(dim=1) - 1).pow(2).mean()""",
    "a gradient in the loss": "loss = grad(lambda s: (s @ w).exp().sum())(x[0]).sum()",
    "J in the loss, by rows": "loss = jacrev(lambda s: torch.sin(s @ w))(x[0]).pow(2).sum()",
    "J in the loss, by columns": "loss = jacfwd(lambda s: torch.sin(s @ w))(x[0]).pow(2).sum()",
    "a Laplacian in the loss": """
loss = vmap(lambda s: hessian(lambda z: torch.tanh(z @ w).sum())(s).diagonal().sum())(x).pow(2).mean()""",
    "detached inside": "loss = vmap(lambda s: (s @ w).detach() * (s @ w))(x).sum()",
    "no_grad inside": """
def f(s):
    with torch.no_grad():
        q = s @ w
    return q * (s @ w)
loss = vmap(f)(x).sum()""",
    "written in place": """
def f(s):
    h = s @ w
    h.mul_(2)
    return h
loss = vmap(f)(x).pow(2).sum()""",
    "drawn for each": "loss = vmap(lambda s: F.dropout(s @ w, 0.5), randomness='different')(x).pow(2).sum()",
    "two results, other axes": "loss = sum(t.sin().sum() for t in vmap(lambda s: (s @ w, (s @ w).relu()), 0, (0, 1))(x))",
    "batches of batches": "loss = vmap(vmap(lambda s: s @ w), in_dims=1, out_dims=2)(X3).tanh().sum()",
    "chunks": "loss = vmap(lambda s: (s @ w).cumsum(0), out_dims=1, chunk_size=2)(x).pow(2).sum()",
    "a choice": "loss = vmap(lambda s: torch.where(s @ w > 0, s @ w, 0.1 * (s @ w)).max())(x).sum()",
    "a layer norm": "loss = vmap(lambda s: F.layer_norm(s @ w, (3,))[1])(x).pow(2).sum()",
}  # fmt: skip
BY_DEFAULT = (
    "a module's call",
    "a penalty on gradients",
    "J in the loss, by rows",
    "detached inside",
    "written in place",
)


def play(tmp_path: Path, body: str) -> tuple[list[CallEvent], str]:
    """What was told of the calls of ``backward`` in a script, and the text of the last."""
    path = tmp_path / "script.py"
    path.write_text(f"{HEAD}{body}\nloss.backward()\n", encoding="utf-8")
    session = run_script(str(path), [])
    assert session.status == 0
    calls = [e for e in session.events if isinstance(e, CallEvent) and e.kind == "backward"]
    return calls, re.sub(r"\s+", " ", event_text(calls[-1]))


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in BY_DEFAULT else pytest.mark.slow) for n in SCRIPTS], ids=str
)
def test_what_ran_under_a_transform_has_a_past(tmp_path: Path, name: str) -> None:
    """Every leaf is reached by equations, and what is derived is what torch added."""
    (call,), text = play(tmp_path, SCRIPTS[name])
    assert call.explained, text
    assert call.leaves
    assert all(leaf.agrees for leaf in call.leaves), text
    assert not call.boxes, text
    assert all(leaf.form for leaf in call.leaves), text


def test_views_that_move_a_batch_and_put_it_back_are_no_steps(tmp_path: Path) -> None:
    """The lines are those of the whole batch, in the script's names."""
    _, text = play(tmp_path, "y = vmap(lambda s: torch.tanh(F.linear(s, w.T, b)))(x)\nloss = y.pow(2).mean()")
    assert "x @ w + b" in text
    assert "reshape" not in text


def test_a_write_through_another_name_is_refused_by_its_transform(tmp_path: Path) -> None:
    """What the write changed elsewhere is not guessed."""
    body = "def f(s):\n    h = s @ w\n    h[1:].mul_(2)\n    return h.sin()\nloss = vmap(f)(x).sum()"
    (call,), text = play(tmp_path, body)
    assert not call.explained
    assert "torch.func.vmap(f), which writes in place through another name" in text


def test_paths_that_torch_has_and_nobody_saw_are_refused(tmp_path: Path) -> None:
    """A function with a backward of its own runs below the transforms where nothing is seen of its graph."""
    body = """
class Twice(torch.autograd.Function):
    generate_vmap_rule = True
    @staticmethod
    def forward(s): return s * 2
    @staticmethod
    def setup_context(ctx, inputs, output): pass
    @staticmethod
    def backward(ctx, g): return g * 5
loss = vmap(lambda s: Twice.apply(s @ w))(x).sum()"""
    (call,), text = play(tmp_path, body)
    assert not any(leaf.agrees is False for leaf in call.leaves), text
    assert not call.explained or all(leaf.agrees is None for leaf in call.leaves), text
