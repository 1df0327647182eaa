"""LU and products of reflections in captured programs.

Which rows LU exchanges is locally constant: that is a product with a matrix of zeros and ones, which is data of this
run. The square part is one entry of the table (`symgrad.ops.solved.triangles`), the rest are solutions with its
triangles. A reflection I − τ·v·vᵀ is what it is written as.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.tracing.lift.boxes import rerun
from symgrad.tracing.lift.steps import Composition, Said, Steps, done
from symgrad.tracing.record.trace import Node, as_array, plainly

# LU ----------------------------------------------------------------------------------------------------------


def lu_factor(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """Both triangles in one matrix, of the rows in torch's order."""
    return done(packed(steps, x, exchanged(node)))


def lu(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """L and U; where the rows went is data. torch's older call of that name has them in one matrix."""
    assert node.call is not None
    if "linalg" not in node.call.spelling:
        return lu_factor(steps, node, x)
    return unpacked(steps, packed(steps, x, exchanged(node)), node.index)


def lu_unpack(steps: Steps, node: Node, packed: Any, *_: Any, **__: Any) -> Said | None:
    """L and U out of one matrix."""
    return unpacked(steps, packed, node.index)


def exchanged(node: Node) -> Any:
    """The matrix P of zeros and ones with x = P·L·U."""
    call = node.call
    assert call is not None
    arguments, keywords = plainly((call.arguments, call.keywords))
    results = rerun(call, arguments, keywords, None)
    if call.spelling.endswith("linalg.lu"):
        return results[0]
    return order(results[0], results[1])


def order(packed: Any, pivots: Any) -> Any:
    """P, from which row was exchanged with which."""
    with torch._C.DisableTorchFunction():
        return torch.lu_unpack(packed.detach(), pivots, unpack_data=False)[0].to(packed.dtype)


def packed(steps: Steps, x: Any, rows: Any) -> Any:
    """L and U of a matrix in one: of its square part, and what follows from them."""
    if not (rows == torch.eye(rows.shape[-1], dtype=rows.dtype)).all():
        x = steps("matmul", steps.lifter.data("order", as_array(rows.mT)), x)
    height, width = (steps.number(size) for size in x.shape[-2:])
    size = min(height, width)
    if height == width:
        return steps("lu_factors", x)
    axis = -2 if height > width else -1
    both = steps("lu_factors", steps("narrow", x, axis, 0, size))
    rest = steps("narrow", x, axis, size, max(height, width) - size)
    if height > width:
        return steps("cat", (both, steps("solve", steps("triu", both), rest, left=False)), -2)
    return steps("cat", (both, steps("solve", lower(steps, both), rest)), -1)


def lower(steps: Steps, both: Any) -> Any:
    """L, with ones on its diagonal."""
    return steps("add", steps("tril", both, diagonal=-1), steps.lifter.data("ones", unit(both)))


def unit(like: Any) -> Array:
    """Ones on the diagonal of each matrix, in the shape of a stack."""
    shape = tuple(int(size) for size in like.shape)
    return np.broadcast_to(np.eye(shape[-2], shape[-1]), shape)


def unpacked(steps: Steps, both: Any, part: int) -> Said | None:
    """L or U."""
    size = min(steps.number(n) for n in both.shape[-2:])
    if part == 1:
        return done(lower(steps, steps("narrow", both, -1, 0, size)))
    return ("torch.triu", (steps("narrow", both, -2, 0, size),), {}) if part == 2 else None


def lu_solve(
    steps: Steps, node: Node, both: Any, pivots: Any, b: Any, *, left: bool = True, adjoint: bool = False
) -> Said | None:
    """The solution of P·L·U·out = b; from the other side it is that of the transposed equation."""
    rows = steps.lifter.data("order", as_array(order(plainly(both), plainly(pivots))))
    l_factor, u_factor = lower(steps, both), steps("triu", both)
    given = b if left else steps("mT", b)
    if adjoint == left:  # the transpose's: Uᵀ·Lᵀ·Pᵀ
        inner = steps("solve", steps("mT", l_factor), steps("solve", steps("mT", u_factor), given))
        out = steps("matmul", rows, inner)
    else:
        out = steps("solve", u_factor, steps("solve", l_factor, steps("matmul", steps("mT", rows), given)))
    return done(out) if left else ("Tensor.mT", (out,), {})


def old_lu_solve(steps: Steps, node: Node, b: Any, both: Any, pivots: Any) -> Said | None:
    """torch's older call, which has its arguments the other way round."""
    return lu_solve(steps, node, both, pivots, b)


def either_lu_solve(steps: Steps, node: Node, *arguments: Any, **keywords: Any) -> Said | None:
    """By how it is spelled."""
    assert node.call is not None
    solve = lu_solve if "linalg" in node.call.spelling else old_lu_solve
    names = {"B": "b", "LU": "both", "LU_data": "both", "LU_pivots": "pivots", "input": "b", "self": "b"}
    return solve(steps, node, *arguments, **{names.get(k, k): v for k, v in keywords.items()})


# Reflections -------------------------------------------------------------------------------------------------


def reflected(steps: Steps, x: Any, tau: Any, start: Any, turned: bool) -> Any:
    """(I − τ₁·v₁·v₁ᵀ)·(I − τ₂·v₂·v₂ᵀ)·…·start or the transpose's; the v's are columns of x under a diagonal of ones."""
    count = steps.number(tau.shape[-1])
    columns = lower(steps, x)
    for n in range(count) if turned else reversed(range(count)):
        v = steps("narrow", columns, -1, n, 1)
        share = steps("unsqueeze", steps("narrow", tau, -1, n, 1), -1)
        along = steps("matmul", v, steps("matmul", steps("mT", v), start))
        start = steps("sub", start, steps("mul", share, along))
    return start


def householder_product(steps: Steps, node: Node, x: Any, tau: Any) -> Said | None:
    """The product of the reflections, its first columns."""
    return done(reflected(steps, x, tau, steps.lifter.data("start", unit(x)), False))


def ormqr(
    steps: Steps, node: Node, x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Said | None:
    """The product of the reflections, or its transpose, times a matrix from the left or the right."""
    if not steps.number(tau.shape[-1]):
        return "Tensor.clone", (other,), {}
    start = other if left else steps("mT", other)
    found = reflected(steps, x, tau, start, transpose == left)
    return done(found) if left else ("Tensor.mT", (found,), {})


COMPOSITIONS: Mapping[str, Composition] = {
    **dict.fromkeys(("lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info"), lu_factor),
    "lu": lu, "lu_unpack": lu_unpack, "lu_solve": either_lu_solve,
    "householder_product": householder_product, "orgqr": householder_product, "ormqr": ormqr,
}  # fmt: skip
"""Functions by their last word."""
