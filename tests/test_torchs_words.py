"""What is read of torch's English, said by the torch that is installed."""

from __future__ import annotations

import pytest
import torch
from click.testing import CliRunner

from symgrad.tracing.session.torch_messages import Refusal, find_refusal
from symgrad_cli.main import main


class Miscounted(torch.autograd.Function):
    """Its backward gives two gradients for one input."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        return v, v


class OtherShape(torch.autograd.Function):
    """Its backward gives one entry where the input has two."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        return v.repeat(2)[:3]


class WritesIntoItsWeight(torch.autograd.Function):
    """Its backward writes into what it is given."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, v):
        return v.mul_(2)


def leaf(*values: float) -> torch.Tensor:
    return torch.tensor(values, requires_grad=True)


def complex_output():
    (leaf(1.0).sum() * 1j).backward()


def no_seed():
    leaf(1.0, 2.0).exp().backward()


def other_shape():
    leaf(1.0, 2.0).exp().backward(torch.ones(3))


def no_tensor():
    leaf(1.0, 2.0).exp().backward(gradient=torch.ones(2, dtype=torch.complex64))


def second_time():
    out = leaf(1.0, 2.0).exp().sum()
    out.backward()
    out.backward()


def overwritten():
    h = leaf(1.0, 2.0).exp()
    out = (h * h).sum()
    h += 1
    out.backward()


def no_path():
    torch.ones(2).sum().backward()


def unused():
    torch.autograd.grad(leaf(1.0).exp(), leaf(2.0))


def other_gradient():
    OtherShape.apply(leaf(1.0, 2.0)).sum().backward()


def miscounted():
    Miscounted.apply(leaf(1.0)).sum().backward()


def shared_memory():
    WritesIntoItsWeight.apply(leaf(1.0, 2.0)).sum().backward()


def leaf_written():
    w = leaf(1.0)
    w -= 1


def to_numpy():
    leaf(1.0).numpy()


def not_a_leaf():
    """Torch only warns of it."""
    with pytest.warns(UserWarning, match="not a leaf") as warned:
        assert leaf(1.0).exp().grad is None
    raise RuntimeError(str(warned[0].message))


def mismatch():
    torch.autograd.gradcheck(torch.exp, torch.tensor(3.0, dtype=torch.float64, requires_grad=True), eps=1.0)


@pytest.mark.parametrize(
    "refused",
    [complex_output, no_seed, other_shape, no_tensor, second_time, overwritten, no_path, unused, miscounted,
     shared_memory, leaf_written, to_numpy, not_a_leaf, mismatch],
    ids=lambda refused: refused.__name__,
)  # fmt: skip
def test_each_refusal_is_known_by_torchs_own_words(refused):
    with pytest.raises(RuntimeError) as caught:
        refused()
    refusal = Refusal[refused.__name__.upper()]
    assert find_refusal(caught.value) is refusal
    asked = CliRunner().invoke(main, ["errors", str(caught.value)])
    assert asked.exit_code == 0
    assert asked.stdout.startswith(refusal.answer)


def test_a_kind_that_there_is_not_is_refused_with_those_that_there_are():
    asked = CliRunner().invoke(main, ["errors", "shapes"])
    assert asked.exit_code == 2
    assert "shape, syntax" in asked.stderr


def test_every_refusal_is_said_here():
    assert {refusal.name.lower() for refusal in Refusal} <= globals().keys()


@pytest.mark.parametrize(
    ("spelling", "function"),
    [("nn.ReLU", "Tensor.relu"), ("torch.nn.Conv2d", "F.conv2d"), ("nn.LayerNorm", "F.layer_norm")],
)
def test_a_class_of_torchs_is_answered_by_its_function(spelling, function):
    asked = CliRunner().invoke(main, ["ops", spelling])
    assert f"try:   {function}" in asked.stderr


def test_another_message_is_none_of_them():
    assert find_refusal(RuntimeError("mat1 and mat2 shapes cannot be multiplied")) is None
