"""Scalar functions with delicate numerics, as SymPy functions that know their stable evaluation.

`fdiff` is written in terms of the function itself, as SymPy does for tanh; a test proves each one from
``definition`` by letting SymPy differentiate it (tests/test_functions.py).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import sympy as sp
from symgrad import special

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


STABLE: tuple[type[Stable], ...] = (sigmoid, softplus, sign)
