"""Arithmetic and functions of complex tensors, in entries of the table on pairs: one table for texts and captures.

Comes in: a call's arguments, and a `PairsApplier` that has them as pairs. Goes out: the last result, or None where the call
asks for more than the rule knows. What is linear, or has an entry of its own, needs one; the others are said as the
mathematics says them: tan is sin by cos, a power is exp(y·log x).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import Any, Protocol

from symgrad.entries.operands import axes_of, axis_of, require_rank
from symgrad.entries.signatures import call_of
from symgrad.ops.calls.call_texts import last_step_of_text
from symgrad.ops.calls.registry import drop_empty_operands


class PairsApplier(Protocol):
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
"""Takes `PairsApplier` and the call's own arguments."""


def times(p: PairsApplier, x: Any, y: Any) -> Any:
    """A product; a real factor counts for both parts."""
    if p.paired(y) and not p.paired(x):
        x, y = y, x
    if p.paired(y) or isinstance(y, complex):
        return p("complex_mul", p.pair(x), p.pair(y))
    return p("mul", p.pair(x), p.column(y))


def complex_quotient(p: PairsApplier, x: Any, y: Any, rounding_mode: str | None = None) -> Any | None:
    """A quotient; a real divisor divides both parts."""
    if rounding_mode is not None:
        return None
    if not p.paired(y) and not isinstance(y, complex):
        return p("div", p.pair(x), p.column(y))
    return p("complex_div", p.pair(x), p.pair(y))


