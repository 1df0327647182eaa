"""Normalisations: each is (x − mean)/√(variance + eps)·w + b, and they differ in the axes that mean and variance run over.

With running statistics these are data: torch lets nothing flow back to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.domain import positive
from symgrad.entries.equations import F, op
from symgrad.entries.shaping import in_groups
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.ops import openings
from symgrad.shapes import Shape, Sizes


def prepare_layer_norm(shapes: tuple[Shape, ...], normalized_shape: Any = None, eps: Any = 1e-5) -> dict[str, Hashable]:
    """The trailing axes that are normalised, the last one where none is named."""
    if normalized_shape is None:
        normalized_shape = shapes[0][-1:]
    trailing = tuple(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else (normalized_shape,)
    if not 1 <= len(trailing) <= len(shapes[0]):
        raise ShapeError(f"there are no {len(trailing)} axes to normalise over in a tensor with {len(shapes[0])}")
    trailing = tuple(own if n is None else n for n, own in zip(trailing, shapes[0][-len(trailing) :], strict=True))
    return {"normalized_shape": trailing, "eps": eps}


def trailing_shape(sizes: Sizes, shapes: tuple[Shape | None, ...], normalized_shape: Any, eps: Any) -> Shape:
    """The input's shape; the named sizes have to be its last ones, and those of weight and bias."""
    x, *factors = shapes
    assert x is not None
    for wanted in (normalized_shape, *factors):
        if wanted is not None and len(wanted) != len(normalized_shape):
            raise ShapeError(f"weight and bias have the {len(normalized_shape)} axes that are normalised")
        for size, own in zip(x[-len(normalized_shape) :], wanted or (), strict=False):
            sizes.unify(size, own)
    return x


op("layer_norm(x, normalized_shape: any=None, weight=None, bias=None, eps=1e-05)",
   "out[i] = (x[i] − μ) / √(mean_k (x[k] − μ)² + eps)·weight[i] + bias[i] where μ = mean_j x[j]",
   "shifts and scales the last axes, those of normalized_shape, to mean 0 and variance 1", ("F.{}",), along="normalized_shape",
   align=no_alignment, shape=trailing_shape, prepare=prepare_layer_norm, told=("normalized_shape",), expands=openings.layer_norm,
   examples=("layer_norm(x) with x:2x3", "layer_norm(x, (3,)) with x:3",
             "F.layer_norm(x, (3,), weight, bias) with x:2x3 weight:3 bias:3"))  # fmt: skip


def several(sizes: Sizes, counts: Sequence[Any]) -> None:
    """Mean and variance are of more than one entry."""
    if sizes.number(sp.Mul(*counts)) == 1:
        raise ShapeError("there is only one entry to take mean and variance of")
    sizes.require(sp.Mul(*counts) - 2)


def measured_shape(sizes: Sizes, shapes: tuple[Shape, ...], eps: float, **measured: bool) -> Shape:
    """The input's shape; what is measured, each channel in training or that of each sample, has several entries."""
    x = shapes[0]
    if any(measured.values()):
        several(sizes, (*(x[:1] if "training" in measured else ()), *x[2:]))
    return x


def statistics(own: str, shapes: tuple[Shape | None, ...], **options: Any) -> None:
    """Running statistics, where the batch's own are not asked for."""
    if not options[own] and (len(shapes) < 3 or None in shapes[1:3]):
        raise InputError("this needs running_mean and running_var", hints=(f"{own}=True takes them from the batch",))


NORMAL = "out[i] = (x[i] − μ) / √(mean_k (x[k] − μ)² + eps){0} where μ = mean_j x[j]"
GIVEN = "out[i] = (x[i] − running_mean) / √(running_var + eps)·weight + bias"
CHANNELS = "x[n,c,…] running_mean[c] running_var[c] weight[c] bias[c]"
STATISTICS = "running_mean: data=None, running_var: data=None, weight=None, bias=None"

