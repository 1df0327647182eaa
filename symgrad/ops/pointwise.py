"""Operations that act on each entry by itself: out[i] = f(x[i], y[i], …), operands broadcast first.

A kink's value is part of the definition: [x > 0] is 0 at 0, because torch's relu is; |x| differentiates to sign(x),
which is 0 at 0 as in torch; a tie of maximum counts half for each. Where two pieces of an activation meet, the bracket
says which of them gives the derivative: the one that torch's backward uses there, tested at every listed kink. What has
jumps is constant between them. A forward of its own stands where the equation as it is written loses digits.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import METHOD, SPECIAL, TORCH, F, op
from symgrad.entries.operands import Domain, integers_between, open_interval, positive, reals
from symgrad.entries.spec import no_alignment
from symgrad.errors import InputError, ShapeError
from symgrad.functions import special
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes


def prepare_clamp(shapes: tuple[Shape, ...], min: Any = None, max: Any = None) -> dict[str, Hashable]:
    """Bounds as they are; without any there is nothing to do, and torch refuses that."""
    if min is None and max is None:
        raise InputError(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
            hints=("clamp(x, 0, 1)", "clamp(x, min=0)", "clamp(x, max=1)"),
        )
    return {"min": min, "max": max}


away_from_zero = reals(avoid=(0.0,))

# a table: one operation, one row
# fmt: off

# Arithmetic -----------------------------------------------------------------------------------------

op("identity(x)", "out = x", "x itself", home=("torch.clone", "Tensor.clone", "Tensor.contiguous", "np.copy", "torch.resolve_conj"),
   also="Tensor.resolve_conj", role=Role.HANDS_ON)
op("zeros_like(x)", "out = 0", "0, in the shape of x", ("torch.{}", "np.{}"))
op("ones_like(x)", "out = 1", "1, in the shape of x", ("torch.{}", "np.{}"))
op("add(x, y)", "out = x + y", "the sum, entry by entry", examples=("x + y", "x + b with x:2x3 b:3", "x + 2 with x:3"), result_dtype="joined")
op("sub(x, y)", "out = x − y", "the difference, entry by entry", home=("torch.{}", "torch.subtract", "Tensor.{}", "Tensor.subtract", "np.subtract"),
   examples=("x - y", "1 - x with x:3"), result_dtype="kept numbers")
mul = op("mul(x, y)", "out = x·y", "the product, entry by entry", home=("torch.{}", "torch.multiply", "Tensor.{}", "Tensor.multiply", "np.multiply"),
   examples=("x * y", "3 * x with x:3", "x * x with x:3"))
op("div(x, y)", "out = x / y", "the quotient, entry by entry",
   home=("torch.{}", "torch.divide", "torch.true_divide", "Tensor.{}", "Tensor.divide", "Tensor.true_divide", "np.divide"),
   domain={"y": positive()}, examples=("x / y", "x / 2 with x:3", "1 / y with y:3"))
op("neg(x)", "out = −x", "x with the other sign", home=("torch.{}", "torch.negative", "Tensor.{}", "Tensor.negative", "np.negative"),
   examples=("-x",), result_dtype="kept numbers")
op("pow(x, y)", "out = x^y", "each entry of x to the power of that of y", also="torch.float_power Tensor.float_power np.float_power", domain={"x": positive()},
   home=("torch.{}", "Tensor.{}", "np.power"), edges=({"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 2.0}),
   examples=("x ** 3", "x ** y with x:3 y:3", "2 ** x with x:3"),
   torch=lambda torch, x, y: torch.pow(x, y.item() if getattr(y, "shape", x) == () and not y.requires_grad and hasattr(x, "shape") else y), result_dtype="kept")  # by a number: another derivative at 0, and torch keeps x alone
op("square(x)", "out = x²", "each entry times itself", result_dtype="counted")
op("reciprocal(x)", "out = 1 / x", "one over each entry", domain=positive(), reuse=True)

# Exponential, logarithm, trigonometry ---------------------------------------------------------------

op("exp(x)", "out = exp(x)", "the exponential function", reuse=True)
op("log(x)", "out = log(x)", "the natural logarithm", domain=positive())
op("sqrt(x)", "out = √x", "the root that is not negative", domain=positive(), reuse=True)
op("sin(x)", "out = sin(x)", "the sine of x[i] radians")
op("cos(x)", "out = cos(x)", "the cosine of x[i] radians")
op("tan(x)", "out = tan(x)", "the tangent of x[i] radians", domain=Domain(draw=(-1.2, 1.2)), reuse=True)
op("tanh(x)", "out = tanh(x)", "the hyperbolic tangent: sinh(x[i]) / cosh(x[i])", also="F.tanh", reuse=True)

# Activations ----------------------------------------------------------------------------------------

op("sigmoid(x)", "out = sigmoid(x)", "the logistic function σ(x[i]) = 1 / (1 + exp(−x[i]))", METHOD, "F.sigmoid torch.special.expit",
   reuse=True, expands="1 / (1 + exp(-x))")
op("softplus(x)", "out = softplus(x)", "log(1 + exp(x[i])), a smooth relu; from 20 on torch takes x[i] itself, which is 2e-9 off",
   ("F.{}",), expands="log(1 + exp(x))", torch=lambda torch, x: torch.nn.functional.softplus(x, threshold=40),
   arrays="x: np.logaddexp(x, 0)")
op("silu(x)", "out = x·sigmoid(x)", "x[i]·σ(x[i]), σ the logistic function", ("F.{}",), expands="x * sigmoid(x)",
   arrays="x: x * special.expit(x)")
op("gelu(x, approximate: 'none' | 'tanh'='none')", "out = x·(1 + erf(x / √2)) / 2",
   "x[i]·Φ(x[i]); Φ is the normal distribution function, for 'tanh' nearly", ("F.{}",),
   variants={"approximate=tanh": "out = x·(1 + tanh(√(2/π)·(x + 0.044715·x^3))) / 2"},
   examples=("gelu(x)", 'gelu(x, approximate="tanh")'), arrays="x: x * special.ndtr(x)")

# Kinks ----------------------------------------------------------------------------------------------

op("relu(x)", "out = x·[x > 0]", "x[i] where it is positive, 0 elsewhere; the derivative at 0 is 0", ("torch.{}", "F.{}", "Tensor.{}"), arrays="x: np.maximum(x, 0)")
op("abs(x)", "out = |x|", "the absolute value; the derivative at 0 is 0",
   home=("torch.{}", "torch.absolute", "Tensor.{}", "Tensor.absolute", "np.{}", "np.absolute"))
op("sign(x)", "out = sign(x)", "1, 0 or −1, as x[i] is positive, 0 or negative; the derivative is 0", home=("torch.{}", "torch.sgn", "Tensor.{}", "Tensor.sgn", "np.{}"), kinks=0)
op("maximum(x, y)", "out = x·([x > y] + [x = y]/2) + y·([y > x] + [x = y]/2)",
   "the larger of x[i] and y[i]; at a tie each counts half", kinks=0, result_dtype="kept")
op("minimum(x, y)", "out = x·([x < y] + [x = y]/2) + y·([y < x] + [x = y]/2)",
   "the smaller of x[i] and y[i]; at a tie each counts half", kinks=0, result_dtype="kept")
op("clamp(x, min: float=None, max: float=None)", "out = x·[x ≥ min]·[x ≤ max] + min·[x < min] + max·[x > max]",
   "x[i] kept between min and max; the derivative at a bound is 1", kinks=(-1.0, 1.0), prepare=prepare_clamp,
   decimals=True, home=("torch.{}", "torch.clip", "Tensor.{}", "Tensor.clip", "np.clip"),
   forward=np.clip,
   variants={"min=None": "out = x·[x ≤ max] + max·[x > max]", "max=None": "out = x·[x ≥ min] + min·[x < min]", "max<min": "out = max"},
   examples=("clamp(x, -1, 1)", "clamp(x, min=0.5) with x:3"), result_dtype="bounded",
   arrays="x, min=None, max=None: np.clip(x, min, max)")

# Comparisons and choice -----------------------------------------------------------------------------

for name, word, written, sign in (("lt", "less", "<", "<"), ("le", "less_equal", "<=", "≤"), ("gt", "greater", ">", ">"),
                                  ("ge", "greater_equal", ">=", "≥"), ("eq", "", "==", "="), ("ne", "not_equal", "!=", "≠")):
    op(f"{name}(x, y)", f"out = [x {sign} y]", f"1 where x[i] {sign} y[i], 0 elsewhere", METHOD, f"torch.{word} Tensor.{word} np.{word}" if word else "np.equal", result_dtype="truth",
       examples=(f"(x {written} y) * x with x:3 y:3",), kinks=() if name in ("eq", "ne") else 0,  # at a lone point none
       torch=lambda torch, x, y, name=name: getattr(torch, name)(torch.as_tensor(x), y).to(torch.float64))
op("where(condition, x, y)", "out = [condition ≠ 0]·x + (1 − [condition ≠ 0])·y",
   "x[i] where the condition holds, y[i] elsewhere", ("torch.{}", "np.{}"),
   domain={"x": away_from_zero, "condition": integers_between(0, 1)}, examples=("where(x > 0, x, y) with x:3 y:3",),
   torch=lambda torch, condition, x, y: torch.where(condition != 0, x, y),
   result_dtype="behind", where_like=(0, (1, 2), 1))  # a condition that is NaN holds


# a table: one operation, one row
# fmt: off
op("leaky_relu(x, negative_slope=0.01)", "out = x·[x > 0] + negative_slope·x·(1 − [x > 0])",
   "x[i] where x[i] > 0, negative_slope·x[i] elsewhere", F, more=("F.leaky_relu(x, 0.2) with x:3",))
op("rrelu(x, lower=0.125, upper=0.3333333333333333, training: unsupported=False)", "out = x·[x > 0] + (lower + upper)/2·x·(1 − [x > 0])",
   "leaky_relu with the slope halfway between lower and upper; in training, where torch draws it, this is not it",
   ("F.{}", "torch.{}"), examples=("F.rrelu(x)", "F.rrelu(x, 0.1, 0.3) with x:3"))
op("elu(x, alpha=1.0)", "out = x·[x > 0] + alpha·expm1(x·(1 − [x > 0]))·(1 − [x > 0])",
   "x[i] where x[i] > 0, alpha·(exp(x[i]) − 1) elsewhere", F, more=("F.elu(x, 0.5) with x:3",))
op("celu(x, alpha=1.0)", "out = x·[x > 0] + alpha·expm1(x·(1 − [x > 0])/alpha)·(1 − [x > 0])",
   "x[i] where x[i] > 0, alpha·(exp(x[i]/alpha) − 1) elsewhere", F, "torch.celu", more=("F.celu(x, 0.5) with x:3",))
op("selu(x)", "out = 1.0507009873554805·(x·[x > 0] + 1.6732632423543772·expm1(x·(1 − [x > 0]))·(1 − [x > 0]))",
   "elu with the numbers that keep mean 0 and variance 1", F, "torch.selu")
op("hardtanh(x, min_val=-1.0, max_val=1.0)",
   "out = x·[x > min_val]·[x < max_val] + min_val·[x ≤ min_val] + max_val·[x ≥ max_val]",
   "x[i] kept between min_val and max_val; the derivative at a bound is 0", F,
   variants={"not min_val<max_val": "out = x·[x > min_val]·[x < max_val] + min_val·[x ≤ min_val] + max_val·[x > min_val]"}, more=("F.hardtanh(x, -0.5, 1.5) with x:3",))
op("relu6(x)", "out = x·[x > 0]·[x < 6] + 6·[x ≥ 6]", "x[i] kept between 0 and 6; the derivative at a bound is 0", F)
op("hardsigmoid(x)", "out = (x/6 + 1/2)·[x > −3]·[x < 3] + [x ≥ 3]",
   "x[i]/6 + ½ kept between 0 and 1; compared with relu6(x + 3)/6, since torch's own backward rounds 1/6 to float32", F, torch=lambda torch, x: torch.nn.functional.relu6(x + 3) / 6)
op("hardswish(x)", "out = x·(x + 3)/6·[x > −3]·[x < 3] + x·[x ≥ 3]", "x[i]·(x[i]/6 + ½ kept between 0 and 1)", F)
op("mish(x)", "out = x·tanh(softplus(x))", "x[i] times tanh of log(1 + exp(x[i])), a smooth relu", F, expands="x * tanh(softplus(x))")
op("logsigmoid(x)", "out = −softplus(−x)", "log σ(x[i]), σ the logistic function", F, "aten.log_sigmoid", expands="log(sigmoid(x))",
   arrays="x: -np.logaddexp(0, -x)")
op("softsign(x)", "out = x / (1 + |x|)", "x shrunk into ±1", home=F, arrays="x: x / (1 + np.abs(x))")
op("tanhshrink(x)", "out = x − tanh(x)", "how far x[i] is from its hyperbolic tangent", home=F, expands="x - tanh(x)", arrays="x: x - np.tanh(x)")
op("softshrink(x, lambd: float >= 0=0.5)", "out = (x − lambd)·[x > lambd] + (x + lambd)·[x < −lambd]",
   "x[i] moved towards 0 by lambd, 0 between ±lambd", F)
op("hardshrink(x, lambd=0.5)", "out = x·[x > lambd] + x·[x < −lambd]", "x[i] outside of ±lambd, 0 between", F, "torch.hardshrink Tensor.hardshrink",
   variants=lambda shapes, lambd: "out = x" if lambd < 0 else "out = x·[x > lambd] + x·[x < −lambd]")
op("threshold(x, threshold: float, value: float)", "out = x·[x > threshold] + value·(1 − [x > threshold])",
   "x[i] above the threshold, value elsewhere", ("F.{}", "torch.{}", "aten.{}"), kinks=0.5,
   examples=("F.threshold(x, 0.5, -1.0)",))
# fmt: on


def prelu_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """One slope for all, or one for each channel (axis 1)."""
    x, weight = shapes
    if len(weight) > 1:
        raise ShapeError(f"the weight of prelu is a vector, not a tensor with {len(weight)} axes")
    if weight and sizes.find(weight[0]) != 1:
        sizes.unify(weight[0], x[1] if len(x) > 1 else sp.Integer(1))
    return x


PRELU = "out[i] = x[i]·[x[i] > 0] + weight·x[i]·(1 − [x[i] > 0])"
op("prelu(x, weight)", PRELU, "x[i] where x[i] > 0, elsewhere x[i] times one slope for all, or that of its channel (axis 1)",
   ("F.{}", "torch.{}", "Tensor.{}", "aten.{}"), "aten._prelu_kernel", along="all but channels",
   variants=lambda shapes: PRELU.replace("weight", "weight[0]") if shapes[1] == (1,) else PRELU,  # one slope for all is the first

   shape=prelu_shape, align=no_alignment, kinks=0,
   ranks={"x": (2, 3), "weight": (1,)}, examples=("F.prelu(x, weight) with x:3x2 weight:2", "F.prelu(x, weight) with x:3 weight:1"),
   result_dtype="real")  # fmt: skip


op("glu(x, dim: int=-1)", "out[i<size(x, 0)/2] = x[i]·sigmoid(x[i + size(x, 0)/2])", "the first half along dim,"
   " times the logistic function of the second", F, axes="dim", examples=("F.glu(x) with x:2x4", "F.glu(x, 0) with x:4x2"))  # fmt: skip


unit = open_interval(-1, 1)
off_whole = Domain(draw=(-2.4, 2.4), avoid=tuple(n / 2 for n in range(-4, 5)))
quotients = {"x": Domain(draw=(2.1, 2.9)), "y": Domain(low=0, draw=(0.75, 0.95))}

# a table: one operation, one row
# fmt: off

# Exponentials and logarithms ------------------------------------------------------------------------

op("exp2(x)", "out = 2^x", "2 to the power x[i]", home=TORCH, also="torch.special.exp2 np.exp2", reuse=True)
op("expm1(x)", "out = exp(x) − 1", "exp(x[i]) less 1, with all its digits near 0", TORCH, "torch.special.expm1 np.expm1",
   forward=np.expm1)  # cancels
op("log2(x)", "out = log(x) / log(2)", "the logarithm to base 2", TORCH, "np.log2", domain=positive(),
   forward=np.log2)  # powers of 2
op("log10(x)", "out = log(x) / log(10)", "the logarithm to base 10", TORCH, "np.log10", domain=positive(),
   forward=np.log10)  # of 10
op("log1p(x)", "out = log(1 + x)", "the logarithm of 1 + x[i], with all its digits near 0", TORCH,
   "torch.special.log1p np.log1p", domain=Domain(low=-1, draw=(-0.7, 3)), forward=np.log1p)  # 1 + x rounds
op("rsqrt(x)", "out = 1/√x", "one over the root", home=TORCH, domain=positive(), reuse=True, arrays="x: 1 / np.sqrt(x)")
op("logaddexp(x, y)", "out = x + softplus(y − x)", "log(exp(x[i]) + exp(y[i]))", TORCH, "np.logaddexp",
   forward=np.logaddexp)  # ∞ − ∞
op("logaddexp2(x, y)", "out = x + softplus((y − x)·log(2)) / log(2)", "log₂(2^x[i] + 2^y[i])", TORCH, "np.logaddexp2",
   forward=np.logaddexp2)  # ∞ − ∞
op("ldexp(x, y)", "out = x·2^y", "x[i] times 2 to the power y[i]", home=TORCH)
op("logit(x, eps: 0 < float <= 0.5=None)", "out = log(x) − log(1 − x)", "log(x[i]/(1 − x[i])), the inverse of the logistic function; with eps x[i] is first kept between eps and 1 − eps", TORCH, "torch.special.logit",
   variants={"not eps=None": "out = inside·(log(safe) − log(1 − safe)) + log(eps/(1 − eps))·([x < eps] − [x > 1 − eps])"
            " where inside = [x ≥ eps]·[x ≤ 1 − eps], safe = x·inside + (1 − inside)/2"},
   domain=open_interval(0, 1), edges=({"x": 0.0}, {"x": -1.0}, {"x": 2.0}), more=("logit(x, 0.2)",))
op("xlogy(x, y)", "out = x·log(y)", "x[i]·log y[i], and 0 where x[i] is 0", TORCH, "torch.special.xlogy", domain=positive(),
   edges=({"x": 0.0, "y": 0.0},), forward=special.xlogy, least_log=-np.inf)
op("xlog1py(x, y)", "out = x·log(1 + y)", "x[i]·log(1 + y[i]), and 0 where x[i] is 0", SPECIAL, domain=positive(),
   edges=({"x": 0.0, "y": -1.0},), forward=special.xlog1py, least_log=-np.inf)  # 1 + y rounds
op("entr(x)", "out = −x·log(x)", "−x[i]·log x[i], and 0 where x[i] is 0", SPECIAL, domain=positive(), forward=special.entr, least_log=-np.inf)

# Angles and hyperbolic functions --------------------------------------------------------------------

op("sinh(x)", "out = sinh(x)", "the hyperbolic sine (exp(x[i]) − exp(−x[i]))/2", home=TORCH, also="np.sinh")
op("cosh(x)", "out = cosh(x)", "the hyperbolic cosine (exp(x[i]) + exp(−x[i]))/2", home=TORCH, also="np.cosh")
for name, says, domain in (
    ("asin", "the angle between −π/2 and π/2 whose sine is x[i]", unit),
    ("acos", "the angle between 0 and π whose cosine is x[i]", unit),
    ("atan", "the angle between −π/2 and π/2 whose tangent is x[i]", None),
    ("asinh", "the number whose hyperbolic sine is x[i]", None),
    ("atanh", "the number whose hyperbolic tangent is x[i]", unit),
    ("acosh", "the number from 0 on whose hyperbolic cosine is x[i]", Domain(low=1, draw=(1.3, 4))),
):
    op(f"{name}(x)", f"out = {name}(x)", says, TORCH,
       also=" ".join(f"{m}.arc{name[1:]}" for m in ("np", "torch", "Tensor")), domain=domain)
op("atan2(x, y)", "out = [x² + y² ≠ 0]·atan2(x, y)",
   "the angle of the point (y[i], x[i]); the derivative at the origin is 0", TORCH,
   "torch.arctan2 Tensor.arctan2 np.arctan2", kinks=0, forward=np.arctan2)  # x² underflows
op("hypot(x, y)", "out = √(x² + y²)", "the length of the vector (x[i], y[i])", TORCH, "np.hypot", reuse=True, forward=np.hypot)  # overflow
op("deg2rad(x)", "out = x·π/180", "x[i] degrees in radians", TORCH, "np.deg2rad")
op("rad2deg(x)", "out = x·180/π", "x[i] radians in degrees", TORCH, "np.rad2deg")
op("sinc(x)", "out = zero + (1 − zero)·sin(π·(x + zero)) / (π·(x + zero)) where zero = [x² < 1e-16]",
   "sin(π·x[i])/(π·x[i]), 1 at 0", TORCH, "torch.special.sinc np.sinc", kinks=0)

# Rounding -------------------------------------------------------------------------------------------

op("floor(x)", "out = floor(x)", "the largest whole number up to x[i]; the derivative is 0", TORCH, "np.floor", kinks=1,
   domain=off_whole)
op("ceil(x)", "out = ceil(x)", "the smallest whole number from x[i] on; the derivative is 0", TORCH, "np.ceil", kinks=1,
   domain=off_whole)
op("trunc(x)", "out = trunc(x)", "x[i] rounded towards 0; the derivative is 0", TORCH,
   "torch.fix Tensor.fix np.trunc", kinks=1, domain=off_whole)
op("round(x, decimals: -300 <= int <= 300=0)", "out = nearest(x·10^decimals) / 10^decimals", "x[i] rounded to so many decimals, halves to the even digit; the derivative is 0", TORCH,
   "np.round torch.special.round", kinks=0.5, domain=off_whole, result_dtype="kept")
op("frac(x)", "out = x − trunc(x)", "what is left of x[i] without its whole part, with the sign of x[i]", TORCH, kinks=1, domain=off_whole, result_dtype="real",
   arrays="x: x - np.trunc(x)")
op("remainder(x, y)", "out = x − y·floor(x / y)", "what is left of x[i] divided by y[i], with the sign of y[i]", TORCH,
   "np.mod np.remainder", kinks=0.5, domain=quotients, forward=lambda x, y: np.mod(np.asarray(x, float), y))  # x/y rounds
op("fmod(x, y)", "out = x − y·trunc(x / y)", "what is left of x[i] divided by y[i], with the sign of x[i]", TORCH, "np.fmod",
   kinks=0.5, domain=quotients, forward=np.fmod, result_dtype="kept")  # x/y rounds
op("nan_to_num(x)", "out = number_or_zero(x)", "x[i], and where it is no number 0, where it is ±∞ the largest or the smallest number", TORCH, "np.nan_to_num",
   result_dtype="kept")

# Two entries ----------------------------------------------------------------------------------------

op("copysign(x, y)", "out = |x|·side(y)", "x[i] with the sign of y[i]", TORCH, "np.copysign", kinks=0, result_dtype="real")
op("fmax(x, y)", "out = x·[low(x) ≥ low(y)] + y·[low(x) < low(y)]",
   "the larger of x[i] and y[i]; at a tie x counts, and what is no number counts as −∞: that is what low makes of it", TORCH,
   "np.fmax", kinks=0)
op("fmin(x, y)", "out = x·[high(x) ≤ high(y)] + y·[high(x) > high(y)]",
   "the smaller of x[i] and y[i]; at a tie x counts, and what is no number counts as ∞: that is what high makes of it", TORCH,
   "np.fmin", kinks=0)
op("rsub(x, y, alpha: float=1)", "out = y − alpha·x", "y less alpha times x", home=("torch.{}", "aten.{}"), result_dtype="kept numbers")
op("lerp(x, end, weight)", "out = x + weight·(end − x)", "the point that is the share weight of the way from x to end", home=TORCH,
   examples=("lerp(x, end, weight)", "lerp(x, end, 0.3) with x:3 end:3"), result_dtype="real",
   arrays="x, y, w: x + w * (y - x)")
op("addcmul(x, tensor1, tensor2, value: float=1)", "out = x + value·tensor1·tensor2", "x plus value times a product", home=TORCH,
   examples=("addcmul(x, tensor1, tensor2, value=2) with x:2x3 tensor1:3 tensor2:2x3",))
op("addcdiv(x, tensor1, tensor2, value: float=1)", "out = x + value·tensor1/tensor2", "x plus value times a quotient", home=TORCH,
   domain={"tensor2": positive()}, examples=("addcdiv(x, tensor1, tensor2, value=2) with x:2x3 tensor1:3 tensor2:2x3",))

# The error function, Γ and Bessel functions ---------------------------------------------------------

op("erf(x)", "out = erf(x)", "the error function: 2/√π times the integral of exp(−t²) from 0 to x[i]", TORCH, "torch.special.erf")
op("erfc(x)", "out = erfc(x)", "1 − erf(x[i])", TORCH, "torch.special.erfc")
op("erfinv(x)", "out = erfinv(x)", "the number whose erf is x[i]", TORCH, "torch.special.erfinv", domain=unit)
op("erfcx(x)", "out = erfcx(x)", "exp(x[i]²)·(1 − erf(x[i]))", SPECIAL)
op("ndtr(x)", "out = erfc(−x / √2) / 2", "the distribution function Φ(x[i]) of the normal distribution with mean 0 and variance 1", SPECIAL)
op("log_ndtr(x)", "out = log_ndtr(x)", "log Φ(x[i]), Φ the normal distribution function", SPECIAL)
op("ndtri(x)", "out = ndtri(x)", "the number z with Φ(z) = x[i], Φ the normal distribution function", SPECIAL, domain=open_interval(0, 1))
op("lgamma(x)", "out = lgamma(x)", "log |Γ(x[i])|", TORCH, "torch.special.gammaln aten.special_gammaln",
   domain=positive())
op("digamma(x)", "out = polygamma(0, x)", "the derivative of log Γ at x[i]", TORCH, "torch.special.digamma torch.special.psi",
   domain=positive())
op("i0(x)", "out = besseli(0, x)", "the modified Bessel function I₀(x[i])", TORCH, "torch.special.i0 np.i0")
op("i1(x)", "out = besseli(1, x)", "the modified Bessel function I₁(x[i])", SPECIAL)
op("i0e(x)", "out = i0e(x)", "exp(−|x[i]|)·I₀(x[i]), I₀ the modified Bessel function", SPECIAL, kinks=0)
op("i1e(x)", "out = i1e(x)", "exp(−|x[i]|)·I₁(x[i]), I₁ the modified Bessel function", SPECIAL, kinks=0)
# fmt: on


op("polygamma(n: 0 <= int <= 1000, x)", "out = polygamma(n, x)", "the n-th derivative of digamma; digamma itself for n = 0",
   ("torch.{}", "torch.special.{}", "aten.{}"), domain=positive(), examples=("polygamma(1, x)",),
   arrays="n, x: special.polygamma(n, x)")  # fmt: skip


op("mvlgamma(x, p: 1 <= int <= 1000)", "out[…] = Σ_{j<p} lgamma(x[…] − j/2) + p·(p − 1)/4·log(π)",
   "the logarithm of the multivariate Γ function of dimension p", TORCH, "torch.special.multigammaln", domain=Domain(low=1, draw=(1.2, 4)),
   examples=("mvlgamma(x, 2)",))  # fmt: skip
