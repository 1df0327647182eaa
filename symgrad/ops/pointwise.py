"""Operations that act on each entry by itself: out[i] = f(x[i], y[i], …), operands broadcast first.

Rows run from dull to hard. A kink's value is part of the definition: [x > 0] is 0 at 0, because torch's relu
is; |x| differentiates to sign(x), which is 0 at 0 as in torch; a tie of maximum counts half for each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.errors import InputError
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import Domain, positive, reals
from symgrad.ops.exactness import check_power
from symgrad.ops.functions import sigmoid as sigmoid_function
from symgrad.ops.functions import sign as sign_function
from symgrad.ops.functions import softplus as softplus_function
from symgrad.ops.spec import At, Example, Op, View, example, operation
from symgrad.shapes import Shape, Sizes


def broadcast(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> tuple[Shape, ...]:
    """Every operand is broadcast to the common shape."""
    common = sizes.broadcast_shapes(shapes)
    return tuple(common for _ in shapes)


def common_shape(sizes: Sizes, shapes: tuple[Shape, ...], **options: Hashable) -> Shape:
    """The output has the operands' common shape."""
    return sizes.broadcast_shapes(shapes)


def pointwise(
    name: str,
    formula: Callable[..., Expr],
    says: str,
    *,
    numpy: Callable[..., Any],
    torch: Callable[..., Any],
    spelled: tuple[str, ...] = (),
    domain: Domain | None = None,
    domains: dict[str, Domain] | None = None,
    examples: tuple[Example, ...] = (),
    **facts: Any,
) -> Op:
    """An entry whose every output element is ``formula`` of the operands' elements at the same place."""
    only_x = inspect.Signature([inspect.Parameter("x", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    signature = only_x if isinstance(formula, type) else inspect.signature(formula)
    operands = [p.name for p in signature.parameters.values() if p.default is p.empty]

    def index(at: At, *views: View, **options: Hashable) -> Expr:
        return formula(*(view[at] for view in views), **options)

    index.__name__ = name
    index.__doc__ = f"out[i] = {says.split(';')[0]}"
    index.__signature__ = inspect.Signature(  # type: ignore[attr-defined]  # read back by inspect.signature
        [
            inspect.Parameter("at", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=At),
            *(
                p.replace(annotation=View if p.name in operands else p.annotation)
                for p in signature.parameters.values()
            ),
        ]
    )
    shown = ", ".join(operands)
    return operation(
        says=says,
        numpy=numpy,
        torch=torch,
        shape=common_shape,
        align=broadcast,
        spelled=spelled or (f"torch.{name}", f"Tensor.{name}", f"np.{name}"),
        domain=domains or (dict.fromkeys(operands, domain) if domain else {}),
        examples=examples or (example(f"{name}({shown})", **dict.fromkeys(operands, (2, 3))),),
        **facts,
    )(index)


def both(name: str) -> tuple[str, ...]:
    """The spellings as function and method."""
    return (f"torch.{name}", f"Tensor.{name}", f"np.{name}")


# Arithmetic -----------------------------------------------------------------------------------------

identity = pointwise(
    "identity", lambda x: x, "x[i]", numpy=lambda x: x, torch=lambda torch, x: x.clone(),
    spelled=("torch.clone", "Tensor.clone", "Tensor.contiguous", "np.copy", "torch.resolve_conj", "Tensor.resolve_conj"),
)  # fmt: skip
zeros_like = pointwise(
    "zeros_like", lambda x: sp.S.Zero, "0, in the shape of x", numpy=np.zeros_like,
    torch=lambda torch, x: torch.zeros_like(x), spelled=("torch.zeros_like", "np.zeros_like"), pathless=True,
)  # fmt: skip
ones_like = pointwise(
    "ones_like", lambda x: sp.S.One, "1, in the shape of x", numpy=np.ones_like,
    torch=lambda torch, x: torch.ones_like(x), spelled=("torch.ones_like", "np.ones_like"), pathless=True,
)  # fmt: skip
add = pointwise(
    "add", lambda x, y: x + y, "x[i] + y[i]", numpy=np.add, torch=lambda torch, x, y: torch.add(x, y),
    examples=(example("x + y", x=(2, 3), y=(2, 3)), example("x + b", x=(2, 3), b=(3,)), example("x + 2", x=(3,))),
)  # fmt: skip
sub = pointwise(
    "sub", lambda x, y: x - y, "x[i] − y[i]", numpy=np.subtract, torch=lambda torch, x, y: torch.sub(x, y),
    spelled=("torch.sub", "torch.subtract", "Tensor.sub", "Tensor.subtract", "np.subtract"),
    examples=(example("x - y", x=(2, 3), y=(2, 3)), example("1 - x", x=(3,))),
)  # fmt: skip
mul = pointwise(
    "mul", lambda x, y: x * y, "x[i]·y[i]", numpy=np.multiply, torch=lambda torch, x, y: torch.mul(x, y),
    spelled=("torch.mul", "torch.multiply", "Tensor.mul", "Tensor.multiply", "np.multiply"),
    examples=(example("x * y", x=(2, 3), y=(2, 3)), example("3 * x", x=(3,)), example("x * x", x=(3,))),
)  # fmt: skip


def divide(x: Any, y: Any) -> Any:
    """x / y; exact where both are integers or fractions."""
    if np.asarray(x).dtype == object or np.asarray(y).dtype == object:
        if np.any(np.asarray(y) == 0):
            return np.true_divide(np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64))
        return np.asarray(x, dtype=object) * np.vectorize(lambda d: 1 / d, otypes=[object])(y)
    return np.true_divide(x, y)


div = pointwise(
    "div", lambda x, y: x / y, "x[i] / y[i]", numpy=divide, torch=lambda torch, x, y: torch.div(x, y),
    spelled=("torch.div", "torch.divide", "torch.true_divide", "Tensor.div", "Tensor.divide", "np.divide"),
    domains={"y": positive()},
    examples=(example("x / y", x=(2, 3), y=(2, 3)), example("x / 2", x=(3,)), example("1 / y", y=(3,))),
)  # fmt: skip
neg = pointwise(
    "neg", lambda x: -x, "−x[i]", numpy=np.negative, torch=lambda torch, x: torch.neg(x),
    spelled=("torch.neg", "torch.negative", "Tensor.neg", "Tensor.negative", "np.negative"),
    examples=(example("-x", x=(2, 3)),),
)  # fmt: skip


def power(x: Any, y: Any) -> Any:
    """x ** y; exact where the exponent is an integer and x exact."""
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype == object:
        whole = y.dtype != object or all(Fraction(e).denominator == 1 for e in y.reshape(-1))
        zero = np.any((x == 0) & (y < 0))
        if whole and not zero:
            check_power(x, y)
            return np.power(x, y.astype(object) if y.dtype != object else y)
        x, y = x.astype(np.float64), y.astype(np.float64)
    return np.power(x.astype(np.float64), y.astype(np.float64))


def powers(x: Expr, y: Expr) -> Expr:
    """x**y for numbers; e**(y log x) where the exponent is a tensor, which SymPy differentiates alike."""
    return x**y


pow_ = pointwise(
    "pow", powers, "x[i] ** y[i]", numpy=power, torch=lambda torch, x, y: torch.pow(x, y),
    spelled=("torch.pow", "Tensor.pow", "np.power", "torch.float_power", "np.float_power"),
    domains={"x": positive()}, edges=({"x": 0.0, "y": 0.0}, {"x": 0.0, "y": 2.0}),
    examples=(example("x ** 3", x=(2, 3)), example("x ** y", x=(3,), y=(3,)), example("2 ** x", x=(3,))),
)  # fmt: skip
square = pointwise("square", lambda x: x**2, "x[i]²", numpy=np.square, torch=lambda torch, x: torch.square(x))
reciprocal = pointwise(
    "reciprocal", lambda x: 1 / x, "1 / x[i]", numpy=lambda x: divide(1, x),
    torch=lambda torch, x: torch.reciprocal(x), domain=positive(), reuse=True,
)  # fmt: skip

# Exponential, logarithm, trigonometry ---------------------------------------------------------------

exp = pointwise("exp", sp.exp, "exp(x[i])", numpy=np.exp, torch=lambda torch, x: torch.exp(x), reuse=True)
log = pointwise("log", sp.log, "log(x[i])", numpy=np.log, torch=lambda torch, x: torch.log(x), domain=positive())
sqrt = pointwise(
    "sqrt", lambda x: sp.sqrt(x), "√x[i]", numpy=np.sqrt, torch=lambda torch, x: torch.sqrt(x),
    domain=positive(), reuse=True,
)  # fmt: skip
sin = pointwise("sin", sp.sin, "sin(x[i])", numpy=np.sin, torch=lambda torch, x: torch.sin(x))
cos = pointwise("cos", sp.cos, "cos(x[i])", numpy=np.cos, torch=lambda torch, x: torch.cos(x))
tan = pointwise(
    "tan", sp.tan, "tan(x[i])", numpy=np.tan, torch=lambda torch, x: torch.tan(x),
    domain=Domain(draw=(-1.2, 1.2)), reuse=True,
)  # fmt: skip
tanh = pointwise(
    "tanh", sp.tanh, "tanh(x[i])", numpy=np.tanh, torch=lambda torch, x: torch.tanh(x), reuse=True,
    spelled=(*both("tanh"), "F.tanh"),
)  # fmt: skip

# Activations ----------------------------------------------------------------------------------------

sigmoid = pointwise(
    "sigmoid", sigmoid_function, "σ(x[i]) = 1 / (1 + exp(−x[i]))", numpy=special.expit,
    torch=lambda torch, x: torch.sigmoid(x), reuse=True,
    spelled=("torch.sigmoid", "Tensor.sigmoid", "F.sigmoid", "torch.special.expit"), expands="1 / (1 + exp(-x))",
)  # fmt: skip
softplus = pointwise(
    "softplus", softplus_function, "log(1 + exp(x[i])); torch without its shortcut from 20 on, which is 2e-9 off",
    numpy=lambda x: np.logaddexp(0, np.asarray(x, float)), spelled=("F.softplus",), expands="log(1 + exp(x))",
    torch=lambda torch, x: torch.nn.functional.softplus(x, threshold=40),
)  # fmt: skip
silu = pointwise(
    "silu", lambda x: x * sigmoid_function(x), "x[i]·σ(x[i])", numpy=lambda x: x * special.expit(x),
    torch=lambda torch, x: torch.nn.functional.silu(x), spelled=("F.silu",), expands="x * sigmoid(x)",
)  # fmt: skip


def gelu_formula(x: Expr, approximate: str = "none") -> Expr:
    """x·Φ(x), or its tanh approximation."""
    if approximate == "none":
        return x * (1 + sp.erf(x / sp.sqrt(2))) / 2
    if approximate == "tanh":
        return x * (1 + sp.tanh(sp.sqrt(2 / sp.pi) * (x + sp.Rational(44715, 1000000) * x**3))) / 2
    raise InputError(
        "gelu has no such approximation", found=(f"approximate={approximate!r}",), hints=("'none' or 'tanh'",)
    )


def gelu_values(x: Any, approximate: str = "none") -> Any:
    """gelu on arrays, by the normal distribution."""
    x = np.asarray(x, dtype=np.float64)
    if approximate == "tanh":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x * special.ndtr(x)


gelu = pointwise(
    "gelu", gelu_formula, "x[i]·Φ(x[i]); Φ is the normal distribution function", numpy=gelu_values,
    torch=lambda torch, x, approximate: torch.nn.functional.gelu(x, approximate=approximate), spelled=("F.gelu",),
    examples=(example("gelu(x)", x=(2, 3)), example('gelu(x, approximate="tanh")', x=(2, 3))),
)  # fmt: skip

# Kinks ----------------------------------------------------------------------------------------------

away_from_zero = reals(avoid=(0.0,))
relu = pointwise(
    "relu", lambda x: x * Bracket(x > 0), "x[i]·[x[i] > 0]; the derivative at 0 is 0",
    numpy=lambda x: np.where(np.asarray(x) > 0, x, x * 0), torch=lambda torch, x: torch.relu(x),
    spelled=("torch.relu", "F.relu", "Tensor.relu"), domain=away_from_zero, kinks=(0.0,), smooth=False,
)  # fmt: skip
abs_ = pointwise(
    "abs", lambda x: x * sign_function(x), "|x[i]|; the derivative at 0 is 0", numpy=np.abs,
    torch=lambda torch, x: torch.abs(x), spelled=("torch.abs", "torch.absolute", "Tensor.abs", "np.abs", "np.absolute"),
    domain=away_from_zero, kinks=(0.0,), smooth=False,
)  # fmt: skip
sign = pointwise(
    "sign", sign_function, "sign(x[i])", numpy=np.sign, torch=lambda torch, x: torch.sign(x),
    spelled=("torch.sign", "torch.sgn", "Tensor.sign", "np.sign"), domain=away_from_zero, smooth=False, kinks=(0.0,),
)  # fmt: skip


def larger(x: Expr, y: Expr) -> Expr:
    """The larger of two; at a tie half of each, as torch differentiates it."""
    tie = Bracket(sp.Eq(x, y)) / 2
    return x * (Bracket(x > y) + tie) + y * (Bracket(y > x) + tie)


def smaller(x: Expr, y: Expr) -> Expr:
    """The smaller of two; at a tie half of each, as torch differentiates it."""
    tie = Bracket(sp.Eq(x, y)) / 2
    return x * (Bracket(x < y) + tie) + y * (Bracket(y < x) + tie)


maximum = pointwise(
    "maximum", larger, "the larger of x[i] and y[i]; at a tie each counts half", numpy=np.maximum,
    torch=lambda torch, x, y: torch.maximum(x, torch.as_tensor(y, dtype=x.dtype)),
    domains={"x": reals(distinct=True)}, kinks=(0.0,), smooth=False,
)  # fmt: skip
minimum = pointwise(
    "minimum", smaller, "the smaller of x[i] and y[i]; at a tie each counts half", numpy=np.minimum,
    torch=lambda torch, x, y: torch.minimum(x, torch.as_tensor(y, dtype=x.dtype)),
    domains={"x": reals(distinct=True)}, kinks=(0.0,), smooth=False,
)  # fmt: skip


def clamped(x: Expr, min: Any = None, max: Any = None) -> Expr:
    """x kept between min and max; at the bounds the derivative is 1, as in torch 2.13."""
    low = sp.sympify(min, strict=True) if min is not None else None
    high = sp.sympify(max, strict=True) if max is not None else None
    inside = sp.S.One
    result = sp.S.Zero
    if low is not None:
        inside *= Bracket(x >= low)
        result += low * Bracket(x < low)
    if high is not None:
        inside *= Bracket(x <= high)
        result += high * Bracket(x > high)
    return x * inside + result


def prepare_clamp(shapes: tuple[Shape, ...], min: Any = None, max: Any = None) -> dict[str, Hashable]:
    """Bounds as they are; without any there is nothing to do, and torch refuses that."""
    if min is None and max is None:
        raise InputError(
            "torch.clamp: At least one of 'min' or 'max' must not be None",
            hints=("clamp(x, 0, 1)", "clamp(x, min=0)", "clamp(x, max=1)"),
        )
    return {"min": min, "max": max}


clamp = pointwise(
    "clamp", clamped, "x[i] kept between min and max; the derivative at a bound is 1",
    numpy=lambda x, min=None, max=None: np.clip(x, min, max),
    torch=lambda torch, x, min=None, max=None: torch.clamp(x, min, max),
    spelled=("torch.clamp", "torch.clip", "Tensor.clamp", "Tensor.clip", "np.clip"),
    domain=reals(avoid=(-1.0, 1.0)), kinks=(-1.0, 1.0), smooth=False, prepare=prepare_clamp,
    examples=(example("clamp(x, -1, 1)", x=(2, 3)), example("clamp(x, min=0.5)", x=(3,))),
)  # fmt: skip

# Comparisons and choice -----------------------------------------------------------------------------


def comparison(name: str, relation: Callable[..., Expr], sign_: str, numpy: Any, torch: Callable[..., Any]) -> Op:
    """[x ? y] as a number, 1 or 0; its derivative is 0."""
    return pointwise(
        name, lambda x, y: Bracket(relation(x, y)), f"[x[i] {sign_} y[i]]",
        numpy=lambda x, y: np.asarray(numpy(x, y)).astype(int), torch=torch,
        examples=(example(f"({{}} {sign_} {{}}) * x".format("x", "y"), x=(3,), y=(3,)),),
        domains={"x": reals(distinct=True)}, smooth=False, pathless=True,
        kinks=() if sign_ in ("==", "!=") else (0.0,),  # at a lone point the derivative is between none
        spelled=(f"torch.{name}", f"Tensor.{name}"),
    )  # fmt: skip


lt = comparison("lt", sp.Lt, "<", np.less, lambda torch, x, y: (x < y).to(torch.float64))
le = comparison("le", sp.Le, "<=", np.less_equal, lambda torch, x, y: (x <= y).to(torch.float64))
gt = comparison("gt", sp.Gt, ">", np.greater, lambda torch, x, y: (x > y).to(torch.float64))
ge = comparison("ge", sp.Ge, ">=", np.greater_equal, lambda torch, x, y: (x >= y).to(torch.float64))
eq = comparison("eq", sp.Eq, "==", np.equal, lambda torch, x, y: (x == y).to(torch.float64))
ne = comparison("ne", sp.Ne, "!=", np.not_equal, lambda torch, x, y: (x != y).to(torch.float64))


def chosen(condition: Expr, x: Expr, y: Expr) -> Expr:
    """x where the condition is not 0, y elsewhere."""
    yes = condition if isinstance(condition, Bracket) else Bracket(sp.Ne(condition, 0))
    return yes * x + (1 - yes) * y


where = pointwise(
    "where", chosen, "x[i] where the condition holds, y[i] elsewhere",
    numpy=lambda condition, x, y: np.where(np.asarray(condition) != 0, x, y),
    torch=lambda torch, condition, x, y: torch.where(condition != 0, x, y),
    spelled=("torch.where", "np.where"), smooth=False,
    examples=(example("where(x > 0, x, y)", x=(3,), y=(3,)),), domains={"x": away_from_zero},
)  # fmt: skip
