"""Torch's inner spellings of layers: upsampling, grids, pooling undone, normalisations, bags and segments.

torch.nn.functional calls these with positions where users give names; here they get their names back.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.lift.placing import landed, numbers, once
from symgrad.tracing.lift.steps import Composition, Said, Steps, done
from symgrad.tracing.record.trace import Node, as_array, plainly

# Sampling -------------------------------------------------------------------------------------------


def upsampled(mode: str, corners: bool = False, antialias: bool = False) -> Composition:
    """upsample_bilinear2d and its kind are interpolate with a mode."""

    def named_(steps: Steps, node: Node, x: Any, output_size: Any = None, *rest: Any, **keywords: Any) -> Said | None:
        given = [*rest, *(v for k, v in keywords.items() if k != "align_corners")]
        align = keywords.get("align_corners", given.pop(0) if corners and rest else False)
        scales = [s for g in given if g is not None for s in (g if isinstance(g, (tuple, list)) else (g,))]
        options: dict[str, Any] = {"align_corners": bool(align)} if corners else {}
        if align and output_size is not None:
            scales = []  # where the corners are aligned, the sizes alone say how far apart places are
        if antialias:
            options["antialias"] = True
        whole = (
            [int(steps.number(n) * s) for n, s in zip(x.shape[-len(scales) :], scales, strict=True)] if scales else []
        )
        if scales and output_size is not None and whole != list(output_size):
            ref = steps("interpolate", x, scale_factor=tuple(scales), mode=mode, **options)  # and then not all of it
            for axis, n in enumerate(output_size, len(x.shape) - len(scales)):
                ref = steps("narrow", ref, axis, 0, int(n))
            return done(ref)
        size = {"scale_factor": tuple(scales)} if scales else {"size": tuple(output_size)}
        return "F.interpolate", (x,), {**size, "mode": mode, **options}

    return named_


def grid_sampler(
    steps: Steps, node: Node, x: Any, grid: Any, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Said | None:
    """Modes are numbers inside torch."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    padding = ("zeros", "border", "reflection")[padding_mode]
    if mode == "bicubic" and padding != "zeros":
        return grid_sample(steps, node, x, grid, mode, padding, align_corners)
    return "F.grid_sample", (x, grid), {"mode": mode, "padding_mode": padding, "align_corners": bool(align_corners)}


def grid_sample(
    steps: Steps, node: Node, x: Any, grid: Any, mode: str = "bilinear", padding_mode: str = "zeros",
    align_corners: Any = None,
) -> Said | None:  # fmt: skip
    """Cubics that reach over the border: of a tensor laid out beyond it, as far as the grid goes."""
    if mode != "bicubic" or padding_mode == "zeros":
        return None
    scales, shifts = [], []
    for axis in (3, 2):
        size, own = steps.number(x.shape[axis]), as_float(as_array(grid.held))[..., 3 - axis]
        reach = (own + 1) / 2 * (size - 1) if align_corners else ((own + 1) * size - 1) / 2
        margin = int(np.ceil(max(-reach.min(), reach.max() - size + 1, 0))) + 2
        if margin > FARTHEST:
            raise Refused(f"a place of the grid lies {margin} entries outside")
        x = steps(
            "index_select", x, axis, steps.lifter.data("beyond", beyond(size, margin, padding_mode, align_corners))
        )
        whole = size + 2 * margin
        ratio = (size - 1) / (whole - 1) if align_corners else size / whole
        scales.append(ratio)
        shifts.append(ratio - 1 + 2 * margin / (whole - 1 if align_corners else whole))
    moved = steps("add", steps("mul", grid, steps.lifter.data("scale", np.array(scales))),
                  steps.lifter.data("shift", np.array(shifts)))  # fmt: skip
    return "F.grid_sample", (x, moved), {"mode": mode, "padding_mode": "zeros", "align_corners": bool(align_corners)}


FARTHEST = 100
"""How far outside a grid may lie: the tensor is laid out as far as that."""


