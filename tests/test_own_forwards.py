"""No forward of an entry is what its equation gives: it is asked at the ends of the numbers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import torch

from symgrad import SymgradError
from symgrad.numeric import forward
from symgrad.ops import TABLE, Op
from tests.cases import cases
from tests.rows import instead

ENDS = (np.inf, -np.inf, np.nan, 0.0, -0.0, 1e-310, 1e-20, 1e300, -1e300, 800.0, 2.0**29, 1000.0)
BESIDE = {
    "atan2": "x² + y² underflows where both are small",
    "clamp": "torch's choice where min is above max",
    "cumprod": "of exact numbers one product after the other, not n² factors",
    "cumsum": "of exact numbers one sum after the other, not n² terms",
    "cov": "refuses weights that torch refuses",
    "cross_entropy": "what is ignored need be no class",
    "eigvalsh": "V is of what it has found",
    "index_copy": "of two at one place the last",
    "log10": "a power of 10 has a whole logarithm, to the last bit",
    "log2": "a power of 2 has a whole logarithm, to the last bit",
    "max_unpool1d": "refuses two at one place",
    "max_unpool2d": "refuses two at one place",
    "max_unpool3d": "refuses two at one place",
    "nll_loss": "what is ignored need be no class",
    "scatter": "of two at one place the last",
    "svdvals": "U and Vh are of what it has found",
    "triangular_factor": "refuses another triangle that is not 0",
}
"""Forwards whose values at samples follow from the equation, and why they are written all the same."""


def moved(inputs: Mapping[str, np.ndarray], op: Op) -> Iterator[Mapping[str, np.ndarray]]:
    """Samples, and the same with an entry, or all, at the ends of the numbers; all zeros; whole numbers."""
    yield inputs
    numbers = {name: np.asarray(a, float) for name, a in inputs.items() if not op.domain_of(name).whole}
    for (name, array), end in itertools.product(numbers.items(), ENDS):
        one = array.copy()
        one.reshape(-1)[one.size // 2 : one.size // 2 + 1] = end
        yield {**inputs, name: one}
        yield {**inputs, name: np.full(array.shape, end)}
    yield {**inputs, **{name: np.zeros(a.shape) for name, a in numbers.items()}}


def value(case: Any, inputs: Mapping[str, np.ndarray]) -> np.ndarray | str:
    """The forward of a case, or why there is none."""
    try:
        with np.errstate(all="ignore"):
            return np.asarray(forward(case.program, inputs)[case.program.output], float)
    except SymgradError as error:
        return error.problem


def follows(op: Op) -> bool:
    """Whether the equation gives what an entry's own forward does, at all samples of all examples."""
    bare = dataclasses.replace(op, numpy=None)
    for case in (case for case in cases() if case.op.name == op.name):
        for inputs in moved(case.inputs, op):
            with instead(op):
                own = value(case, inputs)
            with instead(bare):
                found = value(case, inputs)
            if isinstance(own, str) or isinstance(found, str):
                if own != found:
                    return False
                continue
            if own.shape != found.shape or not np.allclose(own, found, rtol=1e-14, atol=0, equal_nan=True):
                return False
    return True


WRITTEN = [
    op for op in TABLE.values() if op.numpy is not None and "out" not in op.saved.names and op.name not in BESIDE
]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("op", WRITTEN, ids=lambda op: op.name)
def test_no_forward_is_what_the_equation_gives(op: Op) -> None:
    """What reads its own output has a forward by need; of the others each, or one that shares it, is another somewhere."""
    shared = [other for other in WRITTEN if other.numpy.__qualname__ == op.numpy.__qualname__ != "<lambda>"]  # type: ignore[union-attr]  # each is written
    assert not follows(op) or not all(map(follows, shared))


def test_a_forward_that_follows_is_seen() -> None:
    assert follows(dataclasses.replace(TABLE["tanh"], numpy=np.tanh))
    assert not follows(dataclasses.replace(TABLE["tanh"], numpy=np.sinh))
    assert torch.tanh(torch.zeros(1)) == 0
