"""The order in which a formula is read: which factor comes first, what stands under the fraction line.

SymPy keeps products and sums in an order of its own. Comes in: an expression and the `Names` in scope. Goes
out: its factors and terms as a person would put them. Factors: numbers, sizes, deltas and index conditions,
then what carries the first index of the left-hand side (the seed before others, entries before functions),
sums last. Terms: positive ones first, plain numbers after the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from typing import Any

import sympy as sp

from symgrad.functions import sign
from symgrad.indexing import Bracket, Index, is_constant
from symgrad.indexing.symbols import ByText, Expr, accesses, free_indices, indices_of, is_access, name_of
from symgrad.render.letters import Names

Key = tuple[Any, ...]
LARGEST_DENOMINATOR = 12
"""Denominators up to this are taken out of a sum."""
SMALLEST_DECIMAL, LARGEST_DECIMAL = 1000, 10**12
"""Denominators over which a decimal is written; over a larger one it has more digits than anyone reads."""
LARGEST_POWER = 1 << 30
"""Over a larger power of two stands some float that is no short decimal: it is written as a decimal."""


class Shown(sp.Dummy):  # type: ignore[misc]  # SymPy's classes are Any
    """An entry that is written as its number; ``entry`` is what it stands for, ``value`` the number."""

    __slots__ = ("entry", "value")

    def __new__(cls, entry: Expr, value: Any) -> Shown:
        """The stand-in for ``entry``."""
        shown: Shown = super().__new__(cls, "number", real=True)
        shown.entry, shown.value = entry, value
        return shown


@dataclass(frozen=True)
class Fraction:
    """sign · above / below, each side in reading order."""

    negative: bool
    above: tuple[Expr, ...]
    below: tuple[Expr, ...]


def with_numbers(expression: Expr, names: Names) -> Expr:
    """``expression`` with the numbered entries that ``names`` has numbers for as `Shown`."""
    known = {
        entry: Shown(entry, names.numbers[name_of(entry)][tuple(int(i) for i in indices_of(entry))])
        for entry in accesses(expression)
        if name_of(entry) in names.numbers and all(i.is_Integer for i in indices_of(entry))
    }
    return expression.xreplace(known) if known else expression


def ordered_fraction(product: Expr, names: Names) -> Fraction:
    """A product taken apart: the sign in front, numbers first, negative powers below."""
    above: list[Expr] = []
    below: list[Expr] = []
    coefficient, negative = sp.S.One, False
    for factor in absolutes(sp.Mul.make_args(product)):
        if factor.is_Rational:
            negative ^= bool(factor < 0)
            coefficient *= abs(factor)
        elif factor.is_Add and content(factor) != 1:
            coefficient *= content(factor)
            above.append(sp.Add(*(term / content(factor) for term in factor.args)))
        elif factor.is_Float:
            negative ^= bool(factor < 0)
            above.append(abs(factor))
        elif isinstance(factor, Shown) and factor.value < 0:
            negative = not negative
            above.append(Shown(factor.entry, -factor.value))
        elif factor.is_Pow and factor.exp.is_number and factor.exp.is_negative:
            below.append(factor.base ** (-factor.exp))
        else:
            above.append(factor)
    for place, total in enumerate(above):
        inside = held(total.function) if isinstance(total, sp.Sum) else sp.S.One
        together = inside * coefficient
        if together.p * together.q < coefficient.p * coefficient.q:  # 2·Σ_j x[j]/2 is Σ_j x[j]
            coefficient = together
            above[place] = total.func(total.function / inside, *total.limits)
    above, below = _sorted(above, names), _sorted(below, names)
    if shown_as_float(coefficient):
        return Fraction(negative, (sp.Float(coefficient, 17), *above), tuple(below))
    if shown_as_decimal(coefficient):
        exact = Decimal(int(coefficient.p)) / Decimal(int(coefficient.q))
        return Fraction(negative, (Shown(coefficient, exact), *above), tuple(below))
    if coefficient.q != 1:
        below.insert(0, sp.Integer(coefficient.q))
    if coefficient.p != 1 or not above:
        above.insert(0, sp.Integer(coefficient.p))
    return Fraction(negative, tuple(above), tuple(below))


def absolutes(factors: Sequence[Expr]) -> list[Expr]:
    """Factors with |z| for z·sign(z), above the line and below it: the table's |z| is such a product."""
    found = list(factors)
    for factor in factors:
        base, side = factor.as_base_exp()
        if not (isinstance(base, sign) and side.is_Integer and side.is_odd):
            continue
        (z,) = base.args
        for place, other in enumerate(found):
            own, power = other.as_base_exp()
            times = constant_ratio(own, z)
            if times is not None and power.is_Integer and power * side > 0:
                taken = side if power == side else sp.sign(side)
                found[place] = own ** (power - taken)
                found[found.index(factor)] = sp.Abs(z, evaluate=False) ** taken
                found.append(times**taken)
                break
    return found


