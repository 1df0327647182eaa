"""Quotients that matrix notation has a name for: softmax, and what is standardised."""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.rewriting.asking import reads_tensor
from symgrad.closed_form.rewriting.shorthands import Centred, Masked, Mean, Softmax, Standardised, Variance
from symgrad.indexing import Bracket
from symgrad.indexing.quotients import Quotient, named_quotient
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr

LINEAR = (sp.Sum, Mean)


def softmax_ratio(expression: Expr) -> Expr:
    """exp(f(i)) / Σ_k exp(f(k)) → softmax(f)[i], among those that meet a condition if there is one"""
    return named_quotient(expression, softmax_over)


def softmax_over(base: Expr) -> Quotient | None:
    """Σ_k exp(f(k)) below the line, or Σ_k [k ≤ i]·exp(f(k))."""
    if type(base) is not sp.Sum:
        return None
    factors = split_factors(base.function)
    masks = [f for f in factors if isinstance(f, Bracket) and not reads_tensor(f)]
    logits = [f.exp for f in factors if isinstance(f, sp.exp)]
    if not logits or len(logits) + len(masks) < len(factors):
        return None
    bound = tuple(limit[0] for limit in base.limits)

    def named(at: Sequence[Expr]) -> Expr:
        new = dict(zip(bound, at, strict=True))
        entry, among = sp.Add(*logits).xreplace(new), sp.Mul(*masks).xreplace(new)
        return Masked(entry, sp.Tuple(*at), among) if masks else Softmax(entry, sp.Tuple(*at))

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
