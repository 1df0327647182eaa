"""Calls in a text that write over what they were given: torch's numbers, or a refusal that says what would do."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from tests.compare import assert_same

X = np.array([-1.5, 0.5, 2.0])

TAKEN = [
    "F.relu(x * 2, inplace=True)",
    "F.leaky_relu(2 * x, 0.1, inplace=False)",
    "h = x * 2; h = F.relu(h, inplace=True); h * h",
    "h = x * 2; F.relu(h, inplace=True); h * h",
    "act = nn.ReLU(inplace=True); h = x * 2; y = act(h); y + x",
    "act = nn.ReLU(inplace=True); h = torch.mul(x, x); y = act(h - 1); y + h",
    "torch.zeros(4, dtype=torch.float64).scatter_add_(0, torch.tensor([0, 0, 3]), x)",
    "m = torch.zeros(4, dtype=torch.float64); m.index_add_(0, torch.tensor([0, 0, 3]), x); m * m",
    "h = x * 2; h.add_(1).mul_(3); h * h",
    "y = x.clone().mul_(2); y * x",
    "y = torch.clone(x[1:]).sub_(1).mul_(x[1:]); y * x[1:]",
    "h = x.clone(); h.exp_(); h * x",
    "h = x * 2; h.clamp_(min=0); h.sin_(); h * x",
]
SHARED = [
    "h = x * 2; h.detach().mul_(2); h",
    "h = x * 2; h.data.add_(1); h * 2",
    "k = torch.stack([x, x]).T; w = k.reshape(-1); k.add_(1); w",
    "h = x * 2; y = h.contiguous().mul_(2); y * x",
    "h = x * 2; y = F.relu(h, inplace=True); y + h",
    "act = nn.ReLU(inplace=True); h = x * 2; y = act(h); y + h",
    "h = x * 2; g = h[1:]; y = F.relu(g, inplace=True); h.sum() + y.sum()",
    "h = x * 2; g = h[1:]; h.add_(1); g.sum() * h.sum()",
    "h = x * 2; y = h.reshape(-1).mul_(2); y + h",
    "h = x * 2; h.add_(h + 1); h",
    "h = x * 2; z = +h; z.add_(5); h",
    "h = x * 2; h.view(3, 1).T[:, 1:].add_(x[:2]); h",
    "h = x * 2; h += x; h",
    "h = x * 2; g = h; g[1:] = x[:2]; g[::2] *= 2; h",
    "h = x * 2; h[h > 1] = 0.5; h",
    "h = torch.stack([x, x]); h[0, 1] = x[2]; h[:, 2] += 3; h[..., :1].mul_(2); h",
    "h = x * 2; h.copy_(h.flip(0)); torch.relu_(h); h",
    "h = x * 2; t = (h, h[0]); h.add_(1); t[0] * t[1]",
    "h = x * 2; h[0], h[1] = h[1], h[0]; h * x",
    "h = x * 2; h[0], h[1], h[2] = h[1], h[2], h[0]; h * x",
    "h = x * 2; (h[0], h[1]), h[2] = (h[1], h[2]), h[0]; h * x",
    "h = x * 2; h[0], g = x[1], h[0]; h * g",
    "h = x * 2; g, h[0] = h[0], x[1]; h * g",
    "h = x * 2; g = x * 3; h[0], g[0] = g[0], h[0]; h * g * x",
    "h = x * 2; h[0], h[1] = h[1] * 1, h[0] * 1; h * x",
]
"""Every name that shares the entries sees what was written."""
REFUSED = {
    "h = torch.cat([x, x]); p, q = h.chunk(2); p.add_(1); h": "inplace operation by an out-of-place one",
    "h = x[0] * 2; h.add_(x); h": "",
    "h = x > 0; h.add_(x); h": "",
}


def by_torch(text: str, leaf: torch.Tensor) -> torch.Tensor:
    """What torch makes of the lines."""
    *statements, last = text.split("; ")
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "x": leaf}
    exec("\n".join([*statements, f"out = {last}"]), scope)
    out = scope["out"]
    assert isinstance(out, torch.Tensor)
    return out


def assert_as_torch(text: str) -> None:
    """The value and the gradient of the lines are torch's."""
    leaf = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    out = by_torch(text, leaf)
    found = symgrad.explain(text, check=False, x=X)
    assert_same(out.detach(), found.output, what=text)
    assert_same(torch.autograd.grad(out.sum(), leaf)[0], found.gradients["x"].value, what=text)


