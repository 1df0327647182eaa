"""Tree to SymPy: the expression that an equation without definitions means at given indices.

Comes in: the tree, the entries of each tensor, the `Index` of each letter, and the functions that may be called. Goes
out: an expression in the form that the table's entries have: sums with deltas contracted, conditions as brackets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from inspect import Signature
from itertools import pairwise, takewhile
from typing import Any, Protocol

import sympy as sp

from symgrad.errors import bug, close_names
from symgrad.indexing import (
    Bracket,
    Index,
    Mod,
    bracket,
    contracted_sum,
    delta,
    fresh,
    multiply_up,
    ravel,
    row_major,
    unravel,
)
from symgrad.indexing.brackets import relation_of
from symgrad.indexing.sums import is_condition
from symgrad.indexing.symbols import Expr, accesses
from symgrad.notation import tree
from symgrad.notation.linear import ravel_letters
from symgrad.shapes import Shape, Size

RELATIONS = {"<": sp.Lt, "≤": sp.Le, ">": sp.Gt, "≥": sp.Ge, "=": sp.Eq, "≠": sp.Ne}


class TensorEntries(Protocol):
    """A tensor inside an equation: its shape, and its entry at given indices."""

    @property
    def shape(self) -> Shape:
        """The sizes of its axes."""

    def __getitem__(self, indices: Sequence[Expr]) -> Expr: ...


@dataclass(frozen=True)
class EquationFunction:
    """A function: what it makes of ``least`` to ``most`` arguments; ``told`` are the places where numbers stand."""

    made: Callable[..., Expr]
    least: int
    most: int
    told: frozenset[int] | None = None

    @cached_property
    def numbers(self) -> frozenset[int]:
        """The places where numbers stand: of a function of SymPy's, those that it has no derivative by."""
        if self.told is not None or self.most == 1:
            return self.told or frozenset()
        parts = [sp.Dummy() for _ in range(self.most)]
        whole = self.made(*parts)
        return frozenset(n for n, part in enumerate(parts) if whole.diff(part).has(sp.Derivative))

    def __call__(self, *parts: Expr) -> Expr:
        """The function of ``parts``."""
        return self.made(*parts)


def function_from_sympy(symbolic: Callable[..., Expr]) -> EquationFunction:
    """A function of SymPy's."""
    counts = [int(count) for count in getattr(symbolic, "nargs", (1,))]
    return EquationFunction(symbolic, min(counts), max(counts))


def function_with_options(
    signature: Signature, operands: Sequence[str], optional: Collection[str],
    made: Callable[[Sequence[Expr], Mapping[str, Any]], Expr],
) -> EquationFunction:  # fmt: skip
    """What ``made`` makes of expressions, and of the options behind them as far as these are numbers."""
    options = [parameter for name, parameter in signature.parameters.items() if name not in operands]
    told = [option.name for option in takewhile(lambda option: not isinstance(option.default, (str, bool)), options)]
    many, asked = len(operands), sum(option.default is option.empty for option in options)

    def whole(*parts: Expr) -> Expr:
        return made(parts[:many], dict(zip(told, map(exact_constant, parts[many:]), strict=False)))

    most = many + len(told)
    return EquationFunction(whole, many - len(optional) + asked, most, frozenset(range(many, most)))


def exact_constant(part: Expr) -> int | Fraction:
    """The number that a function's argument is."""
    exact = sp.Rational(part)
    return int(exact) if exact.is_integer else Fraction(int(exact.p), int(exact.q))


