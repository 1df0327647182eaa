"""Losses: one number for how far predictions lie from targets, entry by entry and then added or averaged.

`loss` makes an entry from the equation of one entry's loss; the reductions are the same for all. Where classes are
targets, they are integers: the loss reads the score at that position, and nothing flows to them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.ops.axes.reductions import Reduction
from symgrad.ops.domain import between, positive, reals, whole
from symgrad.ops.equations import op, plain
from symgrad.ops.moving.positions import from_zero, positions
from symgrad.ops.networks.composites import numpy_reduced, prepare_loss
from symgrad.ops.readings import Loss, Pointwise
from symgrad.ops.shaping import broadcast, common_shape, number
from symgrad.ops.signatures import call_of
from symgrad.ops.spec import At, Data, Op, View, example, operation
from symgrad.shapes import Shape, Sizes

WEIGHTS = ("weight", "pos_weight")


def prepare(shapes: tuple[Shape, ...], **options: Any) -> dict[str, Hashable]:
    """The reduction checked; kl_div has one more."""
    if options.get("reduction") == "batchmean" and "log_target" in options:
        x, target = shapes[:2]
        if len(x) != len(target) or any(a == 1 != b for a, b in zip(x, target, strict=True)):
            raise ShapeError(
                "batchmean divides by the first size of the predictions, so they have to have the targets' shape",
                hints=('reduction="sum"',),
            )
        return options
    return prepare_loss(shapes, **options)


def loss_shape(sizes: Sizes, shapes: tuple[Shape | None, ...], reduction: str, **options: Any) -> Shape:
    """The operands' common shape, or a scalar where entries are added up."""
    return common_shape(sizes, shapes) if reduction == "none" else ()


def loss(
    call: str,
    equation: str,
    says: str,
    *,
    fits: Callable[..., None] | None = None,
    forward: Callable[..., Any] | None = None,
    instead: dict[str, str] | None = None,
    examples: Sequence[str] = (),
    more: Sequence[str] = (),
    **facts: Any,
) -> Op:
    """An entry from the equation of one entry's loss, as torch.nn.functional spells it, with a ``reduction``.

    Nothing flows to weights in torch. ``fits(sizes, x, target)`` refuses targets that torch does not broadcast here.
    """
    whole_call = f"{call.removesuffix(')')}, reduction='mean')"
    said = call_of(whole_call)
    shown = ", ".join(name for name in said.operands if name not in WEIGHTS)
    plainly = f"F.{said.name}({shown}"
    averaged = () if said.name == "kl_div" else (f"{plainly})",)  # torch warns of kl_div's mean

    def align(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Any) -> tuple[Any, ...]:
        if fits is not None:
            fits(sizes, *shapes)
        return broadcast(sizes, shapes)

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        named = dict(zip(said.operands, tensors, strict=False))
        first = [named.pop(name) for name in said.operands if name in named and name not in WEIGHTS]
        function = getattr(torch.nn.functional, said.name)
        return function(*first, **named, **{name: plain(value) for name, value in options.items()})

    return op(
        whole_call, equation, says, ("F.{}",), reading=Loss(Pointwise(said, equation, instead or {}), forward),
        instead=instead, shape=loss_shape, align=align, prepare=prepare, torch=by_torch,
        examples=(*(examples or (*averaged, *(f'{plainly}, reduction="{word}")' for word in ("sum", "none")))), *more),
        **facts,
    )  # fmt: skip


def one_shape(sizes: Sizes, x: Shape, target: Shape, *weights: Shape | None) -> None:
    """Predictions and targets have one shape; weights broadcast."""
    if len(x) != len(target):
        raise ShapeError(
            f"targets have {len(target)} axes and predictions {len(x)}: torch does not broadcast them here"
        )
    for a, b in zip(x, target, strict=True):
        sizes.unify(a, b)


