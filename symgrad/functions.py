"""Scalar functions that need a stable evaluation, as SymPy functions.

`fdiff` is written in terms of the function itself, as SymPy does for tanh; a test proves each one by letting SymPy
differentiate ``definition`` (tests/test_functions.py). `special` has SciPy's functions, loaded at the first call:
importing SciPy takes as long as importing NumPy, and most runs do not need it.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import sympy as sp

from symgrad.indexing.brackets import Bracket
from symgrad.indexing.symbols import Expr

Array = npt.NDArray[np.float64]
FLOATS_HOLD = 2**53
"""Every integer below this is exact in float64."""
TINY = 1e-290
"""For smaller numbers the first term of a series is exact."""
FEW = 2**16
"""Up to so many entries, Python's function is faster than loading SciPy."""
ALONE = {own.__name__: np.frompyfunc(own, 1, 1) for own in (math.erf, math.erfc)}
"""Functions that the standard library has."""


class Special:
    """`scipy.special`, imported at the first call: ``special.expit`` is a function that calls SciPy's.

    SciPy is wrong next to 0 for two functions (``iv`` becomes NaN, ``gammaln`` infinite); there the first term of the
    series is used. ``log_softmax``, and ``erf`` of a few entries, are computed without SciPy.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return a function that imports and calls SciPy's ``name``."""
        if name.startswith("_"):
            raise AttributeError(name)

        def function(*arguments: Any, **options: Any) -> Any:
            if name in ALONE and np.size(arguments[0]) <= FEW and not np.iscomplexobj(arguments[0]):
                return np.asarray(ALONE[name](arguments[0]), float)
            return self.scipys(name)(*arguments, **options)

        function.__name__ = name
        return function

    @staticmethod
    def scipys(name: str) -> Callable[..., Any]:
        """Import and return SciPy's function."""
        found: Callable[..., Any] = getattr(importlib.import_module("scipy.special"), name)
        return found

    @staticmethod
    def log_softmax(x: Any, axis: int) -> Any:
        """Return x − log Σ exp x along an axis."""
        top = np.max(x, axis=axis, keepdims=True)
        shifted = x - np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):  # where nothing but −∞ stands
            return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))

    def iv(self, order: Any, x: Any) -> Any:
        """Return Iₙ(x); next to 0 it is (x/2)ⁿ."""
        tiny = np.abs(x) < TINY
        found = self.scipys("iv")(order, np.where(tiny, 0.0, x))
        return np.where(tiny, np.power(np.where(tiny, x, 0.0) / 2, order), found)

    def gammaln(self, x: Any) -> Any:
        """Return log|Γ(x)|; next to 0 it is −log|x|."""
        tiny = (np.abs(x) < TINY) & (np.asarray(x) != 0)
        found = self.scipys("gammaln")(np.where(tiny, 1.0, x))
        return np.where(tiny, -np.log(np.abs(np.where(tiny, x, 1.0))), found)


special = Special()


class Stable(sp.Function):
    """A real function of one real number with a stable NumPy evaluation."""

    nargs = 1
    is_real = True

    definition: ClassVar[Callable[..., Expr]]
    """The function in elementary terms."""
    evaluate: ClassVar[Callable[..., Array]]
    """The function on arrays, without overflow."""

    def _eval_evalf(self, prec: int) -> Expr:
        return self.definition(self.args[0])._eval_evalf(prec)


def register_function(
    name: str,
    says: str,
    definition: Callable[[Expr], Expr],
    evaluate: Callable[[Array], Array],
    slope: Callable[[Expr, Expr], Expr] = lambda f, x: sp.S.Zero,
    kind: type[Stable] = Stable,
    **facts: bool,
) -> type[Stable]:
    """Return a new function with its definition, its NumPy evaluation and its derivative.

    ``slope`` is a formula in f(x) and x; the default 0 is the derivative of a step function.
    """
    members = {
        "__doc__": says, "definition": staticmethod(definition), "evaluate": staticmethod(evaluate),
        "fdiff": lambda self, argindex=1: slope(self, *self.args), **facts,
    }  # fmt: skip
    return type(name, (kind,), members)


def largest_where_none(x: Array) -> Array:
    """Return x with NaN replaced by +∞; arrays of fractions have no NaN."""
    return x if np.asarray(x).dtype == object else np.where(np.isnan(x), np.inf, x)


def i1e_slope(f: Expr, x: Expr) -> Expr:
    """Return the derivative of i1e: i0e − i1e/x − sign·i1e, and ½ at 0, where the limit of i1e/x is ½."""
    zero = Bracket(sp.Eq(x, 0))
    return i0e(x) - (1 - zero) * f / (x + zero) - sign(x) * f - zero / 2


def identity_value(x: Expr) -> Expr:
    """Return x."""
    return x


