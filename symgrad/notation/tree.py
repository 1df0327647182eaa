"""The syntax tree of a text: what index equations and lines of Python have in common, and the nodes of equations.

Nodes are frozen and compared by structure; their spans of characters do not count. `parts` are the nodes directly
inside a node, in the order of the text, and `rebuild_node` makes a node with other parts. The other nodes of Python's
expressions are in `symgrad.language.syntax_tree`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from functools import cache, cached_property, partial
from typing import Any

from symgrad.errors import Span

NOWHERE: Span = (0, 0)


@dataclass(frozen=True)
class SyntaxNode:
    """A piece of the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)

    @cached_property
    def parts(self) -> tuple[SyntaxNode, ...]:
        """What stands directly inside, in the order of the text: found once, trees are read again and again."""
        names = inner_fields(type(self))  # type: ignore[arg-type]  # as in `rebuild_node`
        values = (getattr(self, name) for name in names)
        each = (inner for value in values for inner in (value if isinstance(value, tuple) else (value,)))
        return tuple(inner for inner in each if isinstance(inner, SyntaxNode))


@dataclass(frozen=True)
class Number(SyntaxNode):
    """``2``, ``0.5``, ``1e-5``: kept as it was written, because 0.01 should not come back as 1/100."""

    text: str

    @property
    def value(self) -> Fraction:
        """The number, exactly."""
        return Fraction(self.text)


@dataclass(frozen=True)
class Name(SyntaxNode):
    """A name without brackets: in an equation a letter, a number, or what a ``where`` defines."""

    name: str


@dataclass(frozen=True)
class Dots(SyntaxNode):
    """``…`` or ``...`` among indices: the axes in front, however many there are."""


@dataclass(frozen=True)
class Access(SyntaxNode):
    """``x[i,j+1]``: one entry of a tensor."""

    name: str
    slots: tuple[SyntaxNode, ...]


@dataclass(frozen=True)
class RowIndex(SyntaxNode):
    """``(i,r)`` as one index: the number of that place, counted row by row; on the left each is a `Letter`."""

    places: tuple[SyntaxNode, ...]


@dataclass(frozen=True)
class FlatEntry(SyntaxNode):
    """``x⟨n⟩``: the entry of a tensor with this number, counted row by row."""

    name: str
    number: SyntaxNode


@dataclass(frozen=True)
class PaddedEntry(SyntaxNode):
    """``x̂[i − 1]``: an entry where its place is inside the tensor, 0 outside."""

    entry: Access


@dataclass(frozen=True)
class ScalarCall(SyntaxNode):
    """``tanh(x[i])``."""

    function: str
    arguments: tuple[SyntaxNode, ...]


@dataclass(frozen=True)
class AxisSize(SyntaxNode):
    """``size(x, 0)``: how many entries x has along an axis; ``size(x)``: how many it has."""

    name: str
    axis: int | None


@dataclass(frozen=True)
class Letter(SyntaxNode):
    """A letter that a sum or a left-hand side introduces, and where it was said, how many values it takes."""

    name: str
    bound: SyntaxNode | None = None


@dataclass(frozen=True)
class BigOperator(SyntaxNode):
    """``Σ_j body``, ``Π_j``, ``mean_j``, ``max_j``, ``min_j``; it reaches to the end of its product."""

    sign: str
    letters: tuple[Letter, ...]
    body: SyntaxNode

    @property
    def chooses(self) -> bool:
        """Whether it is the largest or the smallest."""
        return self.sign in ("max", "min")


@dataclass(frozen=True)
class Negative(SyntaxNode):
    """``−x``."""

    operand: SyntaxNode


@dataclass(frozen=True)
class Binary(SyntaxNode):
    """``a + b``, ``a − b``, ``a·b``, ``a/b``, ``a mod b``; in Python ``x @ y`` and ``x < y``, too."""

    sign: str
    left: SyntaxNode
    right: SyntaxNode


@dataclass(frozen=True)
class Power(SyntaxNode):
    """``x²``, ``x^y``."""

    base: SyntaxNode
    exponent: SyntaxNode


@dataclass(frozen=True)
class Root(SyntaxNode):
    """``√x``."""

    operand: SyntaxNode


