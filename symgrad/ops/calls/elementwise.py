"""Functions of single entries that are two or three entries of the table: bounds, rounded quotients, shortcuts."""

from __future__ import annotations

import math
import sys
from typing import Any

from symgrad.errors import InputError
from symgrad.ops.calls.registry import Call, Last, compound, done, everywhere

SHORTCUT = 20
"""From here on torch takes x for log(1 + exp(x)) unless it is told otherwise: 2e-9 of it, no kink that anyone means."""


@compound("torch.softplus", "F.softplus", "aten.softplus")
def softplus(call: Call, part: int, x: Any, beta: Any = 1, threshold: Any = SHORTCUT) -> Last | None:
    """log(1 + exp(β·x)) / β, and x itself where β·x is above a threshold below 20."""
    if beta == 1 and threshold >= SHORTCUT:
        return None
    scaled = call("mul", x, beta)
    soft = call("softplus", scaled)
    if threshold >= SHORTCUT:
        return "div", (soft, beta), {}
    return "where", (call("gt", scaled, threshold), x, call("div", soft, beta)), {}


@compound(*everywhere("div", "divide"), reals=True)
def div(call: Call, part: int, x: Any, other: Any, *, rounding_mode: Any = None) -> Last | None:
    """The quotient, or what is left of it when it is rounded towards 0 or down."""
    if rounding_mode is None:
        return None
    if rounding_mode not in ("trunc", "floor"):
        raise InputError(f"rounding_mode is 'trunc' or 'floor', not {rounding_mode!r}")
    return floor_divide(call, part, x, other) if rounding_mode == "floor" else ("trunc", (call("div", x, other),), {})


@compound(*everywhere("floor_divide"), "np.floor_divide", reals=True)
def floor_divide(call: Call, part: int, x: Any, other: Any) -> Last:
    """How often ``other`` goes into x: 9 times 0.1 into 1, although their quotient is rounded to 10."""
    if not hasattr(other, "shape") and (other == 0 or abs(math.frexp(other)[0]) == 0.5):
        return "floor", (call("div", x, other),), {}
    times = call("round", call("div", call("sub", x, call("remainder", x, other)), other))
    zero = hasattr(other, "shape") and call("eq", other, 0)
    return ("where", (zero, call("floor", call("div", x, other)), times), {}) if zero else done(times)


@compound(*everywhere("clamp", "clip"), reals=True)
def clamp(call: Call, part: int, x: Any, min: Any = None, max: Any = None) -> Last | None:
    """min where x < min, then max where that is > max; at a bound the derivative is x's, as in torch.

    A bound at infinity is none, and NaN, which no bound holds, passes either way.
    """
    low, high = None if min == -math.inf else min, None if max == math.inf else max
    if not (hasattr(min, "shape") or hasattr(max, "shape")):
        if (low is None) == (min is None) and (high is None) == (max is None):
            return None
        return done(x) if low is high is None else ("clamp", (x,), {"min": low, "max": high})
    x = x if min is None else call("where", call("ge", x, min), x, min)
    return done(x if max is None else call("where", call("le", x, max), x, max))


@compound(*everywhere("clamp_min"), reals=True)
def clamp_min(call: Call, part: int, x: Any, min: Any) -> Last:
    """At least ``min``."""
    return clamp(call, part, x, min) or ("clamp", (x,), {"min": min})


@compound(*everywhere("clamp_max"), reals=True)
def clamp_max(call: Call, part: int, x: Any, max: Any) -> Last:
    """At most ``max``."""
    return clamp(call, part, x, None, max) or ("clamp", (x,), {"max": max})


@compound(*everywhere("nan_to_num"), reals=True)
def nan_to_num(call: Call, part: int, x: Any, nan: Any = None, posinf: Any = None, neginf: Any = None) -> Last | None:
    """Numbers of one's own in the place of NaN, ∞ and −∞, 0 and the largest numbers where none is given."""
    if not nan and posinf is None and neginf is None:
        return None
    found, largest = call("nan_to_num", x), sys.float_info.max
    for sign, bound, number in (("lt", -largest, neginf), ("gt", largest, posinf)):
        found = found if number is None else call("where", call(sign, x, bound), number, found)
    if nan:  # of which no comparison holds
        found = call("where", call("le", x, largest), found, call("where", call("gt", x, largest), found, nan))
    return done(found)


@compound(*everywhere("fill"), reals=True)
def fill(call: Call, part: int, x: Any, value: Any) -> Last:
    """One number everywhere."""
    same = {"shape": tuple(x.shape)}
    return ("expand", (value,), same) if hasattr(value, "shape") else ("mul", (call("ones_like", x), float(value)), {})
