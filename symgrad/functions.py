"""Scalar functions with delicate numerics, as SymPy functions that know their stable evaluation.

`fdiff` is written in terms of the function itself, as SymPy does for tanh; a test proves each one from
``definition`` by letting SymPy differentiate it (tests/test_functions.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import sympy as sp

from symgrad import special
from symgrad.indexing.brackets import Bracket
from symgrad.indexing.symbols import Expr

Array = npt.NDArray[np.float64]


class Stable(sp.Function):
    """A real function of one real number with a stable NumPy evaluation."""

    nargs = 1
    is_real = True

    @staticmethod
    def definition(x: Expr) -> Expr:
        """The function in elementary terms."""
        raise NotImplementedError

    @staticmethod
    def evaluate(x: Array) -> Array:
        """The function on arrays, without overflow."""
        raise NotImplementedError

    def _eval_evalf(self, prec: int) -> Expr:
        return self.definition(self.args[0])._eval_evalf(prec)


class sigmoid(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """σ(x) = 1 / (1 + e⁻ˣ)."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return 1 / (1 + sp.exp(-x))

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.expit(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """σ' = σ·(1 − σ)."""
        return self * (1 - self)


class softplus(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """log(1 + eˣ)."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.log(1 + sp.exp(x))

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = np.logaddexp(0, x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """softplus' = σ."""
        return sigmoid(self.args[0])


class sign(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """1, 0 or −1; constant between the edges. SymPy's own sign differentiates to a delta function at 0."""

    is_integer = True

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.Piecewise((sp.S.One, x > 0), (sp.S.NegativeOne, x < 0), (sp.S.Zero, True))

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = np.sign(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """sign' = 0."""
        return sp.S.Zero


def step(name: str, evaluate: Callable[[Array], Array], definition: Callable[[Expr], Expr], says: str) -> type[Stable]:
    """A function that is constant between its jumps: its derivative is 0."""
    members = {
        "__doc__": says, "evaluate": staticmethod(evaluate), "definition": staticmethod(definition),
        "fdiff": lambda self, argindex=1: sp.S.Zero,
    }  # fmt: skip
    return type(name, (Stable,), members)


floor = step("floor", np.floor, sp.floor, "The largest whole number up to x.")
ceil = step("ceil", np.ceil, sp.ceiling, "The smallest whole number from x on.")
trunc = step(
    "trunc", np.trunc, lambda x: sp.Piecewise((sp.floor(x), x >= 0), (sp.ceiling(x), True)), "x without its fraction."
)
nearest = step(
    "nearest",
    np.round,
    lambda x: sp.floor(x + sp.Rational(1, 2)),
    "The nearest whole number; halves go to the even one.",
)
side = step(
    "side", lambda x: np.copysign(1.0, x), lambda x: sp.Piecewise((sp.S.One, x >= 0), (sp.S.NegativeOne, True)),
    "1 from 0 on, −1 below.",
)  # fmt: skip
finite = step(
    "finite", lambda x: np.isfinite(x).astype(float), lambda x: sp.S.One, "1 for a number, 0 for ±∞ and what is none."
)


class high(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """x, and +∞ in the place of what is not a number: for conditions in which that counts as larger than anything."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return x

    @staticmethod
    def evaluate(x: Array) -> Array:
        if np.asarray(x).dtype == object:  # fractions are numbers
            return x
        result: Array = np.where(np.isnan(x), np.inf, x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """1: x moves as itself."""
        return sp.S.One


class low(high):  # noqa: N801 -- SymPy functions are spelled as they are written
    """x, and −∞ in the place of what is not a number: for conditions in which that counts as less than anything."""

    @staticmethod
    def evaluate(x: Array) -> Array:
        return -high.evaluate(-x)


class number_or_zero(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """x, with finite numbers in the place of ±∞ and of what is not a number."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return x

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = np.nan_to_num(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """1 where x is finite."""
        return finite(self.args[0])


class i0e(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """exp(−|x|)·I₀(x), the Bessel function without its growth."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.exp(-sp.Abs(x)) * sp.besseli(0, x)

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.i0e(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """i0e' = i1e − sign·i0e."""
        return i1e(self.args[0]) - sign(self.args[0]) * self


class i1e(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """exp(−|x|)·I₁(x)."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.exp(-sp.Abs(x)) * sp.besseli(1, x)

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.i1e(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """i1e' = i0e − i1e/x − sign·i1e; ½ at 0, where i1e/x is ½ too."""
        (x,) = self.args
        zero = Bracket(sp.Eq(x, 0))
        return i0e(x) - (1 - zero) * self / (x + zero) - sign(x) * self - zero / 2


class erfcx(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """exp(x²)·erfc(x)."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.exp(x**2) * sp.erfc(x)

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.erfcx(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """erfcx' = 2x·erfcx − 2/√π."""
        return 2 * self.args[0] * self - 2 / sp.sqrt(sp.pi)


class log_ndtr(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """The logarithm of the normal distribution function."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.log(sp.erfc(-x / sp.sqrt(2)) / 2)

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.log_ndtr(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """log_ndtr' = exp(−x²/2 − log_ndtr)/√(2π)."""
        return sp.exp(-(self.args[0] ** 2) / 2 - self) / sp.sqrt(2 * sp.pi)


class ndtri(Stable):  # noqa: N801 -- SymPy functions are spelled as they are written
    """The inverse of the normal distribution function; next to 0, 2x − 1 would round."""

    @staticmethod
    def definition(x: Expr) -> Expr:
        return sp.sqrt(2) * sp.erfinv(2 * x - 1)

    @staticmethod
    def evaluate(x: Array) -> Array:
        result: Array = special.ndtri(x)
        return result

    def fdiff(self, argindex: int = 1) -> Expr:
        """ndtri' = √(2π)·exp(ndtri²/2)."""
        return sp.sqrt(2 * sp.pi) * sp.exp(self**2 / 2)


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
