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
}


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