@dataclass(frozen=True)
class EquationMeaning:
    """What names stand for: tensors, letters, how far the letters of sums run, and the axes that ``…`` are."""

    tensors: Mapping[str, TensorEntries]
    letters: Mapping[str, Expr]
    ranges: Mapping[str, Size]
    functions: Mapping[str, EquationFunction]
    lead: tuple[Index, ...] = ()

    def of(self, node: tree.SyntaxNode) -> Expr:
        """The expression that ``node`` means."""
        match node:
            case tree.Number():
                return sp.Rational(node.value.numerator, node.value.denominator)
            case tree.Name():
                if node.name in self.letters:
                    return self.letters[node.name]
                constant = node.name in CONSTANTS and node.name not in self.tensors
                return CONSTANTS[node.name] if constant else self.given(node.name)[()]
            case tree.RowIndex():
                return ravel_letters(*self.row(node))
            case tree.AxisSize():
                shape = self.given(node.name).shape
                return sp.Mul(*shape) if node.axis is None else shape[node.axis]
            case tree.ScalarCall():
                if node.function not in self.functions:
                    near = close_names(node.function, self.functions)
                    raise KeyError(f"no function {node.function} in equations{f': {near[0]}?' if near else ''}")
                return self.functions[node.function](*map(self.of, node.arguments))
            case tree.Negative():
                return -self.of(node.operand)
            case tree.Power():
                return self.of(node.base) ** self.of(node.exponent)
            case tree.Root():
                return sp.sqrt(self.of(node.operand))
            case tree.Absolute():
                return self.functions["abs"](self.of(node.operand))
            case tree.Condition():
                return sp.Mul(*(part for chain in node.chains for part in self.chain(chain)))
            case tree.Delta():
                return delta(self.of(node.left), self.of(node.right))
            case tree.Access():
                return self.access(node)
            case tree.FlatEntry():
                return self.flat_entry(node)
            case tree.Binary():
                return self.binary(node)
            case tree.Floor():
                return self.floor(node)
            case tree.BigOperator():
                return self.big(node)
        raise bug(f"no meaning for {type(node).__name__}")

    def access(self, node: tree.Access) -> Expr:
        """An entry, with the output's own indices in the place of ``…``."""
        tensor = self.given(node.name)
        own = len(node.slots) - any(isinstance(slot, tree.Dots) for slot in node.slots)
        lead = self.lead[len(self.lead) - (len(tensor.shape) - own) :] if len(tensor.shape) > own else ()
        at: list[Expr] = []
        for slot in node.slots:
            at += lead if isinstance(slot, tree.Dots) else [self.of(slot)]
        return tensor[at]

    def flat_entry(self, node: tree.FlatEntry) -> Expr:
        """The entry with a number."""
        tensor = self.given(node.name)
        if isinstance(
            node.number, tree.RowIndex
        ):  # whole, axes of one entry among them: a reshape, which its pullback undoes
            places, sizes = self.row(node.number)
            return tensor[unravel(ravel(places, tuple(sizes)), tensor.shape)]
        return tensor[unravel(self.of(node.number), tensor.shape)]

    def binary(self, node: tree.Binary) -> Expr:
        """A sum, a product, a quotient or a remainder."""
        left, right = self.of(node.left), self.of(node.right)
        match node.sign:
            case "+":
                return left + right
            case "−":
                return (
                    negate_bracket(right)
                    if left == 1 and is_condition(right) and not any(accesses(right))
                    else left - right
                )
            case "·":
                return left * right
            case "/":
                return left / right
        if right == 0:
            return left  # of nothing there is no place that a remainder could say
        return Mod(left, right)

    def floor(self, node: tree.Floor) -> Expr:
        """A number rounded down; of a quotient of places the row."""
        if isinstance(node.operand, tree.Binary) and node.operand.sign == "/":
            numbered = row_major(self.of(node.operand.left), self.of(node.operand.right))
            if numbered is not None:
                return numbered[0]
        inner = self.of(node.operand)
        return self.functions["floor"](inner) if any(accesses(inner)) else sp.floor(inner)

    def big(self, node: tree.BigOperator) -> Expr:
        """A sum, a product, a mean, or the largest or smallest of all."""
        letters = [letter.name for letter in node.letters]
        if node.sign == "Π":
            return self.product(letters, node.body)
        if node.chooses:
            return self.extreme(letters, node)
        values, indices = self.introduced(letters)
        body = replace(self, letters={**self.letters, **values}).of(node.body)
        found = contracted_sum(body, indices)
        return found if node.sign == "Σ" else found / sp.Mul(*(index.size for index in indices))

    def given(self, name: str) -> TensorEntries:
        """What has this name in the call; `KeyError` where nothing has."""
        if name not in self.tensors:
            raise KeyError(f"the equation reads {name}, and its call has {', '.join(self.tensors) or 'no tensor'}")
        return self.tensors[name]

    def row(self, node: tree.RowIndex) -> tuple[list[Expr], list[Size]]:
        """The letters of a row, and how many values each takes."""
        names = [place.name for place in node.places if isinstance(place, tree.Name)]
        return [self.letters[name] for name in names], [self.values_of(name) for name in names]

    def values_of(self, letter: str) -> Size:
        """How many values a letter takes."""
        index = self.letters[letter]
        return index.size if isinstance(index, Index) else self.ranges[letter]

    def chain(self, chain: tree.RelationChain) -> list[Expr]:
        """A bracket for each relation."""
        sides = [self.of(side) for side in chain.sides]
        return [relation_bracket(r, *pair) for r, pair in zip(chain.relations, pairwise(sides), strict=True)]

    def spanned(self, letter: str) -> Shape:
        """The sizes of the axes that a letter of a sum or a product runs over: one."""
        return (self.ranges[letter],)

    def introduced(self, letters: Sequence[str]) -> tuple[Mapping[str, Any], tuple[Index, ...]]:
        """What the letters of a sum stand for in its body, and the indices that it runs over."""
        found = {name: tuple(fresh(name, size) for size in self.spanned(name)) for name in letters}
        return {name: combined_letter(indices) for name, indices in found.items()}, sum(found.values(), ())

    def extreme(self, letters: Sequence[str], node: tree.BigOperator) -> Expr:
        """The largest or smallest: those that no other one beats, by how many they are, so that ties share evenly."""
        sums = []
        for counts in (False, True):
            values, indices = self.introduced(letters)
            here = replace(self, letters={**self.letters, **values}).of(node.body)
            first = self.unbeaten(letters, node, here)
            sums.append(contracted_sum(first if counts else here * first, indices))
        return sums[0] / sums[1]

    def unbeaten(self, letters: Sequence[str], node: tree.BigOperator, here: Expr) -> Expr:
        """1 where ``here`` is the largest or smallest of all, else 0."""
        if not letters:
            return relation_bracket("≥" if node.sign == "max" else "≤", here, self.of(node.body))
        first, *rest = letters

        def at(index: Index) -> Expr:
            return replace(self, letters={**self.letters, first: index}).unbeaten(rest, node, here)

        return multiply_up(self.ranges[first], at, first)

    def product(self, letters: Sequence[str], body: tree.SyntaxNode, at: tuple[Expr, ...] = ()) -> Expr:
        """Π over every letter, the last one innermost; the first letter is ``at`` these indices of its axes."""
        if not letters:
            return self.of(body)
        first, axes = letters[0], self.spanned(letters[0])
        if len(at) == len(axes):
            return replace(self, letters={**self.letters, first: combined_letter(at)}).product(letters[1:], body)
        return multiply_up(axes[len(at)], lambda index: self.product(letters, body, (*at, index)), first)


def combined_letter(indices: tuple[Expr, ...]) -> Any:
    """What a letter is that stands for so many axes."""
    return indices[0] if len(indices) == 1 else indices or sp.S.Zero


CONSTANTS: Mapping[str, Expr] = {"π": sp.pi, "pi": sp.pi, "e": sp.E, "∞": sp.oo}
"""Names that stand for a number everywhere."""


def negate_bracket(guard: Expr) -> Expr:
    """1 − δ_ij as [i ≠ j], of which a sum leaves out what stands beside it where i = j."""
    relation = relation_of(guard)
    return bracket(relation.negated)


def relation_bracket(relation: str, left: Expr, right: Expr) -> Expr:
    """``[left < right]``; that two indices are equal is a delta, whose sums are contracted."""
    data = any(accesses(left)) or any(accesses(right))
    if relation == "=" and not data:
        return delta(left, right)
    holds = RELATIONS[relation](left, right, evaluate=False)
    return Bracket(holds) if data or relation == "≠" else bracket(holds)
