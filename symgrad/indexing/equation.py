"""The index equation: out[axes] = right-hand side, and how one is put to use inside another.

Substituting an equation for an access (composition) renames every bound index of what is put in, so that
nothing is captured however often it is put in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import sympy as sp

from symgrad.indexing.brackets import Bracket, bracket
from symgrad.indexing.symbols import Expr, Index, access, fresh, indices_of, is_access, name_of
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
        return with_fresh_sums(self.right).xreplace(dict(zip(self.axes, indices, strict=True)))


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
            return None
        new = {limit[0]: fresh(limit[0].name, limit[0].size) for limit in node.limits}
        body = with_fresh_sums(node.function).xreplace(new)
        limits = [(new[k], low, high) for k, low, high in node.limits]
        return node.func(body, *limits)

    return rebuild(expression, renamed) if expression.has(sp.Sum, sp.Product) else expression


def replace_accesses(expression: Expr, change: Callable[[str, tuple[Expr, ...]], Expr | None]) -> Expr:
    """``expression`` with each access ``name[indices]`` replaced by ``change(name, indices)``, if not None."""

    def changed(node: Expr) -> Expr | None:
        if not is_access(node):
            return None
        inner = tuple(replace_accesses(i, change) for i in indices_of(node))
        answer = change(name_of(node), inner)
        return access(name_of(node), inner) if answer is None else answer

    return rebuild(expression, changed)


def instantiate(equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]) -> Equation:
    """The equation with its operands renamed and its sizes replaced, on entirely new indices.

    With a number in a slot, conditions may hold for every index: those are left out.
    """
    bound = {limit[0] for node in equation.right.atoms(sp.Sum, sp.Product) for limit in node.limits}
    swap = {k: fresh(k.name, k.size.xreplace(dict(sizes))) for k in (*equation.axes, *bound)}
    right = replace_accesses(equation.right, lambda name, at: access(names.get(name, name), at))
    right = right.xreplace({**sizes, **swap})
    if any(isinstance(size, Slot) for size in sizes):
        right = rebuild(right, lambda node: bracket(node.args[0]) if isinstance(node, Bracket) else None)
    return Equation(tuple(swap[k] for k in equation.axes), right)