def add_scaled(entry: str) -> Rule:
    """x + alpha·y, or x − alpha·y."""
    return lambda p, x, y, alpha=1: p(entry, p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


def complex_power(p: PairsApplier, x: Any, y: Any) -> Any:
    """A small whole power as products, any other by exp(y·log x)."""
    if isinstance(y, (int, float)) and float(y).is_integer() and 0 < abs(y) <= 8:
        result = reduce(partial(p, "complex_mul"), [p.pair(x)] * int(abs(y)))
        return result if y > 0 else p("complex_div", p.pair(1), result)
    if y == 0.5:
        return p("complex_sqrt", p.pair(x))
    return p("complex_exp", times(p, p("complex_log", p.pair(x)), y))


def vecdot(p: PairsApplier, x: Any, y: Any, dim: int = -1) -> Any:
    """Σ conj(x)·y along dim."""
    product = p("complex_mul", p("complex_conj", p.pair(x)), p.pair(y))
    return p("sum", product, dim=dim % (len(product.shape) - 1))


# Functions ------------------------------------------------------------------------------------------------


def function(entry: str) -> Rule:
    """One entry on pairs."""
    return lambda p, x, **options: p(entry, p.pair(x), **options)


def norm(p: PairsApplier, x: Any, /, *arguments: Any, **keywords: Any) -> Any | None:
    """The real norm of the lengths |z|."""
    if "nuc" in (keywords.get("p"), *arguments[:1]):
        return None
    arguments = tuple(2 if a == "fro" else a for a in arguments)
    keywords = {k: 2 if v == "fro" else v for k, v in keywords.items()}
    return p.again(p("complex_abs", p.pair(x)), arguments, keywords)


def variance(p: PairsApplier, x: Any, *given: Any, **spoken: Any) -> Any:
    """The mean of |z − mean|², with n − correction for n: that of both parts together."""
    options = {**dict(zip(("dim", "unbiased", "keepdim"), given, strict=False)), **spoken}
    return p("add", *(p("var", p.part(p.pair(x), half), **options) for half in (0, 1)))


def reduce_over_axes(
    entry: str, p: PairsApplier, x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Any:
    """A sum or mean over axes before the pairs."""
    axes = axes_of(dim, len(x.shape))
    return p(entry, p.pair(x), dim=axes, keepdim=keepdim) if axes else p.pair(x)


def joined(entry: str, more: int, p: PairsApplier, tensors: Any, dim: int = 0) -> Any:
    """Along one of the leading axes, without what torch passes over there, or along one ``more`` in front of the pairs."""
    pairs = [p.pair(t) for t in (tensors if more else drop_empty_operands(tensors))]
    rank = len(require_rank(pairs[0].shape[:-1], 1 - more)) + more
    return p(entry, *pairs, dim=axis_of(dim, rank))


# Functions of functions ------------------------------------------------------------------------------------


def rule_from_text(call: str, text: str) -> Rule:
    """A rule in the words of the others and of entries on pairs, ``turn`` and ``back`` for i·z and −i·z."""
    signature = call_of(call).signature

    def rule(p: PairsApplier, *arguments: Any, **spoken: Any) -> Any:
        def apply(word: str, *operands: Any, **options: Any) -> Any:
            return (TURNS.get(word) or ARITHMETIC.get(word) or function(word))(p, *operands, **options)

        given = signature.bind(*arguments, **spoken)
        given.apply_defaults()
        word, operands, options = last_step_of_text(text, apply, given.arguments)
        return apply(word, *operands, **options)

    return rule


def times_i(p: PairsApplier, z: Any) -> Any:
    """i·z"""
    z = p.pair(z)
    return p("complex_pair", p("neg", p.part(z, 1)), p.part(z, 0))


def turned_back(p: PairsApplier, z: Any) -> Any:
    """−i·z"""
    z = p.pair(z)
    return p("complex_pair", p.part(z, 1), p("neg", p.part(z, 0)))


# Entries chosen and turned round ---------------------------------------------------------------------------


def shift_frequencies(way: int, p: PairsApplier, x: Any, dim: Any = None) -> Any:
    """fftshift and its inverse: half the axis round."""
    axes = axes_of(dim, len(x.shape))
    return roll_pairs(p, x, tuple(way * (p.number(x.shape[axis]) // 2) for axis in axes), axes)


def roll_pairs(p: PairsApplier, x: Any, shifts: Any, dims: Any = ()) -> Any | None:
    """Round along some axes; along all at once only the places say."""
    axes = tuple(d % len(x.shape) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    turns = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    return p("roll", p.pair(x), shifts=turns, dims=axes) if axes else None


def flip_pairs(p: PairsApplier, x: Any, *dims: Any, **spoken: Any) -> Any:
    """The other way round along some axes."""
    (axes,) = spoken.values() if spoken else (dims[0] if isinstance(dims[0], (tuple, list)) else dims,)
    return p("flip", p.pair(x), dims=tuple(d % len(x.shape) for d in axes))


def rules_by_spelling(table: str) -> dict[str, Rule]:
    """The rules of a table, each under all of its words."""
    found: dict[str, Rule] = {}
    for row in table.strip().splitlines():
        call, _, text = row.partition(" = ")
        words, _, parameters = call.partition("(")
        found |= dict.fromkeys(words.split(", "), rule_from_text(f"rule({parameters}", text))
    return found


TURNS: Mapping[str, Rule] = {"turn": times_i, "back": turned_back}
TEXTS = f"""
reciprocal(x) = 1 / x
square(x) = x ** 2
rsqrt(x) = 1 / sqrt(x)
log1p(x) = log(x + 1)
log2(x) = log(x) / {math.log(2)}
log10(x) = log(x) / {math.log(10)}
exp2(x) = exp(x * {math.log(2)})
expm1(x) = exp(x) - 1
tan(x) = sin(x) / cos(x)
tanh(x) = sinh(x) / cosh(x)
tanhshrink(x) = x - tanh(x)
sigmoid(x) = 1 / (1 + exp(-x))
asin, arcsin(x) = back(log(turn(x) + sqrt(-(x * x + -1))))
acos, arccos(x) = -(asin(x) - {math.pi / 2})
atan, arctan(x) = back(atanh(turn(x)))
asinh, arcsinh(x) = back(asin(turn(x)))
acosh, arccosh(x) = log(x + sqrt(x + 1) * sqrt(x + -1))
atanh, arctanh(x) = (log(x + 1) - log(-x + 1)) / 2
lerp(x, end, weight) = x + (end - x) * weight
masked_fill(x, mask, value) = where(mask, value, x)
rsub(x, y, alpha=None) = y - x * alpha
addcmul(base, x, y, *, value=None) = base + x * y * value
addcdiv(base, x, y, *, value=None) = base + x / y * value
mm, bmm, mv, dot(x, y) = x @ y
vdot(x, y) = conj(x) @ y
adjoint(x) = conj(transpose(x, dim0=-3, dim1=-2))
linear(x, weight, bias=None) = x @ transpose(weight, dim0=0, dim1=1) + bias
addmm, addmv, baddbmm(base, x, y, *, beta=None, alpha=None) = base * beta + x @ y * alpha
addr(base, x, y, *, beta=None, alpha=None) = base * beta + unsqueeze(x, dim=1) * unsqueeze(y, dim=0) * alpha
"""
"""What is said in the words of others; the inverse functions by the logarithm and the root. The pairs are the last axis."""
ARITHMETIC: Mapping[str, Rule] = {
    **rules_by_spelling(TEXTS),
    "identity": lambda p, x: p.pair(x), **dict.fromkeys(("neg", "negative"), function("neg")),
    "add": add_scaled("add"), **dict.fromkeys(("sub", "subtract"), add_scaled("sub")), **dict.fromkeys(("mul", "multiply"), times),
    **dict.fromkeys(("div", "divide", "true_divide"), complex_quotient), **dict.fromkeys(("pow", "float_power"), complex_power),
    "matmul": lambda p, x, y: p("complex_matmul", p.pair(x), p.pair(y)), "vecdot": vecdot,
    "multi_dot": lambda p, tensors: reduce(partial(p, "complex_matmul"), map(p.pair, tensors)),
    "matrix_power": lambda p, x, n: ARITHMETIC["multi_dot"](p, [x] * n) if 0 < n <= 8 else None,
    **{word: function(f"complex_{word}") for word in ("abs", "angle", "conj", "exp", "log", "sqrt", "sin", "cos", "sinh", "cosh")},
    "absolute": function("complex_abs"), **dict.fromkeys(("conj_physical", "_conj"), function("complex_conj")),
    "softsign": lambda p, x: p("div", p.pair(x), p.column(p("add", p("complex_abs", p.pair(x)), 1))),
    "sgn": lambda p, x: p("div", p.pair(x), p.column(p("add", n := p("complex_abs", p.pair(x)), p("eq", n, 0)))),
    "var": variance, "std": lambda p, x, *given, **spoken: p("sqrt", variance(p, x, *given, **spoken)),
    "complex": lambda p, x, y: p("complex_pair", p.real(x), p.real(y)), "polar": lambda p, x, y: p("complex_polar", p.real(x), p.real(y)),
    "where": lambda p, condition, x, y: p("where", p.column(condition), p.pair(x), p.pair(y)), "roll": roll_pairs, "flip": flip_pairs,
    "fftshift": partial(shift_frequencies, 1), "ifftshift": partial(shift_frequencies, -1), "sum": partial(reduce_over_axes, "sum"), "mean": partial(reduce_over_axes, "mean"),
    **dict.fromkeys(("cat", "concat", "concatenate"), partial(joined, "cat", 0)), "stack": partial(joined, "stack", 1),
    "imag": lambda p, x: p.part(p.pair(x), 1), "norm": norm, "vector_norm": norm,
}  # fmt: skip
"""Functions by their last word."""

REAL = frozenset({"abs", "absolute", "angle", "imag", "norm", "vector_norm", "var", "std"})
"""Those whose result is real."""
UNMOVED = frozenset({"complex_conj", "complex_real"})
"""Entries that leave a real tensor as it is."""
