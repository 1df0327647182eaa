"""Types of what a text makes: torch's numbers in torch's types, and a refusal where torch computes in fewer bits."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from tests.compare import assert_same

X = np.array([0.5, -1.25, 2.0])
TAKEN = (
    "torch.tensor([0.1, 0.2, 0.3], dtype=torch.float16) * x",
    "x / torch.tensor([0.1, 3.3, 1e-3], dtype=torch.bfloat16)",
    "torch.tensor([0.1, 0.2, 0.3], dtype=torch.float32) + x",
    "torch.full((3,), 0.1, dtype=torch.half) * x",
    "torch.linspace(0, 1, 3, dtype=torch.bfloat16) * x",
    "torch.arange(-1, 2, dtype=torch.uint8) * x",
    "torch.tensor([1.7, 2.2, -3.9], dtype=torch.int8) * x",
    "torch.tensor([200, 100, 7], dtype=torch.uint8).sum() * x",
    "torch.tensor([[200, 100, 7]], dtype=torch.uint8).T.reshape(3).flip(0) * x",
    "torch.tensor([200, 100, 7], dtype=torch.uint8).long() * 2 * x",
    "(torch.tensor([200, 100, 7], dtype=torch.uint8) > 100) * x",
    "(x > 0).to(torch.uint8) * x",
    "torch.arange(3, dtype=torch.int32) * x",
    "x[torch.tensor([2, 0, 1])] * torch.tensor([7, 8, 9])",
    "(x > 0) * (x < 1) * x",
)
REFUSED = (
    "torch.tensor([300, 1, 2], dtype=torch.uint8) * x",
    "(torch.tensor([200, 1, 2], dtype=torch.uint8) + torch.tensor([100, 1, 2], dtype=torch.uint8)) * x",
    "torch.tensor([100, 2, 3], dtype=torch.int8) * 2 * x",
    "(torch.arange(3, dtype=torch.uint8) - 2) * x",
    "(torch.tensor([0.1, 0.2, 0.3], dtype=torch.float16) * 3) @ x",
    "torch.tensor([0.1, 0.2, 0.3], dtype=torch.bfloat16).exp() * x",
    "torch.tensor([2**31 - 1, 1, 2], dtype=torch.int32) * 2 * x",
    "torch.tensor([7, 8, 9]).pow(-1) * x",
    "(x > 0) - x",
    "1 - (x > 0) * (x < 1) - x",
    "-(x > 0) * x",
    "(x > 0) @ x",
    "torch.arange(3) @ x",
    "torch.einsum('i,i->', x > 0, x)",
    "torch.neg(x > 0) * x",
)


def by_torch(text: str) -> tuple[torch.Tensor, torch.Tensor]:
    """The text, run by torch in double precision: its value and the gradient of its sum."""
    leaf = torch.tensor(X, requires_grad=True)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        scope = {"torch": torch, "x": leaf}
        exec(f"out = {text}", scope)
        out = scope["out"]
        assert isinstance(out, torch.Tensor)
        out.sum().backward()
    finally:
        torch.set_default_dtype(before)
    assert leaf.grad is not None
    return out.detach(), leaf.grad


@pytest.mark.parametrize("text", TAKEN)
def test_numbers_of_a_text_are_those_of_its_type(text: str) -> None:
    out, gradient = by_torch(text)
    found = symgrad.explain(text, check=False, x=X, seed=np.ones(out.shape))
    assert_same(out, found.output, what=text)
    assert_same(gradient, found.gradients["x"].value, what=text)


@pytest.mark.parametrize("text", REFUSED)
def test_what_torch_computes_otherwise_is_refused(text: str) -> None:
    with pytest.raises(SymgradError):
        symgrad.explain(text, check=False, x=X)


def test_a_cast_does_not_promise_digits_that_torch_drops() -> None:
    told = " ".join(symgrad.explain("x.half() * a", x=X, a=X, check=False).to_text().split())
    assert "keeps all its digits" not in told
    assert "x.half() does not round here" in told
