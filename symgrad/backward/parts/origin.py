"""What a line of a backward is derived from: index equations, made when something asks for them.

Comes in: a group of steps in standard names, and one tensor that it reads. Goes out: the pullback of a cotangent
through the group. A line that an earlier run proved is shown without it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import sympy as sp

from symgrad.calculus import Sweep, pullback
from symgrad.indexing import Equation
from symgrad.indexing.equation import with_names
from symgrad.program import Program

WIDE = 240
"""Nodes of the formula that a line may come from."""


@dataclass(frozen=True)
class Origin:
    """What a line is derived from: a group, and the tensor that the cotangent is pulled back to.

    ``held`` are the names of the whole numbers that its operations found, ``unit`` says that the seed is the number 1.
    """

    program: Program
    held: tuple[tuple[str, str], ...]
    wanted: str
    unit: bool

    @property
    def sweep(self) -> Sweep:
        """The pullback, as index equations."""
        return swept(self)

    @property
    def equation(self) -> Equation | None:
        """The pullback entry by entry; None where one formula does not say it all."""
        return self.sweep.equation if self.sweep.whole else None


@lru_cache(maxsize=2048)
def swept(of: Origin) -> Sweep:
    """The pullback of a standard group, under the names of what it found."""
    sweep = pullback(of.program, of.wanted, Equation((), sp.S.One) if of.unit else None, WIDE)
    if not of.held:
        return sweep
    names = dict(of.held)
    return replace(
        sweep, stages=tuple((name, Equation(e.axes, with_names(e.right, names))) for name, e in sweep.stages)
    )
