"""Products with more to them: a product added to a tensor, tensordot, Kronecker, the cross product, distances.

``addmm`` and its kind are beta·x + alpha·Σ …, with the same subscripts as the plain product.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable
from typing import Any

import numpy as np
import sympy as sp

from symgrad.entries.equations import TORCH, F, op
from symgrad.entries.indexed import Indexed
from symgrad.entries.shaping import as_many, axis_of, within
from symgrad.entries.signatures import call_of
from symgrad.errors import InputError, ShapeError
from symgrad.ops import openings
from symgrad.ops.contracting.lengths import as_long_as, numpy_length, of_length
from symgrad.shapes import Shape, Sizes


def added(call: str, equation: str) -> Callable[..., tuple[Shape, ...]]:
    """What is added to a product takes the product's shape."""
    alone = Indexed(call_of(f"{call.replace('x, ', '')})"), re.sub(r"beta·x\[.*?\] \+ alpha·", "", equation), {})

    def align(sizes: Sizes, given: tuple[Shape, ...], **options: Any) -> tuple[Shape, ...]:
        product = alone.shape(sizes, given[1:])
        within(sizes, given[0], product, "what is added to the product has {} axes, the product {}")
        return (product, *given[1:])

    return align


# one operation, one row
# fmt: off
for call, equation, says, shapes in (
    ("addmm(x, mat1, mat2", "out[i,k] = beta·x[i,k] + alpha·Σ_j mat1[i,j]·mat2[j,k]",
     "beta·x plus alpha times a matrix product", "x:2x4 mat1:2x3 mat2:3x4"),
    ("addmv(x, mat, vec", "out[i] = beta·x[i] + alpha·Σ_j mat[i,j]·vec[j]",
     "beta·x plus alpha times a matrix times a vector", "x:2 mat:2x3 vec:3"),
    ("addr(x, vec1, vec2", "out[i,j] = beta·x[i,j] + alpha·vec1[i]·vec2[j]",
     "beta·x plus alpha times an outer product", "x:2x3 vec1:2 vec2:3"),
    ("addbmm(x, batch1, batch2", "out[i,k] = beta·x[i,k] + alpha·Σ_{b,j} batch1[b,i,j]·batch2[b,j,k]",
     "beta·x plus alpha times the sum of a batch of matrix products", "x:2x2 batch1:2x2x3 batch2:2x3x2"),
    ("baddbmm(x, batch1, batch2", "out[b,i,k] = beta·x[b,i,k] + alpha·Σ_j batch1[b,i,j]·batch2[b,j,k]",
     "beta·x plus alpha times a batch of matrix products", "x:2x2x2 batch1:2x2x3 batch2:2x3x2"),
):
    op(f"{call}, beta: float=1, alpha: float=1)", equation, says, TORCH, align=added(call, equation),
       holds="" if "Σ" in equation else "joined",  # torch takes truth values where nothing is added up
       examples=(f"{call}) with {shapes}", f"{call}, beta=2, alpha=0.5) with {shapes}"))
# fmt: on


def prepare_tensordot(shapes: tuple[Shape, ...], dims: Any = 2) -> dict[str, Hashable]:
    """The axes that are summed over, of x and of y."""
    x, y = (len(s) for s in shapes)
    if isinstance(dims, int):
        if not 0 <= dims <= min(x, y):
            raise ShapeError(f"tensordot cannot sum over {dims} axes of tensors with {x} and {y}")
        return {"dims": (tuple(range(x - dims, x)), tuple(range(dims)))}
    left, right = (tuple(d) if isinstance(d, (tuple, list)) else (d,) for d in dims)
    if len(left) != len(right):
        raise InputError("tensordot takes as many axes of one tensor as of the other", found=(f"dims={dims}",))
    return {"dims": (tuple(axis_of(d, x) for d in left), tuple(axis_of(d, y) for d in right))}


def summed_over(shapes: tuple[Shape, ...], dims: Any) -> str:
    """A letter on each pair of axes that is summed over, the others in order."""
    x, y = ([f"{letter}{a}" for a in range(len(shape))] for letter, shape in zip("ik", shapes, strict=True))
    for n, (a, b) in enumerate(zip(*dims, strict=True)):
        x[a] = y[b] = f"j{n}"
    inner = ",".join(f"j{n}" for n in range(len(dims[0])))
    left = ",".join(letter for letter in (*x, *y) if letter[0] != "j")
    first, second = (f"{name}[{','.join(at)}]" if at else name for name, at in (("x", x), ("y", y)))
    return f"out{f'[{left}]' if left else ''} = {f'Σ_{{{inner}}} ' if inner else ''}{first}·{second}"


op("tensordot(x, y, dims: axes=2)", "out[i,k] = Σ_j x[i,j]·y[j,k]", "the sum of products over pairs of axes: the last of x and the first of y, as many as dims says, or those that it names",
   ("torch.{}", "np.{}"), instead=summed_over, prepare=prepare_tensordot,
   examples=("tensordot(x, y, 1) with x:2x3 y:3x2", "tensordot(x, y, 2) with x:2x3 y:2x3"))  # fmt: skip


