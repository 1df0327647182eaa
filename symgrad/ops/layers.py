"""Layers of neural networks: linear maps, embeddings, attention and normalisations.

Each is one equation, so that its derivative comes out in one piece; ``expands`` is the same operation written in
simpler ones, which is what ``--expand`` shows. Where that depends on the ranks of the operands that were given and on
options, a function writes it, in symgrad's own language and with the names of the textbook (S and P of attention, x̂ of
a normalisation), or says None where there is none.

Normalisations are (x − mean)/√(variance + eps)·w + b, and differ in the axes that mean and variance run over; running
statistics are data: torch lets nothing flow back to them.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import F, op
from symgrad.entries.operands import channels_per_group, integers_between, positive, require_positions_from_zero
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.shapes import Shape, Sizes

# What layers are made of: text, one level down ----------------------------------------------------


Ranks = Mapping[str, int]
FAR_BELOW = "-1e30"
"""A score whose share is 0 in every type: the language has no infinity."""


def attention(ranks: Ranks, is_causal: bool, scale: Any) -> str:
    """softmax(q·kᵀ/√d + mask)·v; what dropout ``drawn`` in a run weighs the softmax."""
    scores = "query @ key.mT / query.shape[-1] ** 0.5" if scale is None else "query @ key.mT * scale"
    mask = " + attn_mask" if "attn_mask" in ranks else ""
    last = "D = P * drawn; D @ value" if "drawn" in ranks else "P @ value"
    if not is_causal:
        return f"S = {scores}{mask}; P = softmax(S, dim=-1); {last}"
    past = f"where(tril(ones_like(S)) > 0, S, {FAR_BELOW})"
    return f"S = {scores}{mask}; A = {past}; P = softmax(A, dim=-1); {last}"


def affine(ranks: Ranks, normal: str, axes: int) -> str | None:
    """x̂·w + b, with so many axes behind those of w; None where there is neither."""
    places = f"[:, {', '.join(['None'] * axes)}]" if axes else ""
    factor = f" * weight{places}" if "weight" in ranks else ""
    term = f" + bias{places}" if "bias" in ranks else ""
    return f"xhat = {normal}; xhat{factor}{term}" if factor or term else None


def standardised(dims: str) -> str:
    """(x − mean) / √(var + ε)"""
    mean = f"d = x - mean(x, dim={dims}, keepdim=True)"
    return f"{mean}; r = 1 / sqrt(mean(d * d, dim={dims}, keepdim=True) + eps); d * r"


def layer_norm(ranks: Ranks, normalized_shape: tuple[Any, ...], eps: Any) -> str | None:
    """x̂ over the trailing axes, scaled and shifted."""
    count = len(normalized_shape)
    dims = f"({', '.join(str(n) for n in range(-count, 0))},)"
    return affine(ranks, f"layer_norm(x, x.shape[-{count}:], eps=eps)", 0) or standardised(dims)


def batch_norm(ranks: Ranks, training: bool, eps: Any, momentum: Any = None) -> str | None:
    """x̂ of each channel, by the batch's own mean and variance, scaled and shifted."""
    if not training and "running_mean" in ranks:
        return None
    axes = ranks["x"] - 2
    dims = f"({', '.join(str(n) for n in range(ranks['x']) if n != 1)},)"
    return affine(ranks, "batch_norm(x, None, None, training=True, eps=eps)", axes) or standardised(dims)


def group_norm(ranks: Ranks, num_groups: int, eps: Any) -> str | None:
    """x̂ of each group of channels, scaled and shifted."""
    rows = "rows = x.reshape(x.shape[0], num_groups, -1)"
    normal = "layer_norm(rows, rows.shape[-1:], eps=eps).reshape(x.shape)"
    scaled = affine(ranks, normal, ranks["x"] - 2)
    return f"{rows}; {normal if scaled is None else scaled}"


def local_response_norm(ranks: Ranks, size: int, alpha: Any, beta: Any, k: Any) -> str | None:
    """x over a power of what its neighbours among the channels amount to; ``near`` says of two whether they are that."""
    channels, rest = f"x[0, :{', 0' * (ranks['x'] - 2)}]", "ijkl"[: ranks["x"] - 2]
    near = f"triu(tril(ones_like(outer({channels}, {channels})), {(size - 1) // 2}), {-(size // 2)})"
    amount = f"einsum('cd,nd{rest}->nc{rest}', near, x * x)"
    return f"near = {near}; d = {amount} * (alpha / size) + k; x / d ** beta"


# Layers -------------------------------------------------------------------------------------------


# fmt: off
op("linear(x, weight, bias=None)", "out[…,k] = Σ_j x[…,j]·weight[k,j] + bias[k]", "a linear layer: x @ weight.T + bias", F,
   variants={"rank(weight)=1": "out[…] = Σ_j x[…,j]·weight[j] + bias"}, letters="ikjl",
   ranks={"x": (2, 1, 3), "weight": (2,), "bias": (1,)},
   examples=("F.linear(x, weight, bias) with x:2x3 weight:4x3 bias:4", "F.linear(x, weight) with x:3 weight:2x3",
             "F.linear(x, weight, bias) with x:2x2x3 weight:2x3 bias:2"), arrays="x, w, b=0: x @ w.T + b")