def within_first(sizes: Sizes, x: Shape, target: Shape) -> None:
    """Targets broadcast to the predictions, not the other way round."""
    if len(target) > len(x):
        raise ShapeError(f"targets have {len(target)} axes and predictions only {len(x)}")
    for a, b in zip(x[::-1], target[::-1], strict=False):
        if sizes.find(b) != 1:
            sizes.unify(a, b)


def same_ranks(sizes: Sizes, *shapes: Shape) -> None:
    """As many axes each."""
    if len({len(s) for s in shapes}) > 1:
        raise ShapeError("this loss takes tensors with as many axes each", found=(str([len(s) for s in shapes]),))


def variances(sizes: Sizes, x: Shape, target: Shape, var: Shape) -> None:
    """One variance for each entry of x, for each row, or for all."""
    if var and len(var) != len(x):
        raise ShapeError(f"the variance has {len(var)} axes and x {len(x)}", hints=("var.unsqueeze(-1)",))
    within_first(sizes, x, var)


def weighed(value: Any, weight: Any) -> Any:
    """``value`` times ``weight``, if there is one."""
    return value if weight is None else weight * value


def logits_values(x: Any, y: Any, w: Any = None, p: Any = None) -> Any:
    """NumPy's forward: each class's log-probability by itself."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return weighed(-(1 if p is None else p) * y * special.log_expit(x) - (1 - y) * special.log_expit(-x), w)


apart = {"x": reals(distinct=True), "target": reals(distinct=True)}
STIRLING = "stirling = [target > 1]·(target·log(target) − target + log(2·π·target)/2)"

# one operation, one row
# fmt: off
loss("mse_loss(x, y)", "out = (x − y)²", "the mean of the squared differences", expands="mean((x - y) ** 2)",
     examples=("mse_loss(x, y)", 'mse_loss(x, y, reduction="sum") with x:3 y:3'))
loss("l1_loss(x, target)", "out = |x − target|", "the mean distance", kinks=0, domain=apart)
loss("smooth_l1_loss(x, target, beta=1.0)", "out = near·d²/(2·beta) + (1 − near)·(|d| − beta/2)"
     " where d = x − target, near = [|d| < beta]", "the mean distance, rounded off near 0", domain=apart, kinks=0,
     instead={"not beta": "out = |x − target|"}, more=("F.smooth_l1_loss(x, target, beta=0.5) with x:3 target:3",))
loss("huber_loss(x, target, delta=1.0)", "out = near·d²/2 + (1 − near)·delta·(|d| − delta/2)"
     " where d = x − target, near = [|d| ≤ delta]", "squares near 0, distances further out", domain=apart, kinks=0,
     more=("F.huber_loss(x, target, delta=0.5) with x:3 target:3",))
loss("binary_cross_entropy(x, target, weight: data=None)", "out = weight·(−target·log(x) − (1 − target)·log(1 − x))",
     "minus the log-probability of the targets, x being probabilities", fits=one_shape,
     domain={"x": between(0, 1), "target": between(0, 1)},
     edges=({"x": 0.0, "target": 0.5}, {"x": 1.0, "target": 0.5}),
     more=("F.binary_cross_entropy(x, target, weight) with x:2x3 target:2x3 weight:3",),
     forward=lambda x, y, w=None: weighed(  # torch takes no logarithm below −100
         -y * np.maximum(np.log(x), -100) - (1 - y) * np.maximum(np.log1p(-x), -100), w))
loss("binary_cross_entropy_with_logits(x, target, weight: data=None, pos_weight: data=None)",
     "out = weight·((1 − target)·x + (1 + (pos_weight − 1)·target)·softplus(−x))",
     "minus the log-probability of the targets, σ(x) being probabilities",
     instead={"pos_weight=None": "out = weight·((1 − target)·x + softplus(−x))"}, fits=one_shape,
     domain={"target": between(0, 1), "pos_weight": positive()}, forward=logits_values,  # (1 − y)·∞ + log(1 + 0)
     more=("F.binary_cross_entropy_with_logits(x, target, weight) with x:2x3 target:2x3 weight:3",
           "F.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight) with x:2x3 target:2x3 pos_weight:3"))
loss("kl_div(x, target, log_target=False)", "out = target·(log(target) − x)",
     "how far the distribution y is from the one with log-probabilities x",
     instead={"log_target": "out = exp(target)·(target − x)"}, domain={"target": positive()}, edges=({"target": 0.0},),
     forward=lambda x, y, log_target=False: (  # 0·log 0 is 0
         np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x),
     more=('F.kl_div(x, target, reduction="batchmean")', 'F.kl_div(x, target, log_target=True, reduction="sum")'))
loss("soft_margin_loss(x, target: data)", "out = softplus(−target·x)", "the logistic loss, for targets ±1",
     fits=within_first)
loss("poisson_nll_loss(x, target, log_input=True, full=False, eps=1e-8)",
     f"out = exp(x) − target·x + full·stirling where {STIRLING}",
     "minus the log-probability of counts y at the rate exp(x)",
     instead={"not log_input": f"out = x − target·log(x + eps) + full·stirling where {STIRLING}"},
     domain={"x": positive(), "target": positive()}, edges=({"target": 0.0},),
     more=("F.poisson_nll_loss(x, target, log_input=False)", "F.poisson_nll_loss(x, target, full=True)"))
loss("gaussian_nll_loss(x, target, var, full=False, eps=1e-6)",
     "out = (log(var) + (x − target)²/var + full·log(2·π))/2",
     "minus the log-probability of y under a normal distribution with mean x and variance s", fits=variances,
     domain={"var": positive()}, edges=({"var": 0.0},),
     more=("F.gaussian_nll_loss(x, target, var, full=True) with x:3 target:3 var:3",))
loss("margin_ranking_loss(x, y, target, margin=0.0)", "out = t·[t ≥ 0] where t = −target·(x − y) + margin",
     "how far x and y are from the order that the targets ±1 want", kinks=0, fits=same_ranks,
     domain={"x": reals(distinct=True), "y": reals(distinct=True), "target": reals(avoid=(0.0,))})
loss("hinge_embedding_loss(x, target: data, margin=1.0)",
     "out = [target ≠ −1]·x + [target ≠ 1]·t·[t ≥ 0] where t = margin − x",
     "small for near pairs that belong together", domain={"x": reals(avoid=(1.0,)), "target": whole(-1, 1)})
# fmt: on


# Classes ----------------------------------------------------------------------------------------------


def classes_axis(shape: Shape) -> int:
    """Scores are (classes), (n, classes) or (n, classes, d…): torch's order."""
    if not shape:
        raise ShapeError("scores need at least one axis, the classes")
    return 0 if len(shape) == 1 else 1


