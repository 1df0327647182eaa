"""`symgrad run --expand`: composite operations step by step, forward and backward, as exact as they are whole."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.events import CallEvent
from symgrad.tracing.story.session_pages import event_text

HEAD = """
import torch
from torch.nn import functional as F
torch.manual_seed(0)
x, y, w, b = (torch.randn(4, 3, requires_grad=True) for _ in range(4))
g = torch.randn(4, 3)
"""
OPEN = {
    "softmax": ("x.softmax(-1)", ["exp(x)"]),
    "log_softmax": ("x.log_softmax(-1)", ["exp(x)", "log("]),
    "silu": ("F.silu(x)", ["exp(-x)"]),
    "layer_norm": ("F.layer_norm(x, (3,), w[0], b[0])", ["x.mean(dim=1, keepdim=True)", "sqrt("]),
    "batch_norm": ("F.batch_norm(x, None, None, w[0], b[0], training=True)", ["x.mean(dim=0, keepdim=True)", "sqrt("]),
    "attention": ("F.scaled_dot_product_attention(x, y, w)", ["exp("]),
    "half precision": ("x.bfloat16().softmax(-1).float()", ["exp("]),
}


def play(tmp_path: Path, body: str, expand: bool = True) -> tuple[CallEvent, str]:
    """The one call of a script, and what is told of it on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body + "\n", encoding="utf-8")
    (call,) = run_script(str(path), [], expand=expand).calls
    return call, re.sub(r"\s+", " ", event_text(call))


@pytest.mark.one_in(12)
@pytest.mark.parametrize("name", OPEN)
def test_a_composite_is_told_by_its_steps_and_equals_torch(name: str, tmp_path: Path) -> None:
    text, steps = OPEN[name]
    call, told = play(tmp_path, f"out = {text}\nout.backward(g)")
    _, whole = play(tmp_path, f"out = {text}\nout.backward(g)", expand=False)
    assert call.leaves
    assert all(leaf.agrees for leaf in call.leaves), told
    assert not [step for step in steps if step not in told], told
    assert told != whole
    assert "not expanded" not in told


@pytest.mark.parametrize(
    "text", ["(x * 1e4).softmax(-1)", "(x * 1e4).double().log_softmax(-1)", "torch.logsumexp(x + 1e4, -1)[:, None] * g"]
)
def test_what_only_the_whole_can_compute_stays_whole(text: str, tmp_path: Path) -> None:
    call, told = play(tmp_path, f"out = {text}\nout.backward(g)")
    assert "is not expanded: on these numbers its steps overflow or lose digits" in told
    assert all(leaf.agrees for leaf in call.leaves), told


def test_where_nothing_opens_that_is_said(tmp_path: Path) -> None:
    _, told = play(tmp_path, "(x @ y.T).tanh().sum().backward()")
    assert "There is nothing to expand" in told
