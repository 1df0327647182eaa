"""Sequences in captured programs: packed and padded ones, and the loss that sums over alignments.

Packing only picks entries; what padding adds is a constant. ``ctc_loss`` is Graves' recursion over time, one step of
log-sums for each moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops.calls import alignments
from symgrad.ops.calls.alignments import REDUCTIONS
from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.choices import put
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array, plainly

# Packed sequences --------------------------------------------------------------------------------------------


def moved(node: Node, source: Node) -> Array:
    """Which entry of ``source`` each entry of the result is, −1 for a constant: a constant does not follow a shift."""
    count = torch.arange(source.held.numel(), dtype=torch.float64).reshape(source.held.shape)
    first, second = (as_array(replayed(node, (source,), (count + shift,))) for shift in (0.0, 0.5))
    if not np.isin(second - first, (0.0, 0.5)).all():
        raise Refused("")
    return np.where(second > first, first, -1).astype(np.int64)


@composition("_pad_packed_sequence")
def padded(steps: Steps, node: Node, data: Any, *_: Any, **__: Any) -> Said | None:
    """The rows back at their moments, and a constant after the end of each sequence."""
    if node.index or not data.held.numel():
        return None
    places = moved(node, data)
    rest = steps.lifter.data("padding", np.where(places < 0, as_array(node.held), 0.0))
    return done(put(steps.lifter, rest, steps.lifter.refs_in((data,))[id(data)], places, steps.lifter.wish(node)))


# Alignments --------------------------------------------------------------------------------------------------


@composition()
def ctc_loss(
    steps: Steps, node: Node, log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0,
    reduction: Any = 1, zero_infinity: bool = False,
) -> Said | None:  # fmt: skip
    """−log of the probability of all alignments: α over the classes with blanks between them, moment by moment.

    torch's backward is right for probabilities that sum up to 1: it is that of the loss of log_softmax(log_probs).
    """
    word = reduction if isinstance(reduction, str) else REDUCTIONS[reduction]
    given = alignment(log_probs, targets, input_lengths, target_lengths, blank)
    loss = alignments.losses(steps, log_probs, *given, word, zero_infinity)
    return ("torch.reshape", (loss, node.shape), {}) if word == "none" else done(loss)


def alignment(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int
) -> tuple[Array, Array, Array]:
    """Each sequence's classes with blanks before, between and after them; how many moments and classes it has."""
    given = np.asarray(plainly(targets).numpy()) if isinstance(targets, Node) else np.asarray(targets)
    moments, ends = (
        np.atleast_1d(np.asarray(plainly(n).numpy() if isinstance(n, Node) else n)).astype(np.int64)
        for n in (input_lengths, target_lengths)
    )
    starts = np.concatenate([[0], np.cumsum(ends)])
    classes = np.full((len(ends), 2 * int(ends.max(initial=0)) + 1), blank, dtype=np.int64)
    for n, end in enumerate(ends):
        row = given[n, :end] if given.ndim == 2 else given[starts[n] : starts[n] + end]
        classes[n, 1 : 2 * end : 2] = row
    return classes, moments, ends
