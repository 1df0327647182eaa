"""The factors of a product, as they are best computed: large exponents cancel before they are raised.

Comes in: a product, or its factors. Goes out: factors, without anything of arrays: the exponentials as one, or inside
the sum they belong to; |x| for sign(x)·x; what is below the line; conditions by sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

import sympy as sp

from symgrad.functions import Stable, sign
from symgrad.indexing import Bracket, Index, over_same
from symgrad.indexing.canonical import Quotient, named_quotient
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import WEIGHTS, Expr, accesses, free_indices, is_access, name_of
from symgrad.lowering.windows import line
from symgrad.shapes import Size


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


def with_sizes(factors: Sequence[Expr], without: Sequence[Expr]) -> list[Expr]:
    """The factors, sign(x)·x as |x|."""
    found = [f for f in factors if f not in without]
    for factor in list(found):
        if isinstance(factor, sign) and factor.args[0] in found:
            found.remove(factor)
            found[found.index(factor.args[0])] = sp.Abs(factor.args[0])
    return found


def quotient(factors: Sequence[Expr], bound: Sequence[Index]) -> tuple[list[Expr], list[Expr]]:
    """The factors above, and what is below that nothing sums over."""
    below = [f for f in factors if f.is_Pow and f.exp == -1 and any(accesses(f)) and free_indices(f).isdisjoint(bound)]
    return [f for f in factors if f not in below], [f.base for f in below]


DIVISIONS = 4
"""The largest power below the line that is taken apart."""


@lru_cache(maxsize=1024)
def in_turn(factors: tuple[Expr, ...]) -> tuple[tuple[Expr, ...], tuple[Expr, ...], tuple[Expr, ...]]:
    """a·v/y² as (a) over (y, y), then (v): y² may be no float where a/y² is one.

    Of all other products the factors are in the last part; seeds, tangents and numbers always are.
    """
    late = [f for f in factors if f.is_number or (is_access(f) and name_of(f) in WEIGHTS)]
    early = [f for f in factors if f not in late]
    below = [f for f in early if f.is_Pow and f.exp.is_Integer and -DIVISIONS <= f.exp < 0]
    if all(f.exp == -1 for f in below):
        return (), (), factors
    above = [f for f in early if f not in below]
    return repeated(above), repeated([1 / f for f in below]), tuple(late)


def repeated(factors: Sequence[Expr]) -> tuple[Expr, ...]:
    """y, y for y²; what is no such power is as it is."""
    counts = [int(f.exp) if f.is_Pow and f.exp.is_Integer and 0 < f.exp <= DIVISIONS else 1 for f in factors]
    return tuple(part for f, n in zip(factors, counts, strict=True) for part in ([f.base] * n if n > 1 else [f]))


def rounded_once(node: Expr) -> tuple[Expr, Expr] | None:
    """What is above the line and below it in a function that jumps: 0.3 / 0.1 is less than 3, 0.3 · (1 / 0.1) is 3."""
    if not isinstance(node, Stable) or node.fdiff() != 0:
        return None
    above, below = sp.fraction(node.args[0])
    return None if below.is_number else (above, below)


def quarter_zeros(node: Expr) -> tuple[Expr, ...]:
    """That a cosine or a sine of quarter turns is not 0, a factor of it: no float is π/2, and its cosine is 6e-17."""
    if not (isinstance(node, (sp.cos, sp.sin)) and node.args[0].has(sp.pi)):
        return ()
    turns = sp.together(2 * node.args[0] / sp.pi)
    if turns.has(sp.pi) or not turns.free_symbols:
        return ()
    above, below = sp.fraction(turns)
    zero = below if isinstance(node, sp.cos) else sp.S.Zero
    return (Bracket(sp.Ne(sp.Mod(above, 2 * below, evaluate=False), zero, evaluate=False)),)


def apart(relation: Expr) -> tuple[Expr, Expr]:
    """The two sides of a condition, indices that are subtracted moved to the other one: none is laid out on a grid."""
    gap = line(relation.lhs - relation.rhs)
    if gap is None or len(gap.slopes) < 2:
        left, right = relation.args
        return left, right
    left = sum((slope * k for k, slope in gap.slopes if slope > 0), gap.constant)
    return left, sum((-slope * k for k, slope in gap.slopes if slope < 0), sp.S.Zero)


def one_hot(factor: Expr, factors: Sequence[Expr], bound: Sequence[Index], size: Callable[[Size], int]) -> bool:
    """Whether ``factor`` is δ(a number, p) for a place that there is, p standing nowhere else."""
    if not isinstance(factor, sp.KroneckerDelta):
        return False
    place, index = sorted(factor.args, key=lambda a: isinstance(a, Index))
    if not (place.is_Integer and isinstance(index, Index) and index not in bound):
        return False
    return 0 <= place < size(index.size) and not any(index in free_indices(f) for f in factors if f is not factor)
