"""Functions of one entry, and of two: exponentials and logarithms, angles, rounding, the error function, Γ, Bessel.

One row each. What has jumps is constant between them; where torch chooses a derivative at a kink, the brackets
say so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import InputError
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import Domain, between, positive, reals
from symgrad.ops.functions import (
    ceil as ceil_function,
)
from symgrad.ops.functions import (
    erfcx as erfcx_function,
)
from symgrad.ops.functions import (
    floor as floor_function,
)
from symgrad.ops.functions import (
    high,
    low,
    nearest,
    number_or_zero,
    side,
    sign,
    softplus,
)
from symgrad.ops.functions import (
    i0e as i0e_function,
)
from symgrad.ops.functions import (
    i1e as i1e_function,
)
from symgrad.ops.functions import (
    log_ndtr as log_ndtr_function,
)
from symgrad.ops.functions import (
    trunc as trunc_function,
)
from symgrad.ops.layers import number
from symgrad.ops.pointwise import pointwise
from symgrad.ops.spec import At, Op, View, example, operation
from symgrad.shapes import Shape, Sizes


def floats(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` on float arrays."""
    return lambda *arrays, **options: function(*(np.asarray(a, dtype=np.float64) for a in arrays), **options)


def row(
    name: str, formula: Any, says: str, numpy: Any, also: tuple[str, ...] = (), module: str = "torch", **facts: Any
) -> Op:
    """An entry that torch has under the same name."""
    main = f"{module}.{name}"
    path = name if module == "torch" else f"special.{name}"

    def by_torch(torch: Any, *tensors: Any, **options: Any) -> Any:
        function = torch
        for part in path.split("."):
            function = getattr(function, part)
        return function(*tensors, **{k: float(v) if isinstance(v, sp.Basic) else v for k, v in options.items()})

    spelled = (main, f"aten.{name}" if module == "torch" else f"aten.special_{name}", *also)
    spelled += (f"Tensor.{name}",) if module == "torch" else ()
    return pointwise(name, formula, says, numpy=floats(numpy), torch=by_torch, spelled=spelled, **facts)


wide, unit = Domain(draw=(-3.0, 3.0)), between(-1, 1)

# Exponentials and logarithms ------------------------------------------------------------------------

exp2 = row("exp2", lambda x: 2**x, "2^x[i]", np.exp2, ("torch.special.exp2", "np.exp2"), reuse=True)
expm1 = row("expm1", lambda x: sp.exp(x) - 1, "exp(x[i]) − 1", np.expm1, ("torch.special.expm1", "np.expm1"))
log2 = row("log2", lambda x: sp.log(x) / sp.log(2), "log₂ x[i]", np.log2, ("np.log2",), domain=positive())
log10 = row("log10", lambda x: sp.log(x) / sp.log(10), "log₁₀ x[i]", np.log10, ("np.log10",), domain=positive())
log1p = row(
    "log1p",
    lambda x: sp.log(1 + x),
    "log(1 + x[i])",
    np.log1p,
    ("torch.special.log1p", "np.log1p"),
    domain=Domain(low=-1, draw=(-0.7, 3)),
)
rsqrt = row("rsqrt", lambda x: 1 / sp.sqrt(x), "1/√x[i]", lambda x: 1 / np.sqrt(x), domain=positive(), reuse=True)
logaddexp = row(
    "logaddexp", lambda x, y: x + softplus(y - x), "log(exp(x[i]) + exp(y[i]))", np.logaddexp, ("np.logaddexp",)
)
logaddexp2 = row(
    "logaddexp2",
    lambda x, y: x + softplus((y - x) * sp.log(2)) / sp.log(2),
    "log₂(2^x[i] + 2^y[i])",
    np.logaddexp2,
    ("np.logaddexp2",),
)
ldexp = row("ldexp", lambda x, y: x * 2**y, "x[i]·2^y[i]", lambda x, y: x * np.exp2(y))


def logit_formula(x: Expr, eps: Any = None) -> Expr:
    """log(x/(1 − x)), x kept within eps of the ends."""
    if eps is None:
        return sp.log(x) - sp.log(1 - x)
    low = number(eps)
    within = Bracket(sp.Ge(x, low, evaluate=False)) * Bracket(sp.Le(x, 1 - low, evaluate=False))
    safe = x * within + (1 - within) / 2
    ends = sp.log(low / (1 - low)) * (
        Bracket(sp.Lt(x, low, evaluate=False)) - Bracket(sp.Gt(x, 1 - low, evaluate=False))
    )
    return within * (sp.log(safe) - sp.log(1 - safe)) + ends


