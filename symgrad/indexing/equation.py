"""The index equation: out[axes] = right-hand side, and how one is put to use inside another.

Substituting an equation for an access (composition) renames every bound index of what is put in, so that
nothing is captured however often it is put in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.indexing.brackets import Bracket, bracket
from symgrad.indexing.relabel import like, relabel
from symgrad.indexing.sums import counted
from symgrad.indexing.symbols import (
    Expr,
    Index,
    access,
    accesses,
    bound_indices,
    fresh,
    indices_of,
    is_access,
    name_of,
    over,
)
from symgrad.shapes import Shape, Size, Slot


@dataclass(frozen=True)
class Equation:
    """``out[axes] = right``, for every size at once."""

    axes: tuple[Index, ...]
    right: Expr

    @property
    def shape(self) -> Shape:
        """The shape of what the equation defines."""
        return tuple(axis.size for axis in self.axes)

    def at(self, indices: tuple[Expr, ...]) -> Expr:
        """The right-hand side at ``indices``, its sums renamed."""
        return relabel(with_fresh_sums(self.right), dict(zip(self.axes, indices, strict=True)))


def evaluated(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` on other arguments, as SymPy writes it."""
    return node.func(*args)


def rebuild(
    expression: Expr,
    change: Callable[[Expr], Expr | None],
    make: Callable[[Expr, Sequence[Expr]], Expr] = evaluated,
) -> Expr:
    """``expression`` with each node for which ``change`` has an answer replaced by it, outermost first."""
    answer = change(expression)
    if answer is not None:
        return answer
    if not expression.args:
        return expression
    args = [rebuild(a, change, make) for a in expression.args]
    return expression if all(a is b for a, b in zip(args, expression.args, strict=True)) else make(expression, args)


def with_fresh_sums(expression: Expr) -> Expr:
    """``expression`` with every bound index renamed to a new one."""

    def renamed(node: Expr) -> Expr | None:
        if not isinstance(node, (sp.Sum, sp.Product)):
            return None if bound_indices(node) else node
        new = {limit[0]: fresh(limit[0].name, limit[0].size) for limit in node.limits}
        limits = [sp.Tuple(new[k], low, high) for k, low, high in node.limits]
        return over(node.func, relabel(with_fresh_sums(node.function), new), *limits)

    return rebuild(expression, renamed, like) if bound_indices(expression) else expression


def replace_accesses(
    expression: Expr,
    change: Callable[[str, tuple[Expr, ...]], Expr | None],
    make: Callable[[Expr, Sequence[Expr]], Expr] = evaluated,
) -> Expr:
    """``expression`` with each access ``name[indices]`` replaced by ``change(name, indices)``, if not None."""

    def changed(node: Expr) -> Expr | None:
        if not is_access(node):
            return None
        inner = tuple(replace_accesses(i, change, make) for i in indices_of(node))
        answer = change(name_of(node), inner)
        if answer is None and all(a is b for a, b in zip(inner, indices_of(node), strict=True)):
            return node
        return access(name_of(node), inner) if answer is None else answer

    return rebuild(expression, changed, make)


def with_names(expression: Expr, names: Mapping[str, str]) -> Expr:
    """``expression`` with other names for the tensors that it reads."""

    def renamed(name: str, at: tuple[Expr, ...]) -> Expr | None:
        return access(names[name], at) if names.get(name, name) != name else None

    read = {name_of(entry) for entry in accesses(expression)}
    apart = len({names.get(name, name) for name in read}) == len(read)  # else x·y may become x²
    return replace_accesses(expression, renamed, like if apart else evaluated)


def without_empty_sums(expression: Expr) -> Expr:
    """``expression`` with 0 for sums of 0, and for those of what then is 0."""
    while empty := [node for node in expression.atoms(sp.Sum) if node.function == 0]:
        expression = expression.xreplace(dict.fromkeys(empty, sp.S.Zero))
    return expression


def instantiate(equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]) -> Equation:
    """The equation with its operands renamed and its sizes replaced, on entirely new indices.

    With a number for a size, conditions may hold for every index: those are left out.
    """
    bound = bound_indices(equation.right)
    swap = {k: fresh(k.name, k.size.xreplace(dict(sizes))) for k in (*equation.axes, *bound)}
    right = relabel(with_names(equation.right, names), swap)
    right = right.xreplace({size: other for size, other in sizes.items() if size != other})
    if right.has(Bracket) and any(isinstance(size, Slot) or other.is_Integer for size, other in sizes.items()):
        right = rebuild(right, lambda node: bracket(node.args[0]) if isinstance(node, Bracket) else None)
        right = without_empty_sums(rebuild(right, counted))
    return Equation(tuple(swap[k] for k in equation.axes), right)
