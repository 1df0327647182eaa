"""Norms of matrices, distances between the rows of one matrix, and slices cut to a length.

A norm of a matrix with ord 1 or ∞ is the largest sum of sizes over its columns or rows. Which ones are the largest
is found in the forward pass (``w``, ones and zeros); several that are equal share the derivative evenly.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.functions import sign
from symgrad.indexing import Bracket, add_up, fresh
from symgrad.indexing.symbols import Expr
from symgrad.ops.contracting.lengths import as_long_as, check_p, numpy_length, of_length, p_given
from symgrad.ops.domain import reals
from symgrad.ops.equations import TORCH, op
from symgrad.ops.shaping import axis_of, reduced_shape
from symgrad.ops.spec import At, Held, View, example, operation
from symgrad.shapes import Shape

INFINITE = (float("inf"), -float("inf"))


def prepare_matrix_norm(
    shapes: tuple[Shape, ...], ord: Any = "fro", dim: Any = (-2, -1), keepdim: bool = False
) -> dict[str, Hashable]:
    """Two different axes; the norms that need singular values are not this entry's."""
    rank = len(shapes[0])
    if rank < 2 or not isinstance(dim, (tuple, list)) or len(dim) != 2:
        raise ShapeError("matrix_norm goes over two axes", found=(f"dim={dim!r} of {rank}",))
    axes = tuple(axis_of(d, rank) for d in dim)
    if axes[0] == axes[1]:
        raise ShapeError("an axis is named twice in dim", found=(f"dim={dim}",))
    if ord in (2, -2, "nuc"):
        raise UnsupportedError(f"matrix_norm with ord={ord!r} needs singular values")
    if ord != "fro" and ord not in (1, -1, *INFINITE):
        raise InputError("there is no such norm of a matrix", found=(f"ord={ord!r}",), hints=("fro, 1, -1, ∞ or −∞",))
    exact = ord if ord == "fro" or ord in INFINITE else int(ord)
    return {"ord": exact, "dim": axes, "keepdim": bool(keepdim)}


def lines(p: Any, dim: tuple[int, int]) -> tuple[int, int]:
    """The axis that is added up, and the one whose largest sum is taken."""
    return dim if p in (1, -1) else (dim[1], dim[0])


def extreme(sums: Any, p: Any, across: int) -> Any:
    """The largest sum, of none 0, or the smallest."""
    if p > 0:
        return np.amax(sums, axis=across, keepdims=True, initial=0.0)
    if not sums.shape[across]:
        raise InputError("there is no smallest of no sums", found=("a side of the matrix is 0",))
    return np.amin(sums, axis=across, keepdims=True)


