"""What derivations do in SymPy's place, to be quick, is what SymPy would have done.

Renaming without evaluating, sums without a search for cases, entries with their facts written down, slopes and
tidied powers: each against the slow way.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import sympy as sp
from sympy.core.assumptions import _assume_defined

from symgrad.calculus.differentiate import scalar_derivative, tidied
from symgrad.indexing import Bracket, Index, Ravel, access, fresh
from symgrad.indexing.brackets import bounds_reached, extremes
from symgrad.indexing.equation import relabel
from symgrad.indexing.symbols import over, tensor

n, m = (sp.Symbol(name, integer=True, positive=True) for name in "nm")
i, j, k, p = (fresh(letter, n) for letter in "ijkp")


def x(*at: sp.Expr) -> sp.Expr:
    return access("x", at)


FORMULAS = {
    "a sum of products": 2 * x(i, j) * x(j, k) - x(k, i) / n,
    "a sum over an index": sp.Sum(x(i, j) * x(j, k) ** 2, (j, 0, n - 1)) * x(i, k),
    "a function with a sign of its own": sp.sin(i - j) * x(i) + sp.cos(k - i),
    "remainders and floors": x(sp.Mod(i + 2, n), sp.floor(j / 2)) * sp.Mod(k - i, 3),
    "conditions": Bracket(sp.Lt(i, j)) * x(i) + Bracket(sp.Ne(i + k, m)) * sp.Max(x(j), x(k)),
    "a condition that nobody has judged": x(i) * Bracket(sp.Le(0, i + 1, evaluate=False)) + x(j),
    "deltas": sp.KroneckerDelta(i, j + 1) * sp.KroneckerDelta(k, 2 * j) + Ravel(i, j, n, m),
    "a number before a sum": sp.Mul(2, x(i) + x(j), evaluate=False) * sp.sqrt(x(k) ** 2 + 1),
    "terms that nobody has added": sp.Add(x(i), sp.Add(x(j), 3, evaluate=False), evaluate=False),
}
NAMES: dict[str, dict[Index, sp.Expr]] = {
    "one": {i: p},
    "a swap": {i: j, j: i},
    "a circle": {i: j, j: k, k: i},
    "two that become one": {i: j},
    "not an index": {i: sp.Mod(p + 1, n)},
    "nothing there": {p: i},
}


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("formula", FORMULAS.values(), ids=FORMULAS)
def test_relabelling_is_replacing(formula: sp.Expr, names: dict[Index, sp.Expr]) -> None:
    assert relabel(formula, names) == formula.xreplace(names)


@pytest.mark.parametrize("kind", [sp.Sum, sp.Product])
def test_sums_and_products_are_sympys(kind: Callable[..., sp.Expr]) -> None:
    limits = [sp.Tuple(index, 0, n - 1) for index in (i, j)]
    inner, theirs = over(kind, x(i, j), limits[0]), kind(x(i, j), limits[0])
    assert (inner, hash(inner), inner.is_commutative) == (theirs, hash(theirs), theirs.is_commutative)
    assert over(kind, inner, limits[1]) == kind(theirs, limits[1])


@pytest.mark.parametrize("fact", sorted(_assume_defined))
def test_an_entry_is_known_as_sympy_knows_it(fact: str) -> None:
    theirs = sp.Indexed(tensor("x"), i, 0)
    assert getattr(x(i, sp.S.Zero), f"is_{fact}") is getattr(theirs, f"is_{fact}")
    assert sp.srepr(x(i, sp.S.Zero)) == sp.srepr(theirs)


a, b, c = (sp.Dummy(letter, real=True) for letter in "abc")
SCALARS = [
    a**2 * b - 3 * a / (b + 1),
    sp.sqrt(a**2 + b) * sp.exp(a * b),
    -2 * (a - b / n) / n,
    -(b - a / n) / (2 * n * (c / n + sp.Rational(1, 10)) ** sp.Rational(3, 2)),
    a**b / a,
    2**a * 4 * b,
    sp.sqrt(a) * sp.sqrt(b) * (a + b),
    sp.Abs(a) * sp.log(a * b) / 3,
    -(1 - a) / (1 - b),
    (a**2) ** b * sp.exp(b) * sp.exp(-b / 2, evaluate=False),
]


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_a_slope_is_sympys(scalar: sp.Expr) -> None:
    assert scalar_derivative(scalar, a) == sp.diff(scalar, a)
    assert scalar_derivative(scalar, sp.Dummy()) == 0


@pytest.mark.parametrize("scalar", SCALARS, ids=str)
def test_powers_are_tidied_as_sympy_does(scalar: sp.Expr) -> None:
    assert tidied(scalar) == sp.powsimp(scalar)


def test_bounds_of_sizes_are_reached_where_every_size_is_one() -> None:
    assert bounds_reached(n + m - 2, 3 - n) == (0, 2)
    assert bounds_reached(n - m, n - m) == (-sp.oo, sp.oo)
    assert bounds_reached(n * m, n**2) == (n * m, n**2), "left to SymPy"
    assert bounds_reached(*extremes(i - j)) == (-sp.oo, sp.oo)
    assert bounds_reached(*extremes(i + 1)) == (1, sp.oo)
