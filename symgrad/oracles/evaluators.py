"""What the oracles evaluate by themselves: a SymPy formula at a point, and array operations from their text.

Comes in: a SymPy formula over scalar symbols with a number for each; or text in Python's grammar over named arrays:
arithmetic, comparisons, positions in brackets, a dozen primitives (`symgrad.closed_form.array_text`); any other call is
one of the table's and is read by `symgrad.language`. Goes out: a number, NaN where the formula has no real one, and in
words how a float is none of the real numbers that SymPy computes with; or the array. Nothing of a text is run by
Python: a whitelist of syntax is walked, and what is not in it is refused.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Hashable, Iterable, Mapping
from fractions import Fraction
from operator import ge, gt, le, lt
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import SymgradError, UnsupportedError
from symgrad.functions import special
from symgrad.indexing.symbols import Expr
from symgrad.numeric import Array, as_float
from symgrad.numeric.exact import MOST_BITS, all_tame
from symgrad.numeric.playing import in_type

Read = Callable[[str, Mapping[str, Array]], Array]
"""How a call of the table is evaluated: its text and the arrays that it names."""
SIGNS: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip
CALLS: dict[str, Callable[..., Any]] = {
    "arange": np.arange, "eye": np.eye, "where": np.where, "ones_like": np.ones_like, "zeros_like": np.zeros_like,
    "atan2": np.arctan2, "copysign": np.copysign, "isfinite": np.isfinite, "round": np.round, "floor": np.floor,
    "lgamma": special.gammaln, "polygamma": special.polygamma, "abs": np.abs,
}  # fmt: skip
ATTRIBUTES = ("shape", "T", "mT")
METHODS: dict[str, Callable[..., Any]] = {
    "sum": lambda a, *axes: np.sum(a, axis=axes[0] if axes else None), "prod": lambda a, axis: np.prod(a, axis=axis),
    "clamp": np.clip, "expand": np.broadcast_to, "to": lambda a, _: a.astype(np.float64),
}  # fmt: skip


def evaluate_arrays(text: str, known: Mapping[str, Array], read: Read) -> Array:
    """The value of ``text``; raises `UnsupportedError` for what is no array operation."""
    *definitions, last = ast.parse(text.replace("; ", "\n")).body
    arrays = {name: in_type(array) for name, array in known.items()}
    with np.errstate(all="ignore"):
        for line in definitions:
            if not (isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name)):
                raise refusal(line)
            arrays[line.targets[0].id] = np.asarray(Walker(arrays, read).value(line.value))
        if not isinstance(last, ast.Expr):
            raise refusal(last)
        try:
            return np.asarray(Walker(arrays, read).value(last.value))
        except (ValueError, IndexError, TypeError) as error:
            raise UnsupportedError(f"this cannot be evaluated: {error}") from error


def refusal(node: ast.AST) -> SymgradError:
    """The complaint about what is not in the whitelist."""
    return UnsupportedError(f"this is no array operation: {ast.unparse(node)}")


def takes_one_of_several(node: ast.AST) -> bool:
    """Whether a call gives several tensors, of which one is taken: svd(x).U, split(x, 2)[1]."""
    if not (isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.value, ast.Call)):
        return False
    function = node.value.func
    if isinstance(node, ast.Attribute):
        return node.attr not in ATTRIBUTES
    return isinstance(function, ast.Name) and function.id not in CALLS and isinstance(node.slice, ast.Constant)


class Walker:
    """Walks an expression; ``arrays`` are what its names stand for."""

    def __init__(self, arrays: Mapping[str, Array], read: Read) -> None:
        self.arrays, self.read = arrays, read

    def value(self, node: ast.AST) -> Any:
        """The value of one node: an array, a number, a shape, or None and a slice between brackets."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and node.id in self.arrays:
            return self.arrays[node.id]
        if isinstance(node, ast.Tuple):
            return tuple(map(self.value, node.elts))
        if isinstance(node, ast.List):
            return [*map(self.value, node.elts)]
        if isinstance(node, ast.BinOp) and type(node.op) in SIGNS:
            return self.combined(type(node.op), self.value(node.left), self.value(node.right))
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in SIGNS:
            return SIGNS[type(node.ops[0])](self.value(node.left), self.value(node.comparators[0]))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            return -self.value(node.operand)
        if takes_one_of_several(node):
            return in_type(self.read(ast.unparse(node), self.arrays))
        if isinstance(node, ast.Subscript):
            return self.value(node.value)[self.places(node.slice)]
        if isinstance(node, ast.Attribute):
            return self.attribute(node)
        if isinstance(node, ast.Call):
            return self.called(node)
        raise refusal(node)

    def combined(self, sign: type[ast.AST], left: Any, right: Any) -> Any:
        """Two operands with a sign between them; torch subtracts no truth values and multiplies no matrices of them."""
        truths = [getattr(side, "dtype", None) == np.bool_ for side in (left, right)]
        if any(truths) and sign in (ast.Sub, ast.MatMult, ast.FloorDiv, ast.Mod):
            raise UnsupportedError("torch has no such arithmetic of booleans")
        fitting = (float(s) if isinstance(s, int) and s.bit_length() > 63 else s for s in (left, right))
        return SIGNS[sign](*fitting)

    def places(self, node: ast.AST) -> Any:
        """What stands between brackets; positions are whole numbers."""
        if isinstance(node, ast.Tuple):
            return tuple(map(self.places, node.elts))
        if isinstance(node, ast.Slice):
            return slice(*(None if end is None else self.value(end) for end in (node.lower, node.upper, node.step)))
        found = self.value(node)
        if any(isinstance(part, ast.Div) or getattr(part, "attr", "") == "to" for part in ast.walk(node)):
            raise UnsupportedError("positions have to be whole numbers")
        return found.astype(np.int64) if isinstance(found, (np.ndarray, np.generic)) else found

    def attribute(self, node: ast.Attribute) -> Any:
        """.shape, .T, .mT and math.pi."""
        if ast.unparse(node) == "math.pi":
            return math.pi
        if node.attr not in ATTRIBUTES:
            raise refusal(node)
        found = self.value(node.value)
        return found.shape if node.attr == "shape" else found.T if node.attr == "T" else found.swapaxes(-1, -2)

    def called(self, node: ast.Call) -> Any:
        """A primitive; else a call of the table, read by the language, on what its arguments come to."""
        function = node.func
        if isinstance(function, ast.Name) and function.id in CALLS and not node.keywords:
            return CALLS[function.id](*map(self.value, node.args))
        owned = isinstance(function, ast.Attribute) and not (
            isinstance(function.value, ast.Name) and function.value.id not in self.arrays
        )
        if isinstance(function, ast.Attribute) and owned:
            owner = self.value(function.value)
            if function.attr == "numel":
                return owner.size
            if function.attr in METHODS and not node.keywords:
                return METHODS[function.attr](owner, *map(self.value, node.args))
            return self.of_table(f"{{}}.{function.attr}", [owner], node)
        return self.of_table(ast.unparse(function), [], node)

    def of_table(self, name: str, owners: list[Any], node: ast.Call) -> Any:
        """An operation of the table."""
        named: dict[str, Array] = {}

        def told(found: Any) -> str:
            if isinstance(found, list):
                return f"[{', '.join(map(told, found))}]"
            if not isinstance(found, (np.ndarray, np.generic)):
                return repr(found)
            named[f"x{len(named)}"] = np.asarray(found.astype(np.float64) if found.dtype == np.bool_ else found)
            return f"x{len(named) - 1}"

        head = name.format(*map(told, owners))
        plain = [told(self.value(argument)) for argument in node.args]
        options = [f"{k.arg}={told(self.value(k.value))}" for k in node.keywords]
        return in_type(self.read(f"{head}({', '.join([*plain, *options])})", named))


