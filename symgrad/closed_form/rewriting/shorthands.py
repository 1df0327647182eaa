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


class Mean(Shorthand, sp.Sum):
    """``Mean(f(k), (k, 0, n − 1))``: Σ_k f(k) / n."""


class Variance(Shorthand, sp.Sum):
    """``Variance(f(k), (k, 0, n − 1))``: mean_k (f(k) − mean f)²."""


class Apart(Shorthand, sp.Function):
    """``Apart(f(k), f(l))``: 1 / (f(k) − f(l)), and 0 where k = l; exchanged it is its own negative."""

    nargs = 2
    is_real = True

    @classmethod
    def eval(cls, first: Expr, second: Expr) -> Expr | None:
        """In one order."""
        return -cls(second, first) if sp.default_sort_key(second) < sp.default_sort_key(first) else None


def shorthand(name: str, nargs: int, says: str, **facts: bool) -> type[sp.Function]:
    """A real function that only stands for something."""
    return type(name, (Shorthand, sp.Function), {"__doc__": says, "nargs": nargs, "is_real": True, **facts})


Softmax = shorthand("Softmax", 2, "``Softmax(f, (i,))``: exp(f) over the sum of exp(f) for every value of the index i.")
Masked = shorthand(
    "Masked", 3, "``Masked(f, (i,), c)``: [c]·exp(f) over the sum of [c]·exp(f) for every value of the index i."
)
Centred = shorthand("Centred", 2, "``Centred(f, (i,))``: f less its mean over every value of the index i.")
Standardised = shorthand("Standardised", 3, "``Standardised(f, (i,), e)``: f less its mean, over √(variance + e).")
Cases = shorthand("Cases", 3, "``Cases(c, a, b)``: a where the condition c holds, b elsewhere.")
Root = shorthand("Root", 1, "``Root(q)``: √q of a number such as 2·π, which SymPy would take apart.", is_positive=True)
Normal = shorthand("Normal", 1, "``Normal(z)``: (1 + erf(z / √2)) / 2, the normal distribution.")
Cross = shorthand("Cross", 3, "``Cross(f, g, (i,))``: the cross product of f and g along the index i, at i.")
Once = shorthand("Once", 1, "``Once(f)``: f, which stands there more than once and has a name.")
