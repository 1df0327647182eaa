"""The closed form of a gradient: views written out, simplified by the rules, and put into matrix notation.

Comes in: a program and the sweep that derived one input's gradient. Goes out: a `Form` or None.
"""

from __future__ import annotations

from dataclasses import dataclass

from symgrad.calculus import Step, Sweep, local
from symgrad.calculus.sweeps import substitute
from symgrad.closed_form.pieces import NoForm
from symgrad.closed_form.rules import simplify
from symgrad.closed_form.writer import Notation
from symgrad.indexing import Bracket, Equation
from symgrad.indexing.symbols import is_access
from symgrad.program import Program

LONGEST = 200
"""A longer text is no closed form that anyone would write."""


@dataclass(frozen=True)
class Form:
    """``text`` in torch's syntax, over v, out and the inputs; ``steps`` are the rules that led to it."""

    text: str
    equation: Equation
    steps: tuple[Step, ...]


def views(program: Program) -> dict[str, Equation]:
    """The intermediates that only move, scale or compare entries, by their equations."""
    found: dict[str, Equation] = {}
    for step in program.steps:
        equation = local(step, program).equation
        _, entry = equation.right.as_coeff_Mul(rational=True)
        if (is_access(entry) or isinstance(equation.right, Bracket)) and step.result.name != program.output:
            found[step.result.name] = substitute(equation, found)
    return found


def closed_form(program: Program, sweep: Sweep, wanted: str) -> Form | None:
    """The gradient by ``wanted`` in matrix notation; None where it has none that is short."""
    if not sweep.whole:
        return None
    equation = substitute(sweep.equation, views(program))
    steps: list[Step] = []
    right = simplify(equation.right, steps)
    try:
        piece = Notation(program).whole(right, equation.axes, wanted) if right != 0 else None
    except NoForm:
        return None
    text = f"zeros_like({wanted})" if piece is None else piece.text
    return Form(text, Equation(equation.axes, right), tuple(steps)) if len(text) <= LONGEST else None
