"""Sizes of axes: unification and broadcasting.

A size is a SymPy integer or an expression in positive integer symbols. While a program is read, `Sizes` collects
equations between sizes ("these two axes are equal") and the user's values ("x is 2×3"). It returns one representative
for each class of equal sizes, or raises an error that names two sizes that do not fit. The sizes 0 and 1 stay literal
(1 broadcasts, 0 is empty); every other given number becomes a symbol with a value, so that one derivation holds for
every size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy as sp

Size = Any  # SymPy expression: SymPy carries no type information
Shape = tuple[Size, ...]

LETTERS = "mnhcdefg"
FEW = 8
"""Equations in more sizes than this are checked, not solved."""
SEARCHED = 24
"""The most numbers to try for a size inside a rounded expression."""


class SlotSymbol(sp.Symbol):  # type: ignore[misc]  # SymPy carries no type information
    """A symbol for the position on an axis that a formula reads: a nonnegative integer.

    A derivation with it holds for every position on the axis; the number is substituted when a formula is used.
    """

    def __new__(cls, count: int) -> SlotSymbol:
        """Return the symbol p0, p1, …"""
        slot: SlotSymbol = super().__new__(cls, f"p{count}", integer=True, nonnegative=True)
        return slot


def size_symbol(count: int) -> Size:
    """Return a positive integer symbol: m, n, h, …, then n1, n2, …"""
    name = LETTERS[count] if count < len(LETTERS) else f"n{count - len(LETTERS) + 1}"
    return sp.Symbol(name, integer=True, positive=True)


def as_size(value: Any) -> Size:
    """Return a number or expression as a size."""
    return sp.sympify(value, strict=True)


def fill_sizes(expression: Any, sizes: Mapping[Size, int]) -> Any:
    """Substitute the numbers in ``sizes`` into an expression in sizes."""
    if expression.is_Integer:
        return expression
    if expression.is_Symbol:
        return sp.Integer(sizes[expression]) if expression in sizes else expression
    return expression.xreplace({size: sp.Integer(number) for size, number in sizes.items()})


class SizeMismatch(Exception):
    """Raised for two sizes that must be equal and are not."""

    def __init__(self, first: Size, second: Size) -> None:
        super().__init__(f"{first} and {second}")
        self.first, self.second = first, second


class Sizes:
    """The equations between sizes known so far.

    >>> sizes = Sizes()
    >>> x, a = (sizes.fresh(), sizes.fresh()), (sizes.fresh(), sizes.given(4))
    >>> sizes.unify(x[1], a[0])
    >>> sizes.find(a[0]) == sizes.find(x[1]), sizes.number(a[1])
    (True, 4)
    """

    def __init__(self) -> None:
        self._parent: dict[Size, Size] = {}
        self._value: dict[Size, int] = {}
        self._order: dict[Size, int] = {}
        self._later: list[tuple[Size, Size]] = []
        self._fixed: set[Size] = set()
        self._required: dict[Size, None] = {}
        self._parts: dict[Size, None] = {}

    @classmethod
    def of(cls, symbols: Iterable[Size], values: Mapping[Size, int]) -> Sizes:
        """The sizes of a program that has been read: its symbols, and the numbers they are known to be."""
        sizes = cls()
        sizes._order = {symbol: place for place, symbol in enumerate(dict.fromkeys(symbols))}
        sizes._value = dict(values)
        return sizes

    def copy(self) -> Sizes:
        """An independent copy, for trying a reading that may fail."""
        twin = Sizes()
        vars(twin).update({name: held.copy() for name, held in vars(self).items()})
        return twin

    def fresh(self) -> Size:
        """Return a new unknown size."""
        count = len(self._order)
        symbol = size_symbol(count)
        while symbol in self._order:
            count += 1
            symbol = size_symbol(count)
        self._order[symbol] = len(self._order)
        return symbol

    def given(self, number: int) -> Size:
        """Return a size with the value ``number``: a new symbol, unless it is 0 or 1."""
        if number in (0, 1):
            return sp.Integer(number)
        symbol = self.fresh()
        self._value[symbol] = number
        return symbol

    def find(self, size: Size) -> Size:
        """Return the representative of ``size``: equal sizes have equal representatives."""
        size = sp.Integer(size) if isinstance(size, int) else size
        while size in self._parent:
            size = self._parent[size]
        if size.is_Symbol or size.is_Integer:
            return size
        return size.xreplace({s: self.find(s) for s in size.free_symbols})

    def shape(self, shape: Sequence[Size]) -> Shape:
        """Return ``shape`` in representatives."""
        return tuple(self.find(size) for size in shape)

    def number(self, size: Size) -> int | None:
        """Return the number that ``size`` is known to be, or None."""
        value = self.find(size)
        value = value.xreplace({s: sp.Integer(self._value[s]) for s in value.free_symbols if s in self._value})
        return int(value) if value.is_Integer else None

    def fix(self, size: Size) -> None:
        """Replace the symbols of ``size`` by their values: the program read so holds for no other size."""
        for symbol in self.find(size).free_symbols & self._value.keys():
            self._parent[symbol] = sp.Integer(self._value.pop(symbol))
            self._fixed.add(symbol)

    def require(self, size: Size) -> None:
        """Record that the program requires ``size`` ≥ 0."""
        if not self.find(size).is_nonnegative:
            self._required[size] = None

    def whole(self, size: Size) -> None:
        """Record that the program requires ``size``, a fraction of another size, to be an integer."""
        self._parts[size] = None

    def parts(self) -> tuple[Size, ...]:
        """Return the sizes that must be integers, with known numbers substituted."""
        return tuple(fill_sizes(self.find(size), self._value) for size in self._parts)

    def required(self) -> tuple[Size, ...]:
        """Return the expressions that must not be negative for the program to hold."""
        found = dict.fromkeys(self.find(size) for size in self._required)
        return tuple(size for size in found if not size.is_nonnegative)

    def symbols(self, size: Size) -> set[Size]:
        """Return the symbols of ``size``, including those that `fix` replaced by numbers."""
        found: set[Size] = set()
        for symbol in size.free_symbols:
            while symbol in self._parent and symbol not in self._fixed:
                symbol = self._parent[symbol]
            found |= {symbol} if symbol in self._fixed or symbol.is_Symbol else self.symbols(symbol)
        return found

    def lesser(self, first: Size, second: Size) -> Size:
        """Return the smaller of two sizes, and require that it is the smaller one. Unknown sizes are made equal."""
        one, other = self.number(first), self.number(second)
        if one is None or other is None or one == other:
            self.unify(first, second)
            return self.find(first)
        less, more = (first, second) if one < other else (second, first)
        self.require(more - less)
        return less

    def unify(self, first: Size, second: Size) -> None:
        """Make two sizes equal; raise `SizeMismatch` if they cannot be."""
        first, second = self.find(first), self.find(second)
        if first == second:
            return
        known_first, known_second = self.number(first), self.number(second)
        if known_first is not None and known_second is not None and known_first != known_second:
            raise SizeMismatch(first, second)
        if second.is_Symbol and not (first.is_Symbol and self._rank(first) > self._rank(second)):
            first, second = second, first
        solved = self._isolated(first, second, None not in (known_first, known_second))
        if solved is not None:
            self._join(*solved)
        elif known_first is None or known_second is None:
            self._solve(first, second)
        else:  # equal here, and for which other sizes is not said by a formula
            self.fix(first)
            self.fix(second)

    def match(self, first: Shape, second: Shape) -> None:
        """Make two shapes of the same rank equal; raise `SizeMismatch` if they cannot be."""
        for one, other in zip(first, second, strict=True):
            self.unify(one, other)

    def _isolated(self, first: Size, second: Size, known: bool) -> tuple[Size, Size] | None:
        """Solve the equation for a symbol that occurs once, the newest first: m − 1 = n + 1 gives m = n + 2.

        If the sizes are not ``known``, only solutions that are a single symbol are taken. None if there is no solution.
        """
        if first.is_Symbol and first not in second.free_symbols:
            return first, second
        difference = sp.expand(first - second)
        for symbol in sorted(difference.free_symbols, key=self._rank, reverse=True):
            slope, rest = difference.coeff(symbol), difference.coeff(symbol, 0)
            if slope in (1, -1) and difference == slope * symbol + rest and (known or (-slope * rest).is_Symbol):
                self.require(-slope * rest - 1)
                return symbol, -slope * rest
        return None

    def broadcast(self, first: Size, second: Size) -> Size:
        """Return the broadcast size of two axes: they are equal, or one of them is 1."""
        first, second = self.find(first), self.find(second)
        if first == 1:
            return second
        if second == 1:
            return first
        self.unify(first, second)
        return self.find(first)

    def broadcast_shapes(self, shapes: Sequence[Shape]) -> Shape:
        """Return the broadcast shape of several shapes, aligned at their last axes."""
        rank = max((len(s) for s in shapes), default=0)
        result: list[Size] = [sp.Integer(1)] * rank
        for shape in shapes:
            for axis, size in enumerate(shape, start=rank - len(shape)):
                result[axis] = self.broadcast(result[axis], size)
        return tuple(result)

    def settle(self) -> dict[Size, int]:
        """Give unknown sizes the numbers 2, 3, 4, … in order of appearance, and return them.

        Equations between compound sizes are checked last.
        """
        assumed = {}
        earlier: set[Size] = set()
        for symbol in self._order:
            self._retry()
            representative = self.find(symbol)
            for free in sorted(representative.free_symbols, key=self._rank):
                if free not in self._value:
                    assumed[free] = self._fitting(free, 2 + len(earlier - {free}))
                    self._know(free, assumed[free])
            if representative.is_Symbol:
                earlier.add(representative)
        self._retry()
        for first, second in self._later:
            if self.number(first) != self.number(second):
                raise SizeMismatch(first, second)
        return assumed

    def assume(self, symbol: Size, least: int = 2, multiple: int = 1) -> int:
        """Give an unknown size a number, at least ``least`` and a multiple of ``multiple``, and return it.

        As in `settle` the first unknown size gets 2, the second 3, or a number near it that fits.
        """
        symbol = self.find(symbol)
        earlier = {self.find(s) for s, place in self._order.items() if place < self._rank(symbol)} - {symbol}
        number = -(-max(2 + sum(s.is_Symbol for s in earlier), least) // multiple) * multiple
        other = self._fitting(symbol, number)
        self._value[symbol] = other if other >= least and other % multiple == 0 else number
        return self._value[symbol]

    def values(self) -> dict[Size, int]:
        """Return the number of every representative that has one."""
        return {s: v for s, v in self._value.items() if s not in self._parent}

    def _rank(self, symbol: Size) -> int:
        return self._order.get(symbol, len(self._order))

    def _join(self, symbol: Size, other: Size) -> None:
        if symbol in other.free_symbols:
            raise SizeMismatch(symbol, other)
        known = self._value.pop(symbol, None)
        self._parent[symbol] = other
        if known is not None and self.number(other) is None:
            if other.is_Symbol:
                self._value[other] = known
            else:
                self._solve(other, sp.Integer(known))

    def _solve(self, first: Size, second: Size) -> None:
        """Solve a linear equation in one unknown size, or keep it for later."""
        difference = sp.numer(sp.together(fill_sizes(first - second, self._value)))
        unknown = sorted(difference.free_symbols, key=self._rank)
        if not unknown and difference != 0:
            raise SizeMismatch(first, second)
        if len(unknown) != 1 or not difference.is_polynomial(unknown[0]) or sp.degree(difference, unknown[0]) != 1:
            self._later.append((first, second))
            return
        slope, rest = sp.Poly(difference, unknown[0]).all_coeffs()
        solution = -rest / slope
        if not (solution.is_Integer and solution >= 1):
            raise SizeMismatch(first, second)
        self._know(unknown[0], int(solution))

    def _know(self, symbol: Size, number: int) -> None:
        """Set the number of an unknown size; 1 becomes a literal."""
        if number == 1:
            self._parent[symbol] = sp.Integer(1)
        else:
            self._value[symbol] = number

    def _few(self) -> list[tuple[Size, Size]]:
        """Return the equations kept for later that have few symbols."""
        return [pair for pair in self._later if len(pair[0].free_symbols | pair[1].free_symbols) <= FEW]

    def _retry(self) -> None:
        """Try again to solve the equations kept for later."""
        for pair in self._few():
            self._later.remove(pair)
            self.unify(*pair)

    def _fitting(self, symbol: Size, number: int) -> int:
        """Return ``number``, or one near it with which the equations kept for later can still hold.

        In a sum each other size must be at least 1; in a product the number must divide the total; a rounded
        expression is searched.
        """
        for first, second in self._few():
            left = fill_sizes(self.find(first), self._value)
            right = fill_sizes(self.find(second), self._value)
            if (left - right).free_symbols == {symbol} and (left - right).has(sp.floor):
                tried = (*range(number, number + SEARCHED), *range(number - 1, 0, -1))
                number = next((n for n in tried if fill_sizes(left - right, {symbol: n}) == 0), number)
                continue
            whole, rest = (left, right) if left.is_Integer else (right, left)
            if not whole.is_Integer or symbol not in rest.free_symbols:
                continue
            constant, varying = rest.as_coeff_Add() if rest.is_Add else rest.as_coeff_Mul()
            total = whole - constant if rest.is_Add else whole / constant
            others = varying.args if varying.func in (sp.Add, sp.Mul) else (varying,)
            if not (total.is_Integer and total > 0 and all(other.is_Symbol for other in others)):
                continue
            if rest.is_Add:
                number = min(number, max(int(total) - len(others) + 1, 1))
            else:
                number = next(d for d in sp.divisors(total) if d >= min(number, total))
        return number
