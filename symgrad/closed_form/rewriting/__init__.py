"""Rewriting index formulas towards what people write, by named rules.

Each is true for every value, save that the guard of a division is dropped: the value of a form where it divides by 0
is checked at the point, and the form is not shown if it is wrong there.

A rule takes an expression and returns an equal one, or the same. `apply_rules` applies the table from the inside out
until nothing changes, and records each rule that changed something. The rules of one subject stand in a file of their
own; here are those for common factors, for cross products (f(i+1)·g(i+2) − f(i+2)·g(i+1)), and for the reciprocal gaps
of eigenvalues: 1 / (w[k] − w[l]), 0 on the diagonal.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import permutations
from operator import and_
from typing import TypeAlias

import sympy as sp

from symgrad.calculus.differentiate import Rewrite
from symgrad.closed_form.rewriting import conditions, scalar_rules, shorthands, sum_rules
from symgrad.closed_form.rewriting.shorthands import Cross, ReciprocalGap
from symgrad.closed_form.rewriting.sum_rules import pull_out_factors, split_sum
from symgrad.functions import sigmoid
from symgrad.indexing import Bracket, Index, over_same, summed
from symgrad.indexing.brackets import Mod
from symgrad.indexing.definitions import named_quotient
from symgrad.indexing.equation import canonical, with_fresh_sums
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, is_access, ordered_indices


def name_eigengap(expression: Expr) -> Expr:
    """[l ≠ k] / (f(k) − f(l)) → K[l,k]"""
    guards = [f for f in sp.Mul.make_args(expression) if isinstance(f, Bracket) and isinstance(f.args[0], sp.Ne)]
    for apart in guards if expression.is_Mul else ():
        for below in expression.args:
            gap = find_gap(below.base, *apart.args[0].args) if below.is_Pow and below.exp == -1 else None
            if gap is not None:
                return sp.Mul(gap, *(f for f in expression.args if f not in (apart, below)))
    return expression


def find_gap(difference: Expr, k: Expr, other: Expr) -> Expr | None:
    """`ReciprocalGap` of what is f(k) − f(l), or None."""
    if not (isinstance(k, Index) and isinstance(other, Index) and difference.is_Add and len(difference.args) == 2):
        return None
    minus, plus = sorted(difference.args, key=lambda term: not term.could_extract_minus_sign())
    return ReciprocalGap(plus, -minus) if swap_indices(plus, k, other) == -minus else None


def swap_indices(expression: Expr, k: Index, other: Index) -> Expr:
    """``expression`` with two indices in each other's place."""
    return expression.xreplace({k: other, other: k})


def symmetrise_factor(expression: Expr) -> Expr:
    """Σ_kl f(k, l)·(g(k, l) + g(l, k)) → Σ_kl (f(k, l) + f(l, k))·g(k, l), where K is a factor of f"""
    if not expression.has(ReciprocalGap):
        return expression
    factors, bound = split_sum(with_fresh_sums(expression))
    for sides in (f for f in factors if f.is_Add and len(f.args) == 2):
        for k, other in permutations(bound, 2):
            if k.size != other.size or swap_indices(sides.args[0], k, other) != sides.args[1]:
                continue
            rest = [f for f in factors if f is not sides]
            inner = [i for i in bound if i not in (k, other)]
            if free_indices(sides) & set(inner):
                continue
            within = [f for f in rest if free_indices(f) & set(inner)]
            once = sp.Mul(*(f for f in rest if f not in within), summed(sp.Mul(*within), inner))
            both = canonical(once) + canonical(swap_indices(once, k, other))
            return summed(both * sides.args[0], [k, other])
    return expression


AROUND = 3


def find_cross_product(expression: Expr) -> Expr:
    """f(i+1)·g(i+2) − f(i+2)·g(i+1) → (f × g)(i), times what both terms share"""
    if not expression.is_Add or len(expression.args) != 2:
        return expression
    first, second = sorted(expression.args, key=lambda term: bool(term.could_extract_minus_sign()))
    for axis in ordered_indices(i for i in free_indices(expression) if i.size == AROUND):
        one, two = (Mod(axis + n, AROUND) for n in (1, 2))
        factors = split_factors(first)
        sides = [[f for f in factors if f.has(place)] for place in (one, two)]
        if not all(sides) or any(f in sides[1] for f in sides[0]) or first.xreplace({one: two, two: one}) != -second:
            continue
        whole = [sp.Mul(*side).xreplace({place: axis}) for side, place in zip(sides, (one, two), strict=True)]
        return sp.Mul(*(f for f in factors if not f.has(one, two)), Cross(*whole, sp.Tuple(axis)))
    return expression


Rewritten: TypeAlias = tuple[Expr, tuple[Rewrite, ...]]
"""What an expression becomes in one pass, and the steps that led to it."""


@dataclass(frozen=True)
class FormRule:
    """``rewrite`` is named by its theorem in ``says``."""

    name: str
    says: str
    rewrite: Callable[[Expr], Expr]


