"""The least value of what is linear in letters, where conditions hold that are linear in them, too.

Comes in: the expression, the conditions (each ≥ 0), how far the letters run. Goes out: the least value over all whole
numbers that they may be, or a bound below it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import sympy as sp

from symgrad.indexing.symbols import Expr
from symgrad.shapes import Size

FOUND, NOWHERE = 0, 2
"""What SciPy says where it found a least value, and where no point holds to all conditions."""
NEARLY = 1e-6
"""How far it may miss a whole number."""


def exactly(size: Expr) -> int | None:
    """A number that is one whatever the sizes are."""
    return int(size) if size.is_Integer else None


def least(
    slack: Expr, held: Sequence[Expr], ends: Mapping[Expr, Size | None], number: Callable[[Expr], int | None]
) -> Expr | None:
    """The least value of ``slack`` where nothing ``held`` is negative, each letter running as far as ``ends`` says.

    ``number`` is what is known of sizes; None where that is too little. ∞ where the conditions hold nowhere.
    """
    letters = list(ends)
    sizes = [None if end is None else number(end) for end in ends.values()]
    rows = [[number(sp.expand(gap).coeff(letter)) for letter in letters] for gap in (slack, *held)]
    rest = [number(gap.xreplace(dict.fromkeys(letters, sp.S.Zero))) for gap in held]
    if None in sizes or any(n is None for n in (*rest, *(n for row in rows for n in row))):
        return None
    upper = [(0, size - 1) for size in sizes if size is not None]
    if not upper or any(most < 0 for _, most in upper):
        return sp.oo if upper else slack
    from scipy.optimize import linprog  # loads for a while, and hardly an equation needs it

    found = linprog(rows[0], A_ub=[[-n for n in row if n is not None] for row in rows[1:]], b_ub=rest, bounds=upper)
    if found.status not in (FOUND, NOWHERE):
        return None
    low = sp.oo if found.status == NOWHERE else sp.Integer(math.ceil(found.fun - NEARLY))
    return sp.expand(slack.xreplace(dict.fromkeys(letters, sp.S.Zero)) + low)
