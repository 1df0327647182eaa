"""The loss that sums over alignments, in entries: Graves' recursion over time, one step of log-sums for each moment.

Comes in: a `Run`, log-probabilities (moment, sequence, class), each sequence's classes with blanks between them, and how
many moments and classes it has. Goes out: −log of the probability of all alignments of each sequence.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Run

REDUCTIONS = ("none", "mean", "sum")
"""torch's words for what becomes of several losses, by torch's numbers for them."""
IMPOSSIBLE = -1e30
"""The logarithm of 0: next to any number that occurs its exponential is 0, and so is what flows back through it."""


def losses(run: Run, log_probs: Any, classes: Any, moments: Any, ends: Any) -> Any:
    """One number for each sequence."""
    lp = run("log_softmax", log_probs, dim=-1)
    if len(log_probs.shape) == 2:
        lp = run("unsqueeze", lp, dim=1)
    count, (batch, width) = int(lp.shape[0]), classes.shape
    each = run("gather", lp, 2, run.data("classes", np.broadcast_to(classes, (count, batch, width))))
    alpha = forward(run, each, classes, moments)
    last = np.stack([2 * ends, np.maximum(2 * ends - 1, 0)], axis=1)
    final = run("gather", alpha, 1, run.data("ends", last))
    if (ends == 0).any():
        final = masked(run, np.stack([np.zeros(batch, dtype=bool), ends == 0], axis=1), final)
    return run("neg", run("logsumexp", final, dim=1))


def without(run: Run, lost: Any, loss: Any) -> Any:
    """The losses, and 0 for a sequence that has no alignment."""
    return run("where", run.data("lost", lost), 0.0, loss)


def average(run: Run, loss: Any, ends: Any) -> Any:
    """The mean of the losses, each by how many classes its sequence has."""
    return run("mean", run("div", loss, run.data("lengths", np.maximum(ends, 1).astype(float))))


def total(run: Run, loss: Any) -> Any:
    """Their sum."""
    return run("sum", loss)


def forward(run: Run, each: Any, classes: Any, moments: Any) -> Any:
    """α at each sequence's last moment: log-probability of all ways to have come to each of its classes."""
    batch, width = classes.shape
    skips = np.zeros((batch, width), bool)
    skips[:, 2:] = (classes[:, 2:] != classes[:, :-2]) & (np.arange(2, width) % 2 == 1)
    begin = np.broadcast_to(np.arange(width) >= 2, (batch, width))

    def at(moment: int) -> Any:
        return run("select", each, dim=0, index=moment)

    alpha = masked(run, begin, at(0))
    for moment in range(1, int(moments.max(initial=1))):
        ways = [alpha]
        if width > 1:
            ways.append(shifted(run, alpha, 1, width))
        if skips.any():
            ways.append(masked(run, ~skips, shifted(run, alpha, 2, width)))
        came = ways[0] if len(ways) == 1 else run("logsumexp", run("stack", *ways, dim=0), dim=0)
        new = run("add", came, at(moment))
        over = np.broadcast_to((moment >= moments)[:, None], (batch, width))
        alpha = run("where", run.data("over", over), alpha, new) if over.any() else new
    return alpha


def shifted(run: Run, alpha: Any, by: int, width: int) -> Any:
    """α of the classes before."""
    return run("pad", run("narrow", alpha, dim=1, start=0, length=width - by), pad=(by, 0), value=IMPOSSIBLE)


def masked(run: Run, barred: Any, values: Any) -> Any:
    """The values, and no way to where it is barred."""
    return run("where", run.data("barred", barred), IMPOSSIBLE, values) if barred.any() else values
