"""Indices and bounds as arithmetic: an index as a sum of letters and sizes with numbers in front, a bound as a size.

Comes in: a node, the shapes of tensors, and names that stand for sizes. Goes out: SymPy expressions, in which a letter
is a symbol; and, for the slots of a left-hand side, the value of each letter and the size of each axis. Several letters
can be one index: ``(i,r)`` is the position of i, r in row-major order. A letter with a single value is 0 there.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import sympy as sp

from symgrad.indexing import Index, ravel, unravel
from symgrad.indexing.symbols import Expr
from symgrad.notation import tree
from symgrad.shapes import Shape, Size

ARITHMETIC: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "+": operator.add, "−": operator.sub, "·": operator.mul, "/": operator.truediv,
}  # fmt: skip


@lru_cache(maxsize=256)
def letter_symbol(name: str) -> Expr:
    """A letter in a linear index expression."""
    return sp.Symbol(f"·{name}", integer=True, nonnegative=True)


@dataclass(frozen=True)
class LinearReader:
    """Reads indices and bounds on tensors of these shapes; ``known`` are names that stand for sizes."""

    shapes: Mapping[str, Shape]
    known: Mapping[str, Size]

    def linear(self, node: tree.SyntaxNode) -> Expr | None:
        """An index as a sum of letters and sizes with numbers in front; None for anything else."""
        match node:
            case tree.Number() if node.value.denominator == 1:
                return sp.Integer(int(node.value))
            case tree.Name() if self.shapes.get(node.name) != ():  # a tensor without axes is a number, and no size
                return self.known.get(node.name, letter_symbol(node.name))
            case tree.AxisSize():
                shape = self.shapes[node.name]
                return sp.Mul(*shape) if node.axis is None else shape[node.axis]
            case tree.Negative():
                inner = self.linear(node.operand)
                return None if inner is None else -inner
            case tree.Binary(sign="+" | "−" | "·"):
                left, right = self.linear(node.left), self.linear(node.right)
                if left is None or right is None:
                    return None
                if node.sign == "·":
                    return sp.expand(left * right) if not (letters_of_index(left) and letters_of_index(right)) else None
                return left + right if node.sign == "+" else left - right
        return None

    def size_of(self, node: tree.SyntaxNode) -> Expr | None:
        """A size that is said: whole numbers and sizes, divided and rounded down where that is written."""
        match node:
            case tree.Floor():
                inner = self.size_of(node.operand)
                return None if inner is None else sp.floor(inner)
            case tree.Binary(sign="+" | "−" | "·" | "/"):
                left, right = self.size_of(node.left), self.size_of(node.right)
                if left is None or right is None or (node.sign == "/" and right == 0):
                    return None
                return ARITHMETIC[node.sign](left, right)
        return self.linear(node)


def letters_of_index(expression: Expr) -> set[Expr]:
    """The letters of a linear index expression."""
    symbols = (expression,) if expression.is_Symbol else expression.free_symbols
    return {symbol for symbol in symbols if symbol.name.startswith("·")}


def find_compared_letters(node: tree.SyntaxNode, reader: LinearReader) -> Iterator[tuple[set[Expr], set[Expr]]]:
    """The letters on both sides of every relation and every δ in ``node``; of ``0 ≤ i + r`` all are on one side."""
    for inner in tree.walk(node):
        chains = inner.chains if isinstance(inner, tree.Condition) else ()
        pairs = [pair for chain in chains for pair in pairwise(chain.sides)]
        for pair in [*pairs, (inner.left, inner.right)] if isinstance(inner, tree.Delta) else pairs:
            first, second = map(reader.linear, pair)
            if first is not None and second is not None:
                yield letters_of_index(first), letters_of_index(second)


def find_slacks(node: tree.SyntaxNode, reader: LinearReader) -> Iterator[Expr]:
    """What is not negative where a condition holds."""
    if isinstance(node, tree.Delta):
        left, right = reader.linear(node.left), reader.linear(node.right)
        if left is not None and right is not None:
            yield from (left - right, right - left)
    for chain in node.chains if isinstance(node, tree.Condition) else ():
        sides = [reader.linear(side) for side in chain.sides]
        for relation, left, right in zip(chain.relations, sides, sides[1:], strict=False):
            if left is None or right is None:
                continue
            gap = right - left if relation in ("<", "≤", "=") else left - right
            if relation != "≠":
                yield sp.expand(gap - int(relation in ("<", ">")))
            if relation == "=":
                yield sp.expand(-gap)


def ravel_letters(places: Sequence[Expr], sizes: Sequence[Size]) -> Expr:
    """The number of a place."""
    long = [(place, size) for place, size in zip(places, sizes, strict=True) if size != 1]
    return ravel([place for place, _ in long], tuple(size for _, size in long))


def unravel_letters(number: Expr, sizes: Sequence[Size], whole: bool = False) -> list[Expr]:
    """The place that has this number; undoes `ravel_letters`. A ``whole`` row keeps letters that take one value."""
    if whole:
        return list(unravel(number, tuple(sizes)))
    long = iter(unravel(number, tuple(size for size in sizes if size != 1)))
    return [sp.S.Zero if size == 1 else next(long) for size in sizes]


def bind_letters(
    statement: tree.IndexEquation,
    slots: Sequence[tree.Slot],
    at: Sequence[Expr],
    ranges: Mapping[str, Size],
) -> dict[str, Expr]:
    """What the letters of a left-hand side are at some indices, one for each of its slots."""
    found: dict[str, Expr] = {}
    for slot, index in zip(slots, at, strict=True):
        if isinstance(slot, tree.RowIndex):
            names = letter_names(slot)
            places = unravel_letters(index, [ranges[name] for name in names], are_letters_adjacent(statement, names))
            found |= zip(names, places, strict=True)
        elif isinstance(slot, tree.Letter):
            found[slot.name] = index
    return found


def are_letters_adjacent(statement: tree.IndexEquation, names: Sequence[str]) -> bool:
    """Whether letters stand side by side in an entry that is read: axes that are joined, as a reshape joins them."""
    reads = (node for node in tree.walk(statement.right) if isinstance(node, tree.Access))
    found = ([slot.name if isinstance(slot, tree.Name) else "" for slot in node.slots] for node in reads)
    return any(each[k : k + len(names)] == list(names) for each in found for k in range(len(each)))


def split_leading_indices(
    slots: Sequence[tree.Slot], at: tuple[Index, ...]
) -> tuple[tuple[Index, ...], tuple[Index, ...]]:
    """The indices that ``…`` stands for on a left-hand side, and those of its other slots."""
    place = next((n for n, slot in enumerate(slots) if isinstance(slot, tree.Dots)), 0)
    stop = len(at) - sum(not isinstance(slot, tree.Dots) for slot in slots) + place
    return at[place:stop], (*at[:place], *at[stop:])


def slots_shape(slots: Sequence[tree.Slot], lead: Shape, found: Mapping[str, Size]) -> Shape:
    """The shape of what has this left-hand side, ``…`` being the axes ``lead``."""
    return tuple(n for slot in slots for n in (lead if isinstance(slot, tree.Dots) else (slot_size(slot, found),)))


def letter_sizes(slots: Sequence[tree.Slot], at: Sequence[Expr]) -> dict[str, Size]:
    """How far the letters run that stand alone."""
    each = zip(slots, at, strict=True)
    return {slot.name: i.size for slot, i in each if isinstance(slot, tree.Letter) and isinstance(i, Index)}


def letter_names(slot: tree.Slot) -> tuple[str, ...]:
    """The letters of a slot."""
    each = slot.places if isinstance(slot, tree.RowIndex) else (slot,)
    return tuple(letter.name for letter in each if isinstance(letter, tree.Letter))


def slot_size(slot: tree.Slot, ranges: Mapping[str, Size]) -> Size:
    """How long the axis of a slot is."""
    return sp.Mul(*(ranges[name] for name in letter_names(slot)))
