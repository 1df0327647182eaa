"""What the equation of an entry means: for each entry by itself, along axes, or added up as a loss.

Comes in: the text, the operands at hand and the options. Goes out: the right-hand side in SymPy, at the output's indices,
and where entries stand by themselves, on arrays. A text is read when it is asked for first, once in a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Index, add_up, fresh, fresh_axes, multiply_up
from symgrad.indexing.symbols import Expr
from symgrad.notation.meaning import Meaning
from symgrad.notation.read import read_statement
from symgrad.notation.scope import spelled_out
from symgrad.notation.tree import Binary, Name, Negative, Node, Statement, rebuilt
from symgrad.ops.on_arrays import Arrays, Mask
from symgrad.ops.shaping import number
from symgrad.ops.signatures import Call
from symgrad.ops.spec import At, Held, Options, View
from symgrad.ops.words import functions
from symgrad.shapes import Shape


@dataclass(frozen=True)
class Whole:
    """An operand of a pointwise equation: its entry at the output's indices."""

    view: View
    at: At

    @property
    def shape(self) -> Shape:
        """It is written without indices."""
        return ()

    def __getitem__(self, indices: Sequence[Expr]) -> Expr:
        return self.view[self.at]


@lru_cache(maxsize=1024)
def spelled(text: str) -> Statement:
    """The equation that ``text`` is, its definitions put in."""
    return spelled_out(read_statement(text))


@lru_cache(maxsize=1024)
def without(text: str, absent: frozenset[str]) -> Statement:
    """The equation without the operands that are left out: a term that is one falls away, a factor that is one is 1."""
    whole = spelled(text)

    def left(node: Node) -> Node | None:
        if isinstance(node, Name) and node.name in absent:
            return None
        if isinstance(node, Negative):
            inner = left(node.operand)
            return None if inner is None else Negative(inner)
        if isinstance(node, Binary) and node.sign in "+−·":
            one, other = left(node.left), left(node.right)
            if one is None or other is None:
                return one if other is None else Negative(other) if node.sign == "−" else other
            return Binary(node.sign, one, other)
        return rebuilt(node, lambda part: left(part) or part)

    found = left(whole)
    assert isinstance(found, Statement)
    return found


def holds(condition: str, options: Options) -> bool:
    """Whether options are as ``"log_target"``, ``"min=None"`` or ``"full and not log_input"`` says."""
    for part in condition.split(" and "):
        name, _, wanted = part.removeprefix("not ").partition("=")
        found = str(options.get(name)) == wanted if wanted else bool(options.get(name))
        if found == part.startswith("not "):
            return False
    return True


@dataclass(frozen=True)
class Pointwise:
    """An equation without indices: every entry by itself, the operands broadcast."""

    call: Call
    text: str
    instead: Mapping[str, str]
    decimals: bool = False

    def tree(self, values: Sequence[Any], options: Options) -> Statement:
        """The equation under these options, without what is left out."""
        text = next((other for condition, other in self.instead.items() if holds(condition, options)), self.text)
        there = len(values)
        return without(text, frozenset(n for k, n in enumerate(self.call.operands) if k >= there or values[k] is None))

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, Held], options: Options) -> Expr:
        """The right-hand side, each operand at the output's own indices."""
        given = dict(zip(self.call.operands, views, strict=False))
        tensors = {name: Whole(view, at) for name, view in given.items() if view is not None}
        tensors |= {
            name: Whole(View(name, (), sp.sympify(value, strict=True) if self.decimals else number(value)), at)
            for name, value in numbers(options)
        }
        return Meaning(tensors, {}, {}, functions()).of(self.tree(views, options).right)

    def forward(self, *arrays: Any, **options: Any) -> Any:
        """The right-hand side on arrays."""
        given = dict(zip(self.call.operands, arrays, strict=False))
        exactly = all(a is None or isinstance(a, int) or np.asarray(a).dtype == object for a in arrays)
        values: dict[str, Any] = {name: np.asarray(a) for name, a in given.items() if a is not None}
        values |= {name: value if exactly else np.float64(value) for name, value in numbers(options)}
        found = Arrays(values, exactly).of(self.tree(arrays, options).right)
        found = found.yes.astype(np.int64) if isinstance(found, Mask) else found
        shape = np.broadcast_shapes(*(np.shape(a) for a in values.values()))
        return found if np.shape(found) == shape else np.broadcast_to(found, shape)


