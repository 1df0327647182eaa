"""Quotients whose numerator hides in a sum: 1/c·Σ_k exp(f(k))·g(k), where c = Σ_k exp(f(k)).

`absorbed` finds the numerator of a `Quotient` however deep it stands and puts the quotient in its place: a name, where
formulas are written (softmax), or one exponential, where they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import sympy as sp

from symgrad.indexing.canonical import canonical
from symgrad.indexing.sums import put_in, split_factors
from symgrad.indexing.symbols import Expr, Index, accesses, free_indices, indices_of, name_of


@dataclass(frozen=True)
class Quotient:
    """Factors that vary with ``indices``, over base**exponent, are what ``named`` gives for the indices' values.

    ``through`` are the sums that the denominator may be taken into.
    """

    above: tuple[Expr, ...]
    indices: tuple[Index, ...]
    exponent: Expr
    named: Callable[[Sequence[Expr]], Expr]
    through: tuple[type, ...] = (sp.Sum,)


def named_quotient(expression: Expr, kind: Callable[[Expr], Quotient | None]) -> Expr:
    """A product with every quotient of one kind under its name."""
    if not expression.is_Mul:
        return expression
    for below in expression.args:
        base, exponent = below.as_base_exp()
        quotient = kind(base) if exponent.is_number and exponent.is_negative else None
        if quotient is None or exponent + quotient.exponent > 0:
            continue
        rest = absorbed(sp.Mul(*(f for f in expression.args if f is not below)), quotient, free_indices(base))
        if rest is not None:
            return named_quotient(rest * base ** (exponent + quotient.exponent), kind)
    return expression


def absorbed(node: Expr, quotient: Quotient, apart: frozenset[Index]) -> Expr | None:
    """``node`` over the quotient's base, the name put in once in each term; None where a term has no numerator."""
    if node.is_Add:
        terms = [absorbed(term, quotient, apart) for term in node.args]
        return None if any(term is None for term in terms) else sp.Add(*terms)
    factors = split_factors(node)
    for at in values_of(quotient.indices, quotient.above, node):
        new = dict(zip(quotient.indices, at, strict=True))
        wanted = [canonical(put_in(factor, new)) for factor in quotient.above]
        if all(factor in factors for factor in wanted):
            return sp.Mul(*(f for f in factors if f not in wanted), quotient.named(at), *repeated(factors, wanted))
    for place, factor in enumerate(factors):
        inner = inside(factor, quotient, apart)
        if inner is not None:
            return sp.Mul(*factors[:place], inner, *factors[place + 1 :])
    return None


def repeated(factors: Sequence[Expr], wanted: Sequence[Expr]) -> list[Expr]:
    """What is left of factors that stand there more often than they are wanted."""
    return [f for f in dict.fromkeys(wanted) for _ in range(factors.count(f) - wanted.count(f))]


def inside(factor: Expr, quotient: Quotient, apart: frozenset[Index]) -> Expr | None:
    """A sum, or a sum of terms, that has the numerator in it."""
    if factor.is_Add:
        return absorbed(factor, quotient, apart)
    if type(factor) not in quotient.through or apart & {limit[0] for limit in factor.limits}:
        return None
    body = absorbed(factor.function, quotient, apart)
    return None if body is None else factor.func(body, *factor.limits)


def values_of(indices: Sequence[Index], patterns: Sequence[Expr], node: Expr) -> Iterator[tuple[Expr, ...]]:
    """What the ``indices`` of ``patterns`` may be in ``node``: what stands in their places in the same tensors."""
    places = [
        (index, name_of(entry), place)
        for pattern in patterns
        for entry in accesses(pattern)
        for place, index in enumerate(indices_of(entry))
        if index in indices
    ]
    found: dict[Index, dict[Expr, None]] = {index: {} for index in indices}
    for entry in accesses(node):
        for index, name, place in places:
            if name_of(entry) == name:
                found[index][indices_of(entry)[place]] = None
    return product(*found.values())
