"""Torch's internal calls of layers: upsampling, grids, unpooling, normalisations, embedding bags and segments.

torch.nn.functional passes their arguments by position; here they get the public names.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array, as_float
from symgrad.ops import layers
from symgrad.ops.calls.registry import Last, done
from symgrad.ops.lookup import basics
from symgrad.tracing.lift import Refused, composition, without_subclass
from symgrad.tracing.lift.boxes import rerun
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.placing import add_at_places, check_written_once
from symgrad.tracing.record.spelling import plain_spelling
from symgrad.tracing.record.trace import Node, as_numbers

# Sampling -------------------------------------------------------------------------------------------


@composition("grid_sampler", "grid_sampler_2d", "grid_sampler_3d")
def grid_sampler(
    steps: LiftContext, node: Node, x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Last | None:
    """Lift grid sampling with torch's internal numbers of modes."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    if mode == "bicubic" and padding != "zeros":
        return grid_sample(steps, node, x, grid, mode, padding, align_corners)
    return "F.grid_sample", (x, grid), {"mode": mode, "padding_mode": padding, "align_corners": bool(align_corners)}


@composition()
def grid_sample(
    steps: LiftContext, node: Node, x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: Any = None,
) -> Last | None:  # fmt: skip
    """Lift bicubic sampling beyond the border as sampling of a padded tensor."""
    if mode != "bicubic" or padding_mode == "zeros":
        return None
    scales, shifts = [], []
    for axis in (3, 2):
        size, own = steps.number(x.shape[axis]), as_float(as_numbers(grid.held))[..., 3 - axis]
        reach = (own + 1) / 2 * (size - 1) if align_corners else ((own + 1) * size - 1) / 2
        margin = int(np.ceil(max(-reach.min(), reach.max() - size + 1, 0))) + 2
        if margin > FARTHEST:
            raise Refused(f"a place of the grid lies {margin} entries outside")
        x = steps(
            basics.index_select, x, axis, steps.data("beyond", pad_positions(size, margin, padding_mode, align_corners))
        )
        whole = size + 2 * margin
        ratio = (size - 1) / (whole - 1) if align_corners else size / whole
        scales.append(ratio)
        shifts.append(ratio - 1 + 2 * margin / (whole - 1 if align_corners else whole))
    moved = steps(basics.add, steps(basics.mul, grid, steps.data("scale", np.array(scales))),
                  steps.data("shift", np.array(shifts)))  # fmt: skip
    return "F.grid_sample", (x, moved), {"mode": mode, "padding_mode": "zeros", "align_corners": bool(align_corners)}


FARTHEST = 100
"""The largest distance of a grid position from the border, in entries."""


def pad_positions(size: int, margin: int, mode: str, align_corners: Any) -> Array:
    """Return the index of the entry at each position of an axis padded by ``margin`` at both ends."""
    at = np.arange(-margin, size + margin)
    if mode == "border":
        return np.clip(at, 0, size - 1)
    if size == 1:
        return np.zeros_like(at)
    period = 2 * (size - 1) if align_corners else 2 * size
    rest = np.mod(at, period)
    return np.where(rest < size, rest, period - rest - (0 if align_corners else 1))


@composition(*(f"max_unpool{space}d" for space in (1, 2, 3)))
def lift_max_unpool(steps: LiftContext, node: Node, x: Any, indices: Any, *rest: Any, **other: Any) -> Last | None:
    """Lift max_unpool with the size of its output; repeated positions are refused."""
    spelling = plain_spelling(node.maker.spelling)
    space = int(spelling[-2])
    for plane in without_subclass(indices).reshape(-1, int(np.prod(x.shape[-space:]))).numpy():
        check_written_once(plane)
    if spelling.startswith("F."):
        return None  # as the table has it
    output_size = other.get("output_size", *rest[:1])
    return f"F.max_unpool{space}d", (x, indices), {"output_size": tuple(output_size)}


@composition()
def max_pool2d_with_indices_backward(
    steps: LiftContext, node: Node, weights: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any,
    ceil: Any, indices: Any,
) -> Last | None:  # fmt: skip
    """Add every weight at the position of its window's maximum; overlapping windows may share one."""
    inside = without_subclass(indices)  # numbered plane by plane
    planes = np.arange(int(np.prod(x.shape[:-2]))).reshape(*x.shape[:-2], 1, 1) * int(np.prod(x.shape[-2:]))
    return add_at_places(steps, steps.data("start", np.zeros(x.shape)), planes + inside.numpy(), weights)


@composition()
def convolution(
    steps: LiftContext, node: Node, x: Any, weight: Any, bias: Any, stride: Any, padding: Any, dilation: Any,
    transposed: bool, output_padding: Any, groups: int,
) -> Last | None:  # fmt: skip
    """Lift torch's internal convolution, which serves any number of axes."""
    spoken = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    spoken |= {"output_padding": output_padding} if transposed else {}
    way = f"F.conv{'_transpose' * transposed}{len(node.shape) - 2}d"
    return way, (x, weight, bias), {word: tuple(v) if isinstance(v, list) else v for word, v in spoken.items()}


