"""Exported code of texts in which a condition is a number: torch averages, subtracts and multiplies no truth values."""

from __future__ import annotations

import pytest
import torch

import symgrad
from tests.compare import assert_same
from tests.exports_run import run_of

TEXTS = [
    ("y * m.mean(0)", "m.double()"),
    ("m.mean() * y - m.sum(0)", "m.double()"),
    ("((1 - m) * y).std(0)", "m.double()"),
    ("m.sum(0).double().mean() * y", "m"),
    ("y * torch.cat([m, x < 1]).double().mean(0)", "m"),
    ("(m @ x).mean(0) * y", "m.double()"),
    ("y * (m * (x < 1)).double().mean(0)", "m"),
    ("m.abs().clamp(0.1, 0.9).mean() * y", "m.double()"),
    ("F.l1_loss(y, m[0])", "m.double()"),
    ("torch.outer(m[0], m[1]).mean() * y", "m.double()"),
    ("-m * y", "m.double()"),
    ("y * m", "m"),
    ("torch.masked_fill(y, m[0], 2.0)", "m"),
    ("y.masked_fill(x[0] > 0, 2.0)", "m"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "numbers"), TEXTS)
def test_a_condition_that_is_read_as_a_number_is_one(text: str, numbers: str) -> None:
    """In the type of what is differentiated by, not in torch's usual floats of 32 bits."""
    generator = torch.Generator().manual_seed(1)
    x, y = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in ((3, 3), (3,)))
    names = {"x": x, "y": y.requires_grad_(), "F": torch.nn.functional, "torch": torch, "m": x > 0}
    names["m"] = eval(numbers, names)  # noqa: S307 -- a text of this test's own
    out = eval(text, names)  # noqa: S307 -- as above
    weights = torch.randn(out.shape, generator=generator, dtype=torch.float64)
    own = run_of(symgrad.export(f"m = ({numbers.replace('m', '(x > 0)')}); {text}", shapes={"x": (3, 3), "y": (3,)}))
    order = {"x": x, "y": y.detach().clone().requires_grad_()}
    found = own(*(order[name] for name in own.__code__.co_varnames[: own.__code__.co_argcount]))
    assert_same(out.detach(), found.detach(), what=text)
    (expected,) = torch.autograd.grad(out, y, weights)
    assert_same(expected, torch.autograd.grad(found, order["y"], weights)[0], what=text)
