"""Rewriting index formulas towards what people write, by named rules.

Each is true for every value, save that the guard of a division is dropped: what a form says where it divides by 0
is checked at the point, and it is not shown if it is wrong.

A rule takes an expression and answers with an equal one, or the same. `simplify` applies the table from the
inside out until nothing changes, and records each firing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import sympy as sp

from symgrad.calculus.steps import Step
from symgrad.indexing.brackets import Bracket
from symgrad.indexing.canonical import canonical
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, is_access


@dataclass(frozen=True)
class Rule:
    """``rewrite`` is named by its theorem in ``says``."""

    name: str
    says: str
    rewrite: Callable[[Expr], Expr]


def common_factor(expression: Expr) -> Expr:
    """a·b + a·c → a·(b + c)"""
    if not expression.is_Add:
        return expression
    counts = [Counter(split_factors(term)) for term in expression.args]
    shared = counts[0]
    for other in counts[1:]:
        shared = shared & other
    held = {i for delta in expression.atoms(sp.KroneckerDelta) for i in delta.free_symbols}  # a diagonal keeps its own
    shared = Counter({f: n for f, n in shared.items() if not f.is_number and not held & free_indices(f)})
    if not shared:
        return expression
    rest = [sp.Mul(*(f for f, n in (c - shared).items() for _ in range(n))) for c in counts]
    factors = [f for f, n in shared.items() for _ in range(n)]
    return sp.Mul(*factors, sp.Add(*rest))


def merge_sums(expression: Expr) -> Expr:
    """Σ_k f(k)·h(k) + Σ_k g(k)·h(k) → Σ_k (f(k) + g(k))·h(k)"""
    if not expression.is_Add:
        return expression
    terms = list(expression.args)
    for i, first in enumerate(terms):
        for other in terms[i + 1 :]:
            merged = _merge(first, other)
            if merged is not None:
                rest = [t for t in terms if t is not first and t is not other]
                return merge_sums(sp.Add(merged, *rest))
    return expression


def _merge(first: Expr, second: Expr) -> Expr | None:
    """One sum for two over the same index with the same outer factor and a common inner one."""
    parts = [_sum_and_rest(term) for term in (first, second)]
    (a, outer_a), (b, outer_b) = parts
    if a is None or b is None or outer_a != outer_b or a.limits != b.limits:
        return None
    f, g = Counter(split_factors(a.function)), Counter(split_factors(b.function))
    shared = f & g
    if not shared:
        return None
    rest = [sp.Mul(*(x for x, n in (c - shared).items() for _ in range(n))) for c in (f, g)]
    common = [x for x, n in shared.items() for _ in range(n)]
    return outer_a * sp.Sum(sp.Mul(*common, sp.Add(*rest)), *a.limits)


def _sum_and_rest(term: Expr) -> tuple[Expr | None, Expr]:
    """The one sum among the factors of a term, and the other factors."""
    factors = sp.Mul.make_args(term)
    sums = [f for f in factors if isinstance(f, sp.Sum)]
    if len(sums) != 1:
        return None, term
    return sums[0], sp.Mul(*(f for f in factors if f is not sums[0]))


def softmax_ratio(expression: Expr) -> Expr:
    """exp(f(i)) / Σ_k exp(f(k)) → softmax(f)[i]"""
    if not expression.is_Mul:
        return expression
    factors = split_factors(expression)
    for below in factors:
        base, exponent = below.as_base_exp()
        power = exponent.is_Integer and exponent.is_negative
        if not power or not isinstance(base, sp.Sum) or not isinstance(base.function, sp.exp):
            continue
        for above in factors:
            along = _softmax_axis(above, base)
            if along is not None:
                rest = [f for f in factors if f is not above and f is not below]
                return softmax_ratio(sp.Mul(*rest, base ** (exponent + 1), Softmax(above.exp, sp.Tuple(*along))))
    return expression


def _softmax_axis(above: Expr, base: Expr) -> list[Expr] | None:
    """The free indices that the sum's bound ones stand for, if ``above`` is one of the summed exponentials."""
    if not isinstance(above, sp.exp):
        return None
    bound = [limit[0] for limit in base.limits]
    pattern, target = base.function.exp, above.exp
    if not (is_access(pattern) and is_access(target) and pattern.base == target.base):
        return None
    pairs = dict(zip(pattern.indices, target.indices, strict=True))
    if not set(bound) <= set(pairs):
        return None
    if any(pairs[i] != i for i in pattern.indices if i not in bound):
        return None
    return [pairs[k] for k in bound]


class Softmax(sp.Function):
    """``Softmax(f, (i,))``: exp(f) over the sum of exp(f) for every value of the index i."""

    nargs = 2
    is_real = True

    def _eval_derivative(self, symbol: Expr) -> Expr:
        raise AssertionError("symgrad bug: softmax notation is for the page, not for differentiating")


