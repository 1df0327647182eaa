"""Functions of single entries that are two or three entries of the table: bounds, rounded quotients, shortcuts."""

from __future__ import annotations

import math
import sys
from typing import Any

from symgrad.ops.calls.registry import Call, Last, compound, done, everywhere
from symgrad.ops.calls.written import said

SHORTCUT = 20
"""From here on torch takes x for log(1 + exp(x)) unless it is told otherwise: 2e-9 of it, no kink that anyone means."""


# fmt: off
said("softplus(x, beta: any=1, threshold: any=20)", lambda x, beta, threshold: None if beta == 1 and threshold >= SHORTCUT else
     "softplus(x * beta) / beta" if threshold >= SHORTCUT else "s = x * beta; where(s > threshold, x, softplus(s) / beta)",
     "log(1 + exp(β·x)) / β, and x itself where β·x is above a threshold below 20.", "torch.softplus", "F.softplus", "aten.softplus")
said("div(x, other, *, rounding_mode: 'trunc' | 'floor'=None)", "floor_divide(x, other)",
     "The quotient, or what is left of it when it is rounded towards 0 or down.", *everywhere("div", "divide"), reals=True,
     instead={"rounding_mode=None": None, "rounding_mode=trunc": "trunc(x / other)"})
TIMES = "round((x - remainder(x, other)) / other)"
said("floor_divide(x, other)", lambda x, other: f"times = {TIMES}; where(other == 0, floor(x / other), times)" if hasattr(other, "shape") else
     "floor(x / other)" if other == 0 or abs(math.frexp(other)[0]) == 0.5 else TIMES,
     "How often ``other`` goes into x: 9 times 0.1 into 1, although their quotient is rounded to 10.",
     *everywhere("floor_divide"), "np.floor_divide", reals=True)
said("fill(x, value)", lambda x, value: "expand(value, shape=x.shape)" if hasattr(value, "shape") else "ones_like(x) * value",
     "One number everywhere.", *everywhere("fill"), reals=True)
said("clamp_min(x, min: any)", lambda x, min: "where(x >= min, x, min)" if hasattr(min, "shape") else "clamp(x, min=min)",
     "At least ``min``.", *everywhere("clamp_min"), reals=True, instead={"min=-inf": "x"})
said("clamp_max(x, max: any)", lambda x, max: "where(x <= max, x, max)" if hasattr(max, "shape") else "clamp(x, max=max)",
     "At most ``max``.", *everywhere("clamp_max"), reals=True, instead={"max=inf": "x"})
# fmt: on


@compound(*everywhere("clamp", "clip"), reals=True)
def clamp(call: Call, part: int, x: Any, min: Any = None, max: Any = None) -> Last | None:
    """min where x < min, then max where that is > max; at a bound the derivative is x's, as in torch.

    A bound at infinity is none, and NaN, which no bound holds, passes either way.
    """
    low, high = None if min == -math.inf else min, None if max == math.inf else max
    if not (hasattr(min, "shape") or hasattr(max, "shape")):
        if (low, high) == (min, max):
            return None
        return done(x) if low is high is None else ("clamp", (x,), {"min": low, "max": high})
    x = x if min is None else call("where", call("ge", x, min), x, min)
    return done(x if max is None else call("where", call("le", x, max), x, max))


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