def beyond(size: int, margin: int, mode: str, align_corners: Any) -> Array:
    """Which entry stands at each place from ``margin`` before the first to ``margin`` behind the last."""
    at = np.arange(-margin, size + margin)
    if mode == "border":
        return np.clip(at, 0, size - 1)
    if size == 1:
        return np.zeros_like(at)
    period = 2 * (size - 1) if align_corners else 2 * size
    rest = np.mod(at, period)
    return np.where(rest < size, rest, period - rest - (0 if align_corners else 1))


def unpooled(space: int) -> Composition:
    """max_unpool with the size that comes out."""

    def sized(steps: Steps, node: Node, x: Any, indices: Any, *rest: Any, **other: Any) -> Said | None:
        for plane in plainly(indices).reshape(-1, int(np.prod(x.shape[-space:]))).numpy():
            once(plane)
        if node.call is None or node.call.spelling.startswith("F."):
            return None  # as the table has it
        output_size = other.get("output_size", *rest[:1])
        return f"F.max_unpool{space}d", (x, indices), {"output_size": tuple(output_size)}

    return sized


def max_pooling_backward(
    steps: Steps, node: Node, weights: Any, x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: Any,
    indices: Any,
) -> Said | None:  # fmt: skip
    """Every weight added where its window's maximum stood: windows that overlap may share one."""
    inside = plainly(indices)  # numbered plane by plane
    places = numbers(x).flatten(-2).gather(-1, inside.flatten(-2)).reshape(inside.shape)
    return landed(steps, steps.lifter.data("start", np.zeros(x.shape)), places.numpy(), weights)


# Normalisations -------------------------------------------------------------------------------------


def batch_norm(
    steps: Steps, node: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: Any, *rest: Any
) -> Said | None:
    """The first result of native_batch_norm; the others are not differentiable."""
    if isinstance(mean, (bool, int)):  # without running statistics: (training, momentum, eps)
        mean, var, training, rest = None, None, mean, (var, training)
    return "F.batch_norm", (x, mean, var, weight, bias, bool(training)), {"eps": rest[-1]}


def batch_norm_updating(
    steps: Steps, node: Node, x: Any, weight: Any, bias: Any, mean: Any, var: Any, momentum: Any, eps: Any
) -> Said | None:
    """The same in training."""
    return batch_norm(steps, node, x, weight, bias, mean, var, True, momentum, eps)


def group_norm(
    steps: Steps, node: Node, x: Any, weight: Any, bias: Any, n: int, c: int, size: int, groups: int, eps: Any
) -> Said | None:
    """The results of native_group_norm: the layer, the means, and one by the deviations."""
    if node.index:
        rows = steps("reshape", x, (n, groups, -1))
        if node.index == 1:
            return "torch.mean", (rows,), {"dim": 2}
        return "torch.rsqrt", (steps("add", steps("var", rows, dim=2, correction=0), eps),), {}
    return "F.group_norm", (x, groups, weight, bias), {"eps": eps}


def instance_norm(
    steps: Steps, node: Node, x: Any, weight: Any = None, bias: Any = None, running_mean: Any = None,
    running_var: Any = None, use_input_stats: bool = True, momentum: Any = 0.1, eps: Any = 1e-5, *rest: Any,
) -> Said | None:  # fmt: skip
    """torch.instance_norm has weight and bias before the statistics."""
    if node.call is not None and node.call.spelling.startswith("F."):
        return None
    return "F.instance_norm", (x, running_mean, running_var, weight, bias, use_input_stats), {"eps": eps}


def safe_softmax(steps: Steps, node: Node, x: Any, dim: Any, dtype: Any = None) -> Said | None:
    """softmax, but 0 along a row that is −∞ everywhere."""
    empty = np.isneginf(plainly(x).numpy()).all(axis=dim, keepdims=True)
    if not empty.any():
        return "F.softmax", (x, dim), {}
    mask = steps.lifter.data("empty", np.broadcast_to(empty, x.shape))
    return done(steps("where", mask, 0.0, steps("softmax", steps("where", mask, 0.0, x), dim)))


