"""Where a gradient becomes 0 on its way back, and why: a slope that is 0, or entries whose sum does not move.

Comes in: a program with its numbers and a seed. Goes out: a `Reason`, the one nearest to the input. It names a tensor
through which everything passes, and holds of the program up to there: tested on the numbers, and at other points.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from symgrad.calculus import flowing, local_pullback, positions, standard
from symgrad.errors import SymgradError
from symgrad.explanation.evidence import elsewhere
from symgrad.explanation.nothing import ENOUGH, nothing
from symgrad.numeric import Array, Values, as_float, finite, forward, numeric_pullback
from symgrad.ops.entry import entry_of
from symgrad.program import Apply, Program

CLOSE = 1e-9
"""Numbers this close are equal, relative to the largest."""
FAR = (10.0, -10.0, 1e3, -1e3)
"""How far away, on either side, a part is tried that has kinks."""
LARGEST = 20_000
"""Entries of the largest tensor of a program of which this is asked."""


@dataclass(frozen=True)
class Reason:
    """Nothing of what reaches the result of ``step`` is left at the input.

    ``kind`` is "slope" (J of that part is 0 here; ``everywhere``: the step's slope is, whatever the numbers), "still"
    (J of that part is 0 at other points, too) or "sum" (the entries along ``axes`` add up to ``total`` whatever the
    input is, and their weights are equal). ``rounding`` says that digits are left.
    """

    step: Apply
    kind: str
    rounding: bool
    everywhere: bool = False
    axes: tuple[int, ...] = ()
    total: float = 0.0

    def says(self, name: str, step: str) -> str:
        """The reason in a clause; ``name`` and ``step`` are what the two are called.

        ``the entries of softmax(x) add up to 1 whatever x is, so equal weights (ones, .sum()) give 0``
        """
        if self.kind == "slope":
            slope = "its slope is 0 everywhere" if self.everywhere else f"its slope by {name} is 0 here"
            return f"nothing comes back through {step}, {slope}"
        if self.kind == "still":
            return f"{step} stays the same whatever {name} is"
        along = f" along {'axis' if len(self.axes) == 1 else 'axes'} {', '.join(map(str, self.axes))}"
        total = 0.0 if abs(self.total) < CLOSE else self.total
        return (
            f"the entries of {step} add up to {total:.4g}{along if self.axes else ''} whatever {name} is, "
            "so equal weights (ones, .sum()) give 0"
        )


@dataclass(frozen=True, eq=False)
class Vanishing:
    """One run of a program whose output is weighed by ``seed``, worked out again in double precision."""

    program: Program
    given: Values
    seed: Array

    @cached_property
    def values(self) -> Values:
        """The forward pass."""
        return forward(self.program, {t.name: self.given[t.name] for t in self.program.inputs})

    def reason(self, name: str) -> Reason | None:
        """Why vᵀJ by ``name`` is 0; None where it is not, or where no such reason was found."""
        sizes = [np.size(self.given[t.name]) for t in self.program.tensors() if t.name in self.given.arrays]
        if any(entry_of(step.op) is None for step in self.program.steps) or max(sizes) > LARGEST:
            return None
        try:
            return self._found(name)
        except (SymgradError, ValueError, ArithmeticError):
            return None

    def _found(self, name: str) -> Reason | None:
        passing = list(bottlenecks(self.program, name))
        weights = self._weights(name, [step.result.name for step in passing])
        for step in passing:
            arrived = weights.get(step.result.name)
            if arrived is None or not np.any(as_float(arrived)) or not finite(arrived).all():
                continue
            part = replace(self.program, output=step.result.name)
            left = numeric_pullback(part, self.values, arrived, [name])[name]
            found = nothing(part, self.values, name, arrived, left)
            if found is None or found.why == "weights":
                continue
            if found.why == "J":
                if flat(step, self.program, name):
                    return Reason(step, "slope", found.rounding, everywhere=True)
                return Reason(step, "still" if self._still(part, name) else "slope", found.rounding)
            if found.everywhere and (reason := self._sum(part, step, name, arrived, found.rounding)) is not None:
                return reason
        return None

    def _still(self, part: Program, name: str) -> bool:
        """Whether a part's value, and with it J = 0, is the same wherever the input is moved."""
        here, points = as_float(self.values[part.output]), self._points(part, name)
        return len(points) > ENOUGH and all(np.allclose(here, there, rtol=CLOSE, atol=CLOSE) for there in points)

    def _points(self, part: Program, name: str) -> list[Array]:
        """What a part comes to where its input is moved; far away, too, where it may be flat only near by."""
        found = [as_float(there[part.output]) for there in elsewhere(part, self.values, name)]
        found = [there for there in found if np.isfinite(there).all()]
        on_the_way = flowing(part, (name,)) & part.relevant()
        if all(_smooth(step) for step in part.steps if step.result.name in on_the_way):
            return found
        draw = np.random.default_rng(8)
        given, shape = {t.name: self.values[t.name] for t in part.inputs}, np.shape(self.values[name])
        far = []
        for scale in FAR:
            there = forward(part, {**given, name: scale * np.abs(draw.standard_normal(shape))})
            far.append(as_float(there[part.output]))
        return [*found, *far] if all(np.isfinite(value).all() for value in far) else []

    def _weights(self, name: str, wanted: Sequence[str]) -> dict[str, Array]:
        """What comes back to each of some tensors."""
        found: dict[str, Array] = {self.program.output: np.asarray(self.seed)}

        def seen(step: Apply, place: int, weights: Array, part: Array) -> None:
            found[step.result.name] = weights

        numeric_pullback(self.program, self.values, self.seed, [name], seen)
        return {n: found[n] for n in wanted if n in found}

    def _sum(self, part: Program, step: Apply, name: str, weights: Array, rounding: bool) -> Reason | None:
        """Along which axes the entries add up to one number wherever the input is moved, if the weights are equal."""
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
                return Reason(step, "sum", rounding, axes=() if len(axes) == len(shape) else axes, total=float(sums[0]))
        return None


def _smooth(step: Apply) -> bool:
    """Whether an operation is smooth wherever it is defined."""
    op = entry_of(step.op)
    return op is not None and op.smooth


def bottlenecks(program: Program, name: str) -> Iterator[Apply]:
    """The steps through whose results everything passes that flows from ``name`` to the output, in order."""
    on_the_way = flowing(program, (name,)) & program.relevant()
    steps = [step for step in program.steps if step.result.name in on_the_way and positions(step, on_the_way)]
    uses: dict[str, int] = {program.output: 1}
    for step in steps:
        for place in positions(step, on_the_way):
            source = str(step.arguments[place])
            uses[source] = uses.get(source, 0) + 1
    live = {name}
    for step in steps:
        for place in positions(step, on_the_way):
            source = str(step.arguments[place])
            uses[source] -= 1
            if not uses[source]:
                live.discard(source)
        if uses.get(step.result.name):
            live.add(step.result.name)
        if live == {step.result.name}:
            yield step


def flat(step: Apply, program: Program, name: str) -> bool:
    """Whether the slope of a step is 0 whatever the numbers, by what is computed from ``name``."""
    reached = flowing(program, (name,))
    key = standard(step, program).key
    return all(local_pullback(key, place).right == 0 for place in positions(step, reached))


__all__ = ["Reason", "Vanishing", "bottlenecks"]