def take_out_common_factor(expression: Expr) -> Expr:
    """a·b + a·c → a·(b + c), where a may be 1 / Σ_k f(k) to the lowest of its powers"""
    if not expression.is_Add:
        return expression
    roots = {p.base for term in expression.args for p in sp.Mul.make_args(term) if p.is_Pow and p.exp == -sp.S.Half}
    for terms in (expression.args, map(pull_out_factors, expression.args)):
        counts = [Counter(_split_repeated_totals(term, roots)) for term in terms]
        shared = reduce(and_, counts)
        if shared or not expression.has(sp.Sum):
            break
    apart = expression.atoms(sp.KroneckerDelta) - shared.keys()
    held = {i for delta in apart for i in delta.args if isinstance(i, Index)}
    shared = Counter({f: n for f, n in shared.items() if not f.is_number and not held & free_indices(f)})
    if not shared:
        return expression
    rest = [sp.Mul(*(f for f, n in (c - shared).items() for _ in range(n))) for c in counts]
    factors = [f for f, n in shared.items() for _ in range(n)]
    return sp.Mul(*factors, sp.Add(*rest))


MOST_FACTORS = 32
"""As often a factor stands beside itself where the common ones are looked for; a higher power stays one."""


def _split_repeated_totals(term: Expr, roots: Collection[Expr]) -> list[Expr]:
    """The factors of a term; what it is divided by more than once, if it holds a sum, stands there as often.

    So do powers of σ and 1 − σ: σ − σ² is σ·(1 − σ).

    What another term is divided by the root of is a product of two ``roots``.
    """
    factors = []
    for factor in split_factors(term):
        base, exponent = factor.as_base_exp()
        if base.has(sp.Sum) and exponent.is_Rational and exponent < 0:
            unit = sp.S.Half if base in roots else sp.Rational(1, exponent.q)
            often = -exponent / unit
            factors += [base**-unit] * int(often) if often <= MOST_FACTORS else [factor]
        elif exponent in range(2, MOST_FACTORS) and (isinstance(base, sigmoid) or isinstance(1 - base, sigmoid)):
            factors += [base] * int(exponent)
        else:
            factors.append(factor)
    return factors


SHORT = 10**9
"""Whole numbers up to here may stand where a decimal was."""


def take_number_out_of_sum(expression: Expr) -> Expr:
    """Σ_k c·f(k) → c·Σ_k f(k), c a number, also where it stands in every term of a factor"""
    if type(expression) is not sp.Sum:
        return expression
    number, factors = sp.S.One, []
    for factor in sp.Mul.make_args(expression.function):
        part, rest = factor.primitive() if factor.is_Add else factor.as_coeff_Mul(rational=True)
        if longest_integer(rest) > SHORT:  # 1.0507·a + 1.758·b has such terms: no person writes it without its decimals
            part, rest = sp.S.One, factor
        number *= part
        factors.append(rest)
    return expression if number == 1 else number * over_same(sp.Mul(*factors), expression)


def longest_integer(expression: Expr) -> int:
    """The longest whole number that is written in an expression."""
    return max((max(abs(n.p), n.q) for n in expression.atoms(sp.Rational)), default=1)


def flip_negative_difference(expression: Expr) -> Expr:
    """−Σ_k (a − b)·f → Σ_k (b − a)·f, also where it is multiplied"""
    if not expression.is_Mul or not expression.as_coeff_Mul(rational=True)[0].is_negative:
        return expression
    for total in (f for f in expression.args if isinstance(f, sp.Sum)):
        factors = sp.Mul.make_args(total.function)
        for factor in factors:
            other = flip_negative_difference(-factor) if isinstance(factor, sp.Sum) else -factor
            negative = [term for term in factor.args if term.could_extract_minus_sign()] if factor.is_Add else []
            if other != -factor or (factor.is_Add and 2 * len(negative) >= len(factor.args)):
                others = sp.Mul(*(f for f in factors if f is not factor))
                return -expression / total * total.func(others * other, *total.limits)
    return expression


