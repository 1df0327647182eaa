"""Arithmetic and functions of complex tensors, in entries of the table on pairs: one table for texts and captures.

Comes in: a call's arguments, and a `Pairs` that has them as pairs. Goes out: the last result, or None where the call
asks for more than the rule knows. What is linear, or has an entry of its own, needs one; the others are said as the
mathematics says them: tan is sin by cos, a power is exp(y·log x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Pairs(Protocol):
    """Arguments of a call as pairs, and entries of the table applied to them.

    Tensors have the shape that torch sees; what an entry gives back has the pairs as its last axis.
    """

    def __call__(self, name: str, *arguments: Any, **keywords: Any) -> Any:
        """The result of one entry."""

    def paired(self, value: Any) -> bool:
        """Whether it is a tensor of pairs: a complex one, or an earlier result."""

    def pair(self, value: Any) -> Any:
        """Anything as pairs."""

    def real(self, value: Any) -> Any:
        """A real tensor, or a number."""

    def column(self, value: Any) -> Any:
        """A real factor of pairs."""

    def part(self, pairs: Any, number: int) -> Any:
        """The real (0) or imaginary (1) part of pairs."""

    def again(self, first: Any, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Any:
        """The call's own entry, of another first tensor."""

    def number(self, size: Any) -> int:
        """A size as a number."""


Rule = Callable[..., Any]
"""Takes `Pairs` and the call's own arguments."""


def times(p: Pairs, x: Any, y: Any) -> Any:
    """A product; a real factor counts for both parts."""
    if p.paired(y) and not p.paired(x):
        x, y = y, x
    if p.paired(x) and not p.paired(y) and not isinstance(y, complex):
        return p("mul", p.pair(x), p.column(y))
    return p("complex_mul", p.pair(x), p.pair(y))


def quotient(p: Pairs, x: Any, y: Any, rounding_mode: str | None = None) -> Any | None:
    """A quotient; a real divisor divides both parts."""
    if rounding_mode is not None:
        return None
    if not p.paired(y) and not isinstance(y, complex):
        return p("div", p.pair(x), p.column(y))
    return p("complex_div", p.pair(x), p.pair(y))


