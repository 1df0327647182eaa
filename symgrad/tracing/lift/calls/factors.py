"""LU, products of reflections and what else is said of real tensors as of complex ones.

Products with sparse matrices: those of dense ones, at the places where an entry is stored.

Which places those are is data of this run; what stands there is differentiated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops import ground
from symgrad.tracing.lift import inside
from symgrad.tracing.lift.steps import Said, Steps, composition, done
from symgrad.tracing.record.trace import Node, as_array


@composition("lu", "lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info", "lu_unpack", "lu_solve")
@composition("householder_product", "orgqr", "ormqr", "fill_diagonal", "sampled_addmm", "sparse_sampled_addmm")
def as_defined(steps: Steps, node: Node, *_: Any, **__: Any) -> Said | None:
    """By the definition that complex tensors have as well."""
    return done(inside.by_definition(steps.lifter, node))


def stored(x: Node) -> Array:
    """1 where a matrix stores an entry, be it 0; everywhere in one that is not sparse."""
    return np.ones(x.shape) if x.held.layout == torch.strided else as_array(of_ones(x.held))


@composition()
def to_dense(steps: Steps, node: Node, x: Any, dtype: Any = None, *, masked_grad: Any = None) -> Said | None:
    """x, through which nothing comes back to an entry that was not stored, unless one asks torch for it."""
    kept = None if x.held.layout == torch.strided or masked_grad is False else as_array(of_ones(x.held))
    return done(x) if kept is None or kept.all() else ("torch.mul", (x, steps.lifter.data("stored", kept)), {})


def of_ones(tensor: Any) -> Any:
    """A sparse tensor that stores 1 where this one stores an entry."""
    if tensor.layout == torch.sparse_coo:
        places, values = tensor.coalesce().indices(), torch.ones_like(tensor.coalesce().values())
        return torch.sparse_coo_tensor(places, values, tensor.shape, check_invariants=False)
    parts = torch.sparse_compressed_tensor
    rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    ends, places = (
        (tensor.crow_indices(), tensor.col_indices()) if rows else (tensor.ccol_indices(), tensor.row_indices())
    )
    ones = torch.ones_like(tensor.values())
    return parts(ends, places, ones, tensor.shape, layout=tensor.layout, check_invariants=False)


@composition("_sparse_addmm")
def sparse_addmm(steps: Steps, node: Node, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Said | None:
    """beta·x + alpha·(a @ b), of the stored entries of a."""
    product = steps(ground.matmul, steps(ground.mul, a, steps.lifter.data("stored", alpha * stored(a))), b)
    return "torch.add", (steps(ground.mul, x, beta), product), {}


@composition("_sparse_mm", "_sparse_mm_reduce_impl")
def sparse_mm(steps: Steps, node: Node, a: Any, b: Any, reduce: str = "sum") -> Said | None:
    """Rows of b times the stored entries of a row of a: added up, their mean, or the largest or smallest of them."""
    if reduce in ("sum", "mean"):
        total = steps(ground.matmul, steps(ground.mul, a, steps.lifter.data("stored", stored(a))), b)
        counts = np.maximum(stored(a).sum(axis=1, keepdims=True), 1) if reduce == "mean" else None
        return done(total if counts is None else steps(ground.div, total, steps.lifter.data("counts", counts)))
    inside: Array = np.asarray(stored(a) > 0)
    sign = 1 if reduce == "amax" else -1
    products: Array = as_array(a.held)[:, :, None] * as_array(b.held)
    best = np.argmax(np.where(inside[:, :, None], sign * products, -np.inf), axis=1)
    index = steps.lifter.data("best", best)
    picked = steps(ground.mul, steps(ground.gather, a, 1, index), steps(ground.gather, b, 0, index))
    if inside.any(axis=1).all():
        return done(picked)
    empty = np.broadcast_to(np.logical_not(inside).all(axis=1, keepdims=True), best.shape)
    return "torch.where", (steps.lifter.data("empty", empty), 0.0, picked), {}
