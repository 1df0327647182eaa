"""The array that an index equation defines: in fractions where everything is exact, else by a plan, else step by step.

Comes in: an equation, the arrays of the tensors it reads, the numbers of its sizes. Goes out: the array, one axis per
index of the left-hand side. The three ways in differ in which plans they ask.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from symgrad.indexing import Equation
from symgrad.lowering.reading import names_read
from symgrad.numeric.evaluator import by_evaluator, in_fractions
from symgrad.numeric.exact import Array
from symgrad.numeric.playing import play, play_tame
from symgrad.shapes import Size

Plays = Callable[[Equation, Mapping[str, Array], Mapping[Size, int]], Array | None]
"""A way to evaluate an equation by its plan; None where it has none, or not for these numbers."""


def evaluate(
    equation: Equation, arrays: Mapping[str, Array], sizes: Mapping[Size, int], plays: Plays = play_tame
) -> Array:
    """The array that ``equation`` defines; a plan is made at its second use, and asked about ordinary numbers alone."""
    used = {name: np.asarray(arrays[name]) for name in names_read(equation.right)}
    for way in (in_fractions, plays):
        found = way(equation, used, sizes)
        if found is not None:
            return found
    return by_evaluator(equation, used, sizes)


evaluate_forward = partial(evaluate, plays=partial(play, lent=True))
"""For an operation's own equation: infinities and what is no number go on as in NumPy and torch, a view is a view."""
played = partial(evaluate, plays=partial(play_tame, at_once=True))
"""By a plan from the first use on: for what is large, or asked for again."""
