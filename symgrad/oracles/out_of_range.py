"""Where the floats of the forward pass overflow on the way: ``x / x.norm()`` at 1e200 is 0 to a program, 0.7 in truth.

Comes in: the output, or a gradient, as the steps make it, as torch does, and as real numbers have it. Goes out: a
sentence for the page; nothing where the steps are right.
"""

from __future__ import annotations

import numpy as np
import sympy as sp

from symgrad.functions import ceil, floor, nearest, trunc
from symgrad.indexing.symbols import Expr
from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.elementwise import Elementwise, definition, no_deeper

SAME, NOTHING = 1e-6, 1e-300
"""How far apart, relative to the larger, two values are the same, and what is as good as 0: an overflow makes more."""
WHOLE = (sp.floor, sp.ceiling, floor, ceil, trunc, nearest)
TOLD = (
    "Numbers on the way are too large or too small for floats: of {entry} the steps make {made}. What follows from "
    "that is not to be used"
)


def out_of_range(name: str, ours: Array, torch: Array | None, real: Array | None) -> str:
    """Which entry of the output the steps have otherwise than real numbers; where those are not known, than torch.

    >>> out_of_range("out", np.array([0.0, 1.0]), np.array([0.0, 1.0]), np.array([0.5, 1.0]))[:104]
    "Numbers on the way are too large or too small for floats: of out[0] the steps make 0 (torch's, too); in "
    >>> out_of_range("out", np.array([1.0]), None, np.array([1.0]))
    ''
    """
    steps = as_float(ours)
    theirs = None if torch is None or np.shape(torch) != steps.shape else as_float(torch)
    if real is not None:
        wrong = np.isinf(real) | (np.isfinite(real) & ~np.isclose(steps, real, rtol=SAME, atol=NOTHING))
    elif theirs is not None:
        wrong = np.isfinite(steps) & ~np.isfinite(theirs)
    else:
        return ""
    if not wrong.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(wrong)[0])
    made = [f"{float(steps[at]):.6g}"]
    if theirs is not None and np.array_equal(theirs[at], steps[at], equal_nan=True):
        made[0] += " (torch's, too)"
    elif theirs is not None:
        made.append(f"torch's {float(theirs[at]):.6g}")
    truth = ""
    if real is not None:
        truth = "; in truth " + (
            f"it is {real[at]:.6g}" if np.isfinite(real[at]) else "no float is large enough for it"
        )
    return TOLD.format(entry=f"{name}[{','.join(map(str, at))}]" if at else name, made=", ".join(made) + truth)


@no_deeper()
def real_output(explicit: Elementwise, anywhere: bool) -> Array:
    """Every entry of the output as a real number, if ``anywhere`` or something overflowed on the way; else NaN."""
    entries = explicit.entries[explicit.program.output]
    if rounds(explicit):
        return np.full(entries.shape, np.nan)
    told = [
        real_number(explicit.point.value(entry)) if anywhere or overflows(explicit, row) else np.nan
        for row, entry in enumerate(entries.reshape(-1))
    ]
    return np.array(told).reshape(entries.shape)


def rounds(explicit: Elementwise) -> bool:
    """Whether a step rounds to whole numbers: the real ones are rounded as the program's are, and may be others."""
    return any(definition(step, explicit.program).right.has(*WHOLE) for step in explicit.program.steps)


def real_number(found: Expr) -> float:
    """A number of SymPy's, ±∞ where no float holds it; NaN where it is none, as √−1 is no real one."""
    return float(found) if found.is_finite and found.is_real else float("nan")


def overflows(explicit: Elementwise, row: int) -> bool:
    """Whether the program has ±∞ on the way to an output where there is a real number."""
    way = explicit.way_to(row, explicit.made_of)
    beyond = ((name, at) for name, at in way if np.isinf(as_float(explicit.values[name][at])))
    found = (explicit.point.value(explicit.entries[name][at]) for name, at in beyond)
    return any(not np.isnan(real_number(value)) for value in found)
