"""Operations that act on each entry by itself: out[i] = f(x[i], y[i], …), operands broadcast first.

Rows run from dull to hard. A kink's value is part of the definition: [x > 0] is 0 at 0, because torch's relu
is; |x| differentiates to sign(x), which is 0 at 0 as in torch; a tie of maximum counts half for each.
"""

from __future__ import annotations

import numpy as np

from symgrad.entries.equations import METHOD, op
from symgrad.entries.operands import Domain, integers_between, positive, reals
from symgrad.errors import InputError
from symgrad.program import Role

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
   "x[i] kept between min and max; the derivative at a bound is 1", kinks=(-1.0, 1.0),
   checks={"min=None and max=None": (InputError, "torch.clamp: At least one of 'min' or 'max' must not be None",
                                     "clamp(x, 0, 1)", "clamp(x, min=0)", "clamp(x, max=1)")},
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