DIGITS = 50
"""Digits of the numbers: three times those of a float, so that what cancels leaves enough."""

LARGEST_POWER = 2000
"""Exponents beyond this are put in as decimals: SymPy would write every digit of the power."""

FARTHEST = sp.Float(10) ** 10_000
"""Beyond this only what is `EASY`, and powers of a number, are evaluated: a sine would need all its digits."""
EASY = (sp.Add, sp.Mul, sp.log, sp.Abs, sp.sign, sp.Max, sp.Min, sp.Heaviside, sp.Piecewise)
BY_ROUNDING = "one of them by rounding"
COMPARED = {sp.Lt: lt, sp.Le: le, sp.Gt: gt, sp.Ge: ge}


def relation_holds(relation: Expr, first: Expr, second: Expr) -> bool:
    """Whether a relation holds between two numbers; to compare fractions SymPy takes a hundred times as long."""
    if relation.func in COMPARED and first.is_Rational and second.is_Rational:
        return bool(COMPARED[relation.func](first.p * second.q, second.p * first.q))
    return bool(relation.func(first, second))


def bits_of(value: Expr) -> int:
    """The bits of an exact number; 1 of any other."""
    return max(int(value.p).bit_length(), int(value.q).bit_length()) if value.is_Rational else 1


def shorten_power(base: Expr, exponent: Expr) -> list[Expr]:
    """Base and exponent of a power, as decimals where all its digits would be too many."""
    if not (base.is_number and exponent.is_number):
        return [base, exponent]
    long = abs(exponent) > LARGEST_POWER or abs(exponent) * bits_of(base) > MOST_BITS
    return [base.evalf(DIGITS) if long else base, exponent]