logit = row(
    "logit",
    logit_formula,
    "log(x[i]/(1 − x[i]))",
    lambda x, eps=None: special.logit(x if eps is None else np.clip(x, float(eps), 1 - float(eps))),
    ("torch.special.logit",),
    domain=between(0, 1),
    smooth=False,
    edges=({"x": 0.0}, {"x": -1.0}, {"x": 2.0}),
    examples=(example("logit(x)", x=(2, 3)), example("logit(x, 0.2)", x=(2, 3))),
)
xlogy = row(
    "xlogy",
    lambda x, y: x * sp.log(y),
    "x[i]·log y[i]",
    special.xlogy,
    ("torch.special.xlogy",),
    domain=positive(),
    edges=({"x": 0.0, "y": 0.0},),
)
xlog1py = row(
    "xlog1py",
    lambda x, y: x * sp.log(1 + y),
    "x[i]·log(1 + y[i])",
    special.xlog1py,
    module="torch.special",
    domain=positive(),
)
entr = row("entr", lambda x: -x * sp.log(x), "−x[i]·log x[i]", special.entr, module="torch.special", domain=positive())

# Angles and hyperbolic functions --------------------------------------------------------------------

for_numpy = {
    "sinh": "sinh",
    "cosh": "cosh",
    "asin": "arcsin",
    "acos": "arccos",
    "atan": "arctan",
    "asinh": "arcsinh",
    "acosh": "arccosh",
    "atanh": "arctanh",
}


def angle(name: str, domain: Domain = wide) -> Op:
    """An entry that SymPy, NumPy and torch all have."""
    long = for_numpy[name]
    also = (f"np.{long}", *((f"torch.{long}", f"Tensor.{long}") if long != name else ()))
    return row(name, getattr(sp, name), f"{name}(x[i])", getattr(np, long), also, domain=domain)


sinh, cosh, asin, acos = angle("sinh"), angle("cosh"), angle("asin", unit), angle("acos", unit)
atan, asinh, atanh = angle("atan"), angle("asinh"), angle("atanh", unit)
acosh = angle("acosh", Domain(low=1, draw=(1.3, 4)))
atan2 = row(
    "atan2",
    lambda x, y: Bracket(sp.Ne(x**2 + y**2, 0)) * sp.atan2(x, y),
    "the angle of the point (y[i], x[i]); the derivative at the origin is 0",
    np.arctan2,
    ("torch.arctan2", "Tensor.arctan2", "np.arctan2"),
    domain=positive(),
    kinks=(0.0,),
    smooth=False,
)
hypot = row("hypot", lambda x, y: sp.sqrt(x**2 + y**2), "√(x[i]² + y[i]²)", np.hypot, ("np.hypot",), reuse=True)
deg2rad = row("deg2rad", lambda x: x * sp.pi / 180, "π/180·x[i]", np.deg2rad, ("np.deg2rad",))
rad2deg = row("rad2deg", lambda x: x * 180 / sp.pi, "180/π·x[i]", np.rad2deg, ("np.rad2deg",))


def sinc_formula(x: Expr) -> Expr:
    """sin(πx)/(πx), and 1 at 0, where the derivative is 0; as in torch, 0 is what squares to it."""
    zero = Bracket(sp.Eq(x**2, 0))
    safe = sp.pi * (x + zero)
    return zero + (1 - zero) * sp.sin(safe) / safe


sinc = row(
    "sinc",
    sinc_formula,
    "sin(π·x[i])/(π·x[i]), 1 at 0",
    np.sinc,
    ("torch.special.sinc", "np.sinc"),
    smooth=False,
    kinks=(0.0,),
    domain=reals(avoid=(0.0,)),
)

# Rounding -------------------------------------------------------------------------------------------

