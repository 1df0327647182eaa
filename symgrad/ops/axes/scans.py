"""Running sums, products and extremes along one axis, and differences of neighbours.

A running sum is a sum with a condition: out[i] = Σ_j [j ≤ i]·x[j]. Its pullback is the same sum from the other
end. Running extremes select: the forward pass finds which entry is the extreme so far.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import partial
from math import comb
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import TORCH, op
from symgrad.entries.shaping import axis_of
from symgrad.errors import ShapeError
from symgrad.ops.axes.reductions import choosing
from symgrad.shapes import Shape, Sizes

# fmt: off
op("cumsum(x, dim: int)", "out[i] = Σ_j [j ≤ i]·x[j]", "the sum of the entries so far", TORCH, "np.cumsum", along="dim",
   forward=np.cumsum, holds="counted")  # one pass instead of n²
op("cumprod(x, dim: int)", "out[i] = Π_j ([j ≤ i]·x[j] + 1 − [j ≤ i])", "the product of the entries so far", TORCH,
   "np.cumprod", along="dim", forward=np.cumprod, holds="counted")  # one pass instead of n²
op("logcumsumexp(x, dim: int)", "out[i] = log(Σ_j [j ≤ i]·exp(x[j]))", "the logarithm of the sum of exponentials so far",
   TORCH, along="dim")
# fmt: on


op("trapezoid(y, dx=1.0, dim: int=-1)", "out = dx·(Σ_j y[j]·([j > 0] + [j < size(y, -1) − 1]))/2",
   "the area under straight lines between points dx apart along dim", ("torch.{}", "np.{}"), "torch.trapz", along="dim", least=1,
   examples=("trapezoid(y) with y:4", "trapezoid(y, dx=0.5, dim=0)"))  # fmt: skip


def last_extreme(x: Any, dim: int, largest: bool) -> Any:
    """Where the extreme so far is; the last of several equal ones, as torch counts."""
    x = np.asarray(x, float)
    line = np.atleast_1d(x)
    hits = (line == (np.maximum if largest else np.minimum).accumulate(line, axis=dim)) | np.isnan(line)
    places = np.expand_dims(np.arange(line.shape[dim]), [a for a in range(line.ndim) if a != dim])
    return np.maximum.accumulate(np.where(hits, places, 0), axis=dim).reshape(x.shape)


def running(largest: bool) -> dict[str, Any]:
    """What cummax and cummin share."""
    name, known = ("cummax" if largest else "cummin"), {"n": lambda x, dim: last_extreme(x, dim, largest)}
    return {
        "home": TORCH, "along": "dim", "known": known, "returns": ("values", "indices"), "kinks": 0,
        "examples": (f"{name}(x, 0).values with x:4", f"{name}(x, 1).values"),
    }  # fmt: skip


# fmt: off
op("cummax(x, dim: int)", "out[i] = x[n[i]], n: where the largest of x[0], …, x[i] is (the last of equal ones)", "the largest entry so far",
   **running(largest=True))
op("cummin(x, dim: int)", "out[i] = x[n[i]], n: where the smallest of x[0], …, x[i] is (the last of equal ones)", "the smallest entry so far",
   **running(largest=False))
# fmt: on


def prepare_diff(shapes: tuple[Shape, ...], n: int = 1, dim: int = -1) -> dict[str, Hashable]:
    """How often, no more than there are entries, and along which axis."""
    if not shapes[0]:
        raise ShapeError("diff needs at least one axis")
    axis = axis_of(dim, len(shapes[0]))
    size = shapes[0][axis]
    return {"n": min(n, int(size)) if size.is_Integer else n, "dim": axis}


# fmt: off
op("diff(x, n: int >= 0=1, dim: int=-1)", "out[i] = x[i + 1] − x[i]", "differences of neighbours along dim, n times over",
   instead=lambda shapes, n, dim: "out[i] = " + " + ".join(f"({(-1) ** (n - k) * comb(n, k)})·x[i + {k}]" for k in range(n + 1)),
   axes="dim", prepare=prepare_diff, examples=("diff(x) with x:4", "diff(x, 2, 0) with x:4x2"),
   holds="joined", arrays="np.diff")
op("cumulative_trapezoid(y, dx=1.0, dim: int=-1)", "out[i] = dx·Σ_j [j ≤ i]·(y[j] + y[j + 1])/2",
   "the area under straight lines between points dx apart along dim, up to each point but the first", ("torch.{}",), axes="dim", least=1,
   examples=("cumulative_trapezoid(y) with y:4", "cumulative_trapezoid(y, dx=0.5, dim=0) with y:3x2"))
# fmt: on

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
   "the entries along dim in order of size", TORCH, along="dim", kinks=0, known={"n": order}, returns=("values", "indices"),
   torch=lambda torch, x, dim, descending: torch.sort(x, dim=dim, descending=descending, stable=True).values,
   examples=("sort(x, 0).values with x:4", "sort(x, 1, True).values"))  # fmt: skip


def rank_places(x: Any, wanted: Any, dim: int, descending: bool = False) -> Any:
    """Where the entries with these numbers in order are; a number is its only entry."""
    return np.take(order(x, dim, descending), wanted, axis=dim) if np.ndim(x) else np.zeros((), dtype=np.int64)


def enough(sizes: Sizes, x: Shape, k: Any, dim: int, least: int = 0, **options: Any) -> None:
    """There are ``k`` entries along dim; a scalar has one."""
    count, wanted = sizes.number(x[dim]) if x else 1, sizes.number(sp.sympify(k, strict=True))
    if count is not None and wanted is not None and not least <= wanted <= count:
        raise ShapeError(f"k = {wanted} is out of range for an axis of size {count}")


op("topk(x, k: int, dim: int=-1, largest: bool=True, sorted: unused=True)",
   "out[i<k] = x[n[i]], n: where the i-th largest is (or the i-th smallest)", "the k largest (or smallest) entries along dim, in order", TORCH,
   axes="dim", fits=enough, returns=("values", "indices"),
   known={"n": lambda x, k, dim, largest: rank_places(x, range(int(k)), dim, largest)},
   examples=("topk(x, 2, 0).values with x:4", "topk(x, 2, 1, False).values"))  # fmt: skip


def rank_place(x: Any, k: int, dim: int, keepdim: bool) -> Any:
    """Where the entry with k − 1 smaller ones is."""
    found = rank_places(x, k - 1, dim)
    return np.expand_dims(found, dim) if keepdim and np.ndim(x) else found


op("kthvalue(x, k: int, dim: int=-1, keepdim: bool=False)", "out = x[n], n: where the k-th smallest is",
   "the k-th smallest entry along dim, the smallest for k = 1", TORCH, along="dim", fits=partial(enough, least=1), returns=("values", "indices"),
   known={"n": rank_place},
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
