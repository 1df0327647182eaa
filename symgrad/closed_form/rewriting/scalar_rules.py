"""Rules for functions of one number: logistic quotients, |x|, roots, fractions, products without one factor.

Comes in: an expression. Goes out: an equal one that is shorter to write, or the same; for a number, whether it is
written as a decimal.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.closed_form.rewriting.shorthands import Cases, Normal, Root
from symgrad.functions import sigmoid, sign
from symgrad.indexing import Bracket, Index, is_constant, over_same
from symgrad.indexing.symbols import Expr, free_indices, weight

BELOW = (sp.S.NegativeOne, sp.Integer(-2), sp.Integer(-3))
"""Powers of a denominator that are looked at."""
HALVES = tuple(sp.Integer(-n) for n in range(1, 7))
"""The same and those of its root, doubled."""


def rewrite_sigmoid(expression: Expr) -> Expr:
    """1 / (1 + eᶻ) → σ(−z), eᶻ·σ(−z) → σ(z), e²ᶻ·σ(−z)² → σ(z)²"""
    factors = sp.Mul.make_args(expression)
    for base, power in (factor.as_base_exp() for factor in factors if expression.is_Mul):
        for raised in (f for f in factors if isinstance(f, sp.exp)) if isinstance(base, sigmoid) else ():
            times = sp.cancel(-raised.exp / base.args[0])
            if times.is_Integer and times.is_positive and power.is_Integer and power.is_positive:
                own, other, least = base.args[0], sigmoid(-base.args[0]), min(times, power)
                rest = sp.Mul(*(f for f in factors if f not in (raised, base**power)))
                return rest * sp.exp((least - times) * own) * base ** (power - least) * other**least
    for factor in sp.Mul.make_args(expression) if expression.is_Mul or expression.is_Pow else ():
        base, power = factor.as_base_exp()
        if power not in BELOW or not base.is_Add or len(base.args) != 2 or sp.S.One not in base.args:
            continue
        raised = base - 1
        if not isinstance(raised, sp.exp):
            continue
        return expression / factor * sigmoid(-raised.exp) ** -power
    return expression


def merge_exponentials_into_sum(expression: Expr) -> Expr:
    """eᶜ·Σ_k eᶠ·g → Σ_k eᶠ⁺ᶜ·g, which does not overflow where c is −log Σ eᶠ"""
    raised = [f for f in expression.args if isinstance(f, sp.exp)] if expression.is_Mul else []
    totals = [f for f in expression.args if type(f) is sp.Sum] if raised else []
    for outer in (f for f in raised if not f.exp.is_number):
        held = [(total, inner) for total in totals if (inner := find_exp_in(total, free_indices(outer))) is not None]
        if held:
            moved = [
                over_same(total.function / inner * sp.exp(inner.exp + outer.exp / len(held)), total)
                for total, inner in held
            ]
            return sp.Mul(*(f for f in expression.args if f is not outer and f not in dict(held)), *moved)
    return expression


def find_exp_in(total: Expr, indices: frozenset[Index]) -> Expr | None:
    """The eᶠ in a sum where f has all of these indices."""
    return next(
        (f for f in sp.Mul.make_args(total.function) if isinstance(f, sp.exp) and indices <= free_indices(f)), None
    )


def reflect_sigmoid(expression: Expr) -> Expr:
    """1 − σ(−z) → σ(z), 1 − σ(b − a) → σ(a − b), also with a number before all of it"""
    if not expression.is_Add:
        return expression
    number, whole = expression.as_content_primitive()
    if not any(term.is_Integer and term > 0 for term in whole.args):
        return expression
    for term in whole.args:
        if isinstance(-term, sigmoid) and (
            (-term).args[0].could_extract_minus_sign() or is_difference((-term).args[0])
        ):
            return number * (whole - term - 1 + sigmoid(-(-term).args[0]))
    return expression


def is_difference(expression: Expr) -> bool:
    """a − b"""
    return (
        len(expression.args) == 2
        and expression.is_Add
        and sum(t.could_extract_minus_sign() for t in expression.args) == 1
    )


def rewrite_normal_cdf(expression: Expr) -> Expr:
    """erf(z / √2) / 2 + 1 / 2 → Φ(z)"""
    if not expression.is_Add or sp.S.Half not in expression.args:
        return expression
    for term in expression.args:
        if isinstance(2 * term, sp.erf):
            return expression - term - sp.S.Half + Normal(sp.sqrt(2) * (2 * term).args[0])
    return expression


def merge_roots(factors: Sequence[Expr]) -> list[Expr]:
    """√2·x / (2·√π) → x / √(2·π): roots of numbers as one, with the number beside them where that leaves 1 above"""
    roots = [f for f in factors if f.is_Pow and abs(f.exp) == sp.S.Half and (f.base.is_Rational or f.base is sp.pi)]
    if not roots:
        return list(factors)
    numbers = [f for f in factors if f.is_Rational and f.is_positive]
    square, whole = (sp.Mul(*(f**2 for f in part)) for part in (roots, [*roots, *numbers]))
    if sp.fraction(whole)[0] == 1 or (sp.fraction(whole)[1] == 1 and len(numbers) > 0):
        square, numbers_left = whole, []
    else:
        numbers_left = numbers
    rest = [f for f in factors if f not in roots and f not in numbers]
    above, below = sp.fraction(square)
    return [*numbers_left, *rest, 1 / Root(below) if above == 1 else Root(square)]


def rewrite_absolute_value(expression: Expr) -> Expr:
    """z·sign(z) → |z|, z²·sign(z)³ → z·|z|, 1/(z²·sign(z)) → sign(z)/z²"""
    factors = expression.args if expression.is_Mul else ()
    for factor in factors:
        base, power = factor.as_base_exp()
        if not isinstance(base, sign) or not power.is_Integer or not power.is_odd:
            continue
        (z,) = base.args
        if power.is_negative and any(f.as_base_exp()[0] == z and f.exp.is_negative for f in factors if f.is_Pow):
            return expression / factor * base  # at z = 0 nothing is defined either way
        if power.is_positive:
            powers = {own: n for own, n in (f.as_base_exp() for f in factors) if n.is_Integer and n.is_positive}
            if z in powers:
                return expression / factor / z * sp.Abs(z)
            if -z in powers:
                return -expression / factor / -z * sp.Abs(z)
    return expression


def expand_where_terms_cancel(expression: Expr) -> Expr:
    """a·(b − c) + a·c → a·b, where terms cancel"""
    if not expression.is_Add or not any(factor.is_Add for t in expression.args for factor in sp.Mul.make_args(t)):
        return expression
    found = sp.Add(*(sp.expand_mul(term, deep=False) for term in expression.args))
    return found if weight(found) < weight(expression) else expression


def expand_complement(expression: Expr) -> Expr:
    """b·(1 − a / b) → b − a, for b = 1 − c"""
    factors = expression.args if expression.is_Mul else ()
    for below in (f for f in factors if f.is_Add and sp.S.One in f.args):
        for added in (f for f in factors if f.is_Add and f is not below):
            if any(below**-1 in sp.Mul.make_args(term) for term in added.args):
                inside = sp.Add(*(term * below for term in added.args))
                return sp.Mul(*(f for f in factors if f not in (below, added)), inside)
    return expression


def is_reciprocal(factor: Expr) -> bool:
    """Whether a factor is one over a denominator, over its root, or over a power of either."""
    return bool(factor.is_Pow and factor.exp.is_Rational and 2 * factor.exp in HALVES)


def merge_denominators(expression: Expr) -> Expr:
    """1 / b − a / b² → (b − a) / b², where the numerator gets shorter; also 1 / √b − a / √b³"""
    if not expression.is_Add:
        return expression
    below = [{f.base: -f.exp for f in sp.Mul.make_args(t) if is_reciprocal(f)} for t in expression.args]
    for base in below[0]:
        powers = [own.get(base, sp.S.Zero) for own in below]
        if not base.is_Add or 0 in powers or len(set(powers)) == 1:
            continue
        if not all((power - powers[0]).is_Integer for power in powers):
            continue
        above = sp.expand_mul(sp.Add(*(sp.expand_mul(t * base ** max(powers)) for t in expression.args)))
        found = above / base ** max(powers)
        if weight(found) < weight(expression):
            return found
    return expression


def exclude_entry(expression: Expr) -> Expr:
    """Π_k ([k ≠ i]·f(k) + [k = i]) → Π_k f(k) / f(i), where f(i) ≠ 0"""
    if not isinstance(expression, sp.Product):
        return expression
    left_out = (
        find_excluded_in_cases(expression.function)
        if isinstance(expression.function, Cases)
        else find_excluded_in_sum(expression.function)
    )
    if left_out is None:
        return expression
    entry, conditions = left_out
    bound = [limit[0] for limit in expression.limits]
    places = {k: other for c in conditions for k, other in (c.args, c.args[::-1]) if k in bound and other not in bound}
    if set(places) != set(bound) or len(conditions) != len(bound):
        return expression
    return over_same(entry, expression) / entry.xreplace(places)


def find_excluded_in_cases(body: Expr) -> tuple[Expr, list[Expr]] | None:
    """f and k = i, of f where k ≠ i, else 1."""
    condition, entry, other = body.args
    return (entry, [sp.Eq(*condition.args)]) if isinstance(condition, sp.Ne) and other == 1 else None


def find_excluded_in_sum(body: Expr) -> tuple[Expr, list[Expr]] | None:
    """f and the conditions c, d, …, of (1 − [c]·[d])·f + [c]·[d]."""
    for here in body.args if body.is_Add and len(body.args) == 2 else ():
        brackets = sp.Mul.make_args(here)
        entry = (body - here) / (1 - here)
        if all(isinstance(b, Bracket) and isinstance(b.args[0], sp.Eq) for b in brackets) and not entry.has(Bracket):
            return entry, [b.args[0] for b in brackets]
    return None


MOST_BELOW = 1000
"""What a fraction is divided by at most; others are decimals, as 1e-05 is."""
MOST_SHARES = 10**5
"""How many shares something is divided into at most."""


def find_content(node: Expr) -> Expr:
    """The number that divides every coefficient of a sum, negative when every term is.

    Where a number is a term, or a coefficient is a decimal, it is 1 or −1: what a decimal shares with other numbers is
    no number that anyone would write. One decimal that all terms have is.
    """
    sign = sp.S.NegativeOne if all(t.could_extract_minus_sign() for t in node.args) else sp.S.One
    numbers = [term.as_coeff_Mul()[0] for term in node.args]
    alone = [term for term in node.args if is_constant(term)]
    tiny = [term for term in alone if is_written_out(term)]
    if tiny and all(number.is_Integer for number in numbers if number not in tiny):
        content = sp.Add(*(term for term in node.args if term not in tiny)).primitive()[0]
        shorter = all(len(repr(float(term / content))) <= len(repr(float(term))) for term in tiny)
        return sign * content if shorter else sign  # 2·x + 2e-06 − 2·y is 2·(x + 1e-06 − y)
    if any(is_written_out(number) for number in numbers):
        return sign * (abs(numbers[0]) if len({abs(number) for number in numbers}) == 1 else 1)
    if alone:
        share = max(map(abs, numbers))
        return sign * (share if share.p == 1 and share.q > 2 else 1)  # a / 9 - 1 / 90 is (a - 0.1) / 9
    content, _ = node.primitive()
    if content.q != 1 and any(number.is_Integer for number in numbers):
        content = sp.S.One  # Φ + x / 2 is not (2·Φ + x) / 2
    return sign * abs(content)


def divide_by_content(node: Expr, content: Expr) -> Expr:
    """A sum divided by its content; a decimal and itself leave no 1.0."""
    parts = (term.as_coeff_Mul() for term in node.args)
    return sp.Add(
        *(
            sp.Integer(1 if own == content else -1) * rest if abs(own) == abs(content) else own / content * rest
            for own, rest in parts
        )
    )


def is_written_out(number: Expr) -> bool:
    """Whether a number is a decimal, exact or not."""
    return bool(number.is_Float) or is_decimal(number)


def is_decimal(number: Expr) -> bool:
    """Whether a rational number is written as a decimal, as 1e-05 is; 1 / 1500 is a share of so many."""
    if not number.is_Rational or number.q <= MOST_BELOW:
        return False
    return not (abs(number.p) == 1 and number.q <= MOST_SHARES and not has_few_digits(number))


def has_few_digits(number: Expr) -> bool:
    """Whether a rational number has a decimal that ends, and nobody would write as halves or quarters."""
    return bool(number.is_Rational and number.q % 5 == 0 and 10**6 % number.q == 0)
