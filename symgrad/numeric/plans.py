"""The pullback of one step as a plan: derived and lowered once for its operation and shapes, played on arrays.

Comes in: a step of a program, its forward values, the places among its arguments that are wanted. Goes out: a
`Prepared`, or None where `symgrad.numeric.playing` has to do it, step by step: exact numbers, values at the edges,
arrays that would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from symgrad.calculus import local_pullback, standard
from symgrad.calculus.local import SEED
from symgrad.indexing import Equation
from symgrad.lowering.arrays import Engine
from symgrad.lowering.care import TAME
from symgrad.lowering.graph import NoPlan
from symgrad.lowering.plan import Plan
from symgrad.lowering.reading import is_rational, names_read, number
from symgrad.numeric.exact import Array, all_tame, is_exact
from symgrad.numeric.forward import Values
from symgrad.numeric.playing import Asked, asked_of, in_type, plan_for
from symgrad.program import Apply, Program


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step's pullback by ``places``, lowered; ``names`` are the forward values by what the equations call them."""

    places: tuple[int, ...]
    asked: Asked
    names: Mapping[str, str]

    def plan(self, engine: Engine) -> Plan:
        """The plan for an engine: made once."""
        return plan_for(replace(self.asked, engine=engine))


def prepared(
    step: Apply, program: Program, values: Values, wanted: Sequence[int], held: MutableMapping[str, Array]
) -> Prepared | None:
    """The plan of a step's pullback; ``held`` are forward values in the type in which they are computed with."""
    form = standard(step, program)
    equations = tuple(local_pullback(form.key, place) for place in wanted)
    named = {own: name for own, name in form.names.items() if name in values.arrays}
    names = dict.fromkeys(name for e in equations for name in names_read(e.right))
    if any(name != SEED and name not in named for name in names):
        return None
    if any(stays_exact(e, {own: values[name] for own, name in named.items()}) for e in equations):
        return None
    for own in names:
        if own != SEED and named[own] not in held:
            held[named[own]] = in_type(values[named[own]])
    arrays = {own: held[named[own]] for own in names if own != SEED}
    if not all(map(all_tame, arrays.values())):
        return None
    sizes = {own: number(size, values.sizes) for own, size in form.sizes.items()}
    seed = np.broadcast_to(0.0, np.shape(values[step.result.name]))
    asked = asked_of(equations, {**arrays, SEED: seed}, sizes, TAME)
    try:
        plan_for(asked)
    except NoPlan:
        return None
    return Prepared(tuple(wanted), asked, named)


def stays_exact(equation: Equation, arrays: Mapping[str, Array]) -> bool:
    """Whether an equation would be computed in fractions, beside a seed in floats."""
    names = names_read(equation.right)
    if SEED in names:
        return False
    return is_rational(equation.right) and all(is_exact(arrays[name]) for name in names)
