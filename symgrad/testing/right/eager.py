"""What torch's own backward gives in the type of the candidate: what it is off by, and what the type does not hold.

Comes in: a formula and seeds. Goes out: an `Eager`; None in float64, without torch, and where torch refuses.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from symgrad.numeric import Array, as_float
from symgrad.oracles.torch import only_data, torch_forward
from symgrad.testing.candidates.quiet import listening
from symgrad.testing.right.seeds import Weights
from symgrad.testing.right.truth import Formula


@dataclass(frozen=True, eq=False)
class Eager:
    """The outputs, and for each seed the gradients."""

    outputs: tuple[Array, ...]
    gradients: tuple[Mapping[str, Array], ...]


def eager_of(formula: Formula, dtype: str, every: Sequence[Weights]) -> Eager | None:
    """The table's torch calls on inputs of the candidate's type."""
    if dtype == "float64" or importlib.util.find_spec("torch") is None:
        return None
    import torch

    wanted = {*formula.wanted}.difference(*map(only_data, formula.programs))
    kind = getattr(torch, dtype)
    found: dict[str, Any] = {}
    with listening(), torch.enable_grad():
        for name, array in formula.inputs.items():
            number = torch.as_tensor(as_float(array) if array.dtype.kind == "O" else np.asarray(array))
            found[name] = number.to(kind).requires_grad_(name in wanted) if number.is_floating_point() else number
        outs = [torch_forward(program, found) for program in formula.programs]
        leaves = {n: found[n] for n in formula.wanted if n in found and found[n].requires_grad}
        gradients = []
        for weights in every:
            told = [
                (out, torch.as_tensor(seed).to(out.dtype))
                for out, seed in zip(outs, weights.seeds, strict=True) if out.requires_grad
            ]  # fmt: skip
            came: Sequence[Any] = [None] * len(leaves)
            if told and leaves:
                ends, seeds = zip(*told, strict=True)
                came = torch.autograd.grad(ends, list(leaves.values()), seeds, retain_graph=True, allow_unused=True)
            gradients.append({n: as_array(g, found[n]) for n, g in zip(leaves, came, strict=True)})
        return Eager(tuple(as_array(out, out) for out in outs), tuple(gradients))
    return None


def as_array(tensor: Any, like: Any) -> Array:
    """The numbers of a tensor in float64; zeros for none."""
    return np.zeros(tuple(like.shape)) if tensor is None else np.asarray(tensor.detach().double().numpy())
