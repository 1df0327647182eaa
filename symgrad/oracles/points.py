"""Explicit formulas at a point: what is not there is no number.

Comes in: a SymPy formula over scalar symbols, and a number for each symbol. Goes out: a number, or NaN where the
formula has no real one.

How a number of the forward pass is none of the real numbers that SymPy computes with.

Comes in: a float, and what SymPy has in its place. Goes out: the difference in words, empty where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import sympy as sp

from symgrad.exactness import MOST_BITS
from symgrad.indexing.symbols import Expr
from symgrad.numeric.exact import all_tame, as_float

DIGITS = 50
"""Digits of the numbers: three times those of a float, so that what cancels leaves enough."""

LARGEST_POWER = 2000
"""Exponents beyond this are put in as decimals: SymPy would write every digit of the power."""

FARTHEST = sp.Float("1e10000")
"""Beyond this only what is `EASY`, and powers of a number, are evaluated: a sine would need all its digits."""
EASY = (sp.Add, sp.Mul, sp.log, sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, sp.Piecewise)
BY_ROUNDING = "one of them by rounding"
COMPARED = {sp.Lt: lt, sp.Le: le, sp.Gt: gt, sp.Ge: ge}


def holds(relation: Expr, first: Expr, second: Expr) -> bool:
    """Whether a relation holds between two numbers; to compare fractions SymPy takes a hundred times as long."""
    if relation.func in COMPARED and first.is_Rational and second.is_Rational:
        return bool(COMPARED[relation.func](first.p * second.q, second.p * first.q))
    return bool(relation.func(first, second))


def bits_of(value: Expr) -> int:
    """The bits of an exact number; 1 of any other."""
    return max(int(value.p).bit_length(), int(value.q).bit_length()) if value.is_Rational else 1


def in_few_digits(base: Expr, exponent: Expr, digits: int = DIGITS) -> list[Expr]:
    """Base and exponent of a power, as decimals where all its digits would be too many."""
    if not (base.is_number and exponent.is_number):
        return [base, exponent]
    long = abs(exponent) > LARGEST_POWER or abs(exponent) * bits_of(base) > MOST_BITS
    return [base.evalf(digits) if long else base, exponent]


class Point:
    """The numbers of some symbols; every subformula is evaluated once, to so many ``digits``."""

    def __init__(self, numbers: Mapping[Expr, Expr], digits: int = DIGITS) -> None:
        self.known: dict[Expr, Expr] = dict(numbers)
        self.digits = digits

    def value(self, node: Expr) -> Expr:
        """A real number (exact where everything is), ±∞, or NaN.

        Each node is taken to so many digits and no more: SymPy's own evaluation asks for more and more of them where
        terms cancel, and for 1 − erf(800) it never ends.
        """
        if node not in self.known:
            self.known[node] = self._value(node)
        return self.known[node]

    def _value(self, node: Expr) -> Expr:
        if not node.args:
            return node.evalf(self.digits) if node.is_NumberSymbol else sp.nan if node is sp.zoo else node
        parts = [self.value(a) for a in node.args]
        if any(part is sp.nan for part in parts):
            return sp.nan
        if node.is_Pow:
            parts = in_few_digits(parts[0], parts[1], self.digits)
        asked = parts[1:] if node.is_Pow else [] if isinstance(node, EASY) else parts
        if any(part.is_Float and abs(part) > FARTHEST for part in asked):
            return sp.nan
        try:
            found = node.func(*parts)
            found = found if found.is_Number and bits_of(found) <= MOST_BITS else found.evalf(self.digits)
        except (TypeError, ValueError, OverflowError):
            return sp.nan
        return found if found.is_Number and found.is_extended_real else sp.nan  # δ(0), a jump's slope, is none


SAME = 1e-9
"""How far apart, relative to the larger, a number of the forward pass and SymPy's are the same."""


def apart(value: Any, found: Expr) -> str:
    """How a number of the forward pass is not the real number ``found``; empty where it is."""
    if isinstance(value, Fraction):
        return ""
    here = float(value)
    if not np.isfinite(here) or not found.is_finite:
        return f"on the way the program has {here:.4g}, SymPy {'no number' if found is sp.nan else written(found)}"
    if abs(here - found) > SAME * max(abs(here), abs(found)):
        return f"on the way the program has {here:.4g}, SymPy {written(found)}: {BY_ROUNDING}"
    return ""


def written(found: Expr) -> str:
    """Four digits of a number; as text, because `format` hands it to `decimal`, which has no exp(1e300)."""
    return str(found.evalf(4))


def untamed(value: Any) -> str:
    """What is wrong with a number whose square floats do not hold; empty for others."""
    here = as_float(value)
    return "" if all_tame(here) else f"on the way stands {float(here):.4g}, whose square is no float"