def constant_ratio(one: Expr, other: Expr) -> Expr | None:
    """The number of times that ``one`` is ``other``, if it is a multiple of it; minus signs count.

    >>> x, y = sp.symbols("x y")
    >>> constant_ratio(3 * x - 3 * y, y - x)
    -3
    """
    (times, first), (below, second) = one.primitive(), other.primitive()
    if first.is_number or first not in (second, -second):
        return None
    return times / below if first == second else -times / below


def shown_as_float(number: Expr) -> bool:
    """Whether a fraction is a float that nobody reads as one: its digits fill the line, and a few of them say it.

    >>> [shown_as_float(sp.Rational(text)) for text in ("2.22e-16", "1e-16", "1/3", "0.22916666666666666")]
    [True, False, False, False]
    """
    if number.q & (number.q - 1) == 0:
        return bool(number.q > LARGEST_POWER)
    return bool(number.p != 1 and number.q > LARGEST_DECIMAL and sp.Rational(f"{float(number):.5g}") == number)


def shown_as_decimal(number: Expr) -> bool:
    """Whether a fraction is written as the decimal that it is: 0.044715 for 8943/200000, but x/1000."""
    short = number.p != 1 and SMALLEST_DECIMAL <= number.q <= LARGEST_DECIMAL and number.p <= LARGEST_DECIMAL
    return bool(short and sp.factorint(number.q, limit=5).keys() <= {2, 5})


@lru_cache(maxsize=4096)
def content(total: Expr) -> Expr:
    """The number that a sum is written as a multiple of: 2·(x − y) for 2·x − 2·y, but no 1/100000."""
    numbers = [held(term) for term in total.args]
    number = sp.Rational(sp.igcd(*(n.p for n in numbers)), sp.ilcm(*(n.q for n in numbers)))
    return number if number.q <= LARGEST_DENOMINATOR else sp.S.One


def held(term: Expr) -> Expr:
    """The number that a term is written as a multiple of: that of its sums counts, too. 0 is a multiple of none.

    Nor is what has a float before it: that takes in every number that it is divided by, and stays what it is.
    """
    if any(f.is_Float for f in sp.Mul.make_args(term)):
        return sp.S.One
    numbers = [abs(f) if f.is_Rational else content(f) for f in sp.Mul.make_args(term) if f.is_Rational or f.is_Add]
    return sp.S.One if 0 in numbers else sp.Mul(*numbers)


def ordered_terms(total: Expr, names: Names) -> list[Fraction]:
    """The terms of a sum in reading order."""
    return [ordered_fraction(term, names) for term in sorted(sp.Add.make_args(total), key=lambda t: term_key(t, names))]


def term_key(term: Expr, names: Names) -> Key:
    """Where a term stands in its sum: one with neither entries nor indices comes after those that have some."""
    factors = tuple(factor_key(f, names) for f in _sorted(sp.Mul.make_args(term), names) if not is_constant(f))
    return (ordered_fraction(term, names).negative, not (entries_read(term) or free_indices(term)), factors)


def reading(expression: Expr, names: Names) -> Iterator[str]:
    """The tensors of a formula in the order they are read."""
    if is_access(expression):
        yield name_of(expression)
    elif isinstance(expression, (sp.Sum, sp.Product)):
        inner = names.bound([limit[0] for limit in expression.limits], expression.function)
        yield from reading(expression.function, inner)
    else:
        for part in reading_parts(expression, names):
            yield from reading(part, names)


