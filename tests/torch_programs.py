"""torch's answers for tests about programs, run step by step by the table's torch column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.numeric.forward_pass import numbers, options_of
from symgrad.ops import entry_named
from symgrad.oracles.torch import data_inputs
from symgrad.program import Program
from tests.torch_side import F64, MORE_DIGITS, gradients, tensors


def function_of(program: Program, digits: Mapping[str, Any] = MORE_DIGITS) -> Callable[..., torch.Tensor]:
    """``program`` as a function of its inputs, by the table's torch column but for the operations in ``digits``."""

    def run(*inputs: torch.Tensor) -> torch.Tensor:
        known = dict(zip((t.name for t in program.inputs), inputs, strict=True))
        for step in program.forward_steps:
            arguments = [
                known[a] if isinstance(a, str) else None if a.value is None
                else torch.tensor(float(numbers(a.value, program.sizes)), dtype=F64)
                for a in step.arguments
            ]  # fmt: skip
            options = options_of(step, program.sizes)
            more = digits.get(step.op)
            known[step.result.name] = (
                more(*arguments, **options) if more else entry_named(step.op).torch(torch, *arguments, **options)
            )
        return known[program.output]

    return run


def jacobians(program: Program, inputs: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """torch.autograd.functional.jacobian by every input, in torch's layout; 0 by those that are only read."""
    fixed, run, order = data_inputs(program), function_of(program), [t.name for t in program.inputs]
    given = tensors({name: inputs[name] for name in order}, fixed)
    moving = [name for name in order if name not in fixed]

    def by_moving(*arguments: torch.Tensor) -> torch.Tensor:
        known = {**given, **dict(zip(moving, arguments, strict=True))}
        return run(*(known[name] for name in order))

    found = torch.autograd.functional.jacobian(by_moving, tuple(given[name] for name in moving))
    zero = {name: np.zeros((*run(*given.values()).shape, *given[name].shape)) for name in fixed}
    return {**zero, **{name: j.numpy() for name, j in zip(moving, found, strict=True)}}


def program_gradients(
    program: Program, inputs: Mapping[str, Any], seed: Any
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """`gradients` of a program."""
    order: Sequence[str] = [t.name for t in program.inputs]
    return gradients(lambda known: function_of(program)(*(known[n] for n in order)), inputs, seed, data_inputs(program))
