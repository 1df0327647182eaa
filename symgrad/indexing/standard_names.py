"""Bound indices under standard names, so that equal sums are equal objects; and quotients of sums as one name.

Σ_j x[j] and Σ_k x[k] differ only in what the index is called. Renaming every bound index to the standard one
of its size and nesting depth makes them the same SymPy expression, and like terms then cancel or add up by
themselves. Standard indices are only ever bound; `with_fresh_sums` renames them before an expression is put
inside another, so that nothing is captured.

In 1/c·Σ_k exp(f(k))·g(k), where c = Σ_k exp(f(k)), the quotient's numerator hides in a sum. `absorbed` finds the
numerator of a `Quotient` however deep it stands and puts the quotient in its place: a name, where formulas are written
(softmax), or one exponential, where they are evaluated.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product

import sympy as sp

from symgrad.indexing.brackets import Bracket, bracket
from symgrad.indexing.equation import Equation, rebuild, rebuilt_like, relabel, with_names
from symgrad.indexing.sums import put_in, split_factors, sum_of_conditions
from symgrad.indexing.symbols import (
    Expr,
    Index,
    accesses,
    bound_indices,
    free_indices,
    fresh,
    indices_of,
    name_of,
    over,
)
from symgrad.shapes import Size, SlotSymbol

HINTS = "jklabcd"
_standard: dict[tuple[int, Size], Index] = {}
_places: dict[Index, int] = {}
"""How deep the sums of each standard index nest."""


def standard_index(depth: int, size: Size) -> Index:
    """The one index that stands for a bound index of ``size`` at ``depth``."""
    key = (depth, size)
    if key not in _standard:
        _standard[key] = fresh(HINTS[depth % len(HINTS)], size)
        _places[_standard[key]] = depth
    return _standard[key]


def _nesting_depth(expression: Expr) -> int:
    """How many bound indices are nested inside ``expression`` at most."""
    if not expression.has(sp.Sum, sp.Product):
        return 0
    inside = max((_nesting_depth(a) for a in expression.args), default=0)
    return inside + len(expression.limits) if isinstance(expression, (sp.Sum, sp.Product)) else inside


def canonical(expression: Expr) -> Expr:
    """``expression`` with every bound index under its standard name."""

    def renamed(node: Expr) -> Expr | None:
        return canonical_sum(node) if isinstance(node, (sp.Sum, sp.Product)) else None

    return rebuild(expression, renamed, _remade) if expression.has(sp.Sum, sp.Product) else expression


def canonical_at(at: Sequence[Expr], axes: Sequence[Index], expression: Expr) -> Expr:
    """``expression`` with the places ``at`` on its axes."""
    return canonical(put_in(expression, dict(zip(axes, at, strict=True))))


def _remade(node: Expr, args: Sequence[Expr]) -> Expr:
    """``node`` on the canonical forms of its arguments, where terms may have become alike."""
    if node.is_Mul:
        apart = {a.as_base_exp()[0] for a in args}
    else:
        apart = {a.as_coeff_Mul()[1] for a in args} if node.is_Add else set(args)
    return rebuilt_like(node, args) if len(apart) == len(args) else node.func(*args)


@lru_cache(maxsize=1024)
def canonical_sum(node: Expr) -> Expr:
    """One sum or product under standard names; formulas hold the same one many times."""
    own, body = _out_of_reach(node)
    body = canonical(body)
    if body == 0 and isinstance(node, sp.Sum):
        return sp.S.Zero
    depth = _nesting_depth(body)
    limits = sorted(zip(own, node.limits, strict=True), key=lambda pair: _first_use(body, pair[0]))
    new = {index: standard_index(depth + place, index.size) for place, (index, _) in enumerate(limits)}
    renamed = (sp.Tuple(new[k], *limit[1:]) for k, limit in limits)
    return over(node.func, relabel(body, new), *renamed)


def _out_of_reach(node: Expr) -> tuple[tuple[Index, ...], Expr]:
    """A sum's own indices and its body, under names that no sum inside will get: it would catch them."""
    own = tuple(limit[0] for limit in node.limits)
    places = [_places[index] for index in own if index in _places]
    if not places or min(places) >= _nesting_depth(node.function):
        return own, node.function
    apart = {index: fresh(index.name, index.size) for index in own}
    return tuple(apart.values()), relabel(node.function, apart)


def _first_use(body: Expr, index: Index) -> tuple[str, ...]:
    """A key that tells the bound indices of one sum apart by how they are used, not by what they are called."""
    uses = [
        f"{node.func.__name__}:{place}:{node.args[0]}"
        for node in body.atoms(sp.Indexed, sp.KroneckerDelta)
        for place, argument in enumerate(node.args[1:] if isinstance(node, sp.Indexed) else node.args)
        if index in free_indices(argument)
    ]
    return (*sorted(uses), str(index.size))


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
            return sp.Mul(
                *(f for f in factors if f not in wanted), quotient.named(at), *surplus_factors(factors, wanted)
            )
    for place, factor in enumerate(factors):
        inner = absorbed_in_sum(factor, quotient, apart)
        if inner is not None:
            return sp.Mul(*factors[:place], inner, *factors[place + 1 :])
    return None


def surplus_factors(factors: Sequence[Expr], wanted: Sequence[Expr]) -> list[Expr]:
    """What is left of factors that stand there more often than they are wanted."""
    return [f for f in dict.fromkeys(wanted) for _ in range(factors.count(f) - wanted.count(f))]


def absorbed_in_sum(factor: Expr, quotient: Quotient, apart: frozenset[Index]) -> Expr | None:
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


def without_empty_sums(expression: Expr) -> Expr:
    """``expression`` with 0 for sums of 0, and for those of what then is 0."""
    while empty := [node for node in expression.atoms(sp.Sum) if node.function == 0]:
        expression = expression.xreplace(dict.fromkeys(empty, sp.S.Zero))
    return expression


def instantiate(equation: Equation, names: Mapping[str, str], sizes: Mapping[Size, Size]) -> Equation:
    """The equation with its operands renamed and its sizes replaced, on entirely new indices.

    With a number for a size, conditions may hold for every index: those are left out.
    """
    bound = bound_indices(equation.right)
    swap = {k: fresh(k.name, k.size.xreplace(dict(sizes))) for k in (*equation.axes, *bound)}
    right = relabel(with_names(equation.right, names), swap)
    right = right.xreplace({size: other for size, other in sizes.items() if size != other})
    if right.has(Bracket) and any(isinstance(size, SlotSymbol) or other.is_Integer for size, other in sizes.items()):
        right = rebuild(right, lambda node: bracket(node.args[0]) if isinstance(node, Bracket) else None)
        right = without_empty_sums(rebuild(right, sum_of_conditions))
    return Equation(tuple(swap[k] for k in equation.axes), right)
