"""LU and products of reflections in captured programs.

Which rows LU exchanges is locally constant: it is data of the run, a matrix of zeros and ones. The square part is one
entry of the table (`symgrad.ops.solved.triangles`), the rest are solutions with its triangles.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import Run, made
from symgrad.ops.calls.written import last_of
from symgrad.tracing.lift.boxes import rerun
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array, plainly

# LU ----------------------------------------------------------------------------------------------------------


@composition("lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info")
def lu_factor(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """Both triangles in one matrix, of the rows in torch's order."""
    return done(packed(steps, x, exchanged(node)))


@composition()
def lu(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """L and U; where the rows went is data. torch's older call of that name has them in one matrix."""
    assert node.call is not None
    if "linalg" not in node.call.spelling:
        return lu_factor(steps, node, x)
    return lu_unpack(steps, node, packed(steps, x, exchanged(node)))


@composition()
def lu_unpack(steps: Steps, node: Node, packed: Any, *_: Any, **__: Any) -> Said | None:
    """L and U out of one matrix."""
    found = unpacked(steps, packed, node.index or 0)
    return None if found is None else done(found)


def exchanged(node: Node) -> Array:
    """The matrix P of zeros and ones with x = P·L·U."""
    call = node.call
    assert call is not None
    arguments, keywords = plainly((call.arguments, call.keywords))
    results = rerun(call, arguments, keywords, None)
    if call.spelling.endswith("linalg.lu"):
        return as_array(results[0])
    return order(results[0], results[1])


def order(packed: Any, pivots: Any) -> Array:
    """P, from which row was exchanged with which."""
    with torch._C.DisableTorchFunction():
        return as_array(torch.lu_unpack(packed.detach(), pivots, unpack_data=False)[0].to(packed.dtype))


def lu_solve(
    steps: Steps, node: Node, both: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False
) -> Said | None:
    """The solution of P·L·U·out = b."""
    rows = order(plainly(both), plainly(pivots))
    return done(solution(steps, both, b, rows, left=left, adjoint=adjoint))


def old_lu_solve(steps: Steps, node: Node, b: Any, both: Any, pivots: Any) -> Said | None:
    """torch's older call, which has its arguments the other way round."""
    return lu_solve(steps, node, both, pivots, b)


@composition("lu_solve")
def either_lu_solve(steps: Steps, node: Node, *arguments: Any, **keywords: Any) -> Said | None:
    """By how it is spelled."""
    assert node.call is not None
    solve = lu_solve if "linalg" in node.call.spelling else old_lu_solve
    names = {"B": "b", "LU": "both", "LU_data": "both", "LU_pivots": "pivots", "input": "b", "self": "b"}
    return solve(steps, node, *arguments, **{names.get(k, k): v for k, v in keywords.items()})


# Reflections -------------------------------------------------------------------------------------------------


@composition("householder_product", "orgqr")
def householder_product(steps: Steps, node: Node, x: Any, tau: Any) -> Said | None:
    """The product of the reflections, its first columns."""
    return done(reflected(steps, x, tau, steps.data("start", unit(x)), False))


@composition()
def ormqr(
    steps: Steps, node: Node, x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Said | None:
    """The product of the reflections, or its transpose, times a matrix from the left or the right."""
    return done(times_reflections(steps, x, tau, other, left=left, transpose=transpose))


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


REFLECTED = (
    "v = narrow(x, dim=-1, start=n, length=1); "
    "share = unsqueeze(narrow(tau, dim=-1, start=n, length=1), dim=-1); "
    "start - share * (v @ (mT(v) @ start))"
)


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
