"""LU and products of reflections, in entries: what follows from which rows LU exchanged.

Comes in: a `Run`, matrices, and the exchange as a matrix of zeros and ones, which is data of that run. Goes out: results
of entries. The square part is one entry (`symgrad.ops.solved.triangles`), the rest are solutions with its triangles. A
reflection I − τ·v·vᵀ is what it is written as.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Last, Run


def packed(run: Run, x: Any, rows: Any) -> Any:
    """L and U of a matrix in one: of its square part, and what follows from them."""
    if not (rows == np.eye(rows.shape[-1])).all():
        x = run("matmul", run.data("order", np.swapaxes(rows, -1, -2)), x)
    height, width = (run.whole(size) for size in x.shape[-2:])
    size = min(height, width)
    if height == width:
        return run("lu_factors", x)
    axis = -2 if height > width else -1
    both = run("lu_factors", run("narrow", x, dim=axis, start=0, length=size))
    rest = run("narrow", x, dim=axis, start=size, length=max(height, width) - size)
    if height > width:
        return run("cat", both, run("solve", run("triu", both), rest, left=False), dim=-2)
    return run("cat", both, run("solve", lower(run, both), rest), dim=-1)


def lower(run: Run, both: Any) -> Any:
    """L, with ones on its diagonal."""
    return run("add", run("tril", both, diagonal=-1), run.data("ones", unit(both)))


def unit(like: Any) -> Any:
    """Ones on the diagonal of each matrix, in the shape of a stack."""
    shape = tuple(int(size) for size in like.shape)
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape)


def unpacked(run: Run, both: Any, part: int) -> Any:
    """L (1) or U (2) out of one matrix; None for what is neither."""
    size = min(run.whole(n) for n in both.shape[-2:])
    if part == 1:
        return lower(run, run("narrow", both, dim=-1, start=0, length=size))
    return run("triu", run("narrow", both, dim=-2, start=0, length=size)) if part == 2 else None


def solution(run: Run, both: Any, b: Any, exchange: Any, *, left: bool, adjoint: bool) -> Any:
    """The solution of P·L·U·out = b; from the other side it is that of the transposed equation."""
    rows = run.data("order", exchange)
    l_factor, u_factor = lower(run, both), run("triu", both)
    given = b if left else run("mT", b)
    if adjoint == left:  # the transpose's: Uᵀ·Lᵀ·Pᵀ
        inner = run("solve", run("mT", l_factor), run("solve", run("mT", u_factor), given))
        out = run("matmul", rows, inner)
    else:
        out = run("solve", u_factor, run("solve", l_factor, run("matmul", run("mT", rows), given)))
    return out if left else run("mT", out)


def reflected(run: Run, x: Any, tau: Any, start: Any, turned: bool) -> Any:
    """(I − τ₁·v₁·v₁ᵀ)·(I − τ₂·v₂·v₂ᵀ)·…·start or the transpose's; the v's are columns of x under a diagonal of ones."""
    count = run.whole(tau.shape[-1])
    columns = lower(run, x)
    for n in range(count) if turned else reversed(range(count)):
        v = run("narrow", columns, dim=-1, start=n, length=1)
        share = run("unsqueeze", run("narrow", tau, dim=-1, start=n, length=1), dim=-1)
        along = run("matmul", v, run("matmul", run("mT", v), start))
        start = run("sub", start, run("mul", share, along))
    return start


def times_reflections(run: Run, x: Any, tau: Any, other: Any, *, left: bool, transpose: bool) -> Last:
    """The product of the reflections, or its transpose, times a matrix from the left or the right."""
    if not run.whole(tau.shape[-1]):
        return "identity", (other,), {}
    found = reflected(run, x, tau, other if left else run("mT", other), transpose == left)
    return ("identity", (found,), {}) if left else ("mT", (found,), {})
