"""Layers and losses that are several entries, and torch's inner ones, with positions where users give names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from symgrad.ops.calls.registry import CALLED, Call, Last, done, everywhere
from symgrad.ops.calls.written import said

Inner = Callable[..., Last | None]
"""Takes a `Call`, the number of the result, and the arguments as the inner function has them."""

# fmt: off
said("gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction='mean')", lambda x, var: None
     if not getattr(var, "shape", ()) or tuple(var.shape) != tuple(x.shape[:-1]) else
     "gaussian_nll_loss(x, target, unsqueeze(var, dim=-1), full=full, eps=eps, reduction=reduction)",
     "One variance for each row, where it has all the axes but the last.", "F.gaussian_nll_loss")
said("linear_cross_entropy(x, linear_weight, target, *, linear_bias=None, weight=None, reduction='mean', ignore_index=-100, "
     "label_smoothing=0.0, options: unused=None)", "cross_entropy(linear(x, linear_weight, linear_bias), target, weight, "
     "reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)",
     "A linear layer and the cross entropy of its result.", "F.linear_cross_entropy")
ENDS = {"none": "{}", "sum": "sum({})", "mean": "mean({})"}


def by_probabilities(x: Any, target: Any, weight: Any, reduction: str, label_smoothing: float) -> str | None:
    """Cross entropy with a probability for each class: the weights of the classes have a gradient then."""
    axis, soft = min(len(x.shape) - 1, 1), float(label_smoothing)
    w = f"reshape(weight, shape={(-1, *[1] * (len(x.shape) - axis - 1))})"
    each = f"{soft - 1!r} * sum(s * target, dim={axis}) - {soft!r} * mean(s, dim={axis})" if soft else f"-sum(s * target, dim={axis})"
    return None if weight is None or len(target.shape) != len(x.shape) else f"s = log_softmax(x, dim={axis}) * {w}; {ENDS[reduction].format(each)}"


def over_classes(x: Any, target: Any, weight: Any, reduction: str) -> str:
    """−(y·log σ(x) + (1 − y)·log σ(−x)), its mean over the classes; torch adds up over the axis of x's, by x's number of them."""
    own = not x.shape or all(len(s) <= len(x.shape) and (not s or x.shape[-1] != 1 or s[-1] == 1) for s in
                             (tuple(getattr(t, "shape", ())) for t in (target, weight)))
    return ENDS[reduction].format(f"mean({ROWS}, dim=-1)" if own else f"sum({ROWS}, dim={len(x.shape) - 1}) / x.shape[-1]")


REDUCED = "size_average: reduction=None, {}reduce: reduction=None, reduction: 'none' | 'mean' | 'sum'='mean'"
said(f"cross_entropy(x, target, weight=None, {REDUCED.format('ignore_index=-100, ')}, label_smoothing: 0 <= float <= 1=0.0)", by_probabilities, None, "F.cross_entropy")
ROWS = "-(target * logsigmoid(x) + (1 - target) * logsigmoid(-x)) * weight"
said(f"multilabel_soft_margin_loss(x, target, weight=None, {REDUCED.format('')})", over_classes, None, "F.multilabel_soft_margin_loss")
said("_weight_norm(v, g, dim: int=0)", lambda v, g, dim: "v * (g / abs(v))" if not (axes := tuple(a for a in range(len(v.shape)) if a != dim))
     else f"v * (g / norm(v, p=2, dim={axes}, keepdim={dim >= 0}))", "v·g/|v|, the length over all axes but one.",
     "torch._weight_norm", "aten._weight_norm")
LATER = "The layer; the others are not differentiable."
said("native_layer_norm(x, shape: any, weight, bias, eps: any)",
     ("layer_norm(x, weight, bias, normalized_shape=shape, eps=eps)", None, None), LATER,
     "torch.native_layer_norm", "aten.native_layer_norm", fields=("out", "mean", "rstd"))
GROUPS = "rows = reshape(x, shape=(n, groups, -1)); "
said("native_group_norm(x, weight, bias, n: any, c: any, size: any, groups: int, eps: any)",
     ("group_norm(x, weight, bias, num_groups=groups, eps=eps)", f"{GROUPS}mean(rows, dim=2)", f"{GROUPS}rsqrt(var(rows, dim=2, correction=0) + eps)"),
     "The layer, the means, and one by the deviations.", "torch.native_group_norm", "aten.native_group_norm", fields=("out", "mean", "rstd"))
said("native_batch_norm(x, weight, bias, mean: any, var: any, training: any, momentum: any=None, eps: any=None)", lambda mean: (
     "batch_norm(x, None, None, weight, bias, training=mean, eps=training)" if isinstance(mean, (bool, int)) else  # no statistics
     "batch_norm(x, mean, var, weight, bias, training=training, eps=eps)", None, None), LATER, *everywhere("native_batch_norm", "_native_batch_norm_legit"),
     fields=("out", "mean", "rstd"))
said("_batch_norm_with_update(x, weight, bias, mean, var, momentum: any, eps: any)",
     ("batch_norm(x, mean, var, weight, bias, training=True, eps=eps)", None, None, None), LATER, *everywhere("_batch_norm_with_update"),
     fields=("out", "mean", "rstd", "reserve"))
# fmt: on


# By the last word ------------------------------------------------------------------------------------------------


def upsampled(
    mode: str, corners: bool, antialias: bool, call: Call, part: int, x: Any, output_size: Any = None, *rest: Any, **keywords: Any
) -> Last | None:  # fmt: skip
    """upsample_bilinear2d and its kind are interpolate with a mode."""
    given = [*rest, *(v for k, v in keywords.items() if k != "align_corners")]
    align = bool(keywords.get("align_corners", given.pop(0) if corners and rest else False))
    scales = tuple(s for g in given if g is not None for s in (g if isinstance(g, (tuple, list)) else (g,)))
    options = {"mode": mode, "antialias": antialias, "align_corners": align if corners else None}
    if not scales or (align and output_size is not None):  # then the sizes alone say how far apart places are
        return "F.interpolate", (x,), {"size": tuple(output_size), **options}
    options["scale_factor"] = scales
    whole = [int(call.whole(n) * s) for n, s in zip(x.shape[-len(scales) :], scales, strict=True)]
    if output_size is None or whole == list(output_size):
        return "F.interpolate", (x,), options
    ref = call("interpolate", x, **options)  # and then not all of it
    for axis, n in enumerate(output_size, len(x.shape) - len(scales)):
        ref = call("narrow", ref, axis, 0, int(n))
    return done(ref)


def soft(name: str, call: Call, part: int, x: Any, dim: int, half_to_float: bool = False) -> Last:
    """What the softmax and its logarithm are inside."""
    return name, (x,), {"dim": dim}


ENTROPY = CALLED["linear_cross_entropy"].steps
INNER: Mapping[str, Inner] = {
    **{f"_{name}": partial(soft, name) for name in ("softmax", "log_softmax")},
    **{f"upsample_{mode}{space}d": partial(upsampled, mode, True, False)
       for mode, space in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2))},
    **{f"upsample_nearest{space}d": partial(upsampled, "nearest", False, False) for space in (1, 2, 3)},
    **{f"_upsample_nearest_exact{space}d": partial(upsampled, "nearest-exact", False, False) for space in (1, 2, 3)},
    **{f"_upsample_{mode}2d_aa": partial(upsampled, mode, True, True) for mode in ("bilinear", "bicubic")},
    "_linear_cross_entropy_batch_chunked": lambda call, part, x, weight, target, bias, classes, reduction, ignored, smoothing, *_: None if part else
        ENTROPY(call, part, x, weight, target, linear_bias=bias, weight=classes, reduction=reduction, ignore_index=ignored, label_smoothing=smoothing),
    "_linear_cross_entropy_batch_chunked_no_reduction": lambda call, part, x, weight, target, bias, classes, ignored, *_: None if part else
        ENTROPY(call, part, x, weight, target, linear_bias=bias, weight=classes, reduction="none", ignore_index=ignored),
}  # fmt: skip
"""Functions by their last word."""
