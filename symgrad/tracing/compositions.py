"""Torch calls that are several entries of the table one after the other, said so.

Comes in: a call that the table does not spell as it was written. Goes out: the last of its steps. Each is torch's
own definition in words; the value is compared with torch's afterwards, like that of every other step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.numeric.exact import as_float
from symgrad.ops.compounds import SHORTCUT, find_compound
from symgrad.tracing import (
    draws,
    factor_calls,
    layer_calls,
    matrix_calls,
    placing,
    sequences,
    sparse_calls,
    statistic_calls,
    weight_calls,
)
from symgrad.tracing.lifted import Refused
from symgrad.tracing.steps import Composition, Said, Steps, done, joined_parts
from symgrad.tracing.trace import Node, as_array

if TYPE_CHECKING:
    from symgrad.tracing.lift import Lifter


def clamp(steps: Steps, node: Node, x: Any, min: Any = None, max: Any = None) -> Said | None:
    """min where x < min, then max where that is > max; at a bound the derivative is x's, as in torch."""
    if not isinstance(min, Node) and not isinstance(max, Node):
        return None
    if min is not None:
        x = steps("where", steps("ge", x, min), x, min)
    if max is not None:
        x = steps("where", steps("le", x, max), x, max)
    return done(x)


def clamp_min(steps: Steps, node: Node, x: Any, min: Any) -> Said | None:
    """clamp from below."""
    return clamp(steps, node, x, min) or ("torch.clamp", (x,), {"min": min})


def clamp_max(steps: Steps, node: Node, x: Any, max: Any) -> Said | None:
    """clamp from above."""
    return clamp(steps, node, x, None, max) or ("torch.clamp", (x,), {"max": max})


def softplus(steps: Steps, node: Node, x: Any, beta: Any = 1, threshold: Any = SHORTCUT) -> Said | None:
    """log(1 + exp(x)), and x itself where the run took torch's shortcut."""
    soft = steps("softplus", x)
    beyond = bool((node.value() > SHORTCUT).any())
    return done(steps("where", steps("gt", x, SHORTCUT), x, soft) if beyond else soft)


def div(steps: Steps, node: Node, x: Any, y: Any, rounding_mode: str | None = None) -> Said | None:
    """A quotient, rounded towards 0 or down."""
    if rounding_mode is None:
        return None
    return "torch." + rounding_mode, (steps("div", x, y),), {}


def moments(word: str) -> Composition:
    """Variance or deviation, and the mean, of one call."""

    def two(steps: Steps, node: Node, x: Any, dim: Any = None, *rest: Any, **keywords: Any) -> Said | None:
        if rest:
            return None
        if isinstance(dim, bool):  # torch's older spelling: whether to divide by n − 1
            dim, keywords = None, {**keywords, "correction": int(dim)}
        if keywords.get("dim") is not None:
            dim = keywords["dim"]
        keywords.pop("dim", None)
        if node.index == 0:
            return f"torch.{word}", (x,), {**keywords, **({} if dim is None else {"dim": dim})}
        keepdim = {"keepdim": keywords["keepdim"]} if "keepdim" in keywords else {}
        return "torch.mean", (x,), {**keepdim, **({} if dim is None else {"dim": dim})}

    return two


def angle(steps: Steps, node: Node, x: Any) -> Said | None:
    """π where a real number is negative, else 0."""
    return "torch.mul", (steps("lt", x, 0), math.pi), {}


def zero(steps: Steps, node: Node, x: Any) -> Said | None:
    """0 in the same shape."""
    return "torch.zeros_like", (x,), {}


def fill(steps: Steps, node: Node, x: Any, value: Any) -> Said | None:
    """One number everywhere."""
    if isinstance(value, Node):
        return "Tensor.expand", (value, tuple(x.shape)), {}
    return "torch.mul", (steps("ones_like", x), float(value)), {}


def constant_pad_nd(steps: Steps, node: Node, x: Any, pad: Any, value: Any = 0) -> Said | None:
    """Padding with one number."""
    return "F.pad", (x, tuple(pad)), {"value": value}


def norm(
    steps: Steps, node: Node, x: Any, p: Any = None, dim: Any = None, keepdim: bool = False, **other: Any
) -> Said | None:
    """The largest |x| for p = ∞, the smallest for p = −∞."""
    p = other.pop("ord", p)
    if any(v is not None for v in other.values()):
        return None
    if not isinstance(p, (int, float)) or not math.isinf(p):
        return None
    return (
        "torch.amax" if p > 0 else "torch.amin",
        (steps("abs", x),),
        {"dim": () if dim is None else dim, "keepdim": keepdim},
    )


