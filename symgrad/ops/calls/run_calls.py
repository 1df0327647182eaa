"""Calls that need the numbers of a run, in entries: the loss that sums over alignments, segments, bags of rows.

Comes in: a `RunApplier`, and what the call was given; places are data of that run. Goes out: the last step. The loss is
Graves' recursion over time, one step of log-sums for each moment: −log of the probability of all alignments of each
sequence. Segments and bags are slices along the first axis, reduced part by part.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Last, RunApplier, done

REDUCTIONS = ("none", "mean", "sum")
"""torch's words for what becomes of several losses, by torch's numbers for them."""
IMPOSSIBLE = -1e30
"""The logarithm of 0: next to any number that occurs its exponential is 0, and so is what flows back through it."""


def ctc_loss_steps(
    run: RunApplier, log_probs: Any, classes: Any, moments: Any, ends: Any, reduction: str, zero_infinity: bool
) -> Any:
    """One number for each sequence, 0 for one without an alignment if so; their sum; or the mean of each by its classes."""
    lp = run("log_softmax", log_probs, dim=-1)
    if len(log_probs.shape) == 2:
        lp = run("unsqueeze", lp, dim=1)
    each = run("gather", lp, 2, run.data("classes", np.broadcast_to(classes, (int(lp.shape[0]), *classes.shape))))
    last = run.data("ends", np.stack([2 * ends, np.maximum(2 * ends - 1, 0)], axis=1))
    final = run("gather", alignment_log_probabilities(run, each, classes, moments), 1, last)
    twice = np.stack([np.zeros_like(ends), ends == 0], axis=1)  # without classes both ends are one
    loss = run("neg", run("logsumexp", add_barriers(run, twice, final), dim=1))
    if zero_infinity:
        loss = run("where", run("gt", loss, -IMPOSSIBLE / 2), 0.0, loss)
    if reduction == "mean":
        loss = run("div", loss, run.data("lengths", np.maximum(ends, 1).astype(float)))
    return loss if reduction == "none" else run(reduction, loss)


def alignment_log_probabilities(run: RunApplier, each: Any, classes: Any, moments: Any) -> Any:
    """α at each sequence's last moment: log-probability of all ways to have come to each of its classes."""
    places = np.arange(classes.shape[1])
    repeated = np.pad(classes[:, 2:] == classes[:, :-2], ((0, 0), (2, 0)), constant_values=True)[:, : len(places)]
    closed = np.zeros((*classes.shape, 3))  # the ways from two places before, from one, and from the place itself
    closed[:, :, 0] = repeated | (places % 2 == 0)
    alpha = add_barriers(run, np.broadcast_to(places >= 2, classes.shape), run("select", each, dim=0, index=0))
    for moment in range(1, int(moments.max(initial=1))):
        before = run("unfold", run("pad", alpha, pad=(2, 0), value=IMPOSSIBLE), dimension=1, size=3, step=1)
        came = run("logsumexp", add_barriers(run, closed, before), dim=2)
        new = run("add", came, run("select", each, dim=0, index=moment))
        over = np.broadcast_to((moment >= moments)[:, None], classes.shape)
        alpha = run("where", run.data("over", over), alpha, new) if over.any() else new
    return alpha


def add_barriers(run: RunApplier, places: Any, values: Any) -> Any:
    """The values, and no way to where it is barred."""
    return run("add", values, run.data("barred", np.where(places, IMPOSSIBLE, 0.0)))


def segment_of_entries(starts: Any, count: int) -> Any:
    """To which part each of ``count`` entries belongs, by where the parts begin."""
    return np.searchsorted(starts, np.arange(count), side="right") - 1


KINDS = {"prod": ("prod", 1.0), "max": ("amax", -np.inf), "min": ("amin", np.inf)}
"""torch's words for reductions: the table's, and what comes of nothing."""
BEYOND = {"max": "lt", "min": "gt"}
"""Where a start is taken in the place of the entries: one that ties with them has no share of the weight."""


def reduce_segments(
    run: RunApplier, shape: tuple[int, ...], rows: Any, parts: Any, kind: str, start: Any, alone: float
) -> Last:
    """The slices of ``rows`` reduced part by part, each with ``start``; ``alone`` is what a part without any is."""
    index, begin = run.data("parts", parts), np.full(shape, float(start or 0))
    counts = np.bincount(parts, minlength=shape[0]).reshape(-1, *[1] * (len(shape) - 1))

    def each(none: float, some: Any) -> Any:
        """A number for every part: of those that have no entry, and of the others."""
        return np.broadcast_to(np.where(counts == 0, none, some), shape).astype(float)

    if kind in ("sum", "mean"):
        total = run("index_add", run.data("start", begin), 0, index, rows)
        return done(total) if kind == "sum" else ("div", (total, run.data("counts", each(alone, counts))), {})
    word, empty = KINDS[kind]
    if start is None or kind not in BEYOND:
        base = run.data("start", each(alone, empty) if start is None else begin)
        return "index_reduce", (base, 0, index, rows, word), {}
    best = run("index_reduce", run.data("base", each(start, empty)), 0, index, rows, word)
    return "where", (run(BEYOND[kind], best, start), run.data("start", begin), best), {}


def gather_bag_rows(run: RunApplier, weight: Any, chosen: Any, kept: Any, factors: Any) -> Any:
    """The rows of a weight at the positions that are ``kept``, each times its factor."""
    rows = run("index_select", weight, 0, run.data("rows", chosen[kept]))
    if factors is None:
        return rows
    own = run("index_select", factors, 0, run.data("kept", np.flatnonzero(kept)))
    return run("mul", rows, run("unsqueeze", own, 1))


def pick_bag_maxima(run: RunApplier, rows: Any, best: Any, empty: Any) -> Any:
    """The entry at ``best`` of every bag; 0 for a bag without any."""
    picked = run("gather", rows, 0, run.data("best", best))
    return run("where", run.data("empty", empty), 0.0, picked) if empty.any() else picked


REDUCED = ("sum", "mean", "max")
"""How bags are reduced, by torch's numbers for it."""
