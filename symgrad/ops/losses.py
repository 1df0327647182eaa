"""Losses: one number for how far predictions lie from targets, entry by entry and then added or averaged.

`loss` makes an entry from the loss of one entry; the reductions are the same for all. Where classes are
targets, they are integers: the loss reads the score at that position, and nothing flows to them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import InputError, ShapeError
from symgrad.indexing import Bracket, add_up, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.ops.composites import numpy_reduced, prepare_loss
from symgrad.ops.domain import between, positive, reals, whole
from symgrad.ops.functions import sign, softplus
from symgrad.ops.positions import from_zero, positions
from symgrad.ops.reductions import Reduction
from symgrad.ops.shaping import number
from symgrad.ops.spec import At, Data, Example, Op, View, example, operation
from symgrad.shapes import Shape, Sizes


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


def common(sizes: Sizes, shapes: tuple[Shape | None, ...]) -> Shape:
    """The shape to which the operands that are there broadcast."""
    return sizes.broadcast_shapes([s for s in shapes if s is not None])


def loss(
    name: str,
    formula: Callable[..., Expr],
    definition: str,
    says: str,
    numpy: Callable[..., Any],
    *,
    examples: tuple[Example, ...] = (),
    smooth: bool = True,
    data: bool = False,
    fits: Callable[..., None] | None = None,
    **facts: Any,
) -> Op:
    """An entry from the loss of one entry, as torch.nn.functional spells it.

    Parameters of ``formula`` without a default are operands, those with the default None are operands that may
    be left out, the others are options. Nothing flows to weights in torch, nor to the targets if ``data``.
    ``fits(sizes, x, target)`` refuses targets that torch does not broadcast here.
    """
    parameters = list(inspect.signature(formula).parameters.values())
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    annotations = {inspect.Parameter.empty: Data if data else View, None: Data | None}
    public = [p.replace(kind=kind, annotation=annotations.get(p.default, p.annotation)) for p in parameters]
    public[0] = public[0].replace(annotation=View)
    operands = [p.name for p in public if p.default in (inspect.Parameter.empty, None)]

    def index(at: At, *views: View | None, **options: Any) -> Expr:
        reduction = options.pop("reduction")
        present = [v for v in views if v is not None]
        shape = next((v.shape for v in present if v.constant is None), ())
        inner = at if reduction == "none" else fresh_axes(shape)
        entry = formula(*(None if v is None else v[inner] for v in views), **options)
        if reduction == "none":
            return entry
        total = add_up(entry, inner)
        if reduction == "batchmean":
            return total / shape[0] if shape else total
        return total if reduction == "sum" else total / sp.Mul(*shape)

    def values(*arrays: Any, reduction: str, **options: Any) -> Any:
        each = np.asarray(numpy(*arrays, **options))
        return np.sum(each) / len(each) if reduction == "batchmean" else numpy_reduced(each, reduction)

    def shape(sizes: Sizes, shapes: tuple[Shape | None, ...], reduction: str, **options: Any) -> Shape:
        return common(sizes, shapes) if reduction == "none" else ()

    def align(sizes: Sizes, shapes: tuple[Shape | None, ...], **options: Any) -> tuple[Any, ...]:
        if fits is not None:
            fits(sizes, *shapes)
        whole_shape = common(sizes, shapes)
        return tuple(None if s is None else whole_shape for s in shapes)

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        named = dict(zip(operands, tensors, strict=False))
        given = {k: float(v) if isinstance(v, sp.Basic) else v for k, v in options.items()}
        first = [named.pop(p) for p in operands if p in named and p not in ("weight", "pos_weight")]
        return getattr(torch.nn.functional, name)(*first, **named, **given)

    reduced = inspect.Parameter("reduction", kind, default="mean", annotation=str)
    index.__name__ = name
    index.__doc__ = f"out = Σ_i {definition} / n"
    index.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read back by inspect.signature
        [inspect.Parameter("at", kind, annotation=At), *public, reduced]
    )
    shown = ", ".join(p for p in operands if p not in ("weight", "pos_weight"))
    shapes = dict.fromkeys(shown.split(", "), (2, 3))
    averaged = () if name == "kl_div" else (example(f"F.{name}({shown})", **shapes),)  # torch warns of kl_div's mean
    return operation(
        says=says,
        numpy=values,
        torch=by_torch,
        shape=shape,
        align=align,
        prepare=prepare,
        spelled=(f"F.{name}",),
        smooth=smooth,
        examples=(
            *averaged,
            example(f'F.{name}({shown}, reduction="sum")', **shapes),
            example(f'F.{name}({shown}, reduction="none")', **shapes),
            *examples,
        ),
        **facts,
    )(index)


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


def size(d: Expr) -> Expr:
    """|d|, whose derivative at 0 is 0."""
    return d * sign(d)


def positive_part(t: Expr) -> Expr:
    """max(0, t), whose derivative at 0 is 1: torch's clamp_min counts the bound as inside."""
    return t * Bracket(sp.Ge(t, 0, evaluate=False))


