"""Functions and relations of SymPy in NumPy.

Comes in: nothing. Goes out: tables, from SymPy's classes to functions of arrays; of ``EITHER`` exact ones stay exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad import special
from symgrad.numeric.exact import Array
from symgrad.ops.functions import STABLE, high, low, sign

FUNCTIONS: dict[Any, Callable[..., Array]] = {
    sp.log: np.log, sp.sin: np.sin, sp.cos: np.cos, sp.tan: np.tan, sp.sinh: np.sinh, sp.cosh: np.cosh,
    sp.tanh: np.tanh, sp.erf: special.erf, sp.asin: np.arcsin, sp.acos: np.arccos, sp.atan: np.arctan,
    sp.asinh: np.arcsinh, sp.acosh: np.arccosh, sp.atanh: np.arctanh, sp.atan2: np.arctan2, sp.erfc: special.erfc,
    sp.loggamma: special.gammaln, sp.gamma: special.gamma, sp.besseli: special.iv,
    sp.erfinv: special.erfinv, sp.polygamma: lambda n, x: special.polygamma(n.astype(np.int64), x),
    **{function: function.evaluate for function in STABLE},
}  # fmt: skip
EITHER: dict[Any, Callable[..., Array]] = {
    sp.Abs: np.abs, sp.sign: np.sign, sign: np.sign, sp.floor: np.floor, sp.Max: np.maximum,
    high: high.evaluate, low: low.evaluate,
}  # fmt: skip
RELATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sp.Eq: np.equal, sp.Ne: np.not_equal, sp.Lt: np.less, sp.Le: np.less_equal, sp.Gt: np.greater,
    sp.Ge: np.greater_equal,
}  # fmt: skip
