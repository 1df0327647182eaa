"""Explicit formulas at a point: what is not there is no number, and no comparison of what is not real stops the work.

Comes in: a SymPy formula over scalar symbols, and a number for each symbol. Goes out: a number, or NaN where the
formula has no real one. A condition that does not hold beats whatever stands beside it, as in the index equations:
where the condition is false all around, that is the derivative.
"""

from __future__ import annotations

from collections.abc import Mapping

import sympy as sp

from symgrad.indexing.symbols import Expr

DIGITS = 50
"""Digits of the numbers: three times those of a float, so that what cancels leaves enough."""

LARGEST_POWER = 2000
"""Exponents beyond this are put in as decimals: SymPy would write every digit of the power."""


class Point:
    """The numbers of some symbols; every subformula is evaluated once."""

    def __init__(self, numbers: Mapping[Expr, Expr]) -> None:
        self.known: dict[Expr, Expr] = dict(numbers)

    def value(self, node: Expr) -> Expr:
        """A real number (exact where everything is), ±∞, or NaN.

        Each node is taken to `DIGITS` digits: SymPy's own evaluation asks for more and more of them where terms
        cancel, and for 1 − erf(800) it never ends.
        """
        if node not in self.known:
            self.known[node] = self._value(node)
        return self.known[node]

    def _value(self, node: Expr) -> Expr:
        if isinstance(node, sp.Piecewise):
            for value, condition in node.args:
                held = self.holds(condition)
                if held is not False:
                    return sp.nan if held is None else self.value(value)
            return sp.nan
        if not node.args:
            return node.evalf(DIGITS) if node.is_NumberSymbol else sp.nan if node is sp.zoo else node
        if node.is_Mul and any(self.value(factor) == 0 for factor in node.args if is_condition(factor)):
            return sp.S.Zero
        parts = [self.value(a) for a in node.args]
        if any(part is sp.nan for part in parts):
            return sp.nan
        if node.is_Pow and abs(parts[1]) > LARGEST_POWER:
            parts[0] = parts[0].evalf(DIGITS)
        try:
            found = node.func(*parts)
            found = found if found.is_Number else found.evalf(DIGITS)
        except (TypeError, ValueError, OverflowError):
            return sp.nan
        return found if found.is_extended_real else sp.nan

    def holds(self, condition: Expr) -> bool | None:
        """Whether a condition holds; None where it compares what is not a real number."""
        if condition in (sp.true, sp.false):
            return bool(condition)
        if not isinstance(condition, sp.core.relational.Relational):
            parts = [self.holds(a) for a in condition.args]
            return None if None in parts else bool(condition.func(*map(bool, parts)))
        sides = [self.value(a) for a in condition.args]
        return None if sp.nan in sides else bool(condition.func(*sides))


def is_condition(node: Expr) -> bool:
    """Whether ``node`` is 1 where something holds and 0 elsewhere."""
    return isinstance(node, sp.Piecewise) and all(value in (0, 1) for value, _ in node.args)
