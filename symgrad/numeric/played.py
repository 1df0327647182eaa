"""One equation as a plan: lowered once for its sizes and what it reads, played on arrays.

Comes in: what `symgrad.numeric.evaluate` takes. Goes out: the same array, by array operations where the equation has a
plan and the numbers are ordinary ones; by the evaluator where they are exact, or not finite, or nearly so.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from symgrad.indexing import Equation
from symgrad.lowering.build import lowered
from symgrad.lowering.graph import FLOAT, WHOLE, NoPlan
from symgrad.lowering.plan import Plan, planned
from symgrad.lowering.reading import is_rational, names_read
from symgrad.numeric.evaluate import evaluate
from symgrad.numeric.exact import Array, all_tame, is_exact
from symgrad.numeric.plans import Shapes, in_type
from symgrad.shapes import Size


def played(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The array that ``equation`` defines: one axis per index of its left-hand side."""
    names = names_read(equation.right)
    given = {name: np.asarray(arrays[name]) for name in names}
    if is_rational(equation.right) and all(map(is_exact, given.values())):
        return evaluate(equation, given, sizes)
    held = {name: in_type(array) for name, array in given.items()}
    if not all(map(all_tame, held.values())):
        return evaluate(equation, given, sizes)
    told = tuple((name, a.shape, FLOAT if a.dtype.kind == "f" else WHOLE) for name, a in held.items())
    plan = _plan(equation, tuple(sizes.items()), told)
    if plan is None:
        return evaluate(equation, given, sizes)
    with np.errstate(all="ignore"):
        found = np.asarray(plan.play([held[name] for name in plan.inputs])[0])
    if not np.isfinite(found).all():
        return evaluate(equation, given, sizes)
    return found if plan.own[0] else np.array(found)


@lru_cache(maxsize=1024)
def _plan(equation: Equation, sizes: tuple[tuple[Size, int], ...], told: Shapes) -> Plan | None:
    """The plan of one equation; None where it has none."""
    shapes, holds = {name: shape for name, shape, _ in told}, {name: kind for name, _, kind in told}
    try:
        return planned(*lowered([equation], dict(sizes), shapes, holds))
    except NoPlan:
        return None