off_whole = Domain(draw=(-2.4, 2.4), avoid=tuple(n / 2 for n in range(-4, 5)))
floor = row(
    "floor",
    floor_function,
    "the largest whole number up to x[i]; the derivative is 0",
    np.floor,
    ("np.floor",),
    smooth=False,
    kinks=(1.0,),
    domain=off_whole,
)
ceil = row(
    "ceil",
    ceil_function,
    "the smallest whole number from x[i] on; the derivative is 0",
    np.ceil,
    ("np.ceil",),
    smooth=False,
    kinks=(1.0,),
    domain=off_whole,
)
trunc = row(
    "trunc",
    trunc_function,
    "x[i] without its fraction; the derivative is 0",
    np.trunc,
    ("torch.fix", "Tensor.fix", "np.trunc"),
    smooth=False,
    kinks=(1.0,),
    domain=off_whole,
)
round_ = row(
    "round",
    lambda x, decimals=0: nearest(x * sp.Integer(10) ** decimals) / sp.Integer(10) ** decimals,
    "x[i] rounded; the derivative is 0",
    lambda x, decimals=0: np.round(x, decimals),
    ("np.round", "torch.special.round"),
    smooth=False,
    kinks=(0.5,),
    domain=off_whole,
)
frac = row(
    "frac",
    lambda x: x - trunc_function(x),
    "the fraction of x[i]",
    lambda x: x - np.trunc(x),
    smooth=False,
    kinks=(1.0,),
    domain=off_whole,
)
remainder = row(
    "remainder",
    lambda x, y: x - y * floor_function(x / y),
    "x[i] − y[i]·⌊x[i]/y[i]⌋, with the sign of y[i]",
    np.mod,
    ("np.mod", "np.remainder"),
    smooth=False,
    kinks=(0.5,),
    domains={"x": Domain(draw=(2.1, 2.9)), "y": Domain(low=0, draw=(0.75, 0.95))},
)
fmod = row(
    "fmod",
    lambda x, y: x - y * trunc_function(x / y),
    "x[i] − y[i]·trunc(x[i]/y[i]), with the sign of x[i]",
    np.fmod,
    ("np.fmod",),
    smooth=False,
    kinks=(0.5,),
    domains={"x": Domain(draw=(2.1, 2.9)), "y": Domain(low=0, draw=(0.75, 0.95))},
)
nan_to_num = pointwise(
    "nan_to_num",
    lambda x: number_or_zero(x),
    "x[i], or a finite number where x[i] is none",
    numpy=floats(np.nan_to_num),
    torch=lambda torch, x: torch.nan_to_num(x),
    spelled=("torch.nan_to_num", "Tensor.nan_to_num", "aten.nan_to_num", "np.nan_to_num"),
)

# Two entries ----------------------------------------------------------------------------------------

copysign = row(
    "copysign",
    lambda x, y: x * sign(x) * side(y),
    "|x[i]| with the sign of y[i]",
    np.copysign,
    ("np.copysign",),
    smooth=False,
    kinks=(0.0,),
    domain=reals(avoid=(0.0,)),
)


def chosen(x: Expr, y: Expr, first: Expr) -> Expr:
    """x where ``first`` holds, y elsewhere."""
    return x * Bracket(first) + y * Bracket(sp.Not(first))


fmax = row(
    "fmax",
    lambda x, y: chosen(x, y, sp.Ge(low(x), low(y), evaluate=False)),
    "the larger of x[i] and y[i]; at a tie x counts, and what is not a number counts less than anything",
    np.fmax,
    ("np.fmax",),
    smooth=False,
    kinks=(0.0,),
    domain=reals(distinct=True),
)
fmin = row(
    "fmin",
    lambda x, y: chosen(x, y, sp.Le(high(x), high(y), evaluate=False)),
    "the smaller of x[i] and y[i]; at a tie x counts, and what is not a number counts more than anything",
    np.fmin,
    ("np.fmin",),
    smooth=False,
    kinks=(0.0,),
    domain=reals(distinct=True),
)
rsub = row(
    "rsub", lambda x, y, alpha=1: y - number(alpha) * x, "y[i] − alpha·x[i]", lambda x, y, alpha=1: y - x * alpha
)


def three(name: str, formula: Any, says: str, numpy: Any, **facts: Any) -> Op:
    """An entry of three operands."""
    return row(name, formula, says, numpy, examples=(example(f"{name}(x, y, z)", x=(2, 3), y=(3,), z=(2, 3)),), **facts)


lerp = row(
    "lerp",
    lambda x, end, weight: x + weight * (end - x),
    "x[i] + w[i]·(y[i] − x[i])",
    lambda x, y, w: x + w * (y - x),
    examples=(
        example("lerp(x, end, weight)", x=(2, 3), end=(2, 3), weight=(2, 3)),
        example("lerp(x, end, 0.3)", x=(3,), end=(3,)),
    ),
)
addcmul = row(
    "addcmul",
    lambda x, tensor1, tensor2, value=1: x + number(value) * tensor1 * tensor2,
    "x[i] + value·y[i]·z[i]",
    lambda x, y, z, value=1: x + float(value) * y * z,
    examples=(example("addcmul(x, tensor1, tensor2, value=2)", x=(2, 3), tensor1=(3,), tensor2=(2, 3)),),
)
addcdiv = row(
    "addcdiv",
    lambda x, tensor1, tensor2, value=1: x + number(value) * tensor1 / tensor2,
    "x[i] + value·y[i]/z[i]",
    lambda x, y, z, value=1: x + float(value) * y / z,
    domains={"tensor2": positive()},
    examples=(example("addcdiv(x, tensor1, tensor2, value=2)", x=(2, 3), tensor1=(3,), tensor2=(2, 3)),),
)

