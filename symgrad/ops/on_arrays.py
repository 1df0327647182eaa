"""A pointwise equation on arrays, as it is written: the forward pass of an entry that is its text.

Comes in: a tree that is spelled out, and what its names are: arrays, all exact or all of floats, and numbers. Goes out:
an array. Each function is evaluated as the table evaluates it, so ``x·tanh(softplus(x))`` does not overflow. A product
with a condition, or with 1 − a condition, is a choice: what is infinite where the condition fails is 0 there; what cannot be compared stays NaN.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import singledispatchmethod
from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.errors import bug
from symgrad.notation.tree import (
    Absolute,
    Binary,
    Call,
    Condition,
    Floor,
    Name,
    Negative,
    Node,
    Number,
    Power,
    Root,
)
from symgrad.ops.functions import PRIMITIVES
from symgrad.ops.spec import TABLE
from symgrad.ops.words import ALSO

RELATIONS: dict[str, Callable[[Any, Any], Any]] = {
    "<": np.less, "≤": np.less_equal, ">": np.greater, "≥": np.greater_equal, "=": np.equal, "≠": np.not_equal,
}  # fmt: skip
ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "−": operator.sub, "·": operator.mul, "/": operator.truediv, "mod": operator.mod,
}  # fmt: skip
CONSTANTS = {"π": np.pi, "pi": np.pi, "e": np.e, "∞": np.inf}


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

    def number(self, node: Node) -> Any:
        """The value of ``node``, a condition as 1 or 0."""
        found = self.of(node)
        return found.yes.astype(np.int64) if isinstance(found, Mask) else found

    @singledispatchmethod
    def of(self, node: Node) -> Any:
        """The value of ``node``; of a condition, where it holds."""
        raise bug(f"no value for {type(node).__name__}")

    @of.register
    def _(self, node: Number) -> Any:
        whole = node.value.denominator == 1
        return node.value if self.exactly else int(node.value) if whole else float(node.value)

    @of.register
    def _(self, node: Name) -> Any:
        return self.values[node.name] if node.name in self.values else CONSTANTS[node.name]

    @of.register
    def _(self, node: Call) -> Any:
        arguments = [self.number(part) for part in node.arguments]
        name = ALSO.get(node.function, node.function)
        if name in PRIMITIVES:
            return PRIMITIVES[name][1](*arguments)
        entry = TABLE[name]
        assert entry.numpy is not None
        return entry.numpy(*arguments, **entry.defaults)

    @of.register
    def _(self, node: Negative) -> Any:
        return -self.number(node.operand)

    @of.register
    def _(self, node: Binary) -> Any:
        left, right = self.of(node.left), self.of(node.right)
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

    @of.register
    def _(self, node: Power) -> Any:
        return self.number(node.base) ** self.number(node.exponent)

    @of.register
    def _(self, node: Root) -> Any:
        return np.sqrt(self.number(node.operand))

    @of.register
    def _(self, node: Absolute) -> Any:
        return np.abs(self.number(node.operand))

    @of.register
    def _(self, node: Floor) -> Any:
        return np.floor(self.number(node.operand))

    @of.register
    def _(self, node: Condition) -> Any:
        yes: Any = None
        neither: Any = None
        for chain in node.chains:
            sides = [self.number(side) for side in chain.sides]
            unknown = [None if self.exactly else where_nan(side) for side in sides]
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