class Mean(sp.Sum):
    """``Mean(f(k), (k, 0, n − 1))``: Σ_k f(k) / n, as notation."""

    def _eval_derivative(self, symbol: Expr) -> Expr:
        raise AssertionError("symgrad bug: mean notation is for the page, not for differentiating")


def mean_of(expression: Expr) -> Expr:
    """Σ_k f(k) / n → mean_k f(k), where k takes n values and the sum is no matrix product"""
    if not expression.is_Mul:
        return expression
    for total in expression.args:
        if not isinstance(total, sp.Sum) or isinstance(total, Mean):
            continue
        size = sp.Mul(*(limit[0].size for limit in total.limits))
        used = [free_indices(f) for f in split_factors(total.function) if free_indices(f)]
        if _divides(expression, size) and used and all(u == used[0] for u in used):
            rest = sp.Mul(*(f for f in expression.args if f is not total)) * size
            return rest * Mean(total.function, *total.limits)
    return expression


def _divides(expression: Expr, size: Expr) -> bool:
    """Whether a product is divided by ``size`` and by all its factors."""
    return not size.is_Integer and all(1 / s in expression.args for s in sp.Mul.make_args(size))


def complement(expression: Expr) -> Expr:
    """1 − [c] → [not c]"""
    if not expression.is_Add or sp.S.One not in expression.args:
        return expression
    for term in expression.args:
        if isinstance(-term, Bracket) and (-term).args[0].is_Relational:
            return expression - 1 - term + Bracket((-term).args[0].negated)
    return expression


def guard(expression: Expr) -> Expr:
    """[e > 0] / e → 1 / e, where e ≠ 0: the form is for the points that have a derivative"""
    if not expression.is_Mul:
        return expression
    below = [base for base, exponent in (f.as_base_exp() for f in expression.args) if exponent.is_negative]
    kept = [
        f
        for f in expression.args
        if not (
            isinstance(f, Bracket) and isinstance(f.args[0], sp.Gt) and f.args[0].rhs == 0 and f.args[0].lhs in below
        )
    ]
    return sp.Mul(*kept) if len(kept) < len(expression.args) else expression


def away_from_zero(expression: Expr) -> Expr:
    """[t ≠ 0] / t → 1 / t, away from t = 0"""
    if not expression.is_Mul:
        return expression
    below = {f.base for f in expression.args if f.is_Pow and f.exp.is_number and f.exp.is_negative}
    guards = [f for f in expression.args if isinstance(f, Bracket) and isinstance(f.args[0], sp.Ne)]
    needless = [f for f in guards if f.args[0].rhs == 0 and f.args[0].lhs in below]
    return sp.Mul(*(f for f in expression.args if f not in needless)) if needless else expression


def number_out(expression: Expr) -> Expr:
    """Σ_k c·f(k) → c·Σ_k f(k), c a number, also where it stands in every term of a factor"""
    if not isinstance(expression, sp.Sum) or isinstance(expression, Mean):
        return expression
    number, factors = sp.S.One, []
    for factor in sp.Mul.make_args(expression.function):
        part, rest = factor.primitive() if factor.is_Add else factor.as_coeff_Mul(rational=True)
        number *= part
        factors.append(rest)
    return expression if number == 1 else number * sp.Sum(sp.Mul(*factors), *expression.limits)


RULES = (
    Rule("away from zero", "[t ≠ 0] / t → 1 / t, away from t = 0", away_from_zero),
    Rule("guard", "[e > 0] / e → 1 / e, where e ≠ 0", guard),
    Rule("complement", "1 − [c] → [not c]", complement),
    Rule("mean", "Σ_k f(k) / n → mean_k f(k)", mean_of),
    Rule("softmax", "exp(f(i)) / Σ_k exp(f(k)) → softmax(f)[i]", softmax_ratio),
    Rule("merge sums", "Σ_k f·h + Σ_k g·h → Σ_k (f + g)·h", merge_sums),
    Rule("number out", "Σ_k c·f(k) → c·Σ_k f(k)", number_out),
    Rule("common factor", "a·b + a·c → a·(b + c)", common_factor),
)


def simplify(expression: Expr, record: list[Step]) -> Expr:
    """``expression`` with the rules applied from the inside out; each firing is recorded."""
    for _ in range(8):
        before = expression
        expression = canonical(_bottom_up(expression, record))
        if expression == before:
            return expression
    return expression


def _bottom_up(expression: Expr, record: list[Step]) -> Expr:
    """One pass: first the parts, then the whole."""
    if is_access(expression) or not expression.args or isinstance(expression, sp.KroneckerDelta):
        return expression
    if isinstance(expression, sp.Sum):
        body = _bottom_up(expression.function, record)
        expression = expression if body is expression.function else sp.Sum(body, *expression.limits)
    else:
        args = [_bottom_up(a, record) for a in expression.args]
        if any(a is not b for a, b in zip(args, expression.args, strict=True)):
            expression = expression.func(*args)
    for rule in RULES:
        changed = rule.rewrite(expression)
        if changed != expression:
            record.append(Step(rule.name, changed, rule.says))
            expression = changed
    return expression