op("bilinear(x, y, weight, bias=None)", "out[…,k] = Σ_{i,j} x[…,i]·weight[k,i,j]·y[…,j] + bias[k]",
   "a bilinear layer: one number xᵀ·W·y for each matrix W of the weight", F, "torch.bilinear", fits="x[…,i] y[…,j]",
   ranks={"x": (2,), "y": (2,), "weight": (3,), "bias": (1,)}, letters="ijkl",
   examples=("F.bilinear(x, y, weight, bias) with x:2x3 y:2x2 weight:2x3x2 bias:2",))
# fmt: on


def rows_read(shapes: tuple[Shape, ...], padding_idx: Any) -> str:
    """The row at a position; that of padding_idx is held."""
    if padding_idx is None:
        return "out[…,j] = weight[x[…],j]"
    held = f"[x[…] = {'' if padding_idx >= 0 else 'size(weight, 0) + '}padding_idx]"
    return f"out[…,j] = (1 − {held})·weight[x[…],j] + {held}·out"


op("embedding(x: data, weight, padding_idx: int=None, max_norm: unsupported=None, norm_type: unused=2.0, "
   "scale_grad_by_freq: unsupported=False, sparse: unused=False)", "out[…,j] = weight[x[…],j]", "the rows of the weight at the given positions; the row padding_idx is held",
   ("F.{}",), gathers=True, variants=rows_read, reads_out=True, fits="weight[n,m]", smooth=False,
   forward=lambda x, weight, padding_idx: np.asarray(weight)[require_positions_from_zero(x)],  # no negative ones
   domain={"x": integers_between(0, 1)}, ranks={"x": (1, 2), "weight": (2,)}, examples=("F.embedding(x, weight) with x:4 weight:3x2",
                                        "F.embedding(x, weight, padding_idx=0) with x:2x3 weight:3x2"))  # fmt: skip


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


op("scaled_dot_product_attention(query, key, value, attn_mask=None, dropout_p: unsupported=0.0, is_causal=False, "
   "scale: float=None, enable_gqa: unsupported=False)", attended("scale·"), "averages of the values, weighted by "
                                                                            "softmax of query·key (a mask is added "
                                                                            "to these scores)", F, "torch._C._nn.scaled_dot_product_attention",
   variants={"is_causal and scale=None": attended("1/√(size(query, -1))·", "·[j ≤ i]"),
            "is_causal": attended("scale·", "·[j ≤ i]"), "scale=None": attended("1/√(size(query, -1))·")},
   align=attention_align, checks={"is_causal and attn_mask": (InputError, "attention takes a mask or is_causal, not both")}, expands=attention, letters="bhld", result_dtype="real masked",
   forward=attention_values,  # over no keys
   ranks=dict.fromkeys(("query", "key", "value"), (2, 3, 4)),
   examples=tuple(f"F.scaled_dot_product_attention(query, key, value{more} with query:{n}x2 key:3x2 value:3x2{mask}"
                  for more, n, mask in ((")", 2, ""), (", is_causal=True)", 3, ""), (", attn_mask)", 2, " attn_mask:2x3"))))  # fmt: skip
for f, text in (("tanh", "tanh({})"), ("relu", "z·[z > 0] where z = {}")):
    op(f"rnn_{f}_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)",
       f"out[b,k] = {text}".format("(Σ_j input[b,j]·w_ih[k,j]) + b_ih[k] + (Σ_l hx[b,l]·w_hh[k,l]) + b_hh[k]"),
       f"a step of a recurrent layer: {f} of the input and of the hidden state hx, each times its weight plus bias", ("torch.{}",),
       fits="hx[b,k] w_hh[k,l]", reuse=f == "tanh",
       examples=(f"torch.rnn_{f}_cell(input, hx, w_ih, w_hh, b_ih, b_hh) with input:2x3 hx:2x4 w_ih:4x3 w_hh:4x4 b_ih:4 b_hh:4",
                 f"torch.rnn_{f}_cell(input, hx, w_ih, w_hh) with input:3x2 hx:3x2 w_ih:2x2 w_hh:2x2"))  # fmt: skip


BY_COUNT: Any = {f"F.{word}": lambda sizes: int(len(sizes) not in (0, 1, 3)) for word in ("softmax", "log_softmax")}
"""The axis that torch goes along where none is given, with a warning: it depends on how many there are."""


# fmt: off
op("softmax(x, dim: int=-1)", "out[i] = exp(x[i]) / Σ_j exp(x[j])", "positive weights along one axis that sum to one",
   ("torch.{}", "F.{}", "Tensor.{}", "torch.special.{}"), along="dim", reuse=True,
   examples=("softmax(x) with x:3", "softmax(x, dim=1)", "softmax(x, dim=0)"),
   expands="exp(x) / sum(exp(x), dim=dim, keepdim=True)", arrays="x, dim: nn.softmax(x, axis=dim)",
   required=("dim",), implied_axis=BY_COUNT)
