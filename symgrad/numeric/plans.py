"""The pullback of one step as a plan: derived and lowered once for its operation and shapes, played on arrays.

Comes in: a step of a program, its forward values, the places among its arguments that are wanted. Goes out: a
`Prepared`, or None where `symgrad.numeric.playing` has to do it, step by step: exact numbers, values at the edges,
arrays that would not fit.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from symgrad.calculus import local_pullback, standard
from symgrad.calculus.local import SEED, Key
from symgrad.errors import bug
from symgrad.indexing import Equation
from symgrad.lowering.arrays import Engine
from symgrad.lowering.graph import FLOAT, WHOLE, Graph, NoPlan
from symgrad.lowering.lower import lowered
from symgrad.lowering.plan import Plan, planned
from symgrad.lowering.reading import is_rational, names_read, number
from symgrad.numeric.exact import Array, all_tame, is_exact
from symgrad.numeric.forward import Values
from symgrad.numeric.playing import in_type
from symgrad.program import Apply, Program
from symgrad.shapes import Size

Shapes = tuple[tuple[str, tuple[int, ...], str], ...]
"""What is read: its name in the equations, its shape, and whether it holds floats or whole numbers."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A step's pullback by ``places``, lowered; ``names`` are the forward values by what the equations call them."""

    places: tuple[int, ...]
    told: tuple[Any, ...]
    names: Mapping[str, str]

    def plan(self, engine: Engine) -> Plan:
        """The plan for an engine: made once."""
        return plan_of(engine, *self.told)


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
    sizes = tuple((own, number(size, values.sizes)) for own, size in form.sizes.items())
    told = tuple((own, a.shape, FLOAT if a.dtype.kind == "f" else WHOLE) for own, a in arrays.items())
    shape = tuple(np.shape(values[step.result.name]))
    whole = (form.key, tuple(wanted), sizes, (*told, (SEED, shape, FLOAT)))
    return None if graph_of(*whole) is None else Prepared(tuple(wanted), whole, named)


def stays_exact(equation: Equation, arrays: Mapping[str, Array]) -> bool:
    """Whether an equation would be computed in fractions, beside a seed in floats."""
    names = names_read(equation.right)
    if SEED in names:
        return False
    return is_rational(equation.right) and all(is_exact(arrays[name]) for name in names)


@lru_cache(maxsize=1024)
def graph_of(
    key: Key, places: tuple[int, ...], sizes: tuple[tuple[Size, int], ...], told: Shapes
) -> tuple[Graph, tuple[int, ...]] | None:
    """The pullbacks of one operation by some operands, lowered together; None where one has no plan."""
    equations = [local_pullback(key, place) for place in places]
    shapes, holds = {name: shape for name, shape, _ in told}, {name: kind for name, _, kind in told}
    try:
        graph, found = lowered(equations, dict(sizes), shapes, holds)
    except NoPlan:
        return None
    return graph, tuple(found)


@lru_cache(maxsize=1024)
def plan_of(
    engine: Engine, key: Key, places: tuple[int, ...], sizes: tuple[tuple[Size, int], ...], told: Shapes
) -> Plan:
    """`graph_of` for an engine."""
    found = graph_of(key, places, sizes, told)
    if found is None:
        raise bug("a plan is asked for that there is not")
    return planned(*found, engine)


__all__ = ["in_type"]
