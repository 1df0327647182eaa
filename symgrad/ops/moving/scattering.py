"""What lands at the same place is reduced to one number: scatter_reduce and index_reduce.

    sum     out[p] = x[p] + Σ_k δ(n[k], p)·s[k]
    prod    out[p] = x[p]·Π_k (δ(n[k], p)·s[k] + 1 − δ(n[k], p))
    mean    the sum by the number of those that landed
    amax    the average of those that equal the largest: several that are equal share the derivative evenly

With ``include_self=False`` x counts only where nothing landed.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError
from symgrad.indexing import Bracket, add_up, delta, fresh, fresh_axes, multiply_up
from symgrad.indexing.symbols import Expr, Index
from symgrad.ops.domain import reals, whole
from symgrad.ops.moving.gathering import full_scatter_shape, sum_shape
from symgrad.ops.moving.positions import from_zero
from symgrad.ops.options import one_of
from symgrad.ops.shaping import axis_of
from symgrad.ops.spec import At, Data, Held, View, example, operation
from symgrad.shapes import Shape

KINDS = ("sum", "prod", "mean", "amax", "amin")
Sum = Callable[[Callable[[Any], Expr]], Expr]
"""Σ over what lands at a place of a function of the source's entry there."""


def put(at: Any, axis: int, index: Expr) -> list[Expr]:
    """The indices ``at`` with one of them replaced."""
    return [*at[:axis], index, *at[axis + 1 :]]


def slices(at: At, x: View, dim: int, index: View, source: View) -> tuple[tuple[Index, ...], Expr, Expr]:
    """The indices over the positions, δ(position, out), and the source's entry that goes there."""
    inner = tuple(fresh("k", size) for size in index.shape)
    k = inner[0] if inner else sp.S.Zero
    if not x.rank:
        return inner, sp.S.One, source[k] if source.rank else source[()]
    return inner, delta(index[inner], at[dim]), source[put(at, dim, k)] if source.rank else source[()]


def as_rows(x: Any) -> Any:
    """NumPy: a copy to write to, with an axis at least."""
    return np.atleast_1d(np.array(x, copy=True))


def written(at: At, dim: int, index: View, shape: Shape, entry: Any) -> Expr:
    """Σ over the positions of δ(place, out)·entry, the other axes being the same."""
    inner = fresh_axes(index.shape, "klmn")
    meets = [delta(index[inner] if a == dim else k, i) for a, (k, i) in enumerate(zip(inner, at, strict=True))]
    return add_up(sp.Mul(*meets) * entry(inner), inner)


def reduced(x: Expr, landed: Sum, product: Callable[[], Expr], out: Expr, reduce: str, include_self: bool) -> Expr:
    """x and what landed there as one number."""
    hit = landed(lambda s: sp.S.One)
    own = sp.S.One if include_self else Bracket(sp.Eq(hit, 0))
    if reduce == "prod":
        return (own * x + 1 - own) * product()
    if reduce in ("sum", "mean"):
        total = own * x + landed(lambda s: s)
        return total / (own + hit) if reduce == "mean" else total
    equal = Bracket(sp.Eq(x, out))
    winners = equal + landed(lambda s: Bracket(sp.Eq(s, out)))
    # torch shares with an x that equals the largest even where x does not count: that share goes nowhere
    return (equal * (own * x + (1 - own) * out) + landed(lambda s: s * Bracket(sp.Eq(s, out)))) / winners


NUMPY: dict[str, Any] = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def landed_values(x: Any, places: tuple[Any, ...], values: Any, reduce: str, include_self: bool) -> Any:
    """NumPy's forward, one kind of landing after the other."""
    result = as_rows(np.asarray(x, float))
    count = np.zeros(result.shape)
    np.add.at(count, places, 1.0)
    if not include_self:
        result[count > 0] = EMPTY[reduce]
    NUMPY[reduce].at(result, places, values)
    if reduce == "mean":
        result = result / np.maximum(count + include_self, 1)
    return result.reshape(np.shape(x))


def prepare_scatter(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool = True) -> dict[str, Hashable]:
    """The axis from the front, one of torch's reductions."""
    kind = one_of(KINDS, "reduce", reduce)
    return {"dim": axis_of(dim, len(shapes[0])), "reduce": kind, "include_self": bool(include_self)}


