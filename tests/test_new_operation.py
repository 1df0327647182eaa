"""An operation that torch does not have stands in the table: what its row has to say, and what follows from it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import symgrad
from symgrad.entries.equations import op
from symgrad.entries.spec import FAMILIES, SPELLINGS, TABLE, Op
from symgrad.errors import InputError, SymgradError
from tests.compare import assert_same

X = np.array([[-3.0, -0.5, 0.25], [1.5, 2.0, 4.0]])


@pytest.fixture
def softcap() -> Iterator[Op]:
    """The row of the page docs/how-to/add-an-operation.md, for the time of a test."""
    row = op(
        "softcap(x, c: float > 0)", "out = c·tanh(x/c)", "x kept smoothly between −c and c",
        home=(), torch=lambda torch, x, c: c * torch.tanh(x / c), examples=("softcap(x, c=2.0)",),
    )  # fmt: skip
    yield row
    for kept in (TABLE, SPELLINGS, FAMILIES):
        del kept["softcap"]


@pytest.mark.usefixtures("softcap")
def test_an_operation_that_torch_lacks_is_derived_and_checked() -> None:
    found = symgrad.explain("softcap(x, c=2.0) * y", x=X, y=X[::-1].copy(), seed=np.ones((2, 3)))
    assert found.passed
    x = torch.tensor(X, requires_grad=True)
    (2.0 * torch.tanh(x / 2.0) * torch.tensor(X[::-1].copy())).sum().backward()
    assert x.grad is not None
    assert_same(x.grad.numpy(), found.gradients["x"].value, what="x.grad")


@pytest.mark.usefixtures("softcap")
def test_code_for_torch_is_refused_in_a_sentence() -> None:
    with pytest.raises(SymgradError, match="torch has no function softcap"):
        symgrad.export("softcap(x, c=2.0)", shapes={"x": (2, 3)})


def test_a_row_that_never_says_how_torch_computes_it_is_refused() -> None:
    with pytest.raises(InputError, match="softcap has no spelling in torch, so its row has to say") as caught:
        op("softcap(x, c: float)", "out = c·tanh(x/c)", "x kept smoothly between −c and c", home=())
    assert caught.value.hints == ("torch=lambda torch, x, c: …",)
    assert "softcap" not in TABLE