apart = {"x": reals(distinct=True), "target": reals(distinct=True)}

l1_loss = loss(
    "l1_loss",
    lambda x, target: size(x - target),
    "|x[i] − y[i]|",
    "the mean distance",
    lambda x, y: np.abs(x - y),
    smooth=False,
    kinks=(0.0,),
    domain=apart,
)


def smooth_l1(x: Expr, target: Expr, beta: float = 1.0) -> Expr:
    """A parabola near 0, |d| further out."""
    d, edge = x - target, number(beta)
    if edge == 0:
        return size(d)
    near = Bracket(sp.Lt(size(d), edge, evaluate=False))
    return near * d**2 / (2 * edge) + (1 - near) * (size(d) - edge / 2)


def smooth_l1_values(x: Any, y: Any, beta: Any = 1.0) -> Any:
    """NumPy's forward."""
    d, beta = np.abs(np.asarray(x, float) - np.asarray(y, float)), float(beta)
    return d if beta == 0 else np.where(d < beta, d * d / (2 * beta), d - beta / 2)


smooth_l1_loss = loss(
    "smooth_l1_loss",
    smooth_l1,
    "(d²/2β where |d| < β, |d| − β/2 elsewhere), d = x[i] − y[i]",
    "the mean distance, rounded off near 0",
    smooth_l1_values,
    smooth=False,
    domain=apart,
    kinks=(0.0,),
    examples=(example("F.smooth_l1_loss(x, target, beta=0.5)", x=(3,), target=(3,)),),
)


def huber(x: Expr, target: Expr, delta: float = 1.0) -> Expr:
    """A parabola near 0, a line of slope δ further out."""
    d, edge = x - target, number(delta)
    near = Bracket(sp.Le(size(d), edge, evaluate=False))
    return near * d**2 / 2 + (1 - near) * edge * (size(d) - edge / 2)


def huber_values(x: Any, y: Any, delta: Any = 1.0) -> Any:
    """NumPy's forward."""
    d, delta = np.abs(np.asarray(x, float) - np.asarray(y, float)), float(delta)
    return np.where(d <= delta, d * d / 2, delta * (d - delta / 2))


huber_loss = loss(
    "huber_loss",
    huber,
    "(d²/2 where |d| ≤ δ, δ·(|d| − δ/2) elsewhere), d = x[i] − y[i]",
    "squares near 0, distances further out",
    huber_values,
    smooth=False,
    domain=apart,
    kinks=(0.0,),
    examples=(example("F.huber_loss(x, target, delta=0.5)", x=(3,), target=(3,)),),
)


def weighed(value: Any, weight: Any) -> Any:
    """``value`` times ``weight``, if there is one."""
    return value if weight is None else weight * value


