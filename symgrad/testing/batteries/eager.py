"""How far off torch's own backward is in low precision: what a candidate is allowed twice of.

Comes in: a bench with a formula. Goes out: eager torch's largest error relative to Σ|v|·|J|, or None.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from symgrad.oracles.torch import only_data, torch_forward
from symgrad.testing.candidates.quiet import listening
from symgrad.testing.right.bench import Bench


def eager_error(bench: Bench) -> float | None:
    """The error of the table's torch calls on inputs of the candidate's type; None in float64 and without torch."""
    formula, dtype = bench.formula, bench.rounding.dtype
    if formula is None or dtype == "float64" or len(formula.programs) > 1 or importlib.util.find_spec("torch") is None:
        return None
    import torch

    kind = getattr(torch, dtype)
    found: dict[str, Any] = {}
    wanted = {*formula.wanted} - only_data(formula.programs[0])
    with listening() as heard, torch.enable_grad():
        for name, array in formula.inputs.items():
            number = torch.as_tensor(np.asarray(array))
            found[name] = number.to(kind).requires_grad_(name in wanted) if number.is_floating_point() else number
        out = torch_forward(formula.programs[0], found)
        leaves = {n: found[n] for n in formula.wanted if n in found and found[n].requires_grad}
        errors = []
        trials = {name: bench.trials(name) for name in leaves}
        for place, weights in enumerate(bench.weights):
            seed = torch.as_tensor(weights.seeds[0]).to(out.dtype)
            came: Sequence[Any] = torch.autograd.grad(
                out, list(leaves.values()), seed, retain_graph=True, allow_unused=True
            )
            for name, gradient in zip(leaves, came, strict=True):
                trial = trials[name][place]
                got = np.zeros(trial.expected.shape) if gradient is None else gradient.double().numpy()
                gap = np.abs(got - trial.expected)
                errors.append(float(gap[np.isfinite(gap)].max(initial=0.0)) / max(trial.scale, 1e-30))
        return max(errors, default=0.0)
    return None if heard.failure else 0.0
