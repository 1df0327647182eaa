"""The oracles' own evaluators: of a SymPy formula at a point, and of array operations from their text.

Comes in: a SymPy formula over scalar symbols with a number for each; or text in Python's grammar over named arrays:
arithmetic, comparisons, positions in brackets, a dozen primitives (`symgrad.closed_form.array_code`); any other call is
one of the table's and is read by `symgrad.language`. Goes out: a number, NaN where the formula has no real one, and in
words how a float is none of the real numbers that SymPy computes with; or the array. Nothing of a text is run by
Python: a whitelist of syntax is walked, and what is not in it is refused.
"""

from __future__ import annotations

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
from symgrad.language.python_text import write_python
from symgrad.language.syntax_tree import Attribute, Items, Literal, PythonCall, Slice, Subscript, Unary
from symgrad.language.trees import read_form
from symgrad.notation.tree import Binary, Dots, Name, SyntaxNode, walk
from symgrad.numeric import Array, as_float
from symgrad.numeric.exact import MOST_BITS, all_tame
from symgrad.numeric.playing import integers_or_floats

Read = Callable[[str, Mapping[str, Array]], Array]
"""How a call of the table is evaluated: its text and the arrays that it names."""
SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv, "//": operator.floordiv,
    "%": operator.mod, "**": operator.pow, "@": operator.matmul, "&": operator.and_, "<": operator.lt,
    "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
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
    form = read_form(text)
    arrays = {name: integers_or_floats(array) for name, array in known.items()}
    with np.errstate(all="ignore"):
        for name, value in form.definitions:
            arrays[name] = np.asarray(Walker(arrays, read).value(value))
        try:
            return np.asarray(Walker(arrays, read).value(form.last))
        except (ValueError, IndexError, TypeError) as error:
            raise UnsupportedError(f"this cannot be evaluated: {error}") from error


def refusal(node: SyntaxNode) -> SymgradError:
    """The complaint about what is not in the whitelist."""
    return UnsupportedError(f"this is no array operation: {write_python(node)}")


def takes_one_of_several(node: SyntaxNode) -> bool:
    """Whether a call gives several tensors, of which one is taken: svd(x).U, split(x, 2)[1]."""
    match node:
        case Attribute(PythonCall(), name):
            return name not in ATTRIBUTES
        case Subscript(PythonCall(Name(name)), [Literal()]):
            return name not in CALLS
    return False


class Walker:
    """Walks an expression; ``arrays`` are what its names stand for."""

    def __init__(self, arrays: Mapping[str, Array], read: Read) -> None:
        self.arrays, self.read = arrays, read

    def value(self, node: SyntaxNode) -> Any:
        """The value of one node: an array, a number, a shape, or None and a slice between brackets."""
        match node:
            case Literal(value):
                return value
            case Name(name) if name in self.arrays:
                return self.arrays[name]
            case Items(items, listed):
                return (list if listed else tuple)(map(self.value, items))
            case Binary(sign, left, right) if sign in SIGNS:
                return self.combined(sign, self.value(left), self.value(right))
            case Unary("-", operand):
                return -self.value(operand)
            case _ if takes_one_of_several(node):
                return integers_or_floats(self.read(write_python(node), self.arrays))
            case Subscript(owner, items):
                places = tuple(map(self.place, items))
                return self.value(owner)[places if len(places) > 1 else places[0]]
            case Attribute(Name("math"), "pi"):
                return math.pi
            case Attribute(owner, name) if name in ATTRIBUTES:
                found = self.value(owner)
                return found.shape if name == "shape" else found.T if name == "T" else found.swapaxes(-1, -2)
            case PythonCall():
                return self.called(node)
        raise refusal(node)

    def combined(self, sign: str, left: Any, right: Any) -> Any:
        """Two operands with a sign between them; torch subtracts no truth values and multiplies no matrices of them."""
        truths = [getattr(side, "dtype", None) == np.bool_ for side in (left, right)]
        if any(truths) and sign in ("-", "@", "//", "%"):
            raise UnsupportedError("torch has no such arithmetic of booleans")
        fitting = (float(s) if isinstance(s, int) and s.bit_length() > 63 else s for s in (left, right))
        return SIGNS[sign](*fitting)

    def place(self, node: SyntaxNode) -> Any:
        """One place between brackets; positions are whole numbers."""
        if isinstance(node, Slice):
            return slice(*(None if end is None else self.value(end) for end in (node.start, node.stop, node.step)))
        if isinstance(node, Dots):
            return ...
        found = self.value(node)
        for part in walk(node):
            if (isinstance(part, Binary) and part.sign == "/") or (isinstance(part, Attribute) and part.name == "to"):
                raise UnsupportedError("positions have to be whole numbers")
        return found.astype(np.int64) if isinstance(found, (np.ndarray, np.generic)) else found

    def called(self, node: PythonCall) -> Any:
        """A primitive; else a call of the table, read by the language, on what its arguments come to."""
        match node:
            case PythonCall(Name(name), positional, []) if name in CALLS:
                return CALLS[name](*map(self.value, positional))
            case PythonCall(Attribute(owner, name), positional, keywords) if not self.is_module(owner):
                found = self.value(owner)
                if name == "numel":
                    return found.size
                if name in METHODS and not keywords:
                    return METHODS[name](found, *map(self.value, positional))
                return self.of_table(f"{{}}.{name}", [found], node)
        return self.of_table(write_python(node.function), [], node)

    def is_module(self, node: SyntaxNode) -> bool:
        """Whether a name is that of no array."""
        return isinstance(node, Name) and node.name not in self.arrays

    def of_table(self, name: str, owners: list[Any], node: PythonCall) -> Any:
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
        plain = [told(self.value(argument)) for argument in node.positional]
        options = [f"{option.name}={told(self.value(option.value))}" for option in node.keywords]
        return integers_or_floats(self.read(f"{head}({', '.join([*plain, *options])})", named))


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
    """Four digits of a number; as text, because `format` hands it to ``decimal``, which has no exp(1e300)."""
    return str(found.evalf(4))


def size_note(value: Any) -> str:
    """What is wrong with a number whose square floats do not hold; empty for others."""
    here = as_float(value)
    return "" if all_tame(here) else f"an intermediate value is {float(here):.4g}, whose square overflows or underflows"
