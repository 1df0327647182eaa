"""Whether single precision alone explains how far torch's gradient is from the derived one.

Comes in: a captured program, its seeds, and what torch added. Goes out: a verdict, from two runs of the program by
torch: in double precision the derived gradient, of values in double precision as well, has to be torch's, and in single
precision torch has to be as far from that as it was in the script.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from symgrad.errors import SymgradError
from symgrad.numeric import forward
from symgrad.numeric.exact import Array, as_float
from symgrad.oracles.torch import run_torch
from symgrad.tracing.lift.sweeps import pull

if TYPE_CHECKING:
    from symgrad.tracing.captured.capture import Capture

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
