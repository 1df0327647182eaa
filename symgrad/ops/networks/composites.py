"""Operations people name as one, though they are made of simpler ones.

Each is one equation here, so that its derivative comes out in one piece; ``expands`` is the same operation
written in simpler ones, which is what ``--expand`` shows.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from symgrad.entries.equations import op
from symgrad.entries.shaping import axis_of
from symgrad.shapes import Shape


def one_axis(shapes: tuple[Shape, ...], dim: Any = -1) -> dict[str, Hashable]:
    """The axis from the front, as a tuple."""
    axis = axis_of(dim, len(shapes[0]))
    return {"dim": (axis,) if shapes[0] else ()}


BY_COUNT: Any = {f"F.{word}": lambda sizes: int(len(sizes) not in (0, 1, 3)) for word in ("softmax", "log_softmax")}
"""The axis that torch goes along where none is given, with a warning: it depends on how many there are."""


# fmt: off
op("softmax(x, dim: any=-1)", "out[i] = exp(x[i]) / Σ_j exp(x[j])", "positive weights along one axis that sum to one",
   ("torch.{}", "F.{}", "Tensor.{}", "torch.special.{}"), along="dim", prepare=one_axis, reuse=True,
   torch=lambda torch, x, dim: torch.softmax(x, dim[0] if dim else 0),
   examples=("softmax(x) with x:3", "softmax(x, dim=1)", "softmax(x, dim=0)"),
   expands="exp(x) / sum(exp(x), dim=dim, keepdim=True)", arrays="x, dim: nn.softmax(x, axis=dim)",
   told=("dim",), implied=BY_COUNT)
op("log_softmax(x, dim: any=-1)", "out[i] = x[i] − log(Σ_j exp(x[j]))", "the logarithm of softmax",
   ("torch.{}", "F.{}", "Tensor.{}"), along="dim", prepare=one_axis, reuse=True,
   torch=lambda torch, x, dim: torch.log_softmax(x, dim[0] if dim else 0),
   examples=("log_softmax(x) with x:3", "log_softmax(x, dim=1)", "log_softmax(x, dim=0)"),
   expands="x - logsumexp(x, dim=dim, keepdim=True)", arrays="x, dim: nn.log_softmax(x, axis=dim)", told=("dim",),
   implied=BY_COUNT)
