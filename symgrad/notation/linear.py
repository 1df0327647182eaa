"""Indices and bounds as arithmetic: an index as a sum of letters and sizes with numbers in front, a bound as a size.

Comes in: a node, the shapes of tensors, and names that stand for sizes. Goes out: SymPy, in which a letter is a symbol.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import sympy as sp

from symgrad.indexing.symbols import Expr
from symgrad.notation.tree import Binary, Condition, Delta, Floor, Name, Negative, Node, Number, walk
from symgrad.notation.tree import Size as SizeOf
from symgrad.shapes import Shape, Size

ARITHMETIC: Mapping[str, Callable[[Expr, Expr], Expr]] = {
    "+": operator.add, "−": operator.sub, "·": operator.mul, "/": operator.truediv,
}  # fmt: skip


@lru_cache(maxsize=256)
def letter_symbol(name: str) -> Expr:
    """A letter in a linear index expression."""
    return sp.Symbol(f"·{name}", integer=True, nonnegative=True)


@dataclass(frozen=True)
class Linear:
    """Reads indices and bounds on tensors of these shapes; ``known`` are names that stand for sizes."""

    shapes: Mapping[str, Shape]
    known: Mapping[str, Size]

    def linear(self, node: Node) -> Expr | None:
        """An index as a sum of letters and sizes with numbers in front; None for anything else."""
        match node:
            case Number() if node.value.denominator == 1:
                return sp.Integer(int(node.value))
            case Name() if self.shapes.get(node.name) != ():  # a tensor without axes is a number, and no size
                return self.known.get(node.name, letter_symbol(node.name))
            case SizeOf():
                shape = self.shapes[node.name]
                return sp.Mul(*shape) if node.axis is None else shape[node.axis]
            case Negative():
                inner = self.linear(node.operand)
                return None if inner is None else -inner
            case Binary(sign="+" | "−" | "·"):
                left, right = self.linear(node.left), self.linear(node.right)
                if left is None or right is None:
                    return None
                if node.sign == "·":
                    return sp.expand(left * right) if not (letters_in(left) and letters_in(right)) else None
                return left + right if node.sign == "+" else left - right
        return None

    def size_of(self, node: Node) -> Expr | None:
        """A size that is said: whole numbers and sizes, divided and rounded down where that is written."""
        match node:
            case Floor():
                inner = self.size_of(node.operand)
                return None if inner is None else sp.floor(inner)
            case Binary(sign="+" | "−" | "·" | "/"):
                left, right = self.size_of(node.left), self.size_of(node.right)
                if left is None or right is None or (node.sign == "/" and right == 0):
                    return None
                return ARITHMETIC[node.sign](left, right)
        return self.linear(node)


def letters_in(expression: Expr) -> set[Expr]:
    """The letters of a linear index expression."""
    symbols = (expression,) if expression.is_Symbol else expression.free_symbols
    return {symbol for symbol in symbols if symbol.name.startswith("·")}


def compared_in(node: Node, reader: Linear) -> Iterator[tuple[set[Expr], set[Expr]]]:
    """The letters on both sides of every relation and every δ in ``node``; of ``0 ≤ i + r`` all are on one side."""
    for inner in walk(node):
        chains = inner.chains if isinstance(inner, Condition) else ()
        pairs = [pair for chain in chains for pair in pairwise(chain.sides)]
        for pair in [*pairs, (inner.left, inner.right)] if isinstance(inner, Delta) else pairs:
            first, second = map(reader.linear, pair)
            if first is not None and second is not None:
                yield letters_in(first), letters_in(second)


def gaps(node: Node, reader: Linear) -> Iterator[Expr]:
    """What is not negative where a condition holds."""
    if isinstance(node, Delta):
        left, right = reader.linear(node.left), reader.linear(node.right)
        if left is not None and right is not None:
            yield from (left - right, right - left)
    for chain in node.chains if isinstance(node, Condition) else ():
        sides = [reader.linear(side) for side in chain.sides]
        for relation, left, right in zip(chain.relations, sides, sides[1:], strict=False):
            if left is None or right is None:
                continue
            gap = right - left if relation in ("<", "≤", "=") else left - right
            if relation != "≠":
                yield sp.expand(gap - int(relation in ("<", ">")))
            if relation == "=":
                yield sp.expand(-gap)
