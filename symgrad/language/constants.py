"""Arithmetic on what is not a tensor: integers, fractions, decimal numbers, and sizes of axes.

Integers and fractions stay exact (``1/2`` is a half, not 0.5), decimal numbers stay floats, and an expression
in sizes stays SymPy's. A result that is not finite (but of an infinity that is written), that no 64-bit
integer can hold, or that would take long to work out (``9**9**9``) is refused instead of computed. Errors carry no
span: the caller adds it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy as sp

from symgrad.errors import DomainError, InputError, NotationError, UnsupportedError
from symgrad.program import Number

LARGEST = 10**18
"""Numerators and denominators stay below this."""
LARGEST_POWER = 100
"""Exponents over sizes stay below this."""


def is_scalar(value: object) -> bool:
    """Whether ``value`` is a constant: an int (no bool), a float, a Fraction or a size."""
    return isinstance(value, (int, float, Fraction, sp.Expr)) and not isinstance(value, bool)


def simplify_number(value: Any) -> Number:
    """``value`` in its simplest type; refuses what is not finite or does not fit 64 bits.

    >>> simplify_number(Fraction(4, 2)), simplify_number(sp.Rational(1, 2))
    (2, Fraction(1, 2))
    """
    if isinstance(value, sp.Expr):
        if value.free_symbols:
            return value
        if value.is_Rational:
            value = Fraction(int(value.p), int(value.q))
        elif value.is_real and value.is_finite:
            value = float(value)
        else:
            raise InputError("this constant is not a finite real number", found=(str(value),))
    if isinstance(value, complex):
        raise DomainError("this constant is not a real number")
    if isinstance(value, float):
        if not math.isfinite(value):
            raise InputError("this constant is not finite", found=(str(value),))
        return value
    fraction = Fraction(value)
    if max(abs(fraction.numerator), fraction.denominator) > LARGEST:
        raise InputError("this constant is too long to be exact", hints=("a decimal number, such as 1e30",))
    return fraction.numerator if fraction.denominator == 1 else fraction


def combine_constants(sign: str, left: Number, right: Number) -> Number:
    """``left sign right``.

    >>> combine_constants("/", 1, 2), combine_constants("**", 2, 0.5)
    (Fraction(1, 2), 1.4142135623730951)
    """
    if sign not in ARITHMETIC:
        told = f"{sign} between two constants is not supported"
        raise UnsupportedError(told, hints=("at least one side has to be a tensor",))
    symbolic = isinstance(left, sp.Expr) or isinstance(right, sp.Expr)
    try:
        infinite = any(isinstance(side, float) and math.isinf(side) for side in (left, right))
        sides = [left, right]
        if sign != "**":
            exact = [Fraction(side) if isinstance(side, int) else side for side in sides]  # 1/2 is a half, not 0
            sides = [sp.sympify(side, strict=True) for side in sides] if symbolic else exact
        found = ARITHMETIC[sign](*sides)
        return refuse_nan(found) if infinite and (sign == "**" or not symbolic) else simplify_number(found)
    except ZeroDivisionError:
        raise DomainError("division by zero") from None
    except OverflowError:
        raise InputError("this constant is too large") from None


def refuse_nan(value: float) -> float:
    """What comes of an infinity that the text writes: infinite, or 0 where something is divided by it.

    >>> combine_constants("*", -2, math.inf), combine_constants("/", 1, math.inf)
    (-inf, 0.0)
    """
    if math.isnan(value):
        raise InputError("this constant is not a number", found=(str(value),))
    return value


def known_divisor(left: Any, right: Any) -> Any:
    """``right``, refused beside sizes without a number: // and % of them depend on it."""
    if any(isinstance(v, sp.Expr) and v.free_symbols for v in (left, right)):
        raise UnsupportedError("// and % need sizes that are known", hints=("give the tensor a shape",))
    return refuse_zero(right)


def refuse_zero(divisor: Any) -> Any:
    """``divisor``; SymPy would give 1/0 a name."""
    if divisor == 0:
        raise ZeroDivisionError
    return divisor


def power_of_constants(base: Any, exponent: Any) -> Any:
    """base ** exponent, refused before it is computed where it would be huge."""
    if isinstance(exponent, sp.Expr):
        raise UnsupportedError("an exponent cannot be a size")
    if isinstance(base, sp.Expr):
        if abs(exponent) > LARGEST_POWER or any(abs(p.exp) > LARGEST_POWER for p in base.atoms(sp.Pow)):
            raise InputError(f"the exponent is larger than {LARGEST_POWER}")
        return base ** (sp.Rational(Fraction(exponent)) if Fraction(exponent).denominator <= 64 else exponent)
    if isinstance(base, float) or isinstance(exponent, float) or Fraction(exponent).denominator != 1:
        return float(base) ** float(exponent)
    whole = Fraction(base)
    digits = math.log10(max(abs(whole.numerator), whole.denominator))
    if digits * abs(exponent) > math.log10(LARGEST) + 1:
        raise InputError("this power is too large to be exact", hints=("decimal numbers: 2.0**100",))
    return whole ** int(exponent)


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: a / refuse_zero(b),
    "//": lambda a, b: a // known_divisor(a, b),
    "%": lambda a, b: a % known_divisor(a, b),
    "**": power_of_constants,
}

FUNCTIONS: dict[str, Callable[[float], float]] = {
    "sqrt": math.sqrt,
    "exp": math.exp,
    "log": math.log,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "tanh": math.tanh,
    "abs": abs,
}
"""What may be applied to a constant."""
ON_SIZES = {"sqrt": sp.sqrt, "log": sp.log}
"""What may be applied to a size: √n is what people divide by."""

INFINITY = math.inf
NAMED = {"pi": math.pi, "π": math.pi, "e": math.e, "inf": INFINITY, "nan": math.nan}
"""``math.pi``, ``np.e``, ``torch.inf``."""


def parse_float(value: object) -> float:
    """``float("-inf")``: the numbers that have no digits, and a number as a decimal one.

    >>> parse_float("-inf"), parse_float(2)
    (-inf, 2.0)
    """
    words = {"inf": INFINITY, "infinity": INFINITY, "nan": math.nan}
    if isinstance(value, str) and (word := value.strip().lower()).lstrip("+-") in words and word.count("-") < 2:
        return -words[word[1:]] if word[0] == "-" else words[word.lstrip("+")]
    if isinstance(value, (int, float, Fraction)) and not isinstance(value, bool):
        return float(value)
    raise NotationError("float takes a number, or 'inf', '-inf', 'nan'", found=(repr(value),) * isinstance(value, str))


def apply_to_constant(name: str, value: Number) -> Number:
    """The function of a constant: ``math.sqrt(2)``, or √n of a size."""
    if isinstance(value, sp.Expr) and name not in ON_SIZES:
        raise UnsupportedError(f"{name} of a size is not supported")
    try:
        if isinstance(value, sp.Expr):
            return simplify_number(ON_SIZES[name](value))
        found = abs(value) if name == "abs" else FUNCTIONS[name](float(value))
        return refuse_nan(found) if isinstance(value, float) and math.isinf(value) else simplify_number(found)
    except (ValueError, OverflowError):
        raise DomainError(f"{name}({value}) is not a finite real number") from None
