"""Hooks on tensors on the way: one that looks is no step, one that changes what comes back is told as what it made."""

from __future__ import annotations

import re

import numpy as np
import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import event_text

HEAD = """import torch
torch.manual_seed(0)
seen = []
x, w, u = torch.randn(5, 3), torch.randn(3, 4, requires_grad=True), torch.randn(4, 2, requires_grad=True)
"""
LOOKING = {
    "keeps it": "h = x @ w\nh.register_hook(seen.append)\n(h @ u).tanh().sum().backward()",
    "gives it back": "h = x @ w\nh.register_hook(lambda g: g.clone())\n(h @ u).tanh().sum().backward()",
    "taken away": "h = x @ w\nh.register_hook(lambda g: 2 * g).remove()\n(h @ u).tanh().sum().backward()",
    "kept for itself": "h = x @ w\nh.retain_grad()\nh.register_hook(seen.append)\n(h @ u).tanh().sum().backward()",
    "in every layer": (
        "net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())\n"
        "def look(module, given, out):\n    out.register_hook(seen.append)\n"
        "[layer.register_forward_hook(look) for layer in net]\n(net(x) @ u).sum().backward()"
    ),
    "of a module": (
        "net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh())\n"
        "net[1].register_full_backward_hook(lambda module, given, out: seen.append(out))\n(net(x) @ u).sum().backward()"
    ),
}
CHANGING = {
    "a factor": ("h.register_hook(lambda g: g * 0.5)", "it multiplies it by 0.5"),
    "reversed": ("h.register_hook(lambda g: -g)", "it multiplies it by -1"),
    "stopped": ("h.register_hook(torch.zeros_like)", "it makes it 0"),
    "in place": ("h.register_hook(lambda g: seen.append(g.mul_(3)))", "it multiplies it by 3"),
    "clipped": ("h.register_hook(lambda g: g.clamp(-0.1, 0.1))", "of its 20 entries, its norm"),
    "one after the other": (
        "h.register_hook(lambda g: g * 2)\nh.register_hook(lambda g: g + 1)",
        "changes 20 of its 20 entries",
    ),
    "kept and changed": ("h.retain_grad()\nh.register_hook(lambda g: g * 4)", "it multiplies it by 4"),
    "written later": ("h.register_hook(lambda g: g * 5)\nh.mul_(2)", "it multiplies it by 5"),
    "among others": ("h.register_hook(seen.append)\nh.register_hook(lambda g: g * 7)", "it multiplies it by 7"),
    "twice on the way": (
        "h.register_hook(lambda g: g * 2)\nh = h.tanh()\nh.register_hook(lambda g: g * 3)",
        "a hook on h_2 changes its gradient: it multiplies it by 3",
    ),
}


def played(tmp_path, body):
    script = tmp_path / "script.py"
    script.write_text(HEAD + body + "\n")
    session = run_script(str(script), [])
    (event,) = session.calls
    return event, " ".join(event_text(event, 200).split())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("body", LOOKING.values(), ids=list(LOOKING))
def test_a_hook_that_looks_is_no_step(tmp_path, body):
    event, page = played(tmp_path, body)
    assert event.explained
    assert event.boxes == ()
    assert [leaf.agrees for leaf in event.leaves] == [True] * len(event.leaves)
    assert "hook" not in page


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("hook", "told"), CHANGING.values(), ids=list(CHANGING))
def test_a_hook_that_changes_is_told_by_what_it_made(tmp_path, hook, told):
    event, page = played(tmp_path, f"h = x @ w\n{hook}\n(h @ u).tanh().sum().backward()")
    by_w, by_u = event.leaves
    assert event.explained
    assert told in page
    assert (by_w.boxed, by_w.agrees, by_u.agrees) == (True, None, True)
    np.testing.assert_allclose(by_w.added, by_w.after, rtol=1e-5, atol=1e-6)
    given = re.findall(r"= hook\((\w+)\) # through hook, computed by PyTorch \(not derived\)", page)
    assert given
    assert all(f"{cotangent} = " in page for cotangent in given)  # what a hook is given has a line of its own


OWN = """class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
"""
BEFORE_COARSE = {
    "a hook": "h = x @ w\nh.register_hook(lambda g: g * 2)\n",
    "a Function": f"{OWN}h = Double.apply(x @ w)\n",
}
COARSE = {
    "autocast": "with torch.autocast('cpu', dtype=torch.bfloat16):\n    y = h @ u\n",
    "half": "y = h.half() @ u.half()\n",
    "beside": "y = h @ u + (h.bfloat16() @ u.bfloat16()).float() * 3\n",
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("after", COARSE.values(), ids=list(COARSE))
@pytest.mark.parametrize("before", BEFORE_COARSE.values(), ids=list(BEFORE_COARSE))
def test_the_v_of_an_own_backward_is_no_finer_than_what_torch_computed_in(tmp_path, before, after):
    event, page = played(tmp_path, f"{before}{after}(y.float() - 1).abs().mean().backward()")
    assert event.explained, page
    assert all(leaf.agrees or leaf.boxed for leaf in event.leaves)


def test_hooks_stay_in_the_order_and_number_that_the_script_gave_them(tmp_path, capsys):
    body = (
        "h = x @ w\nfirst = h.register_hook(lambda g: print('first', len(h._backward_hooks) > 1))\n"
        "second = h.register_hook(lambda g: first.remove())\nbefore = list(h._backward_hooks)\n"
        "h.sum().backward(retain_graph=True)\n"
        "print(before[1:] == list(h._backward_hooks))\nsecond.remove()\nprint(dict(h._backward_hooks))"
    )
    played(tmp_path, body)
    assert capsys.readouterr().out == "first True\nTrue\n{}\n"


def test_a_backward_that_fails_has_no_hook_on_its_page(tmp_path):
    (event,) = run_script(str(broken(tmp_path)), []).calls
    assert "RuntimeError: stop here" in event.failure
    assert "hook" not in " ".join(event.program)


def broken(tmp_path):
    """A script whose hook raises."""
    script = tmp_path / "script.py"
    script.write_text(
        HEAD
        + "def stop(g):\n    raise RuntimeError('stop here')\nh = x @ w\nh.register_hook(stop)\nh.sum().backward()\n"
    )
    return script


def test_a_gradient_by_the_tensor_with_the_hook_is_not_compared(tmp_path):
    event, page = played(
        tmp_path, "h = x @ w\nh.register_hook(lambda g: g * 2)\ntorch.autograd.grad(h.tanh().sum(), h)"
    )
    assert event.leaves[0].changed == "a hook"
    assert "h has a hook: torch adds what the hook returns for vᵀJ" in page
