"""The lines of a second derivative: `symgrad derive --order 2`, run by torch at sizes that they were not proven at."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad.backward import derive_double_backward
from symgrad.explanation.formulas import sample
from symgrad_cli.main import main
from tests import torch_side
from tests.compare import assert_same
from tests.lines_of import run_lines
from tests.sampling import seed_of

TEXTS = {
    "x @ A @ x": {"x": "n", "A": "nn"},
    "softmax(x, -1)": {"x": "n"},
    "log(1 + exp(-y * (X @ w))).mean()": {"y": "n", "X": "nd", "w": "d"},
    "mse_loss(tanh(x @ W + b), y)": {"x": "nd", "W": "dm", "b": "m", "y": "nm"},
    "(x * w).var()": {"x": "n", "w": "n"},
}
SIZES = {"n": 6, "d": 3, "m": 4}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("text", TEXTS)
def test_the_lines_hold_at_other_sizes(text: str) -> None:
    number = seed_of(text)
    draw = np.random.default_rng(number)
    inputs = {n: draw.uniform(0.3, 1.5, size=[SIZES[axis] for axis in axes]) for n, axes in TEXTS[text].items()}
    program, derived = symgrad.derive(text, shapes={name: tuple(axes) for name, axes in TEXTS[text].items()})
    sized, values, seed = sample(program, {})
    lines = derive_double_backward(sized, [d.name for d in derived], values, seed)
    tensors = {name: torch.tensor(array, requires_grad=True) for name, array in inputs.items()}
    out = torch_side.evaluate(text, tensors)
    weights = torch.tensor(draw.integers(-3, 4, size=tuple(out.shape)).astype(float)) if out.dim() else None
    gradients = torch.autograd.grad(out, [*tensors.values()], weights, create_graph=True)
    draws = [torch.tensor(draw.uniform(-1, 1, size=g.shape)) for g in gradients]
    expected = torch.autograd.grad(gradients, [*tensors.values()], draws)
    given = inputs if weights is None else {**inputs, program.seed: weights}
    found = run_lines(lines, given, *draws)
    for name, wanted in zip(tensors, expected, strict=True):
        assert_same(wanted.numpy(), found[name].numpy(), seed=number, what=name)


def test_the_page_has_the_lines_after_the_first_order() -> None:
    told = CliRunner().invoke(main, ["derive", "x @ A @ x", "--shape", "x=n", "--order", "2"]).output
    first, heading, second = told.partition("4  Second order: the backward of the backward")
    assert "gᵀH" not in first
    assert heading
    assert "∂²L/∂x∂x = A + A.T" in second
    assert "gᵀH for A = g1[:, None] * v_t1 + g1 * x[:, None]" in second


def test_what_is_linear_has_no_curvature() -> None:
    told = CliRunner().invoke(main, ["derive", "sum(3 * x)", "--order", "2"]).output
    assert "All of it is 0: L has no curvature here." in told


def test_a_table_of_nothing_but_zeros_is_told_and_not_drawn() -> None:
    told = CliRunner().invoke(main, ["explain", "sum(relu(x))", "--let", "x=[1,-2,3]", "--order", "2"]).output
    second = told.partition("All of it is 0: L has no curvature here.")[2]
    assert "double backward" in second
    assert "x1" not in second


def test_json_has_no_place_for_them() -> None:
    told = CliRunner().invoke(main, ["derive", "x @ a", "--order", "2", "--format", "json"])
    assert told.exit_code == 2
    assert "JSON has no field" in told.output


def test_what_only_broadcasts_an_operand_stands_in_the_line_that_reads_it() -> None:
    program, derived = symgrad.derive("exp(y * (X @ w)).sum()", wrt="w", shapes={"X": ("n", "d")})
    sized, values, seed = sample(program, {})
    lines = derive_double_backward(sized, [d.name for d in derived], values, seed)
    tensors = {tensor.name for tensor in lines.source.tensors()}
    defined = {*lines.inputs, *lines.seeds.values(), *(line.name for line in (*lines.forward, *lines.lines))}
    assert all(line.names & tensors <= defined for line in (*lines.forward, *lines.statements))
