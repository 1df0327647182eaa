"""Algebra of complex numbers in two letters, z and z̄, which know nothing of each other.

Roots of z·z̄ are |z|, and z / |z| is sgn(z), which is 0 at 0; exp((z + z̄)/2)·exp(−(z − z̄)/2) is exp(z̄); sums over one
range are one sum, in which terms cancel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

import sympy as sp

from symgrad.indexing import Bracket, Index, summed
from symgrad.indexing.symbols import Expr, access, accesses, indices_of, name_of

BAR, LENGTH, DIRECTION = "\N{COMBINING MACRON}", "_length", "_direction"
"""What follows the name of a complex tensor: its conjugate, its length, and the number of length 1 beside it."""
TURNING = (sp.sin, sp.cos, sp.sinh, sp.cosh, sp.atan2, sp.exp, sp.log)


def within_one_sum(expression: Expr) -> Expr:
    """Sums over axes of the same sizes as one; i where terms are not a sum each."""
    found = []
    for term in sp.Add.make_args(expression):
        sums = [f for f in sp.Mul.make_args(term) if isinstance(f, sp.Sum)]
        if len(sums) != 1:
            return sp.I
        found.append((sp.S.One, term / sums[0] * sums[0].function, [limit[0] for limit in sums[0].limits]))
    return sp.Add(*(summed(sp.factor_terms(sp.cancel(body)), bound) for _, body, bound in over_one_range(found)))


def over_one_range(sums: Iterable[tuple[Expr, Expr, list[Index]]]) -> Iterator[tuple[Expr, Expr, list[Index]]]:
    """What stands beside a sum, what it adds up, over which indices: those with the same beside and sizes are one."""
    bodies: dict[tuple[Expr, ...], list[Expr]] = {}
    bound: dict[tuple[Expr, ...], list[Index]] = {}
    for beside, body, own in sums:
        key = (beside, *(index.size for index in own))
        first = bound.setdefault(key, own)
        bodies.setdefault(key, []).append(body.xreplace(dict(zip(own, first, strict=True))))
    yield from ((key[0], sp.Add(*terms), bound[key]) for key, terms in bodies.items())


def with_directions(expression: Expr) -> Expr:
    """Roots of z·z̄ as |z|, quotients by it as sgn(z)."""
    for z in {a for a in accesses(expression) if not name_of(a).endswith(BAR)}:
        expression = expression.replace(
            lambda e: e.is_Pow and e.exp.is_Rational and not e.exp.is_Integer, partial(as_length, z)
        )
    return expression


def as_length(z: Expr, root: Expr) -> Expr:
    """(z·z̄)^(n/2) as |z|ⁿ; with the guard that is 1 where z is 0, as (z / sgn(z))ⁿ."""
    bar, length, direction = (access(name_of(z) + letter, indices_of(z)) for letter in (BAR, LENGTH, DIRECTION))
    square, own = z * bar, sp.expand(root.base)
    if own == square + Bracket(sp.Eq(square, 0)):
        return (z / direction) ** (2 * root.exp)
    return length ** (2 * root.exp) if own == square else root


def as_if_positive(expression: Expr) -> Expr:
    """Functions of (z + z̄)/2 and (z − z̄)/2i as functions of z and z̄."""
    if not expression.has(*TURNING):
        return expression
    letters = {a: sp.Dummy(name_of(a), positive=True) for a in accesses(expression)}
    found = expression.xreplace(letters).replace(sp.atan2, by_logarithms).rewrite(sp.exp)
    found = sp.expand(sp.expand(found), force=True)
    powers = found.atoms(sp.exp)
    both = {e: by_both(e.exp) for e in powers if sp.exp(-e.exp) in powers}
    return sp.expand(found.xreplace(both)).xreplace({letter: entry for entry, letter in letters.items()})


def by_logarithms(y: Expr, x: Expr) -> Expr:
    """The angle of x + i·y: half of what log tells of it and of its conjugate apart."""
    z, bar = (sp.expand(x + sign * sp.I * y) for sign in (1, -1))
    return (sp.log(z) - sp.log(bar)) / (2 * sp.I)


def by_both(power: Expr) -> Expr:
    """eᵗ as cosh t + sinh t, e^(i·t) as cos t + i·sin t."""
    turn = power / sp.I
    return sp.cosh(power) + sp.sinh(power) if turn.has(sp.I) else sp.cos(turn) + sp.I * sp.sin(turn)


__all__ = ["BAR", "DIRECTION", "LENGTH"]
