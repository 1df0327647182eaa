"""Losses: one number for how far predictions lie from targets, entry by entry and then added or averaged.

`loss` makes an entry from the equation of one entry's loss; the reductions are the same for all. Where classes are
targets, they are integers: the loss reads the score at that position, and nothing flows to them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from symgrad.entries.along import BY_AVERAGE, BY_WORD, REDUCE, SIZE_AVERAGE
from symgrad.entries.equations import op
from symgrad.entries.operands import (
    integers_between,
    numpy_positions,
    open_interval,
    positive,
    reals,
    require_broadcastable,
    require_equal_rank,
    require_positions_from_zero,
)
from symgrad.errors import ShapeError
from symgrad.functions import special
from symgrad.ops.distances import inner_length, numpy_length
from symgrad.shapes import Shape, Sizes


def batches(shapes: tuple[Shape, ...], reduction: str, **options: Any) -> None:
    """What batchmean, the reduction that kl_div has beside the others, divides by."""
    if reduction == "batchmean":
        x, target = shapes[:2]
        if not x or len(x) != len(target) or any(a == 1 != b for a, b in zip(x, target, strict=True)):
            raise ShapeError(
                "batchmean divides by the first size of the predictions: they need one, and the targets' shape",
                hints=('reduction="sum"',),
            )


loss = partial(op, home=("F.{}",), reduced=True)
"""An entry from the equation of one entry's loss, or with ``along`` of one line; nothing flows to weights in torch."""


def within_first(sizes: Sizes, x: Shape, target: Shape, **options: Any) -> None:
    """Targets broadcast to the predictions, not the other way round."""
    require_broadcastable(sizes, target, x, "targets have {} axes and predictions only {}")


def variances(sizes: Sizes, x: Shape, target: Shape, var: Shape, **options: Any) -> None:
    """One variance for each entry of x, for each row, or for all."""
    if var and len(var) != len(x):
        raise ShapeError(f"the variance has {len(var)} axes and x {len(x)}", hints=("var.unsqueeze(-1)",))
    within_first(sizes, x, var)


STIRLING = "stirling = [target > 1]·(target·log(target) − target + log(2·π·target)/2)"

# one operation, one row
# fmt: off
loss("mse_loss(x, y)", "out = (x − y)²", "the mean of the squared differences", expands="mean((x - y) ** 2)",
     examples=("mse_loss(x, y)", 'mse_loss(x, y, reduction="sum") with x:3 y:3'), result_dtype="real")
loss("l1_loss(x, target)", "out = |x − target|", "the mean distance", kinks=0)
loss(f"smooth_l1_loss(x, target, {BY_AVERAGE}, {BY_WORD}, beta: float >= 0=1.0)", "out = near·d²/(2·beta) + (1 − near)·(|d| − beta/2)"
     " where d = x − target, near = [|d| < beta]", "the mean distance, a parabola below beta", kinks=0,
     variants={"not beta": "out = |x − target|"}, more=("F.smooth_l1_loss(x, target, beta=0.5) with x:3 target:3",))
loss(f"huber_loss(x, target, {BY_WORD}, delta: float > 0=1.0)", "out = near·d²/2 + (1 − near)·delta·(|d| − delta/2)"
     " where d = x − target, near = [|d| ≤ delta]", "half the squared distance up to delta, a straight line further out", kinks=0,
     more=("F.huber_loss(x, target, delta=0.5) with x:3 target:3",))
loss("binary_cross_entropy(x, target, weight: data=None)", "out = weight·(−target·([x ≠ 0]·log(x) − 100·[x = 0]) − (1 − target)·([1 − x ≠ 0]·log(1 − x) − 100·[1 − x = 0]))",
     "minus the log-probability of the targets, x being probabilities", fits="x[…] target[…]",
     domain={"x": open_interval(0, 1), "target": open_interval(0, 1)},
     edges=({"x": 0.0}, {"x": 1.0}), margin=1e-12, least_log=-100.0,
     more=("F.binary_cross_entropy(x, target, weight) with x:2x3 target:2x3 weight:3",),
     forward=lambda x, y, w=None: (1 if w is None else w) * (  # torch takes no logarithm below −100
         -y * np.maximum(np.log(x), -100) - (1 - y) * np.maximum(np.log1p(-x), -100)))