# Normalisations -------------------------------------------------------------------------------------


@composition()
def rms_norm(
    steps: LiftContext, node: Node, x: Any, normalized_shape: Any, weight: Any = None, eps: Any = None
) -> Last | None:  # fmt: skip
    """Lift RMS norm without eps: torch takes the machine epsilon of its compute dtype, float32 for half precision."""
    if eps is not None:
        return None
    kind = torch.float64 if node.held.dtype == torch.float64 else torch.float32
    return "F.rms_norm", (x, normalized_shape, weight), {"eps": torch.finfo(kind).eps}


@composition()
def _safe_softmax(steps: LiftContext, node: Node, x: Any, dim: Any, dtype: Any = None) -> Last | None:
    """Lift a softmax that is 0 in a row of −∞ only."""
    empty = np.isneginf(without_subclass(x).numpy()).all(axis=dim, keepdims=True)
    if not empty.any():
        return "F.softmax", (x, dim), {}
    mask = steps.data("empty", np.broadcast_to(empty, x.shape))
    return done(steps(basics.where, mask, 0.0, steps(basics.softmax, steps(basics.where, mask, 0.0, x), dim)))


@composition()
def scaled_dot_product_attention(
    steps: LiftContext, node: Node, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: Any = 0.0,
    is_causal: bool = False, scale: Any = None, enable_gqa: bool = False,
) -> Last | None:  # fmt: skip
    """Lift attention with an additive mask; a row in which all keys are masked is 0, not 0/0."""
    masked, blind = (attn_mask, None) if attn_mask is None else additive_mask(steps, attn_mask)
    if masked is attn_mask and not dropout_p and not enable_gqa:
        return None
    key, value = (  # of fewer heads, each for several neighbours of the query's
        steps.read(f"repeat_interleave(heads, {times}, dim=-3)", {"heads": heads})
        if enable_gqa and (times := int(query.shape[-3]) // int(heads.shape[-3])) != 1
        else heads
        for heads in (key, value)
    )
    given = {"query": query, "key": key, "value": value} | ({} if masked is None else {"attn_mask": masked})
    if dropout_p:  # softmax(q·kᵀ/√d + mask), times what this run's dropout drew, times the values
        lead = np.broadcast_shapes(*(tuple(map(int, t.shape[:-2])) for t in (query, key)))
        scores = torch.ones((*lead, int(query.shape[-2]), int(key.shape[-2])), dtype=node.held.dtype)
        chance = (scores, float(dropout_p), True)
        drawn = as_numbers(rerun(replace(node.maker, function=torch.dropout), chance, {}, None))
        given = {**given, "drawn": steps.data("mask", drawn)}
        text = layers.attention({name: len(t.shape) for name, t in given.items()}, is_causal, scale)
        whole = steps.read(text, {"scale": scale, **given})
    else:
        whole = steps(basics.scaled_dot_product_attention, *given.values(), is_causal=is_causal, scale=scale)
    if blind is None:
        return done(whole)
    nothing = steps.data("blind", np.broadcast_to(blind, node.shape))
    return "torch.where", (nothing, 0.0, whole), {}


def additive_mask(steps: LiftContext, attn_mask: Any) -> tuple[Any, Array | None]:
    """Return an additive mask, unmasked in rows that mask all keys, and these rows, or None."""
    mask = attn_mask.tensor()
    truths = mask.dtype == torch.bool
    seen = (mask if truths else ~torch.isneginf(mask)).numpy()
    blind = np.logical_not(seen.any(axis=-1, keepdims=True))
    if truths:
        return steps.data("mask", np.where(seen | blind, 0.0, -np.inf)), blind if blind.any() else None
    if not blind.any():
        return attn_mask, None
    rows = steps.data("blind", np.broadcast_to(blind, seen.shape))
    return steps(basics.where, rows, 0.0, attn_mask), blind


# Bags and segments ----------------------------------------------------------------------------------

KINDS = {"prod": ("prod", 1.0), "max": ("amax", -np.inf), "min": ("amin", np.inf)}
"""torch's names of reductions: the table's name, and the result for no entries."""
REDUCED = ("sum", "mean", "max")
"""The reductions of bags, in the order of torch's numbers."""


def segment_of_entries(starts: Any, count: int) -> Any:
    """Return the segment of each of ``count`` entries, from the starts of the segments."""
    return np.searchsorted(starts, np.arange(count), side="right") - 1


def reduce_segments(
    steps: LiftContext, shape: tuple[int, ...], rows: Any, parts: Any, kind: str, start: Any, alone: float
) -> Last:
    """Reduce the slices of ``rows`` by segment, each with ``start``; ``alone`` is the value of an empty segment."""
    index, begin = steps.data("parts", parts), np.full(shape, float(start or 0))
    counts = np.bincount(parts, minlength=shape[0]).reshape(-1, *[1] * (len(shape) - 1))

    def each(none: float, some: Any) -> Any:
        """Return a number for every segment: ``none`` for empty ones, ``some`` for the others."""
        return np.broadcast_to(np.where(counts == 0, none, some), shape).astype(float)

    if kind in ("sum", "mean"):
        total = steps(basics.index_add, steps.data("start", begin), 0, index, rows)
        return done(total) if kind == "sum" else ("torch.div", (total, steps.data("counts", each(alone, counts))), {})
    word, empty = KINDS[kind]
    if start is None or kind == "prod":
        base = steps.data("start", each(alone, empty) if start is None else begin)
        return "torch.index_reduce", (base, 0, index, rows, word), {}
    best = steps(basics.index_reduce, steps.data("base", each(start, empty)), 0, index, rows, word)
    beyond = steps(basics.lt if kind == "max" else basics.gt, best, start)  # a start that ties has no share
    return "torch.where", (beyond, steps.data("start", begin), best), {}


@composition()
def segment_reduce(
    steps: LiftContext, node: Node, data: Any, reduce: str, *, lengths: Any = None, indices: Any = None,
    offsets: Any = None, axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Last | None:  # fmt: skip
    """Lift a reduction of segments along an axis."""
    if indices is not None:
        return None
    given = without_subclass(offsets if lengths is None else lengths).numpy()
    bounds = given if lengths is None else np.concatenate([np.zeros_like(given[..., :1]), given.cumsum(-1)], -1)
    count, size = bounds.shape[-1] - 1, int(data.shape[axis])
    tables = bounds.reshape(-1, count + 1)
    own = [segment_of_entries(row[:-1], size) + number * count for number, row in enumerate(tables)]
    inside = np.concatenate([(np.arange(size) >= row[0]) & (np.arange(size) < row[-1]) for row in tables])
    rest = tuple(map(int, data.shape[axis + 1 :]))
    rows = data if axis == 0 else steps(basics.reshape, data, (len(tables) * size, *rest))
    if not inside.all():
        rows = steps(basics.index_select, rows, 0, steps.data("inside", np.flatnonzero(inside)))
    alone = KINDS[reduce][1] if reduce in KINDS else 0.0 if initial is None else 1.0
    shape = (len(tables) * count, *rest)
    last = reduce_segments(steps, shape, rows, np.concatenate(own)[inside], reduce, initial, alone)
    if axis == 0:
        return last
    name, operands, options = last
    return "torch.reshape", (steps(name.removeprefix("torch."), *operands, **options), node.shape), {}


@composition()
def embedding_bag(
    steps: LiftContext, node: Node, weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False,
    mode: int = 0, sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False,
    padding_idx: Any = None,
) -> Last | None:  # fmt: skip
    """Lift an embedding bag: the selected rows, each times its weight, reduced by bag."""
    if node.index != 0 or scale_grad_by_freq:
        raise Refused("embedding_bag with scale_grad_by_freq, or a result that is no value")
    chosen, starts = without_subclass(indices).reshape(-1).numpy(), without_subclass(offsets).numpy()
    parts = segment_of_entries(starts, len(chosen))
    kept = np.ones(len(chosen), bool) if padding_idx is None else chosen != padding_idx % weight.shape[0]
    if not kept.any():
        return None
    rows = steps(basics.index_select, weight, 0, steps.data("rows", chosen[kept]))
    if per_sample_weights is not None:
        own = steps(basics.index_select, per_sample_weights, 0, steps.data("kept", np.flatnonzero(kept)))
        rows = steps(basics.mul, rows, steps(basics.unsqueeze, own, 1))
    if mode == 2:
        return lift_bag_maxima(steps, node, rows, parts[kept])
    return reduce_segments(steps, node.shape, rows, parts[kept], REDUCED[mode], None, 1.0)


def lift_bag_maxima(steps: LiftContext, node: Node, rows: Any, parts: Array) -> Last:
    """Lift the largest entry of every bag, the first of equal ones; 0 for an empty bag."""
    values = steps.arrays[rows.name]
    own = parts[:, None] == np.arange(node.shape[0])  # (rows, bags)
    best = np.argmax(np.where(own[:, :, None], values[:, None, :], -np.inf), axis=0)
    empty = np.broadcast_to(~own.any(axis=0)[:, None], node.shape)
    picked = steps(basics.gather, rows, 0, steps.data("best", best))
    return done(steps(basics.where, steps.data("empty", empty), 0.0, picked) if empty.any() else picked)
