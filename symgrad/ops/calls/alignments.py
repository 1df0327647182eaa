"""The loss that sums over alignments, in entries: Graves' recursion over time, one step of log-sums for each moment.

Comes in: a `Run`, log-probabilities (moment, sequence, class), each sequence's classes with blanks between them, and how
many moments and classes it has. Goes out: −log of the probability of all alignments of each sequence, or what becomes
of several.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Run

REDUCTIONS = ("none", "mean", "sum")
"""torch's words for what becomes of several losses, by torch's numbers for them."""
IMPOSSIBLE = -1e30
"""The logarithm of 0: next to any number that occurs its exponential is 0, and so is what flows back through it."""


def losses(run: Run, log_probs: Any, classes: Any, moments: Any, ends: Any, reduction: str, zero_infinity: bool) -> Any:
    """One number for each sequence, 0 for one without an alignment if so; their sum; or the mean of each by its classes."""
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
