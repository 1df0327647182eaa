"""Torch's statistics in entries of the table: differences with ends, one variable's correlation, quantiles, draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops import ground
from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.choices import choose
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.lift.steps import Composition, Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array, plainly


@composition()
def nanmedian(steps: Steps, node: Node, x: Any, dim: Any = None, keepdim: bool = False) -> Said | None:
    """Of all entries: the median of those that are numbers."""
    numbers = np.flatnonzero(~np.isnan(plainly(x).reshape(-1).numpy(force=True)))
    if dim is not None or not numbers.size:
        return None
    flat = steps(ground.reshape, x, (-1,))
    if len(numbers) < flat.shape[0]:
        flat = steps(ground.index_select, flat, 0, steps.lifter.data("numbers", numbers))
    return "torch.median", (flat,), {}


def quantile(ignore_nan: bool) -> Composition:
    """Two neighbours in order of size, and how far between them: for several q, and with entries that are no number."""

    def between(
        steps: Steps, node: Node, x: Any, q: Any, dim: Any = None, keepdim: bool = False, *,
        interpolation: str = "linear",
    ) -> Said | None:  # fmt: skip
        values = np.asarray(plainly(x).numpy(), dtype=np.float64)
        if not ignore_nan and not isinstance(q, Node) and not np.isnan(values).any():
            return None
        if not values.size:
            raise Refused("a quantile of nothing")
        shares = np.asarray(plainly(q).numpy() if isinstance(q, Node) else q, dtype=np.float64)
        places, low, high, ranks = neighbours(values, shares, dim, ignore_nan, interpolation)
        ref = steps.lifter.refs_in((x,))[id(x)]

        def entries(at: Array) -> Any:
            return choose(steps.lifter, ref, np.take_along_axis(places, at, -1).reshape(node.shape), None)

        below = entries(low)
        if interpolation not in ("linear", "midpoint"):
            return done(below)
        return "torch.lerp", (below, entries(high), weight(steps, node, q, low, ranks, interpolation)), {}

    return between


for prefix in ("", "nan"):
    composition(f"{prefix}quantile")(quantile(ignore_nan=bool(prefix)))


def neighbours(values: Array, shares: Array, dim: Any, ignore_nan: bool, how: str) -> tuple[Array, Array, Array, Array]:
    """The entries' numbers in order of size along the last axis; for each share the ranks below, above, and its own."""
    count: Array = np.arange(values.size).reshape(values.shape)
    rows, numbers = (
        a.reshape(1, -1) if dim is None or not values.ndim else np.moveaxis(a, dim, -1) for a in (values, count)
    )
    sort = np.argsort(rows, axis=-1, kind="stable")
    last = np.full(rows.shape[:-1], rows.shape[-1] - 1.0)
    missing = np.isnan(rows).sum(axis=-1)
    ranks = shares.reshape(-1, *[1] * last.ndim) * (np.maximum(last - missing, 0) if ignore_nan else last)
    ranks = ranks if ignore_nan else np.where(missing > 0, last, ranks)
    first = np.ceil(ranks) if how == "higher" else np.round(ranks) if how == "nearest" else np.floor(ranks)
    high = np.ceil(ranks).astype(np.int64)[..., None]
    ordered = np.take_along_axis(numbers, sort, -1)
    return (
        np.broadcast_to(ordered, (len(ranks), *ordered.shape)),
        first.astype(np.int64)[..., None],
        high,
        ranks,
    )


def weight(steps: Steps, node: Node, q: Any, low: Array, ranks: Array, how: str) -> Any:
    """How far between the neighbours; where q carries a gradient, as a multiple of it."""
    if how == "midpoint":
        return steps.lifter.data("weight", np.full(node.shape, 0.5))
    if not (isinstance(q, Node) and q.carries):
        return steps.lifter.data("weight", (ranks - low[..., 0]).reshape(node.shape))
    own = np.asarray(plainly(q).numpy())
    shares = own.reshape(-1, *[1] * (ranks.ndim - 1))
    last = np.broadcast_to(np.divide(ranks, shares, out=np.zeros(ranks.shape), where=shares != 0), ranks.shape)
    if (shares == 0).any():
        raise Refused("a quantile by q, where q is 0")
    lead = (len(own), *[1] * (len(node.shape) - 1)) if own.ndim else (1,) * len(node.shape)
    spread = steps(ground.expand, steps(ground.reshape, q, lead), node.shape) if node.shape else q
    rank = steps(ground.mul, spread, steps.lifter.data("last", last.reshape(node.shape)))
    return steps(ground.sub, rank, steps.lifter.data("below", low[..., 0].reshape(node.shape).astype(float)))


@composition("bernoulli", "normal", "poisson", "uniform", "exponential", "log_normal", "geometric", "cauchy")
def drawn(steps: Steps, node: Node, *_: Any, **__: Any) -> Said | None:
    """Numbers from a distribution whose parameters are given: torch passes nothing back to those."""
    return done(steps.lifter.data("drawn", node.value()))


@composition()
def rrelu(
    steps: Steps, node: Node, x: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, training: bool = False, *_: Any, **__: Any
) -> Said | None:
    """x where it is positive, elsewhere times a slope: drawn in training, else the middle."""
    if not training:
        return "F.leaky_relu", (x, (lower + upper) / 2), {}
    signs = torch.where(x.held > 0, 1.0, -1.0).to(x.held.dtype)  # a slope is drawn for each that is not positive
    slopes = as_array(replayed(node, (x,), (signs,)) * signs)
    return "torch.mul", (x, steps.lifter.data("slope", slopes)), {}
