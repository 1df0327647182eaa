"""What functions and relations of SymPy are called among the primitives.

Comes in: nothing. Goes out: tables, from SymPy's classes to the names in `symgrad.lowering.arrays`, which are those of
the rows in `symgrad.functions`.
"""

from __future__ import annotations

import math
from typing import Any

import sympy as sp

from symgrad.functions import PRIMITIVES, finite, high, low, number_or_zero, sign
from symgrad.indexing.symbols import Expr

RELATIONS = {
    sp.Eq: "equal", sp.Ne: "not_equal", sp.Lt: "less", sp.Le: "less_equal", sp.Gt: "greater", sp.Ge: "greater_equal",
}  # fmt: skip
FUNCTIONS: dict[Any, str] = {
    symbolic: name
    for name, (symbolic, _) in PRIMITIVES.items()
    if isinstance(symbolic, type) and symbolic is not sp.exp
}
"""Functions of floats; a power of e has rules of its own."""
EITHER: dict[Any, str] = {
    sp.Abs: "abs", sp.sign: "sign", sign: "sign", sp.floor: "floor", sp.Max: "maximum", high: "high", low: "low",
}  # fmt: skip
"""Functions that leave whole numbers whole, and exact ones exact."""
FINITE = (finite, high, low, number_or_zero)
"""Functions that ask whether a number is one: of an entry that is, they say nothing."""
MOST_FACTORS = 8
"""A power up to this one is a product."""


def real_number(node: Expr) -> int | float:
    """A constant as a number: ±∞ where it is beyond floats, NaN where it is not real, as log(−2)."""
    if node.is_Integer and abs(node) < 2**53:
        return int(node)
    try:
        return float(node) if node.is_extended_real else math.nan
    except OverflowError:
        return math.copysign(math.inf, sp.sign(node))
