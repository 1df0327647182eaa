"""Calls on complex tensors, lifted on pairs: a complex tensor is a real one with one more axis, (re, im).

Comes in: a recorded call that reads or makes a complex tensor. Goes out: entries of the table on pairs
(`symgrad.ops.complex_pairs`), and real ones on the leading axes; what is linear is said by halves, what only
picks entries by their places. The value is compared with torch's afterwards, part by part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.language.builder import Operand
from symgrad.language.calls import Ref
from symgrad.ops.lookup import find, named
from symgrad.tracing.boxes import BlackBox
from symgrad.tracing.lifted import Refused
from symgrad.tracing.pairs import Pairs, Rule, is_complex
from symgrad.tracing.picking import by_places
from symgrad.tracing.rewrites import basic_key
from symgrad.tracing.spectra import SPECTRA
from symgrad.tracing.spelling import plain_spelling, reflected
from symgrad.tracing.trace import Node, mapped

if TYPE_CHECKING:
    from symgrad.tracing.lift import Lifter

SAME = frozenset({"clone", "contiguous", "positive", "resolve_conj", "resolve_neg", "alias", "view_as_real",
                  "requires_grad", "cpu", "lift_fresh"})  # fmt: skip
"""The pairs stay as they are."""
CASTS = frozenset({"to", "type", "type_as", "cdouble", "cfloat", "chalf", "double", "float", "half", "real"})
"""To complex from real and the other way round."""
LINEAR = frozenset({"cumsum", "diff", "trace", "trapezoid", "trapz", "cumulative_trapezoid", "diagonal", "tril", "triu",
                    "pad", "constant_pad_nd", "sum", "mean"})  # fmt: skip
"""Linear in their first argument, with real coefficients: the same of either half."""
BILINEAR = frozenset({"outer", "ger", "einsum", "tensordot", "kron", "inner", "conv1d", "conv2d", "conv3d", "cross"})
"""Linear in each of two tensors, with real coefficients."""


# Arithmetic -----------------------------------------------------------------------------------------------


def times(p: Pairs, x: Any, y: Any) -> Ref:
    """A product; a real factor counts for both parts."""
    if paired(y) and not paired(x):
        x, y = y, x
    if paired(x) and not paired(y) and not isinstance(y, complex):
        return p("mul", p.pair(x), p.column(y))
    return p("complex_mul", p.pair(x), p.pair(y))


def paired(value: Any) -> bool:
    """Whether a factor is a tensor of pairs: a complex node, or an earlier step."""
    return isinstance(value, Ref) or (isinstance(value, Node) and is_complex(value))


def quotient(p: Pairs, x: Any, y: Any, rounding_mode: str | None = None) -> Ref | None:
    """A quotient; a real divisor divides both parts."""
    if rounding_mode is not None:
        return None
    if not is_complex(y) and not isinstance(y, Ref):
        return p("div", p.pair(x), p.column(y))
    return p("complex_div", p.pair(x), p.pair(y))


def plus(p: Pairs, x: Any, y: Any, alpha: Any = 1) -> Ref:
    """x + alpha·y."""
    return p("add", p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


def minus(p: Pairs, x: Any, y: Any, alpha: Any = 1) -> Ref:
    """x − alpha·y."""
    return p("sub", p.pair(x), p.pair(y) if alpha == 1 else times(p, p.pair(y), alpha))


def power(p: Pairs, x: Any, y: Any) -> Ref:
    """A small whole power as products, any other by exp(y·log x)."""
    if isinstance(y, (int, float)) and y == int(y) and 0 < abs(y) <= 8:
        base = result = p.pair(x)
        for _ in range(int(abs(y)) - 1):
            result = p("complex_mul", result, base)
        return result if y > 0 else p("complex_div", p.pair(1), result)
    if y == 0.5:
        return p("complex_sqrt", p.pair(x))
    return p("complex_exp", times(p, p("complex_log", p.pair(x)), y))


def matmul(p: Pairs, x: Any, y: Any) -> Ref:
    """A product of matrices, of vectors, of batches."""
    return p("complex_matmul", p.pair(x), p.pair(y))


def added_product(p: Pairs, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Ref:
    """beta·base + alpha·(x @ y)."""
    product = matmul(p, x, y)
    product = product if alpha == 1 else times(p, product, alpha)
    return p("add", p.pair(base) if beta == 1 else times(p, p.pair(base), beta), product)


def linear(p: Pairs, x: Any, weight: Any, bias: Any = None) -> Ref:
    """x @ weight.T + bias."""
    product = p("complex_matmul", p.pair(x), p("permute", p.pair(weight), (1, 0, 2)))
    return product if bias is None else p("add", product, p.pair(bias))


def dotted(p: Pairs, x: Any, y: Any) -> Ref:
    """Σ conj(x)·y."""
    return p("complex_matmul", p("complex_conj", p.pair(x)), p.pair(y))


def vecdot(p: Pairs, x: Any, y: Any, dim: int = -1) -> Ref:
    """Σ conj(x)·y along dim."""
    product = p("complex_mul", p("complex_conj", p.pair(x)), p.pair(y))
    return p("sum", product, dim % (len(product.shape) - 1))


def fused(word: str) -> Rule:
    """base + value·x·y, or base + value·x/y."""

    def rule(p: Pairs, base: Any, x: Any, y: Any, *, value: Any = 1) -> Ref:
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


def one_over(inner: Callable[[Pairs, Ref], Ref]) -> Rule:
    """The reciprocal of something."""
    return lambda p, x: p("complex_div", p.pair(1), inner(p, p.pair(x)))


def logarithm(base: float) -> Rule:
    """log to another base."""
    return lambda p, x: p("div", p("complex_log", p.pair(x)), float(np.log(base)))


def made(entry: str) -> Rule:
    """A complex tensor from two real ones."""
    return lambda p, x, y: p(entry, p.real(x), p.real(y))


def direction(p: Pairs, x: Any) -> Ref:
    """z / |z|."""
    return p("div", p.pair(x), p.column(p("complex_abs", p.pair(x))))


def norm(p: Pairs, x: Any, /, *arguments: Any, **keywords: Any) -> Ref | None:
    """The real norm of the lengths |z|."""
    if keywords.get("p", 2) in ("fro", "nuc") or (arguments and isinstance(arguments[0], str)):
        return None
    call = p.node.call
    assert call is not None
    op = find(plain_spelling(call.spelling)) or named("norm")
    return p.lifter.apply_op(op, call.spelling, (p("complex_abs", p.pair(x)), *arguments), keywords)


# Arranging ------------------------------------------------------------------------------------------------


def total(word: str) -> Rule:
    """A sum or mean over leading axes."""

    def rule(p: Pairs, x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Ref:
        ref, rank = p.pair(x), len(x.shape)
        if not rank:
            return ref
        dims = tuple(range(rank)) if dim is None or dim == () or dim == [] else dim
        dims = tuple(d % rank for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
        return p(word, ref, dims, keepdim)

    return rule


def joined(word: str) -> Rule:
    """cat or stack along one of the leading axes."""

    def rule(p: Pairs, tensors: Any, dim: int = 0) -> Ref:
        rank = len(p.node.shape)
        return p(word, [p.pair(t) for t in tensors], dim % rank)

    return rule


def where(p: Pairs, condition: Any, x: Any, y: Any) -> Ref:
    """x where the condition holds, y elsewhere."""
    return p("where", p.column(condition), p.pair(x), p.pair(y))


def masked_fill(p: Pairs, x: Any, mask: Any, value: Any) -> Ref:
    """One number where a mask says so."""
    return where(p, mask, value, x)


def expand(p: Pairs, x: Any, *_: Any, **__: Any) -> Ref:
    """The same entries along new axes."""
    return p("expand", p.pair(x), (*p.node.shape, 2))


def indexed(p: Pairs, x: Any, key: Any) -> Ref | None:
    """An index of integers and slices."""
    basic = basic_key(key, len(x.shape))
    if basic is None:
        return None
    ref = p.pair(x)
    return p.lifter.emit(named("getitem"), [Operand(ref, ref.name)], {"key": (*basic, ("all",))})


def shifted(back: bool) -> Rule:
    """fftshift and its inverse: half the axis round."""

    def rule(p: Pairs, x: Any, dim: Any = None) -> Ref:
        rank = len(x.shape)
        dims = range(rank) if dim is None else dim if isinstance(dim, (tuple, list)) else (dim,)
        axes = tuple(d % rank for d in dims)
        return p("roll", p.pair(x), tuple((x.shape[d] + back) // 2 for d in axes), axes)

    return rule


def rolled(p: Pairs, x: Any, shifts: Any, dims: Any = ()) -> Ref | None:
    """Round along some axes; along all at once only the places say."""
    axes = tuple(d % len(x.shape) for d in (dims if isinstance(dims, (tuple, list)) else (dims,)))
    turns = tuple(shifts) if isinstance(shifts, (tuple, list)) else (shifts,)
    return p("roll", p.pair(x), turns, axes) if axes else None


def flipped(p: Pairs, x: Any, *dims: Any, **spoken: Any) -> Ref:
    """The other way round along some axes."""
    (axes,) = spoken.values() if spoken else (dims[0] if isinstance(dims[0], (tuple, list)) else dims,)
    return p("flip", p.pair(x), tuple(d % len(x.shape) for d in axes))


def copied(p: Pairs, x: Any, source: Any, *_: Any) -> Ref:
    """Another tensor's values, written over these."""
    return p("expand", p.pair(source), (*p.node.shape, 2))