@pytest.mark.one_in(2, alone=2)
@pytest.mark.parametrize("text", [*TAKEN, *SHARED])
def test_what_is_written_over_is_what_torch_has(text: str) -> None:
    assert_as_torch(text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_read_right_is_refused(text: str) -> None:
    """Each in a sentence that says what would do."""
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, check=False, x=X)
    assert REFUSED[text] in str(caught.value)


KEPT = [
    "h = x.exp(); h.add_(1); h * 2",
    "h = x.sigmoid(); h.mul_(2); h",
    "x.exp().add_(1)",
    "F.relu(x.tanh(), inplace=True)",
    "h = x ** 2; h.sqrt_(); h",
    "h = x * 2; h.exp_(); h",
    "h = x / 2; F.hardswish(h, inplace=True)",
    "h = x.clone(); h.clamp_(-1, 1); h",
    *TAKEN,
]


@pytest.mark.one_in(2, alone=2)
@pytest.mark.parametrize("text", KEPT)
def test_a_page_is_equal_to_torch_only_where_torch_runs_what_is_written(text: str) -> None:
    """Where a step before needs what is written over, torch stops, and what replaced it was said to be equal to it."""
    leaf = torch.tensor(X, dtype=torch.float64, requires_grad=True)
    said = ""
    try:
        by_torch(text, leaf).sum().backward()
    except RuntimeError as error:
        said = str(error).partition(":")[0]
    told = " ".join(symgrad.explain(text, x=X).to_text(brief=True).split())
    assert ("Equal to torch" in told) == (not said)
    assert (f"PyTorch rejects this code: {said}" in told) == bool(said)


LEAVES = (
    "F.relu(x, inplace=True)",
    "y = x.view(-1); y.add_(1); y",
    "act = nn.ReLU(inplace=True); act(x)",
    "h = x.double(); h += 1; h",
    "for k in range(3): x[k] = 1",
    "x.exp_().sum()",
    "h = x; h.mul_(2)",
    "x += 1; x * x",
    "x.view(-1).exp_()",
    "x[0] = 1",
)


@pytest.mark.parametrize("text", LEAVES)
def test_what_torch_refuses_to_overwrite_is_refused_in_its_words(text: str) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, x=X)
    assert "Python cannot run these lines" in str(caught.value)
    assert re.search("a (leaf Variable|view of a leaf)", str(caught.value.found))
    assert "x.clone()" in str(caught.value.hints)


SAME = [
    ("h = x * a; h += a; h", "h = x * a; h = h + a; h"),
    ("h = x * a; h *= 2; h -= x; h.exp()", "h = x * a; h = h * 2; h = h - x; h.exp()"),
    ("F.relu(x * a, inplace=True)", "F.relu(x * a)"),
    ("n = 2; n += 1; x * n", "n = 2; n = n + 1; x * n"),
]


@pytest.mark.parametrize(("text", "plain"), SAME)
def test_what_an_operator_made_and_nothing_shares_is_read_at_every_size(text: str, plain: str) -> None:
    """``h += a`` is then ``h = h + a``, in formulas and code too."""
    (program, formulas), (other, others) = symgrad.derive(text), symgrad.derive(plain)
    assert [replace(step, span=None) for step in program.steps] == [replace(step, span=None) for step in other.steps]
    assert [str(d.form and d.form.text) for d in formulas] == [str(d.form and d.form.text) for d in others]
    assert "ran these lines once" not in symgrad.explain(text).to_text()


SHARES = [
    "h = k = x * 2; h += 1; k", "h = x * 2; k = h; h += 1; k", "h = x * 2; k = h[1:]; h += 1; k", "h = x * 2; t = [h]; h += 1; t[0]",
    "h = x * 2; k = h.view(3, 1); h *= x; k", "h = +x; k = h * 1; k += 1; k",
    "h = x * 2; k = h.detach(); h -= 1; k * x", "h = x * 2; k = (h, x); k[0].add_(1); h",
]  # fmt: skip


@pytest.mark.parametrize("text", SHARES)
def test_what_a_name_shares_is_overwritten_under_every_name(text: str) -> None:
    assert_as_torch(text)
