"""How much an entry counts at a distance: straight lines, cubics, windows.

Kernels are pieces between whole distances, and each piece holds its left end, so that at a border the derivative by a
place is the one of the cell that begins there, as in torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.indexing import Bracket
from symgrad.indexing.symbols import Expr
from symgrad.shapes import Size


def covers(place: Expr, entry: Any, places: Size) -> Expr:
    """[⌊i·n/m⌋ ≤ j < ⌈(i+1)·n/m⌉] in whole numbers: i·n < (j+1)·m and j·m < (i+1)·n."""
    if places == 1:
        return sp.S.One
    first = Bracket(sp.Lt(place * entry.size, (entry + 1) * places, evaluate=False))
    return first * Bracket(sp.Lt(entry * places, (place + 1) * entry.size, evaluate=False))


def between(low: Any, value: Expr, high: Any) -> Expr:
    """[low ≤ value < high]"""
    return Bracket(sp.Le(low, value, evaluate=False)) * Bracket(sp.Lt(value, high, evaluate=False))


def hat(d: Expr) -> Expr:
    """1 − |d| up to distance 1: a straight line from entry to entry."""
    return (1 + d) * between(-1, d, 0) + (1 - d) * between(0, d, 1)


def near(d: Expr, a: Any) -> Expr:
    """Keys' cubic up to distance 1."""
    return (a + 2) * d**3 - (a + 3) * d**2 + 1


def far(d: Expr, a: Any) -> Expr:
    """Keys' cubic from distance 1 to 2."""
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a


def cubic(a: Any) -> Callable[[Expr], Expr]:
    """Keys' kernel: four pieces of a cubic, with continuous slope."""

    def kernel(d: Expr) -> Expr:
        pieces = [(-2, far, -1), (-1, near, -1), (0, near, 1), (1, far, 1)]
        return sp.Add(*(piece(sign * d, a) * between(left, d, left + 1) for left, piece, sign in pieces))

    return kernel


KEYS, SMOOTH = sp.Rational(-3, 4), sp.Rational(-1, 2)


def keys(d: Any, a: float) -> Any:
    """NumPy: Keys' cubic of a distance."""
    inner = ((a + 2) * d - (a + 3)) * d * d + 1
    return np.where(d <= 1, inner, np.where(d < 2, ((d - 5) * d + 8) * d * a - 4 * a, 0))
