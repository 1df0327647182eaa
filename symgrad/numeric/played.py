"""One equation as a plan: lowered once for its sizes and what it reads, played on arrays.

Comes in: what `symgrad.numeric.evaluate` takes. Goes out: the same array, by array operations where the equation has a
plan and the numbers are ordinary ones; by the evaluator where they are exact, or not finite, or nearly so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from symgrad.indexing import Equation
from symgrad.lowering.reading import is_rational, names_read
from symgrad.numeric.evaluate import evaluate
from symgrad.numeric.exact import Array, is_exact
from symgrad.numeric.playing import play_tame
from symgrad.shapes import Size


def played(equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int]) -> Array:
    """The array that ``equation`` defines: one axis per index of its left-hand side."""
    given = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    exact = is_rational(equation.right) and all(map(is_exact, given.values()))
    found = None if exact else play_tame(equation, given, sizes, at_once=True)
    return evaluate(equation, given, sizes) if found is None else found