op("log_softmax(x, dim: int=-1)", "out[i] = x[i] − log(Σ_j exp(x[j]))", "the logarithm of softmax",
   ("torch.{}", "F.{}", "Tensor.{}"), along="dim", reuse=True,
   examples=("log_softmax(x) with x:3", "log_softmax(x, dim=1)", "log_softmax(x, dim=0)"),
   expands="x - logsumexp(x, dim=dim, keepdim=True)", arrays="x, dim: nn.log_softmax(x, axis=dim)", required=("dim",),
   implied_axis=BY_COUNT)

# Normalisations -----------------------------------------------------------------------------------


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
   align=no_alignment, shape=trailing_shape, prepare=prepare_layer_norm, required=("normalized_shape",), expands=layer_norm,
   examples=("layer_norm(x) with x:2x3", "layer_norm(x, (3,)) with x:3",
             "F.layer_norm(x, (3,), weight, bias) with x:2x3 weight:3 bias:3"))  # fmt: skip


def require_several_entries(sizes: Sizes, counts: Sequence[Any]) -> None:
    """Mean and variance are of more than one entry."""
    if sizes.number(sp.Mul(*counts)) == 1:
        raise ShapeError("there is only one entry to take mean and variance of")
    sizes.require(sp.Mul(*counts) - 2)


def measured_shape(sizes: Sizes, shapes: tuple[Shape, ...], eps: float, **measured: bool) -> Shape:
    """The input's shape; what is measured, each channel in training or that of each sample, has several entries."""
    x = shapes[0]
    if any(measured.values()):
        require_several_entries(sizes, (*(x[:1] if "training" in measured else ()), *x[2:]))
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
   variants={"not training": GIVEN}, along="all but channels", align=no_alignment, fits=CHANNELS, shape=measured_shape,
   checks=partial(statistics, "training"), expands=batch_norm, ranks={"x": (2, 3, 4)},
   domain={"running_var": positive()}, letters="ncij",
   examples=("F.batch_norm(x, None, None, weight, bias, training=True) with x:3x2 weight:2 bias:2",
             "F.batch_norm(x, None, None, training=True) with x:2x2x3",
             "F.batch_norm(x, running_mean, running_var, weight, bias) with x:3x2 running_mean:2 running_var:2 weight:2 bias:2"))  # fmt: skip


op("local_response_norm(x, size: int >= 1, alpha=1e-4, beta=0.75, k=1.0)", "out[c] = x[c] / (k + alpha/size·near)^beta"
   " where near = Σ_j [c − ⌊size/2⌋ ≤ j]·[j ≤ c + ⌊(size − 1)/2⌋]·x[j]²",
   "each entry divided by a power of the sum of squares of its size neighbouring channels c", F, along="1", least=3,
   expands=local_response_norm,
   examples=("F.local_response_norm(x, 2) with x:2x3x2", "F.local_response_norm(x, 3, 0.5, 1.0, 2.0) with x:1x4x2"),
   result_dtype="cut")  # fmt: skip


op(f"instance_norm(x, {STATISTICS}, use_input_stats=True, momentum: unused=0.1, eps=1e-05)", NORMAL.format("·weight + bias"),
   "each channel of each sample, all its entries one line, to mean 0 and variance 1", F, variants={"not use_input_stats": GIVEN}, along="space",
   align=no_alignment, fits=CHANNELS, shape=measured_shape, checks=partial(statistics, "use_input_stats"), ranks={"x": (3, 4)}, letters="ncij",
   domain={"running_var": positive()},
   examples=("F.instance_norm(x) with x:2x2x3", "F.instance_norm(x, None, None, weight, bias) with x:1x2x3 weight:2 bias:2"))  # fmt: skip


def grouped_shape(sizes: Sizes, shapes: tuple[Shape, ...], num_groups: int, eps: float) -> Shape:
    """The input's shape; the groups divide the channels."""
    shape = shapes[0]
    require_several_entries(sizes, (shape[0], channels_per_group(sizes, shape[1], num_groups), *shape[2:]))
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
   "each group of m channels of each sample, from the channel first on, to mean 0 and variance 1", ("F.{}", "torch.{}"), variants=grouped, fits="x[n,c,…] weight[c] bias[c]", shape=grouped_shape,
   expands=group_norm, ranks={"x": (3, 4)}, letters="ncij",
   examples=("F.group_norm(x, 2) with x:1x4x2", "F.group_norm(x, 2, weight, bias) with x:2x4x2 weight:4 bias:4"))  # fmt: skip


op("rms_norm(x, normalized_shape: any, weight=None, eps: float=None)", "out[i] = x[i] / √(mean_j x[j]² + eps)·weight[i]",
   "divides by the root of the mean square over the last axes, those of normalized_shape", F, "torch.rms_norm", along="normalized_shape",
   align=no_alignment, shape=trailing_shape, prepare=lambda shapes, normalized_shape, eps: prepare_layer_norm(
       shapes, normalized_shape, float(np.finfo(np.float64).eps) if eps is None else eps),  # torch's without one
   examples=("F.rms_norm(x, (3,)) with x:2x3", "F.rms_norm(x, (3,), weight) with x:2x3 weight:3"))  # fmt: skip