def reading_parts(expression: Expr, names: Names) -> Sequence[Expr]:
    """What an expression is made of, in the order it is read: of a sum the factors of its terms."""
    if expression.is_Add:
        return [factor for term in ordered_terms(expression, names) for factor in (*term.above, *term.below)]
    if expression.is_Mul:
        product = ordered_fraction(expression, names)
        return [*product.above, *product.below]
    return tuple(expression.args)


def _sorted(factors: Sequence[Expr], names: Names) -> list[Expr]:
    return sorted(factors, key=lambda f: factor_key(f, names))


@lru_cache(maxsize=4096)
def entries_read(node: Expr) -> tuple[Expr, ...]:
    """What a node reads; where numbers stand in it, the entries that they are."""
    shown = sorted(_shown(node), key=lambda s: ByText(s.entry))
    return (*accesses(node), *(number.entry for number in shown))


@lru_cache(maxsize=2048)
def _shown(node: Expr) -> frozenset[Shown]:
    """The numbers in a node that stand for entries; a part that it has many times is looked at once."""
    inside = frozenset[Shown]().union(*map(_shown, node.args))
    return inside.union([node]) if isinstance(node, Shown) else inside


def factor_key(factor: Expr, names: Names) -> Key:
    """Where a factor stands in its product."""
    if is_constant(factor):
        return (0, ByText(factor))
    read = entries_read(factor)
    if isinstance(factor, sp.KroneckerDelta):
        return (2, _place(factor, names), ByText(factor))
    if not read and not free_indices(factor):
        return (1, ByText(factor))
    if not read and isinstance(factor, Bracket):
        return (3, _place(factor, names), _upper(factor), ByText(factor))
    if isinstance(factor, (sp.Sum, sp.Product)):
        return (5, _place(factor, names), _first(read, names), ByText(factor))
    kind = 0 if is_access(factor) or isinstance(factor, Shown) else 4 if factor.is_Add else 1 if factor.is_Pow else 2
    scalar_weight = is_access(factor) and not indices_of(factor) and names.carries_weights(name_of(factor))
    place = -1 if scalar_weight else _place(factor, names)
    return (4, place, kind, _first(read, names), _upper(factor), ByText(factor))


def _upper(factor: Expr) -> bool:
    """Lower bounds stand before upper ones."""
    return isinstance(factor, Bracket) and isinstance(factor.args[0], (sp.Lt, sp.Le))


def _place(node: Expr, names: Names) -> int:
    """The first index of the left-hand side that ``node`` carries, as its place there."""
    own = free_indices(node)
    return min((n for n, axis in enumerate(names.axes) if axis in own), default=len(names.axes))


def _first(read: Sequence[Expr], names: Names) -> Key:
    """Of the entries a factor reads, the one that stands first: the seed's, then by appearance, then by place."""
    keys = []
    for entry in read:
        name = name_of(entry)
        numbers = tuple(int(i) if i.is_Integer else -1 for i in indices_of(entry))
        seed_first = 0 if name in names.order else not names.carries_weights(name)
        keys.append((seed_first, names.order.get(name, len(names.order)), numbers))
    return min(keys, default=())


def ordered_delta_sides(delta: Expr, names: Names) -> tuple[Expr, Expr]:
    """The two sides of a delta: the index that stands first on the left-hand side first, numbers last."""

    def key(side: Expr) -> Key:
        return bool(side.is_number), _place(side, names), not isinstance(side, Index), str(side)

    first, second = sorted(delta.args, key=key)
    return first, second


def comparison(relation: Expr) -> tuple[Expr, Expr]:
    """The two sides of a condition; one on indices without minus signs: p − i ≥ 0 is p ≥ i."""
    left, right = relation.lhs, relation.rhs
    if any(accesses(relation)) or relation.has(Shown):
        return left, right
    parts = sp.Add.make_args(sp.expand(left - right))
    away = [t for t in parts if t.could_extract_minus_sign()]
    return sp.Add(*(t for t in parts if t not in away)), -sp.Add(*away)
