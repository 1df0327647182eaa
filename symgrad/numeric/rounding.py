"""What rounding leaves of 0: which numbers are no more than the digits that were lost when terms cancelled.

Comes in: a formula, or numbers with the sizes of the terms that they were added up from. Goes out: the formula of those
sizes, and where a number is rounding. Pages, pictures and their scripts ask here and nowhere else.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import sympy as sp

from symgrad.indexing.brackets import Bracket
from symgrad.indexing.deltas import is_delta
from symgrad.indexing.symbols import Expr, is_access, over
from symgrad.numeric.exact import Array, as_float, euclidean, is_exact
from symgrad.numeric.forward import Values

ULPS = 64 * float(np.finfo(np.float64).eps)
"""A sum that is smaller than this part of its terms, signs left out, may be rounding from the first digit on."""
SMALL = 1e-6
"""Numbers larger than this part of the largest at hand are not looked at."""


class Rounding(float):
    """A number that rounding left of 0: written ``≈0``, and in JSON with its digits."""


def is_rounding(values: Array, terms: Array) -> Array:
    """Where a number is not 0 and no more than rounding leaves of ``terms``; exact numbers never are.

    >>> is_rounding(np.array([1e-17, 1e-17, 0.0, np.inf]), np.array([0.5, 1e-17, 1.0, np.inf])).tolist()
    [True, False, False, False]
    """
    if is_exact(values):
        return np.zeros(np.shape(values), dtype=bool)
    size = np.abs(as_float(values))
    with np.errstate(invalid="ignore"):
        found: Array = (size > 0) & np.isfinite(terms) & (size <= ULPS * terms)
    return found


def may_be_rounding(numbers: Array, values: Values) -> bool:
    """Whether a number is small beside all that a program computes with: then its terms are worth looking at."""
    if is_exact(numbers):
        return False
    size = np.abs(as_float(numbers))
    if not np.any((size > 0) & (size < SMALL * max(1.0, size.max(initial=0.0)))):
        finite = (a[np.isfinite(a)] for a in map(as_float, values.arrays.values()))
        scale = max((float(np.abs(a).max(initial=0.0)) for a in finite), default=0.0)
        return bool(np.any((size > 0) & (size < SMALL * scale)))
    return True


def marked(values: Array, terms: Array | None) -> Array:
    """The same numbers, each that is rounding as `Rounding`; without terms nothing is known."""
    places = np.zeros(np.shape(values), dtype=bool) if terms is None else is_rounding(values, terms)
    if not places.any():
        return values
    found = np.asarray(values, dtype=object).copy()
    for at in np.argwhere(places):
        found[tuple(at)] = Rounding(found[tuple(at)])
    return found


def length_beside(values: Array, terms: Array | None) -> float:
    """The Euclidean length; `Rounding` where it is that of nothing but rounding."""
    length = euclidean(values)
    if length == 0 or terms is None or np.shape(terms) != np.shape(values):
        return length
    return Rounding(length) if is_rounding(values, terms)[as_float(values) != 0].all() else length


@lru_cache(maxsize=1024)
def adds_up(formula: Expr) -> bool:
    """Whether terms can cancel in a formula: it adds up something outside its conditions and its positions."""
    if is_delta(formula) or is_access(formula) or isinstance(formula, Bracket):
        return False
    return isinstance(formula, (sp.Add, sp.Sum)) or any(map(adds_up, formula.args))


@lru_cache(maxsize=1024)
def terms_of(formula: Expr) -> Expr:
    """How large the terms are that a formula adds up: each sum with its terms' signs left out.

    ``s[i]·(w[p] − Σ_j s[j]·w[j])`` becomes ``|s[i]|·(|w[p]| + Σ_j |s[j]|·|w[j]|)``.
    """
    if is_delta(formula) or isinstance(formula, Bracket):
        return formula
    if isinstance(formula, (sp.Add, sp.Mul)):
        return formula.func(*map(terms_of, formula.args))
    if isinstance(formula, sp.Sum):
        return over(sp.Sum, terms_of(formula.function), *formula.limits)
    if isinstance(formula, sp.Pow) and formula.exp.is_positive:
        return sp.Pow(terms_of(formula.base), formula.exp)
    real = {node: sp.Dummy(real=True) for node in formula.atoms(sp.erfinv)}  # SymPy does not know that it is
    return sp.Abs(formula.xreplace(real)).xreplace({name: node for node, name in real.items()})
