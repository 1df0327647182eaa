"""What matrix notation has one word for: softmax, mean, variance, what is centred and what is standardised.

They are for the page: the rules put them in the place of the sums they stand for, nobody differentiates them. The
ones that are taken along an axis are of an entry, ``Softmax(f, (i,))`` at i; the ones that add up are sums.
"""

from __future__ import annotations

import sympy as sp

from symgrad.indexing.symbols import Expr


class Shorthand:
    """Notation: it has a value and no derivative."""

    def _eval_derivative(self, symbol: Expr) -> Expr:
        raise AssertionError(f"symgrad bug: {type(self).__name__} is for the page, not for differentiating")


class Softmax(Shorthand, sp.Function):
    """``Softmax(f, (i,))``: exp(f) over the sum of exp(f) for every value of the index i."""

    nargs = 2
    is_real = True


class Masked(Shorthand, sp.Function):
    """``Masked(f, (i,), c)``: [c]·exp(f) over the sum of [c]·exp(f) for every value of the index i."""

    nargs = 3
    is_real = True


class Mean(Shorthand, sp.Sum):
    """``Mean(f(k), (k, 0, n − 1))``: Σ_k f(k) / n."""


class Variance(Shorthand, sp.Sum):
    """``Variance(f(k), (k, 0, n − 1))``: mean_k (f(k) − mean f)²."""


class Centred(Shorthand, sp.Function):
    """``Centred(f, (i,))``: f less its mean over every value of the index i."""

    nargs = 2
    is_real = True


class Standardised(Shorthand, sp.Function):
    """``Standardised(f, (i,), e)``: f less its mean, over √(variance + e)."""

    nargs = 3
    is_real = True


class Apart(Shorthand, sp.Function):
    """``Apart(f(k), f(l))``: 1 / (f(k) − f(l)), and 0 where k = l; exchanged it is its own negative."""

    nargs = 2
    is_real = True

    @classmethod
    def eval(cls, first: Expr, second: Expr) -> Expr | None:
        """In one order."""
        return -cls(second, first) if sp.default_sort_key(second) < sp.default_sort_key(first) else None


class Cases(Shorthand, sp.Function):
    """``Cases(c, a, b)``: a where the condition c holds, b elsewhere."""

    nargs = 3
    is_real = True


class Root(Shorthand, sp.Function):
    """``Root(q)``: √q of a number such as 2·π, which SymPy would take apart."""

    nargs = 1
    is_real = True
    is_positive = True


class Normal(Shorthand, sp.Function):
    """``Normal(z)``: (1 + erf(z / √2)) / 2, the normal distribution."""

    nargs = 1
    is_real = True


class Cross(Shorthand, sp.Function):
    """``Cross(f, g, (i,))``: the cross product of f and g along the index i, at i."""

    nargs = 3
    is_real = True


class Once(Shorthand, sp.Function):
    """``Once(f)``: f, which stands there more than once and has a name."""

    nargs = 1
    is_real = True