sigmoid = register_function(
    "sigmoid", "1 / (1 + e⁻ˣ).", lambda x: 1 / (1 + sp.exp(-x)), special.expit, lambda f, x: f * (1 - f)
)
softplus = register_function(
    "softplus", "log(1 + eˣ).", lambda x: sp.log(1 + sp.exp(x)), partial(np.logaddexp, 0), lambda f, x: sigmoid(x)
)
sign = register_function(
    "sign", "1, 0 or −1; constant between the edges. SymPy's own sign differentiates to a delta function at 0.",
    lambda x: sp.Piecewise((sp.S.One, x > 0), (sp.S.NegativeOne, x < 0), (sp.S.Zero, True)), np.sign, is_integer=True,
)  # fmt: skip
floor = register_function("floor", "The largest whole number up to x.", sp.floor, np.floor)
ceil = register_function("ceil", "The smallest whole number from x on.", sp.ceiling, np.ceil)
trunc = register_function(
    "trunc", "x without its fraction.", lambda x: sp.Piecewise((sp.floor(x), x >= 0), (sp.ceiling(x), True)), np.trunc
)
nearest = register_function(
    "nearest", "The nearest whole number; halves go to the even one.", lambda x: sp.floor(x + sp.Rational(1, 2)),
    np.round,
)  # fmt: skip
side = register_function(
    "side", "1 from 0 on, −1 below.", lambda x: sp.Piecewise((sp.S.One, x >= 0), (sp.S.NegativeOne, True)),
    partial(np.copysign, 1.0),
)  # fmt: skip
finite = register_function(
    "finite", "1 for a number, 0 for ±∞ and what is none.", lambda x: sp.S.One, lambda x: np.isfinite(x).astype(float)
)
high = register_function(
    "high", "x, and +∞ in the place of what is not a number: for conditions in which that is larger than anything.",
    identity_value, largest_where_none, lambda f, x: sp.S.One,
)  # fmt: skip
low = register_function(
    "low", "x, and −∞ in the place of what is not a number: for conditions in which that is less than anything.",
    identity_value, lambda x: -largest_where_none(-x), lambda f, x: sp.S.One, kind=high,
)  # fmt: skip
number_or_zero = register_function(
    "number_or_zero", "x, with finite numbers in the place of ±∞ and of what is not a number.",
    identity_value, np.nan_to_num, lambda f, x: finite(x),
)  # fmt: skip
i0e = register_function(
    "i0e", "exp(−|x|)·I₀(x), the Bessel function without its growth.",
    lambda x: sp.exp(-sp.Abs(x)) * sp.besseli(0, x), special.i0e, lambda f, x: i1e(x) - sign(x) * f,
)  # fmt: skip
i1e: type[Stable] = register_function(
    "i1e", "exp(−|x|)·I₁(x).", lambda x: sp.exp(-sp.Abs(x)) * sp.besseli(1, x), special.i1e, i1e_slope
)
erfcx = register_function(
    "erfcx", "exp(x²)·erfc(x).", lambda x: sp.exp(x**2) * sp.erfc(x), special.erfcx,
    lambda f, x: 2 * x * f - 2 / sp.sqrt(sp.pi),
)  # fmt: skip
log_ndtr = register_function(
    "log_ndtr", "The logarithm of the normal distribution function.",
    lambda x: sp.log(sp.erfc(-x / sp.sqrt(2)) / 2), special.log_ndtr,
    lambda f, x: sp.exp(-(x**2) / 2 - f) / sp.sqrt(2 * sp.pi),
)  # fmt: skip
ndtri = register_function(
    "ndtri", "The inverse of the normal distribution function; next to 0, 2x − 1 would round.",
    lambda x: sp.sqrt(2) * sp.erfinv(2 * x - 1), special.ndtri, lambda f, x: sp.sqrt(2 * sp.pi) * sp.exp(f**2 / 2),
)  # fmt: skip


STABLE: tuple[type[Stable], ...] = (
    sigmoid, softplus, sign, floor, ceil, trunc, nearest, side, finite, high, low, number_or_zero, i0e, i1e, erfcx,
    log_ndtr, ndtri,
)  # fmt: skip
PRIMITIVES: dict[str, tuple[Callable[..., Expr], Callable[..., Any]]] = {
    "exp": (sp.exp, np.exp), "log": (sp.log, np.log), "sin": (sp.sin, np.sin), "cos": (sp.cos, np.cos),
    "tan": (sp.tan, np.tan), "asin": (sp.asin, np.arcsin), "acos": (sp.acos, np.arccos), "atan": (sp.atan, np.arctan),
    "sinh": (sp.sinh, np.sinh), "cosh": (sp.cosh, np.cosh), "tanh": (sp.tanh, np.tanh), "asinh": (sp.asinh, np.arcsinh),
    "acosh": (sp.acosh, np.arccosh), "atanh": (sp.atanh, np.arctanh), "atan2": (sp.atan2, np.arctan2),
    "erf": (sp.erf, special.erf), "erfc": (sp.erfc, special.erfc), "erfinv": (sp.erfinv, special.erfinv),
    "gamma": (sp.gamma, special.gamma), "lgamma": (sp.loggamma, special.gammaln),
    "polygamma": (sp.polygamma, lambda n, x: special.polygamma(np.asarray(n).astype(np.int64), x)),
    "abs": (lambda x: x * sign(x), np.abs), "besseli": (sp.besseli, special.iv),
    **{function.__name__: (function, function.evaluate) for function in STABLE},
}  # fmt: skip
"""The functions that equations may contain, in SymPy and on arrays."""
ALSO = {"σ": "sigmoid", "Γ": "gamma", "logΓ": "lgamma", "max": "maximum", "min": "minimum", "ln": "log"}
"""Other names for functions and entries of the table."""
ROUNDING = frozenset({"sign", "floor", "ceil", "trunc", "nearest", "side", "high", "low"})
"""Primitives whose values are integers (or ±∞)."""
JUMPS = ROUNDING | {"i0e", "i1e"}
"""Primitives with a kink or a jump."""
