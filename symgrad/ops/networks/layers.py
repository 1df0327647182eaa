"""Layers of neural networks: linear maps, embeddings and attention."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.entries.domain import whole
from symgrad.entries.equations import F, op
from symgrad.errors import InputError, ShapeError
from symgrad.ops import openings
from symgrad.ops.moving.positions import from_zero
from symgrad.shapes import Shape, Sizes

# fmt: off
op("linear(x, weight, bias=None)", "out[…,k] = Σ_j x[…,j]·weight[k,j] + bias[k]", "a linear layer: x @ weight.T + bias", F,
   instead={"rank(weight)=1": "out[…] = Σ_j x[…,j]·weight[j] + bias"}, letters="ikjl",
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
   ("F.{}",), looks_up=True, instead=rows_read, reads_out=True, fits="weight[n,m]", smooth=False,
   forward=lambda x, weight, padding_idx: np.asarray(weight)[from_zero(x)],  # no negative ones
   domain={"x": whole(0, 1)}, ranks={"x": (1, 2), "weight": (2,)}, examples=("F.embedding(x, weight) with x:4 weight:3x2",
                                        "F.embedding(x, weight, padding_idx=0) with x:2x3 weight:3x2"))  # fmt: skip


def one_mask(shapes: tuple[Shape | None, ...], is_causal: bool, **options: Any) -> None:
    """A mask of one's own, or that of the past."""
    if is_causal and len(shapes) > 3:
        raise InputError("attention takes a mask or is_causal, not both")


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
   "scale: float=None, enable_gqa: unsupported=False)", attended("scale·"), "averages of the values, weighed by softmax of how well query and key agree (a"
   " mask is added to the scores)", F, "torch._C._nn.scaled_dot_product_attention",
   instead={"is_causal and scale=None": attended("1/√(size(query, -1))·", "·[j ≤ i]"),
            "is_causal": attended("scale·", "·[j ≤ i]"), "scale=None": attended("1/√(size(query, -1))·")},
   align=attention_align, checks=one_mask, expands=openings.attention, letters="bhld", holds="real masked",
   forward=attention_values,  # over no keys
   ranks=dict.fromkeys(("query", "key", "value"), (2, 3, 4)),
   examples=tuple(f"F.scaled_dot_product_attention(query, key, value{more} with query:{n}x2 key:3x2 value:3x2{mask}"
                  for more, n, mask in ((")", 2, ""), (", is_causal=True)", 3, ""), (", attn_mask)", 2, " attn_mask:2x3"))))  # fmt: skip
for f, text in (("tanh", "tanh({})"), ("relu", "z·[z > 0] where z = {}")):
    op(f"rnn_{f}_cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None)",
       f"out[b,k] = {text}".format("(Σ_j input[b,j]·w_ih[k,j]) + b_ih[k] + (Σ_l hx[b,l]·w_hh[k,l]) + b_hh[k]"),
       f"a step of a recurrent layer: {f} of what it reads, input, and what it remembers, hx, each by its weight and bias", ("torch.{}",),
       fits="hx[b,k] w_hh[k,l]", reuse=f == "tanh",
       examples=(f"torch.rnn_{f}_cell(input, hx, w_ih, w_hh, b_ih, b_hh) with input:2x3 hx:2x4 w_ih:4x3 w_hh:4x4 b_ih:4 b_hh:4",
                 f"torch.rnn_{f}_cell(input, hx, w_ih, w_hh) with input:3x2 hx:3x2 w_ih:2x2 w_hh:2x2"))  # fmt: skip
