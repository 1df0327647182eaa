"""Second derivatives of an explanation: the Hessian by each pair of inputs, with its proofs.

Comes in: an `Explanation` (its program, its numbers, its weights). Goes out: a `Hessian`, frozen data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

import sympy as sp

from symgrad.calculus import Sweep, second_derivative
from symgrad.closed_form import closed_form
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.explanation.claims import certain
from symgrad.explanation.data import Explanation, Jacobian
from symgrad.indexing import Equation
from symgrad.indexing.symbols import Expr, accesses, name_of
from symgrad.numeric import Array, Values, evaluate, plain, where_exact
from symgrad.oracles import Check, check_form, second_checks
from symgrad.program import Program


@dataclass(frozen=True, eq=False)
class Hessian:
    """∂²L/∂first∂second with L = Σ v·out; ``value`` has the shape of ``first``, then that of ``second``.

    ``closed_form`` is text in torch's syntax where both inputs are vectors or numbers, or None; ``jacobian``
    is the same matrix as the Jacobian of the gradient by ``first``: formula, symbols, numbers, labels.
    """

    first: str
    second: str
    closed_form: str | None
    value: Array
    jacobian: Jacobian
    constant: bool
    checks: tuple[Check, ...]

    @property
    def formula(self) -> Expr:
        """The index formula."""
        assert self.jacobian.formula is not None
        return self.jacobian.formula

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)


def curvature(explanation: Explanation, first: str, second: str) -> tuple[Equation, Values]:
    """∂²L/∂first∂second as one index equation, and the numbers of every tensor that it reads.

    Raises `UnsupportedError` when the formula would be too long.
    """
    program = explanation.program
    single = Equation((), sp.S.One) if not program.out.shape and explanation.seed_info.origin == "scalar" else None
    equation = second_derivative(program, first, second, single)
    if equation is None:
        raise UnsupportedError(
            f"the second derivative by {first} and {second} is too long to be written as one formula",
            hints=("a shorter expression",),
        )
    return equation, explanation.values.with_arrays({program.seed: where_exact(explanation.seed)})


def hessian_of(explanation: Explanation, first: str, second: str) -> Hessian:
    """The Hessian by two inputs; raises `UnsupportedError` when its formula would be too long."""
    program, values = explanation.program, explanation.values
    equation, known = curvature(explanation, first, second)
    found = evaluate(equation, known.arrays, known.sizes)
    rank = len(program.tensor(first).shape)
    shapes = values[first].shape, values[second].shape
    matrix = Jacobian(
        second, program, known, equation.axes[:rank], equation.axes[rank:], equation.right,
        (certain("hessian", "", "the Jacobian of the gradient"),), *shapes, explanation.writers,
    )  # fmt: skip
    form, form_check = _form(explanation, equation, first)
    checks: tuple[Check, ...] = ()
    if explanation.checked:
        inputs = {given.name: given.value for given in explanation.inputs}
        checks = second_checks(program, inputs, known[program.seed], first, second, found.reshape(matrix.shape))
        checks += (form_check,) if form_check is not None else ()
    return Hessian(
        first, second, form, plain(found), matrix, _constant(program, equation.right, (first, second)), checks
    )


def of_one_number(explanation: Explanation) -> Explanation:
    """``explanation``, unless its second derivatives would be those of nothing that the user named."""
    origin = explanation.seed_info.origin
    if origin == "downstream":
        raise InputError(
            "second derivatives are those of one expression", hints=("write the scalar as the expression",)
        )
    if origin == "assumed":
        raise ShapeError(
            "a Hessian is that of one number, and out has more than one entry",
            found=(f"out is {'×'.join(map(str, explanation.output.shape))}",),
            hints=("sum(…) around the expression", "a seed: the Hessian of Σ v·out"),
        )
    return explanation


def with_hessians(explanation: Explanation) -> Explanation:
    """The second derivatives by every pair of inputs beside the first ones."""
    pairs = combinations_with_replacement(of_one_number(explanation).gradients, 2)
    return replace(explanation, hessians={pair: hessian_of(explanation, *pair) for pair in pairs})


def _form(explanation: Explanation, equation: Equation, first: str) -> tuple[str | None, Check | None]:
    """The Hessian in matrix notation, shown only after it was read back and agreed with the formula."""
    sweep = Sweep(((first, equation),))
    written = closed_form(explanation.program, sweep, first) if equation.right != 0 else None
    if written is None:
        return None, None
    checked = check_form(written.text, explanation.program, sweep, explanation.values, explanation.seed)
    return (written.text, checked) if checked.passed else (None, None)


def _constant(program: Program, formula: Expr, inputs: tuple[str, str]) -> bool:
    """Whether the formula reads neither of the two inputs, nor a forward value."""
    results = {step.result.name for step in program.steps}
    return not any(name_of(entry) in results | set(inputs) for entry in accesses(formula))
