"""Second derivatives: the gradient's index equation, differentiated once more.

    H[p, q] = ∂G[p]/∂x[q] + Σ_t Σ_r ∂G[p]/∂t[r] · ∂t[r]/∂x[q]        (the t are the forward values in G)

Comes in: a program, the weights of its output, two inputs. Goes out: one index equation, or None when the
formula would be longer than anyone can read. Conditions are locally constant here as everywhere, so a kink
adds nothing, as in torch's double backward.
"""

from __future__ import annotations

from dataclasses import replace

from symgrad.calculus.differentiate import differentiate
from symgrad.calculus.sweeps import jacobian, pullback
from symgrad.indexing import Equation, add_up, fresh_axes
from symgrad.indexing.canonical import canonical
from symgrad.indexing.symbols import accesses, name_of
from symgrad.program import Program

LETTERS = "pqrstuwz"
"""Letters for the entries of both inputs: the second goes on where the first ends."""
LIMIT = 400
"""Nodes of the longest gradient that is differentiated again."""


def second_derivative(program: Program, first: str, second: str, seed: Equation | None = None) -> Equation | None:
    """∂²(Σ v·out) / ∂first[p] ∂second[q] on the axes of ``first``, then those of ``second``."""
    swept = pullback(program, first, seed, LIMIT)
    if not swept.whole:
        return None
    gradient = swept.equation
    rank, shape = len(gradient.axes), program.tensor(second).shape
    inner = fresh_axes((*(a.size for a in gradient.axes), *shape), LETTERS)[rank:]
    right = differentiate(gradient.right, second, inner)
    results = {step.result.name for step in program.steps}
    for name in sorted({name_of(entry) for entry in accesses(gradient.right)} & results):
        moved = jacobian(replace(program, output=name), second, LIMIT)
        if moved is None:
            return None
        outer, by, sweep = moved
        at = fresh_axes(program.tensor(name).shape)
        through = Equation((*outer, *by), sweep.equation.right).at((*at, *inner))
        right += add_up(differentiate(gradient.right, name, at) * through, at)
    return Equation((*gradient.axes, *inner), canonical(right))
