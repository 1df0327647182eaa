"""Activations: out[i] = f(x[i]), most of them in pieces.

Where two pieces meet, the bracket says which of them gives the derivative: the one that torch's backward uses
there, tested at every listed kink.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import ShapeError
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import reals
from symgrad.ops.functions import sigmoid, sign, softplus
from symgrad.ops.layers import number
from symgrad.ops.pointwise import pointwise
from symgrad.ops.reductions import axis_of
from symgrad.ops.spec import At, Example, Op, View, example, operation
from symgrad.shapes import Shape, Sizes


def activation(
    name: str,
    formula: Callable[..., Expr],
    says: str,
    numpy: Callable[..., Any],
    *,
    kinks: tuple[float, ...] = (),
    more: tuple[Example, ...] = (),
    also: tuple[str, ...] = (),
    within: float = 2.0,
    torch: Callable[..., Any] | None = None,
    **facts: Any,
) -> Op:
    """A pointwise entry that torch.nn.functional has under the same name, with the same options."""

    def by_name(torch: Any, x: Any, **options: Any) -> Any:
        return getattr(torch.nn.functional, name)(x, **{k: plain(v) for k, v in options.items()})

    return pointwise(
        name,
        formula,
        says,
        numpy=numpy,
        torch=torch or by_name,
        spelled=(f"F.{name}", f"aten.{name}", *also),
        domain=reals(within=within, avoid=kinks),
        kinks=kinks,
        smooth=not kinks,
        examples=(example(f"F.{name}(x)", x=(2, 3)), *more),
        **facts,
    )


def plain(value: Any) -> Any:
    """An option as torch takes it."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else float(value)


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` on float arrays."""
    return lambda x, **options: function(np.asarray(x, dtype=np.float64), **options)


def above(x: Expr, edge: Any = 0) -> Expr:
    """[x > edge]."""
    return Bracket(sp.Gt(x, number(edge)))


def leaky(x: Expr, negative_slope: float = 0.01) -> Expr:
    """x, or a little of it below 0."""
    up = above(x)
    return x * up + number(negative_slope) * x * (1 - up)


leaky_relu = activation(
    "leaky_relu",
    leaky,
    "x[i] where x[i] > 0, negative_slope·x[i] elsewhere",
    lambda x, negative_slope: np.where(np.asarray(x) > 0, x, np.asarray(x) * negative_slope),
    kinks=(0.0,),
    more=(example("F.leaky_relu(x, 0.2)", x=(3,)),),
)


def elu_formula(x: Expr, alpha: float = 1.0) -> Expr:
    """x above 0, α·(exp(x) − 1) below."""
    up = above(x)
    return x * up + number(alpha) * (sp.exp(x * (1 - up)) - 1) * (1 - up)


elu = activation(
    "elu",
    elu_formula,
    "x[i] where x[i] > 0, α·(exp(x[i]) − 1) elsewhere",
    floats(lambda x, alpha: np.where(x > 0, x, float(alpha) * np.expm1(np.minimum(x, 0)))),
    kinks=(0.0,),
    more=(example("F.elu(x, 0.5)", x=(3,)),),
)
celu = activation(
    "celu",
    lambda x, alpha=1.0: (
        x * above(x) + number(alpha) * (sp.exp(x * (1 - above(x)) / number(alpha)) - 1) * (1 - above(x))
    ),
    "x[i] where x[i] > 0, α·(exp(x[i]/α) − 1) elsewhere",
    floats(lambda x, alpha: np.where(x > 0, x, float(alpha) * np.expm1(np.minimum(x, 0) / float(alpha)))),
    kinks=(0.0,),
    more=(example("F.celu(x, 0.5)", x=(3,)),),
    also=("torch.celu",),
)

SELU = ("1.6732632423543772848170429916717", "1.0507009873554804934193349852946")
"""α and the scale of selu, from the paper."""
selu = activation(
    "selu",
    lambda x: sp.Rational(SELU[1]) * elu_formula(x, sp.Rational(SELU[0])),
    "elu with the α and the scale that keep mean 0 and variance 1",
    floats(lambda x: float(SELU[1]) * np.where(x > 0, x, float(SELU[0]) * np.expm1(np.minimum(x, 0)))),
    kinks=(0.0,),
    also=("torch.selu",),
)


def hardtanh_formula(x: Expr, min_val: float = -1.0, max_val: float = 1.0) -> Expr:
    """x kept between the bounds; at a bound the derivative is 0."""
    low, high = number(min_val), number(max_val)
    return x * Bracket(x > low) * Bracket(x < high) + low * Bracket(x <= low) + high * Bracket(x >= high)


hardtanh = activation(
    "hardtanh",
    hardtanh_formula,
    "x[i] kept between min_val and max_val; the derivative at a bound is 0",
    lambda x, min_val, max_val: np.clip(x, min_val, max_val),
    kinks=(-1.0, 1.0),
    more=(example("F.hardtanh(x, -0.5, 1.5)", x=(3,)),),
)
relu6 = activation(
    "relu6",
    lambda x: hardtanh_formula(x, 0, 6),
    "x[i] kept between 0 and 6; the derivative at a bound is 0",
    lambda x: np.clip(x, 0, 6),
    kinks=(0.0, 6.0),
    within=8.0,
)
hardsigmoid = activation(
    "hardsigmoid",
    lambda x: (x / 6 + sp.Rational(1, 2)) * Bracket(x > -3) * Bracket(x < 3) + Bracket(x >= 3),
    "x[i]/6 + ½ kept between 0 and 1; compared with relu6(x + 3)/6, since torch's own backward rounds 1/6 to float32",
    floats(lambda x: np.clip(x / 6 + 0.5, 0, 1)),
    kinks=(-3.0, 3.0),
    within=4.0,
    torch=lambda torch, x: torch.nn.functional.relu6(x + 3) / 6,
)
hardswish = activation(
    "hardswish",
    lambda x: x * (x + 3) / 6 * Bracket(x > -3) * Bracket(x < 3) + x * Bracket(x >= 3),
    "x[i]·(x[i]/6 + ½ kept between 0 and 1)",
    floats(lambda x: x * np.clip(x / 6 + 0.5, 0, 1)),
    kinks=(-3.0, 3.0),
    within=4.0,
)
mish = activation(
    "mish",
    lambda x: x * sp.tanh(softplus(x)),
    "x[i]·tanh(log(1 + exp(x[i])))",
    floats(lambda x: x * np.tanh(np.logaddexp(0, x))),
    expands="x * tanh(softplus(x))",
)
logsigmoid = activation(
    "logsigmoid",
    lambda x: -softplus(-x),
    "log σ(x[i])",
    floats(lambda x: -np.logaddexp(0, -x)),
    expands="log(sigmoid(x))",
    also=("aten.log_sigmoid",),
)
softsign = activation(
    "softsign",
    lambda x: x / (1 + x * sign(x)),
    "x[i] / (1 + |x[i]|)",
    lambda x: x / (1 + np.abs(x)),
    kinks=(0.0,),
)
tanhshrink = activation(
    "tanhshrink", lambda x: x - sp.tanh(x), "x[i] − tanh(x[i])", floats(lambda x: x - np.tanh(x)), expands="x - tanh(x)"
)


def softshrink_formula(x: Expr, lambd: float = 0.5) -> Expr:
    """x nearer to 0 by λ, and 0 between ±λ."""
    edge = number(lambd)
    return (x - edge) * Bracket(x > edge) + (x + edge) * Bracket(x < -edge)


softshrink = activation(
    "softshrink",
    softshrink_formula,
    "x[i] moved towards 0 by lambd, 0 between ±lambd",
    floats(lambda x, lambd: np.where(x > lambd, x - float(lambd), np.where(x < -lambd, x + float(lambd), 0))),
    kinks=(-0.5, 0.5),
)
hardshrink = activation(
    "hardshrink",
    lambda x, lambd=0.5: x * (Bracket(x > number(lambd)) + Bracket(x < -number(lambd))),
    "x[i] outside of ±lambd, 0 between",
    lambda x, lambd: np.where(np.abs(x) > lambd, x, np.asarray(x) * 0),
    kinks=(-0.5, 0.5),
    also=("torch.hardshrink", "Tensor.hardshrink"),
)


def threshold_formula(x: Expr, threshold: float, value: float) -> Expr:
    """x above the threshold, a fixed value elsewhere."""
    up = above(x, threshold)
    return x * up + number(value) * (1 - up)


def threshold_values(x: Any, threshold: Any, value: Any) -> Any:
    """NumPy's forward."""
    return np.where(np.asarray(x) > threshold, x, value)


def same_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """The operand's shape."""
    return shapes[0]


@operation(
    says="x[i] above the threshold, value elsewhere",
    numpy=threshold_values,
    torch=lambda torch, x, threshold, value: torch.nn.functional.threshold(x, float(threshold), float(value)),
    shape=same_shape,
    spelled=("F.threshold", "torch.threshold", "aten.threshold"),
    smooth=False,
    kinks=(0.5,),
    domain={"x": reals(avoid=(0.5,))},
    examples=(example("F.threshold(x, 0.5, -1.0)", x=(2, 3)),),
)
def threshold(at: At, x: View, threshold: float, value: float) -> Expr:
    """out[i] = x[i] where x[i] > threshold, value elsewhere"""
    return threshold_formula(x[at], threshold, value)


def prelu_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """One slope for all, or one for each channel (axis 1)."""
    x, weight = shapes
    if len(weight) > 1:
        raise ShapeError(f"the weight of prelu is a vector, not a tensor with {len(weight)} axes")
    if weight and sizes.find(weight[0]) != 1:
        sizes.unify(weight[0], x[1] if len(x) > 1 else sp.Integer(1))
    return x


def prelu_values(x: Any, weight: Any) -> Any:
    """NumPy's forward."""
    if np.size(weight) > 1:
        weight = np.reshape(weight, [-1 if a == 1 else 1 for a in range(np.ndim(x))])
    return np.where(np.asarray(x) > 0, x, np.reshape(weight, -1)[0] * x if np.size(weight) == 1 else weight * x)


@operation(
    says="x[i] where x[i] > 0, the learned slope times x[i] elsewhere",
    numpy=prelu_values,
    torch=lambda torch, x, weight: torch.nn.functional.prelu(x, weight),
    shape=prelu_shape,
    spelled=("F.prelu", "torch.prelu", "Tensor.prelu", "aten.prelu", "aten._prelu_kernel"),
    smooth=False,
    kinks=(0.0,),
    domain={"x": reals(avoid=(0.0,))},
    ranks={"x": (2, 3), "weight": (1,)},
    examples=(example("F.prelu(x, weight)", x=(3, 2), weight=(2,)), example("F.prelu(x, weight)", x=(3,), weight=(1,))),
)
def prelu(at: At, x: View, weight: View) -> Expr:
    """out[n,c] = x[n,c]·[x[n,c] > 0] + w[c]·x[n,c]·[x[n,c] ≤ 0]"""
    slope = weight[()] if weight.rank == 0 else weight[at[1] if weight.shape[0] != 1 else sp.S.Zero]
    up = above(x[at])
    return x[at] * up + slope * x[at] * (1 - up)


def glu_values(x: Any, dim: int) -> Any:
    """NumPy's forward."""
    first, second = np.split(np.asarray(x, dtype=np.float64), 2, axis=dim)
    return first * special.expit(second)


def half_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Half as long along dim."""
    (x,) = shapes
    half = sp.sympify(x[dim], strict=True) / 2
    number_ = sizes.number(x[dim])
    if number_ is not None and number_ % 2:
        raise ShapeError(f"glu needs an even size along dim, not {number_}")
    return (*x[:dim], half, *x[dim + 1 :])


@operation(
    says="the first half along dim, times σ of the second",
    numpy=glu_values,
    torch=lambda torch, x, dim: torch.nn.functional.glu(x, dim),
    shape=half_shape,
    prepare=lambda shapes, dim=-1: {"dim": axis_of(dim, len(shapes[0]))},
    spelled=("F.glu", "aten.glu"),
    examples=(example("F.glu(x)", x=(2, 4)), example("F.glu(x, 0)", x=(4, 2))),
)
def glu(at: At, x: View, dim: int = -1) -> Expr:
    """out[i] = x[i]·σ(x[i + n/2])"""
    return x[at] * sigmoid(x[[*at[:dim], at[dim] + x.shape[dim] / 2, *at[dim + 1 :]]])
