"""Layers of neural networks: linear maps, normalisations, embeddings and attention.

Every normalisation is (x − mean)/√(variance + eps)·w + b; they differ in the axes that mean and variance run
over. With running statistics these are data: torch lets nothing flow back to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.indexing import Unravel, add_up, fresh, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.ops import openings
from symgrad.ops.domain import positive, whole
from symgrad.ops.equations import F, op
from symgrad.ops.moving.positions import from_zero
from symgrad.ops.networks.composites import prepare_layer_norm
from symgrad.ops.shaping import number
from symgrad.ops.spec import At, View, example, kept, no_alignment, operation
from symgrad.shapes import Shape, Sizes


def unify_vector(sizes: Sizes, shape: Shape | None, size: Any, name: str) -> None:
    """``shape`` is that of a vector of ``size`` entries, or left out."""
    if shape is None:
        return
    if len(shape) != 1:
        raise ShapeError(f"{name} is a vector, not a tensor with {len(shape)} axes")
    sizes.unify(shape[0], size)


def same_lead(sizes: Sizes, shapes: tuple[Shape, ...]) -> tuple[Shape, ...]:
    """The two inputs of a bilinear layer have the same leading axes."""
    x, y, *_ = shapes
    if len(x) != len(y) or not x:
        raise ShapeError("bilinear takes two tensors with as many axes each and a weight with three")
    for a, b in zip(x[:-1], y[:-1], strict=True):
        sizes.unify(a, b)
    return shapes


# fmt: off
op("linear(x, weight, bias=None)", "out[…,k] = Σ_j x[…,j]·weight[k,j] + bias[k]", "a linear layer: x @ weight.T + bias", F,
   instead={"rank(weight)=1": "out[…] = Σ_j x[…,j]·weight[j] + bias"}, letters="ikjl",
   ranks={"x": (2, 1, 3), "weight": (2,), "bias": (1,)},
   examples=("F.linear(x, weight, bias) with x:2x3 weight:4x3 bias:4", "F.linear(x, weight) with x:3 weight:2x3",
             "F.linear(x, weight, bias) with x:2x2x3 weight:2x3 bias:2"), arrays="x, w, b=0: x @ w.T + b")
op("bilinear(x, y, weight, bias=None)", "out[…,k] = Σ_{i,j} x[…,i]·weight[k,i,j]·y[…,j] + bias[k]",
   "a bilinear layer: one number xᵀ·W·y for each matrix W of the weight", F, "torch.bilinear", align=same_lead,
   ranks={"x": (2,), "y": (2,), "weight": (3,), "bias": (1,)}, letters="ijkl",
   examples=("F.bilinear(x, y, weight, bias) with x:2x3 y:2x2 weight:2x3x2 bias:2",))
# fmt: on


# Normalisation --------------------------------------------------------------------------------------


def channels_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """The input's shape; every other operand is a vector over the channels, axis 1."""
    x = shapes[0]
    if len(x) < 2:
        raise ShapeError("the input needs a batch axis and a channel axis", found=(f"{len(x)} axes",))
    for shape in shapes[1:]:
        unify_vector(sizes, shape, x[1], "each of the statistics, weight and bias")
    return kept(sizes, shapes)


def several(sizes: Sizes, counts: Sequence[Any]) -> None:
    """Mean and variance are of more than one entry."""
    if sizes.number(sp.Mul(*counts)) == 1:
        raise ShapeError("there is only one entry to take mean and variance of")
    sizes.require(sp.Mul(*counts) - 2)


def batch_shape(sizes: Sizes, shapes: tuple[Shape, ...], training: bool, eps: float) -> Shape:
    """The input's shape; in training each channel has several entries."""
    x = channels_shape(sizes, shapes)
    if training:
        several(sizes, (x[0], *x[2:]))
    return x


def instance_shape(sizes: Sizes, shapes: tuple[Shape, ...], use_input_stats: bool, eps: float) -> Shape:
    """The input's shape; each channel of each sample has several entries."""
    x = channels_shape(sizes, shapes)
    if use_input_stats:
        several(sizes, x[2:])
    return x


def prepare_batch_norm(
    shapes: tuple[Shape, ...], training: bool = False, momentum: Any = 0.1, eps: float = 1e-5
) -> dict[str, Hashable]:
    """Momentum says how torch updates its buffers; the output does not depend on it."""
    statistics: tuple[Shape | None, ...] = shapes[1:3]
    if not training and (len(statistics) < 2 or None in statistics):
        raise InputError(
            "batch_norm needs running_mean and running_var", hints=("training=True takes them from the batch",)
        )
    return {"training": bool(training), "eps": eps}