loss(f"binary_cross_entropy_with_logits(x, target, weight: data=None, {BY_AVERAGE}, {BY_WORD}, *, pos_weight: data=None)",
     "out = weight·((1 − target)·x + (1 + (pos_weight − 1)·target)·softplus(−x))",
     "minus the log-probability of the targets, σ(x) being probabilities",
     variants={"pos_weight=None": "out = weight·((1 − target)·x + softplus(−x))"}, fits="x[…] target[…]",
     domain={"target": open_interval(0, 1), "pos_weight": positive()},
     more=("F.binary_cross_entropy_with_logits(x, target, weight) with x:2x3 target:2x3 weight:3",
           "F.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight) with x:2x3 target:2x3 pos_weight:3"))
loss(f"kl_div(x, target, {BY_AVERAGE}, reduction: 'mean' | 'sum' | 'none' | 'batchmean'='mean', log_target=False)", "out = target·(log(target) − x)",
     "how far the distribution target is from the one with log-probabilities x: the parts of Kullback and Leibler's divergence",
     variants={"log_target": "out = exp(target)·(target − x)"}, domain={"target": positive()}, edges=({"target": 0.0},), checks=batches,
     least_log=-np.inf, forward=lambda x, y, log_target=False: (
         np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x),
     examples=(*(f'F.kl_div(x, target, reduction="{word}")' for word in ("sum", "none", "batchmean")),  # torch warns of its mean
               'F.kl_div(x, target, log_target=True, reduction="sum")'))
loss("soft_margin_loss(x, target: data)", "out = softplus(−target·x)", "the logistic loss, for targets ±1",
     fits=within_first)
loss(f"poisson_nll_loss(x, target, log_input=True, full=False, {SIZE_AVERAGE}, eps=1e-8, {REDUCE}, {BY_WORD})",
     f"out = exp(x) − target·x + full·stirling where {STIRLING}",
     "minus the log-probability of the counts target at the rate exp(x); with full also log(target!), by Stirling",
     variants={"not log_input": f"out = x − target·log(x + eps) + full·stirling where {STIRLING}"},
     domain={"x": positive(), "target": positive()}, edges=({"target": 0.0},),
     more=("F.poisson_nll_loss(x, target, log_input=False)", "F.poisson_nll_loss(x, target, full=True)"))
loss(f"gaussian_nll_loss(x, target, var, full=False, eps=1e-6, {BY_WORD})",
     "out = (log(var) + (x − target)²/var + full·log(2·π))/2",
     "minus the log-probability of the target under a normal distribution with mean x and variance var (torch takes eps for a smaller var)", fits=variances,
     domain={"var": positive()}, edges=({"var": 0.0},), margin="eps",
     more=("F.gaussian_nll_loss(x, target, var, full=True) with x:3 target:3 var:3",))
loss("margin_ranking_loss(x, y, target, margin=0.0)", "out = t·[t ≥ 0] where t = −target·(x − y) + margin",
     "how far x − y is below the margin; y − x, where the target is −1", kinks=0, fits=require_equal_rank, result_dtype="real",
     forward=lambda x, y, target, margin=0.0: np.maximum(float(margin) - target * (x - y), 0))  # 0 where t is −∞
loss("hinge_embedding_loss(x, target: data, margin=1.0)",
     "out = [target ≠ −1]·x + [target ≠ 1]·t·[t ≥ 0] where t = margin − x",
     "x, a distance, where target is 1; how far it is below the margin where target is −1", domain={"x": reals(avoid=(1.0,)), "target": integers_between(-1, 1)},
     forward=lambda x, target, margin=1.0: (  # 0 where t is −∞
         np.where(target != -1, x, 0) + np.where(target != 1, np.maximum(float(margin) - x, 0), 0)))
# fmt: on


# Vectors ----------------------------------------------------------------------------------------------


TINY, EPS = "9.999999960041972e-13", "2305843/2^61"
"""10⁻¹² as torch has it, in single precision (``float EPSILON`` in ATen's Loss.cpp): 4e-9 less, which a gradient at 0 shows."""
ANGLE = f"c = (Σ_j x[j]·y[j]) / √((Σ_k x[k]² + ε)·(Σ_l y[l]² + ε)), ε = {EPS}"
SIDES = "a[j] = anchor[j] − positive[j] + eps, b[j] = anchor[j] − negative[j] + eps"


def triplet(shapes: Any, p: Any = 2, swap: bool = False, **options: Any) -> str:
    """The equation of triplet_margin_loss for this p; with swap the nearer of the other two counts."""
    near, far, other = (inner_length(p, side) for side in "abc")
    swapped = ", c[j] = positive[j] − negative[j] + eps" if swap else ""
    return f"out = t·[t ≥ 0] where t = {near} − {f'min({far}, {other})' if swap else far} + margin, {SIDES}{swapped}"


