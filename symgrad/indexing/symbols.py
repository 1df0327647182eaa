"""Indices and accesses: the atoms of an index equation.

An `Index` is a SymPy dummy that knows the size of the axis it runs over. Being a dummy it is equal to
nothing but itself, so that no substitution can capture it: differentiating Σ_k x[k]² by x[k] is 2·x[k] and
not Σ 2·x[k], because the two k are different objects whatever they are called on the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, total_ordering
from typing import Any

import sympy as sp

from symgrad.errors import bug
from symgrad.shapes import Shape, Size, fill_sizes

Expr = Any  # SymPy expression: SymPy carries no type information

LETTERS = "ijkl"
WEIGHTS = ("#v", "#u")
"""What the seed and the tangent are called inside a local equation."""


class Index(sp.Dummy):
    """An index that runs over 0 … size-1; ``name`` is only a hint for the page."""

    __slots__ = ("size",)

    def __new__(cls, hint: str, size: Size) -> Index:
        """A new index, equal to no other."""
        index: Index = super().__new__(cls, hint, integer=True, nonnegative=True)
        index.size = sp.sympify(size, strict=True)
        return index


def fresh(hint: str, size: Size) -> Index:
    """A new index over an axis of ``size``."""
    return Index(hint, size)


def fresh_axes(shape: Shape, letters: Sequence[str] = LETTERS) -> tuple[Index, ...]:
    """One new index per axis of ``shape``."""
    return tuple(
        Index(letters[a] if a < len(letters) else f"{letters[-1]}{a - len(letters) + 2}", size)
        for a, size in enumerate(shape)
    )


@lru_cache(maxsize=1024)
def tensor(name: str) -> Expr:
    """The tensor called ``name`` as SymPy sees it: real, so that |x| does not differentiate into re and im."""
    return sp.IndexedBase(sp.Symbol(name, real=True), real=True)


def access(name: str, indices: Sequence[Expr]) -> Expr:
    """The entry ``name[indices]``; a tensor of rank 0 is a plain access with no index."""
    return Indexed(tensor(name), *indices) if indices else Scalar(sp.Symbol(name, real=True))


class Indexed(sp.Indexed):
    """SymPy's entry of a tensor, real like all of them: SymPy would deduce for each anew what follows from that.

    The name stays SymPy's, which orders terms by it.
    """

    is_real = True
    is_zero = is_positive = is_negative = is_nonnegative = is_nonpositive = is_nonzero = None
    is_extended_positive = is_extended_negative = is_extended_nonnegative = is_extended_nonpositive = None
    is_integer = is_rational = is_noninteger = is_irrational = is_algebraic = is_transcendental = None
    is_even = is_odd = is_prime = is_composite = is_extended_nonzero = None

    def __new__(cls, base: Expr, *indices: Any) -> Indexed:
        """The entry of ``base`` at ``indices``."""
        entry: Indexed = sp.Expr.__new__(cls, base, *(sp.sympify(index, strict=True) for index in indices))
        return entry

    def _hashable_content(self) -> tuple[Any, ...]:
        return tuple(self._args)


class Scalar(sp.Function):
    """The one entry of a tensor of rank 0: SymPy's Indexed insists on an index."""

    nargs = 1
    is_real = True
    is_commutative = True

    def _eval_derivative(self, symbol: Expr) -> Expr:
        return sp.S.Zero


class Stepped(sp.Function):
    """A whole number, not below 0, that changes in steps only: its derivative is 0 between the edges."""

    is_integer = True
    is_nonnegative = True

    def __new__(cls, *args: Any, evaluate: bool = True) -> Expr:
        """What `eval` makes of it, or it as it stands."""
        own = [sp.sympify(a, strict=True) for a in args]
        found = cls.eval(*own) if evaluate else None
        return unevaluated(cls, *own) if found is None else found

    def _eval_derivative(self, symbol: Expr) -> Expr:
        return sp.S.Zero


