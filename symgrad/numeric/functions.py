"""Functions and relations of SymPy in NumPy.

Comes in: nothing. Goes out: tables, from SymPy's classes to functions of arrays; of ``EITHER`` exact ones stay exact.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.functions import PRIMITIVES, high, low, sign
from symgrad.numeric.exact import Array

FUNCTIONS: dict[Any, Callable[..., Array]] = {
    symbolic: numeric
    for symbolic, numeric in PRIMITIVES.values()
    if isinstance(symbolic, type) and symbolic is not sp.exp  # a power of e
}
EITHER: dict[Any, Callable[..., Array]] = {
    sp.Abs: np.abs, sp.sign: np.sign, sign: np.sign, sp.floor: np.floor, sp.Max: np.maximum,
    high: high.evaluate, low: low.evaluate,
}  # fmt: skip
RELATIONS: dict[Any, Callable[[Any, Any], Any]] = {
    sp.Eq: np.equal, sp.Ne: np.not_equal, sp.Lt: np.less, sp.Le: np.less_equal, sp.Gt: np.greater,
    sp.Ge: np.greater_equal,
}  # fmt: skip
