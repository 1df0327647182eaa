"""Short random programs in PyTorch's words: value and gradients are what torch runs and differentiates."""

import random
import re

import numpy as np
import pytest
import torch

import symgrad
from tests.compare import assert_same

ONE = (
    "torch.relu({})", "torch.exp({} / 2)", "{}.tanh()", "{}.abs()", "{} ** 2", "{}.sum(0)", "{}.mean(-1, keepdim=True)", "{}.max()", "torch.sin({})",
    "torch.softmax({}, -1)", "{}.cumsum(0)", "{}[0]", "{}.flip(0)", "{}.norm()", "{}.clamp(-1, 1)", "torch.logsumexp({}, 0)", "{}.prod(0)",
)  # fmt: skip
TWO = ("{} * {}", "{} + {}", "{} - {}", "{} / ({} ** 2 + 1)", "{} @ {}", "torch.maximum({}, {})", "torch.atan2({}, {})")


def drawn(draw: random.Random, depth: int) -> str:
    """A text of so many levels."""
    form = draw.choice(draw.choice((ONE, TWO))) if depth else draw.choice("xyz")
    return form.format(*(f"({drawn(draw, depth - 1)})" for _ in range(form.count("{}"))))


@pytest.mark.parametrize("part", range(21))
def test_twenty_random_programs_are_what_torch_computes(part: int) -> None:
    draw, given = random.Random(part), np.random.default_rng(part)
    for text in (drawn(draw, 1 + n % 3) for n in range(20)):
        numbers = {name: given.uniform(-1.5, 1.5, (3, 3)) for name in sorted({*re.findall(r"\b[xyz]\b", text)})}
        tensors = {name: torch.tensor(array, requires_grad=True) for name, array in numbers.items()}
        try:
            out = eval(text, {"torch": torch}, tensors)  # noqa: S307 drawn above
        except (RuntimeError, IndexError):
            with pytest.raises(symgrad.SymgradError):
                symgrad.explain(text, check=False, **numbers)
            continue
        v = given.integers(1, 5, out.shape)
        out.backward(torch.tensor(v, dtype=out.dtype))
        found = symgrad.explain(text, seed=v, check=False, **numbers).gradients
        for name, tensor in tensors.items():
            assert_same(tensor.grad, found[name].value, seed=part, what=f"{text} by {name}")
