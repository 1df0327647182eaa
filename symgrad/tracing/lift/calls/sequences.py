"""Sequences in captured programs: packed and padded ones, and the loss that sums over alignments.

Packing only picks entries; what padding adds is a constant. ``ctc_loss`` is Graves' recursion over time, one step of
log-sums for each moment.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import Run
from symgrad.tracing.lift.boxes import replayed
from symgrad.tracing.lift.choices import choose, put
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


@composition("_pack_padded_sequence")
def packed(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """The rows of all sequences at the first moment, at the second, and so on."""
    if node.index or not node.held.numel():
        return None
    return done(choose(steps.lifter, steps.lifter.refs_in((x,))[id(x)], moved(node, x), steps.lifter.wish(node)))


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
    loss = losses(steps, log_probs, *given, word, zero_infinity)
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


REDUCTIONS = ("none", "mean", "sum")
"""torch's words for what becomes of several losses, by torch's numbers for them."""
IMPOSSIBLE = -1e30
"""The logarithm of 0: next to any number that occurs its exponential is 0, and so is what flows back through it."""


def losses(run: Run, log_probs: Any, classes: Any, moments: Any, ends: Any, reduction: str, zero_infinity: bool) -> Any:
    """The loss of each sequence (0 without an alignment, if so), their sum, or the mean of each by its classes."""
    lp = run("log_softmax", log_probs, dim=-1)
    if len(log_probs.shape) == 2:
        lp = run("unsqueeze", lp, dim=1)
    each = run("gather", lp, 2, run.data("classes", np.broadcast_to(classes, (int(lp.shape[0]), *classes.shape))))
    last = run.data("ends", np.stack([2 * ends, np.maximum(2 * ends - 1, 0)], axis=1))
    final = run("gather", forward(run, each, classes, moments), 1, last)
    twice = np.stack([np.zeros_like(ends), ends == 0], axis=1)  # without classes both ends are one
    loss = run("neg", run("logsumexp", barred(run, twice, final), dim=1))
    if zero_infinity:
        loss = run("where", run("gt", loss, -IMPOSSIBLE / 2), 0.0, loss)
    if reduction == "mean":
        loss = run("div", loss, run.data("lengths", np.maximum(ends, 1).astype(float)))
    return loss if reduction == "none" else run(reduction, loss)


def forward(run: Run, each: Any, classes: Any, moments: Any) -> Any:
    """α at each sequence's last moment: log-probability of all ways to have come to each of its classes."""
    places = np.arange(classes.shape[1])
    repeated = np.pad(classes[:, 2:] == classes[:, :-2], ((0, 0), (2, 0)), constant_values=True)[:, : len(places)]
    closed = np.zeros((*classes.shape, 3))  # the ways from two places before, from one, and from the place itself
    closed[:, :, 0] = repeated | (places % 2 == 0)
    alpha = barred(run, np.broadcast_to(places >= 2, classes.shape), run("select", each, dim=0, index=0))
    for moment in range(1, int(moments.max(initial=1))):
        before = run("unfold", run("pad", alpha, pad=(2, 0), value=IMPOSSIBLE), dimension=1, size=3, step=1)
        came = run("logsumexp", barred(run, closed, before), dim=2)
        new = run("add", came, run("select", each, dim=0, index=moment))
        over = np.broadcast_to((moment >= moments)[:, None], classes.shape)
        alpha = run("where", run.data("over", over), alpha, new) if over.any() else new
    return alpha


def barred(run: Run, places: Any, values: Any) -> Any:
    """The values, and no way to where it is barred."""
    return run("add", values, run.data("barred", np.where(places, IMPOSSIBLE, 0.0)))
