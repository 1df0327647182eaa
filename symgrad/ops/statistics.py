"""Statistics: covariance and correlation of rows, entries in order of size, and quantiles.

The samples of a covariance are the columns. What sorts or picks by rank selects: the forward pass finds where the
entries stand. A quantile is between two neighbours in order of size, at the places m and n; how far between them it
lies is a number that the sizes know.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import ceil, floor
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import METHOD, TORCH, op
from symgrad.entries.operands import exact_number, integers_between, positive, reals, unify_vector
from symgrad.errors import InputError, ShapeError
from symgrad.ops.reductions import choosing
from symgrad.shapes import Shape, Sizes

# Samples -------------------------------------------------------------------------------------------


def rows_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """One number for every two rows; one row is a vector, and gives one number."""
    x, *weights = shapes
    if len(x) not in (1, 2):
        raise ShapeError(f"this takes a matrix whose rows are variables, or a vector, not {len(x)} axes")
    for weight in weights:
        unify_vector(sizes, weight, x[-1], "each of the weights")
    if len(x) == 1 or sizes.number(x[0]) == 1:
        return ()
    sizes.require(x[0] - 2)
    return (x[0], x[0])


def sample_weights(frequency: Any, importance: Any, count: int) -> tuple[Any, Any]:
    """NumPy: how much each sample counts, and the importance alone."""
    own = np.ones(count) if importance is None else np.asarray(importance, float)
    often = np.ones(count) if frequency is None else np.asarray(frequency, float)
    if (often < 0).any() or (often % 1 != 0).any() or (own < 0).any():
        raise InputError("weights of cov are not negative, and fweights are whole numbers")
    if count and not (own * often).any():
        raise InputError("the weights of cov sum to 0, so there is nothing to divide by")
    return own * (1 if frequency is None else np.asarray(frequency, float)), own


def covariances(x: Any, fweights: Any = None, aweights: Any = None, *, correction: Any) -> Any:
    """NumPy's forward."""
    x = np.asarray(x, float)
    w, own = sample_weights(fweights, aweights, x.shape[-1])
    with np.errstate(divide="ignore", invalid="ignore"):
        far = x - (x @ w)[..., None] / w.sum()
        used = w.sum() if aweights is None else (w * own).sum() / w.sum()
        below = w.sum() - float(correction) * (1 if aweights is None else used)
        found = (far * w) @ far.T / max(below, 0)
    return found.reshape(()) if found.size == 1 else found


def covariance(shapes: Any, correction: Any = 1, **options: Any) -> str:
    """The equation for a matrix or one row, with the weights that there are."""
    x, *weights = shapes
    there = [name for name, shape in zip(("fweights", "aweights"), weights, strict=False) if shape is not None]

    def times(k: str) -> str:
        return "".join(f"{name}[{k}]·" for name in there)

    total = "(Σ_n " + times("n")[:-1] + ")" if there else "size(x, -1)"
    below = f"({total} − correction)"
    if "aweights" in there:
        below = f"({total} − correction·(Σ_m {times('m')}aweights[m])/{total})"
    elif not there and not (x[-1] - exact_number(correction)).is_nonnegative:
        below = f"([size(x, -1) ≥ correction]·{below})"
    i, j = ("i,", "j,") if len(x) == 2 else ("", "")
    d = f"d[{i}k] = x[{i}k] − (Σ_l {times('l')}x[{i}l])/{total}"
    return f"out{'[i,j]' * bool(i)} = (Σ_k {times('k')}d[{i}k]·d[{j}k]) / {below} where {d}"


op("cov(x, correction=1, fweights: data=None, aweights=None)",
   "out[i,j] = (Σ_k d[i,k]·d[j,k]) / (size(x, -1) − correction) where d[i,k] = x[i,k] − mean_l x[i,l]",
   "the covariances of the rows, whose columns are samples; fweights say how often each sample counts, aweights how much", METHOD,
   variants=covariance, shape=rows_shape, ranks={"x": (2, 1), "fweights": (1,), "aweights": (1,)}, forward=covariances,
   torch=lambda torch, x, fweights=None, aweights=None, *, correction: torch.cov(
       x, correction=correction, fweights=None if fweights is None else fweights.long(), aweights=aweights),
   domain={"fweights": integers_between(1, 3), "aweights": positive()}, letters="ij",
   examples=("cov(x)", "cov(x, correction=0) with x:3",
             "cov(x, fweights=fweights, aweights=aweights) with x:2x4 fweights:4 aweights:4"))  # fmt: skip


