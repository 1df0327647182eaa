"""Distances between the rows of one matrix, and slices cut to a length."""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.entries.equations import TORCH, op
from symgrad.errors import InputError, ShapeError
from symgrad.ops.contracting.lengths import as_long_as, numpy_length, of_length
from symgrad.shapes import Shape

# Distances of rows ----------------------------------------------------------------------------------


op("pdist(x, p: float >= 0=2.0)", "out[k<size(x, 0)·(size(x, 0) − 1)/2] = [out ≠ 0]·√(Σ_j (x[m,j] − x[n,j])²), m: the first row of"
   " the k-th pair in order, n: the second", "the distance between every two rows m < n; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", ("F.{}", "torch.{}", "aten._pdist_forward"),
   instead=as_long_as("x[m,j] − x[n,j]", "out[k<size(x, 0)·(size(x, 0) − 1)/2]", apart=True),
   known={"m": lambda x, p: np.triu_indices(len(x), 1)[0], "n": lambda x, p: np.triu_indices(len(x), 1)[1]},
   forward=lambda x, p: numpy_length(np.subtract(*np.asarray(x, float)[np.array(np.triu_indices(len(x), 1))]), p, -1),
   torch=lambda torch, x, p: torch.nn.functional.pdist(x, float(p)) if len(x) else x.sum(1),  # of no rows 2.13's backward ends the process
   reuse=True, kinks=0, letters="k",
   examples=("F.pdist(x) with x:3x2", "F.pdist(x, 1.0) with x:4x2", "F.pdist(x, 3) with x:3x3"))  # fmt: skip


# Cut to a length ------------------------------------------------------------------------------------


def longest(shapes: tuple[Shape, ...], p: Any, dim: Any, maxnorm: Any) -> None:
    """p and the length are positive."""
    if len(shapes[0]) < 2:
        raise ShapeError("renorm takes a tensor with two axes or more")
    if p <= 0 or p == float("inf") or maxnorm < 0:
        raise InputError("renorm takes p > 0, finite, and maxnorm from 0 up", found=(f"p={p}, maxnorm={maxnorm}",))


op("renorm(x, p: number, dim: int, maxnorm: float)", "out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7)"
   " where a = √(Σ_j x[j]²)", "what lies at one place of dim, all other axes its line, shortened to the length maxnorm where it is longer; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p)", TORCH,
   along="all but dim", checks=longest,
   instead=of_length("out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7) where a = LENGTH, d[j] = x[j]"),
   examples=("renorm(x, 2, 0, 1.5)", "renorm(x, 1, 1, 2.0)", "renorm(x, 3, 2, 1.0) with x:2x2x2"))  # fmt: skip
