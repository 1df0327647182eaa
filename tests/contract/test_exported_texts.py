"""Exported code where its lines divide by 0, or nearly, and where a condition is a number: it gives what torch gives."""

from __future__ import annotations

import pytest
import torch

import symgrad
from tests import torch_side
from tests.compare import assert_same
from tests.exports_run import drawn, run_of

LENGTHS = [
    ("x.norm()", {"x": (3,)}),
    ("x.norm(dim=1) * y", {"x": (3, 2), "y": (3,)}),
    ("x.std(1)", {"x": (3, 2)}),
    ("atan2(x, y)", {"x": (3,), "y": (3,)}),
    ("dist(x, y)", {"x": (3,), "y": (3,)}),
    ("cdist(x, y)", {"x": (3, 2), "y": (4, 2)}),
    ("cdist(x, x).sum(1)", {"x": (3, 2)}),
    ("pairwise_distance(x, y, eps=0.0)", {"x": (3, 2), "y": (3, 2)}),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "shapes"), LENGTHS)
def test_a_condition_stands_beside_what_is_divided_by(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """Where all lengths are 0, and where every other one is: to a program 0 / 0 is no 0."""
    own = run_of(symgrad.export(text, shapes=shapes))
    for odd in (0.0, 1.0):
        at = {n: x * torch.where(torch.arange(x.numel()) // x[0].numel() % 2 == 1, odd, 0.0).reshape(x.shape)
              for n, x in drawn(shapes).items()}  # fmt: skip
        leaves, same = ({n: x.clone().requires_grad_() for n, x in at.items()} for _ in range(2))
        for out in (torch_side.evaluate(text, leaves), own(*same.values())):
            (out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum().backward()
        for n, leaf in leaves.items():
            assert_same(leaf.grad, same[n].grad, what=f"{text} by {n}")


def test_no_square_is_divided_by() -> None:
    """y² is 0 at 1e-200, and y is not."""
    own = run_of(symgrad.export("x / y", shapes={"x": (1,), "y": (1,)}))
    x, y = (torch.tensor([1e-200], dtype=torch.float64, requires_grad=True) for _ in range(2))
    own(x, y).backward()
    assert_same([-1.0], y.grad * 1e-200)


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
    """In the type of what is differentiated by, not in torch's floats of 32 bits; torch averages no truth values."""
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
