"""Where a run stands on a kink of the table, it is told: with the sides of torch's own forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import symgrad
import symgrad.explanation.kinks as kinks
import symgrad.explanation.ties as ties
from symgrad import operations
from symgrad.explanation.kinks import Tie
from symgrad.language import read_program
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.oracles.torch import run_torch
from tests.compare import assert_same

POINTS = [(op, at) for op in operations() for at in op.kinks]


def met(op: Any, at: float, shift: float = 0.0) -> tuple[Any, Mapping[str, Array], list[Tie]]:
    """The kinks that the first example of an operation stands on, with every entry of its inputs at a point."""
    example = op.examples[0]
    program = read_program(example.text, shapes=dict(example.shapes)).program
    draw = np.random.default_rng(0)
    inputs = {n: np.full(shape, at) + shift * draw.uniform(0.5, 1, shape) for n, shape in example.shapes}
    values, seed = forward(program, inputs), np.ones(program.numbers(program.out.shape))
    names = [name for name, _ in example.shapes if name not in op.data]
    passages: list[ties.Passage] = []
    numeric_pullback(program, values, seed, names, lambda *of: passages.append(ties.Passage(*of)))
    found = [*ties.find_ties(program, values, passages, lambda name, change: {name: change})]
    found += ties.find_switches(program, values, seed, names, passages)
    return program, inputs, found


SAMPLE = {
    "relu",
    "maximum",
    "amax",
    "norm",
    "less",
    "hardshrink",
    "max_pool1d",
    "floor",
    "atan2",
    "elu",
    "cdist",
    "sort",
}
BY_DEFAULT = [
    pytest.param(op, at, marks=[] if op.name in SAMPLE else pytest.mark.slow, id=f"{op.name} at {at:g}")
    for op, at in POINTS
]


@pytest.mark.parametrize(("op", "at"), BY_DEFAULT)
def test_a_run_that_stands_on_it_is_told(op: Any, at: float) -> None:
    """The sides that are said are those of torch's own forward pass, and nothing is said a little further on."""
    program, inputs, found = met(op, at)
    sides = kinks.kink_of(op, at)
    if abs(sides.left - sides.right) > 0.1:
        assert found
    for tie in found:
        assert tie.torch is not None
        assert_same(tie.torch, tie.here, tolerance=1e-9, what=tie.name)
        assert tie.legal

        def out(h: float, tie: Tie = tie) -> float:
            moved = {**inputs, tie.name: as_float(inputs[tie.name]).copy()}
            moved[tie.name][tie.at] += h
            answer = run_torch(program, moved, np.ones(program.numbers(program.out.shape)), [])
            assert answer is not None
            return float(answer.output.sum() if tie.whole else answer.output[tie.to])

        if len(program.steps) == 1 or tie.whole:
            low, here, high = out(-1e-6), out(0), out(1e-6)
            assert_same((out(-2e-6) - low) / -1e-6, tie.left, tolerance=1e-3, what="left")
            assert_same((out(2e-6) - high) / 1e-6, tie.right, tolerance=1e-3, what="right")
            assert tie.jump == (max(abs(low - here), abs(high - here)) > 1e-4)
    assert not met(op, at, 1e-4)[2]


def test_what_was_not_confirmed_is_not_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ties.Local, "quotients", lambda self, unit, sign: np.full(2, 0.25 * sign))
    assert "kink" not in symgrad.explain("relu(x)", x=[0, 1]).to_text(brief=True)
