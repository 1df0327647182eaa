"""Functions with a name in matrix notation: softmax, mean, variance, centred and standardised tensors.

The words are for the page: the rules below put them in the place of the sums and quotients that they stand for, nobody
differentiates them. Those that are taken along an axis are of an entry, ``Softmax(f, (i,))`` at i; those that add
up are sums. In a Hessian, what is multiplied with its own transpose has a name, and `Once` stands around it:

    δ(p, q)·f(p) − f(p)·f(q)          →  p.diag() - p[:, None] * p          with p = f
    δ(p, q) / s − x(p)·x(q) / s³      →  (eye(n) - u[:, None] * u) / s      with u = x / s

Comes in: an expression. Goes out: the same with one of these words in it; and whether torch would hold truth values for
an expression, or read a tensor.
"""

from __future__ import annotations

from collections.abc import Sequence

import sympy as sp

from symgrad.functions import finite
from symgrad.indexing import Bracket
from symgrad.indexing.definitions import Quotient, canonical_at, remaining_factors, values_of
from symgrad.indexing.equation import canonical
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, Index, free_indices, is_access, ordered_indices
from symgrad.shapes import Size


class Shorthand:
    """Notation: it has a value and no derivative."""

    def _eval_derivative(self, symbol: Expr) -> Expr:
        raise AssertionError(f"symgrad bug: {type(self).__name__} is for the page, not for differentiating")


class Mean(Shorthand, sp.Sum):
    """``Mean(f(k), (k, 0, n − 1))``: Σ_k f(k) / n."""


class Variance(Shorthand, sp.Sum):
    """``Variance(f(k), (k, 0, n − 1))``: mean_k (f(k) − mean f)²."""


class ReciprocalGap(Shorthand, sp.Function):
    """``ReciprocalGap(f(k), f(l))``: 1 / (f(k) − f(l)), and 0 where k = l; exchanged it is its own negative."""

    nargs = 2
    is_real = True

    @classmethod
    def eval(cls, first: Expr, second: Expr) -> Expr | None:
        """In one order."""
        return -cls(second, first) if sp.default_sort_key(second) < sp.default_sort_key(first) else None


def shorthand(name: str, nargs: int, says: str, **facts: bool) -> type[sp.Function]:
    """A real function that only stands for something."""
    return type(name, (Shorthand, sp.Function), {"__doc__": says, "nargs": nargs, "is_real": True, **facts})


Softmax = shorthand("Softmax", 2, "``Softmax(f, (i,))``: exp(f) over the sum of exp(f) for every value of the index i.")
Masked = shorthand(
    "Masked", 3, "``Masked(f, (i,), c)``: [c]·exp(f) over the sum of [c]·exp(f) for every value of the index i."
)
Centred = shorthand("Centred", 2, "``Centred(f, (i,))``: f less its mean over every value of the index i.")
Standardised = shorthand("Standardised", 3, "``Standardised(f, (i,), e)``: f less its mean, over √(variance + e).")
Cases = shorthand("Cases", 3, "``Cases(c, a, b)``: a where the condition c holds, b elsewhere.")
Root = shorthand("Root", 1, "``Root(q)``: √q of a number such as 2·π, which SymPy would take apart.", is_positive=True)
Normal = shorthand("Normal", 1, "``Normal(z)``: (1 + erf(z / √2)) / 2, the normal distribution.")
Cross = shorthand("Cross", 3, "``Cross(f, g, (i,))``: the cross product of f and g along the index i, at i.")
Once = shorthand("Once", 1, "``Once(f)``: f, which stands there more than once and has a name.")


def rewrite_mean(expression: Expr) -> Expr:
    """Σ_k f(k) / n → mean_k f(k), where k takes n values and the sum is no matrix product"""
    if not expression.is_Mul:
        return expression
    for total in expression.args:
        if type(total) is not sp.Sum:
            continue
        size = count_terms(total)
        used = [free_indices(f) for f in split_factors(total.function) if free_indices(f)]
        if is_divided_by(expression, size) and is_elementwise_product(used):
            rest = sp.Mul(*(f for f in expression.args if f is not total)) * size
            return rest * Mean(total.function, *total.limits)
    return expression


