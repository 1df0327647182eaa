"""Operations people name as one, though they are made of simpler ones.

Each is one equation here, so that its derivative comes out in one piece; ``expands`` is the same operation
written in simpler ones, which is what ``--expand`` shows.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from symgrad import special
from symgrad.errors import InputError, ShapeError
from symgrad.ops import openings
from symgrad.ops.axes.reductions import Reduction
from symgrad.ops.equations import op
from symgrad.ops.shaping import axis_of
from symgrad.ops.spec import At, View, kept, no_alignment
from symgrad.shapes import Shape, Sizes

Axis = Any  # an int as users write it; a tuple of one int once prepared


def one_axis(shapes: tuple[Shape, ...], dim: Axis = -1) -> dict[str, Hashable]:
    """The axis from the front, as a tuple."""
    axis = axis_of(dim, len(shapes[0]))
    return {"dim": (axis,) if shapes[0] else ()}


def along(at: At, x: View, dim: tuple[int, ...]) -> Reduction:
    """The reduction over ``dim`` seen from an output of the operand's own shape."""
    return Reduction(at, x.shape, dim, keepdim=True)


def unless_empty(function: Callable[..., Any]) -> Callable[..., Any]:
    """SciPy's function over ``axis``; an empty array is left as it is."""
    return lambda x, axis: function(np.asarray(x, float), axis=axis or None) if np.size(x) else np.asarray(x, float)


# fmt: off
op("softmax(x, dim: any=-1)", "out[i] = exp(x[i]) / Σ_j exp(x[j])", "positive weights along one axis that sum to one",
   ("torch.{}", "F.{}", "Tensor.{}", "torch.special.{}"), along="dim", prepare=one_axis, reuse=True,
   forward=unless_empty(special.softmax),  # exp overflows
   torch=lambda torch, x, dim: torch.softmax(x, dim[0] if dim else 0),
   examples=("softmax(x) with x:3", "softmax(x, dim=1)", "softmax(x, dim=0)"),
   expands="exp(x) / sum(exp(x), dim=dim, keepdim=True)", arrays="x, dim: nn.softmax(x, axis=dim)")
op("log_softmax(x, dim: any=-1)", "out[i] = x[i] − log(Σ_j exp(x[j]))", "the logarithm of softmax",
   ("torch.{}", "F.{}", "Tensor.{}"), along="dim", prepare=one_axis, reuse=True,
   forward=unless_empty(special.log_softmax),  # exp overflows
   torch=lambda torch, x, dim: torch.log_softmax(x, dim[0] if dim else 0),
   examples=("log_softmax(x) with x:3", "log_softmax(x, dim=1)", "log_softmax(x, dim=0)"),
   expands="x - logsumexp(x, dim=dim, keepdim=True)", arrays="x, dim: nn.log_softmax(x, axis=dim)")
# fmt: on

# Losses ---------------------------------------------------------------------------------------------


def prepare_loss(shapes: tuple[Shape, ...], reduction: str = "mean", **options: Hashable) -> dict[str, Hashable]:
    """mean, sum or none."""
    if reduction not in ("mean", "sum", "none"):
        raise InputError(
            "there is no such reduction", found=(f"reduction={reduction!r}",), hints=("'mean', 'sum' or 'none'",)
        )
    return {"reduction": reduction, **options}


# Normalisation --------------------------------------------------------------------------------------


def prepare_layer_norm(shapes: tuple[Shape, ...], normalized_shape: Any = None, eps: Any = 1e-5) -> dict[str, Hashable]:
    """The number of trailing axes that are normalised."""
    if normalized_shape is None:
        count = 1
    else:
        count = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
        normalized_shape = (
            tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
        )
    if not 1 <= count <= len(shapes[0]):
        raise ShapeError(f"layer_norm over {count} axes of a tensor with {len(shapes[0])}")
    return {"normalized_shape": normalized_shape or (None,), "eps": eps}


def layer_norm_shape(sizes: Sizes, shapes: tuple[Shape, ...], normalized_shape: Any, eps: Any) -> Shape:
    """The input's shape; the named sizes have to be its last ones, and those of weight and bias."""
    factors: tuple[Shape | None, ...] = shapes[1:]
    for factor in factors:
        if factor is None:
            continue
        if len(factor) != len(normalized_shape):
            raise ShapeError(f"weight and bias of layer_norm have the {len(normalized_shape)} axes that are normalised")
        for size, own in zip(shapes[0][-len(normalized_shape) :], factor, strict=True):
            sizes.unify(size, own)
    for size, wanted in zip(shapes[0][-len(normalized_shape) :], normalized_shape, strict=True):
        if wanted is not None:
            sizes.unify(size, wanted)
    return kept(sizes, shapes)


# fmt: off
op("layer_norm(x, normalized_shape: any=None, weight=None, bias=None, eps=1e-05)",
   "out[i] = (x[i] − μ) / √(mean_k (x[k] − μ)² + eps)·weight[i] + bias[i] where μ = mean_j x[j]",
   "shifts and scales the trailing axes to mean 0 and variance 1", ("F.{}",), along="normalized_shape",
   align=no_alignment, shape=layer_norm_shape, prepare=prepare_layer_norm, expands=openings.layer_norm,
   torch=lambda torch, x, weight=None, bias=None, *, normalized_shape, eps: torch.nn.functional.layer_norm(
       x, tuple(x.shape[-len(normalized_shape) :]), weight, bias, eps),
   examples=("layer_norm(x) with x:2x3", "layer_norm(x, (3,)) with x:3",
             "F.layer_norm(x, (3,), weight, bias) with x:2x3 weight:3 bias:3"))
# fmt: on
