"""What `symgrad run` costs a script while nothing is told: functions intercepted, tensors copied, bytes held."""

from __future__ import annotations

import pytest
import torch

from symgrad.tracing import run_script
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.trace import Node
from symgrad.tracing.story.tell import event_text

LOOP = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
optimizer = torch.optim.{optimizer}(net.parameters(), lr=0.01)
x = torch.ones(5, 3)
for _ in range({steps}):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def told(tmp_path, source, **options):
    """What is said of a script, and its session."""
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    said = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)), **options)
    return "\n".join(said), session


@pytest.fixture
def intercepted(monkeypatch):
    """The functions of torch that the recorder saw, in order."""
    seen = []
    own = Recorder.__torch_function__

    def watched(self, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", str(func)))
        return own(self, func, types, args, kwargs)

    monkeypatch.setattr(Recorder, "__torch_function__", watched)
    return seen


def test_no_function_is_intercepted_in_the_step_of_an_optimizer(tmp_path, intercepted):
    counts = []
    for optimizer in ("SGD", "Adam", "AdamW", "RMSprop"):
        intercepted.clear()
        told(tmp_path, LOOP.format(optimizer=optimizer, steps=3))
        counts.append(len([name for name in intercepted if name not in ("is_complex", "__get__", "__set__")]))
    assert len(set(counts)) == 1


def test_a_step_copies_no_weight_that_no_backward_reads_again(tmp_path, monkeypatch):
    copied = []
    own = Node.keep
    monkeypatch.setattr(Node, "keep", lambda node: copied.append(node) or own(node))
    said, _ = told(tmp_path, LOOP.format(optimizer="Adam", steps=3))
    assert copied == []
    assert said.count("= torch") > 2


AFTER_THE_STEP = """
import torch
torch.manual_seed(0)
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.{optimizer}([w], lr=0.1)
first, second = (w * 3).sum(), (w ** 2).sum()
first.backward()
optimizer.step()
{then}
"""


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_what_a_step_writes_over_is_known_to_a_graph_that_waits(tmp_path, optimizer):
    then = "try:\n    second.backward()\nexcept RuntimeError:\n    print('refused')"
    said, _ = told(tmp_path, AFTER_THE_STEP.format(optimizer=optimizer, then=then))
    assert "mentions w, its input; line 8 (optimizer.step()) overwrote it" in said.replace("\n      ", " ")


def test_a_graph_that_is_kept_over_a_step_has_the_weights_of_its_forward(tmp_path):
    source = AFTER_THE_STEP.format(optimizer="SGD", then="first.backward()")
    _, session = told(tmp_path, source.replace("first.backward()\nopt", "first.backward(retain_graph=True)\nopt"))
    assert [call.explained for call in session.calls] == [True, True]
    assert session.calls[-1].leaves[0].agrees


def test_a_step_with_a_closure_is_recorded(tmp_path):
    source = """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.LBFGS([w], max_iter=2)
def closure():
    optimizer.zero_grad()
    loss = (w ** 2).sum()
    loss.backward()
    return loss
optimizer.step(closure)
"""
    _, session = told(tmp_path, source)
    assert session.calls[0].explained
    assert all(call.leaves[0].agrees for call in session.calls)


def test_a_step_that_raises_leaves_the_next_call_recorded(tmp_path):
    source = """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
optimizer.param_groups[0]["lr"] = "large"
(w ** 2).sum().backward()
try:
    optimizer.step()
except TypeError:
    pass
(w ** 3).sum().backward()
(w ** 4).sum().backward()
"""
    _, session = told(tmp_path, source)
    assert [call.explained for call in session.calls] == [True, False, True]
    assert torch.overrides._get_current_function_mode_stack() == []


def test_what_a_norm_is_given_is_not_copied_for_its_running_statistics(tmp_path, monkeypatch):
    kept = []
    own = Node.keep
    monkeypatch.setattr(Node, "keep", lambda node: kept.append(node.held.numel()) or own(node))
    source = LOOP.format(optimizer="SGD", steps=2).replace("Tanh()", "BatchNorm1d(4)")
    _, session = told(tmp_path, source)
    assert kept
    assert max(kept) == 4  # running statistics; its input has 20 entries
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)