def embedding_values(x: Any, y: Any, target: Any, margin: float = 0.0) -> Any:
    """NumPy's forward: nothing of a pair whose target is neither."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    lengths = [np.sqrt(np.sum(a * a, axis=-1) + float(TINY)) for a in (x, y)]
    angle = np.sum(x * y, axis=-1) / lengths[0] / lengths[1]
    return np.where(target == 1, 1 - angle, 0) + np.where(target == -1, np.maximum(angle - float(margin), 0), 0)


def triplet_values(a: Any, b: Any, c: Any, margin: Any = 1.0, p: Any = 2.0, eps: Any = 1e-6, swap: bool = False) -> Any:
    """NumPy's forward: NaN stays NaN."""
    far = numpy_length(a - c + float(eps), p, -1)
    far = np.minimum(far, numpy_length(b - c + float(eps), p, -1)) if swap else far
    return np.maximum(numpy_length(a - b + float(eps), p, -1) - far + float(margin), 0)


# fmt: off
loss("cosine_embedding_loss(x, y, target: data, margin=0.0)",
     f"out = [target = 1]·(1 − c) + [target = −1]·(c − margin)·[c − margin ≥ 0] where {ANGLE}",
     "small where the angle is small for pairs that belong together (target 1) and large for others (−1)", along="last",
     fits="x[…,n] y[…,n] target[…]", forward=embedding_values, domain={"target": integers_between(-1, 1)},
     expands=f"n = sqrt(sum(x ** 2, dim=-1) + {TINY}); m = sqrt(sum(y ** 2, dim=-1) + {TINY}); cos = sum(x * y, dim=-1) / n / m; "
             "mean((target == 1) * (1 - cos) + (target == -1) * clamp(cos - margin, min=0))",
     examples=tuple(f"F.cosine_embedding_loss(x, y, target{how}) with x:2x3 y:2x3 target:2"
                    for how in ("", ', reduction="sum"')))
loss("triplet_margin_loss(anchor, positive, negative, margin: float > 0=1.0, p=2.0, eps=1e-06, swap=False)",
     f"out = t·[t ≥ 0] where t = √(Σ_j a[j]²) − √(Σ_j b[j]²) + margin, {SIDES}",
     "how much the positive example lacks to be nearer than the negative one by the margin; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); with swap the distance of both examples counts, where that is smaller", along="last", kinks=0,
     expands="near = pairwise_distance(anchor, positive, p, eps); far = pairwise_distance(anchor, negative, p, eps); "
             "mean(clamp(near - far + margin, min=0))", fits="anchor[…,n] positive[…,n] negative[…,n]", variants=triplet, forward=triplet_values, examples=("F.triplet_margin_loss(anchor, positive, negative)",
               'F.triplet_margin_loss(anchor, positive, negative, reduction="sum")'))

# Classes ------------------------------------------------------------------------------------------


def class_domain(
    sizes: Sizes, x: Shape, target: Shape, *weight: Shape | None, weights: bool = False, **options: Any
) -> None:
    """A class for each sample, or where there may be ``weights`` one for each class."""
    if not x:
        raise ShapeError("scores need at least one axis, the classes")
    axis = min(len(x) - 1, 1)
    if sizes.number(x[axis]) == 0:
        raise ShapeError("there are no classes: the axis of scores is empty")
    samples = (*x[:axis], *x[axis + 1 :])
    wanted = x if len(target) == len(x) and weights else samples
    if len(target) != len(wanted):
        raise ShapeError(
            f"targets have {len(target)} axes and scores {len(x)}",
            hints=("targets are a class for each sample, or for cross_entropy one weight for each class",),
        )
    sizes.match(wanted, target)
    if weight and weight[0] is not None:
        if len(weight[0]) != 1:
            raise ShapeError("the weight of a loss over classes is a vector, one number for each class")
        sizes.unify(weight[0][0], x[axis])


