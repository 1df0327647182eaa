"""Norms that are made of singular values, of sums or of the largest entry: calls in front of the entries for the others."""

from __future__ import annotations

import math
from typing import Any

from symgrad.entries.shaping import axis_of
from symgrad.errors import InputError, ShapeError
from symgrad.ops.calls.registry import everywhere
from symgrad.ops.calls.written import said

SINGULAR = {2: "amax", -2: "amin", "nuc": "sum"}
"""The largest singular value, the smallest, and their sum."""
SUMS = (1, -1, math.inf, -math.inf)
"""The largest and the smallest sum of a column's entries, and of a row's."""


def of_matrix(x: Any, ord: Any, dim: Any, keepdim: bool) -> str:
    """Of its singular values (2, −2, 'nuc'), of its entries ('fro'), the largest sum over a column (1) or row (∞)."""
    rank = len(x.shape)
    two = isinstance(dim, (tuple, list)) and len(dim) == 2
    rows, columns = axes = tuple(axis_of(axis, rank) for axis in dim) if two else (0, 0)
    if rows == columns:
        raise ShapeError("matrix_norm goes over two axes", found=(f"dim={dim!r} of {rank}",))
    if ord == "fro":
        return f"norm(x, p=2, dim={axes}, keepdim=keepdim)"
    if ord in SINGULAR:
        turned = "x" if axes == (rank - 2, rank - 1) else f"movedim(x, source={axes}, destination=(-2, -1))"
        value = f"{SINGULAR[ord]}(svdvals({turned}), dim=-1)"
        return f"unsqueeze(unsqueeze({value}, dim={min(axes)}), dim={max(axes)})" if keepdim else value
    if ord not in SUMS:
        raise InputError("there is no such norm of a matrix", found=(f"ord={ord!r}",), hints=("fro, 1, -1, ∞ or −∞",))
    along, across = axes if abs(ord) == 1 else (columns, rows)
    word = "sum" if ord > 0 and x.shape[across] == 0 else "amax" if ord > 0 else "amin"  # of none 0
    left = across - (not keepdim and across > along)
    return f"{word}(sum(abs(x), dim={along}, keepdim=keepdim), dim={left}, keepdim=keepdim)"


def of_entries(ord: Any) -> str | None:
    """The largest |x| for ord = ∞, the smallest for −∞; the others are the table's."""
    endless = isinstance(ord, (int, float)) and math.isinf(ord)
    return f"{'amax' if ord > 0 else 'amin'}(abs(x), dim=dim, keepdim=keepdim)" if endless else None


def either(x: Any, ord: Any, dim: Any, name: str, matrix: bool) -> str | None:
    """That of a matrix, if two axes are named or are all, or else of the entries: 'fro' and 'nuc' are of a matrix alone."""
    two = len(x.shape) == 2 if dim is None else isinstance(dim, (tuple, list)) and len(dim) == 2
    written = f"matrix_norm(x, {name}, {tuple(range(len(x.shape))) if dim is None else 'dim'}, keepdim)"
    return written if (two or isinstance(ord, str)) and matrix else of_entries(ord)


# fmt: off
said("matrix_norm(x, ord: any='fro', dim: any=(-2, -1), keepdim=False, *, dtype: unused=None)", of_matrix, None, "torch.linalg.matrix_norm", matrices=True)
said("nuclear_norm(x, dim: any=(-2, -1), keepdim=False)", "matrix_norm(x, 'nuc', dim, keepdim)", "The sum of the singular values.",
     "torch.nuclear_norm", matrices=True)
said("norm(x, p: any=2, dim: any=None, keepdim=False, dtype: unused=None)", lambda x, p, dim:
     "norm(x, p=2, dim=dim, keepdim=keepdim)" if p in ("fro", None) else either(x, p, dim, "p", p == "nuc"),
     "The nuclear norm of a matrix, the largest |x| for p = ∞; the others are those of the entries.", "torch.norm", "Tensor.norm")
said("vector_norm(x, ord: any=2, dim: any=None, keepdim=False, *, dtype: unused=None)", of_entries, None,
     "torch.linalg.vector_norm", "aten.linalg_vector_norm")
said("linalg_norm(x, ord: any=None, dim: any=None, keepdim=False, *, dtype: unused=None)",
     lambda x, ord, dim: either(x, ord, dim, "ord", ord is not None), "Of a matrix where two axes are meant and an ord is said, else of the entries.",
     "torch.linalg.norm", "np.linalg.norm")
said("renorm(x, p: any, dim: axis, maxnorm: float)", lambda x, p, dim: None if not math.isinf(p) else
     f"size = amax(abs(x), dim={tuple(a for a in range(len(x.shape)) if a != dim)}, keepdim=True); "
     "x * where(size > maxnorm, reciprocal(size + 1e-7) * maxnorm, 1.0)", "Slices shortened by their largest |x|, where p = ∞.", *everywhere("renorm"))
EXTREMES = "v = svdvals(x); largest = select(v, -1, 0); smallest = select(v, -1, -1); "  # in order; of equal ones one is chosen
said("cond(x, p: any=None)", "matrix_norm(x, p) * matrix_norm(inverse(x), p)",
     "The largest singular value over the smallest, or the norm of x times that of its inverse.", "torch.linalg.cond", "np.linalg.cond",
     instead={**dict.fromkeys(("p=None", "p=2"), f"{EXTREMES}largest / smallest"), "p=-2": f"{EXTREMES}smallest / largest"}, matrices=True)