def is_elementwise_product(used: Sequence[frozenset[Index]]) -> bool:
    """Whether factors with these indices are a product entry by entry, or would be with the others left out."""
    whole: frozenset[Index] = frozenset().union(*used)
    return bool(used) and (all(u == whole for u in used) or sum(u == whole for u in used) > 1)


def count_terms(total: Expr) -> Size:
    """How many terms a sum has."""
    return sp.Mul(*(limit[0].size for limit in total.limits))


def is_divided_by(expression: Expr, size: Size) -> bool:
    """Whether a product is divided by ``size`` and by all its factors."""
    number, sizes = size.as_coeff_Mul()
    below = expression.as_coeff_Mul(rational=True)[0].q
    return bool(below % number == 0) and all(1 / s in expression.args for s in sp.Mul.make_args(sizes) if s != 1)


def rewrite_centred(expression: Expr) -> Expr:
    """f(i) − Σ_k f(k) / n → f(i) − mean f, which has one name, also n times it"""
    if not expression.is_Add:
        return expression
    for term in expression.args:
        number, total = split_scaled_sum(term)
        if total is None:
            continue
        scale = -number if isinstance(total, Mean) else -number * count_terms(total)
        bound = [limit[0] for limit in total.limits]
        rest = expression - term
        for at in values_of(bound, (total.function,), rest):
            entry = canonical_at(at, bound, total.function)
            if scale * entry in sp.Add.make_args(rest):
                return rewrite_centred(rest - scale * entry + scale * Centred(entry, sp.Tuple(*at)))
    return expression


def take_constant_out_of_mean(expression: Expr) -> Expr:
    """mean_k(c·f(k)) → c·mean f, and so for what is centred, where c is read at none of the k"""
    if type(expression) is Mean:
        body, along = expression.function, {limit[0] for limit in expression.limits}
    elif isinstance(expression, Centred):
        body, along = expression.args[0], {*expression.args[1]}
    else:
        return expression
    factors = sp.Mul.make_args(body)
    apart = [f for f in factors if not free_indices(f) & along]
    rest = sp.Mul(*(f for f in factors if f not in apart))
    if not apart or not free_indices(rest) & along:
        return expression
    return sp.Mul(*apart, expression.func(rest, *expression.args[1:]))


def split_scaled_sum(term: Expr) -> tuple[Expr, Expr | None]:
    """A number or size, and the sum or mean that it is a multiple of."""
    total, scale = split_off_sum(term)
    plain = type(total) in LINEAR and not scale.has(sp.Indexed, sp.Sum) and not free_indices(scale)
    return (scale, total) if plain else (term, None)


def split_off_sum(term: Expr) -> tuple[Expr | None, Expr]:
    """The one sum among the factors of a term, and the other factors."""
    factors = sp.Mul.make_args(term)
    sums = [f for f in factors if isinstance(f, sp.Sum)]
    if len(sums) != 1:
        return None, term
    return sums[0], sp.Mul(*(f for f in factors if f is not sums[0]))


def rewrite_variance(expression: Expr) -> Expr:
    """Σ_k (f(k) − mean f)² / n → var f"""
    for total in sp.Mul.make_args(expression):
        if type(total) not in (sp.Sum, Mean) or not total.function.is_Pow or total.function.exp != 2:
            continue
        inner, along = total.function.base, [limit[0] for limit in total.limits]
        if isinstance(inner, Centred) and set(inner.args[1]) == set(along):
            count = 1 if isinstance(total, Mean) else count_terms(total)
            return expression / total * count * Variance(inner.args[0], *total.limits)
    return expression


LINEAR = (sp.Sum, Mean)


def find_softmax_denominator(base: Expr) -> Quotient | None:
    """Σ_k exp(f(k)) below the line, or Σ_k [k ≤ i]·exp(f(k)): a softmax is among those that meet the condition."""
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


