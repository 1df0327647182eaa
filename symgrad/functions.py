"""Scalar functions with delicate numerics, as SymPy functions that know their stable evaluation.

`fdiff` is written in terms of the function itself, as SymPy does for tanh; a test proves each one from
``definition`` by letting SymPy differentiate it (tests/test_functions.py). `special` has SciPy's functions, loaded at
the first call: importing them takes as long as NumPy, and most runs do not need them.
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
"""Below this every whole number is a float64."""
TINY = 1e-290
"""Below this the first term of a series is all of it."""
FEW = 2**16
"""So many entries take less time one by one than loading SciPy."""
ALONE = {own.__name__: np.frompyfunc(own, 1, 1) for own in (math.erf, math.erfc)}
"""Functions that Python has, too."""


class Special:
    """`scipy.special`: ``special.expit`` is a stand-in that can be put into a table; calling it calls SciPy's function.

    Two of them are wrong next to 0, where ``iv`` underflows to NaN and ``gammaln`` to infinity; there each is the first
    term of its series. What every network needs, ``log_softmax`` and ``erf`` of a few entries, is computed without
    SciPy.
    """

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """SciPy's function called ``name``, not yet loaded."""
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
        """SciPy's function itself."""
        found: Callable[..., Any] = getattr(importlib.import_module("scipy.special"), name)
        return found

    @staticmethod
    def log_softmax(x: Any, axis: int) -> Any:
        """x − log Σ exp x along an axis."""
        top = np.max(x, axis=axis, keepdims=True)
        shifted = x - np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):  # where nothing but −∞ stands
            return shifted - np.log(np.sum(np.exp(shifted), axis=axis, keepdims=True))

    def iv(self, order: Any, x: Any) -> Any:
        """Iₙ(x), (x/2)ⁿ next to 0."""
        tiny = np.abs(x) < TINY
        found = self.scipys("iv")(order, np.where(tiny, 0.0, x))
        return np.where(tiny, np.power(np.where(tiny, x, 0.0) / 2, order), found)

    def gammaln(self, x: Any) -> Any:
        """log|Γ(x)|, −log|x| next to 0."""
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
    """A function by its definition, its values, and its ``slope``, a formula of the function and of x; 0 for a step."""
    members = {
        "__doc__": says, "definition": staticmethod(definition), "evaluate": staticmethod(evaluate),
        "fdiff": lambda self, argindex=1: slope(self, *self.args), **facts,
    }  # fmt: skip
    return type(name, (kind,), members)


def largest_where_none(x: Array) -> Array:
    """x, and +∞ in the place of what is not a number; fractions are numbers."""
    return x if np.asarray(x).dtype == object else np.where(np.isnan(x), np.inf, x)


def i1e_slope(f: Expr, x: Expr) -> Expr:
    """i0e − i1e/x − sign·i1e; ½ at 0, where i1e/x is ½ too."""
    zero = Bracket(sp.Eq(x, 0))
    return i0e(x) - (1 - zero) * f / (x + zero) - sign(x) * f - zero / 2


def identity_value(x: Expr) -> Expr:
    """x itself."""
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
"""The functions that equations are made of, in SymPy and on arrays."""
ALSO = {"σ": "sigmoid", "Γ": "gamma", "logΓ": "lgamma", "max": "maximum", "min": "minimum", "ln": "log"}
"""Other words for entries of the table."""
ROUNDING = frozenset({"sign", "floor", "ceil", "trunc", "nearest", "side", "high", "low"})
"""Those among the primitives that give whole numbers."""
JUMPS = ROUNDING | {"i0e", "i1e"}
"""Those that have a kink or a jump."""
