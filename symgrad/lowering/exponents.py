"""Products of exponentials, written so that large exponents cancel before they are raised.

Comes in: a product. Goes out: its factors, the exponentials among them as one, or inside the sum they belong to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import sympy as sp

from symgrad.indexing import Bracket, Index, over_same
from symgrad.indexing.canonical import Quotient, named_quotient
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices


class Share(sp.Function):
    """``Share(a, c)``: exp(a)/c as exp(a − log c), which SymPy would write as a quotient again."""

    nargs = 2
    is_real = True


@lru_cache(maxsize=1024)
def stable_factors(node: Expr) -> tuple[Expr, ...]:
    """exp(a)·exp(b) / Σ exp(c) as exp(a + b − log Σ exp(c)), also where exp(a) is a factor in a sum or its terms."""
    if not node.has(sp.exp):
        return node.args if node.is_Mul else (node,)
    node = named_quotient(sp.Mul(*(f for factor in node.args for f in totals_out(factor))), over_exponentials)
    if not node.is_Mul:
        return (node,)
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
            inside = over_same(factor.function * sp.exp(sp.Add(*exponents), evaluate=False), factor)
            return (*others[:n], inside, *others[n + 1 :])
    if len(exponents) < 2:
        return tuple(node.args)
    return (*others, sp.exp(sp.Add(*exponents), evaluate=False))


def exponentials_only(node: Expr) -> bool:
    """Whether ``node`` is a plain sum of exponentials, or of those that meet a condition."""
    if type(node) is not sp.Sum:
        return False
    factors = split_factors(node.function)
    return any(isinstance(f, sp.exp) for f in factors) and all(isinstance(f, (sp.exp, Bracket)) for f in factors)


def over_exponentials(base: Expr) -> Quotient | None:
    """Σ_k exp(f(k)) below the line."""
    if not exponentials_only(base):
        return None
    raised = tuple(f for f in split_factors(base.function) if isinstance(f, sp.exp))
    bound = tuple(limit[0] for limit in base.limits)
    exponent = sp.Add(*(f.exp for f in raised))

    def named(at: Sequence[Expr]) -> Expr:
        return Share(exponent.xreplace(dict(zip(bound, at, strict=True))), base)

    return Quotient(raised, bound, sp.S.One, named)


def totals_out(factor: Expr) -> tuple[Expr, ...]:
    """a/c + b/c² as (a + b/c)·1/c, where c sums exponentials."""
    if not factor.is_Add:
        return (factor,)
    for below in factor.args[0].args if factor.args[0].is_Mul else ():
        base, power = below.as_base_exp()
        if power.is_Integer and power < 0 and exponentials_only(base):
            rest = [term * base for term in factor.args]
            if not any(base in sp.Mul.make_args(term) for term in rest):
                return (sp.Add(*rest), 1 / base)
    return (factor,)


def sums_exponentials(node: Expr, exponent: Expr) -> bool:
    """Whether ``node`` is Σ c·exp(f) or Σ c/Σ exp(f), to which exp(exponent) brings no new index: it can go inside."""
    if type(node) is not sp.Sum or not node.function.is_Mul:
        return False
    bases = [f.as_base_exp() for f in node.function.args if not isinstance(f, sp.exp)]
    if any(power.is_number and power.is_negative and exponentials_only(base) for base, power in bases):
        return bool(free_indices(exponent) <= free_indices(node.function))
    found = [f.exp for f in node.function.args if isinstance(f, sp.exp)]
    return any(exponent.atoms(Index) <= f.atoms(Index) for f in found)
