"""No index of a formula is bound twice: a formula never meets its own indices."""

from __future__ import annotations

from typing import Any

import pytest
import sympy as sp

from symgrad.calculus import local_jacobian, pullback
from symgrad.calculus.reverse_sweep import jacobian_formula, second_derivative, substitute
from symgrad.indexing import (
    Equation,
    access,
    fresh,
)  # fmt: skip
from symgrad.language import read_program


def bound_again(expression: Any, around: frozenset[Any]) -> set[Any]:
    """The indices that are bound although they are bound, or free, around it."""
    if not isinstance(expression, (sp.Sum, sp.Product)):
        return set().union(*(bound_again(part, around) for part in expression.args))
    here = {limit[0] for limit in expression.limits}
    return (here & around) | bound_again(expression.function, around | here)


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        ("x @ x @ x", {"x": (3, 3)}),
        ("logsumexp(x - logsumexp(x, dim=0), dim=0)", {"x": (3,)}),
        ("sum((x @ x.T) * (x @ x.T))", {"x": (2, 3)}),
        ("y = x @ a; (y @ a) * y.sum() + y", {"x": (2, 3), "a": (3, 3)}),
    ],
)
def test_a_formula_never_meets_its_own_indices(text: str, shapes: dict[str, tuple[int, ...]]) -> None:
    """The formulas of a step are the same objects whenever they are asked for; put in twice, they are renamed."""
    program = read_program(text, shapes=shapes).program
    formulas = [pullback(program, name, limit=10_000).equation for name in shapes]
    for name in shapes:
        found = jacobian_formula(program, name, limit=10_000)
        assert found is not None
        formulas.append(Equation((*found[0], *found[1]), found[2].equation.right))
        formulas.append(second_derivative(program, name, name) or pytest.fail("too long"))
    known = {step.result.name: local_jacobian(step, program).equation for step in program.steps}
    formulas += [substitute(substitute(equation, known), known) for equation in known.values()]
    for equation in formulas:
        assert not bound_again(equation.right, frozenset(equation.axes))
        again = equation.right * equation.at(equation.axes)
        assert not bound_again(again, frozenset(equation.axes))


def test_an_index_that_is_bound_twice_would_be_seen() -> None:
    i = fresh("i", sp.Integer(3))
    inner = sp.Sum(access("x", (i,)), (i, 0, 2))
    assert bound_again(sp.Sum(inner * access("y", (i,)), (i, 0, 2)), frozenset()) == {i}
    assert bound_again(inner, frozenset((i,))) == {i}
    assert not bound_again(inner * inner, frozenset())