RULES: Mapping[str, Rule] = {
    "add": plus, "sub": minus, "subtract": minus, "mul": times, "multiply": times, "div": quotient, "divide": quotient,
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
    "sgn": direction, "complex": made("complex_pair"), "polar": made("complex_polar"),
    "imag": lambda p, x: p.part(p.pair(x), 1), "norm": norm, "vector_norm": norm,
    "sum": total("sum"), "mean": total("mean"), "cat": joined("cat"), "concat": joined("cat"),
    "concatenate": joined("cat"), "stack": joined("stack"), "where": where, "masked_fill": masked_fill,
    "expand": expand, "expand_as": expand, "broadcast_to": expand, "copy": copied,
    "view_as_complex": lambda p, x: p.real(x), "__getitem__": indexed, "roll": rolled, "flip": flipped,
    "fftshift": shifted(back=False), "ifftshift": shifted(back=True),
}  # fmt: skip
"""Functions by their last word."""


def touches(node: Node) -> bool:
    """Whether a call reads or makes a complex tensor, or passes through one."""
    call = node.call
    if call is None or call.spelling.endswith(".apply"):
        return False
    word = call.spelling.rpartition(".")[2]
    return is_complex(node) or any(map(is_complex, call.nodes())) or (word in SPECTRA and spectral(call.spelling))