merge_sums = partial(sum_rules.merge_pairs_of_terms, merge=sum_rules.merge_two_sums)
name_softmax = partial(named_quotient, kind=shorthands.find_softmax_denominator)
name_standardised = partial(named_quotient, kind=shorthands.find_standard_deviation)
RULES = (
    FormRule("logistic", "1 / (1 + eᶻ) → σ(−z), eᶻ·σ(−z) → σ(z)", scalar_rules.rewrite_sigmoid),
    FormRule("turned logistic", "1 − σ(−z) → σ(z)", scalar_rules.reflect_sigmoid),
    FormRule("normal", "erf(z / √2) / 2 + 1 / 2 → Φ(z)", scalar_rules.rewrite_normal_cdf),
    FormRule("raised together", "eᶜ·Σ_k eᶠ·g → Σ_k eᶠ⁺ᶜ·g", scalar_rules.merge_exponentials_into_sum),
    FormRule("absolute", "z·sign(z) → |z|", scalar_rules.rewrite_absolute_value),
    FormRule("taken in", "b·(1 − a / b) → b − a, for b = 1 − c", scalar_rules.expand_complement),
    FormRule("one denominator", "1 / b − a / b² → (b − a) / b²", scalar_rules.merge_denominators),
    FormRule("multiply out", "a·(b − c) + a·c → a·b", scalar_rules.expand_where_terms_cancel),
    FormRule("away from zero", "[t ≠ 0] / t → 1 / t, away from t = 0", conditions.drop_guards),
    FormRule("complement", "c − c·[t] → c·[not t], c a number", conditions.negate_condition),
    FormRule("mean", "Σ_k f(k) / n → mean_k f(k)", shorthands.rewrite_mean),
    FormRule("centre", "f(i) − Σ_k f(k) / n → f(i) − mean f", shorthands.rewrite_centred),
    FormRule("constant out", "mean_k(c·f(k)) → c·mean f, c read at no k", shorthands.take_constant_out_of_mean),
    FormRule("reciprocal gap", "[l ≠ k] / (f(k) − f(l)) → K[l,k]", name_eigengap),
    FormRule("variance", "Σ_k (f(k) − mean f)² / n → var f", shorthands.rewrite_variance),
    FormRule("softmax", "exp(f(i)) / Σ_k exp(f(k)) → softmax(f)[i]", name_softmax),
    FormRule("standardise", "(f(i) − mean f) / √(var f + e) → standardised(f)[i]", name_standardised),
    FormRule("merge sums", "Σ_k f·h + Σ_k g·h → Σ_k (f + g)·h", merge_sums),
    FormRule("number out", "Σ_k c·f(k) → c·Σ_k f(k)", take_number_out_of_sum),
    FormRule("turn", "−Σ_k (a − b)·f → Σ_k (b − a)·f", flip_negative_difference),
    FormRule(
        "squared", "c·f(p)·f(q) → c·t(p)·t(q), t named, where it is one term of several", shorthands.name_square_root
    ),
    FormRule("common factor", "a·b + a·c → a·(b + c)", take_out_common_factor),
    FormRule("either side", "[x > c] + [x < −c] → [|x| > c], c a number", conditions.merge_two_sided_condition),
    FormRule("cross product", "f(i+1)·g(i+2) − f(i+2)·g(i+1) → (f × g)(i)", find_cross_product),
    FormRule("cases", "[c]·a + [not c]·b → a where c, else b", conditions.merge_into_cases),
    FormRule("step", "a·[c] + b → a + b where c, else b, for numbers", conditions.step_to_cases),
    FormRule("decided", "[c]·(a where c, else b) → [c]·a", conditions.drop_decided_cases),
)
DIVIDING = (
    FormRule(
        "without one", "Π_k ([k ≠ i]·f(k) + [k = i]) → Π_k f(k) / f(i), where f(i) ≠ 0", scalar_rules.exclude_entry
    ),
)
"""Only for short notation: array operations are right where these divide by 0, too."""
APART = (
    FormRule(
        "numbered apart", "Σ_j f(⌊j / n⌋, j mod n) → Σ_k Σ_l f(k, l), where j numbers the pairs", sum_rules.unravel_axes
    ),
)
"""Where nothing else has short notation: grouped convolutions have calls for numbers in one piece."""
AMONG_NAMES = (
    FormRule(
        "symmetrise",
        "Σ_kl f(k, l)·(g(k, l) + g(l, k)) → Σ_kl (f(k, l) + f(l, k))·g(k, l), where K is a factor of f",
        symmetrise_factor,
    ),
    FormRule(
        "merge nested sums",
        "Σ_l Σ_k f·h + c·Σ_k h → Σ_k (Σ_l f + c)·h, where f or c has the indices of both",
        sum_rules.merge_nested,
    ),
)
"""Only where something has a name: what is alike is hidden before that, and nests differently."""


def apply_rules(expression: Expr, record: list[Rewrite], more: Sequence[FormRule] = ()) -> Expr:
    """``expression`` with the rules, and ``more`` before them, applied from the inside out; each firing is recorded."""
    seen = dict[Expr, Rewritten]()
    for _ in range(8):
        before = expression
        expression = canonical(_rewrite_once(expression, record, (*more, *RULES), seen))
        if expression == before:
            return expression
    return expression


def _rewrite_once(
    expression: Expr, record: list[Rewrite], rules: Sequence[FormRule], seen: dict[Expr, Rewritten]
) -> Expr:
    """One pass: first the parts, then the whole; what was ``seen`` with these rules is not rewritten again."""
    if is_access(expression) or not expression.args or isinstance(expression, sp.KroneckerDelta):
        return expression
    before, begun = expression, len(record)
    if (known := seen.get(before)) is not None:
        record += known[1]
        return known[0]
    parts = expression.args[:1] if isinstance(expression, sp.Sum) else expression.args
    args = [_rewrite_once(part, record, rules, seen) for part in parts]
    if any(a is not b for a, b in zip(args, parts, strict=True)):
        expression = expression.func(*args, *expression.args[len(args) :])
    for rule in rules:
        changed = rule.rewrite(expression)
        if changed != expression:
            record.append(Rewrite(rule.name, changed, rule.says))
            expression = changed
    seen[before] = expression, tuple(record[begun:])
    return expression