def copies(tensors: Sequence[Any]) -> list[Any]:
    """torch writes into running statistics: copies of them."""
    return [None if t is None else t.detach().clone() for t in tensors]


def torch_batch_norm(
    torch: Any, x: Any, mean: Any = None, var: Any = None, weight: Any = None, bias: Any = None, **options: Any
) -> Any:
    """torch's forward."""
    return torch.nn.functional.batch_norm(x, *copies([mean, var]), weight, bias, **options)


NORMAL = "out[i] = (x[i] − μ) / √(mean_k (x[k] − μ)² + eps){0} where μ = mean_j x[j]"
GIVEN = "out[i] = (x[i] − running_mean) / √(running_var + eps)·weight + bias"
STATISTICS = "running_mean: data=None, running_var: data=None, weight=None, bias=None"

# fmt: off
op(f"batch_norm(x, {STATISTICS}, training=False, momentum: any=0.1, eps=1e-05)", NORMAL.format("·weight + bias"),
   "each channel to mean 0 and variance 1: of the batch in training, by running statistics otherwise", F,
   instead={"not training": GIVEN}, along="all but channels", align=no_alignment, shape=batch_shape,
   prepare=prepare_batch_norm, torch=torch_batch_norm, expands=openings.batch_norm, ranks={"x": (2, 3, 4)},
   domain={"running_var": positive()}, letters="ncij", smooth=True,
   examples=("F.batch_norm(x, None, None, weight, bias, training=True) with x:3x2 weight:2 bias:2",
             "F.batch_norm(x, None, None, training=True) with x:2x2x3",
             "F.batch_norm(x, running_mean, running_var, weight, bias) with x:3x2 running_mean:2 running_var:2 weight:2 bias:2"))
# fmt: on


# fmt: off
op("local_response_norm(x, size: int, alpha=1e-4, beta=0.75, k=1.0)", "out[c] = x[c] / (k + alpha/size·near)^beta"
   " where near = Σ_j [c − ⌊size/2⌋ ≤ j]·[j ≤ c + ⌊(size − 1)/2⌋]·x[j]²",
   "each entry divided by what its neighbours among the channels amount to", F, along="1", least=3,
   examples=("F.local_response_norm(x, 2) with x:2x3x2", "F.local_response_norm(x, 3, 0.5, 1.0, 2.0) with x:1x4x2"),
   holds="cut")
# fmt: on


def prepare_instance_norm(
    shapes: tuple[Shape, ...], use_input_stats: bool = True, momentum: Any = 0.1, eps: float = 1e-5
) -> dict[str, Hashable]:
    """Statistics of the input, or running ones."""
    statistics: tuple[Shape | None, ...] = shapes[1:3]
    if not use_input_stats and (len(statistics) < 2 or None in statistics):
        raise InputError("instance_norm without the input's own statistics needs running_mean and running_var")
    return {"use_input_stats": bool(use_input_stats), "eps": eps}


# fmt: off
op(f"instance_norm(x, {STATISTICS}, use_input_stats=True, momentum: any=0.1, eps=1e-05)", NORMAL.format("·weight + bias"),
   "each channel of each sample to mean 0 and variance 1", F, instead={"not use_input_stats": GIVEN}, along="space",
   align=no_alignment, shape=instance_shape, prepare=prepare_instance_norm, ranks={"x": (3, 4)}, letters="ncij",
   torch=lambda torch, x, mean=None, var=None, weight=None, bias=None, **options: torch.nn.functional.instance_norm(
       x, *copies([mean, var]), weight, bias, **options),
   domain={"running_var": positive()}, smooth=True,
   examples=("F.instance_norm(x) with x:2x2x3", "F.instance_norm(x, None, None, weight, bias) with x:1x2x3 weight:2 bias:2"))
# fmt: on


def prepare_group_norm(shapes: tuple[Shape, ...], num_groups: int, eps: float = 1e-5) -> dict[str, Hashable]:
    """A number of groups that divides the channels."""
    if num_groups < 1:
        raise InputError("num_groups has to be an integer from 1 up", found=(f"num_groups={num_groups!r}",))
    return {"num_groups": num_groups, "eps": eps}


def grouped_shape(sizes: Sizes, shapes: tuple[Shape, ...], num_groups: int, eps: float) -> Shape:
    """The input's shape; the groups divide the channels."""
    shape = channels_shape(sizes, shapes)
    channels = sizes.number(shape[1])
    if channels is not None and channels % num_groups:
        raise ShapeError(f"{channels} channels do not make {num_groups} equal groups")
    several(sizes, (shape[0], shape[1] / num_groups, *shape[2:]))
    return shape