def class_values(
    x: Any, target: Any, weight: Any = None, ignore_index: int = -100, label_smoothing: float = 0.0
) -> Any:
    """NumPy's forward, from log-probabilities: the losses, and how much each counts."""
    x, n = np.asarray(x, float), numpy_positions(target)
    axis = min(x.ndim - 1, 1)
    counted = n != ignore_index
    safe = require_positions_from_zero(np.where(counted, n, 0))
    scale = np.ones(x.shape[axis]) if weight is None else np.asarray(weight, float)
    own = np.where(counted, scale[safe], 0.0)
    losses = -own * np.take_along_axis(x, np.expand_dims(safe, axis), axis).squeeze(axis)
    if label_smoothing:
        every = -np.tensordot(scale, x, axes=(0, axis))
        losses = (1 - label_smoothing) * losses + label_smoothing * np.where(counted, every, 0) / x.shape[axis]
    return losses, own


def entropy_values(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int = -100, label_smoothing: Any = 0.0
) -> Any:
    """NumPy's forward, for classes or for a weight per class."""
    x, smoothing = np.asarray(x, float), float(label_smoothing)
    axis = min(x.ndim - 1, 1)
    scores = special.log_softmax(x, axis=axis) if x.size else x
    if np.ndim(target) < x.ndim:
        return class_values(scores, target, weight, ignore_index, smoothing)
    target = np.asarray(target, float) * (1 - smoothing) + smoothing / max(x.shape[axis], 1)
    scale = 1 if weight is None else np.reshape(weight, [-1 if a == axis else 1 for a in range(x.ndim)])
    return -np.sum(scale * target * scores, axis=axis)


def torch_entropy(torch: Any, x: Any, target: Any, weight: Any = None, **options: Any) -> Any:
    """torch's, to which classes are integers."""
    target = target.long() if target.dim() < x.dim() else target
    return torch.nn.functional.cross_entropy(x, target, weight, **options)


SCORES = "s[k] = x[k] − log(Σ_m exp(x[m]))"
SHARED = f"out = −Σ_k weight[k]·((1 − label_smoothing)·target[k] + label_smoothing/size(x, -1))·s[k] where {SCORES}"
CLASSES = (
    "out = −(1 − label_smoothing)·w·s[target] − label_smoothing·c·(Σ_k weight[k]·s[k])/size(x, -1)"
    f" where {SCORES}, c = [target ≠ ignore_index], w = c·weight[target]"
)
# fmt: off
loss(f"nll_loss(x, target: data, weight: data=None, {SIZE_AVERAGE}, ignore_index=-100, {REDUCE}, {BY_WORD})",
     "out = −w·x[target] where w = [target ≠ ignore_index]·weight[target]", "minus the log-probability at each target's class",
     along="classes", fits=class_domain, forward=class_values, also="F.nll_loss_nd torch._C._nn.nll_loss_nd",
     ranks={"x": (2, 1), "target": (1, 0)}, domain={"target": integers_between(0, 1), "weight": positive()}, smooth=True,
     examples=("F.nll_loss(x, target) with x:2x3 target:2", "F.nll_loss(x, target, weight) with x:2x3 target:2 weight:3",
               'F.nll_loss(x, target, reduction="sum") with x:2x3x2 target:2x2'), result_dtype="real")
loss(f"cross_entropy(x, target, weight: data=None, {SIZE_AVERAGE}, ignore_index=-100, {REDUCE}, {BY_WORD}, label_smoothing: 0 <= float <= 1=0.0)", CLASSES,
     "minus the log-probability that softmax gives the targets: a class for each sample, or one weight per class",
     variants={"rank(target)=rank(x)": SHARED}, along="classes",
     fits=partial(class_domain, weights=True), forward=entropy_values, smooth=True, torch=torch_entropy,
     ranks={"x": (2, 1), "target": (1, 0, 2)}, domain={"weight": positive()},
     examples=("cross_entropy(x, y) with x:2x3 y:2x3", "cross_entropy(x, y) with x:3 y:3",
               'cross_entropy(x, y, reduction="sum") with x:2x3 y:2x3'))
loss("multi_margin_loss(x, target: data, p: 1 <= int <= 2=1, margin=1.0, weight: data=None)",
     "out = weight[target]·(Σ_j [j ≠ target]·[t[j] > 0]·t[j]^p)/size(x, -1) where t[j] = margin − x[target] + x[j]",
     "how far each class comes within the margin of the right one, its mean over the classes", along="classes", fits=class_domain,
     ranks={"x": (2, 1), "target": (1, 0)}, domain={"target": integers_between(0, 1), "weight": positive()},
     examples=("F.multi_margin_loss(x, target) with x:2x3 target:2", "F.multi_margin_loss(x, target, p=2, margin=0.5) with x:3 target:scalar",
               'F.multi_margin_loss(x, target, weight=weight, reduction="none") with x:2x3 target:2 weight:3'))
