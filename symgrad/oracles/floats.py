"""How a number of the forward pass is none of the real numbers that SymPy computes with.

Comes in: a float, and what SymPy has in its place. Goes out: the difference in words, empty where there is none.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing.symbols import Expr
from symgrad.numeric.exact import all_tame, as_float

ROUNDED = "one of them by rounding"
SAME = 1e-9
"""How far apart, relative to the larger, a number of the forward pass and SymPy's are the same."""


def apart(value: Any, found: Expr) -> str:
    """How a number of the forward pass is not the real number ``found``; empty where it is."""
    if isinstance(value, Fraction):
        return ""
    here = float(value)
    if not np.isfinite(here) or not found.is_finite:
        return f"on the way the program has {here:.4g}, SymPy {'no number' if found is sp.nan else written(found)}"
    if abs(here - found) > SAME * max(abs(here), abs(found)):
        return f"on the way the program has {here:.4g}, SymPy {written(found)}: {ROUNDED}"
    return ""


def written(found: Expr) -> str:
    """Four digits of a number; as text, because `format` hands it to `decimal`, which has no exp(1e300)."""
    return str(found.evalf(4))


def untamed(value: Any) -> str:
    """What is wrong with a number whose square floats do not hold; empty for others."""
    here = as_float(value)
    return "" if all_tame(here) else f"on the way stands {float(here):.4g}, whose square is no float"
