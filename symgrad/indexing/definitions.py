"""Names in the place of what they stand for, and common factors in front.

    δ_jq / √V[i] − (x[i,j] − μ[i])·(x[i,q] − μ[i]) / V[i]^(3/2) / n   →   r[i]·(δ_jq − xhat[i,j]·xhat[i,q] / n)

Comes in: an expression and what is defined, each an index equation. A product that holds all factors of a definition,
at whatever indices and under whatever sums, gets the name in their place: the sums around it are taken apart, and put
together again. What comes out has the same value, and is what came in where no name makes it shorter.

In 1/c·Σ_k exp(f(k))·g(k), where c = Σ_k exp(f(k)), the quotient's numerator hides in a sum. `absorbed` finds the
numerator of a `Quotient` however deep it stands and puts the quotient in its place: a name, where formulas are written
(softmax), or one exponential, where they are evaluated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial, reduce
from itertools import product
from operator import eq

import sympy as sp

from symgrad.indexing.brackets import Bracket, bracket
from symgrad.indexing.equation import Equation, canonical, rebuild, relabel, with_fresh_sums, with_names
from symgrad.indexing.sums import contracted_sum, put_in, split_factors, sum_of_conditions
from symgrad.indexing.symbols import (
    Expr,
    Index,
    access,
    accesses,
    bound_indices,
    free_indices,
    fresh,
    indices_of,
    is_access,
    name_of,
    names_read,
    ordered_indices,
    over,
    weight,
)
from symgrad.shapes import Size, SlotSymbol

WIDEST = 1000
"""Nodes of an expression beyond which no names are looked for."""
LARGEST = 10**4
"""Numbers up to this are taken out of a sum."""


@dataclass(frozen=True)
class NamedEquation:
    """``name`` stands for an equation, whose axes nothing else has; an axis of one entry is not written."""

    name: str
    equation: Equation


@dataclass(frozen=True)
class Product:
    """Σ over ``bound`` of ``constant`` · ∏ factor^exponent."""

    constant: Expr = sp.S.One
    powers: Mapping[Expr, Expr] = field(default_factory=dict)
    bound: tuple[Index, ...] = ()

    def times(self, other: Product, exponent: Expr = sp.S.One) -> Product:
        """The product of both, the other raised to a power."""
        powers = {**self.powers}
        for factor, power in other.powers.items():
            powers[factor] = powers.get(factor, sp.S.Zero) + power * exponent
        left = {factor: power for factor, power in powers.items() if power != 0}
        return Product(self.constant * other.constant**exponent, left, (*self.bound, *other.bound))

    def whole(self) -> Expr:
        """It as an expression."""
        return contracted_sum(sp.Mul(self.constant, *(f**power for f, power in self.powers.items())), self.bound)


def take_apart(term: Expr, sums: bool = True) -> Product:
    """A term as its factors, those of its ``sums`` among them; numbers and sizes are constant."""
    found = Product()
    for factor in split_factors(term):
        base, exponent = (factor, sp.S.One) if isinstance(factor, sp.exp) else factor.as_base_exp()
        if not (free_indices(factor) or accesses(factor) or factor.has(sp.Sum, sp.Product)):
            found = found.times(Product(factor))
        elif sums and type(factor) is sp.Sum and not factor.function.is_Add:
            own = with_fresh_sums(factor)
            inner, limits = take_apart(own.function), tuple(limit[0] for limit in own.limits)
            found = found.times(Product(inner.constant, inner.powers, (*limits, *inner.bound)))
        else:
            rest = canonical(base)
            content, rest = split_content(rest) if base.is_Add and rest.is_Add else (sp.S.One, rest)
            turn = -1 if content.is_negative and not exponent.is_integer else 1  # no root of a negative number
            found = found.times(Product((turn * content) ** exponent, {turn * rest: exponent}))
    return found


def split_content(total: Expr) -> tuple[Expr, Expr]:
    """The numbers and sizes that all terms share, and what is left: x − Σ/n is 1/n and n·x − Σ."""
    terms = [take_apart(term, sums=False) for term in total.args]
    numbers = [term.constant.as_coeff_Mul()[0] for term in terms]
    if not all(term.powers for term in terms) or not all(n.is_Rational and n.q <= LARGEST for n in numbers):
        return sp.S.One, total
    sizes = [sizes_of(term.constant) for term in terms]
    first = min(zip(total.args, numbers, strict=True), key=lambda pair: (weight(pair[0]), names_read(pair[0])))
    content = sp.Rational(sp.igcd(*(n.p for n in numbers)), sp.ilcm(*(n.q for n in numbers))) * sp.sign(first[1])
    content *= sp.Mul(*(s ** min(own.get(s, 0) for own in sizes) for s in {s for own in sizes for s in own}))
    return content, sp.Add(*(term / content for term in total.args))


def sizes_of(constant: Expr) -> dict[Expr, Expr]:
    """The factors of a constant, but for its number."""
    return {} if constant.is_number else dict((constant / constant.as_coeff_Mul()[0]).as_powers_dict())


@lru_cache(maxsize=2048)
def normal(node: Expr) -> Expr:
    """``node`` with numbers and sizes in front of its sums, so that equals look alike."""
    if is_access(node) or not node.args or isinstance(node, sp.KroneckerDelta):
        return node
    args = [normal(a) if isinstance(a, sp.Basic) else a for a in node.args]
    made = node if all(map(eq, args, node.args)) else node.func(*args)
    if type(made) is sp.Sum:
        body = take_apart(made.function, sums=False)
        made = body.constant * over(sp.Sum, made.function / body.constant, *made.limits)
    elif made.is_Mul or made.is_Pow:
        made = take_apart(made, sums=False).whole()
    return canonical(made) if isinstance(made, sp.Expr) else made


def put_name(
    node: Expr, definition: NamedEquation, pattern: Product, of: Callable[[Expr], Expr] = lambda entry: entry
) -> Expr:
    """``node`` with a name wherever its definition stands, or what is ``of`` it: a product, or a whole sum of terms."""
    if is_access(node) or isinstance(node, (sp.KroneckerDelta, sp.Tuple)):
        return node
    if not {*names_read(definition.equation.right)} <= {*names_read(node)}:
        return node
    put = partial(put_name, definition=definition, pattern=pattern, of=of)
    term, named = take_apart(node) if isinstance(node, sp.Expr) else Product(), Product()
    while (found := find_definition(definition, pattern, term)) is not None:
        places, times, term = found
        named = named.times(Product(powers={of(access(definition.name, places)): times}))
    if not named.powers and (node.is_Add or not isinstance(node, sp.Expr) or node in term.powers):
        args = [put(a) for a in node.args]  # no product: inside of it
        return node if all(map(eq, args, node.args)) else node.func(*args)
    inner = {factor: put(factor) for factor in term.powers}
    if not named.powers and all(factor == new for factor, new in inner.items()):
        return node
    for factor, power in term.powers.items():
        named = named.times(Product(powers={inner[factor]: power}))
    return named.times(Product(term.constant, {}, term.bound)).whole()


def find_definition(
    definition: NamedEquation, pattern: Product, term: Product
) -> tuple[list[Expr], Expr, Product] | None:
    """At which indices and how often a definition stands in a term, and what is left of that."""
    axes = [axis for axis in definition.equation.axes if axis.size != 1]
    for at in assignments(tuple(pattern.powers.items()), (*axes, *pattern.bound), term.powers, {}):
        inner, places = [at.get(index) for index in pattern.bound], [at.get(axis) for axis in axes]
        taken = Product(pattern.constant, {canonical(f.xreplace(at)): e for f, e in pattern.powers.items()})
        if None in (*inner, *places) or len({*inner} & {*term.bound}) < len(inner):
            continue
        if not taken.powers or len(taken.powers) < len(pattern.powers):
            continue
        times = 1 if inner else min((int(term.powers[f] / e) for f, e in taken.powers.items()), key=abs)
        left = Product(term.constant, term.powers).times(taken, sp.Integer(-times))
        if any(free_indices(node) & {*inner} for node in (*places, *left.powers)):
            continue
        bound = tuple(index for index in term.bound if index not in inner)
        return places, sp.Integer(times), Product(left.constant, left.powers, bound)
    return None


def assignments(
    patterns: Sequence[tuple[Expr, Expr]], indices: Sequence[Index], powers: Mapping[Expr, Expr], at: dict[Index, Expr]
) -> Iterator[dict[Index, Expr]]:
    """What the ``indices`` may be for each pattern to be one of the factors, which has its exponent or more of it."""
    if not patterns:
        yield at
        return
    (pattern, exponent), *rest = patterns
    here = pattern.xreplace(at)
    free = [index for index in indices if index not in at and index in free_indices(here)]
    for factor, power in powers.items():
        if factor.func is not here.func or not ((power / exponent).is_number and power / exponent >= 1):
            continue
        for places in values_of(free, (here,), factor):
            fit = all(k.size == p.size for k, p in zip(free, places, strict=True) if isinstance(p, Index))
            if fit and canonical_at(places, free, here) == factor:
                yield from assignments(rest, indices, powers, {**at, **dict(zip(free, places, strict=True))})


def common_factors_out(node: Expr) -> Expr:
    """a·c − b·c as c·(a − b), here and inside."""
    if is_access(node) or not node.args or not isinstance(node, sp.Expr):
        return node
    whole = node.func(*map(common_factors_out, node.args))
    if whole.is_Mul:
        return min((whole, *sizes_into_sum(whole)), key=weight)
    if not whole.is_Add:
        return whole
    parts = [take_apart(term, sums=False) for term in whole.args]
    shared = reduce(common_powers, ({**part.powers, **sizes_of(part.constant)} for part in parts))
    common = sp.Mul(*(factor**power for factor, power in shared.items()))
    return common * sp.Add(*(term / common for term in whole.args)) if shared else whole


def sizes_into_sum(product: Expr) -> Iterator[Expr]:
    """(n·x − Σ)/n as x − Σ/n, for each sum that is a factor."""
    sizes = sp.Mul(*(f**e for f, e in sizes_of(take_apart(product, sums=False).constant).items()))
    for factor in product.args if sizes != 1 else ():
        if factor.is_Add:
            yield product / sizes / factor * sp.Add(*(term * sizes for term in factor.args))


def common_powers(one: Mapping[Expr, Expr], other: Mapping[Expr, Expr]) -> dict[Expr, Expr]:
    """What both are multiplied with, or divided by."""
    pairs = {f: (e, other[f]) for f, e in one.items() if f in other and (e / other[f]).is_positive}
    return {f: min(pair, key=abs) for f, pair in pairs.items()}


@lru_cache(maxsize=512)
def in_names(expression: Expr, definitions: tuple[NamedEquation, ...]) -> Expr:
    """``expression`` in the names of what is defined, as far as they make it shorter."""
    if not definitions or weight(expression) > WIDEST:
        return expression
    found = normal(expression)
    short = common_factors_out(found)
    for definition in definitions:
        right = normal(definition.equation.right)
        named = put_name(found, definition, take_apart(right))
        if right.is_Add:
            named = put_name(named, definition, take_apart(sp.exp(right)), sp.exp)
        named = normal(named)
        shorter = common_factors_out(named)
        found, short = (named, shorter) if weight(shorter) < weight(short) else (found, short)
    named = not {definition.name for definition in definitions}.isdisjoint(names_read(short))
    return canonical(short) if named and weight(short) < weight(expression) else expression


def canonical_at(at: Sequence[Expr], axes: Sequence[Index], expression: Expr) -> Expr:
    """``expression`` with the places ``at`` on its axes."""
    return canonical(put_in(expression, dict(zip(axes, at, strict=True))))


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
            return sp.Mul(quotient.named(at), *remaining_factors(factors, wanted))
    for place, factor in enumerate(factors):
        inner = absorbed_in_sum(factor, quotient, apart)
        if inner is not None:
            return sp.Mul(*factors[:place], inner, *factors[place + 1 :])
    return None


def remaining_factors(factors: Sequence[Expr], taken: Sequence[Expr]) -> Iterator[Expr]:
    """Factors without those that are taken, each as often as it is."""
    return (Counter(factors) - Counter(taken)).elements()


def absorbed_in_sum(factor: Expr, quotient: Quotient, apart: frozenset[Index]) -> Expr | None:
    """A sum, or a sum of terms, that has the numerator in it."""
    if factor.is_Add:
        return absorbed(factor, quotient, apart)
    if type(factor) not in quotient.through or apart & {limit[0] for limit in factor.limits}:
        return None
    body = absorbed(factor.function, quotient, apart)
    return None if body is None else factor.func(body, *factor.limits)


def values_of(indices: Sequence[Index], patterns: Sequence[Expr], node: Expr) -> Iterator[tuple[Expr, ...]]:
    """What ``indices`` of ``patterns`` may be in ``node``: what stands there in the same tensors, or any of a size."""
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
    read, free = {index for index, *_ in places}, ordered_indices(free_indices(node))
    return product(*(found[i] if i in read else [k for k in free if k.size == i.size] for i in indices))


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