# A function, and not ``out[n,(g,c),i] = …``: rows under a mean give a pullback that has no lines.
@operation(
    says="each group of channels of each sample to mean 0 and variance 1",
    shape=grouped_shape,
    prepare=prepare_group_norm,
    torch=lambda torch, x, weight=None, bias=None, *, num_groups, eps: torch.nn.functional.group_norm(
        x, num_groups, weight, bias, eps
    ),
    spelled=("F.group_norm", "torch.group_norm"),
    expands=openings.group_norm,
    ranks={"x": (3, 4)},
    letters="ncij",
    examples=(
        example("F.group_norm(x, 2)", x=(1, 4, 2)),
        example("F.group_norm(x, 2, weight, bias)", x=(2, 4, 2), weight=(4,), bias=(4,)),
    ),
)
def group_norm(
    at: At, x: View, num_groups: int, weight: View | None = None, bias: View | None = None, eps: float = 1e-5
) -> Expr:
    """out[n,c,i] = (x[n,c,i] − mean[n,g]) / √(var[n,g] + eps)·w[c] + b[c], g: the group of c"""
    size = sp.sympify(x.shape[1] / num_groups, strict=True)
    first = Unravel(sp.S.Zero, at[1], sp.Integer(num_groups), size) * size if num_groups > 1 else sp.S.Zero

    def sum_over(body: Any, hint: str) -> Expr:
        inner = (fresh(hint, size), *fresh_axes(x.shape[2:], "jkl" if hint == "c" else "abd"))
        return add_up(body(x[[at[0], first + inner[0], *inner[1:]]]), inner)

    count = size * sp.Mul(*x.shape[2:])
    mean = sum_over(lambda e: e, "k") / count
    var = sum_over(lambda e: (e - mean) ** 2, "c") / count
    normal = (x[at] - mean) / sp.sqrt(var + number(eps)) * (1 if weight is None else weight[at[1]])
    return normal if bias is None else normal + bias[at[1]]


def prepare_rms_norm(shapes: tuple[Shape, ...], normalized_shape: Any = None, eps: Any = None) -> dict[str, Hashable]:
    """Without eps torch takes the spacing of numbers near 1."""
    return prepare_layer_norm(shapes, normalized_shape, float(np.finfo(np.float64).eps) if eps is None else eps)


def rms_norm_shape(sizes: Sizes, shapes: tuple[Shape, ...], normalized_shape: Any, eps: float) -> Shape:
    """The input's shape; the named sizes are its last ones, and the weight's."""
    last = shapes[0][-len(normalized_shape) :]
    for wanted in (normalized_shape, shapes[1] if len(shapes) > 1 else None):
        if wanted is None:
            continue
        if len(wanted) != len(last):
            raise ShapeError(f"the weight of rms_norm has the {len(last)} axes that are normalised")
        for size, own in zip(last, wanted, strict=True):
            if own is not None:
                sizes.unify(size, own)
    return kept(sizes, shapes)


# fmt: off
op("rms_norm(x, normalized_shape: any, weight=None, eps: any=None)", "out[i] = x[i] / √(mean_j x[j]² + eps)·weight[i]",
   "divides by the root of the mean square over the trailing axes", F, "torch.rms_norm", along="normalized_shape",
   align=no_alignment, shape=rms_norm_shape, prepare=prepare_rms_norm,
   torch=lambda torch, x, weight=None, *, normalized_shape, eps: torch.nn.functional.rms_norm(
       x, tuple(x.shape[-len(normalized_shape) :]), weight, eps),
   examples=("F.rms_norm(x, (3,)) with x:2x3", "F.rms_norm(x, (3,), weight) with x:2x3 weight:3"))
# fmt: on


# Embedding and attention ----------------------------------------------------------------------------