def find_standard_deviation(base: Expr) -> Quotient | None:
    """√(var f + e) below the line."""
    spreads = [term for term in sp.Add.make_args(base) if isinstance(term, Variance)]
    if len(spreads) != 1 or not (base - spreads[0]).is_number:
        return None
    entry, bound = spreads[0].function, tuple(limit[0] for limit in spreads[0].limits)

    def named(at: Sequence[Expr]) -> Expr:
        return Standardised(entry.xreplace(dict(zip(bound, at, strict=True))), sp.Tuple(*at), base - spreads[0])

    return Quotient((Centred(entry, sp.Tuple(*bound)),), bound, sp.Rational(1, 2), named, LINEAR)


TRUTHS = (Bracket, finite)
"""What torch holds as true and false."""


def reads_tensor(node: Expr) -> bool:
    """Whether any tensor is read."""
    return any(is_access(n) for n in sp.preorder_traversal(node))


def is_boolean(node: Expr) -> bool:
    """Whether torch would hold true and false here, not numbers."""
    return all(isinstance(factor, TRUTHS) for factor in sp.Mul.make_args(node))


def is_count_of_truths(node: Expr) -> bool:
    """Whether torch would hold truth values or numbers of them here: tensors are read in conditions alone."""
    return isinstance(node, (*TRUTHS, sp.KroneckerDelta)) or (
        not is_access(node) and all(is_count_of_truths(part) for part in node.args)
    )


def name_square_root(expression: Expr) -> Expr:
    """c·f(p)·f(q) → c·t(p)·t(q), t named, where it is one term of several"""
    indices = free_indices(expression) if expression.is_Add else frozenset[Index]()
    if len(indices) != 2:
        return expression
    p, q = ordered_indices(indices)
    for term in expression.args:
        found = find_square(term, p, q)
        if found is None:
            continue
        rest, root = found
        at = {i: Once(root.xreplace({p: i})) for i in (p, q)}
        others = [put_named_root_in(t, at) for t in expression.args if t is not term]
        return sp.Add(*others, rest * at[p] * at[q])
    return expression


def find_square(term: Expr, p: Index, q: Index) -> tuple[Expr, Expr] | None:
    """c and f(p) of c·f(p)·f(q), where f is more than an entry."""
    parts: dict[frozenset[Index], list[Expr]] = {}
    for factor in split_factors(term):
        parts.setdefault(free_indices(factor), []).append(factor)
    first, second, numbers = (parts.pop(frozenset(of), []) for of in ({p}, {q}, ()))
    if parts or p.size != q.size or len(first) + len(second) < 2:
        return None
    first, second = canonical(sp.Mul(*first)), canonical(sp.Mul(*second))
    if first.xreplace({p: q}) != second:
        return None
    halves = [half for factor in numbers if (half := square_root_of(factor)) is not None]
    root = canonical(sp.Mul(first, *halves))
    rest = sp.Mul(*numbers) / sp.Mul(*halves) ** 2
    return None if is_access(root) or isinstance(root, Once) else (rest, root)


def square_root_of(factor: Expr) -> Expr | None:
    """The root of what is divided by twice, 1 / s of 1 / s³, and e^(a/2) of e^a."""
    base, power = factor.as_base_exp()
    if isinstance(factor, sp.exp):
        return sp.exp(factor.exp / 2)
    if base.is_number or not power.is_Integer or power > -2:
        return None
    return base ** -(int(-power) // 2)


def put_named_root_in(term: Expr, at: dict[Index, Expr]) -> Expr:
    """A term with a named part in the place of its factors, if all of them are among the term's."""
    factors = split_factors(term)
    for named in at.values():
        wanted = split_factors(named.args[0])
        if all(factors.count(f) >= wanted.count(f) for f in wanted) and free_indices(sp.Mul(*wanted)):
            return named * sp.Mul(*remaining_factors(factors, wanted))
    return term
