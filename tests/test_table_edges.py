"""At the edges of an operation torch has a number of its own: it is on the page, and a captured program has it."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.documents import kinks_page
from symgrad.explanation.kinks import edges_of
from symgrad.language import read_program
from symgrad.ops import Op, find
from symgrad.oracles.torch import data_inputs
from tests import torch_side
from tests.compare import assert_same
from tests.test_singular_table import OPS, logarithms_apart

EDGED = [op for op in OPS if op.limits.edges]


@pytest.mark.one_in(3)
@pytest.mark.parametrize("op", EDGED, ids=[op.name for op in EDGED])
def test_at_an_edge_torch_has_a_number_of_its_own_and_nobody_disagrees(op: Op) -> None:
    rules = list(edges_of(op))
    assert rules, "the edge is stale: torch and the equation agree"
    page = kinks_page([op]).text
    for text, place, own in rules:
        shapes = dict(next(e.shapes for e in op.examples if e.text == text))
        at = {k: float(v) for k, v in (part.split(" = ") for part in place.split(", "))}
        found = symgrad.explain(text, **{n: np.full(s, at.get(n, 0.5)) for n, s in shapes.items()})
        assert found.passed, own
        assert f"| {place} | {own.by} |" in page


@pytest.mark.parametrize("op", EDGED, ids=[op.name for op in EDGED])
def test_at_an_edge_a_captured_program_has_torchs_number(op: Op) -> None:
    """Also where all that is derived is finite, so that nothing looks singular: a Poisson loss at the target 0."""
    for example, edge in product(op.examples, op.limits.edges):
        fixed = data_inputs(read_program(example.text, shapes=dict(example.shapes)).program)
        inputs = {n: torch.full(s, edge.get(n, 0.5), dtype=torch.float64) for n, s in example.shapes}
        moving = [n for n in inputs if n not in fixed]

        def run(
            *given: torch.Tensor, text: str = example.text, names: list[str] = moving, rest: dict[str, Any] = inputs
        ) -> torch.Tensor:
            return torch_side.evaluate(text, {**rest, **dict(zip(names, given, strict=True))})

        leaves = [inputs[n].clone().requires_grad_(True) for n in moving]
        expected = torch.autograd.grad(run(*leaves).sum(), leaves, allow_unused=True)
        program = symgrad.capture(run, *(inputs[n] for n in moving))
        got = program.pullback(np.ones(tuple(run(*leaves).shape)))
        for name, value, right in zip(moving, got.values(), expected, strict=True):
            other = np.zeros(value.shape) if right is None else right.numpy()
            if op.name == "binary_cross_entropy" and np.isinf(other).any():
                logarithms_apart(name, other, value, {n: array.numpy() for n, array in inputs.items()})
            else:
                assert_same(other, value, what=f"{example.text} at {edge}")


def test_an_operation_without_edges_has_none() -> None:
    op = find("exp")
    assert op is not None
    assert list(edges_of(op)) == []
    assert "Without a derivative" not in kinks_page([op]).text
