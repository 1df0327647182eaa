"""The lines of a backward run as a person would run them: pasted into Python, with torch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from symgrad.backward import Backward


def run_lines(lines: Backward, inputs: Mapping[str, Any], *seeds: Any) -> dict[str, torch.Tensor]:
    """What ``lines.code()`` computes, by the tensors that the gradients belong to."""
    precision = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)  # (x > 0) / 3 is float32 otherwise
    try:
        return as_pasted(lines, inputs, *seeds)
    finally:
        torch.set_default_dtype(precision)


def as_pasted(lines: Backward, inputs: Mapping[str, Any], *seeds: Any) -> dict[str, torch.Tensor]:
    """The same with torch's floats as they are: what is computed of truth values alone has theirs."""
    space: dict[str, Any] = {}
    exec(lines.code(), space)
    given = [torch.as_tensor(np.asarray(inputs[name])) for name in lines.inputs if name not in lines.constants]
    found = space["backward"](*given, *(torch.as_tensor(np.asarray(seed, dtype=float)) for seed in seeds))
    return dict(zip(lines.gradients, found if isinstance(found, tuple) else (found,), strict=True))
