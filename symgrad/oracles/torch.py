"""torch's own answer: the program run on leaf tensors in float64, and ``out.backward(v)``.

The only place outside `symgrad.capture` and `symgrad.testing` that imports torch, and only when called.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.numeric.exact import Array, as_float
from symgrad.numeric.forward import numbers, options_of
from symgrad.ops import named
from symgrad.program import Program


@dataclass(frozen=True, eq=False)
class TorchRun:
    """What torch computed: the output and the gradient of every input asked for (None: no path)."""

    output: Array
    gradients: Mapping[str, Array | None]
    version: str


def torch_version() -> str | None:
    """The installed torch's version, or None; torch is not imported to find out."""
    if importlib.util.find_spec("torch") is None:
        return None
    from importlib import metadata  # loads the e-mail parser, among others

    return metadata.version("torch").split("+")[0]


def run_torch(program: Program, inputs: Mapping[str, Array], seed: Array, wanted: Sequence[str]) -> TorchRun | None:
    """``out.backward(v)`` by torch; None when torch is not installed."""
    if torch_version() is None:
        return None
    import torch

    tensors: dict[str, Any] = {
        name: torch.tensor(as_float(array), dtype=torch.float64, requires_grad=name in wanted)
        for name, array in inputs.items()
    }
    leaves = dict(tensors)
    for step in program.steps:
        arguments = [
            tensors[a] if isinstance(a, str) else None if a.value is None
            else torch.tensor(float(numbers(a.value, program.sizes)), dtype=torch.float64)
            for a in step.arguments
        ]  # fmt: skip
        tensors[step.result.name] = named(step.op).torch(torch, *arguments, **options_of(step, program.sizes))
    out = tensors[program.output]
    if out.requires_grad:
        out.backward(torch.tensor(as_float(seed), dtype=torch.float64).reshape(out.shape))
    gradients = {name: None if leaves[name].grad is None else leaves[name].grad.numpy() for name in wanted}
    return TorchRun(np.asarray(out.detach().numpy()), gradients, torch.__version__.split("+")[0])