op(f"batch_norm(x, {STATISTICS}, training=False, momentum: unused=0.1, eps=1e-05)", NORMAL.format("·weight + bias"),
   "each channel (axis 1), all its entries one line, to mean 0 and variance 1: those of the batch in training, running ones otherwise", F,
   instead={"not training": GIVEN}, along="all but channels", align=no_alignment, fits=CHANNELS, shape=measured_shape,
   checks=partial(statistics, "training"), expands=openings.batch_norm, ranks={"x": (2, 3, 4)},
   domain={"running_var": positive()}, letters="ncij",
   examples=("F.batch_norm(x, None, None, weight, bias, training=True) with x:3x2 weight:2 bias:2",
             "F.batch_norm(x, None, None, training=True) with x:2x2x3",
             "F.batch_norm(x, running_mean, running_var, weight, bias) with x:3x2 running_mean:2 running_var:2 weight:2 bias:2"))  # fmt: skip


op("local_response_norm(x, size: int >= 1, alpha=1e-4, beta=0.75, k=1.0)", "out[c] = x[c] / (k + alpha/size·near)^beta"
   " where near = Σ_j [c − ⌊size/2⌋ ≤ j]·[j ≤ c + ⌊(size − 1)/2⌋]·x[j]²",
   "each entry divided by what its neighbours among the channels c, size of them, amount to", F, along="1", least=3,
   expands=openings.local_response_norm,
   examples=("F.local_response_norm(x, 2) with x:2x3x2", "F.local_response_norm(x, 3, 0.5, 1.0, 2.0) with x:1x4x2"),
   holds="cut")  # fmt: skip


op(f"instance_norm(x, {STATISTICS}, use_input_stats=True, momentum: unused=0.1, eps=1e-05)", NORMAL.format("·weight + bias"),
   "each channel of each sample, all its entries one line, to mean 0 and variance 1", F, instead={"not use_input_stats": GIVEN}, along="space",
   align=no_alignment, fits=CHANNELS, shape=measured_shape, checks=partial(statistics, "use_input_stats"), ranks={"x": (3, 4)}, letters="ncij",
   domain={"running_var": positive()},
   examples=("F.instance_norm(x) with x:2x2x3", "F.instance_norm(x, None, None, weight, bias) with x:1x2x3 weight:2 bias:2"))  # fmt: skip


def grouped_shape(sizes: Sizes, shapes: tuple[Shape, ...], num_groups: int, eps: float) -> Shape:
    """The input's shape; the groups divide the channels."""
    shape = shapes[0]
    several(sizes, (shape[0], in_groups(sizes, shape[1], num_groups), *shape[2:]))
    return shape


def grouped(shapes: tuple[Shape | None, ...], **options: Any) -> str:
    """The equation: channels first + k make the group of c. (Rows (g,k) under a mean give a pullback without lines.)"""
    axes = range(2, len(shapes[0] or ()))
    inner, own, places = "".join(f",{'abd'[n - 2]}<size(x, {n})" for n in axes), *(
        "".join(f",{letters[n - 2]}" for n in axes) for letters in ("abd", "ijl"))  # fmt: skip
    group = f"x[n,first + k{own}]"
    return (
        f"out[n,c{places}] = (x[n,c{places}] − μ) / √(mean_{{k<m{inner}}} ({group} − μ)² + eps)·weight[c] + bias[c]"
        f" where μ = mean_{{k<m{inner}}} {group}, first = ⌊c/m⌋·m, m = size(x, 1)/num_groups"
    )


op("group_norm(x, num_groups: int >= 1, weight=None, bias=None, eps=1e-5)", grouped(((0,) * 3,)),
   "each group of m channels of each sample, from the channel first on, to mean 0 and variance 1", ("F.{}", "torch.{}"), instead=grouped, fits="x[n,c,…] weight[c] bias[c]", shape=grouped_shape,
   expands=openings.group_norm, ranks={"x": (3, 4)}, letters="ncij",
   examples=("F.group_norm(x, 2) with x:1x4x2", "F.group_norm(x, 2, weight, bias) with x:2x4x2 weight:4 bias:4"))  # fmt: skip


op("rms_norm(x, normalized_shape: any, weight=None, eps: float=None)", "out[i] = x[i] / √(mean_j x[j]² + eps)·weight[i]",
   "divides by the root of the mean square over the last axes, those of normalized_shape", F, "torch.rms_norm", along="normalized_shape",
   align=no_alignment, shape=trailing_shape, prepare=lambda shapes, normalized_shape, eps: prepare_layer_norm(
       shapes, normalized_shape, float(np.finfo(np.float64).eps) if eps is None else eps),  # torch's without one
   examples=("F.rms_norm(x, (3,)) with x:2x3", "F.rms_norm(x, (3,), weight) with x:2x3 weight:3"))  # fmt: skip
