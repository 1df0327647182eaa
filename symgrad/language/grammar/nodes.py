"""The syntax tree of Python's lines: what a text says, before anything is known about the names in it.

`symgrad.notation.tree` has what nodes are, and those that lines share with index equations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from symgrad.errors import Source
from symgrad.notation.tree import APART, Name, Node, walk
from symgrad.notation.tree import Statement as Stated


@dataclass(frozen=True)
class Literal(Node):
    """``3``, ``0.5``, ``True``, ``None``, and ``"ij,jk->ik"``: an option, never an operand."""

    value: int | float | str | None


@dataclass(frozen=True)
class Items(Node):
    """``[a, b]`` or ``(a, b)``."""

    items: tuple[Node, ...]


@dataclass(frozen=True)
class Unary(Node):
    """``-x`` or ``+x``."""

    sign: str
    operand: Node


@dataclass(frozen=True)
class Star(Node):
    """``*shape`` among the arguments of a call."""

    value: Node


@dataclass(frozen=True)
class Keyword(Node):
    """``dim=0`` among the arguments of a call."""

    name: str
    value: Node


@dataclass(frozen=True)
class Call(Node):
    """``f(x, dim=0)``, ``torch.exp(x)``, ``x.sum(0)``; one that is ``over`` writes its result over its first tensor."""

    function: Node
    positional: tuple[Node, ...]
    keywords: tuple[Keyword, ...]
    over: bool = False


@dataclass(frozen=True)
class Attribute(Node):
    """``x.T``, ``torch.exp``."""

    owner: Node
    name: str


@dataclass(frozen=True)
class Slice(Node):
    """``1:5:2`` inside brackets."""

    start: Node | None
    stop: Node | None
    step: Node | None


@dataclass(frozen=True)
class Subscript(Node):
    """``x[0, 1:]``."""

    owner: Node
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Equation(Node):
    """``out[i] = Σ_j x[i+j]·w[j]``: an index equation, the tensors it reads, and its names for whole numbers.

    ``ranks`` says of each tensor how many indices it has, and whether ``…`` stands for more.
    """

    statement: Stated = field(metadata=APART)
    tensors: tuple[Name, ...]
    counts: tuple[Name, ...]
    ranks: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Statement(Node):
    """``h = expression``, or an expression alone.

    ``targets`` are what is more than one name (``p = q``, ``p, *q``, ``h[1:]``), ``sign`` is that of ``h += 1``; what
    stands ``apart`` is under ``with torch.no_grad()``.
    """

    target: str | None
    value: Node
    targets: tuple[Node, ...] = ()
    sign: str = ""
    apart: bool = False

    @cached_property
    def parts(self) -> tuple[Node, ...]:
        """What is assigned to where that is more than a name, and the expression."""
        return (*self.targets, self.value)

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are given a value."""
        return (self.target,) if self.target is not None else tuple(n for t in self.targets for n in names_given(t))

    @property
    def read(self) -> tuple[Node, ...]:
        """What is read: the expression, and of what it is written into."""
        into = [t for t in self.targets if self.sign or isinstance(t, Subscript)]
        into += [s for t in self.targets if t not in into for s in walk(t) if isinstance(s, Subscript)]
        return (*into, self.value)


@dataclass(frozen=True)
class Script:
    """A text as a sequence of statements; the last one is the output.

    ``leaves`` are what the text makes and wants a gradient of, ``seed`` what it gives to backward, ``asked`` the name
    that it calls backward of.
    """

    source: Source
    statements: tuple[Statement, ...]
    leaves: frozenset[str] = frozenset()
    seed: Node | None = None
    asked: str = ""


def names_given(target: Node) -> Iterator[str]:
    """The names in what is assigned to; not x in ``x[0] = …``, which is written into."""
    if isinstance(target, Name):
        yield target.name
    elif isinstance(target, (Items, Star)):
        for part in target.parts:
            yield from names_given(part)


def dotted(node: Node) -> str | None:
    """``torch.nn.functional.softmax`` as one word, or None for anything but names and dots."""
    words: list[str] = []
    while isinstance(node, Attribute):
        words.append(node.name)
        node = node.owner
    return ".".join([node.name, *reversed(words)]) if isinstance(node, Name) else None


def written_name(node: Node) -> str:
    """The name that ``h.add_(1).mul_(2)`` writes over; nothing for anything else."""
    while isinstance(node, Call) and node.over:
        node = node.function.owner if isinstance(node.function, Attribute) else node
        if isinstance(node, Name):
            return node.name
    return ""
