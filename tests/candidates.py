"""What the corpora of backwards are made of: a candidate, what it claims to be, its inputs, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from symgrad.testing import BackwardReport, check_backward

DOUBLE = torch.float64


def randn(*shape: int, seed: int = 0, dtype: torch.dtype = DOUBLE) -> torch.Tensor:
    """Normal numbers, the same each time."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(dtype)


def draws(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal numbers for NumPy."""
    return np.random.default_rng(seed).standard_normal(shape)


@dataclass(frozen=True)
class Candidate:
    """A backward: ``kinds`` are names that are right for its fault (none for a correct one)."""

    name: str
    fn: Any
    expression: Any
    inputs: Callable[[], Mapping[str, Any]]
    kinds: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def report(self) -> BackwardReport:
        """What the tool says."""
        return check_backward(self.fn, self.expression, **self.options, **self.inputs())


def function(forward: Callable[..., Any], backward: Callable[..., Any], name: str = "Custom") -> Callable[..., Any]:
    """An autograd.Function with ``backward(v, *inputs)``; None for an argument that is no tensor."""

    def ahead(ctx: Any, *inputs: Any) -> Any:
        ctx.save_for_backward(*(x for x in inputs if isinstance(x, torch.Tensor)))
        return forward(*inputs)

    def back(ctx: Any, *v: Any) -> Any:
        return backward(*v, *ctx.saved_tensors)

    made = type(name, (torch.autograd.Function,), {"forward": staticmethod(ahead), "backward": staticmethod(back)})
    return made.apply


def with_ctx(forward: Callable[..., Any], backward: Callable[..., Any], name: str = "Custom") -> Callable[..., Any]:
    """An autograd.Function as it stands, both with ctx."""
    made = type(
        name, (torch.autograd.Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}
    )
    return made.apply
