"""A pointwise equation on arrays, as it is written: a second reading of an entry's text, which the library's has to equal.

Comes in: a tree that is spelled out, and what its names are: arrays, all exact or all of floats, and numbers. Goes out:
an array. Each function is evaluated as the table evaluates it, so ``x·tanh(softplus(x))`` does not overflow. A product
with a condition, or with 1 − a condition, is a choice: what is infinite where the condition fails is 0 there; what cannot be compared stays NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatch
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.entries.readings import PointwiseEquation, numeric_options
from symgrad.errors import bug
from symgrad.functions import ALSO, PRIMITIVES
from symgrad.notation.tree import (
    Absolute,
    Binary,
    Condition,
    Floor,
    Name,
    Negative,
    Number,
    Power,
    Root,
    ScalarCall,
    SyntaxNode,
)
from symgrad.ops import TABLE

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "≤": np.less_equal, ">": np.greater, "≥": np.greater_equal, "=": np.equal, "≠": np.not_equal,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "−": operator.sub, "·": operator.mul, "/": operator.truediv, "mod": operator.mod,
}  # fmt: skip
CONSTANTS = {"π": np.pi, "pi": np.pi, "e": np.e, "∞": np.inf}


def forward(reading: PointwiseEquation, *arrays: Any, **options: Any) -> Any:
    """The right-hand side on arrays."""
    given = dict(zip(reading.call.operands, arrays, strict=False))
    exactly = all(a is None or isinstance(a, int) or np.asarray(a).dtype == object for a in arrays)
    values: dict[str, Any] = {name: np.asarray(a) for name, a in given.items() if a is not None}
    values |= {name: value if exactly else np.float64(value) for name, value in numeric_options(options)}
    found = Arrays(values, exactly).of(reading.tree(arrays, options).right)
    found = found.yes.astype(np.int64) if isinstance(found, Mask) else found
    return np.broadcast_to(found, np.broadcast_shapes(*(np.shape(a) for a in values.values())))


@dataclass(frozen=True)
class Mask:
    """Where a condition holds, and where it compares what is not a number; None where it never does."""

    yes: Any
    neither: Any

    def chosen(self, value: Any) -> Any:
        """``value`` where the condition holds, 0 elsewhere."""
        found = np.where(self.yes, value, 0)
        return found if self.neither is None else np.where(self.neither, np.nan, found)


@dataclass(frozen=True)
class Arrays:
    """What the names of an equation are; ``exactly`` where they are integers and fractions."""

    values: Mapping[str, Any]
    exactly: bool

    def of(self, node: SyntaxNode) -> Any:
        """The value of ``node``; of a condition, where it holds."""
        return value_of(node, self)

    def number(self, node: SyntaxNode) -> Any:
        """The value of ``node``, a condition as 1 or 0."""
        found = value_of(node, self)
        return found.yes.astype(np.int64) if isinstance(found, Mask) else found


@singledispatch  # not a method: finding one costs more than most of what is done here
def value_of(node: SyntaxNode, known: Arrays) -> Any:
    """The value of ``node``; of a condition, where it holds."""
    raise bug(f"no value for {type(node).__name__}")


@value_of.register
def _(node: Number, known: Arrays) -> Any:
    whole = node.value.denominator == 1
    return node.value if known.exactly else int(node.value) if whole else float(node.value)


@value_of.register
def _(node: Name, known: Arrays) -> Any:
    return known.values[node.name] if node.name in known.values else CONSTANTS[node.name]


@value_of.register
def _(node: ScalarCall, known: Arrays) -> Any:
    arguments = [known.number(part) for part in node.arguments]
    name = ALSO.get(node.function, node.function)
    if name in PRIMITIVES:
        return PRIMITIVES[name][1](*arguments)
    entry = TABLE[name]
    if entry.numpy is not None:
        return entry.numpy(*arguments, **entry.defaults)
    reading = getattr(entry.index, "__self__", None)
    assert isinstance(reading, PointwiseEquation)
    return forward(reading, *arguments, **entry.defaults)


@value_of.register
def _(node: Negative, known: Arrays) -> Any:
    return -known.number(node.operand)


@value_of.register
def _(node: Binary, known: Arrays) -> Any:
    left, right = known.of(node.left), known.of(node.right)
    if node.sign == "·" and isinstance(right, Mask):
        if isinstance(left, Mask):
            return Mask(left.yes & right.yes, either(left.neither, right.neither))
        return right.chosen(left)
    if node.sign == "·" and isinstance(left, Mask):
        return left.chosen(right)
    if node.sign == "−" and isinstance(right, Mask) and node.left == Number("1"):
        return Mask(~right.yes if right.neither is None else ~right.yes & ~right.neither, right.neither)
    left, right = (v.yes.astype(np.int64) if isinstance(v, Mask) else v for v in (left, right))
    return ARITHMETIC[node.sign](left, right)


@value_of.register
def _(node: Power, known: Arrays) -> Any:
    return known.number(node.base) ** known.number(node.exponent)


@value_of.register
def _(node: Root, known: Arrays) -> Any:
    return np.sqrt(known.number(node.operand))


@value_of.register
def _(node: Absolute, known: Arrays) -> Any:
    return np.abs(known.number(node.operand))


@value_of.register
def _(node: Floor, known: Arrays) -> Any:
    return np.floor(known.number(node.operand))


@value_of.register
def _(node: Condition, known: Arrays) -> Any:
    yes: Any = None
    neither: Any = None
    for chain in node.chains:
        sides = [known.number(side) for side in chain.sides]
        unknown = [None if known.exactly else where_nan(side) for side in sides]
        for n, (relation, (left, right)) in enumerate(zip(chain.relations, pairwise(sides), strict=True)):
            holds = np.asarray(RELATIONS[relation](left, right)).astype(bool, copy=False)
            yes = holds if yes is None else yes & holds
            if relation != "≠":
                neither = either(neither, either(unknown[n], unknown[n + 1]))
    return Mask(np.bool_(True) if yes is None else yes, neither)


def where_nan(value: Any) -> Any:
    """Where entries are not numbers; None where all are."""
    found = np.isnan(value)
    return found if found.any() else None


def either(one: Any, other: Any) -> Any:
    """Where one of two holds, None being nowhere."""
    return other if one is None else one if other is None else one | other
