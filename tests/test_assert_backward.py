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
    ("none", lambda v, x, a: (None, x.T @ v), "nothing arrives"),
    ("operand", lambda v, x, a: (v @ a, x.T @ v), "with a.mT in its place"),
    ("seed", lambda v, x, a: (v.T @ a.T, x.T @ v), "v is transposed"),
    ("ignored", lambda v, x, a: (torch.ones_like(v) @ a.T, x.T @ v), "this is what v = ones gives"),
    ("constant", lambda v, x, a: (a + x, x.T @ v), "the same comes whatever v is"),
    ("mean", lambda v, x, a: (v @ a.T / 9, x.T @ v), "divided by the number of outputs, 9"),
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


SILENT = [
    ("one entry", lambda v, x, a: (v @ a.T + torch.eye(3, dtype=x.dtype), x.T @ v)),
    ("a little", lambda v, x, a: (v @ a.T * torch.linspace(1, 1.001, 3, dtype=x.dtype), x.T @ v)),
    ("sign of some", lambda v, x, a: (v @ a.T * torch.tensor([1.0, -1.0, 1.0]), x.T @ v)),
    ("once right", lambda v, x, a: (v @ a.T if v.sum() == 1 else -v @ a.T, x.T @ v)),
    ("once transposed", lambda v, x, a: (v @ a if v.sum() == 1 else v @ a.T + 1, x.T @ v)),
    ("nan", lambda v, x, a: (v @ a.T * torch.nan, x.T @ v)),
]


@pytest.mark.parametrize("backward", [s[1] for s in SILENT], ids=[s[0] for s in SILENT])
def test_what_no_slip_explains_is_not_guessed(backward: Callable[..., Any]) -> None:
    """A slip has to give what came in every entry and for every seed; one that does so here and there is not said."""
    report = check_backward(function(lambda x, a: x @ a, backward), "x @ a", x=tensor(3, 3), a=tensor(3, 3, seed=1))
    assert not report.passed
    assert {m.guess for m in report.mismatches} == {""}


def test_the_share_of_one_use_is_named() -> None:
    """A product with itself whose backward knows one of the two factors."""
    half = function(lambda x: x @ x, lambda v, x: v @ x.T)
    report = check_backward(half, "x @ x", x=tensor(3, 3))
    assert {m.guess for m in report.mismatches} == {"x is used 2 times, and this is the share of use 1 alone"}


def test_ones_times_what_it_should_be_is_never_said() -> None:
    """A difference in the fifth digit is no factor of 1."""
    wrong = function(torch.exp, lambda v, x: v * torch.exp(x) * (1 + 1e-5 * torch.rand_like(x)))
    report = check_backward(wrong, "exp(x)", x=tensor(3, 4))
    assert not report.passed
    assert not any(m.guess for m in report.mismatches)


def raising(v: Any, x: Any) -> Any:
    raise KeyError("weight")


FINDINGS = [
    ("nan", lambda v, x: torch.where(x == x[1], torch.nan, 2 * x * v), "not every entry is finite"),
    ("raises", raising, "backward raises KeyError: 'weight'"),
    (
        "arity",
        lambda v, x: (2 * x * v, v),
        "backward raises RuntimeError: function CustomBackward returned an incorrect",
    ),
    (
        "shape",
        lambda v, x: (2 * x * v)[:2],
        "backward raises RuntimeError: Function CustomBackward returned an invalid",
    ),
]


@pytest.mark.parametrize(("backward", "says"), [f[1:] for f in FINDINGS], ids=[f[0] for f in FINDINGS])
def test_a_backward_that_fails_is_a_finding(backward: Callable[..., Any], says: str) -> None:
    """NaN, an exception, too many gradients, a wrong shape: reported with its place, never raised as it is."""
    report = check_backward(function(lambda x: x**2, backward), "x ** 2", x=tensor(3))
    assert not report.passed
    assert says in str(report.mismatches[0])
    assert all(m.guess == "" for m in report.mismatches)
    with pytest.raises(AssertionError, match="this is not the backward"):
        assert_backward(function(lambda x: x**2, backward), "x ** 2", x=tensor(3))


def test_the_place_of_nan_is_named() -> None:
    """The worst entry is the one without a number."""
    report = check_backward(function(lambda x: x**2, FINDINGS[0][1]), "x ** 2", x=tensor(3))
    assert "x.grad[1]" in str(report.mismatches[0])
    assert "got:      nan" in str(report.mismatches[0])


def test_a_way_back_that_was_cut_is_a_finding() -> None:
    """A forward that detaches leaves nothing to run."""
    report = check_backward(lambda x: (x**2).detach(), "x ** 2", x=tensor(3))
    assert not report.passed
    assert "the way back was cut" in str(report.mismatches[0])


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