class EvaluationPoint:
    """The numbers of some symbols; every subformula is evaluated once, to `DIGITS`."""

    def __init__(self, numbers: Mapping[Expr, Expr]) -> None:
        self.known: dict[Expr, Expr] = dict(numbers)
        self._alike: dict[Hashable, tuple[Expr, tuple[Expr, ...]]] = {}
        self._slopes: dict[tuple[Expr, Expr], Expr] = {}

    def slopes(self, formula: Expr, symbols: Iterable[Expr]) -> list[Expr]:
        """The derivative of ``formula`` by each of ``symbols``, here.

        SymPy differentiates once what differs in nothing but its symbols.
        """
        met: dict[Expr, int] = {}
        alike, letters = self._alike.setdefault(with_symbols_numbered(formula, met), (formula, tuple(met)))
        numbers = {letter: self.known[symbol] for letter, symbol in zip(letters, met, strict=True)}
        point = self if alike is formula else EvaluationPoint(numbers)
        found = []
        for place in map(met.get, symbols):
            if place is not None and (alike, letters[place]) not in self._slopes:
                self._slopes[alike, letters[place]] = sp.diff(alike, letters[place])
            found.append(sp.S.Zero if place is None else point.value(self._slopes[alike, letters[place]]))
        return found

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
            return node.evalf(DIGITS) if node.is_NumberSymbol else sp.nan if node is sp.zoo else node
        parts = [self.value(a) for a in node.args]
        if any(part is sp.nan for part in parts):
            return sp.nan
        if node.is_Pow:
            parts = shorten_power(parts[0], parts[1])
        asked = parts[1:] if node.is_Pow else [] if isinstance(node, EASY) else parts
        if any(part.is_Float and abs(part) > FARTHEST for part in asked):
            return sp.nan
        try:
            found = node.func(*parts)
            found = found if found.is_Number and bits_of(found) <= MOST_BITS else found.evalf(DIGITS)
        except (TypeError, ValueError, OverflowError):
            return sp.nan
        return found if found.is_Number and found.is_extended_real else sp.nan  # δ(0), a jump's slope, is none


def with_symbols_numbered(formula: Expr, met: dict[Expr, int]) -> Hashable:
    """A formula but for its symbols, which are counted in ``met`` in order of appearance."""
    if formula.is_Symbol:
        return (met.setdefault(formula, len(met)),)
    return (formula.func, *(with_symbols_numbered(part, met) for part in formula.args)) if formula.args else formula


SAME = 1e-9
"""How far apart, relative to the larger, a number of the forward pass and SymPy's are the same."""


def describe_gap(value: Any, found: Expr) -> str:
    """How a number of the forward pass is not the real number ``found``; empty where it is."""
    if isinstance(value, Fraction):
        return ""
    here = float(value)
    if not np.isfinite(here) or not found.is_finite:
        return (
            f"an intermediate value is {here:.4g} in the program, SymPy "
            f"{'no number' if found is sp.nan else four_digits(found)}"
        )
    if abs(here - found) > SAME * max(abs(here), abs(found)):
        return f"an intermediate value is {here:.4g} in the program, SymPy {four_digits(found)}: {BY_ROUNDING}"
    return ""


def four_digits(found: Expr) -> str:
    """Four digits of a number; as text, because `format` hands it to `decimal`, which has no exp(1e300)."""
    return str(found.evalf(4))


def size_note(value: Any) -> str:
    """What is wrong with a number whose square floats do not hold; empty for others."""
    here = as_float(value)
    return "" if all_tame(here) else f"an intermediate value is {float(here):.4g}, whose square overflows or underflows"
