"""Functions of one entry, and of two: exponentials and logarithms, angles, rounding, the error function, Γ, Bessel.

One row each. What has jumps is constant between them; where torch chooses a derivative at a kink, the brackets
say so. A forward of its own stands where the equation as it is written loses digits.
"""

from __future__ import annotations

import numpy as np

from symgrad.entries.equations import SPECIAL, TORCH, op
from symgrad.entries.operands import Domain, open_interval, positive
from symgrad.functions import special

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
