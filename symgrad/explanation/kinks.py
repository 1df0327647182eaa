"""Kinks and jumps as data and in words: of one operation at a point, and at the numbers of a run.

A `Kink` is an operation of the table at a point: the derivatives to the left and right of it, and the number chosen
there. The sides are derived; torch's choice is taken from the installed torch, since it differs between versions. A
`Tie` is an entry of a run at which a step has two slopes; `symgrad.explanation.ties` finds them. Bisection selects some
of many ties at which a change affects a gradient (`find_ties_that_count`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from symgrad.errors import UnsupportedError
from symgrad.language.inference import read_program
from symgrad.numeric import Array, as_float, forward, numeric_pullback
from symgrad.ops import Op
from symgrad.oracles.numerical import ONE_SIDED, lies_between, same_slope
from symgrad.oracles.torch import run_torch
from symgrad.oracles.torch_rules import OwnNumber, own_numbers
from symgrad.program import Apply, Program

STEP, STEP_LEAVES = 1e-7, 1e-5
"""The distance from the kink at which its sides are evaluated, and the error that it may cause."""
SAME = 1e-9
"""The difference from torch's derivative that counts as equal."""


@dataclass(frozen=True)
class Kink:
    """∂L/∂x₀ of ``text`` with every entry of its inputs equal to ``at``, and L the sum of the outputs.

    ``left`` and ``right`` are the derivatives slightly below and above, ``here`` is the derivative by symgrad's
    equation at the point, ``torch`` that of torch ``version``; both are None if torch is not installed.
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
        """Whether the number chosen lies between the two sides, as a generalised derivative does."""
        return lies_between(self.here, (self.left, self.right), STEP_LEAVES)

    @property
    def agrees(self) -> bool | None:
        """Whether torch chooses the same number; None without torch."""
        if self.torch is None:
            return None
        return bool(np.isclose(self.torch, self.here, rtol=0, atol=SAME, equal_nan=True))

    @property
    def told(self) -> tuple[str, str, str]:
        """Left, right and here as text, rounded to the accuracy of the step, without a negative zero."""
        left, right, here = (f"{round(value, 4) + 0.0:.4g}" for value in (self.left, self.right, self.here))
        return left, right, here


def kink_of(op: Op, at: float) -> Kink:
    """Return the derivatives of ``op`` around ``at``; raise `UnsupportedError` if its operands are positions."""
    example = op.examples[0]
    program = read_program(example.text, shapes=dict(example.shapes)).program
    name = next((n for n, _ in example.shapes if n not in op.data), None)
    if name is None or any(op.domain_of(n).whole for n, _ in example.shapes):
        raise UnsupportedError(f"{op.name} reads positions: one number for all entries makes no sense")
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
    """Return ±∞ if the derivative grows towards the point, else ``beside``."""
    return float(np.copysign(np.inf, nearer)) if abs(nearer) > 2 * abs(beside) else beside


def edges_of(op: Op) -> Iterator[tuple[str, str, OwnNumber]]:
    """Iterate over text, point and number of each edge of ``op`` at which torch has a number of its choice.

    The text is the first example that shows such a number.
    """
    for edge in op.limits.edges:
        at = ", ".join(f"{n} = {value:g}" for n, value in edge.items())
        for example in (e for e in op.examples if {*edge} <= {n for n, _ in e.shapes}):
            program = read_program(example.text, shapes=dict(example.shapes)).program
            found = [*own_numbers(program, edge, [n for n, _ in example.shapes if n not in op.data])]
            yield from ((example.text, at, own) for own in found)
            if found:
                break


def _derivative(program: Program, inputs: dict[str, Array], name: str, shift: float) -> float:
    """Return the derivative with respect to the first entry of an input, with that entry moved by ``shift``."""
    moved = inputs[name].copy()
    moved.reshape(-1)[0] += shift
    values = forward(program, {**inputs, name: moved})
    if shift and np.isnan(as_float(values[program.output])).any():
        return float("nan")  # beside the point there is no function
    weights = np.ones(program.numbers(program.out.shape))
    return float(as_float(numeric_pullback(program, values, weights, [name])[name]).reshape(-1)[0])


Place = tuple[int, ...]
TRIED = 8
"""The most entries of one step to test."""


@dataclass(frozen=True, eq=False)
class Tie:
    """An entry of ``name`` at which ``step`` has two slopes, or is discontinuous (``jump``).

    ``left``, ``here`` and ``right`` are the derived ∂out[to]/∂name[at], ``torch`` is the number of torch ``version``.
    ``count`` entries of ``name`` are such ties. ``whole``: the slopes are those of Σ v·out. If moving all tied entries
    together has one slope, that is ``together``, and the numbers chosen must add up to it. ``alone``: that is not the
    only condition (at 0 the slopes of a norm have norm 1 at most).
    """

    step: Apply
    name: str
    at: Place
    value: float
    to: Place
    left: float
    here: float
    right: float
    torch: float | None
    version: str | None
    count: int = 1
    jump: bool = False
    whole: bool = False
    together: float | None = None
    alone: bool = False

    @property
    def legal(self) -> bool:
        """Whether the number chosen lies between the two sides."""
        return lies_between(self.here, (self.left, self.right), ONE_SIDED)

    def says(self, name: str, step: str, total: str) -> str:
        """Return the tie as a sentence; ``name``, ``step`` and ``total`` are the names of the tensor, step and Σ v·out.

        ``x[0] = 0 is a kink of relu: left 0, right 1, anything between is legal; torch 2.13.0 takes 0``
        """
        entry = f"{name}[{','.join(map(str, self.at))}]" if self.at else name
        left, here, right = map(_digits, (self.left, self.here, self.right))
        who, many = f"{entry} = {_digits(self.value)}", f", one of {self.count} such entries" if self.count > 1 else ""
        sides = f"{left} on both sides" if left == right else f"{left} on the left, {right} on the right"
        if self.whole:
            told = f"{who} is where {step} switches: the slope of {total} is {sides}"
        elif self.jump:
            told = f"{who} is a jump of {step}{many}: its slope is {sides}, and there is none at the jump"
        else:
            told = f"{who} is a kink of {step}{many}: left {left}, right {right}, "
            told += "for this entry alone " if self.legal and self.alone else ""
            told += "anything between is legal" if self.legal else f"and {here} does not lie between them"
            if self.legal and self.together is not None:
                told += ", and" if self.alone else " as long as"
                told += f" the slopes of all tied entries add up to {_digits(self.together)}"
        return f"{told}; {self._taken()}"

    def _taken(self) -> str:
        """Return torch's number, and symgrad's if it differs."""
        if self.torch is None:
            return f"symgrad takes {_digits(self.here)}"
        taken = f"torch {self.version} takes {_digits(self.torch)}"
        return taken if same_slope(self.torch, self.here) else f"{taken}, symgrad {_digits(self.here)}"


def find_ties_that_count(places: Sequence[Place], shape: Place, counts: Callable[[Array], bool]) -> list[Place]:
    """Return some of ``places``, beginning with one at which a change affects a gradient, found by bisection."""
    drawn = np.random.default_rng(6).uniform(0.5, 1.5, len(places))

    def change(some: Sequence[int]) -> Array:
        array: Array = np.zeros(shape)
        for n in some:
            array[places[n]] = drawn[n]
        return array

    left = list(range(len(places)))
    if not left or not counts(change(left)):
        return []
    while len(left) > 1:
        half = left[: len(left) // 2]
        left = half if counts(change(half)) else left[len(left) // 2 :]
    return list(places[left[0] : left[0] + TRIED])


def _digits(value: float) -> str:
    """Format a number with four digits, and 0 without a sign."""
    return "0" if abs(value) < ONE_SIDED**3 else f"{value:.4g}"
