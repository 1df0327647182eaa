"""Slices reduced part by part, in entries: segments, and bags of rows.

Comes in: a `Run`, slices along the first axis, and to which part each belongs, which is data of that run. Goes out: the
last step.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Last, Run, done


def ends(starts: Any, count: int) -> Any:
    """To which part each of ``count`` entries belongs, by where the parts begin."""
    return np.searchsorted(starts, np.arange(count), side="right") - 1


KINDS = {"prod": ("prod", 1.0), "max": ("amax", -np.inf), "min": ("amin", np.inf)}
"""torch's words for reductions: the table's, and what comes of nothing."""
BEYOND = {"max": "lt", "min": "gt"}
"""Where a start is taken in the place of the entries: one that ties with them has no share of the weight."""


def parted(run: Run, shape: tuple[int, ...], rows: Any, parts: Any, kind: str, start: Any, alone: float) -> Last:
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


def bag(run: Run, weight: Any, chosen: Any, kept: Any, factors: Any) -> Any:
    """The rows of a weight at the positions that are ``kept``, each times its factor."""
    rows = run("index_select", weight, 0, run.data("rows", chosen[kept]))
    if factors is None:
        return rows
    own = run("index_select", factors, 0, run.data("kept", np.flatnonzero(kept)))
    return run("mul", rows, run("unsqueeze", own, 1))


def maxima(run: Run, rows: Any, best: Any, empty: Any) -> Any:
    """The entry at ``best`` of every bag; 0 for a bag without any."""
    picked = run("gather", rows, 0, run.data("best", best))
    return run("where", run.data("empty", empty), 0.0, picked) if empty.any() else picked


REDUCED = ("sum", "mean", "max")
"""How bags are reduced, by torch's numbers for it."""
