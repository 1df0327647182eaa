"""Torch's inner calls on weights: rows looked up, a norm kept apart, a matrix for each group of rows.

Comes in: a call with positions where users give names. Goes out: entries of the table.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from symgrad.ops import ground
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, plainly

COUNTED = "scale_grad_by_freq divides what flows to a row by how often it was read: that is torch's rule, no derivative"


@composition()
def embedding(steps: Steps, node: Node, *given: Any, **spoken: Any) -> Said | None:
    """Rows of a weight; torch's inner call has the weight first, and no name for a row that gets nothing."""
    assert node.call is not None
    outer = node.call.spelling.startswith("F.")
    if spoken.get("scale_grad_by_freq") or given[5 if outer else 3 : 6 if outer else 4] == (True,):
        raise Refused(COUNTED)
    if outer:
        return None
    weight, indices, *rest = given
    padding = spoken.get("padding_idx", rest[0] if rest else -1)
    return "F.embedding", (indices, weight), {} if padding < 0 else {"padding_idx": padding}


@composition("grouped_mm", "_grouped_mm")
def grouped_mm(
    steps: Steps, node: Node, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Said | None:  # fmt: skip
    """A product of matrices for each group: of rows of a, of columns of b, or of what is summed over."""
    if bias is not None:
        return None
    if offs is None:
        return "torch.matmul", (a, b), {}
    ends = [0, *(int(n) for n in plainly(offs))]
    cut_a, cut_b = len(a.shape) == 2, len(b.shape) == 2
    whole = steps.number(a.shape[-2 if not cut_b else -1] if cut_a else b.shape[-1])
    if ends[-1] != whole or not (cut_a or cut_b):
        raise Refused("the groups do not fill the matrix")
    parts = []
    for n, (begin, end) in enumerate(pairwise(ends)):
        size = end - begin
        one = steps(ground.narrow, a, -1 if cut_b else 0, begin, size) if cut_a else steps(ground.select, a, 0, n)
        other = steps(ground.narrow, b, 0 if cut_a else -1, begin, size) if cut_b else steps(ground.select, b, 0, n)
        if begin < end or (cut_a and cut_b):
            parts.append(steps(ground.matmul, one, other))
    if cut_a and cut_b:
        return "torch.stack", (parts, 0), {}
    return ("torch.cat", (parts, 0 if cut_a else -1), {}) if len(parts) > 1 else done(parts[0])


@composition()
def multilabel_margin_loss(steps: Steps, node: Node, x: Any, target: Any, reduction: Any = 1) -> Said | None:
    """Σ max(0, 1 − x[y] + x[i])/n over the classes y before the first −1 and the classes i that are none of those."""
    if isinstance(reduction, str):
        reduction = ("none", "mean", "sum").index(reduction)
    rows = np.atleast_2d(plainly(target).numpy())
    count = rows.shape[-1]
    own, other, sample = [], [], []
    for n, row in enumerate(rows):
        wanted = row[: np.argmax(row < 0)] if (row < 0).any() else row
        rest = np.setdiff1d(np.arange(count), wanted)
        own += [n * count + y for y in wanted for _ in rest]
        other += [n * count + i for _ in wanted for i in rest]
        sample += [n] * (len(wanted) * len(rest))
    if not own:
        return done(steps.lifter.data("loss", node.value()))
    flat = steps(ground.reshape, x, (-1,))
    first, second = (
        steps(ground.index_select, flat, 0, steps.lifter.data("classes", np.array(p))) for p in (own, other)
    )
    each = steps(ground.div, steps(ground.relu, steps(ground.add, steps(ground.sub, second, first), 1)), count)
    start = steps.lifter.data("start", np.zeros(len(rows)))
    losses = steps(ground.index_add, start, 0, steps.lifter.data("samples", np.array(sample)), each)
    return reduced(node, losses, reduction)


def reduced(node: Node, losses: Any, reduction: int) -> Said:
    """The losses of the samples as torch numbers what is made of them: each, their mean, their sum."""
    if reduction == 0:
        return "torch.reshape", (losses, node.shape), {}
    return ("torch.mean", "torch.sum")[reduction - 1], (losses,), {}
