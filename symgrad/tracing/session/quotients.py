"""What is said of gradcheck, which compares J with difference quotients: step, rounding, a kink that it steps over.

Comes in: the program of the function that is checked, torch's outputs, the step. Goes out: lines.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from symgrad.explanation.ties import Local, apart
from symgrad.numeric.exact import Array, as_float
from symgrad.tracing.record.numbers import digits

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

MOST = 64
"""Entries of an input that is moved by gradcheck's step."""


def differentiated(weights: Sequence[str]) -> str:
    """What gradgradcheck differentiates."""
    seeds, them = " and ".join(weights), "them" if len(weights) > 1 else "it"
    return (
        f"its function is a backward, and {seeds} the v of that: J by {them} is the first derivative again, J by the "
        "others the second"
    )


def checked_by_quotients(step: float) -> str:
    """gradcheck's own convention."""
    return (
        f"gradcheck compares J with difference quotients of step eps = {step:g}; what it prints has inputs as "
        "rows: it is Jᵀ"
    )


def rounded_away(program: Capture, outputs: Sequence[Any], step: float) -> Iterator[str]:
    """What rounding alone does to a difference quotient, where the outputs have fewer digits than float64."""
    kinds = {t.dtype for t in outputs if t.is_floating_point()} - {torch.float64}
    if not kinds or not step:
        return
    kind = max(kinds, key=lambda k: torch.finfo(k).eps)
    largest = max(float(np.abs(as_float(program.arrays[end])).max(initial=0.0)) for end in program.ends)
    moved = torch.finfo(kind).eps * largest / (2 * step)
    if np.isfinite(moved) and moved:
        yield (
            f"in {str(kind).removeprefix('torch.')} rounding alone moves such a quotient by up to {digits(moved)}: "
            "give gradcheck inputs in double, x.double()"
        )


def across_a_kink(program: Capture, step: float) -> Iterator[str]:
    """The entries whose difference quotient reaches over a kink, so that it is neither slope."""
    if program.boxes or len(set(program.ends)) > 1 or not step:
        return
    whole = replace(program.recording, output=program.ends[0])
    arrays = {t.name: as_float(program.arrays[t.name]) for t in whole.inputs}
    weights = np.random.default_rng(1).uniform(0.5, 1.5, np.shape(program.arrays[program.ends[0]]))
    for name in program.wanted:
        array = arrays[name]
        if array.size > MOST:
            continue
        local = Local(whole, arrays, name, weights)
        for at in np.ndindex(*array.shape):
            unit: Array = np.zeros(array.shape)
            unit[at] = step
            low, high = (float(local.slope(by, np.ones(()))[at]) for by in (-unit, unit))
            if not bool(apart(np.array(low), np.array(high)).any()) or abs(low - high) < 1e3 * step * max(1, abs(low)):
                continue
            quotient = float((local.out(unit) - local.out(-unit)) / (2 * step))
            entry = f"{program.labels[name]}[{','.join(map(str, at))}]" if at else program.labels[name]
            share = (quotient - low) / (high - low)
            yield (
                f"{entry} = {digits(float(array[at]))} is within eps of a kink: the quotient reaches over it and mixes "
                f"{1 - share:.0%} of the slope on its left with {share:.0%} of that on its right"
            )
            return
