"""How a result moves with its operands when it is not computed by a formula but solves an equation.

    F(x, out) = 0   →   Σ ∂F/∂x·dx + Σ ∂F/∂out·dout = 0,   and solved for dout:   dout = Σ ∂out/∂x·dx

Comes in: a step. Goes out: both lines as index equations in ``dx`` and ``dout``, derived from the step's own equations.
"""

from __future__ import annotations

from dataclasses import dataclass

import sympy as sp

from symgrad.calculus.differentiate import differentiate
from symgrad.calculus.local import local
from symgrad.indexing import Equation, access, accesses, add_up, fresh_axes
from symgrad.indexing.canonical import canonical
from symgrad.indexing.symbols import name_of
from symgrad.program import Apply, Program


@dataclass(frozen=True)
class Differential:
    """``identity`` are the equations with small changes put in, each 0; ``solved`` is dout."""

    identity: tuple[Equation, ...]
    solved: Equation


def small_change(name: str) -> str:
    """What a small change of a tensor is called."""
    return f"d{name}"


def differential(step: Apply, program: Program) -> Differential:
    """The differential of what ``step`` solves, and its solution.

    An equation that holds whatever is solved for, in which another result of the operands stands, has no line.
    """
    found = local(step, program)
    moving = dict.fromkeys((*step.tensors, step.result.name))
    identity = tuple(
        Equation(equation.axes, canonical(sp.Add(*(_moved(equation, name, program) for name in moving))))
        for equation in found.residual
        if {name_of(entry) for entry in accesses(equation.right)} <= set(moving)
    )
    (axes, *_) = (d.axes for d in found.derivatives.values())
    parts = []
    for position, d in found.derivatives.items():
        formula = d.formula.xreplace(dict(zip(d.axes, axes, strict=True)))
        parts.append(add_up(formula * access(small_change(str(step.arguments[position])), d.inner), d.inner))
    return Differential(identity, Equation(axes, canonical(sp.Add(*parts))))


def _moved(equation: Equation, name: str, program: Program) -> sp.Expr:
    """Σ ∂F/∂name·dname"""
    at = fresh_axes(program.tensor(name).shape)
    return add_up(differentiate(equation.right, name, at) * access(small_change(name), at), at)