def prepare_embedding(
    shapes: tuple[Shape, ...],
    padding_idx: Any = None,
    max_norm: Any = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> dict[str, Hashable]:
    """Options that rescale rows or gradients are not covered."""
    if max_norm is not None or scale_grad_by_freq:
        raise UnsupportedError("embedding with max_norm or scale_grad_by_freq is not supported yet")
    return {"padding_idx": padding_idx}


def matrix_of_rows(sizes: Sizes, shapes: tuple[Shape, ...], padding_idx: Any) -> tuple[Shape, ...]:
    """The weight has rows."""
    if len(shapes[1]) != 2:
        raise ShapeError(f"the weight of an embedding is a matrix, not a tensor with {len(shapes[1])} axes")
    return shapes


def rows_read(shapes: tuple[Shape, ...], padding_idx: Any) -> str:
    """The row at a position; that of padding_idx is held."""
    if padding_idx is None:
        return "out[…,j] = weight[x[…],j]"
    held = f"[x[…] = {'' if padding_idx >= 0 else 'size(weight, 0) + '}padding_idx]"
    return f"out[…,j] = (1 − {held})·weight[x[…],j] + {held}·out"


# fmt: off
op("embedding(x: data, weight, padding_idx: any=None, max_norm: any=None, norm_type: float=2.0, scale_grad_by_freq=False,"
   " sparse=False)", "out[…,j] = weight[x[…],j]", "the rows of the weight at the given positions; nothing flows to the row padding_idx",
   ("F.{}",), instead=rows_read, reads_out=True, prepare=prepare_embedding, align=matrix_of_rows, smooth=False,
   forward=lambda x, weight, padding_idx: np.asarray(weight)[from_zero(x)], ranks={"x": (1, 2), "weight": (2,)},  # no negative ones
   torch=lambda torch, x, weight, padding_idx: torch.nn.functional.embedding(x.long(), weight, padding_idx),
   domain={"x": whole(0, 1)}, examples=("F.embedding(x, weight) with x:4 weight:3x2",
                                        "F.embedding(x, weight, padding_idx=0) with x:2x3 weight:3x2"))
# fmt: on


def prepare_attention(
    shapes: tuple[Shape, ...],
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> dict[str, Hashable]:
    """Attention without dropout."""
    if dropout_p:
        raise UnsupportedError("attention with dropout is not supported yet", hints=("dropout_p=0",))
    if enable_gqa:
        raise UnsupportedError("enable_gqa=True is not supported yet")
    if is_causal and len(shapes) > 3:
        raise InputError("attention takes a mask or is_causal, not both")
    return {"is_causal": bool(is_causal), "scale": scale}


def attention_align(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
    """Leading axes broadcast; the last two are positions and features."""
    query, key, value, *mask = shapes
    if min(len(query), len(key), len(value)) < 2:
        raise ShapeError("attention takes tensors (…, positions, features)")
    lead = sizes.broadcast_shapes([s[:-2] for s in (query, key, value)])
    full = [(*lead, *s[-2:]) for s in (query, key, value)]
    if mask:
        if len(mask[0]) > len(lead) + 2:
            raise ShapeError(f"the mask has {len(mask[0])} axes and the scores only {len(lead) + 2}")
        sizes.broadcast_shapes([mask[0], (*lead, query[-2], key[-2])])
    return (*full, *((*lead, query[-2], key[-2]) for _ in mask))


def attention_values(query: Any, key: Any, value: Any, mask: Any = None, *, is_causal: bool, scale: Any) -> Any:
    """NumPy's forward: over no keys the average is 0, as torch has it, where the equation has 0/0."""
    query, key, value = (np.asarray(t, float) for t in (query, key, value))
    scores = query @ np.swapaxes(key, -1, -2) * (1 / np.sqrt(query.shape[-1]) if scale is None else float(scale))
    scores = scores if mask is None else scores + mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:]) > 0, scores, -np.inf)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True, initial=-np.inf))
    return weights / weights.sum(axis=-1, keepdims=True) @ value


def attended(factor: str, past: str = "") -> str:
    """The equation of attention."""
    score = f"{factor}(Σ_c query[…,i,c]·key[…,j,c]) + attn_mask[…,i,j]"
    return f"out[…,i,d] = (Σ_j p[i,j]·value[…,j,d]) / (Σ_k p[i,k]) where p[i,j] = exp({score}){past}"


# fmt: off
op("scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale: any=None, "
   "enable_gqa=False)", attended("scale·"), "averages of the values, weighed by softmax of how well query and key agree (a"
   " mask is added to the scores)", F, "torch._C._nn.scaled_dot_product_attention",
   instead={"is_causal and scale=None": attended("1/√(size(query, -1))·", "·[j ≤ i]"),
            "is_causal": attended("scale·", "·[j ≤ i]"), "scale=None": attended("1/√(size(query, -1))·")},
   align=attention_align, prepare=prepare_attention, expands=openings.attention, letters="bhld",
   forward=attention_values,  # over no keys
   ranks=dict.fromkeys(("query", "key", "value"), (2, 3, 4)),
   torch=lambda torch, *tensors, is_causal, scale: torch.nn.functional.scaled_dot_product_attention(
       *tensors, is_causal=is_causal, scale=None if scale is None else float(scale)),
   examples=tuple(f"F.scaled_dot_product_attention(query, key, value{more} with query:{n}x2 key:3x2 value:3x2{mask}"
                  for more, n, mask in ((")", 2, ""), (", is_causal=True)", 3, ""), (", attn_mask)", 2, " attn_mask:2x3"))))
# fmt: on
