"""Exported code where its lines divide by 0, or by what is nearly 0: it gives what torch gives."""

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
