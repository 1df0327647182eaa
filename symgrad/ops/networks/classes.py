"""Losses over classes: how unlikely the right class is among the scores.

Where classes are targets, they are integers: the loss reads the score at that position, and nothing flows to them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from symgrad import special
from symgrad.entries.along import BY_WORD, REDUCE, SIZE_AVERAGE
from symgrad.entries.domain import positive, whole
from symgrad.errors import ShapeError
from symgrad.ops.moving.positions import from_zero, positions
from symgrad.ops.networks.losses import loss
from symgrad.shapes import Shape, Sizes


def classes(
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
    x, n = np.asarray(x, float), positions(target)
    axis = min(x.ndim - 1, 1)
    counted = n != ignore_index
    safe = from_zero(np.where(counted, n, 0))
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
     along="classes", fits=classes, forward=class_values, also="F.nll_loss_nd torch._C._nn.nll_loss_nd",
     ranks={"x": (2, 1), "target": (1, 0)}, domain={"target": whole(0, 1), "weight": positive()}, smooth=True,
     examples=("F.nll_loss(x, target) with x:2x3 target:2", "F.nll_loss(x, target, weight) with x:2x3 target:2 weight:3",
               'F.nll_loss(x, target, reduction="sum") with x:2x3x2 target:2x2'), holds="real")
loss(f"cross_entropy(x, target, weight: data=None, {SIZE_AVERAGE}, ignore_index=-100, {REDUCE}, {BY_WORD}, label_smoothing: 0 <= float <= 1=0.0)", CLASSES,
     "minus the log-probability that softmax gives the targets: a class for each sample, or one weight per class",
     instead={"rank(target)=rank(x)": SHARED}, along="classes",
     fits=partial(classes, weights=True), forward=entropy_values, smooth=True, torch=torch_entropy,
     ranks={"x": (2, 1), "target": (1, 0, 2)}, domain={"weight": positive()},
     examples=("cross_entropy(x, y) with x:2x3 y:2x3", "cross_entropy(x, y) with x:3 y:3",
               'cross_entropy(x, y, reduction="sum") with x:2x3 y:2x3'))
loss("multi_margin_loss(x, target: data, p: 1 <= int <= 2=1, margin=1.0, weight: data=None)",
     "out = weight[target]·(Σ_j [j ≠ target]·[t[j] > 0]·t[j]^p)/size(x, -1) where t[j] = margin − x[target] + x[j]",
     "how far each class comes within the margin of the right one, its mean over the classes", along="classes", fits=classes,
     ranks={"x": (2, 1), "target": (1, 0)}, domain={"target": whole(0, 1), "weight": positive()},
     examples=("F.multi_margin_loss(x, target) with x:2x3 target:2", "F.multi_margin_loss(x, target, p=2, margin=0.5) with x:3 target:scalar",
               'F.multi_margin_loss(x, target, weight=weight, reduction="none") with x:2x3 target:2 weight:3'))
