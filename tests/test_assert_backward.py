"""`symgrad.testing`: right backwards pass, and each usual slip is caught, named and guessed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from symgrad import InputError, ShapeError
from symgrad.testing import assert_backward, check_backward


def function(forward: Callable[..., Any], backward: Callable[..., Any]) -> Callable[..., Any]:
    """A torch function with the given forward and backward(v, *inputs)."""

    class Custom(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, *inputs: Any) -> Any:
            ctx.save_for_backward(*inputs)
            return forward(*inputs)

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            return backward(v, *ctx.saved_tensors)

    return Custom.apply


def tensor(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Any:
    """Normal numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize(
    ("call", "expression"),
    [
        (torch.tanh, "tanh(x)"),
        (lambda x: torch.softmax(x, dim=-1), "softmax(x, dim=-1)"),
        (lambda x: x.sum(0), "x.sum(0)"),
        (lambda x: x @ x.T, "x @ x.T"),
        (torch.relu, "relu(x)"),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_torchs_own_backwards_pass(call: Callable[..., Any], expression: str, dtype: torch.dtype) -> None:
    """What torch does is what the formulas say, in both precisions."""
    report = assert_backward(call, expression, x=tensor(3, 4, dtype=dtype))
    assert report.passed
    assert report.comparisons >= 8


def test_several_inputs_are_all_compared() -> None:
    """Every floating input is differentiated, in the order in which it is passed."""
    report = assert_backward(torch.matmul, "x @ a", x=tensor(2, 3), a=tensor(3, 4, seed=1))
    assert report.comparisons == 2 * (8 + 3 + 1)


SLIPS = [
    ("transpose", lambda v, x, a: (a @ v.T, x.T @ v), "transpose"),
    ("sign", lambda v, x, a: (-v @ a.T, x.T @ v), "sign"),
    ("factor", lambda v, x, a: (2 * v @ a.T, x.T @ v), "2 times"),
    ("nothing", lambda v, x, a: (torch.zeros_like(x), x.T @ v), "nothing arrives"),
]


@pytest.mark.parametrize(("backward", "word"), [s[1:] for s in SLIPS], ids=[s[0] for s in SLIPS])
def test_each_usual_slip_is_named(backward: Callable[..., Any], word: str) -> None:
    """The message holds the entry, the formula, both numbers and the slip."""
    wrong = function(lambda x, a: x @ a, backward)
    with pytest.raises(AssertionError) as caught:
        assert_backward(wrong, "x @ a", x=tensor(3, 3), a=tensor(3, 3, seed=1))
    message = str(caught.value)
    assert "x.grad[" in message
    assert "v @ a.T" in message
    assert "expected:" in message
    assert "got:" in message
    assert word in message


def test_a_softmax_that_is_right_only_for_ones_is_caught() -> None:
    """1ᵀJ = 0 for softmax: a backward that returns zeros passes `.sum().backward()` and fails here."""
    wrong = function(lambda x: torch.softmax(x, -1), lambda v, x: torch.zeros_like(x))
    report = check_backward(wrong, "softmax(x, dim=-1)", x=tensor(2, 3))
    assert not report.passed
    assert all(m.seed != "ones" for m in report.mismatches)


def test_a_backward_that_ignores_v_is_caught() -> None:
    """The gradient of the sum, whatever v is."""
    wrong = function(lambda x: x**2, lambda v, x: 2 * x)
    report = check_backward(wrong, "x ** 2", x=tensor(3))
    assert not report.passed


def test_another_forward_is_told_first() -> None:
    """A function that computes something else is told before any gradient."""
    with pytest.raises(AssertionError, match="the forward pass: out"):
        assert_backward(torch.cos, "sin(x)", x=tensor(3))


def test_misuse_is_refused() -> None:
    """Shapes that do not fit, and values that are missing, are errors of their own."""
    with pytest.raises(ShapeError):
        check_backward(torch.matmul, "x @ a", x=tensor(2, 3), a=tensor(2, 3))
    with pytest.raises(InputError, match="needs a value for a"):
        check_backward(torch.tanh, "x @ a", x=tensor(2, 3))
    with pytest.raises(InputError, match="has to return one tensor"):
        check_backward(lambda x: (x, x), "x", x=tensor(3))
