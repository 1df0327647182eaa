"""LU and products of reflections, in entries: what follows from which rows LU exchanged.

Comes in: a `Run`, matrices, and the exchange as a matrix of zeros and ones, which is data of that run. Goes out: results
of entries. The square part is one entry (`symgrad.ops.solved.triangles`), the rest are solutions with its triangles. A
reflection I − τ·v·vᵀ is what it is written as.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.ops.calls.registry import Run, made
from symgrad.ops.calls.written import last_of


def packed(run: Run, x: Any, rows: Any) -> Any:
    """L and U of a matrix in one: of its square part, and what follows from them."""
    if not (rows == np.eye(rows.shape[-1])).all():
        x = run("matmul", run.data("order", np.swapaxes(rows, -1, -2)), x)
    height, width = (run.whole(size) for size in x.shape[-2:])
    if height == width:
        return run("lu_factors", x)
    tall, size = height > width, min(height, width)
    axis = -2 if tall else -1
    both = run("lu_factors", run("narrow", x, dim=axis, start=0, length=size))
    rest = run("narrow", x, dim=axis, start=size, length=max(height, width) - size)
    triangle = run("triu", both) if tall else lower(run, both)
    return run("cat", both, run("solve", triangle, rest, left=not tall), dim=axis)


def lower(run: Run, both: Any) -> Any:
    """L, with ones on its diagonal."""
    return run("add", run("tril", both, diagonal=-1), run.data("ones", unit(both)))


def unit(like: Any) -> Any:
    """Ones on the diagonal of each matrix, in the shape of a stack."""
    shape = tuple(int(size) for size in like.shape)
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape)


def unpacked(run: Run, both: Any, part: int) -> Any:
    """L (1) or U (2) out of one matrix; None for what is neither."""
    if part not in (1, 2):
        return None
    square = run("narrow", both, dim=-part, start=0, length=min(run.whole(n) for n in both.shape[-2:]))
    return lower(run, square) if part == 1 else run("triu", square)


def solution(run: Run, both: Any, b: Any, exchange: Any, *, left: bool, adjoint: bool) -> Any:
    """The solution of P·L·U·out = b; from the other side it is that of the transposed equation."""
    names = {"p": run.data("order", exchange), "l": lower(run, both), "u": run("triu", both), "b": b}
    given = "b" if left else "mT(b)"
    turned = f"p @ solve(mT(l), solve(mT(u), {given}))"  # the transpose's: Uᵀ·Lᵀ·Pᵀ
    text = turned if adjoint == left else f"solve(u, solve(l, mT(p) @ {given}))"
    return made(run, last_of(text if left else f"mT({text})", run, names))


REFLECTED = "v = narrow(x, dim=-1, start=n, length=1); share = unsqueeze(narrow(tau, dim=-1, start=n, length=1), dim=-1); start - share * (v @ (mT(v) @ start))"


def reflected(run: Run, x: Any, tau: Any, start: Any, turned: bool) -> Any:
    """(I − τ₁·v₁·v₁ᵀ)·(I − τ₂·v₂·v₂ᵀ)·…·start or the transpose's; the v's are columns of x under a diagonal of ones."""
    places, columns = range(run.whole(tau.shape[-1])), lower(run, x)
    for n in places if turned else reversed(places):
        start = made(run, last_of(REFLECTED, run, {"x": columns, "tau": tau, "start": start, "n": n}))
    return start


def times_reflections(run: Run, x: Any, tau: Any, other: Any, *, left: bool, transpose: bool) -> Any:
    """The product of the reflections, or its transpose, times a matrix from the left or the right."""
    found = reflected(run, x, tau, other if left else run("mT", other), transpose == left)
    return found if left else run("mT", found)
