"""Running sums, products and extremes along one axis, and differences of neighbours.

A running sum is a sum with a condition: out[i] = Σ_j [j ≤ i]·x[j]. Its pullback is the same sum from the other
end. Running extremes select: the forward pass finds which entry is the extreme so far.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, fresh, multiply_up
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import reals
from symgrad.ops.reductions import axis_of
from symgrad.ops.spec import At, Held, Op, View, example, kept, operation
from symgrad.shapes import Shape, Sizes


def put(at: Any, axis: int, index: Expr) -> list[Expr]:
    """The indices ``at`` with one of them replaced."""
    return [*at[:axis], index, *at[axis + 1 :]]


def prepare(shapes: tuple[Shape, ...], dim: int) -> dict[str, Hashable]:
    """The axis from the front."""
    return {"dim": axis_of(dim, len(shapes[0]))}


def spelled(name: str) -> tuple[str, ...]:
    """As function and method."""
    return (f"torch.{name}", f"Tensor.{name}", f"aten.{name}")


def scan_examples(name: str) -> Any:
    """A vector, and an axis of a matrix."""
    return (example(f"{name}(x, 0)", x=(4,)), example(f"{name}(x, 1)", x=(2, 3)))


def so_far(at: At, dim: int, j: Any) -> Expr:
    """[j ≤ i]."""
    return Bracket(sp.Le(j, at[dim], evaluate=False))


@operation(
    says="the sum of the entries so far",
    numpy=lambda x, dim: np.cumsum(x, axis=dim) if np.ndim(x) else x,
    torch=lambda torch, x, dim: torch.cumsum(x, dim),
    shape=kept,
    prepare=prepare,
    spelled=(*spelled("cumsum"), "np.cumsum"),
    examples=scan_examples("cumsum"),
)
def cumsum(at: At, x: View, dim: int) -> Expr:
    """out[i] = Σ_j [j ≤ i]·x[j]"""
    if not x.rank:
        return x[()]
    j = fresh("j", x.shape[dim])
    return add_up(so_far(at, dim, j) * x[put(at, dim, j)], [j])


@operation(
    says="the product of the entries so far",
    numpy=lambda x, dim: np.cumprod(x, axis=dim) if np.ndim(x) else x,
    torch=lambda torch, x, dim: torch.cumprod(x, dim),
    shape=kept,
    prepare=prepare,
    spelled=(*spelled("cumprod"), "np.cumprod"),
    examples=scan_examples("cumprod"),
)
def cumprod(at: At, x: View, dim: int) -> Expr:
    """out[i] = Π_j (x[j] where j ≤ i, 1 elsewhere)"""
    if not x.rank:
        return x[()]

    def factor(j: Any) -> Expr:
        early = so_far(at, dim, j)
        return early * x[put(at, dim, j)] + 1 - early

    return multiply_up(x.shape[dim], factor)


@operation(
    says="the log of the sum of exponentials so far",
    numpy=lambda x, dim: np.logaddexp.accumulate(np.asarray(x, float), axis=dim) if np.ndim(x) else x,
    torch=lambda torch, x, dim: torch.logcumsumexp(x, dim),
    shape=kept,
    prepare=prepare,
    spelled=spelled("logcumsumexp"),
    examples=scan_examples("logcumsumexp"),
)
def logcumsumexp(at: At, x: View, dim: int) -> Expr:
    """out[i] = log Σ_j [j ≤ i]·exp(x[j])"""
    if not x.rank:
        return x[()]
    j = fresh("j", x.shape[dim])
    return sp.log(add_up(so_far(at, dim, j) * sp.exp(x[put(at, dim, j)]), [j]))


def last_extreme(x: Any, dim: int, largest: bool) -> Any:
    """Where the extreme so far is; the last of several equal ones, as torch counts."""
    if not np.size(x):
        return np.zeros(np.shape(x), dtype=np.int64)
    x = np.moveaxis(np.asarray(x, float), dim, 0) if np.ndim(x) else np.reshape(np.asarray(x, float), (1,))
    best, where = x[0].copy() if x.ndim > 1 else x[:1].copy().reshape(()), np.zeros(x.shape[1:], dtype=np.int64)
    places = []
    for n, row in enumerate(x):
        new = np.isnan(row) | (~np.isnan(best) & (row >= best if largest else row <= best))
        best, where = np.where(new, row, best), np.where(new, n, where)
        places.append(where)
    return np.moveaxis(np.stack(places), 0, dim)


def extreme(name: str, largest: bool) -> Op:
    """cummax or cummin."""
    word, accumulate = ("largest", np.maximum) if largest else ("smallest", np.minimum)

    @operation(
        name=name,
        says=f"the {word} entry so far",
        numpy=lambda x, dim: accumulate.accumulate(x, axis=dim) if np.ndim(x) else x,
        torch=lambda torch, x, dim: getattr(torch, name)(x, dim).values,
        known={"n": lambda x, dim: last_extreme(x, dim, largest)},
        shape=kept,
        prepare=prepare,
        spelled=spelled(name),
        returns=("values", "indices"),
        smooth=False,
        kinks=(0.0,),
        domain={"x": reals(distinct=True)},
        examples=(example(f"{name}(x, 0).values", x=(4,)), example(f"{name}(x, 1).values", x=(2, 3))),
    )
    def running(at: At, x: View, n: Held, dim: int) -> Expr:
        """out[i] = x[n[i]], n: where the extreme of x[0], …, x[i] is"""
        return x[put(at, dim, n[at])] if x.rank else x[()]

    return running


cummax, cummin = extreme("cummax", largest=True), extreme("cummin", largest=False)


def prepare_diff(shapes: tuple[Shape, ...], n: int = 1, dim: int = -1) -> dict[str, Hashable]:
    """How often, and along which axis."""
    if n < 0:
        raise InputError("diff takes a whole number n from 0 up", found=(f"n={n!r}",))
    if not shapes[0]:
        raise ShapeError("diff needs at least one axis")
    return {"n": n, "dim": axis_of(dim, len(shapes[0]))}


@operation(
    says="differences of neighbours along dim, n times over",
    numpy=lambda x, n, dim: np.diff(x, n, axis=dim),
    torch=lambda torch, x, n, dim: torch.diff(x, n, dim),
    shape=lambda sizes, shapes, n, dim: (*shapes[0][:dim], shapes[0][dim] - n, *shapes[0][dim + 1 :]),
    prepare=prepare_diff,
    spelled=("torch.diff", "Tensor.diff", "np.diff"),
    examples=(example("diff(x)", x=(4,)), example("diff(x, 2, 0)", x=(4, 2))),
)
def diff(at: At, x: View, n: int = 1, dim: int = -1) -> Expr:
    """out[i] = x[i + 1] − x[i]"""
    return sp.Add(*((-1) ** (n - k) * sp.binomial(n, k) * x[put(at, dim, at[dim] + k)] for k in range(n + 1)))


# Sorted ---------------------------------------------------------------------------------------------


def order(x: Any, dim: int, descending: bool) -> Any:
    """Which entry comes where; equal ones stay in order."""
    x = np.asarray(x, float)
    if not x.ndim:
        return np.zeros((), dtype=np.int64)
    return np.argsort(-x if descending else x, axis=dim, kind="stable")


@operation(
    says="the entries along dim in order of size",
    numpy=lambda x, dim, descending, stable: (
        np.sort(x, axis=dim)
        if not descending and np.ndim(x)
        else (-np.sort(-np.asarray(x), axis=dim) if np.ndim(x) else x)
    ),
    torch=lambda torch, x, dim, descending, stable: torch.sort(x, dim=dim, descending=descending, stable=True).values,
    known={"n": lambda x, dim, descending, stable: order(x, dim, descending)},
    shape=kept,
    smooth=False,
    domain={"x": reals(distinct=True)},
    returns=("values", "indices"),
    prepare=lambda shapes, dim=-1, descending=False, stable=False: {
        "dim": axis_of(dim, len(shapes[0])),
        "descending": bool(descending),
        "stable": True,
    },
    spelled=("torch.sort", "Tensor.sort", "aten.sort", "np.sort"),
    kinks=(0.0,),
    examples=(example("sort(x, 0).values", x=(4,)), example("sort(x, 1, True).values", x=(2, 3))),
)
def sort(at: At, x: View, n: Held, dim: int = -1, descending: bool = False, stable: bool = False) -> Expr:
    """out[i] = x[n[i]], n: the order of the entries"""
    return x[put(at, dim, n[at])] if x.rank else x[()]


def prepare_topk(
    shapes: tuple[Shape, ...], k: int, dim: int = -1, largest: bool = True, sorted: bool = True
) -> dict[str, Hashable]:
    """The axis from the front; the result is always in order."""
    return {"k": k, "dim": axis_of(dim, len(shapes[0])), "largest": bool(largest), "sorted": True}


def first_places(x: Any, k: Any, dim: int, largest: bool) -> Any:
    """Where the k largest or smallest are."""
    return np.take(order(x, dim, largest), range(int(k)), axis=dim) if np.ndim(x) else np.zeros((), dtype=np.int64)


def check_k(sizes: Sizes, shape: Shape, k: Any, dim: int, least: int) -> None:
    """There are ``k`` entries along dim; a scalar has one."""
    count, wanted = sizes.number(shape[dim]) if shape else 1, sizes.number(sp.sympify(k, strict=True))
    if count is not None and wanted is not None and not least <= wanted <= count:
        raise ShapeError(f"k = {wanted} is out of range for an axis of size {count}")


def topk_shape(sizes: Sizes, shapes: tuple[Shape, ...], k: Any, dim: int, largest: bool, sorted: bool) -> Shape:
    """k entries along dim."""
    (x,) = shapes
    check_k(sizes, x, k, dim, least=0)
    return (*x[:dim], sp.sympify(k, strict=True), *x[dim + 1 :]) if x else ()


@operation(
    says="the k largest (or smallest) entries along dim, in order",
    numpy=lambda x, k, dim, largest, sorted: (
        np.take_along_axis(np.asarray(x), first_places(x, k, dim, largest), dim) if np.ndim(x) else x
    ),
    torch=lambda torch, x, k, dim, largest, sorted: torch.topk(x, int(k), dim, largest, sorted).values,
    smooth=False,
    known={"n": lambda x, k, dim, largest, sorted: first_places(x, k, dim, largest)},
    prepare=prepare_topk,
    returns=("values", "indices"),
    shape=topk_shape,
    spelled=("torch.topk", "Tensor.topk", "aten.topk"),
    domain={"x": reals(distinct=True)},
    examples=(example("topk(x, 2, 0).values", x=(4,)), example("topk(x, 2, 1, False).values", x=(2, 3))),
)
def topk(at: At, x: View, n: Held, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Expr:
    """out[i] = x[n[i]], n: where the i-th largest is"""
    return x[put(at, dim, n[at])] if x.rank else x[()]


def one_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: Any, keepdim: bool = False, **options: Any) -> Shape:
    """The shape without dim, or a scalar."""
    (x,) = shapes
    if dim is None or not x:
        return ()
    return (*x[:dim], *((sp.S.One,) if keepdim else ()), *x[dim + 1 :])


def chosen(at: At, x: View, n: View, dim: int, keepdim: bool) -> Expr:
    """The entry at position n along dim."""
    if not x.rank:
        return x[()]
    rest = [i for a, i in enumerate(at) if not (keepdim and a == dim)]
    return x[[*rest[:dim], n[at], *rest[dim:]]]


def rank_place(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    """Where the entry with k − 1 smaller ones is."""
    found = np.take(order(x, dim, descending=False), k - 1, axis=dim) if np.ndim(x) else np.zeros((), dtype=np.int64)
    return np.expand_dims(found, dim) if keepdim and np.ndim(x) else found


def pick(x: Any, n: Any, dim: int, keepdim: bool) -> Any:
    """NumPy: the entries at positions n along dim."""
    if not np.ndim(x):
        return x
    found = np.take_along_axis(np.asarray(x), n if keepdim else np.expand_dims(n, dim), dim)
    return found if keepdim else found.squeeze(dim)


def kthvalue_shape(sizes: Sizes, shapes: tuple[Shape, ...], k: int, dim: int, keepdim: bool) -> Shape:
    """The shape without dim, which has k entries at least."""
    check_k(sizes, shapes[0], k, dim, least=1)
    return one_shape(sizes, shapes, dim, keepdim)


@operation(
    says="the k-th smallest entry along dim",
    numpy=lambda x, k, dim, keepdim: pick(x, rank_place(x, k, dim, keepdim), dim, keepdim),
    torch=lambda torch, x, k, dim, keepdim: torch.kthvalue(x, k, dim, keepdim).values,
    smooth=False,
    returns=("values", "indices"),
    known={"n": lambda x, k, dim, keepdim: rank_place(x, k, dim, keepdim)},
    shape=kthvalue_shape,
    domain={"x": reals(distinct=True)},
    prepare=lambda shapes, k, dim=-1, keepdim=False: {"k": k, "dim": axis_of(dim, len(shapes[0])), "keepdim": keepdim},
    spelled=("torch.kthvalue", "Tensor.kthvalue", "aten.kthvalue"),
    examples=(example("kthvalue(x, 2, 0).values", x=(4,)), example("kthvalue(x, 1, 1, True).values", x=(2, 3))),
)
def kthvalue(at: At, x: View, n: Held, k: int, dim: int = -1, keepdim: bool = False) -> Expr:
    """out[i] = x[i, n[i]], n: where the k-th smallest is"""
    return chosen(at, x, n, dim, keepdim)


def middle(x: Any, dim: Any, keepdim: bool) -> Any:
    """Where the median is: the lower one of two."""
    return None if dim is None else rank_place(x, (np.shape(x)[dim] + 1) // 2 if np.ndim(x) else 1, dim, keepdim)


def median_values(x: Any, dim: Any, keepdim: bool) -> Any:
    """NumPy's forward."""
    if dim is None:
        return np.sort(np.ravel(x))[(np.size(x) - 1) // 2]
    return pick(x, middle(x, dim, keepdim), dim, keepdim)


@operation(
    says="the middle entry, the lower one of two; over all axes several equal ones share the derivative",
    numpy=median_values,
    torch=lambda torch, x, dim, keepdim: torch.median(x) if dim is None else torch.median(x, dim, keepdim).values,
    known={"n": middle},
    shape=one_shape,
    smooth=False,
    domain={"x": reals(distinct=True)},
    returns=("values", "indices"),
    prepare=lambda shapes, dim=None, keepdim=False: {
        "dim": None if dim is None else axis_of(dim, len(shapes[0])),
        "keepdim": keepdim,
    },
    spelled=("torch.median", "Tensor.median", "aten.median"),
    examples=(example("median(x)", x=(2, 3)), example("median(x, 1).values", x=(2, 3))),
)
def median(at: At, x: View, out: Held, n: Held, dim: Any = None, keepdim: bool = False) -> Expr:
    """out[i] = x[i, n[i]], n: where the median is"""
    if dim is not None:
        return chosen(at, x, n, dim, keepdim)
    inner, again = [tuple(fresh("jk"[s], size) for size in x.shape) for s in (0, 1)]
    winners = add_up(Bracket(sp.Eq(x[again], out[()])), again)
    return add_up(x[inner] * Bracket(sp.Eq(x[inner], out[()])), inner) / winners
