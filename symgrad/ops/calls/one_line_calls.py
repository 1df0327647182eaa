"""Calls that are written in a line or two: short ones, layers and losses, transforms along several axes.

Comes in: what `symgrad.ops.calls.registry` hands to each. Goes out: the last step. torch's inner layers, which have
positions where users give names, stand at the end.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from symgrad.ops.calls.call_texts import define_call
from symgrad.ops.calls.registry import CALLED, CallApplier, Last, done, spellings_everywhere
from symgrad.ops.fourier import each_axis

BEYOND = sys.float_info.max
"""No finite number is larger."""
SHORTCUT = 20
"""From here on torch takes x for log(1 + exp(x)) unless it is told otherwise: 2e-9 of it, no kink that anyone means."""

# fmt: off
define_call("softplus(x, beta: float=1, threshold: float=20)", lambda x, beta, threshold: None if beta == 1 and threshold >= SHORTCUT else
     "softplus(x * beta) / beta" if threshold >= SHORTCUT else "s = x * beta; where(s > threshold, x, softplus(s) / beta)",
     "log(1 + exp(β·x)) / β, and x itself where β·x is above a threshold below 20.", "torch.softplus", "F.softplus", "aten.softplus")
define_call("div(x, other, *, rounding_mode: 'trunc' | 'floor'=None)", "floor_divide(x, other)",
     "The quotient, or what is left of it when it is rounded towards 0 or down.", *spellings_everywhere("div", "divide"), reals=True,
     instead={"rounding_mode=None": None, "rounding_mode=trunc": "trunc(x / other)"})
TIMES = "round((x - remainder(x, other)) / other)"
define_call("floor_divide(x, other)", lambda x, other: f"times = {TIMES}; where(other == 0, floor(x / other), times)" if hasattr(other, "shape") else
     "floor(x / other)" if other == 0 or abs(math.frexp(other)[0]) == 0.5 else TIMES,
     "How often ``other`` goes into x: 9 times 0.1 into 1, although their quotient is rounded to 10.",
     *spellings_everywhere("floor_divide"), "np.floor_divide", reals=True)
define_call("fill(x, value: any)", lambda x, value: "expand(value, shape=x.shape)" if hasattr(value, "shape") else "ones_like(x) * value",
     "One number everywhere.", *spellings_everywhere("fill"), reals=True, instead={"value=True": "ones_like(x)", "value=False": "zeros_like(x)"})
define_call("clamp(x, min: any=None, max: any=None)", lambda min, max: None if not hasattr(min, "shape") and not hasattr(max, "shape") else
     "clamp_max(x, max)" if min is None else "clamp_min(x, min)" if max is None else "clamp_max(clamp_min(x, min), max)",
     "min where x < min, then max where that is > max; at a bound the derivative is x's, as in torch. A bound at infinity is none, "
     "and NaN, which no bound holds, passes either way.", *spellings_everywhere("clamp", "clip"), reals=True,
     instead={"min=-inf and max=None": "x", "min=None and max=inf": "x", "min=-inf": "clamp_max(x, max)", "max=inf": "clamp_min(x, min)"})
define_call("clamp_min(x, min: any)", lambda x, min: "where(x >= min, x, min)" if hasattr(min, "shape") else "clamp(x, min=min)",
     "At least ``min``.", *spellings_everywhere("clamp_min"), reals=True, instead={"min=-inf": "x"})
define_call("clamp_max(x, max: any)", lambda x, max: "where(x <= max, x, max)" if hasattr(max, "shape") else "clamp(x, max=max)",
     "At most ``max``.", *spellings_everywhere("clamp_max"), reals=True, instead={"max=inf": "x"})
define_call("nan_to_num(x, nan: float=None, posinf: float=None, neginf: float=None)", lambda x, nan, posinf, neginf: None
     if not nan and posinf is None and neginf is None else
     "y = nan_to_num(x); " + f"y = where(x < -{BEYOND}, neginf, y); " * (neginf is not None) + f"y = where(x > {BEYOND}, posinf, y); "
     * (posinf is not None) + (f"where(x <= {BEYOND}, y, where(x > {BEYOND}, y, nan))" if nan else "y"),  # of NaN no comparison holds
     "Numbers of one's own in the place of NaN, ∞ and −∞, 0 and the largest numbers where none is given.", *spellings_everywhere("nan_to_num"), reals=True)
define_call("softmin(x, dim: int)", "softmax(-x, dim=dim)", "softmax(−x)", "F.softmin")
define_call("angle(x)", f"(x < 0) * {math.pi}", "π where a real number is negative, else 0.", *spellings_everywhere("angle"), reals=True)
for name, sign, spelled in (("add", "+", ("torch.add", "Tensor.add")),
                            ("sub", "-", ("torch.sub", "Tensor.sub", "torch.subtract", "Tensor.subtract"))):
    define_call(f"{name}(x, other, *, alpha: float=1)", f"x {sign} other * alpha", f"x {sign} alpha·other", *spelled, reals=True, instead={"alpha=1": None})
define_call("rsub(x, other, *, alpha: float=1)", "other - x * alpha", "other − alpha·x", "torch.rsub", "aten.rsub", reals=True,
     instead={"alpha=1": "other - x"})
define_call("zero(x)", "zeros_like(x)", "0 in the same shape.", "torch.zero", "Tensor.zero", "aten.zero")

# Truth values ---------------------------------------------------------------------------------------

define_call("isfinite(x)", f"abs(x) <= {BEYOND}", "Whether an entry is neither infinite nor NaN.", *spellings_everywhere("isfinite"))
define_call("isinf(x)", f"abs(x) > {BEYOND}", "Whether an entry is ∞ or −∞.", *spellings_everywhere("isinf"))
define_call("isnan(x)", f"size = abs(x); (size <= {BEYOND}) == (size > {BEYOND})", "Whether an entry is NaN, of which neither comparison holds.", *spellings_everywhere("isnan"))
define_call("logical_not(x)", "x == 0", "Whether an entry is 0.", *spellings_everywhere("logical_not"))
define_call("logical_and(x, other)", "(x != 0) * (other != 0) > 0", "Whether neither entry is 0.", *spellings_everywhere("logical_and"))
define_call("logical_or(x, other)", "(x == 0) * (other == 0) == 0", "Whether one entry or both are not 0.", *spellings_everywhere("logical_or"))
define_call("logical_xor(x, other)", "(x != 0) != (other != 0)", "Whether one entry is 0 and the other is not.", *spellings_everywhere("logical_xor"))
define_call("isclose(x, other, rtol=1e-5, atol=1e-8, equal_nan: unsupported=False)", "gap = abs(x - other); near = (gap <= abs(other) * rtol + atol) * "
     f"(gap <= {BEYOND}); (x != other) * (near == 0) == 0", "Whether two entries are equal, or closer than atol + rtol·|other|.", *spellings_everywhere("isclose"))
define_call("signbit(x)", "copysign(ones_like(x), x) < 0", "Whether an entry is negative, or −0.", *spellings_everywhere("signbit"))
define_call("count_nonzero(x, dim: any=None)", "sum(x != 0, dim=dim)", "How many entries are not 0.", *spellings_everywhere("count_nonzero"))
FULL = f"size = abs(x); empty = (size <= {BEYOND}) == (size > {BEYOND}); full = where(empty, zeros_like(x), x); sum(full, dim=dim, keepdim=keepdim)"
define_call("nansum(x, dim: any=None, keepdim=False)", FULL, "The sum of the entries that are numbers.", *spellings_everywhere("nansum"))
define_call("nanmean(x, dim: any=None, keepdim=False)", f"{FULL} / sum(empty == 0, dim=dim, keepdim=keepdim)", "Their mean.", "torch.nanmean", "Tensor.nanmean")
define_call("any(x, dim: any=None, keepdim=False)", "sum(x != 0, dim=dim, keepdim=keepdim) > 0", "Is one not 0?", *spellings_everywhere("any"))
define_call("all(x, dim: any=None, keepdim=False)", "sum(x == 0, dim=dim, keepdim=keepdim) == 0", "Is none 0?", *spellings_everywhere("all"))

define_call("diagonal(x, offset: int=0, dim1: int=-2, dim2: int=-1)", "diagonal(x, offset=offset, dim1=dim1, dim2=dim2)",
     "Diagonals of the matrices in the last two axes.", "torch.linalg.diagonal")
define_call("expand_as(x, other)", "expand(x, shape=other.shape)", "Broadcast to the shape of another tensor.", "Tensor.expand_as")
define_call("view_as(x, other)", "reshape(x, shape=other.shape)", "Row by row in the shape of another tensor.", "Tensor.view_as", "Tensor.reshape_as")
define_call("diag(x, diagonal: int=0)", lambda x, diagonal: None if diagonal == 0 or len(x.shape) > 2 else
     "diag_embed(x, offset=diagonal)" if len(x.shape) == 1 else "diagonal(x, offset=diagonal)",
     "A vector on a diagonal, or a diagonal of a matrix.", "torch.diag", "Tensor.diag", "np.diag")
define_call("np_sort(x, axis: int=-1)", "sort(x, dim=axis)", "NumPy's, which does not say where the entries were.", "np.sort")
define_call("np_cross(x, y, axisa: unsupported=-1, axisb: unsupported=-1, axisc: unsupported=-1, axis: int=-1)", "cross(x, y, dim=axis)",
     "NumPy's, whose third argument is an axis of x alone.", "np.cross")
define_call("diagflat(x, offset: int=0)", "diag_embed(flatten(x), offset=offset)", "All entries as a diagonal.", *spellings_everywhere("diagflat"))
define_call("where(x, condition, other)", "where(condition, x, other)", "x where the condition holds.", "Tensor.where")
for name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout"):
    define_call(f"{name}(x, p: 0 <= float <= 1=0.5, training={'alpha' not in name}, inplace=False)", "x", "x itself, where nothing is dropped.",
         f"F.{name}", *(("torch.dropout",) if name == "dropout" else ()), instead={"training and p": None})
define_call("positive(x)", "x", "x itself.", "torch.positive", "Tensor.positive")
define_call("adjoint(x)", "mT(x)", "Of real numbers the transpose.", "torch.adjoint", "Tensor.adjoint")
define_call("msort(x)", "sort(x, dim=0)", "Sorted along the first axis.", *spellings_everywhere("msort"))
define_call("constant_pad_nd(x, pad: any, value: float=0)", "pad(x, pad=pad, value=value)", "Padding with one number.",
     "torch.constant_pad_nd", "aten.constant_pad_nd")

# Several results ------------------------------------------------------------------------------------

define_call("aminmax(x, *, dim: any=None, keepdim=False)", ("amin(x, dim=dim, keepdim=keepdim)", "amax(x, dim=dim, keepdim=keepdim)"),
     "The smallest and the largest entry.", "torch.aminmax", "Tensor.aminmax", "aten.aminmax", fields=("min", "max"))
define_call("eigh(x, UPLO='L', compute_v=True)", ("eigvalsh(x)", "eigenvectors(x)"), "Of a symmetric matrix either triangle says the same.",
     "torch.linalg.eigh", "np.linalg.eigh", "aten._linalg_eigh", fields=("eigenvalues", "eigenvectors"), matrices=True)
define_call("eigvalsh(x, UPLO='L')", "eigvalsh(x)", "Of a symmetric matrix either triangle says the same.", "torch.linalg.eigvalsh",
     "np.linalg.eigvalsh", matrices=True)
define_call("slogdet(x)", ("sign(det(x))", "logabsdet(x)"), "The sign of the determinant, and the logarithm of its absolute value.",
     "torch.linalg.slogdet", "torch.slogdet", "Tensor.slogdet", "np.linalg.slogdet", "aten._linalg_slogdet",
     fields=("sign", "logabsdet"), matrices=True)
define_call("pinv(x, rcond: float=None, hermitian=False, *, atol: float=None, rtol: float=None)", lambda rcond, rtol: f"pinv(x, atol=atol, rtol={'rtol' if rcond is None else 'rcond'})",
     "The pseudo-inverse of a matrix of full rank, none of whose singular values counts as 0.", "torch.linalg.pinv", "torch.pinverse",
     "Tensor.pinverse", "np.linalg.pinv", "aten.linalg_pinv", matrices=True)
define_call("lstsq(a, b, rcond: unsupported=None, *, driver: unused=None)",
     ("pinv(a) @ b", "sum(square(a @ (pinv(a) @ b) - b), dim=-2)", None, None),
     "The pseudo-inverse times b; what else torch gives depends on the driver.", "torch.linalg.lstsq", "np.linalg.lstsq",
     fields=("solution", "residuals", "rank", "singular_values"), matrices=True)
for name, says in (("std", "The standard deviation and the mean."), ("var", "The variance and the mean.")):
    define_call(f"{name}_mean(x, dim: any=None, unbiased: any=None, keepdim=False, *, correction: any=None)",
         (f"{name}(x, dim=dim, unbiased=unbiased, keepdim=keepdim, correction=correction)", "mean(x, dim=dim, keepdim=keepdim)"), says,
         f"torch.{name}_mean", f"aten.{name}_mean", fields=(name, "mean"), reals=True,
         instead={"dim=True": (f"{name}(x)", "mean(x)"), "dim=False": (f"{name}(x, unbiased=False)", "mean(x)")})
define_call("corrcoef(x)", lambda x: None if len(x.shape) == 2 and x.shape[0] != 1 else f"v = cov({'x' if x.shape else 'reshape(x, shape=(1,))'}); v / v",
     "One variable's variance by itself.", "torch.corrcoef", "Tensor.corrcoef", "np.corrcoef")


Inner = Callable[..., Last | None]
"""Takes a `CallApplier`, the number of the result, and the arguments as the inner function has them."""

# fmt: off
define_call("gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction='mean')", lambda x, var: None
     if not getattr(var, "shape", ()) or tuple(var.shape) != tuple(x.shape[:-1]) else
     "gaussian_nll_loss(x, target, unsqueeze(var, dim=-1), full=full, eps=eps, reduction=reduction)",
     "One variance for each row, where it has all the axes but the last.", "F.gaussian_nll_loss")
define_call("linear_cross_entropy(x, linear_weight, target, *, linear_bias=None, weight=None, reduction='mean', ignore_index=-100, "
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
define_call(f"cross_entropy(x, target, weight=None, {REDUCED.format('ignore_index=-100, ')}, label_smoothing: 0 <= float <= 1=0.0)", by_probabilities, None, "F.cross_entropy")
ROWS = "-(target * logsigmoid(x) + (1 - target) * logsigmoid(-x)) * weight"
define_call(f"multilabel_soft_margin_loss(x, target, weight=None, {REDUCED.format('')})", over_classes, None, "F.multilabel_soft_margin_loss")
define_call("_weight_norm(v, g, dim: int=0)", lambda v, g, dim: "v * (g / abs(v))" if not (axes := tuple(a for a in range(len(v.shape)) if a != dim))
     else f"v * (g / norm(v, p=2, dim={axes}, keepdim={dim >= 0}))", "v·g/|v|, the length over all axes but one.",
     "torch._weight_norm", "aten._weight_norm")
LATER = "The layer; the others are not differentiable."
define_call("native_layer_norm(x, shape: any, weight, bias, eps: any)",
     ("layer_norm(x, weight, bias, normalized_shape=shape, eps=eps)", None, None), LATER,
     "torch.native_layer_norm", "aten.native_layer_norm", fields=("out", "mean", "rstd"))
GROUPS = "rows = reshape(x, shape=(n, groups, -1)); "
define_call("native_group_norm(x, weight, bias, n: any, c: any, size: any, groups: int, eps: any)",
     ("group_norm(x, weight, bias, num_groups=groups, eps=eps)", f"{GROUPS}mean(rows, dim=2)", f"{GROUPS}rsqrt(var(rows, dim=2, correction=0) + eps)"),
     "The layer, the means, and one by the deviations.", "torch.native_group_norm", "aten.native_group_norm", fields=("out", "mean", "rstd"))
define_call("native_batch_norm(x, weight, bias, mean: any, var: any, training: any, momentum: any=None, eps: any=None)", lambda mean: (
     "batch_norm(x, None, None, weight, bias, training=mean, eps=training)" if isinstance(mean, (bool, int)) else  # no statistics
     "batch_norm(x, mean, var, weight, bias, training=training, eps=eps)", None, None), LATER, *spellings_everywhere("native_batch_norm", "_native_batch_norm_legit"),
     fields=("out", "mean", "rstd"))
define_call("_batch_norm_with_update(x, weight, bias, mean, var, momentum: any, eps: any)",
     ("batch_norm(x, mean, var, weight, bias, training=True, eps=eps)", None, None, None), LATER, *spellings_everywhere("_batch_norm_with_update"),
     fields=("out", "mean", "rstd", "reserve"))
# fmt: on


# By the last word ------------------------------------------------------------------------------------------------


def upsampled(
    mode: str, corners: bool, antialias: bool, call: CallApplier, part: int, x: Any, output_size: Any = None, *rest: Any, **keywords: Any
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


def soft(name: str, call: CallApplier, part: int, x: Any, dim: int, half_to_float: bool = False) -> Last:
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


def nest_transforms(x: Any, s: Any, dim: Any, back: bool) -> str:
    """One transform around the other, the last axis by the one that halves or doubles it."""
    axes, lengths = each_axis(len(x.shape), s, dim)
    *others, last = ((axis, None if n == -1 else n) for axis, n in zip(axes, lengths, strict=True))
    forward = [*(("complex_fft", other) for other in others), ("complex_hfft", last)]
    backward = [("complex_ihfft", last), *(("complex_ifft", other) for other in others)]
    text = "x"
    for name, (axis, n) in backward if back else forward:
        text = f"{name}({text}, n={n}, dim={axis}, norm=norm)"
    return text


# fmt: off
for ending, usual, along in (("2", (-2, -1), "two axes."), ("n", None, "all axes.")):
    define_call(f"hfft{ending}(x, s: axes=None, dim: axes={usual}, norm: any=None)", lambda x, s, dim, norm: nest_transforms(x, s, dim, back=False),
         f"The real spectrum of a signal that is its own mirror image, along {along}", f"torch.fft.hfft{ending}", pairs=True)
    define_call(f"ihfft{ending}(x, s: axes=None, dim: axes={usual}, norm: any=None)", lambda x, s, dim, norm: nest_transforms(x, s, dim, back=True),
         f"The first half of the signal with this real spectrum, along {along}", f"torch.fft.ihfft{ending}", pairs=True)