def spectral(spelling: str) -> bool:
    """Whether a function is one of torch.fft, or the short-time transform."""
    return ".fft." in spelling or spelling.endswith("stft")


# The way in -----------------------------------------------------------------------------------------------


def by_pairs(lifter: Lifter, node: Node) -> Ref:
    """The call in entries of the table on pairs."""
    call = node.call
    assert call is not None
    word = plain_spelling(call.spelling).rpartition(".")[2]
    arguments, keywords = call.arguments, {k: v for k, v in call.keywords.items() if k != "out"}
    if reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    p, begin = Pairs(lifter, node), len(lifter.builder.steps)
    first = arguments[0] if arguments else None
    rule = (SPECTRA if spectral(call.spelling) and "shift" not in word else RULES).get(word)
    try:
        if word in SAME and isinstance(first, Node):
            return p.pair(first)
        if word in CASTS and isinstance(first, Node):
            return cast(p, first)
        ref = None if rule is None else rule(p, *arguments, **keywords)
        if ref is None and word in LINEAR:
            ref = by_halves(p, arguments, keywords)
        if ref is None and word in BILINEAR:
            ref = by_parts(p, arguments, keywords)
    except TypeError as error:  # the call has other arguments than the rule
        raise Refused(f"{word}: {error}") from error
    if ref is None:
        raise Refused(f"{plain_spelling(call.spelling)} of complex tensors is not in the table")
    if len(lifter.builder.steps) == begin + 1 and not call.in_place:
        read = tuple({id(n): n for n in call.nodes() if n.carries}.values())
        names = tuple(lifter.refs[id(n)].name for n in read)
        lifter.origins[ref.name] = BlackBox(ref.name, call.spelling, "", call, node.index, read, names)
    return ref


def cast(p: Pairs, x: Node) -> Ref:
    """Complex from real, real from complex, or the same in another precision."""
    if is_complex(p.node):
        return p.pair(x)
    return p.part(p.pair(x), 0)


def by_halves(p: Pairs, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
    """A linear function of the first argument: of either half."""
    call = p.node.call
    assert call is not None
    spelling = plain_spelling(call.spelling)
    op = find(spelling)
    if op is None or op.pairs:
        raise Refused(f"{spelling} is not in the table")
    found = [p.lifter.apply_op(op, spelling, (half, *arguments[1:]), keywords) for half in p.halves(arguments[0])]
    return p("complex_pair", *found)


def by_parts(p: Pairs, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref | None:
    """f(x, y) that is linear in both: (f(x₀, y₀) − f(x₁, y₁)) + i·(f(x₀, y₁) + f(x₁, y₀))."""
    call = p.node.call
    assert call is not None
    spelling, tensors = plain_spelling(call.spelling), list(call.nodes())
    op = find(spelling)
    if op is None or len(tensors) != 2 or tensors[0] is tensors[1]:
        return None

    def term(one: Ref, other: Ref) -> Ref:
        swap = {id(tensors[0]): one, id(tensors[1]): other}
        given, spoken = mapped((arguments, dict(keywords)), lambda v: swap.get(id(v), v))
        return p.lifter.apply_op(op, spelling, given, spoken)

    x, y = (p.halves(t) for t in tensors)
    if len(x) == 1:
        return p("complex_pair", term(x[0], y[0]), term(x[0], y[1]))
    if len(y) == 1:
        return p("complex_pair", term(x[0], y[0]), term(x[1], y[0]))
    real = p("sub", term(x[0], y[0]), term(x[1], y[1]))
    return p("complex_pair", real, p("add", term(x[0], y[1]), term(x[1], y[0])))


WAYS = (by_pairs, by_places)
"""The ways to lift a call on complex tensors, in turn."""

__all__ = ["WAYS", "touches"]
