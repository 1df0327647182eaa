"""Calls that draw random numbers: what was drawn is data of this run, what it is applied to is an equation.

Comes in: a recorded call with the random state it had. Goes out: entries of the table on its arguments and on the
numbers that were drawn, which are found by running the call once more on other values.
"""

from __future__ import annotations

from typing import Any

import torch

from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array


@composition("bernoulli", "normal", "poisson", "uniform", "exponential", "log_normal", "geometric", "cauchy")
def drawn(steps: Steps, node: Node, *_: Any, **__: Any) -> Said | None:
    """Numbers from a distribution whose parameters are given: torch passes nothing back to those."""
    return done(steps.lifter.data("drawn", node.value()))


@composition()
def rrelu(
    steps: Steps, node: Node, x: Any, lower: Any = 1 / 8, upper: Any = 1 / 3, training: bool = False, *_: Any, **__: Any
) -> Said | None:
    """x where it is positive, elsewhere times a slope: drawn in training, else the middle."""
    if not training:
        return "F.leaky_relu", (x, (lower + upper) / 2), {}
    signs = torch.where(x.held > 0, 1.0, -1.0).to(x.held.dtype)  # a slope is drawn for each that is not positive
    slopes = as_array(replayed(node, (x,), (signs,)) * signs)
    return "torch.mul", (x, steps.lifter.data("slope", slopes)), {}
