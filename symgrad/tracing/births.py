"""Where NaN and infinity come from: the step that made the first one, and what the mathematics says there.

Comes in: a program of one run, and the sweep as it goes, step by step. Goes out: lines for the notes of a call.
A sweep spreads what is not finite over everything behind it, so only the place of birth says anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.program import Apply
from symgrad.tracing.numbers import digits
from symgrad.tracing.words import step_text

if TYPE_CHECKING:
    from symgrad.tracing.program import Program


@dataclass(frozen=True)
class Birth:
    """A step whose pullback made a NaN or an infinity of finite weights."""

    step: Apply
    place: int
    weights: Array
    result: Array


def births(found: list[Birth]) -> Callable[[Apply, int, Array, Array], None]:
    """A watcher for the sweep that notes where what is not finite is born."""

    def seen(step: Apply, place: int, weights: Array, result: Array) -> None:
        if weights.dtype == object or result.dtype == object:
            return
        if np.isfinite(as_float(weights)).all() and not np.isfinite(as_float(result)).all():
            found.append(Birth(step, place, as_float(weights), as_float(result)))

    return seen


def not_finite(program: Program, found: list[Birth]) -> list[str]:
    """Where NaN and infinity come from, and what the mathematics says there."""
    for step in program.recording.steps:
        value = program.arrays[step.result.name]
        inputs = [program.arrays[a] for a in step.tensors]
        if (
            value.dtype != object
            and not np.isfinite(value).all()
            and all(np.isfinite(as_float(i)).all() for i in inputs)
        ) and not found:
            at = tuple(int(i) for i in np.argwhere(~np.isfinite(as_float(value)))[0])
            text = step_text(program.recording, step, program.labels)
            return [f"{digits(float(as_float(value)[at]))} is born in the forward pass: {text}, at {list(at)}"]
    lines = []
    for birth in found[:2]:
        lines += told(program, birth)
    return lines


def told(program: Program, birth: Birth) -> list[str]:
    """One birth in words."""
    step = birth.step
    source = str(step.arguments[birth.place])
    at = tuple(int(i) for i in np.argwhere(~np.isfinite(birth.result))[0])
    value = float(as_float(program.arrays[source])[at])
    text = step_text(program.recording, step, program.labels)
    line = program.lines.get(step.result.name)
    name = program.labels.get(source, source)
    entry = f"{name}[{','.join(map(str, at))}]" if at else name
    lines = [
        (
            f"{digits(float(birth.result[at]))} is born going back through {text}"
            f"{f' (line {line.line})' if line else ''}, at {entry} = {digits(value)}"
        )
    ]
    weight = float(birth.weights[at]) if birth.weights.shape == birth.result.shape else None
    if weight == 0:
        lines.append(
            f"  the weight that arrives there is 0, so in the mathematics {entry} does not count: "
            "its part is 0. "
            "Step by step it is 0 · ∞ (or 0 · nan), which is nan."
        )
        if any(s.op == "where" for s in program.recording.steps):
            lines.append(
                f"  give {step.op} a value it can take where it is not chosen: "
                f"safe = torch.where(condition, {name}, 1), "
                f"then torch.where(condition, torch.{step.op}(safe), …)"
            )
        else:
            lines.append(
                "  a fused operation that knows the point (torch.linalg.vector_norm, F.normalize) has a finite choice"
            )
    else:
        lines.append(
            f"  there is no J at {entry} = {digits(value)}: the slope of {step.op} is infinite or undefined there."
        )
        lines.append(
            "  keep away from it (clamp, or add a small eps inside), or use a fused operation that has a value there"
        )
    return lines


__all__ = ["Birth", "births", "not_finite"]
