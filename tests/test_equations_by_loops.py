"""Equations of a user's own against loops over single numbers: output, gradients, proof, and the code of the backward."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import symgrad
from tests.compare import assert_same
from tests.lines_of import as_pasted
from tests.loops import drawn
from tests.nights import numbers

MANY = 240
FOUND = (302, 421, 578, 826, 1188)
"""Numbers further on that were tracebacks, refusals in torch's name, or code of another kind than its tensors."""


@pytest.mark.one_in(15)
@pytest.mark.parametrize("number", [*range(20), *FOUND, *numbers((), range(20, MANY))])
def test_an_equation_is_what_loops_make_of_it(number: int) -> None:
    """Every gradient has code, too, which runs with torch and gives the same numbers."""
    case = drawn(number)
    seed = np.random.default_rng(number).integers(-4, 5, size=tuple(case.out.shape)).astype(float)
    found = symgrad.explain(case.text, seed=seed, **case.given)
    assert_same(case.out, found.output, seed=number, what=case.text)
    leaves = list(case.leaves.values())
    out = case.out + sum(0 * leaf.sum() for leaf in leaves)  # where no condition holds, nothing was read
    expected = torch.autograd.grad(out, leaves, torch.tensor(seed))
    told = as_pasted(found.backward, case.given, *(seed for own in found.backward.seeds.values() if own is not None))
    for (name, leaf), gradient in zip(case.leaves.items(), expected, strict=True):
        assert_same(gradient, found.gradients[name].value, seed=number, what=f"{name} of {case.text}")
        assert_same(gradient, told[name], seed=number, what=f"{name} by the code of {case.text}")
        assert leaf.shape == told[name].shape
    assert found.passed, found.to_text()


def test_the_loops_and_the_text_are_drawn_anew_by_every_number() -> None:
    texts = [drawn(number).text for number in range(MANY)]
    assert len(set(texts)) > 0.95 * MANY
    for sign in ("sum", "mean", "prod", "max", "min", "mod", "n1[", "≠", "; "):
        assert any(sign in text for text in texts), sign