def by_class(shapes: tuple[Shape | None, ...]) -> bool:
    """Whether targets are classes (one number for each sample) and not a weight for each class."""
    return len(shapes[1] or ()) < len(shapes[0] or ())


def class_shape(sizes: Sizes, shapes: tuple[Shape, ...], reduction: str, **options: Any) -> Shape:
    """One loss per sample, or a scalar."""
    x, target, *weight = shapes
    axis = classes_axis(x)
    if sizes.number(x[axis]) == 0:
        raise ShapeError("there are no classes: the axis of scores is empty")
    samples = (*x[:axis], *x[axis + 1 :])
    wanted = x if len(target) == len(x) and "label_smoothing" in options else samples
    if len(target) != len(wanted):
        raise ShapeError(
            f"targets have {len(target)} axes and scores {len(x)}",
            hints=("targets are a class for each sample, or for cross_entropy one weight for each class",),
        )
    for a, b in zip(wanted, target, strict=True):
        sizes.unify(a, b)
    if weight and weight[0] is not None:
        if len(weight[0]) != 1:
            raise ShapeError("the weight of a loss over classes is a vector, one number for each class")
        sizes.unify(weight[0][0], x[axis])
    return samples if reduction == "none" else ()


def class_loss(
    at: At,
    x: View,
    target: View,
    weight: View | None,
    score: Callable[[tuple[Expr, ...]], Expr],
    ignore_index: int,
    reduction: str,
    label_smoothing: float = 0.0,
) -> Expr:
    """Minus the score at the target's class, times the class's weight; ignored targets do not count."""
    axis = classes_axis(x.shape)
    samples = at if reduction == "none" else fresh_axes((*x.shape[:axis], *x.shape[axis + 1 :]))
    chosen = target[samples]
    counted = Bracket(sp.Ne(chosen, sp.Integer(ignore_index)))
    own = counted if weight is None else counted * weight[chosen]
    losses = -own * score((*samples[:axis], chosen, *samples[axis:]))
    if label_smoothing:
        share = number(label_smoothing)
        over = Reduction(samples, x.shape, (axis,), keepdim=False)
        every = -over.sum(lambda i: score(i) * (1 if weight is None else weight[i[axis]]), hint="k")
        losses = (1 - share) * losses + share * counted * every / x.shape[axis]
    if reduction == "none":
        return losses
    result = add_up(losses, samples)
    return result / add_up(own, samples) if reduction == "mean" else result


