"""What composite operations are made of, where that depends on their operands and options: as text, one level down.

Comes in: the ranks of the operands that were given, and the options. Goes out: text in symgrad's own language, whose
statements carry the names of the textbook (S and P of attention, x̂ of a normalisation); None where there is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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


def normalize(ranks: Ranks, p: Any, dim: int, eps: Any) -> str | None:
    """x / max(|x|, ε)"""
    return "n = clamp(norm(x, p, dim, keepdim=True), min=eps); x / n" if ranks["x"] else None


def cosine_similarity(ranks: Ranks, dim: int, eps: Any) -> str | None:
    """Σ x·y / (|x|·|y|)"""
    if not ranks["x"]:
        return None
    lengths = "clamp(norm(x, 2, dim), min=eps) * clamp(norm(y, 2, dim), min=eps)"
    return f"lengths = {lengths}; sum(x * y, dim=dim) / lengths"