# The error function, Γ and Bessel functions ---------------------------------------------------------

erf = row("erf", sp.erf, "erf(x[i])", special.erf, ("torch.special.erf",))
erfc = row("erfc", sp.erfc, "1 − erf(x[i])", special.erfc, ("torch.special.erfc",))
erfinv = row(
    "erfinv", sp.erfinv, "the number whose erf is x[i]", special.erfinv, ("torch.special.erfinv",), domain=unit
)
erfcx = row("erfcx", erfcx_function, "exp(x[i]²)·(1 − erf(x[i]))", special.erfcx, module="torch.special")
ndtr = row(
    "ndtr",
    lambda x: sp.erfc(-x / sp.sqrt(2)) / 2,
    "the normal distribution function Φ(x[i])",
    special.ndtr,
    module="torch.special",
)
log_ndtr = row("log_ndtr", log_ndtr_function, "log Φ(x[i])", special.log_ndtr, module="torch.special")
ndtri = row(
    "ndtri",
    lambda x: sp.sqrt(2) * sp.erfinv(2 * x - 1),
    "the number z with Φ(z) = x[i]",
    special.ndtri,
    module="torch.special",
    domain=between(0, 1),
)
lgamma = row(
    "lgamma",
    sp.loggamma,
    "log Γ(x[i])",
    special.gammaln,
    ("torch.special.gammaln", "aten.special_gammaln"),
    domain=positive(),
)
digamma = row(
    "digamma",
    lambda x: sp.polygamma(0, x),
    "the derivative of log Γ",
    special.digamma,
    ("torch.special.digamma", "torch.special.psi"),
    domain=positive(),
)
i0 = row("i0", lambda x: sp.besseli(0, x), "the Bessel function I₀(x[i])", special.i0, ("torch.special.i0", "np.i0"))
i1 = row("i1", lambda x: sp.besseli(1, x), "the Bessel function I₁(x[i])", special.i1, module="torch.special")
i0e = row(
    "i0e",
    i0e_function,
    "exp(−|x[i]|)·I₀(x[i])",
    special.i0e,
    module="torch.special",
    smooth=False,
    domain=reals(avoid=(0.0,)),
    kinks=(0.0,),
)
i1e = row(
    "i1e",
    i1e_function,
    "exp(−|x[i]|)·I₁(x[i])",
    special.i1e,
    module="torch.special",
    smooth=False,
    domain=reals(avoid=(0.0,)),
    kinks=(0.0,),
)


def same_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Any) -> Shape:
    """The operand's shape."""
    return shapes[0]


def prepare_order(shapes: tuple[Shape, ...], n: int) -> dict[str, Any]:
    """Which derivative of digamma: 0 is digamma itself."""
    if n < 0:
        raise InputError("polygamma takes a whole number n from 0 up", found=(f"n={n!r}",))
    return {"n": n}


@operation(
    says="the derivative number n of digamma",
    numpy=lambda x, n: special.polygamma(n, np.asarray(x, dtype=np.float64)),
    torch=lambda torch, x, n: torch.polygamma(n, x),
    shape=same_shape,
    prepare=prepare_order,
    domain={"x": positive()},
    spelled=("torch.polygamma", "torch.special.polygamma", "aten.polygamma"),
    examples=(example("polygamma(1, x)", x=(2, 3)),),
)
def polygamma(at: At, n: int, x: View) -> Expr:
    """out[i] = ψ⁽ⁿ⁾(x[i])"""
    return sp.polygamma(n, x[at])


@operation(
    says="the logarithm of the multivariate Γ function",
    numpy=lambda x, p: (
        sum(special.gammaln(np.asarray(x, float) - j / 2) for j in range(p)) + p * (p - 1) / 4 * np.log(np.pi)
    ),
    torch=lambda torch, x, p: torch.mvlgamma(x, p),
    shape=same_shape,
    domain={"x": Domain(low=1, draw=(1.2, 4))},
    spelled=("torch.mvlgamma", "Tensor.mvlgamma", "torch.special.multigammaln", "aten.mvlgamma"),
    examples=(example("mvlgamma(x, 2)", x=(2, 3)),),
)
def mvlgamma(at: At, x: View, p: int) -> Expr:
    """out[i] = Σ_{j<p} log Γ(x[i] − j/2) + p(p − 1)/4·log π"""
    each = sp.Add(*(sp.loggamma(x[at] - sp.Rational(j, 2)) for j in range(p)))
    return each + sp.Rational(p * (p - 1), 4) * sp.log(sp.pi)
