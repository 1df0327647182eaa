"""Why a gradient is 0, tested before it is said: J is 0, the weights are, or the weighted rows cancel out.

Comes in: a program with its numbers, a seed and the gradient. Goes out: a `Nothing`, or None where the gradient is not
0. What rounding leaves is measured by the terms that were added up, not by their sum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from symgrad.calculus import moving
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import elsewhere
from symgrad.numeric import Array, Values, as_float, forward, numeric_pullback, term_sizes
from symgrad.numeric.exact import is_exact
from symgrad.numeric.rounding import is_rounding
from symgrad.ops import entry_of
from symgrad.oracles.digits import Lost, Truth
from symgrad.program import Program

ENOUGH = 2
"""Other points at which a gradient has to be 0 before it is said to be 0 everywhere."""
SPREADS = (0.05, 8.0, 60.0, 1000.0)
"""How far from 0 entries are drawn: what is flat between two corners is not so beyond them."""


@dataclass(frozen=True)
class Nothing:
    """A gradient that is 0: ``why`` is "J", "weights" or "balance"; ``rounding`` says that digits are left.

    "floats" has J of it 0 in floats, but not in truth (``lost``), or as far as is known.

    ``everywhere`` is whether it was 0 at other points too: None where none was found to be tried.
    """

    why: str
    rounding: bool
    everywhere: bool | None = None
    lost: Lost | None = None


@dataclass(frozen=True, eq=False)
class Point:
    """A program at some numbers: what is swept back from its output reaches all of ``names`` at once, and is kept."""

    program: Program
    values: Values
    names: tuple[str, ...]
    _kept: dict[tuple[str, bytes], Mapping[str, Array | None]] = field(default_factory=dict)

    @cached_property
    def truth(self) -> Truth:
        """The same with many digits."""
        return Truth(self.program, self.values, self.names)

    def pulled(self, weights: Array) -> Mapping[str, Array | None]:
        """vᵀJ by every name."""
        return self._once("pulled", weights, lambda: numeric_pullback(self.program, self.values, weights, self.names))

    def sizes(self, weights: Array) -> Mapping[str, Array | None]:
        """How large the terms of it are, where that is known."""
        return self._once(
            "sizes", weights, lambda: term_sizes(self.program, self.names, self.values, weights, within=True)
        )

    def _once(self, what: str, weights: Array, sweep: Callable[[], Mapping[str, Any]]) -> Mapping[str, Array | None]:
        key = what, as_float(weights).tobytes()
        if key not in self._kept:
            self._kept[key] = sweep()
        return self._kept[key]


def nothing(point: Point, name: str, seed: Array, gradient: Array) -> Nothing | None:
    """Why ``gradient``, vᵀJ by ``name``, is 0; None where it is not, or where that cannot be told from rounding."""
    digits = bool(np.any(as_float(gradient) != 0))
    if not np.any(as_float(seed)):
        return Nothing("weights", digits)
    if not vanishes(point, name, seed, gradient) or (still := stands_still(point, name)) is None:
        return None
    if is_exact(gradient):
        return Nothing("J", digits) if still else Nothing("balance", digits, everywhere(point, name, seed))
    if digits and point.truth.moves(name, seed):
        return None
    if still:
        rows = point.truth.rows
        lost = None if rows is None else rows.get(name)
        return Nothing("J" if rows is not None and lost is None else "floats", digits, lost=lost)
    return Nothing("balance", digits, everywhere(point, name, seed))


def vanishes(point: Point, name: str, seed: Array, gradient: Array) -> bool | None:
    """Whether every entry is 0, or no more than rounding leaves of its terms; None where those are not known."""
    sizes = point.sizes(seed)[name]
    if sizes is None:
        return None
    return bool(np.all((as_float(gradient) == 0) | is_rounding(gradient, sizes)))


def stands_still(point: Point, name: str) -> bool | None:
    """Whether J is 0: rows weighed at random come to nothing; None where that cannot be told from rounding."""
    generator = np.random.default_rng(11)
    shape = np.shape(point.values[point.program.output])
    for _ in range(2):
        weights = generator.uniform(0.5, 1.5, size=shape) * generator.choice([-1.0, 1.0], size=shape)
        found = point.pulled(weights)[name]
        still = None if found is None else vanishes(point, name, weights, found)
        if found is not None and still is False and rounding_alone(point, name, weights, found):
            return None
        if not still:
            return still
    return True


def rounding_alone(point: Point, name: str, weights: Array, found: Array) -> bool:
    """Whether what came back moves the output by no more than its last digits: terms that cancel inside a factor.

    ``x / norm(x)`` of one entry is 1 or −1, and its slope ``1/r − x²/r³`` a few digits of rounding.
    """
    out, here = as_float(point.values[point.program.output]), as_float(point.values[name])
    moved = np.abs(found).max(initial=0.0) * np.abs(here).max(initial=0.0)
    return bool(moved == 0 or is_rounding(moved, np.sum(np.abs(weights * out))))


def everywhere(point: Point, name: str, seed: Array) -> bool | None:
    """Whether vᵀJ is 0 too where ``name`` has other entries; None where too few other points can be reached."""
    program, values, tried = point.program, point.values, 0
    for there in (*elsewhere(program, values, name), *far_and_near(program, values, name)):
        if np.array_equal(as_float(there[name]), as_float(values[name])):
            continue
        found = as_float(numeric_pullback(program, there, seed, [name])[name])
        if not np.isfinite(found).all():
            continue
        beside = Point(program, there, (name,))
        still = vanishes(beside, name, seed, found)
        if still is False and not rounding_alone(beside, name, seed, found):
            return False
        tried += bool(still)
    return True if tried >= ENOUGH else None


def far_and_near(program: Program, values: Values, name: str) -> Iterator[Values]:
    """Points where ``name`` has entries of other sizes, and small whole numbers: some of them alike, some 0."""
    if any(entry_of(step.op) is None for step in program.steps) or name not in moving(program):
        return
    generator = np.random.default_rng(23)
    given = {t.name: values[t.name] for t in program.inputs}
    shape = np.shape(given[name])
    drawn = [generator.uniform(-width, width, size=shape) for width in SPREADS]
    for array in (*drawn, generator.integers(-2, 3, size=shape).astype(float)):
        try:
            yield forward(program, {**given, name: array})
        except (SymgradError, ValueError, ArithmeticError):
            continue
