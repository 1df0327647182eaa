"""Products of exponentials, written so that large exponents cancel before they are raised.

Comes in: a product. Goes out: its factors, the exponentials among them as one, or inside the sum they belong to.
"""

from __future__ import annotations

import sympy as sp

from symgrad.indexing import Index
from symgrad.indexing.symbols import Expr


def stable_factors(node: Expr) -> list[Expr]:
    """exp(a)·exp(b) / Σ exp(c) as exp(a + b − log Σ exp(c)), and exp(a)·Σ exp(b)·c as Σ exp(a + b)·c."""
    exponents: list[Expr] = []
    others: list[Expr] = []
    for factor in node.args:
        base, power = factor.as_base_exp()
        if isinstance(factor, sp.exp):
            exponents.append(factor.exp)
        elif power.is_number and exponentials_only(base):
            exponents.append(power * sp.log(base))
        else:
            others.append(factor)
    for n, factor in enumerate(others):
        if exponents and sums_exponentials(factor, sp.Add(*exponents)):
            inside = sp.Sum(factor.function * sp.exp(sp.Add(*exponents), evaluate=False), *factor.limits)
            return [*others[:n], inside, *others[n + 1 :]]
    if len(exponents) < 2:
        return list(node.args)
    return [*others, sp.exp(sp.Add(*exponents), evaluate=False)]


def exponentials_only(node: Expr) -> bool:
    """Whether ``node`` is a plain sum of exponentials."""
    return isinstance(node, sp.Sum) and isinstance(node.function, sp.exp)


def sums_exponentials(node: Expr, exponent: Expr) -> bool:
    """Whether ``node`` is Σ c·exp(f) where f has the indices of ``exponent``: then exp(exponent) can go inside."""
    if not isinstance(node, sp.Sum) or not node.function.is_Mul:
        return False
    found = [f.exp for f in node.function.args if isinstance(f, sp.exp)]
    return any(exponent.atoms(Index) <= f.atoms(Index) for f in found)