@dataclass(frozen=True)
class Absolute(SyntaxNode):
    """``|x|``."""

    operand: SyntaxNode


@dataclass(frozen=True)
class Floor(SyntaxNode):
    """``⌊x⌋``: the largest whole number up to x."""

    operand: SyntaxNode


@dataclass(frozen=True)
class RelationChain(SyntaxNode):
    """``0 ≤ i − p < n``: one relation less than sides."""

    sides: tuple[SyntaxNode, ...]
    relations: tuple[str, ...]


@dataclass(frozen=True)
class Condition(SyntaxNode):
    """``[j ≤ i and j > 0]``: 1 where all of it holds, 0 elsewhere."""

    chains: tuple[RelationChain, ...]


@dataclass(frozen=True)
class Delta(SyntaxNode):
    """``δ_ij``: 1 where the two are equal, 0 elsewhere."""

    left: SyntaxNode
    right: SyntaxNode


@dataclass(frozen=True)
class Definition(SyntaxNode):
    """``s[i,j] = …`` after ``where``: a part of the equation with a name of its own."""

    name: str
    letters: tuple[str, ...]
    right: SyntaxNode


Slot = Letter | Dots | RowIndex
"""What stands in the brackets on the left."""


@dataclass(frozen=True)
class IndexEquation(SyntaxNode):
    """``out[i] = right where d = …``; ``slots`` are the letters on the left, `Dots` and rows among them."""

    name: str
    slots: tuple[Slot, ...]
    right: SyntaxNode
    definitions: tuple[Definition, ...] = ()

    @property
    def letters(self) -> tuple[Letter, ...]:
        """The letters on the left, in order."""
        each = (slot.places if isinstance(slot, RowIndex) else (slot,) for slot in self.slots)
        return tuple(slot for group in each for slot in group if isinstance(slot, Letter))

    @property
    def named(self) -> tuple[Letter | RowIndex, ...]:
        """The slots but ``…``."""
        return tuple(slot for slot in self.slots if not isinstance(slot, Dots))

    @cached_property
    def entries(self) -> tuple[Access | FlatEntry, ...]:
        """The entries that the right-hand side reads."""
        return tuple(node for node in walk(self.right) if isinstance(node, (Access, FlatEntry)))


APART = {"apart": True}
"""Metadata of a field that holds a node of the other dialect: it is no part of the node."""


@cache
def inner_fields(kind: type) -> tuple[str, ...]:
    """The fields of a kind of nodes in which their parts are."""
    return tuple(part.name for part in fields(kind) if not part.metadata.get("apart"))


def walk(node: SyntaxNode) -> Iterator[SyntaxNode]:
    """``node`` and everything inside it, in the order of the text."""
    waiting = [node]
    while waiting:
        current = waiting.pop()
        yield current
        waiting += reversed(current.parts)


def rebuild_node(node: SyntaxNode, change: Callable[[SyntaxNode], SyntaxNode], deep: bool = False) -> SyntaxNode:
    """``node`` with ``change`` of each of its parts in the part's place; itself where nothing changed.

    Where it is to go ``deep``, what is inside is changed first, and the node last: one call for each level.
    """
    new: dict[str, Any] = {}
    for name in inner_fields(type(node)):  # type: ignore[arg-type]  # a class has a hash, as its instances
        value = getattr(node, name)
        if isinstance(value, SyntaxNode):
            found: Any = rebuild_node(value, change, deep) if deep else change(value)
        elif isinstance(value, tuple):
            inside = partial(rebuild_node, change=change, deep=True) if deep else change
            found = tuple(inside(inner) if isinstance(inner, SyntaxNode) else inner for inner in value)
            found = value if all(map(operator.is_, found, value)) else found
        else:
            continue
        if found is not value:
            new[name] = found
    whole = replace(node, **new) if new else node
    return change(whole) if deep else whole


def product_factors(node: SyntaxNode) -> Sequence[SyntaxNode]:
    """What is multiplied in ``node``, from left to right; a quotient's divisor is not among it."""
    if isinstance(node, Binary) and node.sign == "·":
        return (*product_factors(node.left), *product_factors(node.right))
    if isinstance(node, Binary) and node.sign == "/":
        return product_factors(node.left)
    return (node,)
