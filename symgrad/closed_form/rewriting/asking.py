"""What the writers ask about an expression and about axes: which indices, in which order, in which groups.

Axes that are only read as one number are one axis: v @ w, and then reshaped, for Σ_n v[i,n]·w[n, number of (l,m)].

Comes in: a formula and its axes. Goes out: the same over fewer axes; None where the axes are read apart. The other way
round, an axis that is only read as a number of several is those: `numbered_apart`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import sympy as sp

from symgrad.functions import finite
from symgrad.indexing import Bracket, Index, Ravel, Unravel, add_up, fresh
from symgrad.indexing.symbols import Expr, free_indices, is_access, name_of
from symgrad.program import Program

MOST_BELOW = 1000
"""What a fraction is divided by at most; others are decimals, as 1e-05 is."""
MOST_SHARES = 10**5
"""How many shares something is divided into at most."""

TRUTHS = (Bracket, finite)
"""What torch holds as true and false."""


def indices_in(node: Expr) -> frozenset[Index]:
    """The free indices of an expression."""
    return free_indices(node)


def reads_tensor(node: Expr) -> bool:
    """Whether any tensor is read."""
    return any(is_access(n) for n in sp.preorder_traversal(node))


def boolean(node: Expr) -> bool:
    """Whether torch would hold true and false here, not numbers."""
    return all(isinstance(factor, TRUTHS) for factor in sp.Mul.make_args(node))


def counted(node: Expr) -> bool:
    """Whether torch would hold truth values or numbers of them here: tensors are read in conditions alone."""
    return isinstance(node, (*TRUTHS, sp.KroneckerDelta)) or (
        not is_access(node) and all(counted(part) for part in node.args)
    )


def mentions_seed(node: Expr, program: Program) -> bool:
    """Whether the seed or a named cotangent is read."""
    return any(program.carries_weights(name_of(n)) for n in sp.preorder_traversal(node) if is_access(n))


@lru_cache(maxsize=1024)
def weight(node: Expr) -> tuple[int, str]:
    """Short factors first; by text where they are as long."""
    return int(sp.count_ops(node)), str(node)


def factor_order(
    factor: Expr, program: Program, negative: bool
) -> tuple[bool, bool, bool, bool, bool, tuple[int, str]]:
    """Where a factor stands: decimals, then tensors, the seed first; masks last behind a minus: torch has no -mask."""
    masked, seeded = negative and isinstance(factor, TRUTHS), mentions_seed(factor, program)
    number = is_written_out(factor)
    return masked, not number, not is_access(factor), not seeded, bool(indices_in(factor)), weight(factor)


def content_of(node: Expr) -> Expr:
    """The number that divides every coefficient of a sum, negative when every term is.

    Where a number is a term, or a coefficient is a decimal, it is 1 or −1: what a decimal shares with other numbers is
    no number that anyone would write. One decimal that all terms have is.
    """
    sign = sp.S.NegativeOne if all(t.could_extract_minus_sign() for t in node.args) else sp.S.One
    numbers = [term.as_coeff_Mul()[0] for term in node.args]
    tiny = [term for term in node.args if term.is_number and is_written_out(term)]
    if tiny and all(number.is_Integer for number in numbers if number not in tiny):
        content = sp.Add(*(term for term in node.args if term not in tiny)).primitive()[0]
        shorter = all(len(repr(float(term / content))) <= len(repr(float(term))) for term in tiny)
        return sign * content if shorter else sign  # 2·x + 2e-06 − 2·y is 2·(x + 1e-06 − y)
    if any(is_written_out(number) for number in numbers):
        return sign * (abs(numbers[0]) if len({abs(number) for number in numbers}) == 1 else 1)
    if any(term.is_number for term in node.args):
        share = max(map(abs, numbers))
        return sign * (share if share.p == 1 and share.q > 2 else 1)  # a / 9 - 1 / 90 is (a - 0.1) / 9
    content, _ = node.primitive()
    if content.q != 1 and any(number.is_Integer for number in numbers):
        content = sp.S.One  # Φ + x / 2 is not (2·Φ + x) / 2
    return sign * abs(content)


def without(node: Expr, content: Expr) -> Expr:
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


def in_a_row(node: Expr, axes: Sequence[Index]) -> tuple[Expr, tuple[Index, ...]] | None:
    """``node`` with one index for the axes that stand nowhere but in the same `Ravel`."""
    for number in sorted(node.atoms(Ravel), key=lambda ravel: -len(ravel.indices)):
        own = number.indices
        if not all(isinstance(i, Index) and i in axes and i.size == n for i, n in zip(own, number.shape, strict=True)):
            continue
        first = list(axes).index(own[0])
        whole = fresh(own[0].name, sp.Mul(*number.shape))
        together = node.xreplace({number: whole})
        if tuple(axes[first : first + len(own)]) == own and not together.free_symbols & {*own}:
            return together, (*axes[:first], whole, *axes[first + len(own) :])
    return None


def numbered_apart(expression: Expr) -> Expr:
    """Σ_j f(⌊j / n⌋, j mod n, j) → Σ_k Σ_l f(k, l, k·n + l), where j is the row-major number of (k, l)"""
    if type(expression) is not sp.Sum:
        return expression
    for limit in expression.limits:
        j = limit[0]
        shapes = {u.shape for u in expression.function.atoms(Unravel) if u.number == j}
        if len(shapes) != 1 or sp.expand(sp.Mul(*(shape := shapes.pop())) - j.size) != 0:
            continue
        parts = [sp.S.Zero if size == 1 else fresh(str(j.name), size) for size in shape]
        body = expression.function.xreplace({u: parts[u.axis] for u in expression.atoms(Unravel) if u.number == j})
        body = body.xreplace({j: Ravel(*parts, *shape)})
        others = [other[0] for other in expression.limits if other[0] != j]
        return add_up(body, [*others, *(part for part in parts if isinstance(part, Index))])
    return expression
