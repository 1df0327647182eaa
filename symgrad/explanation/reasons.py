"""Find the step at which a gradient becomes 0, and why: a slope that is 0, or entries whose sum is constant.

Comes in: a program with its numbers and a seed. Goes out: the `Reason` nearest to the input. It names a tensor through
which every path to the output passes, and is tested on the numbers and at other points.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from types import MappingProxyType

import numpy as np

from symgrad.calculus import carry_back, flowing, flowing_places, moving, moving_places
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import elsewhere
from symgrad.explanation.singular import ENOUGH, Point, explain_zero, vanishes
from symgrad.numeric import Array, Values, as_float, forward, forward_from, is_finite
from symgrad.numeric.vector_products import Pull
from symgrad.ops.lookup import entry_of, has_role
from symgrad.oracles.digits import Lost, PreciseGradients
from symgrad.program import Apply, Program, Role

CLOSE = 1e-9
"""Numbers this close are equal, relative to the largest."""
FAR = (10.0, -10.0, 1e3, -1e3)
"""Scales of distant points at which a part with kinks is evaluated."""
LARGEST = 20_000
"""The most entries of a tensor in a program that is examined."""


@dataclass(frozen=True)
class Reason:
    """Why the cotangent of ``step``'s result gives a zero gradient at the input.

    ``kind`` is "slope" (J of the part up to the step is 0 here; ``everywhere``: the step's slope is 0 for all numbers),
    "still" (J of that part is 0 at other points, too), "sum" (the entries along ``axes`` add up to ``total`` for every
    input, and their cotangents are equal), or, for a gradient that is 0 only in floats, "lost" or "rows" (see
    ``lost``). ``given`` are the other inputs whose numbers matter. ``rounding``: the numbers are a rounded 0.
    """

    step: Apply
    kind: str
    rounding: bool
    everywhere: bool = False
    axes: tuple[int, ...] = ()
    total: float = 0.0
    given: Mapping[str, str] = field(default_factory=dict)
    lost: Lost | None = None

    def says(self, name: str, step: str, labels: Mapping[str, str] = MappingProxyType({})) -> str:
        """Return the reason as a clause; ``name`` and ``step`` are names to print, ``labels`` those of other tensors.

        ``the entries of softmax(x) add up to 1 whatever x is, so equal weights (ones, .sum()) give 0``
        """
        if self.lost is not None:
            return self.lost.says(step) if self.kind == "lost" else self.lost.rows(name, step)
        if self.kind == "slope":
            where = "here" if not self.everywhere else "everywhere" if _smooth(self.step) else "wherever it has one"
            alone = self.everywhere and len({*self.step.tensors}) == 1  # else it may pass one to another operand
            return (
                f"{step} passes no gradient back: its slope{'' if alone else f' with respect to {name}'} is 0 {where}"
            )
        given = ", and ".join(f"{labels.get(other, other)} has {entries}" for other, entries in self.given.items())
        given = f" while {given}" if given else ""
        if self.kind == "still":
            return f"{step} stays the same whatever {name} is{given}"
        along = f" along {'axis' if len(self.axes) == 1 else 'axes'} {', '.join(map(str, self.axes))}"
        total = 0.0 if abs(self.total) < CLOSE else self.total
        return (
            f"the entries of {step} add up to {total:.4g}{along if self.axes else ''} whatever {name} is{given}, "
            "so equal weights (ones, .sum()) give 0"
        )


@dataclass(frozen=True, eq=False)
class Vanishing:
    """A run of a program with a ``seed``, evaluated again in double precision, to find reasons for ``names``.

    Intermediate results are cached. Inputs in ``held`` were computed from others in this run, so that nothing is known
    at other points about steps that read them.
    """

    program: Program
    given: Values
    seed: Array
    names: tuple[str, ...]
    held: frozenset[str] = frozenset()
    _parts: dict[str, Point] = field(default_factory=dict)

    @cached_property
    def values(self) -> Values:
        """The forward pass."""
        return forward(self.program, {t.name: self.given[t.name] for t in self.program.inputs})

    @cached_property
    def known(self) -> bool:
        """Whether every step is an entry of the table, and no tensor is too large."""
        sizes = [np.size(self.given[t.name]) for t in self.program.tensors() if t.name in self.given.arrays]
        return all(entry_of(step.op) is not None for step in self.program.steps) and max(sizes) <= LARGEST

    @cached_property
    def passages(self) -> Mapping[str, Apply]:
        """For each tensor, the next step on every path to the output."""
        return passages(self.program)

    @cached_property
    def arrived(self) -> Mapping[str, Array]:
        """The cotangent of each tensor."""
        return Pull(self.program, self.values, self.names).back({self.program.output: self.seed}, every=True)

    def reason(self, name: str) -> Reason | None:
        """Return why vᵀJ with respect to ``name`` is 0; None if it is not, or no reason was found."""
        if not self.known:
            return None
        try:
            lost = self.lost.get(name)
            return self._found(name) if lost is None else Reason(lost.step, "lost", False, lost=lost)
        except (SymgradError, ValueError, ArithmeticError):
            return None

    @cached_property
    def lost(self) -> Mapping[str, Lost | None]:
        """For each name, where the given dtype turns a nonzero gradient into 0, or None."""
        return PreciseGradients(self.program, self.given, self.names).lost(self.seed) or {}

    def _part(self, step: Apply) -> Point:
        """Return the program up to a step."""
        end = step.result.name
        if end not in self._parts:
            self._parts[end] = Point(replace(self.program, output=end), self.values, self.names)
        return self._parts[end]

    def _found(self, name: str) -> Reason | None:
        passing, left = list(way(self.passages, name)), self.arrived[name]
        for step in passing[self._first(passing, name) :]:
            arrived = self.arrived.get(step.result.name)
            if arrived is None or not np.any(as_float(arrived)) or not is_finite(arrived).all():
                continue
            part = self._part(step)
            found = explain_zero(part, name, arrived, left)
            if found is None and part.sizes(arrived)[name] is None and self._still(part.program, name):
                given = self._while(part.program, name, as_float)
                digits = bool(np.any(as_float(left) != 0))
                return Reason(step, "still", digits, given=given)  # too large to measure, and constant
            if found is None or found.why == "weights":
                continue
            if found.why == "floats":
                return None if found.lost is None else Reason(found.lost.step, "rows", False, lost=found.lost)
            if found.why == "J":
                if not moving_places(step, self.program, flowing(self.program, (name,))):
                    return Reason(step, "slope", found.rounding, everywhere=True)
                if not self._still(part.program, name):
                    return Reason(step, "slope", found.rounding)
                return Reason(step, "still", found.rounding, given=self._while(part.program, name, as_float))
            if found.everywhere:
                reason = self._sum(part.program, step, name, arrived, found.rounding)
                if reason is not None:
                    return reason
        return None

    def _first(self, passing: Sequence[Apply], name: str) -> int:
        """Return the number of the first step whose part has a zero gradient, by bisection.

        |vᵀJ| ≤ |v|ᵀ|J|, so terms grow with the part, and a gradient that is a rounded 0 for one part is so for a longer
        one.
        """
        left = self.arrived[name]

        def gone(step: Apply) -> bool:
            arrived = self.arrived.get(step.result.name)
            if arrived is None or not np.any(as_float(arrived)):
                return False
            return not is_finite(arrived).all() or vanishes(self._part(step), name, arrived, left) is not False

        return bisect_left(range(len(passing)), True, key=lambda n: gone(passing[n]))

    def _still(self, part: Program, name: str) -> bool:
        """Whether a part's value is constant in the input, so that its J is 0 everywhere."""
        here, tried = as_float(self.values[part.output]), 0
        for there in self._points(part, name):
            if not np.allclose(here, there, rtol=CLOSE, atol=CLOSE):
                return False
            tried += 1
        return tried > ENOUGH

    def _while(self, part: Program, name: str, made: Callable[[Array], Array]) -> Mapping[str, str]:
        """Return the other inputs on whose numbers it depends that ``made(value)`` is constant in ``name``."""
        free = part.relevant & moving(part) - self.held - {name}
        others = [t.name for t in part.inputs if t.name in free]

        def moves(those: Sequence[str]) -> bool:
            draw, shape, out = np.random.default_rng(17), np.shape(self.values[name]), []
            moved = {other: draw.uniform(0.5, 1.5, np.shape(self.values[other])) for other in those}
            for _ in range(ENOUGH):
                there = forward_from(part, self.values, {**moved, name: draw.uniform(0.5, 1.5, shape)})
                out.append(np.asarray(made(as_float(there[part.output]))))
            return not np.allclose(out[:1], out[1:], rtol=CLOSE, atol=CLOSE, equal_nan=True)

        told = [other for other in others if moves([other])]
        told = told or (others if len(others) > 1 and moves(others) else [])  # each of them alone would do
        return {other: describe_entries(as_float(self.values[other])) for other in told}

    def _points(self, part: Program, name: str) -> Iterator[Array]:
        """Iterate over a part's value at other points of its input; also distant ones if the part has kinks.

        Empty if it has no value at distant points, or reads held or detached values, which would move with the input
        while their slope is 0.
        """
        detached = {step.result.name for step in part.steps if has_role(step.op, Role.CUTS)}
        if (self.held | detached & part.reached((name,))) & part.relevant:
            return
        on_the_way = flowing(part, (name,)) & part.relevant
        if not all(_smooth(step) for step in part.steps if step.result.name in on_the_way):
            draw = np.random.default_rng(8)
            moved = (scale * np.abs(draw.standard_normal(np.shape(self.values[name]))) for scale in FAR)
            far = [as_float(forward_from(part, self.values, {name: array})[part.output]) for array in moved]
            if not all(np.isfinite(value).all() for value in far):
                return
            yield from far
        nothing: Array = np.zeros(np.shape(self.values[name]))  # where a floor or a guard has its turn
        for there in chain([forward_from(part, self.values, {name: nothing})], elsewhere(part, self.values, name)):
            if np.isfinite(value := as_float(there[part.output])).all():
                yield value

    def _sum(self, part: Program, step: Apply, name: str, weights: Array, rounding: bool) -> Reason | None:
        """Return the reason that entries along some axes have a constant sum and equal cotangents, or None."""
        shape, end = np.shape(weights), step.result.name
        points = [as_float(self.values[end]), *self._points(part, name)]
        single = [(n,) for n in range(len(shape))]
        but_one = [tuple(n for n in range(len(shape)) if n != kept) for kept in range(len(shape))]
        for axes in dict.fromkeys([*single, *but_one, tuple(range(len(shape)))]):
            if not axes or len(points) <= ENOUGH:
                continue
            sums = np.concatenate([np.sum(point, axis=axes).reshape(-1) for point in points])
            scale = max(1.0, float(np.abs(np.concatenate([p.reshape(-1) for p in points])).max()))
            spread = np.ptp(as_float(weights), axis=axes).max()
            even = spread <= CLOSE * np.abs(as_float(weights)).max()
            if even and np.ptp(sums) <= CLOSE * scale:
                given = self._while(part, name, partial(np.sum, axis=axes))
                whole = len(axes) == len(shape)
                return Reason(step, "sum", rounding, axes=() if whole else axes, total=float(sums[0]), given=given)
        return None


def _smooth(step: Apply) -> bool:
    """Whether an operation is smooth wherever it is defined."""
    op = entry_of(step.op)
    return op is not None and op.smooth


def passages(program: Program) -> Mapping[str, Apply]:
    """Return, for each tensor with a path to the output, the nearest step that all its paths share.

    That is the immediate post-dominator of the tensor in the dependency graph.
    """
    depth, found = {program.output: 0}, dict[str, Apply]()

    def common(one: Apply | None, other: Apply | None) -> Apply | None:
        while one is not other and one is not None and other is not None:
            if depth[one.result.name] < depth[other.result.name]:
                one, other = other, one
            one = found[one.result.name]
        return one

    def passed(step: Apply, following: Apply | None) -> Iterator[tuple[str, Apply]]:
        name = step.result.name
        if following is not None:
            found[name], depth[name] = following, 1 + depth[following.result.name]
        return ((str(step.arguments[n]), step) for n in flowing_places(step, step.tensors))

    last: dict[str, Apply | None] = {program.output: None}
    return {n: step for n, step in carry_back(program.steps, last, passed, common).items() if step is not None}


def way(next_of: Mapping[str, Apply], name: str) -> Iterator[Apply]:
    """Iterate over the steps on every path from a tensor to the output, in order."""
    while name in next_of:
        step = next_of[name]
        yield step
        name = step.result.name


def describe_entries(entries: Array) -> str:
    """Describe the given entries of an input."""
    equal = entries.size > 1 and np.ptp(entries) == 0
    return f"the given entries, which are all {'equal' if entries.any() else '0'}" if equal else "the given entries"
