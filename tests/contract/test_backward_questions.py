"""What authors of a backward ask (34 to 41 of the ranked questions), and the sentence that settles each."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from symgrad.testing import BackwardReport, check_backward
from tests.candidates import function, randn, with_ctx


def unreduced() -> Any:
    return function(torch.add, lambda v, x, b: (v, v))


def kept_on_ctx() -> Any:
    def forward(ctx: Any, x: Any) -> Any:
        ctx.i = 2 * x
        return x**2

    return with_ctx(forward, lambda ctx, v: v * ctx.i)


def as_if_contiguous(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    stored = torch.tensor(v.untyped_storage(), dtype=torch.uint8).view(v.dtype)
    return torch.cat([stored, stored.new_zeros(v.numel())])[: v.numel()].reshape(v.shape) * torch.exp(x)


def x23() -> dict[str, Any]:
    return {"x": randn(2, 3)}


QUESTIONS: list[tuple[int, Callable[[], BackwardReport], str]] = [
    (
        34,
        lambda: check_backward(
            function(lambda W, x: W @ x, lambda g, W, x: (g[:, None] * x, 2 * (W.T @ g))),
            "W @ x", W=randn(2, 3), x=randn(3, seed=1),
        ),
        "scaled: x.grad[2]: yours -4.35758; Σ_j v[j]·W[j,2] = -2.17879; every entry is 2 times what it should be",
    ),
    (
        34,
        lambda: check_backward(
            function(lambda x, w: x @ w.T, lambda g, x, w: (g @ w.T, g.T @ x)), "x @ w.T", x=randn(3, 3), w=randn(3, 3, seed=1)
        ),
        "equals v @ w.T: w is transposed, and should not be",
    ),
    (
        35,
        lambda: check_backward(torch.exp, "exp(x)", x=torch.tensor([3.0])),
        "ulps of float32 (eager torch: 0.0776151); no step is taken here: gradcheck's 1e-06 is 2.8 ulps of the largest input",
    ),
    (
        36,
        lambda: check_backward(function(torch.exp, as_if_contiguous), "exp(x)", **x23()),
        ("with v transposed (strides (1, 2), offset 0), -0.676126 with the same numbers in contiguous memory: v is "
        "read as if it were contiguous"),
    ),
    (
        37,
        lambda: check_backward(unreduced(), "x + b", x=randn(4, 3), b=randn(3, seed=1)),
        ("unreduced: Custom.backward returns the shape (4, 3) for b, which is (3,): sum over the broadcast axes, "
        ".sum(0)"),
    ),
    (
        37,
        lambda: check_backward(function(torch.exp, lambda v, x: (v * torch.exp(x))[:1]), "exp(x)", x=randn(3)),
        "shape: Custom.backward returns the shape (1,) for x, which is (3,)",
    ),
    (
        37,
        lambda: check_backward(function(torch.add, lambda v, x, b: v), "x + b", x=randn(3), b=randn(3, seed=1)),
        ("arity: Custom.backward returns 1 gradient for 2 arguments of forward: return one for each, None where there "
        "is no gradient"),
    ),
    (
        38,
        lambda: check_backward(function(lambda x: 3 * x, lambda g, x: g.mul_(3)), "3 * x", **x23()),
        ("mutates_seed: Custom.backward: v[0,0] was 3 before the call and is 9 after it: v belongs to autograd, and other "
        "branches of the graph read it"),
    ),
    (
        39,
        lambda: check_backward(kept_on_ctx(), "x ** 2", order=2, **x23()),
        "yours None, the formula gives 24: x.grad has lost its dependence on x",
    ),
    (
        40,
        lambda: check_backward(
            function(lambda x, y: torch.slice_scatter(x, y, 0, 0, 2).sum(), lambda v, x, y: (v.expand(5), v.expand(2))),
            "torch.slice_scatter(x, y, 0, 0, 2).sum()", x=randn(5), y=randn(2, seed=1),
        ),
        "eager PyTorch agrees with the formula",
    ),
    (
        41,
        lambda: check_backward(torch.relu, "relu(x)", x=torch.tensor([1e-7, 1.0], dtype=torch.float64)),
        "x[0] = 1e-07 lies within 1e-06 of a kink: the slope is 0 left of it and 1 right of it, the formula gives 1; a difference of step 1e-06, as gradcheck takes, gives 0.55",
    ),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("number", "asked", "said"), QUESTIONS, ids=[str(n) for n, _, _ in QUESTIONS])
def test_a_question_about_a_backward(number: int, asked: Callable[[], BackwardReport], said: str) -> None:
    report = asked()
    assert said in re.sub(r"\s+", " ", report.to_text())
    assert report.passed == (number in (35, 41))
    assert json.loads(report.to_json())["passed"] == report.passed


def test_gradcheck_is_what_they_say_it_is() -> None:
    """The questions are about something: the same candidates under plain gradcheck."""
    gradcheck = torch.autograd.gradcheck
    x = randn(2, 3).requires_grad_()
    assert gradcheck(function(torch.exp, as_if_contiguous), (x,))
    assert gradcheck(function(lambda x: 3 * x, lambda g, x: g.mul_(3)), (x,))
    assert gradcheck(kept_on_ctx(), (x,))
    assert gradcheck(unreduced(), (randn(4, 3).requires_grad_(), randn(3, seed=1).requires_grad_()))
    kink = torch.tensor([1e-7, 1.0], dtype=torch.float64, requires_grad=True)
    assert not gradcheck(torch.relu, (kink,), raise_exception=False)
    single = torch.tensor([3.0], requires_grad=True)
    with pytest.warns(UserWarning, match="double precision"):
        assert not gradcheck(torch.exp, (single,), raise_exception=False)