def scatter_values(x: Any, index: Any, src: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """NumPy's forward of scatter_reduce."""
    n = np.atleast_1d(from_zero(index))
    places = [*np.indices(n.shape)[:dim], n, *np.indices(n.shape)[dim + 1 :]]
    values = np.atleast_1d(np.asarray(src, float))[tuple(slice(length) for length in n.shape)]
    return landed_values(x, tuple(places), values, reduce, include_self)


def landed_product(at: At, x: View, dim: int, index: View, src: View) -> Expr:
    """Π_k of what lands here: 1 for each k that lands elsewhere."""
    if not x.rank:
        return src[()]
    room = [Bracket(sp.Lt(i, n, evaluate=False)) for a, (i, n) in enumerate(zip(at, index.shape, strict=True))
            if a != dim and n != x.shape[a]]  # fmt: skip

    def factor(k: Any) -> Expr:
        own = put(at, dim, k)
        lands = sp.Mul(*room) * delta(index[own], at[dim])
        return lands * src[own] + 1 - lands

    return multiply_up(index.shape[dim], factor, "k")


@operation(
    holds="first joined",
    says="along dim what lands at the same position is reduced to its sum, product, mean, largest or smallest entry",
    numpy=scatter_values,
    torch=lambda torch, x, index, src, **how: torch.scatter_reduce(x, index=index.long(), src=src, **how),
    shape=full_scatter_shape,
    prepare=prepare_scatter,
    spelled=("torch.scatter_reduce", "Tensor.scatter_reduce", "aten.scatter_reduce"),
    domain={"index": whole(0, 1), "src": reals(within=1.9)},
    smooth=False,
    examples=(
        example('scatter_reduce(x, 0, index, src, "sum")', x=(3, 2), index=(2, 2), src=(2, 2)),
        example('scatter_reduce(x, 0, index, src, "prod")', x=(3,), index=(4,), src=(4,)),
        example('scatter_reduce(x, 1, index, src, "mean")', x=(2, 3), index=(2, 4), src=(2, 4)),
        example('scatter_reduce(x, 0, index, src, "amax")', x=(3,), index=(4,), src=(4,)),
        example('scatter_reduce(x, 0, index, src, "amin", include_self=False)', x=(3,), index=(4,), src=(4,)),
        example('scatter_reduce(x, 0, index, src, "prod", include_self=False)', x=(3,), index=(3,), src=(3,)),
    ),
)
def scatter_reduce(
    at: At, x: View, dim: int, index: Data, src: View, out: Held, reduce: str, include_self: bool = True
) -> Expr:
    """out[i,j] = x[i,j] with every s[i,k] whose n[i,k] = j, reduced"""

    def landed(body: Callable[[Any], Expr]) -> Expr:
        return written(at, dim, index, x.shape, lambda k: body(src[k]))

    def product() -> Expr:
        return landed_product(at, x, dim, index, src)

    return reduced(x[at], landed, product, out[at], reduce, include_self)


def prepare_index(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool = True) -> dict[str, Hashable]:
    """The axis from the front; index_add is the sum."""
    if reduce == "sum":
        raise InputError("index_reduce has no sum", hints=("index_add",))
    return prepare_scatter(shapes, dim, reduce, include_self)


def torch_index_reduce(torch: Any, x: Any, index: Any, source: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """torch's forward, of which torch says that it may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.index_reduce(x, dim, index.long(), source, reduce, include_self=include_self)


@operation(
    holds="first joined",
    says="along dim the slices that land at the same position are reduced to product, mean, largest or smallest",
    numpy=lambda x, index, source, dim, reduce, include_self: landed_values(
        x, (slice(None),) * dim + (np.atleast_1d(from_zero(index)),), np.asarray(source, float), reduce, include_self
    ),
    torch=torch_index_reduce,
    shape=sum_shape,
    prepare=prepare_index,
    spelled=("torch.index_reduce", "Tensor.index_reduce", "aten.index_reduce"),
    domain={"index": whole(0, 1), "source": reals(within=1.9)},
    ranks={"index": (1,)},
    smooth=False,
    examples=(
        example('index_reduce(x, 0, index, source, "prod")', x=(3, 2), index=(4,), source=(4, 2)),
        example('index_reduce(x, 1, index, source, "mean")', x=(2, 3), index=(2,), source=(2, 2)),
        example('index_reduce(x, 0, index, source, "amax")', x=(3,), index=(4,), source=(4,)),
        example('index_reduce(x, 0, index, source, "amin", include_self=False)', x=(3,), index=(2,), source=(2,)),
    ),
)
def index_reduce(
    at: At, x: View, dim: int, index: Data, source: View, out: Held, reduce: str, include_self: bool = True
) -> Expr:
    """out[i] = x[i] with every s[k] whose n[k] = i, reduced"""
    inner, meets, entry = slices(at, x, dim, index, source)

    def landed(body: Callable[[Any], Expr]) -> Expr:
        return add_up(meets * body(entry), inner)

    def product() -> Expr:
        whole_ = meets * entry + 1 - meets
        return multiply_up(inner[0].size, lambda k: whole_.xreplace({inner[0]: k}), "k") if inner else whole_

    return reduced(x[at], landed, product, out[at], reduce, include_self)
