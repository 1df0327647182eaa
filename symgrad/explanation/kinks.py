"""What an operation's derivative is at a kink: left of it, right of it, and the number that is chosen there.

Comes in: an operation of the table and a point. Goes out: a `Kink`. The sides are derived; torch's choice is asked of
the torch that is installed, because it differs between versions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from symgrad.entries.spec import Example
from symgrad.errors import UnsupportedError
from symgrad.language.read import read
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.ops import Op
from symgrad.oracles import run_torch
from symgrad.oracles.own_rule import own_numbers
from symgrad.oracles.verdict import legal
from symgrad.program import Program

STEP, ROUNDING = 1e-7, 1e-5
"""How far from the kink its sides are looked at, and what that may do to their derivatives."""
SAME = 1e-9
"""How far a derivative may be from torch's and be the same."""


@dataclass(frozen=True)
class Kink:
    """∂L/∂x₀ of ``text`` with every entry of its inputs at ``at``, L the sum of the outputs.

    ``left`` and ``right`` have x₀ a little below and above; ``here`` is what symgrad's equation says at the point,
    ``torch`` what torch ``version`` answers, both None where torch is not installed.
    """

    op: str
    text: str
    at: float
    left: float
    here: float
    right: float
    torch: float | None
    version: str | None

    @property
    def legal(self) -> bool:
        """Whether the choice lies between the two sides, as a generalised derivative does."""
        return legal(self.here, (self.left, self.right), ROUNDING)

    @property
    def agrees(self) -> bool | None:
        """Whether torch chooses the same number; None where it was not asked."""
        if self.torch is None:
            return None
        return bool(np.isclose(self.torch, self.here, rtol=0, atol=SAME, equal_nan=True))

    @property
    def told(self) -> tuple[str, str, str]:
        """Left, right and here, without what the step beside the kink does to them, and without a negative zero."""
        left, right, here = (f"{round(value, 4) + 0.0:.4g}" for value in (self.left, self.right, self.here))
        return left, right, here


def kink_of(op: Op, at: float) -> Kink:
    """The derivative of ``op`` around ``at``; raises `UnsupportedError` when it takes nothing but numbers to read."""
    example = op.examples[0]
    program = read(example.text, shapes=dict(example.shapes)).program
    name = next((n for n, _ in example.shapes if n not in op.data), None)
    if name is None or any(op.domain_of(n).whole for n, _ in example.shapes):
        raise UnsupportedError(f"{op.name} reads positions: there is no one number to put everywhere")
    inputs = {n: np.full(shape, float(at)) for n, shape in example.shapes}
    left, here, right = (_derivative(program, inputs, name, shift) for shift in (-STEP, 0.0, STEP))
    if not np.isfinite(here):
        left, right = (
            _limit(side, _derivative(program, inputs, name, n * STEP)) for n, side in ((-0.01, left), (0.01, right))
        )
    weights = np.ones(program.numbers(program.out.shape))
    answer = run_torch(program, inputs, weights, [name])
    gradient = None if answer is None else answer.gradients[name]
    chosen = None if answer is None else 0.0 if gradient is None else float(gradient.reshape(-1)[0])
    return Kink(op.name, example.text, float(at), left, here, right, chosen, answer.version if answer else None)


def _limit(beside: float, nearer: float) -> float:
    """∞ where a derivative grows on the way to the point."""
    return float(np.copysign(np.inf, nearer)) if abs(nearer) > 2 * abs(beside) else beside


@dataclass(frozen=True)
class EdgeRule:
    """∂L/∂x₀ by one operand of ``text`` where there is no derivative: what the equation gives, and torch's number."""

    op: str
    text: str
    at: str
    by: str
    here: float
    torch: float


def edges_of(op: Op) -> Iterator[EdgeRule]:
    """What torch does at each edge of ``op``, by each operand for which that is its own choice."""
    for edge in op.edges:
        fitting = [e for e in op.examples if {*edge} <= {n for n, _ in e.shapes}]
        yield from next((found for e in fitting if (found := list(_rules(op, edge, e)))), [])


def _rules(op: Op, edge: Mapping[str, float], example: Example) -> Iterator[EdgeRule]:
    """`edges_of` for one edge and one example: a row for each operand."""
    program = read(example.text, shapes=dict(example.shapes)).program
    at = ", ".join(f"{n} = {value:g}" for n, value in edge.items())
    for own in own_numbers(program, edge, [n for n, _ in example.shapes if n not in op.data]):
        yield EdgeRule(op.name, example.text, at, own.by, own.here, own.torch)


def _derivative(program: Program, inputs: dict[str, Array], name: str, shift: float) -> float:
    """The derivative by the first entry of an input, which is moved by ``shift``."""
    moved = inputs[name].copy()
    moved.reshape(-1)[0] += shift
    values = forward(program, {**inputs, name: moved})
    if shift and np.isnan(as_float(values[program.output])).any():
        return float("nan")  # beside the point there is no function
    weights = np.ones(program.numbers(program.out.shape))
    return float(as_float(numeric_pullback(program, values, weights, [name])[name]).reshape(-1)[0])
