"""torch computes an index equation that no operation of it is: entry by entry on the grid of all its indices.

Comes in: an equation whose sizes are numbers, and tensors. Goes out: a tensor, with torch's own graph behind it. Each
index is a range along an axis of its own, an entry is an access at ranges, Σ a sum over an axis. Nothing is shared with
`symgrad.numeric`: no contraction, no window, no order of operations but the text's. An entry outside its tensor counts
as 0, as in the equation: a condition beside it is 0 there. Where a condition does not hold, what stands beside it is
not computed at all: torch's way back through 1/0 would be NaN though nothing goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from operator import add, and_, attrgetter, mul
from typing import Any

import sympy as sp

from symgrad.errors import UnsupportedError, bug
from symgrad.functions import Stable, side
from symgrad.indexing import Bracket, Equation, Index, Ravel, Unravel, is_constant
from symgrad.indexing.sums import is_guard
from symgrad.indexing.symbols import Expr, bound_indices, indices_of, is_access, name_of
from symgrad.lowering.graph import check_grid

RELATIONS: Mapping[Any, Callable[[Any, Any], Any]] = {
    sp.Eq: lambda a, b: a == b, sp.Ne: lambda a, b: a != b, sp.Lt: lambda a, b: a < b, sp.Le: lambda a, b: a <= b,
    sp.Gt: lambda a, b: a > b, sp.Ge: lambda a, b: a >= b,
}  # fmt: skip
PLAIN = {
    **{name: name for name in ("exp", "log", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh")},
    **{name: name for name in ("asinh", "acosh", "atanh", "erf", "erfc", "sigmoid", "sign", "floor", "ceil", "trunc")},
    "loggamma": "lgamma", "ceiling": "ceil", "nearest": "round", "atan2": "atan2", "erfinv": "erfinv",
    **{name: f"special.{name}" for name in ("i0e", "i1e", "erfcx", "log_ndtr", "ndtri")},
}  # fmt: skip
"""What torch has under a name of its own; the rest is written in elementary terms."""
BESSEL = {0: "special.i0", 1: "special.i1"}
"""The orders of besseli that torch has."""


def run_equation(equation: Equation, tensors: Mapping[str, Any], dtype: Any) -> Any:
    """The value of ``equation``, whose sizes are numbers; raises `InputError` where the grid is too large."""
    indices = [*equation.axes, *sorted(bound_indices(equation.right), key=str)]
    check_grid([int(index.size) for index in indices])
    grid = Grid(indices, tensors, dtype, {})
    shape = [int(axis.size) for axis in equation.axes]
    whole = grid.of(equation.right).expand((*shape, *([1] * (grid.rank - len(shape)))))
    return whole.reshape(shape).to(dtype, copy=True)


class Grid:
    """The ranges of all indices, each along its own axis; those of ``chosen`` together along a last one, as points."""

    def __init__(
        self, indices: Sequence[Index], tensors: Mapping[str, Any], dtype: Any, chosen: Mapping[Index, Any]
    ) -> None:
        import torch

        self.torch, self.tensors, self.dtype, self.chosen = torch, tensors, dtype, chosen
        self.axis = {index: place for place, index in enumerate(indices)}
        self.rank = len(indices) + 1

    def of(self, node: Expr) -> Any:
        """A node as a tensor that broadcasts over the grid."""
        torch = self.torch
        if node in self.chosen:
            return self.chosen[node].reshape([1] * (self.rank - 1) + [-1])
        if isinstance(node, Index):
            place = self.axis[node]
            shape = [1] * self.rank
            shape[place] = int(node.size)
            return torch.arange(int(node.size)).reshape(shape)
        if is_access(node):
            return self.entry(self.tensors[name_of(node)], [self.of(i) for i in indices_of(node)])
        if is_constant(node):
            return self.number(node)
        if isinstance(node, (sp.Sum, sp.Product)):
            return self.added(node)
        if node.is_Mul and any(map(is_guard, node.args)):
            return self.guarded([f for f in node.args if is_guard(f)], [f for f in node.args if not is_guard(f)])
        if node.is_Add or node.is_Mul:
            return reduce(add if node.is_Add else mul, map(self.of, node.args))
        if node.is_Pow:
            return self.power(node)
        if is_guard(node):
            return self.holds(node).to(self.dtype)
        return self.function(node)

    def holds(self, guard: Expr) -> Any:
        """Where a condition holds."""
        relation = guard.args[0] if isinstance(guard, Bracket) else sp.Eq(*guard.args, evaluate=False)
        return RELATIONS[relation.func](self.of(relation.lhs), self.of(relation.rhs))

    def guarded(self, guards: Sequence[Expr], factors: Sequence[Expr]) -> Any:
        """A product at the points where all ``guards`` hold, 0 at the others."""
        held = reduce(and_, map(self.holds, guards))
        if bool(held.all()):
            return self.of(sp.Mul(*factors)) * held.to(self.dtype)
        last = self.rank - 1
        for points in self.chosen.values():
            held = held.expand(*held.shape[:last], len(points))
        at = held.nonzero(as_tuple=True)
        spread = [n for n in range(self.rank) if held.shape[n] > 1]
        points = {index: points[at[last]] for index, points in self.chosen.items()}
        points |= {index: at[n] for index, n in self.axis.items() if n in spread}
        body = Grid(list(self.axis), self.tensors, self.dtype, points).of(sp.Mul(*factors)).to(self.dtype)
        rest = [n for n in range(self.rank) if n not in spread]
        shape = [1 if n == last else body.shape[n] for n in rest]
        values = body.expand(*body.shape[:last], len(at[0])).movedim(-1, 0).reshape(-1, *shape)
        whole = self.torch.zeros([*(held.shape[n] for n in spread), *shape], dtype=self.dtype)
        if not spread:
            return whole + 0 * values.sum()
        whole = whole.index_put(tuple(at[n] for n in spread), values)
        return whole.permute([(spread + rest).index(n) for n in range(self.rank)])

    def number(self, node: Expr) -> Any:
        """A constant: whole numbers stay whole, because they may stand in an index."""
        value = int(node) if node.is_Integer else float(node) if node.is_extended_real else float("nan")
        return self.torch.tensor(value, dtype=None if node.is_Integer else self.dtype).reshape([1] * self.rank)

    def entry(self, tensor: Any, at: list[Any]) -> Any:
        """``tensor[at]``; 0 where that is outside."""
        if not at:
            return tensor.reshape([1] * self.rank)
        torch, inside = self.torch, self.torch.tensor(True)
        places = []
        for place, size in zip(at, tensor.shape, strict=True):
            place = place.long()
            inside = inside & (place >= 0) & (place < size)
            places.append(place.clamp(0, max(size - 1, 0)))
        found = tensor[tuple(torch.broadcast_tensors(*places))]
        return found if bool(inside.all()) else torch.where(inside, found, torch.zeros_like(found))

    def added(self, node: Expr) -> Any:
        """Σ and Π over the axes of their indices."""
        bound = {index for index, *_ in node.limits}
        free = {index: points for index, points in self.chosen.items() if index not in bound}
        body = Grid(list(self.axis), self.tensors, self.dtype, free).of(node.function)
        for index, *_ in node.limits:
            place, size = self.axis[index], int(index.size)
            if isinstance(node, sp.Sum):
                grown = body if body.shape[place] == size else body * size
                body = grown.sum(place, keepdim=True)
            else:
                shape = [*body.shape]
                shape[place] = size
                body = body.expand(shape).prod(place, keepdim=True)
        return body

    def power(self, node: Expr) -> Any:
        """Roots, whole powers and the rest."""
        base, exponent = node.args
        if base == sp.E:
            return self.torch.exp(self.of(exponent).to(self.dtype))
        found = self.of(base).to(self.dtype)
        if exponent == sp.Rational(1, 2):
            return found.sqrt()
        if exponent == -sp.Rational(1, 2):
            return 1 / found.sqrt()
        if exponent.is_Integer and exponent < 0:
            return 1 / found ** int(-exponent)
        return found ** (float(exponent) if exponent.is_number else self.of(exponent))

    def function(self, node: Expr) -> Any:
        """A function by torch's name for it, or in elementary terms."""
        name = type(node).__name__
        if isinstance(node, sp.Mod):
            return self.of(node.args[0]) % self.of(node.args[1])
        if isinstance(node, Ravel):
            found: Any = 0
            for index, size in zip(node.indices, node.shape, strict=True):
                found = found * int(size) + self.of(index)
            return found
        if isinstance(node, Unravel):
            behind = sp.Mul(*node.shape[node.axis + 1 :])
            return self.of(node.number) // int(behind) % int(node.shape[node.axis])
        if isinstance(node, sp.floor) and node.args[0].is_rational:
            above, below = sp.fraction(sp.together(node.args[0]))
            return self.of(above) // self.of(below)
        arguments = [self.of(argument) for argument in node.args]
        if name in PLAIN:
            return self.called(PLAIN[name], *arguments)
        if isinstance(node, sp.polygamma):
            return self.torch.polygamma(int(node.args[0]), arguments[1].to(self.dtype))
        if isinstance(node, sp.besseli) and node.args[0] in BESSEL:
            return self.called(BESSEL[node.args[0]], arguments[1])
        if isinstance(node, sp.gamma):
            x = arguments[0].to(self.dtype)
            return x.lgamma().exp() * self.torch.where((x < 0) & (x.floor() % 2 != 0), -1, 1)
        if isinstance(node, side):
            return self.torch.copysign(self.torch.ones_like(arguments[0], dtype=self.dtype), arguments[0])
        if isinstance(node, Stable):
            return self.of(node.definition(node.args[0]))
        if isinstance(node, sp.Max | sp.Min):
            raise bug(f"{name} has no rule for ties")
        raise UnsupportedError(f"torch has no {node.func} of this order to compare with")

    def called(self, name: str, *arguments: Any) -> Any:
        """torch's function of numbers."""
        return attrgetter(name)(self.torch)(*(a.to(self.dtype) for a in arguments))