binary_cross_entropy = loss(
    "binary_cross_entropy",
    lambda x, target, weight=None: weighed(-target * sp.log(x) - (1 - target) * sp.log(1 - x), weight),
    "−y[i]·log x[i] − (1 − y[i])·log(1 − x[i])",
    "minus the log-probability of the targets, x being probabilities",
    lambda x, y, w=None: weighed(-y * np.maximum(np.log(x), -100) - (1 - y) * np.maximum(np.log1p(-x), -100), w),
    fits=one_shape,
    domain={"x": between(0, 1), "target": between(0, 1)},
    edges=({"x": 0.0, "target": 0.5}, {"x": 1.0, "target": 0.5}),
    examples=(example("F.binary_cross_entropy(x, target, weight)", x=(2, 3), target=(2, 3), weight=(3,)),),
)


def logits_loss(x: Expr, target: Expr, weight: Any = None, pos_weight: Any = None) -> Expr:
    """(1 − y)·x + (1 + (p − 1)·y)·log(1 + exp(−x))."""
    return weighed(
        (1 - target) * x + (1 if pos_weight is None else 1 + (pos_weight - 1) * target) * softplus(-x), weight
    )


def logits_values(x: Any, y: Any, w: Any = None, p: Any = None) -> Any:
    """NumPy's forward: each class's log-probability by itself."""
    x, y = np.asarray(x, float), np.asarray(y, float)
    return weighed(-(1 if p is None else p) * y * special.log_expit(x) - (1 - y) * special.log_expit(-x), w)


binary_cross_entropy_with_logits = loss(
    "binary_cross_entropy_with_logits",
    logits_loss,
    "(1 − y[i])·x[i] + log(1 + exp(−x[i]))",
    "minus the log-probability of the targets, σ(x) being probabilities",
    logits_values,
    fits=one_shape,
    domain={"target": between(0, 1), "pos_weight": positive()},
    examples=(
        example("F.binary_cross_entropy_with_logits(x, target, weight)", x=(2, 3), target=(2, 3), weight=(3,)),
        example(
            "F.binary_cross_entropy_with_logits(x, target, pos_weight=pos_weight)",
            x=(2, 3),
            target=(2, 3),
            pos_weight=(3,),
        ),
    ),
)
kl_div = loss(
    "kl_div",
    lambda x, target, log_target=False: sp.exp(target) * (target - x) if log_target else target * (sp.log(target) - x),
    "y[i]·(log y[i] − x[i])",
    "how far the distribution y is from the one with log-probabilities x",
    lambda x, y, log_target=False: np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x,
    domain={"target": positive()},
    edges=({"target": 0.0},),
    examples=(
        example('F.kl_div(x, target, reduction="batchmean")', x=(2, 3), target=(2, 3)),
        example('F.kl_div(x, target, log_target=True, reduction="sum")', x=(2, 3), target=(2, 3)),
    ),
)
soft_margin_loss = loss(
    "soft_margin_loss",
    lambda x, target: softplus(-target * x),
    "log(1 + exp(−y[i]·x[i]))",
    "the logistic loss, for targets ±1",
    lambda x, y: np.logaddexp(0, -np.asarray(x * y, float)),
    data=True,
    fits=within_first,
)
poisson_nll_loss = loss(
    "poisson_nll_loss",
    lambda x, target, log_input=True, full=False, eps=1e-8: poisson(x, target, log_input, full, eps),
    "exp(x[i]) − y[i]·x[i]",
    "minus the log-probability of counts y at the rate exp(x)",
    lambda x, y, log_input=True, full=False, eps=1e-8: poisson_values(x, y, log_input, full, eps),
    domain={"x": positive(), "target": positive()},
    edges=({"target": 0.0},),
    examples=(
        example("F.poisson_nll_loss(x, target, log_input=False)", x=(2, 3), target=(2, 3)),
        example("F.poisson_nll_loss(x, target, full=True)", x=(2, 3), target=(2, 3)),
    ),
    smooth=False,
)