def shared_loss(
    at: At,
    x: View,
    target: View,
    weight: View | None,
    score: Callable[[tuple[Expr, ...]], Expr],
    reduction: str,
    label_smoothing: float,
) -> Expr:
    """Minus the scores of all classes, each times the share of it that the target has."""
    axis = classes_axis(x.shape)
    samples = at if reduction == "none" else fresh_axes((*x.shape[:axis], *x.shape[axis + 1 :]))
    over, share = Reduction(samples, x.shape, (axis,), keepdim=False), number(label_smoothing)

    def term(i: tuple[Expr, ...]) -> Expr:
        wanted = target[i] if not label_smoothing else (1 - share) * target[i] + share / x.shape[axis]
        return weighed(wanted * score(i), None if weight is None else weight[i[axis]])

    losses = -over.sum(term, hint="k")
    if reduction == "none":
        return losses
    result = add_up(losses, samples)
    return result / sp.Mul(*(i.size for i in samples)) if reduction == "mean" else result


def class_values(
    x: Any, target: Any, weight: Any, ignore_index: int, reduction: str, label_smoothing: float = 0.0
) -> Any:
    """NumPy's forward, from log-probabilities."""
    x, n = np.asarray(x, float), positions(target)
    axis = 0 if x.ndim == 1 else 1
    counted = n != ignore_index
    safe = from_zero(np.where(counted, n, 0))
    scale = np.ones(x.shape[axis]) if weight is None else np.asarray(weight, float)
    own = np.where(counted, scale[safe], 0.0)
    losses = -own * np.take_along_axis(x, np.expand_dims(safe, axis), axis).squeeze(axis)
    if label_smoothing:
        every = -np.tensordot(scale, x, axes=(0, axis))
        losses = (1 - label_smoothing) * losses + label_smoothing * np.where(counted, every, 0) / x.shape[axis]
    return losses if reduction == "none" else losses.sum() if reduction == "sum" else losses.sum() / own.sum()


CLASSES = {"target": whole(0, 1), "weight": positive()}


