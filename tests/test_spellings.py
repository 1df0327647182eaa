"""Further spellings of torch's in texts: the same numbers and gradients as torch's own call."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

import symgrad
from tests.compare import assert_same

X, Y = [[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], [[2.0, 1.0, -3.0], [0.5, 4.0, 1.5]]
CALLS = {
    "F.softmin(x, 0) * y": lambda x, y: F.softmin(x, 0) * y,
    "torch.vstack([x, y[0], y])": lambda x, y: torch.vstack([x, y[0], y]),
    "torch.hstack((x, y))": lambda x, y: torch.hstack((x, y)),
    "torch.hstack((x[0], y[1]))": lambda x, y: torch.hstack((x[0], y[1])),
    "chunk(x, 2, 1)[-1] * y[:, :1]": lambda x, y: torch.chunk(x, 2, 1)[-1] * y[:, :1],
    "x.chunk(5, 1)[-2] * y[:, :1]": lambda x, y: x.chunk(5, 1)[-2] * y[:, :1],
    "x.split(2, dim=-1)[-1] * y[:, 1:]": lambda x, y: x.split(2, dim=-1)[-1] * y[:, 1:],
    "torch.split(x, [1, 2], 1)[-2] * y": lambda x, y: torch.split(x, [1, 2], 1)[-2] * y,
    "x.unbind()[-2] * y.unbind(1)[-1][0]": lambda x, y: x.unbind()[-2] * y.unbind(1)[-1][0],
    "torch.var_mean(x, 0)[-2] * y": lambda x, y: torch.var_mean(x, 0)[-2] * y,
    "x.detach() * x * y": lambda x, y: x.detach() * x * y,
    "torch.detach(x * y).exp() * x + y": lambda x, y: torch.detach(x * y).exp() * x + y,
    "x.unflatten(1, (3, 1)) * y[:, None]": lambda x, y: x.unflatten(1, (3, 1)) * y[:, None],
    "torch.unflatten(x, -1, (1, -1)) + y[:, None]": lambda x, y: torch.unflatten(x, -1, (1, -1)) + y[:, None],
    "torch.std_mean(x, 1)[0] * y[:, 0]": lambda x, y: torch.std_mean(x, 1)[0] * y[:, 0],
    "torch.var_mean(x, 0, correction=0).var * y": lambda x, y: torch.var_mean(x, 0, correction=0)[0] * y,
    "torch.var_mean(x, 0, keepdim=True)[1] * y": lambda x, y: torch.var_mean(x, 0, keepdim=True)[1] * y,
    "torch.div(x, y, rounding_mode='trunc') * x * y": lambda x, y: torch.div(x, y, rounding_mode="trunc") * x * y,
    "torch.div(x, y) * x": lambda x, y: torch.div(x, y) * x,
    "x.clamp_min(0.25) * y": lambda x, y: x.clamp_min(0.25) * y,
    "torch.clamp_max(x, 0.3) * y": lambda x, y: torch.clamp_max(x, 0.3) * y,
    "torch.div(x, y, rounding_mode='floor') * x * y": lambda x, y: torch.div(x, y, rounding_mode="floor") * x * y,
    "torch.meshgrid(x[0], y[0])[0] * torch.meshgrid(x[1], y[0])[-1]": lambda x, y: (
        torch.meshgrid(x[0], y[0], indexing="ij")[0] * torch.meshgrid(x[1], y[0], indexing="ij")[-1]
    ),
    "a, b = torch.meshgrid([x[0], y[0]], indexing='xy'); a * b": lambda x, y: torch.mul(
        *torch.meshgrid([x[0], y[0]], indexing="xy")
    ),
    "x[[0, 0, 1]] * y[[1]]": lambda x, y: x[[0, 0, 1]] * y[[1]],
    "x[:, [-1, 0]] + y[1:, [0, -3]]": lambda x, y: x[:, [-1, 0]] + y[1:, [0, -3]],
    "x[[0, 1], [2, 0]] * y[0, [0, 1]]": lambda x, y: x[[0, 1], [2, 0]] * y[0, [0, 1]],
    "x[None][[0, 0], :, [1, 2]] * y[:, 0]": lambda x, y: x[None][[0, 0], :, [1, 2]] * y[:, 0],
    "x[:, [True, False, True]] * y[[False, True]][:, :2]": lambda x, y: (
        x[:, [True, False, True]] * y[[False, True]][:, :2]
    ),
    "x[torch.arange(2), torch.tensor([2, 0])] * y[torch.tensor(1), 0]": lambda x, y: (
        x[torch.arange(2), torch.tensor([2, 0])] * y[torch.tensor(1), 0]
    ),
    "x[torch.tensor([[0, 1], [1, 1]])] * y": lambda x, y: x[torch.tensor([[0, 1], [1, 1]])] * y,
    "(x > 0)[[1, 0]] * x * y": lambda x, y: (x > 0)[[1, 0]] * x * y,
    "x[0].T * y[0]": lambda x, y: x[0] * y[0],
    "x[None].T * y.T[..., None]": lambda x, y: x[None].permute(2, 1, 0) * y.T[..., None],
    "torch.slice_scatter(x, y[:1], 0, 1)": lambda x, y: torch.slice_scatter(x, y[:1], 0, 1),
    "x.slice_scatter(y[:, 1:], 1, 0, 3, 2)": lambda x, y: x.slice_scatter(y[:, 1:], 1, 0, 3, 2),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", CALLS)
def test_a_spelling_is_what_torch_makes_of_it(text: str) -> None:
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (X, Y))
    out = CALLS[text](x, y)
    weights = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape)
    out.backward(weights)
    found = symgrad.explain(text, x=X, y=Y, seed=weights, check=False)
    assert_same(out.detach().numpy(), found.output)
    assert_same(x.grad.numpy(), found.gradients["x"].value)
    assert_same(y.grad.numpy(), found.gradients["y"].value)


def test_what_no_wording_covers_is_refused() -> None:
    refused = {
        "(x > 0).clamp_min(0.5)": "whole numbers",
        "torch.div(x, y, rounding_mode='up')": "'trunc' or 'floor', not 'up'",
        "torch.meshgrid(x[0], y[0])[2]": "meshgrid gives 2 tensors",
        "torch.meshgrid(x, y[0])[0]": "meshgrid takes vectors",
        "x[[2]]": "no position 2 on an axis of 2",
        "x[[0], [True, False]]": "2 truth values do not fit an axis of 3",
        "x.clamp_min(y)": "by a tensor",
        "torch.slice_scatter(x, y, 0, 1)": "src of slice_scatter has to be 1×3",
        "x.unflatten(2, (3, 1))": "no axis 2",
        "x.unbind(0)[-3]": "no part -3 among 2",
    }
    for text, complaint in refused.items():
        with pytest.raises(symgrad.SymgradError, match=complaint):
            symgrad.explain(text, x=X, **({"y": Y} if "y" in text else {}))


CUTS = {
    "x.detach() * y": "nothing flows back through detach",
    "(x > 0) * y": "nothing flows back through gt",
    "x.detach() + (x > 0) * y": "nothing flows back through detach and gt",
    "index_add(y, 0, x, y)": "index_add only reads x (as its index): nothing flows back to that",
    "x.floor() * y": "small changes of x leave the output as it is",
}


@pytest.mark.parametrize("text", CUTS)
def test_a_gradient_that_is_cut_off_says_what_cuts_it(text: str) -> None:
    values = {"x": [0, 1], "y": [2.0, 3.0]} if "index" in text else {"x": [0.5, 1.25], "y": [2.0, 3.0]}
    found = symgrad.explain(text, **values)
    assert found.passed
    assert_same(found.gradients["x"].value, [0.0, 0.0])
    said = " ".join(found.to_text(width=300).split())
    assert f"J = 0: {CUTS[text]}: every entry is 0" in said
    assert (f"x.grad is 0: {CUTS[text]}." in said) != ("floor" in text)
    assert "flows back" not in " ".join(symgrad.explain("x * y", **values, check=False).to_text().split())
