"""Operations people name as one, though they are made of simpler ones.

Each is one equation here, so that its derivative comes out in one piece; ``expands`` is the same operation
written in simpler ones, which is what ``--expand`` shows.
"""

from __future__ import annotations

from typing import Any

from symgrad.entries.equations import op

BY_COUNT: Any = {f"F.{word}": lambda sizes: int(len(sizes) not in (0, 1, 3)) for word in ("softmax", "log_softmax")}
"""The axis that torch goes along where none is given, with a warning: it depends on how many there are."""


# fmt: off
op("softmax(x, dim: int=-1)", "out[i] = exp(x[i]) / Σ_j exp(x[j])", "positive weights along one axis that sum to one",
   ("torch.{}", "F.{}", "Tensor.{}", "torch.special.{}"), along="dim", reuse=True,
   examples=("softmax(x) with x:3", "softmax(x, dim=1)", "softmax(x, dim=0)"),
   expands="exp(x) / sum(exp(x), dim=dim, keepdim=True)", arrays="x, dim: nn.softmax(x, axis=dim)",
   told=("dim",), implied=BY_COUNT)
op("log_softmax(x, dim: int=-1)", "out[i] = x[i] − log(Σ_j exp(x[j]))", "the logarithm of softmax",
   ("torch.{}", "F.{}", "Tensor.{}"), along="dim", reuse=True,
   examples=("log_softmax(x) with x:3", "log_softmax(x, dim=1)", "log_softmax(x, dim=0)"),
   expands="x - logsumexp(x, dim=dim, keepdim=True)", arrays="x, dim: nn.log_softmax(x, axis=dim)", told=("dim",),
   implied=BY_COUNT)
