"""Layers and losses that are several entries, and torch's inner ones, with positions where users give names."""

from __future__ import annotations

from symgrad.ops.calls.written import said

# fmt: off
said("gaussian_nll_loss(x, target, var, full=False, eps=1e-6, reduction='mean')", lambda x, var, **_: None
     if not getattr(var, "shape", ()) or tuple(var.shape) != tuple(x.shape[:-1]) else
     "gaussian_nll_loss(x, target, unsqueeze(var, dim=-1), full=full, eps=eps, reduction=reduction)",
     "One variance for each row, where it has all the axes but the last.", "F.gaussian_nll_loss")
said("linear_cross_entropy(x, linear_weight, target, *, linear_bias=None, weight=None, reduction='mean', ignore_index=-100, "
     "label_smoothing=0.0, options: unused=None)", "cross_entropy(linear(x, linear_weight, linear_bias), target, weight, "
     "reduction=reduction, ignore_index=ignore_index, label_smoothing=label_smoothing)",
     "A linear layer and the cross entropy of its result.", "F.linear_cross_entropy")
ROWS = "mean(-(target * logsigmoid(x) + (1 - target) * logsigmoid(-x)) * weight, dim=-1)"
said("multilabel_soft_margin_loss(x, target, weight=None, size_average: unused=None, reduce: unused=None, "
     "reduction: 'none' | 'mean' | 'sum'='mean')", f"mean({ROWS})", "−(y·log σ(x) + (1 − y)·log σ(−x)), its mean over the classes.",
     "F.multilabel_soft_margin_loss", instead={"reduction=none": ROWS, "reduction=sum": f"sum({ROWS})"})
said("_weight_norm(v, g, dim: int=0)", lambda v, g, dim: "v * (g / abs(v))" if not (axes := tuple(a for a in range(len(v.shape)) if a != dim))
     else f"v * (g / norm(v, p=2, dim={axes}, keepdim={dim >= 0}))", "v·g/|v|, the length over all axes but one.",
     "torch._weight_norm", "aten._weight_norm")
said("native_layer_norm(x, shape: any, weight, bias, eps: any)",
     ("layer_norm(x, weight, bias, normalized_shape=shape, eps=eps)", None, None), "The layer; the others are not differentiable.",
     "torch.native_layer_norm", "aten.native_layer_norm", fields=("out", "mean", "rstd"))
GROUPS = "rows = reshape(x, shape=(n, groups, -1)); "
said("native_group_norm(x, weight, bias, n: any, c: any, size: any, groups: int, eps: any)",
     ("group_norm(x, weight, bias, num_groups=groups, eps=eps)", f"{GROUPS}mean(rows, dim=2)", f"{GROUPS}rsqrt(var(rows, dim=2, correction=0) + eps)"),
     "The layer, the means, and one by the deviations.", "torch.native_group_norm", "aten.native_group_norm", fields=("out", "mean", "rstd"))