def numbers(options: Options) -> list[tuple[str, Any]]:
    """The options that an equation may name."""
    return [(name, value) for name, value in options.items() if not isinstance(value, (bool, str, tuple, type(None)))]


@dataclass(frozen=True)
class Line:
    """An operand along some of its axes: ``x[j]``, the indices on the other axes those of the output."""

    view: View
    axes: tuple[int, ...]
    others: tuple[Expr, ...]

    @property
    def shape(self) -> Shape:
        """One axis, as long as those that it stands for are together."""
        return (sp.Mul(*(self.view.shape[a] for a in self.axes)),)

    def __getitem__(self, indices: Sequence[Any]) -> Expr:
        if self.view.constant is not None:
            return self.view.constant
        inner = iter(indices[0] if isinstance(indices[0], tuple) else indices)
        others = iter(self.others)
        return self.view[[next(inner) if a in self.axes else next(others) for a in range(self.view.rank)]]


@dataclass(frozen=True)
class InLines(Meaning):
    """A meaning in which the letter of a sum runs over every axis that it stands for; over none it is 0."""

    axes: Shape = ()

    def introduced(self, letters: Sequence[str]) -> tuple[Mapping[str, Any], tuple[Index, ...]]:
        """An index on each axis for each letter."""
        found = {name: tuple(fresh(name, size) for size in self.axes) for name in letters}
        values = {name: together(indices) for name, indices in found.items()}
        return values, tuple(index for indices in found.values() for index in indices)

    def product(self, letters: Sequence[str], body: Node) -> Expr:
        """Π over every axis, the last one innermost."""
        (letter,) = letters

        def over(chosen: tuple[Expr, ...]) -> Expr:
            if len(chosen) == len(self.axes):
                inner = {**self.letters, letter: together(chosen)}
                return InLines(self.tensors, inner, {}, self.functions, axes=self.axes).of(body)
            return multiply_up(self.axes[len(chosen)], lambda j: over((*chosen, j)), letter)

        return over(())


def together(indices: tuple[Expr, ...]) -> Any:
    """What a letter is that stands for so many axes."""
    return indices[0] if len(indices) == 1 else indices or sp.S.Zero


@dataclass(frozen=True)
class Along:
    """An equation for one line of a tensor, ``dim`` saying along which axes; the other axes are as they are."""

    call: Call
    text: str
    instead: Mapping[str, str]
    option: str = "dim"

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, Held], options: Options) -> Expr:
        """The right-hand side, on the line that the output's indices lie on."""
        tree = Pointwise(self.call, self.text, self.instead).tree(views, options)
        given = {name: view for name, view in zip(self.call.operands, views, strict=False) if view is not None}
        shape = next((view.shape for view in given.values() if view.constant is None), ())
        dim: Any = options[self.option]
        axes = (dim if isinstance(dim, tuple) else (dim,)) if shape else ()
        stays = bool(tree.letters) or options.get("keepdim") is True
        others = tuple(i for a, i in enumerate(at) if not (stays and a in axes))
        tensors: dict[str, Any] = {name: Line(view, axes, others) for name, view in given.items()}
        tensors |= {name: Whole(view, at) for name, view in held.items()}
        tensors |= {name: Whole(View(name, (), number(value)), at) for name, value in numbers(options)}
        letters = {letter.name: at[axes[0]] if axes else sp.S.Zero for letter in tree.letters}
        sizes = tuple(shape[a] for a in axes)
        return InLines(tensors, letters, {}, functions(), axes=sizes).of(tree.right)


@dataclass(frozen=True)
class Loss:
    """The loss of one entry, added up or averaged as ``reduction`` says."""

    entry: Pointwise

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, Held], options: Options) -> Expr:
        """The right-hand side at each entry, and their sum or mean."""
        rest = {name: value for name, value in options.items() if name != "reduction"}
        reduction = options["reduction"]
        if reduction == "none":
            return self.entry.index(at, views, held, rest)
        shape = next((v.shape for v in views if v is not None and v.constant is None), ())
        inner = fresh_axes(shape)
        total = add_up(self.entry.index(inner, views, held, rest), inner)
        count = shape[:1] if reduction == "batchmean" else () if reduction == "sum" else shape
        return total / sp.Mul(*count)

    def forward(self, *arrays: Any, reduction: str, **options: Any) -> Any:
        """The same on arrays."""
        each = np.asarray(self.entry.forward(*arrays, **options))
        if reduction == "none":
            return each
        count = len(each) if reduction == "batchmean" else 1 if reduction == "sum" else each.size
        return np.sum(each) / (count or np.float64(0))
