"""Why there is no J where something not finite is born, and what would do: advice that fits the cause alone.

Comes in: a program, the step, and the entry with its value. Goes out: lines.

Or why there is one all the same: numbers on the way are too large or too small for their type, and no singular point.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from symgrad.explanation.notable import undefined_anywhere
from symgrad.numeric.exact import Array, as_float
from symgrad.ops import entry_of
from symgrad.program import Apply
from symgrad.tracing.captured.words import step_text
from symgrad.tracing.record.numbers import MOST, digits, short

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

RANK = 1e-10
"""Values that differ by less than this share of the largest are equal."""


@dataclass(frozen=True)
class InRange:
    """What a program and its gradients come to with many digits, where nothing is too large or too small."""

    program: Capture
    arrays: Mapping[str, Array]
    gradients: Mapping[str, Array]

    def lines(self, kinds: Mapping[str, str]) -> list[str]:
        """Which number left the range of its type, and what the gradients are; ``kinds`` are the types by name."""
        recording, known = self.program.recording, self.program.arrays
        gone: dict[str, tuple[int, ...]] = {}
        for step in recording.steps:
            ours, true = as_float(known[step.result.name]), self.arrays[step.result.name]
            lost = ~np.isfinite(ours) | ((ours == 0) & (true != 0))
            if lost.any():
                gone[step.result.name] = tuple(int(i) for i in np.argwhere(lost)[0])
        beyond = [name for name, at in gone.items() if not np.isfinite(as_float(known[name])[at])]
        behind = recording.reaching(beyond[:1]) if beyond else gone  # what made the first of them, as 0 its logarithm
        told = []
        for step in [step for step in recording.steps if step.result.name in gone and step.result.name in behind][:1]:
            name, at = step.result.name, gone[step.result.name]
            entry, kind = f" at {list(at)}" if at else "", kinds.get(name, "float64")
            made, real = digits(float(as_float(known[name])[at])), written(self.arrays[name][at])
            told.append(f"  {step_text(self.program, step)} is {real}{entry}; in {kind} that is {made}")
        return [*told, f"  In the mathematics {self.gradient()}."]

    def gradient(self) -> str:
        """The gradients, or of a large one its largest entry."""
        parts = []
        for name, true in [*self.gradients.items()][:2]:
            label, sizes = self.program.labels.get(name, name), np.abs(true)
            if true.size <= MOST and np.isfinite(as_float(true)).all():
                parts.append(f"{label}.grad is {short(as_float(true))}")
            else:
                at = np.unravel_index(int(np.argmax(sizes)), true.shape)
                parts.append(f"the largest entry of {label}.grad is {written(true[at])}")
        return " and ".join(parts)


def in_range(program: Capture, seeds: Mapping[str, Array]) -> InRange | None:
    """The gradients by many digits; None where they have no number either, or where that would take too long."""
    from symgrad.numeric.many_digits import TooLong  # loads SymPy's functions, which a story seldom needs
    from symgrad.oracles.digits import FIRST, MORE, Truth

    if program.boxes or len(set(program.ends)) != 1:
        return None
    whole = replace(program.recording, output=program.ends[0])
    try:
        truth = Truth(whole, program.values, program.wanted)
        rough = truth.at(FIRST)
        found = truth.at(FIRST + MORE + rough.asked)
        gradients = found.pulled(as_float(seeds[program.ends[0]]), program.wanted)
    except TooLong:
        return None
    return InRange(program, found.arrays, {name: gradients[name] for name in program.wanted if name in gradients})


def written(number: Any) -> str:
    """A number that no float may hold."""
    import mpmath

    held = float(number)
    return digits(held) if np.isfinite(held) and (held or not number) else str(mpmath.nstr(number, 3))


def no_slope(program: Capture, step: Apply, source: str, entry: str, value: float) -> list[str]:
    """Why there is no J, and what would do: advice that fits the cause alone."""
    if value != value or value in (float("inf"), float("-inf")):
        return [f"  {entry} is {digits(value)} already: nothing has a derivative there. Look for what made it so."]
    op = entry_of(step.op)
    known = as_float(program.arrays[source])
    reads = known.ndim > 1 and known.shape[-1] == known.shape[-2]
    if step.result.name in program.boxes or (op is not None and any(d.matrix for d in op.domain.values())):
        return vectors_of_equals(known) if reads else ["  there is no J at this matrix"]
    if whatever := undefined_anywhere(step, program.recording):
        return [f"  there is no J: {whatever}"]
    lines = [f"  there is no J at {entry} = {digits(value)}: the slope of {step.op} is infinite or undefined there."]
    made = as_float(program.arrays[step.result.name])
    if np.isfinite(made).all():
        return [*lines, away(step, entry)]
    domains = list(op.domain.values()) if op is not None else []
    outside = any(not d.low < value < d.high or value in d.avoid for d in domains)
    if not outside and not np.isnan(made).any():
        return [f"  {step.op} is too large for floats at {entry} = {digits(value)}: what comes back is no slope of it"]
    what = ": what goes into it has to be kept inside its domain" if outside else ""
    return [*lines, f"  {step.op} has no finite value there either{what}"]


def away(step: Apply, entry: str) -> str:
    """What keeps an entry from where there is no slope."""
    return f"  keep {entry} away from it: clamp it, or add a small eps to it before {step.op}"


def vectors_of_equals(matrix: Array) -> list[str]:
    """What there is to say of a matrix at which a decomposition has no derivative."""
    found = np.linalg.svd(matrix, compute_uv=False) if np.isfinite(matrix).all() else np.zeros(0)
    largest = float(found.max(initial=0.0))
    if found.size and np.any(found.min(axis=-1) <= RANK * largest):
        return [
            "  the matrix has no full rank: to a singular value of 0 belong no vectors in particular, so there is no J"
        ]
    if found.size and np.any(np.abs(np.diff(found, axis=-1)) <= RANK * largest):
        return [
            "  two of its values are equal: any two directions in their plane may be their vectors, so there is no J.",
            "  the values by themselves have one (eigvalsh, svdvals), and so has what does not change as the two turn;",
            "  small different numbers on the diagonal take the values apart",
        ]
    return ["  there is no J at this matrix"]
