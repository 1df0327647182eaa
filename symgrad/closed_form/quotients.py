"""Quotients that matrix notation has a name for: softmax, and what is standardised."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.shorthands import Centred, Mean, Softmax, Standardised, Variance
from symgrad.indexing.quotients import Quotient, named_quotient
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr

LINEAR = (sp.Sum, Mean)


def softmax_ratio(expression: Expr) -> Expr:
    """exp(f(i)) / Σ_k exp(f(k)) → softmax(f)[i]"""
    return named_quotient(expression, softmax_over)


def softmax_over(base: Expr) -> Quotient | None:
    """Σ_k exp(f(k)) below the line."""
    if type(base) is not sp.Sum:
        return None
    factors = split_factors(base.function)
    if not all(isinstance(f, sp.exp) for f in factors):
        return None
    bound = tuple(limit[0] for limit in base.limits)
    logits = sp.Add(*(f.exp for f in factors))

    def named(at: Sequence[Expr]) -> Expr:
        return Softmax(logits.xreplace(dict(zip(bound, at, strict=True))), sp.Tuple(*at))

    return Quotient(tuple(factors), bound, sp.S.One, named, LINEAR)


def standardised_ratio(expression: Expr) -> Expr:
    """(f(i) − mean f) / √(var f + e) → standardised(f)[i]"""
    return named_quotient(expression, standardised_over)


def standardised_over(base: Expr) -> Quotient | None:
    """√(var f + e) below the line."""
    spreads = [term for term in sp.Add.make_args(base) if isinstance(term, Variance)]
    if len(spreads) != 1 or not (base - spreads[0]).is_number:
        return None
    entry, bound = spreads[0].function, tuple(limit[0] for limit in spreads[0].limits)

    def named(at: Sequence[Expr]) -> Expr:
        return Standardised(entry.xreplace(dict(zip(bound, at, strict=True))), sp.Tuple(*at), base - spreads[0])

    return Quotient((Centred(entry, sp.Tuple(*bound)),), bound, sp.Rational(1, 2), named, LINEAR)
