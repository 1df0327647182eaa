"""The reference: index equations evaluated entry by entry with loops, as one would by hand.

Slow on purpose and shares nothing with `symgrad.numeric`: no arrays of indices, no contractions, no stable
rewriting. A factor whose bracket is false counts as 0, whatever stands beside it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from symgrad.functions import Stable
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel
from symgrad.indexing.symbols import indices_of, is_access, name_of

FUNCTIONS = {
    sp.exp: math.exp, sp.log: math.log, sp.sin: math.sin, sp.cos: math.cos, sp.tan: math.tan, sp.tanh: math.tanh,
    sp.erf: math.erf, sp.floor: math.floor,
}  # fmt: skip
RELATIONS = {
    sp.Eq: lambda a, b: a == b, sp.Ne: lambda a, b: a != b, sp.Lt: lambda a, b: a < b, sp.Le: lambda a, b: a <= b,
    sp.Gt: lambda a, b: a > b, sp.Ge: lambda a, b: a >= b,
}  # fmt: skip


def added(parts: Sequence[Any]) -> Any:
    """The sum: exact for integers and fractions, and as close as floats can be for the rest."""
    return sum(parts) if all(isinstance(part, (int, Fraction)) for part in parts) else math.fsum(parts)


def exactly(value: Any) -> Any:
    """A number as SymPy has it: whole numbers and fractions stay what they are."""
    if isinstance(value, (int, Fraction)):
        return sp.Rational(value.numerator, value.denominator)
    return sp.Float(value, 30)


class Loops:
    """Evaluates expressions over ``arrays``, with ``sizes`` for the symbols among the sizes."""

    def __init__(self, arrays: Mapping[str, np.ndarray], sizes: Mapping[Any, int]) -> None:
        self.arrays, self.sizes = arrays, dict(sizes)

    def array(self, equation: Equation) -> np.ndarray:
        """Every entry of what ``equation`` defines."""
        shape = [self.whole(axis.size, {}) for axis in equation.axes]
        result = np.empty(shape)
        for at in np.ndindex(*shape):
            result[at] = self.number(equation.right, dict(zip(equation.axes, at, strict=True)))
        return result

    def whole(self, node: Any, at: Mapping[Index, int]) -> int:
        """An index expression as an integer."""
        value = self.number(node, at)
        assert value == int(value)
        return int(value)

    def number(self, node: Any, at: Mapping[Index, int]) -> Any:
        """One expression at one choice of the indices."""
        if isinstance(node, Index):
            return at[node]
        if is_access(node):
            return self.entry(node, at)
        if node.is_Symbol:
            return self.sizes[node]
        if node.is_number and not node.args:
            return Fraction(int(node.p), int(node.q)) if node.is_Rational else float(node)
        if isinstance(node, (sp.Sum, sp.Product)):
            indices = [limit[0] for limit in node.limits]
            ranges = [range(self.whole(k.size, at)) for k in indices]
            parts = [
                self.number(node.function, {**at, **dict(zip(indices, place, strict=True))})
                for place in itertools.product(*ranges)
            ]
            return added(parts) if isinstance(node, sp.Sum) else math.prod(parts)
        if node.is_Add:
            return added([self.number(part, at) for part in node.args])
        if node.is_Mul:
            return self.product(node, at)
        if isinstance(node, (Bracket, sp.KroneckerDelta)):
            return self.condition(node, at)
        if isinstance(node, Ravel):
            return int(np.ravel_multi_index([self.whole(i, at) for i in node.indices], self.shape(node, at)))
        if isinstance(node, Unravel):
            return int(np.unravel_index(self.whole(node.number, at), self.shape(node, at))[node.axis])
        if isinstance(node, Stable):
            return self.stable(node, at)
        if isinstance(node, sp.exp):
            return math.exp(self.number(node.exp, at))
        if node.is_Pow:
            base, exponent = (self.number(part, at) for part in node.args)
            return math.sqrt(base) if exponent == 0.5 else base**exponent
        if isinstance(node, sp.Mod):
            return self.number(node.args[0], at) % self.number(node.args[1], at)
        values = [self.number(a, at) for a in node.args]
        if node.func in FUNCTIONS:
            return FUNCTIONS[node.func](*values)
        return float(node.func(*map(exactly, values)).evalf(25))

    def shape(self, node: Any, at: Mapping[Index, int]) -> tuple[int, ...]:
        """The sizes by which entries are numbered."""
        return tuple(self.whole(size, at) for size in node.shape)

    def entry(self, node: Any, at: Mapping[Index, int]) -> float:
        """One entry of a tensor; an index outside of it is a mistake of the equation."""
        place = tuple(self.whole(i, at) for i in indices_of(node))
        array = self.arrays[name_of(node)]
        assert all(0 <= i < n for i, n in zip(place, array.shape, strict=True)), f"{node} at {at} is outside"
        return float(array[place])

    def product(self, node: Any, at: Mapping[Index, int]) -> float:
        """The conditions first: what they exclude is not looked at."""
        masks = [f for f in node.args if isinstance(f, (Bracket, sp.KroneckerDelta))]
        if any(self.condition(mask, at) == 0 for mask in masks):
            return 0.0
        return math.prod(self.number(f, at) for f in node.args if f not in masks)

    def condition(self, node: Any, at: Mapping[Index, int]) -> int:
        """1 or 0."""
        if isinstance(node, sp.KroneckerDelta):
            return int(self.number(node.args[0], at) == self.number(node.args[1], at))
        relation = node.args[0]
        if relation in (sp.true, sp.false):
            return int(bool(relation))
        return int(RELATIONS[relation.func](*(self.number(a, at) for a in relation.args)))

    def stable(self, node: Any, at: Mapping[Index, int]) -> float:
        """A function of the table's own, by its definition in elementary terms."""
        return float(node.definition(exactly(self.number(node.args[0], at))).evalf(25))
