"""What lands at the same place is reduced to one number: scatter_reduce and index_reduce.

With ``include_self=False`` x counts only where nothing landed. Of several that are equal to the largest each counts
alike: they share the derivative evenly.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from symgrad.entries.domain import reals, whole
from symgrad.entries.equations import TORCH, op
from symgrad.errors import InputError
from symgrad.ops.moving.gathering import landing, places_of, scatter_shape, whole_source, with_source
from symgrad.ops.moving.positions import from_zero
from symgrad.shapes import Shape

EQUAL = "(e·(own·x{at} + (1 − own)·out) + ({lands}·{s}·[{s} = out])) / (e + ({lands}·[{s} = out]))"
KINDS = {
    "sum": "own·x{at} + ({lands}·{s})",
    "mean": "(own·x{at} + ({lands}·{s})) / (own + ({lands}))",
    "prod": "(own·x{at} + 1 − own)·({product})",
    "amax": EQUAL,
    "amin": EQUAL,
}
"""One number of x and of every s that lands at its place, over which ``lands`` adds up; own is whether x counts.

Where it does not, torch lets it share with the largest all the same, and that share goes nowhere."""


def reduced(reduce: str, include_self: bool, at: str, lands: str, s: str, product: str) -> str:
    """The equation."""
    own = "1" if include_self else f"[({lands}) = 0]"
    body = KINDS[reduce].format(at=at, lands=lands, s=s, product=product)
    return f"out{at} = {body} where own = {own}, e = [x{at} = out]"


def entries(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool) -> str:
    """Every entry of the source has a position of its own; 1 for each that lands elsewhere."""
    if not shapes[0]:
        return reduced(reduce, include_self, "", "1", "src", "src")
    at, lands, source = landing(shapes, dim)
    row = ",".join("k" if a == dim else f"i{a}" for a in range(len(shapes[0])))
    inside = "".join(f"[i{a} < size(index, {a})]·" for a in range(len(shapes[0])) if a != dim)
    product = f"Π_{{k<size(index, {dim})}} (lands·src[{row}] + 1 − lands)".replace(
        "lands", f"{inside}δ(index[{row}], i{dim})"
    )
    return reduced(reduce, include_self, f"[{at}]", lands, source, product)


def slices(shapes: tuple[Shape, ...], dim: int, reduce: str, include_self: bool) -> str:
    """Every slice of the source has one."""
    product = "Π_k (δ(index[k], i)·source[k] + 1 − δ(index[k], i))"
    return reduced(reduce, include_self, "[i]", "Σ_k δ(index[k], i)", "source[k]", product)


NUMPY: dict[str, Any] = {"sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum}
EMPTY = {"sum": 0.0, "mean": 0.0, "prod": 1.0, "amax": -np.inf, "amin": np.inf}


def landed_values(x: Any, places: tuple[Any, ...], values: Any, reduce: str, include_self: bool) -> Any:
    """NumPy's forward, one kind of landing after the other."""
    result = np.atleast_1d(np.array(x, float))
    count = np.zeros(result.shape)
    np.add.at(count, places, 1.0)
    if not include_self:
        result[count > 0] = EMPTY[reduce]
    NUMPY[reduce].at(result, places, values)
    if reduce == "mean":
        result = result / np.maximum(count + include_self, 1)
    return result.reshape(np.shape(x))


def scatter_values(x: Any, index: Any, src: Any, dim: int, **how: Any) -> Any:
    """NumPy's forward of scatter_reduce."""
    places, values = places_of(index, dim), np.atleast_1d(np.asarray(src, float))
    return landed_values(x, places, values[tuple(map(slice, places[dim].shape))], **how)


def torch_index_reduce(torch: Any, x: Any, index: Any, source: Any, dim: int, reduce: str, include_self: bool) -> Any:
    """torch's forward, of which torch says that it may change."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return torch.index_reduce(x, dim, index.long(), source, reduce, include_self=include_self)


def no_sum(shapes: tuple[Shape, ...], reduce: str, **options: Any) -> None:
    """index_add is the sum."""
    if reduce == "sum":
        raise InputError("index_reduce has no sum", hints=("index_add",))


LARGEST = "out[i] = ([x[i] = out]·x[i] + (Σ_k δ(index[k], i)·{0}·[{0} = out])) / ([x[i] = out] + (Σ_l δ(index[l], i)·[{1} = out]))"
HOW = "'sum' | 'prod' | 'mean' | 'amax' | 'amin'"
# fmt: off
op(f"scatter_reduce(x, dim: axis, index: data, src, reduce: {HOW}, include_self: bool=True)", LARGEST.format("src[k]", "src[l]"),
   "along dim what lands at the same position, with include_self beside x, is reduced to its sum, product, mean, largest or smallest entry, as reduce says: to this for the last two", TORCH,
   instead=entries, fits=whole_source, shape=scatter_shape, forward=scatter_values, holds="first joined",
   domain={"index": whole(0, 1), "src": reals(within=1.9)},
   examples=(*(f"scatter_reduce(x, 0, index, src, {how}) with x:3 index:{n} src:{n}" for how, n in (
                 ('"amax"', 4), ('"prod"', 4), ('"amin", include_self=False', 4), ('"prod", include_self=False', 3))),
             'scatter_reduce(x, 0, index, src, "sum") with x:3x2 index:2x2 src:2x2',
             'scatter_reduce(x, 1, index, src, "mean") with x:2x3 index:2x4 src:2x4'))
op(f"index_reduce(x, dim: int, index: data, source, reduce: {HOW}, include_self: bool=True)", LARGEST.format("source[k]", "source[l]"),
   "along dim the slices that land at the same position, with include_self beside x, are reduced to product, mean, largest or smallest, as reduce says: to this for the last two", TORCH,
   axes="dim", apart="index", instead=slices, checks=no_sum, fits=with_source, holds="first joined",
   forward=lambda x, index, source, dim, **how: landed_values(
       x, (slice(None),) * dim + (np.atleast_1d(from_zero(index)),), np.asarray(source, float), **how),
   torch=torch_index_reduce, domain={"index": whole(0, 1), "source": reals(within=1.9)},
   examples=('index_reduce(x, 0, index, source, "prod") with x:3x2 index:4 source:4x2',
             'index_reduce(x, 1, index, source, "mean") with x:2x3 index:2 source:2x2',
             'index_reduce(x, 0, index, source, "amax") with x:3 index:4 source:4',
             'index_reduce(x, 0, index, source, "amin", include_self=False) with x:3 index:2 source:2'))
# fmt: on
