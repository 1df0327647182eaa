"""Programs that write in place through views, captured: value and vᵀJ are torch's."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from symgrad import capture
from tests.compare import assert_same
from tests.contract.in_place import drawn


def check(number: int) -> bool:
    """One random program against torch; False where nothing of it has a gradient."""
    program = drawn(number)
    generator = torch.Generator().manual_seed(number)
    x = torch.rand(program.shape, generator=generator, dtype=torch.float64) + 0.3
    leaf = x.clone().requires_grad_()
    out = program(leaf)
    if not out.numel() or not out.requires_grad:
        return False
    seed = torch.randint(-4, 5, out.shape, generator=generator).double()
    (expected,) = torch.autograd.grad(out, leaf, seed, allow_unused=True)
    captured = capture(program, x)
    (name,) = captured.inputs
    got = captured.pullback(seed)[name]
    right = np.zeros(program.shape) if expected is None else expected
    assert_same(right, np.asarray(got, dtype=float), what=repr(program), seed=number)
    return True


@pytest.mark.one_in(3)
@pytest.mark.parametrize("number", range(40))
def test_random_programs_that_write_in_place(number: int) -> None:
    check(number)


def test_most_of_them_have_a_gradient_and_write_through_a_view() -> None:
    texts = [repr(drawn(number)) for number in range(60)]
    for word in (
        "mul_",
        "zero_",
        "copy_",
        "add_",
        "] = t",
        "view",
        "diagonal",
        "permute",
        "unfold",
        "narrow",
        "select",
    ):
        assert any(word in text for text in texts), word


@pytest.mark.parametrize("word", ["copy_", "add_", "mul_"])
def test_a_base_that_is_written_into_nothing_of_itself_stays_known(word: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        getattr(y[1:], word)(y)
        return y.sum()

    (got,) = capture(program, torch.ones(1, dtype=torch.float64)).pullback(torch.tensor(3.0)).values()
    assert_same([6.0], got)


@pytest.mark.parametrize("word", ["copy_", "add_", "mul_"])
def test_a_part_that_is_written_from_its_base_stays_known(word: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        part = y[1:]
        getattr(part, word)(y[:1].clone() * x[0])
        return y * part.sum()

    x = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    seed = torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64)
    (expected,) = torch.autograd.grad(program(x), x, seed)
    assert_same(expected, capture(program, x.detach()).pullback(seed)["x"])


PART, PARTS = 800, 25


@pytest.mark.night
@pytest.mark.parametrize("part", range(PARTS))
def test_twenty_thousand_random_programs_that_write_in_place(part: int) -> None:
    for number in range(1000 + part * PART, 1000 + (part + 1) * PART):
        check(number)