def vector_norm(
    steps: Steps, node: Node, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, **other: Any
) -> Said | None:
    """The same under its other name."""
    return norm(steps, node, x, ord, dim, keepdim, **other)


def renorm(steps: Steps, node: Node, x: Any, p: Any, dim: int, maxnorm: Any) -> Said | None:
    """Slices shortened by their largest |x|, where p = ∞."""
    if not math.isinf(p):
        return None
    others = tuple(a for a in range(len(x.shape)) if a != dim % len(x.shape))
    size = steps("amax", steps("abs", x), dim=others, keepdim=True)
    factor = steps("mul", steps("reciprocal", steps("add", size, 1e-7)), float(maxnorm))
    return "torch.mul", (x, steps("where", steps("gt", size, float(maxnorm)), factor, 1.0)), {}


def frexp(steps: Steps, node: Node, x: Any) -> Said | None:
    """x divided by the power of two that brings it between ½ and 1: a whole number, locally constant."""
    powers = np.frexp(as_float(as_array(x.held)))[1]
    return "torch.mul", (x, steps.lifter.data("scale", np.ldexp(1.0, -powers))), {}


def nextafter(steps: Steps, node: Node, x: Any, y: Any) -> Said | None:
    """x, moved by the least that can be; y only says which way. Where both are equal it is y."""
    expanded = steps("expand", x, node.shape) if tuple(x.shape) != node.shape else x
    step = as_array(node.held) - np.broadcast_to(as_array(x.held), node.shape)
    return "torch.add", (expanded, steps.lifter.data("least", step)), {}


def pad(steps: Steps, node: Node, x: Any, pad: Any, mode: str = "constant", value: Any = None) -> Said | None:
    """What is negative cuts off; then the rest goes round, is mirrored or repeated."""
    if mode == "constant" or min(pad) >= 0:
        return None
    for n in range(len(pad) // 2):
        before, after = (max(-p, 0) for p in pad[2 * n : 2 * n + 2])
        axis = len(x.shape) - 1 - n
        x = steps("narrow", x, axis, before, steps.number(x.shape[axis]) - before - after)
    return "F.pad", (x, tuple(max(p, 0) for p in pad)), {"mode": mode}


def cat(
    steps: Steps, node: Node, tensors: Any = None, dim: Any = 0, *, axis: Any = None, **other: Any
) -> Said | None:  # fmt: skip
    """Without what torch passes over: it joins a tensor without entries and with one axis to any other."""
    parts = joined_parts(other.pop("tensors", tensors))
    dim = dim if axis is None else axis
    if len(parts) == 1:
        return "Tensor.clone", (parts[0],), {}
    return "torch.cat", (parts, dim), {}


COMPOSITIONS: Mapping[str, Composition] = {
    "clamp": clamp, "clip": clamp, "clamp_min": clamp_min, "clamp_max": clamp_max, "softplus": softplus,
    "div": div, "divide": div, "var_mean": moments("var"), "std_mean": moments("std"), "angle": angle, "zero": zero,
    "fill": fill, "constant_pad_nd": constant_pad_nd, "norm": norm, "vector_norm": vector_norm,
    "renorm": renorm, "frexp": frexp, "nextafter": nextafter, "pad": pad,
    **dict.fromkeys(("cat", "concat", "concatenate"), cat),
    **placing.COMPOSITIONS, **layer_calls.COMPOSITIONS, **statistic_calls.COMPOSITIONS,
    **matrix_calls.COMPOSITIONS, **draws.COMPOSITIONS, **factor_calls.COMPOSITIONS, **sequences.COMPOSITIONS,
    **weight_calls.COMPOSITIONS, **sparse_calls.COMPOSITIONS,
}  # fmt: skip
"""Functions by their last word."""


def composed(
    lifter: Lifter, node: Node, spelling: str, arguments: tuple[Any, ...], keywords: dict[str, Any]
) -> Said | None:
    """The call in several entries, or None where it is one."""
    word = spelling.rpartition(".")[2]
    composition, compound = COMPOSITIONS.get(word), find_compound(spelling)
    steps = Steps(lifter)
    try:
        if compound is None:
            return None if composition is None else composition(steps, node, *arguments, **keywords)
        last = compound.steps(steps, node.index, *arguments, **keywords)
        if last is None and composition is not None:
            return composition(steps, node, *arguments, **keywords)
        if last is None:
            return None
        return matrix_calls.with_signs(steps, node, matrix_calls.cut_off(steps, node, last), word)
    except TypeError as error:  # the call has other arguments than these: the table may know them
        raise Refused(f"{word}: {error}") from error
