"""What functions and relations of SymPy are called among the primitives.

Comes in: nothing. Goes out: tables, from SymPy's classes to the names in `symgrad.lowering.arrays`.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from symgrad.functions import STABLE, finite, high, low, number_or_zero, sign
from symgrad.indexing.symbols import Expr
from symgrad.lowering.graph import NoPlan

RELATIONS = {
    sp.Eq: "equal", sp.Ne: "not_equal", sp.Lt: "less", sp.Le: "less_equal", sp.Gt: "greater", sp.Ge: "greater_equal",
}  # fmt: skip
FUNCTIONS: dict[Any, str] = {
    sp.log: "log", sp.sin: "sin", sp.cos: "cos", sp.tan: "tan", sp.sinh: "sinh", sp.cosh: "cosh", sp.tanh: "tanh",
    sp.erf: "erf", sp.asin: "arcsin", sp.acos: "arccos", sp.atan: "arctan", sp.asinh: "arcsinh", sp.acosh: "arccosh",
    sp.atanh: "arctanh", sp.atan2: "arctan2", sp.erfc: "erfc", sp.loggamma: "gammaln", sp.gamma: "gamma",
    sp.besseli: "iv", sp.erfinv: "erfinv", sp.polygamma: "polygamma",
    **{function: function.__name__ for function in STABLE},
}  # fmt: skip
EITHER: dict[Any, str] = {
    sp.Abs: "absolute", sp.sign: "sign", sign: "sign", sp.floor: "floor", sp.Max: "maximum",
}  # fmt: skip
"""Functions that leave whole numbers whole."""
FINITE = (finite, high, low, number_or_zero)
"""Functions that ask whether a number is one: of an entry that is, they say nothing."""
MOST_FACTORS = 8
"""A power up to this one is a product."""


def real_number(node: Expr) -> int | float:
    """A constant as a number."""
    if node.is_Integer and abs(node) < 2**53:
        return int(node)
    if not node.is_extended_real:
        raise NoPlan
    return float(node)
