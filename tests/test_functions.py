"""The scalar functions that carry a derivative of their own: each is proved from its definition by SymPy.

These are the only places where a derivative is written down, so none is believed: the definition in elementary
terms is differentiated, and held against what the function says.
"""

from __future__ import annotations

import numpy as np
import pytest
import sympy as sp

from symgrad.entries.along import EquationOnAxes, LossReading
from symgrad.entries.indexed import IndexedEquation
from symgrad.functions import ALSO, STABLE, Stable
from symgrad.indexing import Bracket
from symgrad.ops import equation_functions
from tests.compare import assert_same
from tests.entry_readings import SAID, reading

each = pytest.mark.parametrize("function", STABLE, ids=lambda function: function.__name__)
POINTS = [sp.Rational(n, 7) for n in (-19, -12, -5, -2, 1, 3, 6, 13, 24)]
"""Points that are no edge of any function here."""
FAR = (-800, -745, -40, 40, 710, 800)
SHARES = {"ndtri": [sp.Rational(n, 49) for n in (1, 7, 20, 33, 48)]}
"""Points of functions that take shares of 1 alone."""
EXTREME = {"ndtri": [sp.Rational(1, 10**20), sp.Rational(1, 10**9), 1 - sp.Rational(1, 10**9)]}


def defined(expression: sp.Expr) -> sp.Expr:
    """``expression`` in elementary terms: every function of the table by its definition, brackets as cases."""
    expression = expression.replace(lambda node: isinstance(node, Stable), lambda node: node.definition(*node.args))
    return expression.replace(
        lambda node: isinstance(node, Bracket), lambda node: sp.Piecewise((1, node.args[0]), (0, True))
    )


def slope(function: type[Stable], x: sp.Symbol) -> sp.Expr:
    """The derivative of the definition; a jump has none, and beside it a step is flat."""
    return sp.diff(function.definition(x), x).replace(sp.Derivative, lambda *_: sp.S.Zero)


@each
def test_the_derivative_follows_from_the_definition(function: type[Stable]) -> None:
    x = sp.Symbol("x", real=True)
    gap = slope(function, x) - defined(function(x).fdiff())
    for point in SHARES.get(function.__name__, POINTS):
        assert abs(sp.N(gap.xreplace({x: point}), 30)) < sp.Float("1e-25"), (function, point)


@pytest.mark.parametrize("name", ["sigmoid", "softplus"])
def test_the_smooth_ones_are_proved_for_every_number(name: str) -> None:
    (function,) = (f for f in STABLE if f.__name__ == name)
    x = sp.Symbol("x", real=True)
    assert sp.simplify(slope(function, x) - defined(function(x).fdiff())) == 0


@each
def test_the_value_is_the_definitions(function: type[Stable]) -> None:
    points = SHARES.get(function.__name__, POINTS)
    exact = [float(defined(function.definition(point)).evalf(30)) for point in points]
    assert_same(exact, function.evaluate(np.array([float(p) for p in points])), what=function.__name__)


@each
def test_the_value_does_not_overflow_where_the_function_is_finite(function: type[Stable]) -> None:
    for point in EXTREME.get(function.__name__, FAR):
        exact = sp.N(defined(function.definition(sp.sympify(point))), 30)
        with np.errstate(all="raise", under="ignore"):
            got = function.evaluate(np.array(float(point))) if abs(exact) < sp.Float("1e300") else np.array(np.inf)
        expected = float(exact) if abs(exact) < sp.Float("1e300") else np.inf
        assert_same(expected, got, what=f"{function.__name__} at {point}")


def test_the_proof_can_fail() -> None:
    class doubled(STABLE[0]):  # type: ignore[misc]  # noqa: N801 -- chosen from a table, and named as SymPy's are
        def fdiff(self, argindex: int = 1) -> sp.Expr:
            return 2 * self * (1 - self)

    with pytest.raises(AssertionError):
        test_the_derivative_follows_from_the_definition(doubled)


def test_what_goes_along_an_axis_is_no_function_of_one_number() -> None:
    """``cumsum(x[i])`` in an equation means nothing; only entries by themselves are words."""
    words = set(equation_functions()) - set(ALSO)  # max is the larger of two there
    assert not [
        op.name
        for op in SAID
        if isinstance(reading(op), (EquationOnAxes, LossReading, IndexedEquation)) and op.name in words
    ]
    assert {"gelu", "leaky_relu", "hypot"} <= set(equation_functions())