# Bags and segments ----------------------------------------------------------------------------------


def ends(starts: Array, count: int) -> Array:
    """To which part each of ``count`` entries belongs, by where the parts begin."""
    return np.searchsorted(starts, np.arange(count), side="right") - 1


KINDS = {"prod": ("prod", 1.0), "max": ("amax", -np.inf), "min": ("amin", np.inf)}
"""torch's words for reductions: the table's, and what comes of nothing."""


def parted(
    steps: Steps, shape: tuple[int, ...], rows: Any, parts: Array, kind: str, start: Any, alone: float
) -> Said:  # fmt: skip
    """The slices of ``rows`` reduced part by part, each with ``start``; ``alone`` is what a part without any is."""
    index = steps.lifter.data("parts", parts)
    counts = np.bincount(parts, minlength=shape[0]).reshape(-1, *[1] * (len(shape) - 1))
    begin = np.full(shape, float(start or 0))
    if kind in ("sum", "mean"):
        total = steps("index_add", steps.lifter.data("start", begin), 0, index, rows)
        if kind == "sum":
            return done(total)
        whole = np.broadcast_to(np.where(counts == 0, alone, counts), shape).astype(float)
        return "torch.div", (total, steps.lifter.data("counts", whole)), {}
    word, empty = KINDS[kind]
    nothing = np.broadcast_to(np.where(counts == 0, alone, empty), shape).astype(float)
    base = steps.lifter.data("start", nothing if start is None else begin)
    return "torch.index_reduce", (base, 0, index, rows, word), {}


def segment_reduce(
    steps: Steps, node: Node, data: Any, reduce: str, *, lengths: Any = None, indices: Any = None, offsets: Any = None,
    axis: int = 0, unsafe: bool = False, initial: Any = None,
) -> Said | None:  # fmt: skip
    """Neighbours along the first axis reduced by segments."""
    if indices is not None:
        return None
    given = plainly(offsets if lengths is None else lengths).numpy()
    bounds = given if lengths is None else np.concatenate([np.zeros_like(given[..., :1]), given.cumsum(-1)], -1)
    count, size = bounds.shape[-1] - 1, int(data.shape[axis])
    tables = bounds.reshape(-1, count + 1)
    own = [ends(row[:-1], size) + number * count for number, row in enumerate(tables)]
    inside = np.concatenate([(np.arange(size) >= row[0]) & (np.arange(size) < row[-1]) for row in tables])
    rest = tuple(map(int, data.shape[axis + 1 :]))
    rows = data if axis == 0 else steps("reshape", data, (len(tables) * size, *rest))
    if not inside.all():
        rows = steps("index_select", rows, 0, steps.lifter.data("inside", np.flatnonzero(inside)))
    alone = KINDS[reduce][1] if reduce in KINDS else 0.0 if initial is None else 1.0
    shape = (len(tables) * count, *rest)
    said = parted(steps, shape, rows, np.concatenate(own)[inside], reduce, initial, alone)
    return said if axis == 0 else ("torch.reshape", (made(steps, said), node.shape), {})


def made(steps: Steps, said: Said) -> Any:
    """The result of a last step that is not the last."""
    spelling, arguments, keywords = said
    return steps(spelling.rpartition(".")[2], *arguments, **keywords) if spelling else arguments[0]