def blocks(shapes: tuple[Shape, ...]) -> str:
    """An index of x and one of y on each axis, from the last one on."""
    x, y = (len(shape) for shape in shapes)
    rank = max(x, y)
    own, other = ([f"{letter}{a}" for a in range(rank - count, rank)] for letter, count in (("i", x), ("k", y)))
    rows = [[name for name in (f"i{a}", f"k{a}") if name in own + other] for a in range(rank)]
    left = ",".join(names[0] if len(names) == 1 else f"({','.join(names)})" for names in rows)
    first, second = (f"{name}{f'[{chr(44).join(at)}]' if at else ''}" for name, at in (("x", own), ("y", other)))
    return f"out{f'[{left}]' if left else ''} = {first}·{second}"


op("kron(x, y)", "out[(i,k),(j,l)] = x[i,j]·y[k,l]", "every entry of x times all of y, as one matrix of blocks",
   ("torch.{}", "Tensor.{}", "np.{}"), instead=blocks, examples=("kron(x, y) with x:2x2 y:2x3", "kron(x, y) with x:2 y:3"))  # fmt: skip


op("vecdot(x, y, dim: int=-1)", "out = Σ_j x[j]·y[j]", "inner products along dim", ("torch.linalg.{}",), along="dim",
   examples=("torch.linalg.vecdot(x, y)",), holds="real")  # fmt: skip


def cross_shape(sizes: Sizes, shapes: tuple[Shape, ...], dim: int) -> Shape:
    """Three entries along dim."""
    common = sizes.broadcast_shapes(shapes)
    if not common:
        raise ShapeError("a cross product is one of vectors with three entries, not of numbers")
    sizes.unify(common[dim], sp.Integer(3))
    return common


op("cross(x, y, dim: int=-1)", "out[i] = x[(i + 1) mod n]·y[(i + 2) mod n] − x[(i + 2) mod n]·y[(i + 1) mod n]"
   " where n = size(x, -1)", "the cross product of vectors with three entries along dim",
   ("torch.{}", "torch.linalg.cross", "Tensor.cross", "aten.linalg_cross"), along="dim", shape=cross_shape,
   fits=as_many, implied={c: lambda sizes: sizes.index(3) if 3 in sizes else -1 for c in ("torch.cross", "Tensor.cross")},
   examples=("torch.linalg.cross(x, y)",))  # fmt: skip


# Lengths and distances ------------------------------------------------------------------------------


op("cosine_similarity(x, y, dim: int=1, eps: float=1e-8)", "out = (Σ_j x[j]·y[j]) / ((a·[a ≥ eps] + eps·[a < eps])"
   "·(b·[b ≥ eps] + eps·[b < eps])) where a = √(Σ_k x[k]²), b = √(Σ_l y[l]²)",
   "the cosine of the angle between vectors along dim, each length eps at least", ("F.{}", "torch.{}", "aten.{}"), along="dim", kinks=0,
   expands=openings.cosine_similarity,
   examples=("F.cosine_similarity(x, y)", "F.cosine_similarity(x, y, dim=0) with x:3 y:3"))  # fmt: skip


BY_P: dict[str, Any] = {"reuse": True, "kinks": 0}

# fmt: off
op("pairwise_distance(x, y, p: number=2.0, eps=1e-6, keepdim=False)", "out = [out ≠ 0]·√(Σ_j (x[j] − y[j] + eps)²)",
   "the length of x − y + eps along the last axis; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", F, "torch.pairwise_distance", along="last",
   instead=as_long_as("x[j] − y[j] + eps"), **BY_P,
   forward=lambda x, y, p, eps, keepdims=False: numpy_length(x - y + float(eps), p, -1, keepdims),
   examples=("F.pairwise_distance(x, y)", "F.pairwise_distance(x, y, p=1.0)"))
op("normalize(x, p: number=2.0, dim=1, eps=1e-12)", "out[i] = x[i] / (a·[a ≥ eps] + eps·[a < eps]) where a = √(Σ_j x[j]²)",
   "x divided by its length along dim, eps at least; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p)", ("F.{}",), along="dim", expands=openings.normalize,
   instead=of_length("out[i] = x[i] / (a·[a ≥ eps] + eps·[a < eps]) where a = LENGTH, d[j] = x[j]"), examples=("F.normalize(x)", "F.normalize(x, dim=0) with x:3"))
op("dist(x, y, p: number=2)", "out = [out ≠ 0]·√(Σ_j (x[j] − y[j])²)",
   "the length of x − y over all entries; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", TORCH, along="all", instead=as_long_as("x[j] − y[j]"),
   forward=lambda x, y, p: numpy_length(x - y, p, None), **BY_P, examples=("dist(x, y)", "dist(x, y, 3) with x:3 y:3"))
op("cdist(x, y, p: float >= 0=2.0, compute_mode: unused=None)", "out[…,i,k] = [out ≠ 0]·√(Σ_j (x[…,i,j] − y[…,k,j])²)",
   "the distances between the rows of x and the rows of y; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", ("torch.{}", "aten._cdist_forward"),
   instead=as_long_as("x[…,i,j] − y[…,k,j]", "out[…,i,k]", apart=True),
   forward=lambda x, y, p: numpy_length(np.asarray(x)[..., :, None, :] - np.asarray(y)[..., None, :, :], p, -1),
   **BY_P, ranks={"x": (2, 3), "y": (2, 3)}, examples=("cdist(x, y) with x:2x3 y:3x3", "cdist(x, y, 1.0) with x:2x2 y:2x2"))
