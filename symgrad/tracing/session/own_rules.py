"""Where a run's gradient is another than the derived one: torch's own rule for a call, or single precision alone.

Comes in: a call of the script on the way back. Goes out: torch's numbers for it, and a sentence, where torch's own
forward pass of that call has the derived slopes and its backward says something else, as that of ``polar`` does at
negative lengths and that of ``cosine_similarity`` below its ``eps``. Asked only after a gradient was found to differ.

Single precision explains a distance if two runs of the program by torch say so: in double precision the derived
gradient, of values in double precision as well, has to be torch's, and in single precision torch has to be as far from
that as it was in the script.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric import forward
from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.torch import run_torch
from symgrad.oracles.torch_rules import contradicted
from symgrad.oracles.verdict import MOST_RULES
from symgrad.tracing.captured.capture import Capture
from symgrad.tracing.lift.boxes import replaced, rerun
from symgrad.tracing.lift.labels import Origin
from symgrad.tracing.lift.singular import alike, kinds_of, rounded
from symgrad.tracing.lift.sweeps import pull
from symgrad.tracing.record.numbers import digits
from symgrad.tracing.record.trace import as_array, tensors_in


def by_torchs_rule(
    origin: Origin, arrived: Mapping[str, Array], cotangent: Array, arrays: Mapping[str, Array]
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
            for at in np.argwhere(~alike(ours, theirs) & ~rounded(ours, theirs, kinds_of(origin)))
        ]
        if not differ:
            continue
        entries = as_float(arrays[name])
        for at in differ[:MOST_RULES]:
            total = total_of(origin, place, at, cotangent)
            if total is None or not contradicted(float(ours[at]), float(theirs[at]), float(entries[at]), total):
                return dict(arrived), ""
        at, count = differ[0], f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        found[name] = theirs
        reason = reason or (
            f"its backward says {digits(float(theirs[at]))} for entry {list(at)}{count} of its argument, where its own "
            f"forward pass has the slope {digits(float(ours[at]))} on both sides"
        )
    return found, reason


def total_of(origin: Origin, place: int, at: tuple[int, ...], cotangent: Array) -> Callable[[float], float] | None:
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
                results = list(tensors_in(rerun(box.call, *replaced(box.call, nodes, tensors), None)))
        except (RuntimeError, TypeError, ValueError):  # not of these types, then
            return float("nan")
        return float(np.sum(as_float(cotangent) * as_float(as_array(results[box.index])).reshape(np.shape(cotangent))))

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
            own = pull(whole, forward(whole, given), {}, self.seeds, program.wanted)
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