def name_of(entry: Expr) -> str:
    """The name of the tensor that an access reads."""
    return str(entry.args[0].name if isinstance(entry, Scalar) else entry.base.label.name)


def indices_of(entry: Expr) -> tuple[Expr, ...]:
    """The indices of an access."""
    return () if isinstance(entry, Scalar) else tuple(entry.indices)


def is_access(node: Expr) -> bool:
    """Whether ``node`` reads one entry of a tensor."""
    return isinstance(node, (sp.Indexed, Scalar))


def weight(expression: Expr) -> int:
    """How much there is to read."""
    return sum(1 for _ in sp.preorder_traversal(expression))


def leaves_exceed(expression: Expr, most: int) -> bool:
    """Whether an expression has more letters and numbers than so many; a shared part counts each time it is written."""
    waiting = [expression]
    while waiting:
        node = waiting.pop()
        parts = node.args[:1] if isinstance(node, (sp.Sum, sp.Product)) else node.args
        most -= not parts
        if most < 0:
            return True
        waiting += parts
    return False


@lru_cache(maxsize=2048)
def accesses(expression: Expr) -> tuple[Expr, ...]:
    """Every access in ``expression``, in a fixed order, those inside indices included."""
    return tuple(node for node in sp.preorder_traversal(expression) if is_access(node))


def mentions(expression: Expr, name: str) -> bool:
    """Whether ``expression`` reads the tensor called ``name``."""
    return name in names_read(expression)


def over(kind: type[Expr], body: Expr, *limits: Expr) -> Expr:
    """The sum or product of ``body``; SymPy would look for cases to take outside, which no body has."""
    if type(body) is kind:
        return over(kind, body.function, *body.limits, *limits)
    node = sp.Expr.__new__(kind, body, *limits)
    node.is_commutative = True
    return node


def unevaluated(kind: type[Expr], *args: Expr) -> Expr:
    """A function of ``args`` as it stands; SymPy would make, for each, the set of how many arguments it may have."""
    return sp.Expr.__new__(kind, *args)


@lru_cache(maxsize=2048)
def bound_indices(expression: Expr) -> frozenset[Index]:
    """The indices summed or multiplied over anywhere in ``expression``."""
    found: frozenset[Index] = frozenset().union(*map(bound_indices, expression.args))
    if isinstance(expression, (sp.Sum, sp.Product)):
        return found.union(limit[0] for limit in expression.limits)
    return found


@lru_cache(maxsize=2048)
def free_indices(expression: Expr) -> frozenset[Index]:
    """The indices of ``expression`` that nothing sums over."""
    if isinstance(expression, Index):
        return frozenset((expression,))
    found: frozenset[Index] = frozenset().union(*map(free_indices, expression.args))
    if isinstance(expression, (sp.Sum, sp.Product)):
        return found.difference(limit[0] for limit in expression.limits)
    return found


def ordered_indices(indices: Iterable[Index]) -> list[Index]:
    """The indices by their letters; those of one letter in the order in which they were made, as a set has none."""
    return sorted(indices, key=lambda index: (str(index), index.dummy_index))


@lru_cache(maxsize=1024)
def names_read(expression: Expr) -> tuple[str, ...]:
    """The tensors that are read, in order of appearance."""
    return tuple(dict.fromkeys(map(name_of, accesses(expression))))


def number(size: Size, sizes: Mapping[Size, int]) -> int:
    """A size as a number."""
    if size.is_Integer:
        return int(size)
    if size in sizes:
        return int(sizes[size])
    value = fill_sizes(size, sizes)
    if not value.is_Integer:
        raise bug(f"the size {size} has no value")
    return int(value)


@lru_cache(maxsize=2048)
def _text(node: Expr) -> str:
    return str(node)


@total_ordering
@dataclass(frozen=True, eq=False)
class ByText:
    """A node in the order of SymPy's own text, which is made only where it decides between equals."""

    node: Expr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByText) and (self.node == other.node or _text(self.node) == _text(other.node))

    def __lt__(self, other: ByText) -> bool:
        return _text(self.node) < _text(other.node)