def embedding_bag(
    steps: Steps, node: Node, weight: Any, indices: Any, offsets: Any, scale_grad_by_freq: bool = False, mode: int = 0,
    sparse: bool = False, per_sample_weights: Any = None, include_last_offset: bool = False, padding_idx: Any = None,
) -> Said | None:  # fmt: skip
    """The rows at the positions, each times its weight, reduced bag by bag."""
    if node.index != 0 or scale_grad_by_freq:
        raise Refused("embedding_bag with scale_grad_by_freq, or a result that is no value")
    kind = ("sum", "mean", "max")[mode]
    chosen, starts = plainly(indices).reshape(-1).numpy(), plainly(offsets).numpy()
    parts = ends(starts, len(chosen))
    kept = np.ones(len(chosen), bool) if padding_idx is None else chosen != padding_idx % weight.shape[0]
    if not kept.any():
        return None
    rows = steps("index_select", weight, 0, steps.lifter.data("rows", chosen[kept]))
    if per_sample_weights is not None:
        own = steps("index_select", per_sample_weights, 0, steps.lifter.data("kept", np.flatnonzero(kept)))
        rows = steps("mul", rows, steps("unsqueeze", own, 1))
    if kind == "max":
        return bag_of_maxima(steps, node, rows, parts[kept])
    return parted(steps, node.shape, rows, parts[kept], kind, None, 1.0)


def bag_of_maxima(steps: Steps, node: Node, rows: Any, parts: Array) -> Said:
    """The largest entry of every bag, the first of several equal ones; 0 for a bag without any."""
    values = steps.lifter.arrays[rows.name]
    own = parts[:, None] == np.arange(node.shape[0])  # (rows, bags)
    best = np.argmax(np.where(own[:, :, None], values[:, None, :], -np.inf), axis=0)
    picked = steps("gather", rows, 0, steps.lifter.data("best", best))
    if own.any(axis=0).all():
        return done(picked)
    empty = steps.lifter.data("empty", np.broadcast_to(~own.any(axis=0)[:, None], node.shape))
    return done(steps("where", empty, 0.0, picked))


# Losses ---------------------------------------------------------------------------------------------


def linear_cross_entropy(
    steps: Steps, node: Node, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any, reduction: str,
    ignore_index: int, label_smoothing: float, *rest: Any,
) -> Said | None:  # fmt: skip
    """A linear layer and the cross entropy of its result, however the batch is cut up."""
    if node.index:
        return None
    logits = steps("linear", x, weight, bias) if bias is not None else steps("linear", x, weight)
    options = {"reduction": reduction, "ignore_index": ignore_index, "label_smoothing": label_smoothing}
    return "F.cross_entropy", (logits, target, class_weight), options


def unreduced_cross_entropy(
    steps: Steps, node: Node, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any, ignore_index: int,
    *rest: Any,
) -> Said | None:  # fmt: skip
    """The same, one number a sample."""
    return linear_cross_entropy(steps, node, x, weight, target, bias, class_weight, "none", ignore_index, 0.0)


COMPOSITIONS: Mapping[str, Composition] = {
    **{f"upsample_{mode}{space}d": upsampled(mode, corners=True)
       for mode, space in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2))},
    **{f"upsample_nearest{space}d": upsampled("nearest") for space in (1, 2, 3)},
    **{f"_upsample_nearest_exact{space}d": upsampled("nearest-exact") for space in (1, 2, 3)},
    **{f"_upsample_{mode}2d_aa": upsampled(mode, corners=True, antialias=True) for mode in ("bilinear", "bicubic")},
    **dict.fromkeys(("grid_sampler", "grid_sampler_2d", "grid_sampler_3d"), grid_sampler),
    "grid_sample": grid_sample,
    "max_unpool1d": unpooled(1), "max_unpool2d": unpooled(2), "max_unpool3d": unpooled(3),
    "max_pool2d_with_indices_backward": max_pooling_backward,
    "native_batch_norm": batch_norm, "_native_batch_norm_legit": batch_norm,
    "_batch_norm_with_update": batch_norm_updating, "native_group_norm": group_norm,
    "instance_norm": instance_norm, "_safe_softmax": safe_softmax,
    "segment_reduce": segment_reduce, "embedding_bag": embedding_bag,
    "_linear_cross_entropy_batch_chunked": linear_cross_entropy,
    "_linear_cross_entropy_batch_chunked_no_reduction": unreduced_cross_entropy,
}  # fmt: skip
"""Functions by their last word."""
