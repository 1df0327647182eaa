"""Arithmetic and functions of complex tensors, in entries of the table on pairs: one table for texts and captures.

Comes in: a call's arguments, and a `Pairs` that has them as pairs. Goes out: the last result, or None where the call
asks for more than the rule knows. What is linear, or has an entry of its own, needs one; the others are said as the
mathematics says them: tan is sin by cos, a power is exp(y·log x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from symgrad.entries.shaping import axes_of
from symgrad.ops.calls.written import last_of


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


def added(entry: str) -> Rule:
    """x + alpha·y, or x − alpha·y."""
    return lambda p, x, y, alpha=1: p(entry, p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


plus, minus = added("add"), added("sub")


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
    return plus(p, base if beta == 1 else times(p, p.pair(base), beta), matmul(p, x, y), alpha)


def linear(p: Pairs, x: Any, weight: Any, bias: Any = None) -> Any:
    """x @ weight.T + bias."""
    product = p("complex_matmul", p.pair(x), p("permute", p.pair(weight), dims=(1, 0, 2)))
    return product if bias is None else p("add", product, p.pair(bias))


def vecdot(p: Pairs, x: Any, y: Any, dim: int = -1) -> Any:
    """Σ conj(x)·y along dim."""
    product = p("complex_mul", p("complex_conj", p.pair(x)), p.pair(y))
    return p("sum", product, dim=dim % (len(product.shape) - 1))


def fused(word: str) -> Rule:
    """base + value·x·y, or base + value·x/y."""

    def rule(p: Pairs, base: Any, x: Any, y: Any, *, value: Any = 1) -> Any:
        return plus(p, base, p("complex_mul" if word == "addcmul" else "complex_div", p.pair(x), p.pair(y)), value)

    return rule


# Functions ------------------------------------------------------------------------------------------------


def function(entry: str) -> Rule:
    """One entry on pairs."""
    return lambda p, x: p(entry, p.pair(x))


def norm(p: Pairs, x: Any, /, *arguments: Any, **keywords: Any) -> Any | None:
    """The real norm of the lengths |z|."""
    if "nuc" in (keywords.get("p"), *arguments[:1]):
        return None
    arguments = tuple(2 if a == "fro" else a for a in arguments)
    keywords = {k: 2 if v == "fro" else v for k, v in keywords.items()}
    return p.again(p("complex_abs", p.pair(x)), arguments, keywords)


def outer_added(p: Pairs, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """beta·base + alpha·x yᵀ."""
    column, row = p("unsqueeze", p.pair(x), dim=1), p("unsqueeze", p.pair(y), dim=0)
    return plus(p, base if beta == 1 else times(p, p.pair(base), beta), p("complex_mul", column, row), alpha)


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
        axes, ref = axes_of(dim, len(x.shape)), p.pair(x)
        less = correction if correction is not None else 1 if unbiased is None else int(unbiased)
        count = math.prod(p.number(x.shape[a]) for a in axes)
        if count <= less:
            return None
        away = p("sub", ref, p("mean", ref, dim=axes, keepdim=True))
        found = p("div", p("sum", p("square", p("complex_abs", away)), dim=axes, keepdim=keepdim), count - less)
        return p("sqrt", found) if root else found

    return rule


def along(entry: str) -> Rule:
    """A sum or mean over axes before the pairs."""

    def rule(p: Pairs, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        axes = axes_of(dim, len(x.shape))
        return p(entry, p.pair(x), dim=axes, keepdim=keepdim) if axes else p.pair(x)

    return rule


# Functions of functions ------------------------------------------------------------------------------------


def written(text: str, names: str = "x") -> Rule:
    """A rule in the words of the others, ``turn`` and ``back`` for i·z and −i·z."""

    def rule(p: Pairs, *arguments: Any, **spoken: Any) -> Any:
        def apply(word: str, *operands: Any, **options: Any) -> Any:
            own = {"turn": turned, "back": turned_back}
            return (own[word] if word in own else ARITHMETIC[word])(p, *operands, **options)

        given = dict(zip(names.split(), arguments, strict=False))
        word, operands, options = last_of(text, apply, {**given, **spoken})
        return apply(word, *operands, **options)

    return rule


def turned(p: Pairs, z: Any) -> Any:
    """i·z"""
    z = p.pair(z)
    return p("complex_pair", p("neg", p.part(z, 1)), p.part(z, 0))


def turned_back(p: Pairs, z: Any) -> Any:
    """−i·z"""
    z = p.pair(z)
    return p("complex_pair", p.part(z, 1), p("neg", p.part(z, 0)))


# Entries chosen and turned round ---------------------------------------------------------------------------


def shifted(back: bool) -> Rule:
    """fftshift and its inverse: half the axis round."""

    def rule(p: Pairs, x: Any, dim: Any = None) -> Any:
        axes = axes_of(dim, len(x.shape))
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


INVERSES = {
    "asin": "back(log(turn(x) + sqrt(-(x * x + -1))))",
    "acos": f"-(asin(x) - {math.pi / 2})",
    "atan": "back(atanh(turn(x)))",
    "asinh": "back(asin(turn(x)))",
    "acosh": "log(x + sqrt(x + 1) * sqrt(x + -1))",
    "atanh": "(log(x + 1) - log(-x + 1)) / 2",
}
"""By the logarithm and the root."""
SHORT = {
    "reciprocal": "1 / x", "tan": "sin(x) / cos(x)", "tanh": "sinh(x) / cosh(x)", "rsqrt": "1 / sqrt(x)",
    "sigmoid": "1 / (1 + exp(-x))", "square": "x ** 2", "log1p": "log(x + 1)", "expm1": "exp(x) - 1",
    "log2": f"log(x) / {math.log(2)}", "log10": f"log(x) / {math.log(10)}", "exp2": f"exp(x * {math.log(2)})",
    "tanhshrink": "x - tanh(x)",
}  # fmt: skip
ARITHMETIC: Mapping[str, Rule] = {
    **{word: written(text) for word, text in (*SHORT.items(), *INVERSES.items())},
    **{f"arc{word[1:]}": written(text) for word, text in INVERSES.items()},
    "lerp": written("x + (end - x) * weight", "x end weight"), "masked_fill": written("where(mask, value, x)", "x mask value"),
    "identity": lambda p, x: p.pair(x), "add": plus, "sub": minus, "subtract": minus, "mul": times, "multiply": times, "div": quotient, "divide": quotient,
    "true_divide": quotient, "neg": lambda p, x: p("neg", p.pair(x)), "negative": lambda p, x: p("neg", p.pair(x)),
    "rsub": lambda p, x, y, alpha=1: minus(p, y, x, alpha), "pow": power, "float_power": power,
    "matmul": matmul, "mm": matmul, "bmm": matmul, "mv": matmul, "dot": matmul, "vdot": written("dot(conj(x), y)", "x y"), "vecdot": vecdot,
    "addmm": added_product, "addmv": added_product, "baddbmm": added_product, "linear": linear,
    "addcmul": fused("addcmul"), "addcdiv": fused("addcdiv"),
    **{word: function(f"complex_{word}") for word in ("abs", "angle", "conj", "exp", "log", "sqrt", "sin", "cos", "sinh", "cosh")},
    "absolute": function("complex_abs"), **dict.fromkeys(("conj_physical", "_conj"), function("complex_conj")),
    "softsign": lambda p, x: p("div", p.pair(x), p.column(p("add", p("complex_abs", p.pair(x)), 1))),
    "addr": outer_added, "multi_dot": chain, "matrix_power": matrix_power, "var": spread(root=False),
    "std": spread(root=True), "sgn": lambda p, x: p("div", p.pair(x), p.column(p("add", n := p("complex_abs", p.pair(x)), p("eq", n, 0)))),
    "complex": lambda p, x, y: p("complex_pair", p.real(x), p.real(y)), "polar": lambda p, x, y: p("complex_polar", p.real(x), p.real(y)),
    "adjoint": adjoint, "where": lambda p, condition, x, y: p("where", p.column(condition), p.pair(x), p.pair(y)), "roll": rolled, "flip": flipped, "fftshift": shifted(back=False),
    "ifftshift": shifted(back=True),
    "sum": along("sum"), "mean": along("mean"), "imag": lambda p, x: p.part(p.pair(x), 1), "norm": norm, "vector_norm": norm,
}  # fmt: skip
"""Functions by their last word."""

REAL = frozenset({"abs", "absolute", "angle", "imag", "norm", "vector_norm", "var", "std"})
"""Those whose result is real."""
UNMOVED = frozenset({"complex_conj", "complex_real"})
"""Entries that leave a real tensor as it is."""

__all__ = ["ARITHMETIC", "REAL", "UNMOVED", "Pairs", "Rule"]
