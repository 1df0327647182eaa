"""What the equation of a loss means: that of one entry, or of one line, added up or averaged.

Comes in: the reading of the equation. Goes out: the right-hand side under each ``reduction``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.along import Along
from symgrad.entries.readings import Pointwise, without
from symgrad.entries.shaping import common_shape
from symgrad.entries.spec import At, Held, Options, View
from symgrad.indexing import add_up, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.notation.tree import Statement
from symgrad.shapes import Shape, Sizes

SIZE_AVERAGE, REDUCE = "size_average: reduction=None", "reduce: reduction=None"
BY_AVERAGE = f"{SIZE_AVERAGE}, {REDUCE}"
"""torch's older words, in the places that they have there: what stands third in ``F.mse_loss(x, y, 'sum')`` is one."""
BY_WORD = "reduction: 'mean' | 'sum' | 'none'='mean'"


@dataclass(frozen=True)
class Loss:
    """The loss of one entry, or of one line, added up or averaged as ``reduction`` says.

    Where the equation defines a w the mean is weighed: divided by the sum of w. ``values`` computes it on arrays, with
    its w beside it if there is one.
    """

    entry: Pointwise | Along
    values: Callable[..., Any] | None = None

    @property
    def examples(self) -> tuple[str, ...]:
        """Each reduction."""
        call = self.entry.call
        plainly = f"F.{call.name}({', '.join(name for name in call.operands if name not in call.optional)}"
        return (f"{plainly})", *(f'{plainly}, reduction="{word}")' for word in ("sum", "none")))

    def shape(self, sizes: Sizes, shapes: tuple[Shape | None, ...], reduction: str, **options: Any) -> Shape:
        """That of the losses, or one number."""
        if reduction != "none":
            return ()
        first = shapes[0] or ()
        return self.entry.without_one(sizes, (first,)) if isinstance(self.entry, Along) else common_shape(sizes, shapes)

    def index(self, at: At, views: Sequence[View | None], held: Mapping[str, Held], options: Options) -> Expr:
        """The right-hand side at each entry, and their sum or mean."""
        rest = {name: value for name, value in options.items() if name != "reduction"}
        reduction = options["reduction"]
        if reduction == "none":
            return self.entry.index(at, views, held, rest)
        whole = next((v.shape for v in views if v is not None and v.constant is None), ())
        axes = self.entry.axes(rest, len(whole)) if isinstance(self.entry, Along) else ()
        shape = tuple(size for a, size in enumerate(whole) if a not in axes)
        inner = fresh_axes(shape)
        total = add_up(self.entry.index(inner, views, held, rest), inner)
        weight = self.weight(views, rest)
        if reduction == "mean" and weight is not None and isinstance(self.entry, Along):
            return total / add_up(self.entry.of(weight, inner, views, held, rest), inner)
        count = shape[:1] if reduction == "batchmean" else () if reduction == "sum" else shape
        return total / sp.Mul(*count)

    def weight(self, views: Sequence[View | None], options: Options) -> Statement | None:
        """What the equation defines as w."""
        text, absent = self.entry.written(views, options)
        definitions = text.partition(" where ")[2]
        return without(f"out = w where {definitions}", absent) if " w = " in text else None

    def forward(self, *arrays: Any, reduction: str, **options: Any) -> Any:
        """The same on arrays, where ``values`` computes it there."""
        assert self.values is not None
        values = self.values(*arrays, **options)
        found, weights = values if isinstance(values, tuple) else (np.asarray(values), None)
        if reduction == "none":
            return found
        weighed = found.size if weights is None else np.sum(weights)
        count = len(found) if reduction == "batchmean" else 1 if reduction == "sum" else weighed
        return np.sum(found) / (count or np.float64(0))
