"""Calls on complex tensors, lifted on pairs: a complex tensor is a real one with one more axis, (re, im).

Comes in: a recorded call that reads or makes a complex tensor. Goes out: entries of the table on pairs
(`symgrad.ops.complex.complex_pairs`), and real ones on the leading axes; what is linear is said by halves, what only
picks entries by their places. The value is compared with torch's afterwards, part by part.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from symgrad.language.calls import Ref
from symgrad.ops.calls.complex_rules import ARITHMETIC
from symgrad.ops.lookup import find
from symgrad.tracing.lift import inside
from symgrad.tracing.lift.bench import Bench
from symgrad.tracing.lift.complex import definitions as complex_definitions
from symgrad.tracing.lift.complex import matrices as complex_matrices
from symgrad.tracing.lift.complex import spectral as complex_spectra
from symgrad.tracing.lift.complex.pairs import Pairs, Rule, is_complex
from symgrad.tracing.lift.complex.picking import by_places
from symgrad.tracing.lift.complex.spectra import SPECTRA
from symgrad.tracing.lift.complex.views import ARRANGED
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.record.spelling import plain_spelling, reflected
from symgrad.tracing.record.trace import Node, mapped, parts_in

SAME = frozenset({"clone", "contiguous", "positive", "resolve_conj", "resolve_neg", "alias", "view_as_real",
                  "requires_grad", "cpu", "lift_fresh", "alias_copy", "to_dense", "_to_dense"})  # fmt: skip
"""The pairs stay as they are."""
CASTS = frozenset({"to", "type", "type_as", "cdouble", "cfloat", "chalf", "double", "float", "half", "bfloat16",
                   "real", "_to_copy"})  # fmt: skip
"""To complex from real and the other way round."""
LINEAR = frozenset({"cumsum", "diff", "trace", "diagonal", "tril", "triu", "pad", "constant_pad_nd", "sum", "mean",
                    "index_add", "scatter_add", "repeat", "tile"})  # fmt: skip
"""Linear in their complex arguments together, with real coefficients: the same of either half."""
BILINEAR = frozenset({
    "outer", "ger", "einsum", "tensordot", "kron", "inner", "cross",
    *(f"conv{kind}{n}d" for kind in ("", "_transpose") for n in (1, 2, 3)),
})  # fmt: skip
"""Linear in each of two tensors, with real coefficients."""
RULES: Mapping[str, Rule] = {**ARITHMETIC, **ARRANGED}
"""Functions by their last word."""
DEFINITIONS: Mapping[str, inside.Definition] = {**complex_definitions.DEFINITIONS, **complex_matrices.DEFINITIONS,
                                               **complex_spectra.DEFINITIONS}  # fmt: skip
"""The same, as programs of simpler functions."""


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


def by_pairs(lifter: Bench, node: Node) -> Ref:
    """The call in entries of the table on pairs."""
    call = node.call
    assert call is not None
    word = plain_spelling(call.spelling).rpartition(".")[2]
    arguments, keywords = call.arguments, {k: v for k, v in call.keywords.items() if k != "out"}
    if reflected(call.spelling):
        arguments = (arguments[1], arguments[0], *arguments[2:])
    p = Pairs(lifter, node, find(plain_spelling(call.spelling)))
    first = arguments[0] if arguments else None
    rule = (SPECTRA if spectral(call.spelling) and "shift" not in word else RULES).get(word)
    try:
        if word in SAME and isinstance(first, Node):
            return p.pair(first)
        if word in CASTS and isinstance(first, Node):
            return cast(p, first)
        ref: Ref | None = None if rule is None else rule(p, *arguments, **keywords)
        if ref is None and word in LINEAR:
            ref = by_halves(p, arguments, keywords)
        if ref is None and word in BILINEAR:
            ref = by_parts(p, arguments, keywords)
    except TypeError as error:  # the call has other arguments than the rule
        raise Refused(f"{word}: {error}") from error
    if ref is None:
        raise Refused(f"{plain_spelling(call.spelling)} of complex tensors is not in the table")
    return ref


def cast(p: Pairs, x: Node) -> Ref:
    """Complex from real, real from complex, or the same in another precision."""
    if is_complex(p.node):
        return p.pair(x)
    return p.part(p.pair(x), 0)


def by_halves(p: Pairs, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
    """A linear function: of the real parts, and of the imaginary parts."""
    tensors = [n for n in dict.fromkeys(p.call.nodes()) if is_complex(n)]
    if any(n.held.is_floating_point() for n in p.call.nodes()):
        raise Refused(f"{p.call.spelling} of complex and real tensors together")
    found = [p.halves(n) for n in tensors]
    return p("complex_pair", *(applied(p, arguments, keywords, dict(zip(tensors, h, strict=True)))
                               for h in zip(*found, strict=True)))  # fmt: skip


def by_parts(p: Pairs, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref | None:
    """f(x, y) that is linear in both: (f(x₀, y₀) − f(x₁, y₁)) + i·(f(x₀, y₁) + f(x₁, y₀))."""
    tensors = list(p.call.nodes())
    if len(tensors) == 1:
        return by_halves(p, arguments, keywords)
    if len(tensors) == 3 and "conv" in p.call.spelling:
        *tensors, bias = tensors
        without = by_product(p, *mapped((arguments, dict(keywords)), lambda v: None if v is bias else v))
        ones = (1,) * (len(tensors[1].shape) - 2)  # a channel's bias counts at every place
        return p("add", without, p("reshape", p.pair(bias), (*bias.shape, *ones, 2)))
    return by_product(p, arguments, keywords) if len(tensors) == 2 else None


def by_product(p: Pairs, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> Ref:
    """A function of two tensors, by the parts of both."""
    one, other = parts_in((arguments, dict(keywords)), Node)
    x, y = p.halves(one), p.halves(other)

    def term(s: int, t: int) -> Ref:
        return applied(p, arguments, keywords, {}, [x[s], y[t]])

    if len(x) == 1:
        return p("complex_pair", term(0, 0), term(0, 1))
    if len(y) == 1:
        return p("complex_pair", term(0, 0), term(1, 0))
    return p("complex_pair", p("sub", term(0, 0), term(1, 1)), p("add", term(0, 1), term(1, 0)))


def applied(
    p: Pairs,
    arguments: tuple[Any, ...],
    keywords: Mapping[str, Any],
    swap: Mapping[Node, Ref],
    in_turn: Sequence[Ref] = (),
) -> Ref:
    """The call's own entry, with its tensors replaced: by what they are, or in turn."""
    spelling, rest = plain_spelling(p.call.spelling), iter(in_turn)
    op = find(spelling)
    if op is None or op.pairs:
        raise Refused(f"{spelling} is not in the table")

    def change(part: Any) -> Any:
        return next(rest, swap.get(part, part)) if isinstance(part, Node) else part

    given, spoken = mapped((arguments, dict(keywords)), change)
    return p.lifter.apply_op(op, spelling, given, spoken)


def by_definition(lifter: Bench, node: Node) -> Ref:
    """The call as it is defined in simpler ones."""
    assert node.call is not None
    definition = DEFINITIONS.get(plain_spelling(node.call.spelling).rpartition(".")[2])
    if definition is None:
        raise Refused("")
    return inside.lifted(lifter, node, definition)


def by_operations(lifter: Bench, node: Node) -> Ref:
    """The operations that torch runs inside the call."""
    if node.call is not None and isinstance(node.call.function, torch._ops.OpOverload):
        raise Refused("")
    return inside.lifted(lifter, node)


WAYS = (by_pairs, by_places, by_definition, by_operations)
"""The ways to lift a call on complex tensors, in turn."""

__all__ = ["WAYS", "touches"]
