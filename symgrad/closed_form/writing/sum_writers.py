"""Writing a sum: a matrix product where two groups of factors meet in one index, else (f * g).sum(), else einsum.

Comes in: the factors under a sum, and the indices it runs over. Goes out: a fragment; `NoForm` where no way fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import sympy as sp

from symgrad.closed_form.fragments import (
    Axes,
    Fragment,
    Notation,
    as_matrix,
    axis_number,
    call_method,
    choose_body_order,
    drop_size_one_axes,
    mentions_seed,
    truths_as_numbers,
    write_matmul,
)
from symgrad.closed_form.number_code import NoForm, first_form
from symgrad.closed_form.rewriting.shorthands import Mean, Variance, is_count_of_truths
from symgrad.closed_form.writing.index_ranges import write_sum_within_range, write_window_sum
from symgrad.indexing import Bracket, Index, summed
from symgrad.indexing.sums import split_factors
from symgrad.indexing.symbols import Expr, free_indices, fresh
from symgrad.language.python_text import Part, call
from symgrad.language.syntax_tree import Literal, PythonCall
from symgrad.notation.tree import Name, SyntaxNode, walk

ADDED_UP = "sum"
MEAN = "mean"
EINSUM = "einsum"
SUMS = (ADDED_UP, MEAN)
"""The methods of a form that add up along the axes that stand first."""


def write_sum(notation: Notation, node: Expr, prefer: Sequence[Index]) -> Fragment:
    """Σ over one index as a matrix product, over several as a sum of a product, else einsum."""
    bound = [limit[0] for limit in node.limits]
    factors = split_exponentials(node.function) if node.function.is_Mul else [node.function]
    if isinstance(node, Mean):
        return write_sum_of_product(notation, factors, bound, prefer, MEAN)
    if isinstance(node, Variance):
        return write_sum_of_product(notation, factors, bound, prefer, "var", correction=0)
    return first_form(WAYS, notation, factors, bound, prefer)


def split_exponentials(node: Expr) -> list[Expr]:
    """The factors of a product; of e to a sum each term whose indices are not those of another: e^(x[k] − c) is one."""
    factors: list[Expr] = []
    for factor in sp.Mul.make_args(node):
        whole = isinstance(factor, sp.exp) and any(
            free_indices(term) == free_indices(factor) for term in factor.exp.args
        )
        factors += [factor] if whole else split_factors(factor)
    return factors


def write_factored(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Σ_k c·f(k) is c times Σ_k f(k)."""
    apart = [f for f in factors if not free_indices(f) & set(bound)]
    if not apart or len(apart) == len(factors):
        raise NoForm
    inner = summed(sp.Mul(*(f for f in factors if f not in apart)), bound)
    return notation.product([*apart, inner], prefer)


