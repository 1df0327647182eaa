"""How long a vector is: (Σ |x|ᵖ)^(1/p) for every p, as one formula, and what torch takes where it has no derivative.

At an entry that is 0 torch's derivative of |x|ᵖ is 0, also for p below 1, where there is none; for p below 0 one
entry that is 0 makes the length 0. For p = ±∞ the entries that are as large as the length count alike (`shared`),
or each in full, as between two sets of points.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, UnsupportedError
from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.functions import sign

Entry = Callable[[Any], Expr]
Total = Callable[[Entry, str], Expr]
"""Σ over what is measured of a function of its indices; the text is a hint for their letter."""


def check_p(p: Any) -> Any:
    """p is a number."""
    if isinstance(p, (str, bool, tuple)) or not isinstance(p, (int, float, sp.Basic)) or p != p:
        raise InputError("this takes a number p", found=(f"p={p!r}",), hints=("p=2 is Euclid's",))
    return p


def exponent(p: Any) -> Any:
    """p as an exact number."""
    if isinstance(p, float) and np.isinf(p):
        return sp.oo if p > 0 else -sp.oo
    return sp.Rational(str(p)) if isinstance(p, float) else sp.sympify(p, strict=True)


def p_length(total: Total, entry: Entry, p: Any, out: Expr | None = None, hint: str = "j", shared: bool = True) -> Expr:
    """(Σ |entry|ᵖ)^(1/p); ``out`` is its value, where it is an output."""
    p = exponent(p)

    def size(i: Any) -> Expr:
        return entry(i) * sign(entry(i))

    def there(i: Any) -> Expr:
        return Bracket(sp.Ne(entry(i), 0))

    if p == 0:
        return total(there, hint)
    if p.is_infinite:
        return extreme(total, size, out, hint, shared)
    if p == 1:
        return total(size, hint)
    if p.is_Integer and p > 0 and p % 2 == 0:
        return total(lambda i: entry(i) ** p, hint) ** (1 / p)
    if p.is_Integer and p > 0:
        return total(lambda i: size(i) ** p, hint) ** (1 / p)
    sums = total(lambda i: there(i) * size(i) ** p, hint) ** (1 / p)
    return sums if p > 0 else Bracket(sp.Eq(total(lambda i: Bracket(sp.Eq(entry(i), 0)), "k"), 0)) * sums


def extreme(total: Total, size: Entry, out: Expr | None, hint: str, shared: bool) -> Expr:
    """The largest or smallest size, which ``out`` is."""
    if out is None:
        raise UnsupportedError("an infinite p is not supported here")

    def wins(i: Any) -> Expr:
        return Bracket(sp.Eq(size(i), out))

    if shared:
        return total(lambda i: size(i) * wins(i), hint) / total(wins, "k")
    return out + total(lambda i: wins(i) * (size(i) - out), hint)


def numpy_length(d: Any, p: Any, axis: Any, keepdims: bool = False) -> Any:
    """NumPy: (Σ |d|ᵖ)^(1/p)."""
    d, p = np.abs(np.asarray(d, float)), float(p)
    if p == 0:
        return np.sum(d != 0, axis=axis, keepdims=keepdims).astype(float)
    if np.isinf(p):
        return (np.amax if p > 0 else np.amin)(d, axis=axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):
        return np.sum(d**p, axis=axis, keepdims=keepdims) ** (1 / p)
