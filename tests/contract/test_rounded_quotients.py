"""Quotients inside functions that jump: rounded once, as torch rounds them, or a whole step is lost."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import symgrad
from tests.compare import assert_same

WHOLE = [0.1, 0.2, 0.3, 0.6, 0.7, 1.1, 1.2, 4.8, 4.9, -0.3, -0.6, -4.9]
STEP = [0.1, 0.1, 0.1, 0.2, 0.1, 0.1, 0.4, 0.6, 0.7, 0.1, -0.2, 0.7]
"""0.3 / 0.1 is below 3, and 0.3 · (1 / 0.1) is 3."""


def pulled(text: str, x: torch.Tensor, y: torch.Tensor) -> tuple[np.ndarray, ...]:
    """The value and torch's gradients under ones."""
    out = eval(text, {"torch": torch, "x": x, "y": y})  # noqa: S307 -- the tests' own texts
    return tuple(
        t.detach().numpy() for t in (out, *torch.autograd.grad(out.sum(), (x, y), allow_unused=True)) if t is not None
    )


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", ["torch.fmod(x, y)", "torch.fmod(x, y[0])", "torch.trunc(x / y) * y", "torch.floor(x / y) * x",
                                  "torch.ceil(x / y) * y * x", "torch.round(x / y) * y * x"])  # fmt: skip
def test_a_quotient_is_rounded_once(text: str) -> None:
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (WHOLE, STEP))
    expected = pulled(text, x, y)
    for _ in range(3):  # the plan is made once
        found = symgrad.explain(text, x=WHOLE, y=STEP, check=False)
        assert_same(expected[0], found.output)
        for name, gradient in zip("xy", expected[1:], strict=True):
            assert_same(gradient, found.gradients[name].value, what=f"{text} by {name}")


@pytest.mark.parametrize("text", ["torch.floor_divide(x, y)", "x // y", "torch.div(x, y, rounding_mode='floor')", "x // 0.1", "1 // y", "torch.floor_divide(0.3, y)",
                                  "torch.div(x, y, rounding_mode='trunc')", "x // y[:1]", "x // 0.25"])  # fmt: skip
def test_how_often_a_number_goes_into_another(text: str) -> None:
    """1 // 0.1 is 9, although 1 / 0.1 is rounded to 10."""
    x, y = [1.0, *WHOLE], [0.1, *STEP]
    names = {"x": torch.tensor(x, dtype=torch.float64), "y": torch.tensor(y, dtype=torch.float64)}
    right = eval(text, {"torch": torch}, names)  # noqa: S307 -- the tests' own texts
    used = {name: values for name, values in (("x", x), ("y", y)) if name in text}
    assert_same(right.numpy(), symgrad.explain(text, **used, check=False).output, what=text)