def write_cumsum(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Σ_k [k ≤ q]·f(k) is f.cumsum(-1), Σ_k [q ≤ k]·f(k) the same from the end."""
    orders = [f for f in factors if isinstance(f, Bracket) and f.args[0].func in (sp.Le, sp.Ge)]
    rest = [f for f in factors if f not in orders]
    if len(bound) != 1 or len(orders) != 1 or not rest:
        raise NoForm
    (k,), ends = bound, (orders[0].args[0].lts, orders[0].args[0].gts)
    if k not in ends or not all(isinstance(end, Index) and end.size == k.size for end in ends):
        raise NoForm
    (q,) = set(ends) - {k}
    body = drop_size_one_axes(notation.multiplied(rest, [k if i == q else i for i in prefer]))
    if k not in body.axes or q in body.axes or body.compares:
        raise NoForm
    axis, axes = axis_number(body.axes, k), tuple(q if i == k else i for i in body.axes)
    if k == ends[0]:
        return call_method(body, axes, "cumsum", axis)
    return call_method(call_method(call_method(body, axes, "flip", axis), axes, "cumsum", axis), axes, "flip", axis)


def write_broadcast(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Term by term where terms would have to be broadcast against each other before they are added."""
    added = next((f for f in factors if f.is_Add), None)
    parts = () if added is None else [part for term in added.args for part in sp.Mul.make_args(term)]
    if len(bound) > 1 or added is None or any(free_indices(part) == free_indices(added) for part in parts):
        raise NoForm
    return write_terms(notation, factors, bound, prefer)


def write_as_matmul(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Σ_k f[p,k]·g[k,q] is f @ g, either side a vector or a product of factors, or a stack of matrices against one."""
    if len(bound) != 1 or len(factors) < 2:
        raise NoForm
    (k,) = bound
    batch = [i for i in prefer if i != k and all(i in free_indices(f) for f in factors)]
    if not batch and len(prefer) == 2:
        weights = [f for f in factors if free_indices(f) == {k}]
        sides = group_factors_by_indices([f for f in factors if f not in weights], {k})
        if weights and len(sides) == 2 and all(len(free_indices(sp.Mul(*side))) == 2 for side in sides):
            return write_weighted_product(notation, sides, weights, k, prefer)
    groups = group_factors_by_indices(factors, {k, *batch})
    if len(groups) != 2:
        raise NoForm
    free = [[i for i in free_indices(sp.Mul(*g)) if i != k and i not in batch] for g in groups]
    least, most = sorted(map(len, free))
    if most > 1 and (batch or least != 1 or not {*free[0], *free[1]} <= {*prefer}):  # one matrix for a whole stack
        raise NoForm
    if not any(free) or (batch and not all(free)):
        raise NoForm
    first, second = sorted(range(2), key=lambda n: (len(free[n]) < 2, position_of_group(free[n], prefer)))
    rows, columns = (tuple(i for i in prefer if i in free[n]) or tuple(free[n]) for n in (first, second))
    if not columns and mentions_seed(sp.Mul(*groups[second]), notation.program):
        first, second, rows, columns = second, first, columns, rows
    left = write_matmul_side(notation, groups[first], (*batch, *rows, k))
    right = write_matmul_side(notation, groups[second], (*batch, k, *columns))
    return write_matmul(left, right, (*batch, *rows, *columns))


def write_weighted_product(
    notation: Notation, sides: list[list[Expr]], weights: list[Expr], k: Index, prefer: Sequence[Index]
) -> Fragment:
    """Σ_k f[k,p]·w[k]·g[k,q] is f.T @ diag(w) @ g, and (f * w).T @ g where torch has no matrix of the weights."""
    free = [[i for i in free_indices(sp.Mul(*side)) if i != k] for side in sides]
    first, second = sorted(range(2), key=lambda n: position_of_group(free[n], prefer))
    truths = is_count_of_truths(sp.Mul(*weights))
    left = write_matmul_side(notation, [*sides[first], *(weights if truths else ())], (*free[first], k))
    right = write_matmul_side(notation, sides[second], (k, *free[second]))
    if not truths:
        middle = drop_size_one_axes(notation.multiplied(weights, (k,)))
        if middle.axes != (k,):
            raise NoForm
        left = write_matmul(left, call_method(middle, (k, k), "diag"), (*free[first], k))
    return write_matmul(left, right, (*free[first], *free[second]))


def write_matmul_side(notation: Notation, factors: list[Expr], axes: Sequence[Index]) -> Fragment:
    """One side of a matrix product: torch has none of truth values, nor of counts of them."""
    if is_count_of_truths(sp.Mul(*factors)):
        raise NoForm
    return as_matrix(notation.multiplied(factors, axes), axes)


def write_sum_of_product(
    notation: Notation,
    factors: list[Expr],
    bound: list[Index],
    prefer: Sequence[Index],
    word: str = ADDED_UP,
    **more: Part,
) -> Fragment:
    """Σ_k f[p,k]·g[p,k] is (f * g).sum(-1); axes of one entry go with what is added up."""
    body = notation.multiplied(factors, choose_body_order(factors, bound, prefer))
    if word == MEAN:  # along an axis that a view spreads, the mean is the entry
        bound = [i for i in bound if i in body.indices()]
        if not bound:
            return body
    if not set(bound) <= set(body.indices()):
        raise NoForm
    if word != ADDED_UP and all(is_count_of_truths(f) for f in factors):  # torch has no mean of truth values or counts
        body = truths_as_numbers(body, 1.0)
    if not any(free_indices(f) >= set(body.indices()) for f in factors):
        raise NoForm
    places = [n for n, a in enumerate(body.axes) if a in bound or a is None]
    last = len(body.axes) - 1
    alone = -1 if places == [last] and last else places[0]
    dim: Part = alone if len(places) == 1 else tuple(places)  # a tuple counts in one way
    rest: Axes = tuple(a for a in body.indices() if a not in bound)
    kept_axes: Axes = tuple(None if a in bound else a for a in body.axes)
    kept_dim = -1 if len(body.axes) == 1 else dim
    kept = call_method(body, kept_axes, word, kept_dim, **more, keepdim=True)
    return replace(call_method(body, rest, word, *([dim] if rest else []), **more), kept=kept)


def write_chain(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Σ_{k,l} f[p,k]·g[l,k]·h[l,q] is a chain of matrix products: from the left, where factors have both as often."""
    if len(bound) < 2 or any(len(free_indices(f)) > 2 for f in factors if not f.is_Add):
        raise NoForm
    begins = [free_indices(f) for f in factors if prefer and prefer[0] in free_indices(f)]
    k = min(bound, key=lambda i: (sum(i in free_indices(f) for f in factors), not any(i in own for own in begins)))
    inside = [f for f in factors if k in free_indices(f)]
    if len(inside) == len(factors) or len(set().union(*(free_indices(f) for f in inside))) > 3:
        raise NoForm
    inner = summed(sp.Mul(*inside), [k])
    rest = sp.Mul(*(f for f in factors if f not in inside), inner)
    return notation.write(summed(rest, [i for i in bound if i != k]), prefer)


def write_terms(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Σ_k (f(k) + Σ_l g(k, l))·h(k) is Σ_k f(k)·h(k) + Σ_{k,l} g(k, l)·h(k)."""
    added = next((f for f in factors if f.is_Add), None)
    if added is None:
        raise NoForm
    rest = [f for f in factors if f is not added]
    terms = []
    for term in added.args:
        body, over = list(rest), list(bound)
        for factor in sp.Mul.make_args(term):
            if not isinstance(factor, sp.Sum) or isinstance(factor, Mean):
                body.append(factor)
                continue
            inner = [limit[0] for limit in factor.limits]
            own = {k: fresh(k.name, k.size) for k in inner if k in over}  # two sums over one letter are two
            body.append(factor.function.xreplace(own))
            over += [own.get(k, k) for k in inner]
        number, inside = sp.Mul(*body).as_coeff_Mul()
        terms.append(number * summed(inside, over))
    return notation.write(sp.Add(*terms), prefer)


def write_einsum(notation: Notation, factors: list[Expr], bound: list[Index], prefer: Sequence[Index]) -> Fragment:
    """Any other sum of products is an einsum."""
    pieces = [drop_size_one_axes(notation.write(f, prefer)) for f in factors]
    if any(not p.axes or p.compares for p in pieces) or any(is_count_of_truths(f) for f in factors):
        raise NoForm
    axes = list(dict.fromkeys(i for p in pieces for i in p.indices()))
    if not set(bound) <= set(axes) or len(axes) > 20:
        raise NoForm
    letters = {i: "ijklmnopqrstuvwxyzab"[n] for n, i in enumerate(axes)}
    output = [i for i in prefer if i in axes and i not in bound]
    output += [i for i in axes if i not in bound and i not in output]
    terms = ",".join("".join(letters[i] for i in p.indices()) for p in pieces)
    subscripts = Literal(f"{terms}->{''.join(letters[i] for i in output)}")
    return Fragment(call(EINSUM, subscripts, *(p.code for p in pieces)), tuple(output))


def calls_einsum(code: SyntaxNode) -> bool:
    """Whether an einsum stands in a form."""
    return any(isinstance(node, PythonCall) and node.function == Name(EINSUM) for node in walk(code))


WAYS = (
    write_factored, write_sum_within_range, write_cumsum, write_window_sum, write_broadcast, write_as_matmul,
    write_sum_of_product, write_chain, write_einsum, write_terms,
)  # fmt: skip
"""How a sum is written: the first that can."""


def group_factors_by_indices(factors: Sequence[Expr], apart: set[Index]) -> list[list[Expr]]:
    """Factors grouped so that those which share a free index, other than those ``apart``, are together."""
    groups: list[tuple[frozenset[Index], list[Expr]]] = []
    for factor in factors:
        free = free_indices(factor) - apart
        joined = [g for g in groups if g[0] & free]
        merged = (free.union(*(g[0] for g in joined)), [f for g in joined for f in g[1]] + [factor])
        groups = [g for g in groups if not any(g is j for j in joined)] + [merged]
    loose = [g for g in groups if not g[0]]
    if len(groups) > 2 and len(loose) > 1:
        groups = [g for g in groups if g[0]] + [(frozenset(), [f for g in loose for f in g[1]])]
    if len(groups) == 3 and len(loose) == 1:
        bound = [g for g in groups if g[0]]
        groups = [(bound[0][0], [*bound[0][1], *loose[0][1]]), bound[1]]
    return [g[1] for g in groups]


def position_of_group(free: Sequence[Index], prefer: Sequence[Index]) -> int:
    """Where a group's index stands in the result; a group without one goes to the side that is left."""
    return list(prefer).index(free[0]) if free and free[0] in prefer else len(prefer)