def matrix_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """One number for every two rows of a matrix."""
    if len(shapes[0]) != 2 or sizes.number(shapes[0][0]) == 1:
        raise ShapeError("corrcoef takes a matrix whose rows are variables; that of one variable with itself is 1")
    return rows_shape(sizes, shapes)


op("corrcoef(x)", "out[i,j] = (Σ_k d[i,k]·d[j,k]) / (√(Σ_m d[i,m]²)·√(Σ_n d[j,n]²)) where d[i,k] = x[i,k] − mean_l x[i,l]",
   "the correlations of the rows: covariances by both standard deviations", METHOD, also="np.corrcoef",
   domain=reals(), shape=matrix_shape, examples=("corrcoef(x)", "corrcoef(x) with x:3x4"))  # fmt: skip

# Sorted ---------------------------------------------------------------------------------------------


def order(x: Any, dim: int, descending: bool) -> Any:
    """Which entry comes where; equal ones stay in order, and what is no number counts as the largest, as in torch."""
    x = np.asarray(x, float)
    if not x.ndim:
        return np.zeros((), dtype=np.int64)
    found = np.argsort(-x if descending else x, axis=dim, kind="stable")
    if descending and np.isnan(x).any():  # NumPy has them last whichever way
        numbers = np.take_along_axis(~np.isnan(x), found, dim)
        found = np.take_along_axis(found, np.argsort(numbers, axis=dim, kind="stable"), dim)
    return found


op("sort(x, dim: int=-1, descending: bool=False, stable: unused=False)", "out[i] = x[n[i]], n: where the i-th smallest is (descending: the i-th largest)",
   "the entries along dim in order of size", TORCH, along="dim", kinks=0, index_data={"n": order}, returns=("values", "indices"),
   torch=lambda torch, x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True).values,
   examples=("sort(x, 0).values with x:4", "sort(x, 1, True).values"))  # fmt: skip


def rank_places(x: Any, wanted: Any, dim: int, descending: bool = False) -> Any:
    """Where the entries with these numbers in order are; a number is its only entry."""
    return np.take(order(x, dim, descending), wanted, axis=dim) if np.ndim(x) else np.zeros((), dtype=np.int64)


def require_k_entries(sizes: Sizes, x: Shape, k: Any, dim: int, least: int = 0, **options: Any) -> None:
    """There are ``k`` entries along dim; a scalar has one."""
    count, wanted = sizes.number(x[dim]) if x else 1, sizes.number(sp.sympify(k, strict=True))
    if count is not None and wanted is not None and not least <= wanted <= count:
        raise ShapeError(f"k = {wanted} is out of range for an axis of size {count}")


op("topk(x, k: int, dim: int=-1, largest: bool=True, sorted: unused=True)",
   "out[i<k] = x[n[i]], n: where the i-th largest is (or the i-th smallest)", "the k largest (or smallest) entries along dim, in order", TORCH,
   axes="dim", fits=require_k_entries, returns=("values", "indices"),
   index_data={"n": lambda x, k, dim, largest: rank_places(x, range(int(k)), dim, largest)},
   examples=("topk(x, 2, 0).values with x:4", "topk(x, 2, 1, False).values"))  # fmt: skip


