"""Why a run's gradient is another than the derived one: torch's own rule for a call, or the type that it computed in.

Comes in: a call of the script on the way back. Goes out: torch's numbers for it, and a sentence, where torch's own
forward pass of that call has the derived slopes and its backward says something else, as that of ``polar`` does at
negative lengths and that of ``cosine_similarity`` below its ``eps``. Asked only after a gradient was found to differ.

Single precision explains a distance if two runs of the program by torch say so: in double precision the derived
gradient, of values in double precision as well, has to be torch's, and in single precision torch has to be as far from
that as it was in the script. Where numbers on the way are too large or too small for their type, and there is no
singular point, `in_range` finds the gradients with many digits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric import forward
from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.torch import run_torch
from symgrad.oracles.torch_rules import MOST_RULES, contradicts_itself
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.captured.words import format_step
from symgrad.tracing.lift.boxes import CallOrigin, rerun, with_operands
from symgrad.tracing.lift.sweeps import agree_up_to_rounding, computing_dtypes, differs_by_rounding, pull_calls
from symgrad.tracing.record.numbers import MOST, format_array, format_digits
from symgrad.tracing.record.trace import as_numbers, tensors_in


def by_torchs_rule(
    origin: CallOrigin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
) -> tuple[dict[str, Array], str]:
    """``arrived`` with torch's numbers where its forward pass contradicts its backward, and where that is.

    Nothing is put in, and nothing said, unless every entry that differs is such a one.
    """
    names = [name for name in arrived if name in origin.box.names]
    places = [origin.box.names.index(name) for name in names]
    found, reason = dict(arrived), ""
    try:
        chosen = origin.box.pull(cotangent, places)
    except SymgradError:
        return found, ""
    for name, place in zip(names, places, strict=True):
        ours, theirs = as_float(arrived[name]), as_float(chosen[place])
        if ours.shape != theirs.shape:
            continue
        differ = [
            tuple(int(i) for i in at)
            for at in np.argwhere(
                ~agree_up_to_rounding(ours, theirs) & ~differs_by_rounding(ours, theirs, computing_dtypes(origin))
            )
        ]
        if not differ:
            continue
        entries = as_float(arrays[name])
        for at in differ[:MOST_RULES]:
            total = total_of(origin, place, at, cotangent)
            if total is None or not contradicts_itself(float(ours[at]), float(theirs[at]), float(entries[at]), total):
                return dict(arrived), ""
        at, count = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        found[name] = theirs
        reason = reason or (
            f"its backward returns {format_digits(float(theirs[at]))} for entry {list(at)}{count} of its argument, "
            f"where its forward pass has the slope {format_digits(float(ours[at]))} on both sides"
        )
    return found, reason


def total_of(origin: CallOrigin, place: int, at: tuple[int, ...], cotangent: Array) -> Callable[[float], float] | None:
    """Σ v·result of a call in double precision, for a shift of one entry of an argument; None where it is complex."""
    box = origin.box
    nodes = tuple({id(node): node for node in box.call.nodes()}.values())
    held = [wide(node.tensor()) for node in nodes]
    number = next(n for n, node in enumerate(nodes) if node is box.arguments[place])
    if held[number].is_complex():
        return None

    def total(shift: float) -> float:
        tensors = [tensor.clone() for tensor in held]
        tensors[number][at] += shift
        try:
            with torch.no_grad():
                results = list(tensors_in(rerun(box.call, *with_operands(box.call, nodes, tensors), None)))
        except (RuntimeError, TypeError, ValueError):  # not of these types, then
            return float("nan")
        return float(
            np.sum(as_float(cotangent) * as_float(as_numbers(results[box.index])).reshape(np.shape(cotangent)))
        )

    return total


def wide(tensor: Any) -> Any:
    """A copy in double precision, where it holds numbers."""
    copy = tensor.detach().clone()
    return copy.to(torch.complex128) if copy.is_complex() else copy.double() if copy.is_floating_point() else copy


SHRINKS = 1e-3
"""What is left of a difference in double precision, at most, if single precision made it."""
ALIKE = 10.0
"""How many times as far from double precision a script may be as the same program run again in single precision."""


class Precision:
    """One call's gradients in double precision, derived and by torch, and torch's in single precision."""

    def __init__(self, program: Capture, seeds: Mapping[str, Array]) -> None:
        self.program, self.seeds = program, seeds

    @cached_property
    def runs(self) -> tuple[Mapping[str, Array | None], ...] | None:
        """The three; None where a step is a black box, several outputs have seeds, or torch does not run it."""
        program = self.program
        if program.boxes or len(set(program.ends)) != 1:
            return None
        whole = replace(program.recording, output=program.ends[0])
        given = {tensor.name: as_float(program.arrays[tensor.name]) for tensor in whole.inputs}
        seed = as_float(self.seeds[program.ends[0]])
        try:
            own = pull_calls(whole, forward(whole, given), {}, self.seeds, program.wanted)
            double, single = (run_torch(whole, given, seed, program.wanted, k) for k in ("float64", "float32"))
        except (SymgradError, RuntimeError, ValueError, TypeError):
            return None
        return None if double is None or single is None else (own, double.gradients, single.gradients)

    def explains(self, name: str, got: Array) -> bool:
        """Whether the difference of ``got`` from the derived gradient by one tensor is rounding of torch's."""
        if self.runs is None or any(run.get(name) is None for run in self.runs):
            return False
        own, double, single = (as_float(run[name]) for run in self.runs)
        if not own.shape == double.shape == got.shape:
            return False
        left, here, again = (float(np.abs(a - double).max(initial=0)) for a in (own, got, single))
        return bool(np.isfinite([left, here, again]).all()) and left <= SHRINKS * here and here <= ALIKE * again


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
            made, real = format_digits(float(as_float(known[name])[at])), written(self.arrays[name][at])
            told.append(f"  {format_step(self.program, step)} is {real}{entry}; in {kind} that is {made}")
        return [*told, f"  Mathematically, {self.gradient()}."]

    def gradient(self) -> str:
        """The gradients, or of a large one its largest entry."""
        parts = []
        for name, true in [*self.gradients.items()][:2]:
            label, sizes = self.program.labels.get(name, name), np.abs(true)
            if true.size <= MOST and np.isfinite(as_float(true)).all():
                parts.append(f"{label}.grad is {format_array(as_float(true))}")
            else:
                at = np.unravel_index(int(np.argmax(sizes)), true.shape)
                parts.append(f"the largest entry of {label}.grad is {written(true[at])}")
        return " and ".join(parts)


def in_range(program: Capture, seeds: Mapping[str, Array]) -> InRange | None:
    """The gradients by many digits; None where they have no number either, or where that would take too long."""
    from symgrad.numeric.symbols_and_digits import TooLong
    from symgrad.oracles.digits import DIGITS, FIRST, MORE, PreciseGradients

    if program.boxes or len(set(program.ends)) != 1:
        return None
    truth = PreciseGradients(replace(program.recording, output=program.ends[0]), program.values, program.wanted)
    for count in (FIRST, DIGITS):  # 1 - sigmoid(200) is 0 in the first ones
        try:
            found = truth.at(count + MORE + truth.at(count).asked)
            gradients = found.pulled(as_float(seeds[program.ends[0]]), program.wanted)
        except TooLong:
            continue
        return InRange(program, found.arrays, {name: gradients[name] for name in program.wanted if name in gradients})
    return None


def written(number: Any) -> str:
    """A number that no float may hold."""
    import mpmath

    held = float(number)
    return format_digits(held) if np.isfinite(held) and (held or not number) else str(mpmath.nstr(number, 3))
