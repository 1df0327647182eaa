"""Norms that are made of singular values, of sums or of the largest entry: calls in front of the entries for the others."""

from __future__ import annotations

import math
from typing import Any

from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import Call, Last, axis_of, compound, everywhere, made, of_matrices

SINGULAR = (2, -2, "nuc")
"""The largest singular value, the smallest, and their sum."""
SUMS = (1, -1, math.inf, -math.inf)
"""The largest and the smallest sum of a column's entries, and of a row's."""


def of_values(call: Call, x: Any, ord: Any, dim: Any, keepdim: bool) -> Last:
    """The singular values of the matrices in two axes, reduced."""
    rows, columns = (axis % len(x.shape) for axis in dim)
    rest = [axis for axis in range(len(x.shape)) if axis not in (rows, columns)]
    order = (*rest, rows, columns)
    values = call("svdvals", x if order == tuple(range(len(order))) else call("permute", x, dims=order))
    word = {2: "amax", -2: "amin", "nuc": "sum"}[ord]
    if not keepdim:
        return word, (values,), {"dim": -1}
    kept = call(word, values, dim=-1)
    for axis in sorted((rows, columns)):
        kept = call("unsqueeze", kept, dim=axis)
    return "identity", (kept,), {}


@of_matrices("torch.linalg.matrix_norm")
def matrix_norm(
    call: Call, part: int, x: Any, ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Last:
    """Of its singular values (2, −2, 'nuc'), of its entries ('fro'), the largest sum over a column (1) or row (∞)."""
    rank = len(x.shape)
    if rank < 2 or not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ShapeError("matrix_norm goes over two axes", found=(f"dim={dim!r} of {rank}",))
    rows, columns = (axis_of(x, axis) for axis in dim)
    if rows == columns:
        raise ShapeError("an axis is named twice in dim", found=(f"dim={dim}",))
    if ord in SINGULAR:
        return of_values(call, x, ord, (rows, columns), keepdim)
    if ord == "fro":
        return "norm", (x,), {"p": 2, "dim": (rows, columns), "keepdim": keepdim}
    if ord not in SUMS:
        raise InputError("there is no such norm of a matrix", found=(f"ord={ord!r}",), hints=("fro, 1, -1, ∞ or −∞",))
    along, across = (rows, columns) if abs(ord) == 1 else (columns, rows)
    sums = call("sum", call("abs", x), dim=along, keepdim=keepdim)
    word = "sum" if ord > 0 and call.number(x.shape[across]) == 0 else "amax" if ord > 0 else "amin"  # of none 0
    return word, (sums,), {"dim": across - (not keepdim and across > along), "keepdim": keepdim}


@of_matrices("torch.nuclear_norm")
def nuclear_norm(call: Call, part: int, x: Any, dim: Any = (-2, -1), keepdim: bool = False) -> Last:
    """The sum of the singular values."""
    return of_values(call, x, "nuc", tuple(dim), keepdim)


def axes_meant(x: Any, dim: Any) -> tuple[int, ...]:
    """All axes where nothing is said."""
    return tuple(range(len(x.shape))) if dim is None else tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


@compound("torch.norm", "Tensor.norm")
def norm(
    call: Call, part: int, x: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Last | None:
    """The nuclear norm of a matrix, the largest |x| for p = ∞; the others are those of the entries."""
    axes = axes_meant(x, dim)
    if p in ("fro", None):
        return "norm", (x,), {"p": 2, "dim": dim, "keepdim": keepdim}
    if p == "nuc" and len(axes) == 2:
        return of_values(call, x, "nuc", axes, keepdim)
    return vector_norm(call, part, x, p, dim, keepdim)


@compound("torch.linalg.vector_norm", "aten.linalg_vector_norm")
def vector_norm(
    call: Call, part: int, x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Last | None:
    """The largest |x| for ord = ∞, the smallest for −∞; the others are the table's."""
    if not isinstance(ord, (int, float)) or not math.isinf(ord):
        return None
    options = {"dim": None if dim is None else dim, "keepdim": keepdim}
    return "amax" if ord > 0 else "amin", (call("abs", x),), options


@compound(*everywhere("renorm"))
def renorm(call: Call, part: int, x: Any, p: Any, dim: int, maxnorm: Any) -> Last | None:
    """Slices shortened by their largest |x|, where p = ∞."""
    if not math.isinf(p):
        return None
    others = tuple(a for a in range(len(x.shape)) if a != axis_of(x, dim))
    size = call("amax", call("abs", x), dim=others, keepdim=True)
    factor = call("mul", call("reciprocal", call("add", size, 1e-7)), float(maxnorm))
    return "mul", (x, call("where", call("gt", size, float(maxnorm)), factor, 1.0)), {}


@compound("torch.linalg.norm", "np.linalg.norm")
def linalg_norm(
    call: Call, part: int, x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
) -> Last | None:
    """Of a matrix where two axes are meant and an ord is said, else of the entries."""
    axes = axes_meant(x, dim)
    if ord is None or len(axes) != 2:
        return None if ord is None else vector_norm(call, part, x, ord, dim, keepdim)
    return matrix_norm(call, part, x, ord, axes, keepdim)


@of_matrices("torch.linalg.cond", "np.linalg.cond")
def cond(call: Call, part: int, x: Any, p: Any = None) -> Last:
    """The largest singular value over the smallest, or the norm of x times that of its inverse."""
    if p in (None, 2, -2):
        values = call("svdvals", x)
        largest, smallest = (call("select", values, -1, at) for at in (0, -1))  # in order; of equal ones one is chosen
        return "div", (smallest, largest) if p == -2 else (largest, smallest), {}
    both = [made(call, matrix_norm(call, 0, matrix, p)) for matrix in (x, call("inverse", x))]
    return "mul", tuple(both), {}
