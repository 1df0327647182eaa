"""Layers and losses as torch spells them inside, with positions where users give names, and what is made of them."""

from __future__ import annotations

from typing import Any

from symgrad.ops.calls.registry import Call, Last, compound


@compound("F.gaussian_nll_loss")
def gaussian_nll_loss(
    call: Call, part: int, x: Any, target: Any, var: Any, full: bool = False, eps: float = 1e-6,
    reduction: str = "mean",
) -> Last | None:  # fmt: skip
    """One variance for each row, where it has all the axes but the last."""
    shape = tuple(getattr(var, "shape", ()))
    if not shape or shape != tuple(x.shape[:-1]) or shape == tuple(x.shape):
        return None
    rows = call("unsqueeze", var, dim=-1)
    return "gaussian_nll_loss", (x, target, rows), {"full": full, "eps": eps, "reduction": reduction}


@compound("F.linear_cross_entropy")
def linear_cross_entropy(
    call: Call, part: int, x: Any, weight: Any, target: Any, bias: Any = None, **options: Any
) -> Last:
    """A linear layer and the cross entropy of its result."""
    logits = call("linear", x, weight) if bias is None else call("linear", x, weight, bias)
    return "cross_entropy", (logits, target), options


@compound("F.multilabel_soft_margin_loss")
def multilabel_soft_margin_loss(
    call: Call, part: int, x: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Last:  # fmt: skip
    """−(y·log σ(x) + (1 − y)·log σ(−x)), its mean over the classes."""
    inside = call("mul", target, call("logsigmoid", x))
    outside = call("mul", call("rsub", target, 1), call("logsigmoid", call("neg", x)))
    each = call("neg", call("add", inside, outside))
    rows = call("mean", each if weight is None else call("mul", each, weight), dim=-1)
    return ("identity", (rows,), {}) if reduction == "none" else (reduction, (rows,), {})


@compound("torch._weight_norm", "aten._weight_norm")
def weight_norm(call: Call, part: int, v: Any, g: Any, dim: int = 0) -> Last:
    """v·g/|v|, the length over all axes but one."""
    axes = tuple(a for a in range(len(v.shape)) if a != dim)
    length = call("norm", v, p=2, dim=axes, keepdim=dim >= 0) if axes else call("abs", v)
    return "mul", (v, call("div", g, length)), {}