@operation(
    says="minus the log-probability at each target's class",
    numpy=lambda x, target, weight=None, *, ignore_index, reduction: class_values(
        x, target, weight, ignore_index, reduction
    ),
    torch=lambda torch, x, target, weight=None, **options: torch.nn.functional.nll_loss(
        x, target.long(), weight, **options
    ),
    shape=class_shape,
    prepare=prepare_loss,
    spelled=("F.nll_loss", "F.nll_loss_nd", "torch._C._nn.nll_loss_nd"),
    ranks={"x": (2, 1), "target": (1, 0)},
    domain=CLASSES,
    examples=(
        example("F.nll_loss(x, target)", x=(2, 3), target=(2,)),
        example("F.nll_loss(x, target, weight)", x=(2, 3), target=(2,), weight=(3,)),
        example('F.nll_loss(x, target, reduction="sum")', x=(2, 3, 2), target=(2, 2)),
    ),
)
def nll_loss(
    at: At, x: View, target: Data, weight: Data | None = None, ignore_index: int = -100, reduction: str = "mean"
) -> Expr:
    """out = −Σ_i w[t[i]]·x[i, t[i]] / Σ_i w[t[i]]"""
    return class_loss(at, x, target, weight, lambda i: x[i], ignore_index, reduction)


def prepare_entropy(
    shapes: tuple[Shape, ...], ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
) -> dict[str, Hashable]:
    """Options of cross_entropy, checked."""
    if not 0 <= label_smoothing <= 1:
        raise InputError("label_smoothing lies between 0 and 1", found=(f"label_smoothing={label_smoothing}",))
    return {**prepare_loss(shapes, reduction), "ignore_index": ignore_index, "label_smoothing": label_smoothing}


def entropy_values(
    x: Any, target: Any, weight: Any = None, *, ignore_index: int, reduction: str, label_smoothing: float
) -> Any:
    """NumPy's forward, for classes or for a weight per class."""
    x, smoothing = np.asarray(x, float), float(label_smoothing)
    axis = 0 if x.ndim == 1 else 1
    scores = special.log_softmax(x, axis=axis) if x.size else x
    if np.ndim(target) < x.ndim:
        return class_values(scores, target, weight, ignore_index, reduction, smoothing)
    target = np.asarray(target, float) * (1 - smoothing) + smoothing / max(x.shape[axis], 1)
    scale = 1 if weight is None else np.reshape(weight, [-1 if a == axis else 1 for a in range(x.ndim)])
    losses = -np.sum(scale * target * scores, axis=axis)
    return numpy_reduced(losses, reduction)


def torch_entropy(torch: Any, x: Any, target: Any, weight: Any = None, **options: Any) -> Any:
    """torch's forward."""
    options["label_smoothing"] = float(options["label_smoothing"])
    return torch.nn.functional.cross_entropy(x, target.long() if target.dim() < x.dim() else target, weight, **options)


@operation(
    says="minus the log-probability that softmax gives the targets: a class for each sample, or one weight per class",
    numpy=entropy_values,
    torch=torch_entropy,
    shape=class_shape,
    prepare=prepare_entropy,
    spelled=("F.cross_entropy",),
    ranks={"x": (2, 1), "target": (2, 1)},
    domain={"weight": positive()},
    examples=(
        example("cross_entropy(x, y)", x=(2, 3), y=(2, 3)),
        example("cross_entropy(x, y)", x=(3,), y=(3,)),
        example('cross_entropy(x, y, reduction="sum")', x=(2, 3), y=(2, 3)),
    ),
)
def cross_entropy(
    at: At,
    x: View,
    target: View,
    weight: Data | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Expr:
    """out = −Σ_i Σ_k y[i,k]·(x[i,k] − log Σ_l exp(x[i,l])) / n"""
    axis = classes_axis(x.shape)

    def score(i: tuple[Expr, ...]) -> Expr:
        over = Reduction((*i[:axis], *i[axis + 1 :]), x.shape, (axis,), keepdim=False)
        return x[i] - sp.log(over.sum(lambda j: sp.exp(x[j]), hint="l"))

    if by_class((x.shape, target.shape)):
        return class_loss(at, x, target, weight, score, ignore_index, reduction, label_smoothing)
    return shared_loss(at, x, target, weight, score, reduction, label_smoothing)