def poisson(x: Expr, y: Expr, log_input: bool, full: bool, eps: Any) -> Expr:
    """The rate minus y times its logarithm; ``full`` adds Stirling's approximation of log y! above 1."""
    value = sp.exp(x) - y * x if log_input else x - y * sp.log(x + number(eps))
    if full:
        value += Bracket(y > 1) * (y * sp.log(y) - y + sp.log(2 * sp.pi * y) / 2)
    return value


def poisson_values(x: Any, y: Any, log_input: bool, full: bool, eps: Any) -> Any:
    """NumPy's forward."""
    value = np.exp(x) - y * x if log_input else x - y * np.log(x + float(eps))
    return value + np.where(y > 1, special.xlogy(y, y) - y + 0.5 * np.log(2 * np.pi * y), 0) if full else value


gaussian_nll_loss = loss(
    "gaussian_nll_loss",
    lambda x, target, var, full=False, eps=1e-6: (
        (sp.log(var) + (x - target) ** 2 / var + (sp.log(2 * sp.pi) if full else 0)) / 2
    ),
    "(log s[i] + (x[i] − y[i])²/s[i]) / 2",
    "minus the log-probability of y under a normal distribution with mean x and variance s",
    lambda x, y, var, full=False, eps=1e-6: (
        0.5 * (np.log(var) + (x - y) ** 2 / var) + (0.5 * np.log(2 * np.pi) if full else 0)
    ),
    fits=variances,
    domain={"var": positive()},
    edges=({"var": 0.0},),
    examples=(example("F.gaussian_nll_loss(x, target, var, full=True)", x=(3,), target=(3,), var=(3,)),),
)
margin_ranking_loss = loss(
    "margin_ranking_loss",
    lambda x, y, target, margin=0.0: positive_part(-target * (x - y) + number(margin)),
    "max(0, −t[i]·(x[i] − y[i]) + margin)",
    "how far x and y are from the order that the targets ±1 want",
    lambda x, y, t, margin=0.0: np.maximum(-t * (x - y) + float(margin), 0),
    smooth=False,
    kinks=(0.0,),
    fits=same_ranks,
    domain={"x": reals(distinct=True), "y": reals(distinct=True), "target": reals(avoid=(0.0,))},
)


def hinge(x: Expr, target: Expr, margin: float = 1.0) -> Expr:
    """x where the target is not −1, max(0, margin − x) where it is not 1."""
    return Bracket(sp.Ne(target, -1)) * x + Bracket(sp.Ne(target, 1)) * positive_part(number(margin) - x)


hinge_embedding_loss = loss(
    "hinge_embedding_loss",
    hinge,
    "(x[i] where y[i] = 1, max(0, margin − x[i]) where y[i] = −1)",
    "small for near pairs that belong together",
    lambda x, y, margin=1.0: (
        np.where(y != -1, x, 0) + np.where(y != 1, np.maximum(float(margin) - np.asarray(x, float), 0), 0)
    ),
    smooth=False,
    data=True,
    domain={"x": reals(avoid=(1.0,)), "target": whole(-1, 1)},
)


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
    samples = at if reduction == "none" else fresh_axes((*x.shape[:axis], *x.shape[axis + 1 :]))
    over = Reduction(samples, x.shape, (axis,), keepdim=False)
    normaliser = sp.log(over.sum(lambda i: sp.exp(x[i]), hint="l"))
    share = number(label_smoothing)

    def term(i: tuple[Expr, ...]) -> Expr:
        wanted = target[i] if not label_smoothing else (1 - share) * target[i] + share / x.shape[axis]
        return weighed(wanted * (x[i] - normaliser), None if weight is None else weight[i[axis]])

    losses = -over.sum(term, hint="k")
    if reduction == "none":
        return losses
    result = add_up(losses, samples)
    return result / sp.Mul(*(i.size for i in samples)) if reduction == "mean" else result
