"""torch's inner spellings of layers, in entries: what torch.nn.functional calls with positions where users give names.

Comes in: a `Call`, the number of the result, and the arguments as the inner function has them. Goes out: the last step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from symgrad.ops.calls.registry import Call, Last, done

Inner = Callable[..., Last | None]


def upsampled(mode: str, corners: bool = False, antialias: bool = False) -> Inner:
    """upsample_bilinear2d and its kind are interpolate with a mode."""

    def named_(call: Call, part: int, x: Any, output_size: Any = None, *rest: Any, **keywords: Any) -> Last | None:
        given = [*rest, *(v for k, v in keywords.items() if k != "align_corners")]
        align = keywords.get("align_corners", given.pop(0) if corners and rest else False)
        scales = [s for g in given if g is not None for s in (g if isinstance(g, (tuple, list)) else (g,))]
        options: dict[str, Any] = {"align_corners": bool(align)} if corners else {}
        if align and output_size is not None:
            scales = []  # where the corners are aligned, the sizes alone say how far apart places are
        if antialias:
            options["antialias"] = True
        whole = [int(call.whole(n) * s) for n, s in zip(x.shape[-len(scales) :], scales, strict=True)] if scales else []
        if scales and output_size is not None and whole != list(output_size):
            ref = call("interpolate", x, scale_factor=tuple(scales), mode=mode, **options)  # and then not all of it
            for axis, n in enumerate(output_size, len(x.shape) - len(scales)):
                ref = call("narrow", ref, axis, 0, int(n))
            return done(ref)
        size = {"scale_factor": tuple(scales)} if scales else {"size": tuple(output_size)}
        return "F.interpolate", (x,), {**size, "mode": mode, **options}

    return named_


def batch_norm(
    call: Call, part: int, x: Any, weight: Any, bias: Any, mean: Any, var: Any, training: Any, *rest: Any
) -> Last | None:
    """The first result of native_batch_norm; the others are not differentiable."""
    if isinstance(mean, (bool, int)):  # without running statistics: (training, momentum, eps)
        mean, var, training, rest = None, None, mean, (var, training)
    return "F.batch_norm", (x, mean, var, weight, bias, bool(training)), {"eps": rest[-1]}


def linear_cross_entropy(
    call: Call, part: int, x: Any, weight: Any, target: Any, bias: Any, class_weight: Any, *rest: Any
) -> Last | None:
    """A linear layer and the cross entropy of its result, however the batch is cut up."""
    reduction, ignored, smoothing = rest[:3] if isinstance(rest[0], str) else ("none", rest[0], 0.0)
    options = {"reduction": reduction, "ignore_index": ignored, "label_smoothing": smoothing}
    return None if part else ("F.cross_entropy", (call("linear", x, weight, bias), target, class_weight), options)


INNER: Mapping[str, Inner] = {
    **{f"upsample_{mode}{space}d": upsampled(mode, corners=True)
       for mode, space in (("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2))},
    **{f"upsample_nearest{space}d": upsampled("nearest") for space in (1, 2, 3)},
    **{f"_upsample_nearest_exact{space}d": upsampled("nearest-exact") for space in (1, 2, 3)},
    **{f"_upsample_{mode}2d_aa": upsampled(mode, corners=True, antialias=True) for mode in ("bilinear", "bicubic")},
    "native_batch_norm": batch_norm, "_native_batch_norm_legit": batch_norm,
    "_batch_norm_with_update": lambda call, part, *given: batch_norm(call, part, *given[:5], True, *given[5:]),
    **dict.fromkeys(("_linear_cross_entropy_batch_chunked", "_linear_cross_entropy_batch_chunked_no_reduction"), linear_cross_entropy),
}  # fmt: skip
"""Functions by their last word."""
