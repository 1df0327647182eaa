"""Second derivatives of an explanation: the Hessian by each pair of inputs, with its proofs.

Comes in: an `Explanation` (its program, its numbers, its weights). Goes out: a `Hessian`, frozen data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import combinations_with_replacement

import numpy as np
import sympy as sp

from symgrad.calculus import Sweep, second_derivative
from symgrad.closed_form import closed_form
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.explanation.claims import certain
from symgrad.explanation.data import Explanation
from symgrad.explanation.given import Seed, Writers
from symgrad.explanation.jacobian import Jacobian
from symgrad.indexing import Equation
from symgrad.indexing.symbols import Expr, accesses, name_of
from symgrad.numeric import Array, Values, plain, where_exact
from symgrad.numeric.evaluate import played
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
    value: Array
    jacobian: Jacobian
    constant: bool
    checks: tuple[Check, ...]
    written: Callable[[], str | None]

    @cached_property
    def closed_form(self) -> str | None:
        """The matrix in torch's syntax, proven when it is first asked for; None where there is no such form."""
        return self.written()

    @property
    def formula(self) -> Expr:
        """The index formula."""
        assert self.jacobian.formula is not None
        return self.jacobian.formula

    @property
    def passed(self) -> bool:
        """Whether no oracle disagreed."""
        return all(check.passed is not False for check in self.checks)


@lru_cache(maxsize=256)
def _derived(program: Program, first: str, second: str, alone: bool) -> Equation | None:
    """The second derivative as one equation, derived once; ``alone``: the weight of the one output is 1."""
    return second_derivative(program, first, second, Equation((), sp.S.One) if alone else None)


def curvature(program: Program, seed: Seed, first: str, second: str) -> Equation:
    """∂²L/∂first∂second as one index equation; raises `UnsupportedError` when the formula would be too long."""
    equation = _derived(program, first, second, not program.out.shape and seed.origin == "scalar")
    if equation is None:
        raise UnsupportedError(
            f"the second derivative by {first} and {second} is too long to be written as one formula",
            hints=("a shorter expression",),
        )
    return equation


def second_of(
    program: Program, values: Values, seed: Seed, first: str, second: str, writers: Writers | None
) -> Hessian:
    """The Hessian by two inputs in numbers, nothing checked; raises `UnsupportedError` when its formula is too long."""
    weights = where_exact(seed.value)
    equation, known = curvature(program, seed, first, second), values.with_arrays({program.seed: weights})
    found = played(equation, known.arrays, known.sizes)
    rank = len(program.tensor(first).shape)
    shapes = program.numbers(program.tensor(first).shape), program.numbers(program.tensor(second).shape)
    matrix = Jacobian(
        second, program, known, equation.axes[:rank], equation.axes[rank:], equation.right,
        (certain("hessian", "", "the Jacobian of the gradient"),), *shapes, writers, second=True,
    )  # fmt: skip
    constant = _constant(program, equation.right, (first, second))

    def written() -> str | None:
        return _form(program, values, weights, equation, first)[0]

    return Hessian(first, second, plain(found), matrix, constant, (), written)


def hessian_of(explanation: Explanation, first: str, second: str) -> Hessian:
    """The Hessian by two inputs of an explanation, with its proofs where that has some."""
    program, values, seed = explanation.program, explanation.values, explanation.seed_info
    found = second_of(program, values, seed, first, second, explanation.writers)
    form, form_check = _form(program, values, seed.value, curvature(program, seed, first, second), first)
    checks: tuple[Check, ...] = ()
    if explanation.checked:
        inputs = {given.name: given.value for given in explanation.inputs}
        numbers = np.reshape(found.value, found.jacobian.shape)
        checks = second_checks(program, inputs, where_exact(seed.value), first, second, numbers)
        checks += (form_check,) if form_check is not None else ()
    return replace(found, checks=checks, written=lambda: form)


def of_one_number(explanation: Explanation) -> Explanation:
    """``explanation``, unless its second derivatives would be those of nothing that the user named."""
    named_by_user(explanation.seed_info, explanation.output.shape)
    return explanation


def named_by_user(seed: Seed, out_shape: tuple[int, ...]) -> None:
    """Refuse second derivatives of what is no one number that the user named."""
    if seed.origin == "downstream":
        raise InputError(
            "second derivatives are those of one expression", hints=("write the scalar as the expression",)
        )
    if seed.origin == "assumed":
        raise ShapeError(
            "a Hessian is that of one number, and out has more than one entry",
            found=(f"out is {'×'.join(map(str, out_shape))}",),
            hints=("sum(…) around the expression", "a seed: the Hessian of Σ v·out"),
        )


def with_hessians(explanation: Explanation) -> Explanation:
    """The second derivatives by every pair of inputs beside the first ones."""
    pairs = combinations_with_replacement(of_one_number(explanation).gradients, 2)
    return replace(explanation, hessians={pair: hessian_of(explanation, *pair) for pair in pairs})


def _form(
    program: Program, values: Values, seed: Array, equation: Equation, first: str
) -> tuple[str | None, Check | None]:
    """The Hessian in matrix notation, shown only after it was read back and agreed with the formula."""
    sweep = Sweep(((first, equation),))
    written = closed_form(program, sweep, first) if equation.right != 0 else None
    if written is None:
        return None, None
    checked = check_form(written.text, program, sweep, values, seed)
    return (written.text, checked) if checked.passed else (None, None)


def _constant(program: Program, formula: Expr, inputs: tuple[str, str]) -> bool:
    """Whether the formula reads neither of the two inputs, nor a forward value."""
    results = {step.result.name for step in program.steps}
    return not any(name_of(entry) in results | set(inputs) for entry in accesses(formula))