def plus(p: Pairs, x: Any, y: Any, alpha: Any = 1) -> Any:
    """x + alpha·y."""
    return p("add", p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


def minus(p: Pairs, x: Any, y: Any, alpha: Any = 1) -> Any:
    """x − alpha·y."""
    return p("sub", p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


def power(p: Pairs, x: Any, y: Any) -> Any:
    """A small whole power as products, any other by exp(y·log x)."""
    if isinstance(y, (int, float)) and y == int(y) and 0 < abs(y) <= 8:
        base = result = p.pair(x)
        for _ in range(int(abs(y)) - 1):
            result = p("complex_mul", result, base)
        return result if y > 0 else p("complex_div", p.pair(1), result)
    if y == 0.5:
        return p("complex_sqrt", p.pair(x))
    return p("complex_exp", times(p, p("complex_log", p.pair(x)), y))


def matmul(p: Pairs, x: Any, y: Any) -> Any:
    """A product of matrices, of vectors, of batches."""
    return p("complex_matmul", p.pair(x), p.pair(y))


def added_product(p: Pairs, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta·base + alpha·(x @ y)."""
    product = matmul(p, x, y)
    product = product if alpha == 1 else times(p, product, alpha)
    return p("add", p.pair(base) if beta == 1 else times(p, p.pair(base), beta), product)


def linear(p: Pairs, x: Any, weight: Any, bias: Any = None) -> Any:
    """x @ weight.T + bias."""
    product = p("complex_matmul", p.pair(x), p("permute", p.pair(weight), dims=(1, 0, 2)))
    return product if bias is None else p("add", product, p.pair(bias))


def dotted(p: Pairs, x: Any, y: Any) -> Any:
    """Σ conj(x)·y."""
    return p("complex_matmul", p("complex_conj", p.pair(x)), p.pair(y))


def vecdot(p: Pairs, x: Any, y: Any, dim: int = -1) -> Any:
    """Σ conj(x)·y along dim."""
    product = p("complex_mul", p("complex_conj", p.pair(x)), p.pair(y))
    return p("sum", product, dim=dim % (len(product.shape) - 1))


def fused(word: str) -> Rule:
    """base + value·x·y, or base + value·x/y."""

    def rule(p: Pairs, base: Any, x: Any, y: Any, *, value: Any = 1) -> Any:
        both = p("complex_mul" if word == "addcmul" else "complex_div", p.pair(x), p.pair(y))
        return p("add", p.pair(base), both if value == 1 else times(p, both, value))

    return rule


# Functions ------------------------------------------------------------------------------------------------


def function(entry: str) -> Rule:
    """One entry on pairs."""
    return lambda p, x: p(entry, p.pair(x))


def over(above: str, below: str) -> Rule:
    """tan and tanh."""
    return lambda p, x: p("complex_div", p(above, p.pair(x)), p(below, p.pair(x)))


def one_over(inner: Callable[[Pairs, Any], Any]) -> Rule:
    """The reciprocal of something."""
    return lambda p, x: p("complex_div", p.pair(1), inner(p, p.pair(x)))


def logarithm(base: float) -> Rule:
    """log to another base."""
    return lambda p, x: p("div", p("complex_log", p.pair(x)), math.log(base))


def made(entry: str) -> Rule:
    """A complex tensor from two real ones."""
    return lambda p, x, y: p(entry, p.real(x), p.real(y))


def direction(p: Pairs, x: Any) -> Any:
    """z / |z|."""
    return p("div", p.pair(x), p.column(p("complex_abs", p.pair(x))))


def norm(p: Pairs, x: Any, /, *arguments: Any, **keywords: Any) -> Any | None:
    """The real norm of the lengths |z|."""
    if "nuc" in (keywords.get("p"), *arguments[:1]):
        return None
    arguments = tuple(2 if a == "fro" else a for a in arguments)
    keywords = {k: 2 if v == "fro" else v for k, v in keywords.items()}
    return p.again(p("complex_abs", p.pair(x)), arguments, keywords)


def blended(p: Pairs, x: Any, y: Any, weight: Any) -> Any:
    """x + weight·(y − x)."""
    return p("add", p.pair(x), times(p, p("sub", p.pair(y), p.pair(x)), weight))


def outer_added(p: Pairs, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta·base + alpha·x yᵀ."""
    column, row = p("unsqueeze", p.pair(x), dim=1), p("unsqueeze", p.pair(y), dim=0)
    product = p("complex_mul", column, row)
    product = product if alpha == 1 else times(p, product, alpha)
    return p("add", p.pair(base) if beta == 1 else times(p, p.pair(base), beta), product)


def chain(p: Pairs, tensors: Any) -> Any:
    """A product of several matrices."""
    result = p.pair(tensors[0])
    for tensor in tensors[1:]:
        result = p("complex_matmul", result, p.pair(tensor))
    return result


def matrix_power(p: Pairs, x: Any, n: int) -> Any | None:
    """A small power of a matrix."""
    return chain(p, [x] * n) if 0 < n <= 8 else None


def spread(root: bool) -> Rule:
    """Variance, the mean of |z − mean|² with n − correction for n; or its root."""

    def rule(p: Pairs, x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None
             ) -> Any | None:  # fmt: skip
        if isinstance(dim, bool) or not x.shape:
            return None
        rank, ref = len(x.shape), p.pair(x)
        dims = range(rank) if dim in (None, (), []) else dim if isinstance(dim, (tuple, list)) else (dim,)
        axes = tuple(sorted(d % rank for d in dims))
        less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        count = math.prod(p.number(x.shape[a]) for a in axes)
        if count <= less:
            return None
        away = p("sub", ref, p("mean", ref, dim=axes, keepdim=True))
        found = p("div", p("sum", p("square", p("complex_abs", away)), dim=axes, keepdim=keepdim), count - less)
        return p("sqrt", found) if root else found

    return rule


# Inverse functions, by the logarithm and the root ----------------------------------------------------------


def turned(p: Pairs, z: Any) -> Any:
    """i·z"""
    return p("complex_pair", p("neg", p.part(z, 1)), p.part(z, 0))


def turned_back(p: Pairs, z: Any) -> Any:
    """−i·z"""
    return p("complex_pair", p.part(z, 1), p("neg", p.part(z, 0)))


def beyond(p: Pairs, x: Any, number: int) -> Any:
    """x + number, as pairs."""
    return p("add", p.pair(x), p.pair(number))


def asin(p: Pairs, x: Any) -> Any:
    """−i·log(iz + √(1 − z²))"""
    z = p.pair(x)
    root = p("complex_sqrt", p("neg", beyond(p, p("complex_mul", z, z), -1)))
    return turned_back(p, p("complex_log", p("add", turned(p, z), root)))


def acos(p: Pairs, x: Any) -> Any:
    """π/2 − asin z"""
    return p("neg", p("sub", asin(p, x), p.pair(math.pi / 2)))


def asinh(p: Pairs, x: Any) -> Any:
    """−i·asin(iz)"""
    return turned_back(p, asin(p, turned(p, p.pair(x))))


def acosh(p: Pairs, x: Any) -> Any:
    """log(z + √(z + 1)·√(z − 1))"""
    roots = [p("complex_sqrt", beyond(p, x, one)) for one in (1, -1)]
    return p("complex_log", p("add", p.pair(x), p("complex_mul", *roots)))


def atanh(p: Pairs, x: Any) -> Any:
    """(log(1 + z) − log(1 − z)) / 2"""
    logarithms = [p("complex_log", beyond(p, z, 1)) for z in (p.pair(x), p("neg", p.pair(x)))]
    return p("div", p("sub", *logarithms), 2)


def atan(p: Pairs, x: Any) -> Any:
    """−i·atanh(iz)"""
    return turned_back(p, atanh(p, turned(p, p.pair(x))))


# Entries chosen and turned round ---------------------------------------------------------------------------


def where(p: Pairs, condition: Any, x: Any, y: Any) -> Any:
    """x where the condition holds, y elsewhere."""
    return p("where", p.column(condition), p.pair(x), p.pair(y))


def masked_fill(p: Pairs, x: Any, mask: Any, value: Any) -> Any:
    """One number where a mask says so."""
    return where(p, mask, value, x)


def shifted(back: bool) -> Rule:
    """fftshift and its inverse: half the axis round."""

    def rule(p: Pairs, x: Any, dim: Any = None) -> Any:
        rank = len(x.shape)
        dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        axes = tuple(d % rank for d in dims)
        return p("roll", p.pair(x), shifts=tuple((p.number(x.shape[d]) + back) // 2 for d in axes), dims=axes)

    return rule


def rolled(p: Pairs, x: Any, shifts: Any, dims: Any = ()) -> Any | None:
    """Round along some axes; along all at once only the places say."""
    axes = tuple(d % len(x.shape) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    turns = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    return p("roll", p.pair(x), shifts=turns, dims=axes) if axes else None


def flipped(p: Pairs, x: Any, *dims: Any, **spoken: Any) -> Any:
    """The other way round along some axes."""
    (axes,) = spoken.values() if spoken else (dims[0] if isinstance(dims[0], (tuple, list)) else dims,)
    return p("flip", p.pair(x), dims=tuple(d % len(x.shape) for d in axes))


def adjoint(p: Pairs, x: Any) -> Any:
    """The transpose, conjugated."""
    rank = len(x.shape)
    return p("complex_conj", p("permute", p.pair(x), dims=(*range(rank - 2), rank - 1, rank - 2, rank)))


INVERSES: Mapping[str, Rule] = {"sin": asin, "cos": acos, "tan": atan, "sinh": asinh, "cosh": acosh, "tanh": atanh}
ARITHMETIC: Mapping[str, Rule] = {
    **{f"{prefix}{word}": rule for prefix in ("a", "arc") for word, rule in INVERSES.items()},
    "identity": lambda p, x: p.pair(x), "add": plus, "sub": minus, "subtract": minus, "mul": times, "multiply": times, "div": quotient, "divide": quotient,
    "true_divide": quotient, "neg": lambda p, x: p("neg", p.pair(x)), "negative": lambda p, x: p("neg", p.pair(x)),
    "rsub": lambda p, x, y, alpha=1: minus(p, y, x, alpha), "pow": power, "float_power": power,
    "square": lambda p, x: power(p, x, 2), "reciprocal": one_over(lambda p, x: x),
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "vdot": dotted, "vecdot": vecdot,
    "addmm": added_product, "addmv": added_product, "baddbmm": added_product, "linear": linear,
    "addcmul": fused("addcmul"), "addcdiv": fused("addcdiv"),
    "abs": function("complex_abs"), "absolute": function("complex_abs"), "angle": function("complex_angle"),
    "conj": function("complex_conj"), "conj_physical": function("complex_conj"), "_conj": function("complex_conj"),
    "exp": function("complex_exp"), "log": function("complex_log"), "sqrt": function("complex_sqrt"),
    "sin": function("complex_sin"), "cos": function("complex_cos"), "sinh": function("complex_sinh"),
    "cosh": function("complex_cosh"), "tan": over("complex_sin", "complex_cos"),
    "tanh": over("complex_sinh", "complex_cosh"), "rsqrt": one_over(lambda p, x: p("complex_sqrt", x)),
    "sigmoid": one_over(lambda p, x: p("add", p.pair(1), p("complex_exp", p("neg", x)))),
    "log2": logarithm(2), "log10": logarithm(10),
    "log1p": lambda p, x: p("complex_log", p("add", p.pair(x), p.pair(1))),
    "expm1": lambda p, x: p("sub", p("complex_exp", p.pair(x)), p.pair(1)),
    "exp2": lambda p, x: p("complex_exp", p("mul", p.pair(x), math.log(2))),
    "tanhshrink": lambda p, x: p("sub", p.pair(x), p("complex_div", p("complex_sinh", p.pair(x)),
                                                     p("complex_cosh", p.pair(x)))),
    "softsign": lambda p, x: p("div", p.pair(x), p.column(p("add", p("complex_abs", p.pair(x)), 1))),
    "lerp": blended, "addr": outer_added, "multi_dot": chain, "matrix_power": matrix_power, "var": spread(root=False),
    "std": spread(root=True), "sgn": direction, "complex": made("complex_pair"), "polar": made("complex_polar"),
    "adjoint": adjoint, "where": where, "masked_fill": masked_fill, "roll": rolled, "flip": flipped, "fftshift": shifted(back=False),
    "ifftshift": shifted(back=True),
    "imag": lambda p, x: p.part(p.pair(x), 1), "norm": norm, "vector_norm": norm,
}  # fmt: skip
"""Functions by their last word."""

REAL = frozenset({"abs", "absolute", "angle", "imag", "norm", "vector_norm", "var", "std"})
"""Those whose result is real."""

__all__ = ["ARITHMETIC", "REAL", "Pairs", "Rule"]