def winning(x: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    """1 for the lines with the largest (or smallest) sum, 0 for the others."""
    if ord == "fro":
        return None
    along, across = lines(ord, dim)
    sums = np.sum(np.abs(np.asarray(x, float)), axis=along, keepdims=True)
    best = extreme(sums, ord, across)
    return (sums == best).astype(np.int64)


def matrix_norms(x: Any, ord: Any, dim: Any, keepdim: bool) -> Any:
    """NumPy's forward."""
    if ord == "fro":
        return numpy_length(x, 2, dim, keepdim)
    along, across = lines(ord, dim)
    sums = np.sum(np.abs(x), axis=along, keepdims=True)
    best = extreme(sums, ord, across)
    return best if keepdim else np.squeeze(best, axis=tuple(dim))


def placed(at: At, rank: int, inner: Mapping[int, Expr], keepdim: bool) -> tuple[Expr, ...]:
    """The operand's indices, those on the axes of ``inner`` given, the others the output's."""
    outer = iter(i for a, i in enumerate(at) if not (keepdim and a in inner))
    return tuple(inner[a] if a in inner else next(outer) for a in range(rank))


def winners_average(at: At, x: View, w: Held, along: int, across: int, keepdim: bool) -> Expr:
    """The sums of sizes of the lines that win, averaged: the axis ``along`` is added up."""
    first, second = fresh("j", x.shape[across]), fresh("k", x.shape[across])
    inner = fresh("i", x.shape[along])

    def line(j: Any, i: Any) -> tuple[Expr, ...]:
        return placed(at, x.rank, {along: i, across: j}, keepdim)

    sums = add_up(x[line(first, inner)] * sign(x[line(first, inner)]), [inner])
    wins = add_up(w[line(second, sp.S.Zero)], [second])
    return add_up(w[line(first, sp.S.Zero)] * sums, [first]) / wins


@operation(
    written="torch.linalg.matrix_norm({})",
    says="a norm of the matrices in two axes: of their entries (fro), or the largest sum over a column (1) or row (∞)",
    numpy=matrix_norms,
    torch=lambda torch, x, ord, dim, keepdim: torch.linalg.matrix_norm(
        x, ord if ord == "fro" else float(ord), tuple(dim), keepdim
    ),
    shape=lambda sizes, shapes, ord, dim, keepdim: reduced_shape(sizes, shapes, dim, keepdim),
    prepare=prepare_matrix_norm,
    known={"w": winning},
    spelled=("torch.linalg.matrix_norm",),
    ranks={"x": (2, 3)},
    domain={"x": reals(avoid=(0.0,))},
    kinks=(0.0,),
    smooth=False,
    reuse=True,
    examples=(
        example("torch.linalg.matrix_norm(x)", x=(2, 3)),
        example("torch.linalg.matrix_norm(x, 1)", x=(2, 3)),
        example("torch.linalg.matrix_norm(x, -1, (2, 0), True)", x=(2, 2, 3)),
    ),
)
def matrix_norm(
    at: At,
    x: View,
    out: Held,
    w: Held,
    ord: float | str = "fro",
    dim: tuple[int, ...] = (-2, -1),
    keepdim: bool = False,
) -> Expr:
    """out = √(Σ_{i,j} x[i,j]²), or max_j Σ_i |x[i,j]| for ord 1: the average over the j that win"""
    if ord == "fro":
        inner = {a: fresh("j", x.shape[a]) for a in sorted(dim)}
        squares = x[placed(at, x.rank, inner, keepdim)] ** 2
        return Bracket(sp.Ne(out[at], 0)) * sp.sqrt(add_up(squares, tuple(inner.values())))
    return winners_average(at, x, w, *lines(ord, (dim[0], dim[1])), keepdim)


# Distances of rows ----------------------------------------------------------------------------------


def row(which: int) -> Any:
    """Which row is the first (or the second) of the k-th pair."""
    return lambda x, p: np.triu_indices(len(x), 1)[which]


def pair_distances(x: Any, p: Any) -> Any:
    """NumPy's forward."""
    first, second = np.triu_indices(len(x), 1)
    x = np.asarray(x, float)
    return numpy_length(x[first] - x[second], p, -1)


def between_rows(torch: Any, x: Any, p: Any) -> Any:
    """torch's, but for no rows at all: 2.13's backward ends the process there."""
    return torch.nn.functional.pdist(x, float(p)) if len(x) else x.sum(1)


op("pdist(x, p=2.0)", "out[k<size(x, 0)·(size(x, 0) − 1)/2] = [out ≠ 0]·√(Σ_j (x[m,j] − x[n,j])²), n: m < n, the rows of"
   " the k-th pair", "the distances between every two rows; the derivative at 0 is 0", ("F.{}", "torch.{}", "aten._pdist_forward"),
   instead=as_long_as("x[m,j] − x[n,j]", "out[k<size(x, 0)·(size(x, 0) − 1)/2]", apart=True), checks=p_given,
   known={"m": row(0), "n": row(1)}, forward=pair_distances, torch=between_rows, reuse=True, kinks=0, letters="k",
   examples=("F.pdist(x) with x:3x2", "F.pdist(x, 1.0) with x:4x2", "F.pdist(x, 3) with x:3x3"))  # fmt: skip


# Cut to a length ------------------------------------------------------------------------------------


def longest(shapes: tuple[Shape, ...], p: Any, dim: Any, maxnorm: Any) -> None:
    """p and the length are positive."""
    if len(shapes[0]) < 2:
        raise ShapeError("renorm takes a tensor with two axes or more")
    if check_p(p) <= 0 or p == float("inf") or maxnorm < 0:
        raise InputError("renorm takes p > 0, finite, and maxnorm from 0 up", found=(f"p={p}, maxnorm={maxnorm}",))


op("renorm(x, p: any, dim: int, maxnorm: any)", "out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7)"
   " where a = √(Σ_j x[j]²)", "every slice along dim that is longer than maxnorm shortened to that length", TORCH,
   along="all but dim", checks=longest,
   instead=of_length("out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7) where a = LENGTH, d[j] = x[j]"),
   examples=("renorm(x, 2, 0, 1.5)", "renorm(x, 1, 1, 2.0)", "renorm(x, 3, 2, 1.0) with x:2x2x2"))  # fmt: skip