def rank_place(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    """Where the entry with k − 1 smaller ones is."""
    found = rank_places(x, k - 1, dim)
    return np.expand_dims(found, dim) if keepdim and np.ndim(x) else found


op("kthvalue(x, k: int, dim: int=-1, keepdim: bool=False)", "out = x[n], n: where the k-th smallest is",
   "the k-th smallest entry along dim, the smallest for k = 1", TORCH, along="dim", fits=partial(require_k_entries, least=1), returns=("values", "indices"),
   index_data={"n": rank_place},
   examples=("kthvalue(x, 2, 0).values with x:4", "kthvalue(x, 1, 1, True).values"))  # fmt: skip


def middle(x: Any, dim: int, keepdim: bool) -> Any:
    """Where the median is: the lower one of two, and the first entry that is no number where there is one."""
    found = rank_place(x, (np.shape(x)[dim] + 1) // 2 if np.ndim(x) else 1, dim, keepdim)
    lost = np.isnan(np.asarray(x, float))
    if not np.ndim(x) or not lost.any():
        return found
    return np.where(lost.any(axis=dim, keepdims=keepdim), lost.argmax(axis=dim, keepdims=keepdim), found)


op("median(x, dim: axis | None=None, keepdim: bool=False)", "out = x[n], n: where the median is",
   "the middle entry, the lower one of two; over all axes several equal ones share the derivative",
   **choosing("median", middle, lambda x, **axis: np.quantile(np.asarray(x, float), 0.5, method="lower", **axis)))  # fmt: skip

# Quantiles ------------------------------------------------------------------------------------------


def something(sizes: Sizes, x: Shape, **options: Any) -> None:
    """There are entries."""
    if any(sizes.number(n) == 0 for n in x):
        raise ShapeError("there is no quantile of nothing")


def ranked(rank: Fraction, how: str, above: bool) -> int:
    """The whole rank that an interpolation begins or ends at."""
    if how == "nearest":
        return round(rank)
    return ceil(rank) if how == "higher" or (above and how != "lower") else floor(rank)


def neighbour(above: bool, x: Any, q: Any, dim: Any, keepdim: bool, interpolation: str) -> Any:
    """Where the neighbour below (or above) stands along dim, or in the whole tensor row by row.

    Where an entry is no number torch takes the last one in order, which is none either.
    """
    x = np.asarray(x)
    whole = dim is None or not x.ndim
    flat, axis = (x.reshape(-1), 0) if whole else (x, dim)
    places = order(flat, axis, descending=False)
    wanted = ranked(Fraction(str(exact_number(q))) * (flat.shape[axis] - 1), interpolation, above)
    lost = np.isnan(np.asarray(flat, float)).any(axis=axis)
    found = np.where(lost, np.take(places, -1, axis=axis), np.take(places, wanted, axis=axis))
    return np.reshape(found, (1,) * x.ndim) if whole and keepdim else np.expand_dims(found, axis) if keepdim else found


def quantiles(x: Any, q: Any, axis: Any, keepdims: bool, interpolation: str) -> Any:
    """NumPy's forward: between two infinities, or on one, a share of 0 counts for nothing."""
    return np.quantile(np.asarray(x, float), float(q), axis=axis if np.ndim(x) else None, keepdims=keepdims,
                       method=interpolation)  # type: ignore[call-overload,unused-ignore]  # fmt: skip  # a word that NumPy knows


op("quantile(x, q: 0 <= any <= 1, dim: axis | None=None, keepdim: bool=False, "
   "interpolation: 'linear' | 'lower' | 'higher' | 'midpoint' | 'nearest'='linear')",
   "out = (1 − w)·x[m] + w·x[n] where r = q·(size(x, -1) − 1), w = r − ⌊r⌋, m: the place of number ⌊r⌋ in order of size, from 0 on ('higher': ⌈r⌉, 'nearest': the nearest), n: that of number ⌈r⌉",
   "what a share q of the entries along dim lies below, on the straight line between its two neighbours", METHOD, "np.quantile",
   variants={"interpolation=midpoint": "out = (x[m] + x[n])/2",
            **{f"interpolation={one}": "out = x[m]" for one in ("lower", "higher", "nearest")}}, along="dim", fits=something,
   index_data={"m": partial(neighbour, False), "n": partial(neighbour, True)}, forward=quantiles,
   examples=("quantile(x, 0.3) with x:4", "quantile(x, 0.75, 1, keepdim=True)",
             'quantile(x, 0.4, 0, interpolation="midpoint") with x:3x2', 'quantile(x, 0.4, interpolation="higher")'),
   result_dtype="real")  # fmt: skip
