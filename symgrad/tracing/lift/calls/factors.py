"""LU and products of reflections in captured programs.

Which rows LU exchanges is locally constant: it is asked of the run, and the rest is said in entries of the table
(`symgrad.ops.calls.triangles`).
"""

from __future__ import annotations

from typing import Any

import torch

from symgrad.numeric.exact import Array
from symgrad.ops.calls import triangles
from symgrad.tracing.lift.boxes import rerun
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array, plainly

# LU ----------------------------------------------------------------------------------------------------------


@composition("lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info")
def lu_factor(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """Both triangles in one matrix, of the rows in torch's order."""
    return done(triangles.packed(steps, x, exchanged(node)))


@composition()
def lu(steps: Steps, node: Node, x: Any, *_: Any, **__: Any) -> Said | None:
    """L and U; where the rows went is data. torch's older call of that name has them in one matrix."""
    assert node.call is not None
    if "linalg" not in node.call.spelling:
        return lu_factor(steps, node, x)
    return lu_unpack(steps, node, triangles.packed(steps, x, exchanged(node)))


@composition()
def lu_unpack(steps: Steps, node: Node, packed: Any, *_: Any, **__: Any) -> Said | None:
    """L and U out of one matrix."""
    found = triangles.unpacked(steps, packed, node.index or 0)
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
    return done(triangles.solution(steps, both, b, rows, left=left, adjoint=adjoint))


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
    return done(triangles.reflected(steps, x, tau, steps.data("start", triangles.unit(x)), False))


@composition()
def ormqr(
    steps: Steps, node: Node, x: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False
) -> Said | None:
    """The product of the reflections, or its transpose, times a matrix from the left or the right."""
    return done(triangles.times_reflections(steps, x, tau, other, left=left, transpose=transpose))
