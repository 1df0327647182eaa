"""Torch calls that write, look up, store or reorder entries at positions.

Comes in: a call with the positions of this run. Goes out: entries of the table. Positions are data, or follow from the
call's own J. Overwritten entries are a selection (`symgrad.tracing.lift.entry_choices.lift_overwrite`); additions and
reductions at positions are one entry of the table.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import torch

from symgrad.numeric.exact import Array
from symgrad.ops.calls.registry import Last, done
from symgrad.ops.lookup import basics
from symgrad.tracing.lift import TWICE, Refused, composition, inside, without_subclass
from symgrad.tracing.lift.compositions import reduction_word
from symgrad.tracing.lift.context import LiftContext
from symgrad.tracing.lift.entry_choices import lift_overwrite, selected_indices
from symgrad.tracing.record.aliases import find_read_entries
from symgrad.tracing.record.trace import Node, as_numbers

ANOTHER = "torch's backward passes on the gradient of the overwritten entries, not of those that were kept"
"""Why a write by strides is left to torch."""


@composition("slice_scatter", "diagonal_scatter", "masked_scatter")
def lift_scatter(steps: LiftContext, node: Node, *_: Any, **__: Any) -> Last | None:
    """Lift entries of one tensor written over another's; the call's own J determines which."""
    call = node.maker
    read = [n for n in call.nodes if n.held.is_floating_point()]
    if len(read) != 2 or read[0] is not call.arguments[0] or not read[1].held.numel():
        raise Refused("")
    old, new = read
    places = selected_indices(node, new)
    refs = steps.refs_in((old, new))
    return done(lift_overwrite(steps, refs[id(old)], refs[id(new)], places, steps.wish(node)))


def check_written_once(places: Array) -> None:
    """Raise `Refused` if positions are written more than once: torch's backward is then not the derivative."""
    if len(np.unique(places)) < places.size:
        raise Refused(TWICE)


def add_at_places(steps: LiftContext, x: Any, places: Array, values: Any) -> Last:
    """Lift x with the values added at the entries numbered by ``places``."""
    spread = steps(basics.expand, values, tuple(places.shape)) if tuple(values.shape) != places.shape else values
    index = steps.data("places", places.reshape(-1))
    total = steps(basics.index_add, steps(basics.reshape, x, (-1,)), 0, index, steps(basics.reshape, spread, (-1,)))
    return done(steps(basics.reshape, total, tuple(map(int, x.shape))))


@composition("index_put")
def lift_index_put(
    steps: LiftContext, node: Node, x: Any, indices: Any, values: Any, accumulate: bool = False
) -> Last | None:
    """Lift x with values written at some positions, or added there."""
    key = tuple(slice(None) if i is None else i for i in without_subclass(tuple(indices)))
    return put_at_places(steps, node, x, find_read_entries(key, x.shape), values, accumulate)


@composition("put")
def lift_put(steps: LiftContext, node: Node, x: Any, index: Any, source: Any, accumulate: bool = False) -> Last | None:
    """Lift the same with row-major numbers of entries."""
    places = np.mod(np.asarray(without_subclass(index).numpy()), max(int(np.prod(x.shape, dtype=object)), 1))
    if accumulate and tuple(source.shape) != places.shape:
        source = steps(basics.reshape, source, tuple(places.shape))
    return put_at_places(steps, node, x, places, source, accumulate)


def put_at_places(steps: LiftContext, node: Node, x: Any, places: Array, values: Any, accumulate: bool) -> Last | None:
    """Lift x with values written at the entries numbered by ``places``, or added there."""
    if not places.size:
        return "Tensor.clone", (x,), {}
    if accumulate:
        return add_at_places(steps, x, places, values)
    check_written_once(places)
    return lift_scatter(steps, node)


@composition("as_strided_scatter")
def lift_as_strided_scatter(steps: LiftContext, node: Node, *_: Any, **__: Any) -> Last | None:
    """Refuse a write by strides: torch's backward is not its derivative."""
    raise Refused(ANOTHER)


COUNTED = (
    "scale_grad_by_freq divides the gradient of a row by how often it was used: that is torch's rule, not the "
    "derivative"
)


@composition()
def embedding(steps: LiftContext, node: Node, *given: Any, **spoken: Any) -> Last | None:
    """Rows of a weight; torch's inner call has the weight first, and no name for a row that gets nothing."""
    outer = node.maker.spelling.startswith("F.")
    if spoken.get("scale_grad_by_freq") or given[5 if outer else 3 : 6 if outer else 4] == (True,):
        raise Refused(COUNTED)
    if outer:
        return None
    weight, indices, *rest = given
    padding = spoken.get("padding_idx", rest[0] if rest else -1)
    return "F.embedding", (indices, weight), {} if padding < 0 else {"padding_idx": padding}


@composition("grouped_mm", "_grouped_mm")
def grouped_mm(
    steps: LiftContext, node: Node, a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None
) -> Last | None:  # fmt: skip
    """A product of matrices for each group: of rows of a, of columns of b, or of what is summed over."""
    if bias is not None:
        return None
    if offs is None:
        return "torch.matmul", (a, b), {}
    ends = [0, *(int(n) for n in without_subclass(offs))]
    cut_a, cut_b = len(a.shape) == 2, len(b.shape) == 2
    whole = steps.number(a.shape[-2 if not cut_b else -1] if cut_a else b.shape[-1])
    if ends[-1] != whole or not (cut_a or cut_b):
        raise Refused("the groups do not fill the matrix")
    parts = []
    for n, (begin, end) in enumerate(pairwise(ends)):
        size = end - begin
        one = steps(basics.narrow, a, -1 if cut_b else 0, begin, size) if cut_a else steps(basics.select, a, 0, n)
        other = steps(basics.narrow, b, 0 if cut_a else -1, begin, size) if cut_b else steps(basics.select, b, 0, n)
        if begin < end or (cut_a and cut_b):
            parts.append(steps(basics.matmul, one, other))
    if cut_a and cut_b:
        return "torch.stack", (parts, 0), {}
    return ("torch.cat", (parts, 0 if cut_a else -1), {}) if len(parts) > 1 else done(parts[0])


@composition()
def multilabel_margin_loss(steps: LiftContext, node: Node, x: Any, target: Any, reduction: Any = 1) -> Last | None:
    """Σ max(0, 1 − x[y] + x[i])/n over the classes y before the first −1 and the classes i that are none of those."""
    rows = np.atleast_2d(without_subclass(target).numpy())
    count = rows.shape[-1]
    own, other, sample = [], [], []
    for n, row in enumerate(rows):
        wanted = row[: np.argmax(row < 0)] if (row < 0).any() else row
        rest = np.setdiff1d(np.arange(count), wanted)
        own += [n * count + y for y in wanted for _ in rest]
        other += [n * count + i for _ in wanted for i in rest]
        sample += [n] * (len(wanted) * len(rest))
    if not own:
        return done(steps.data("loss", node.value()))
    flat = steps(basics.reshape, x, (-1,))
    first, second = (steps(basics.index_select, flat, 0, steps.data("classes", np.array(p))) for p in (own, other))
    each = steps(basics.div, steps(basics.relu, steps(basics.add, steps(basics.sub, second, first), 1)), count)
    start = steps.data("start", np.zeros(len(rows)))
    losses = steps(basics.index_add, start, 0, steps.data("samples", np.array(sample)), each)
    word = reduction_word(reduction)
    return ("torch.reshape", (losses, node.shape), {}) if word == "none" else (f"torch.{word}", (losses,), {})


@composition("lu", "lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info", "lu_unpack", "lu_solve")
@composition("householder_product", "orgqr", "ormqr", "fill_diagonal", "sampled_addmm", "sparse_sampled_addmm")
def lift_by_definition(steps: LiftContext, node: Node, *_: Any, **__: Any) -> Last | None:
    """Lift by the definition that is also used for complex tensors."""
    return done(inside.lift_definition(steps, node))


def stored_entries_mask(x: Node) -> Array:
    """Return 1 where a matrix stores an entry, even a 0; 1 everywhere if it is not sparse."""
    return np.ones(x.shape) if x.held.layout == torch.strided else as_numbers(sparse_ones_like(x.held))


@composition()
def to_dense(steps: LiftContext, node: Node, x: Any, dtype: Any = None, *, masked_grad: Any = None) -> Last | None:
    """x, through which nothing comes back to an entry that was not stored, unless one asks torch for it."""
    kept = stored_entries_mask(x)
    return done(x) if masked_grad is False or kept.all() else ("torch.mul", (x, steps.data("stored", kept)), {})


def sparse_ones_like(tensor: Any) -> Any:
    """Return a sparse tensor that stores 1 where this one stores an entry."""
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
def sparse_addmm(
    steps: LiftContext, node: Node, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1
) -> Last | None:
    """beta·x + alpha·(a @ b), of the stored entries of a."""
    product = steps(basics.matmul, steps(basics.mul, a, steps.data("stored", alpha * stored_entries_mask(a))), b)
    return "torch.add", (steps(basics.mul, x, beta), product), {}


@composition("_sparse_mm", "_sparse_mm_reduce_impl")
def sparse_mm(steps: LiftContext, node: Node, a: Any, b: Any, reduce: str = "sum") -> Last | None:
    """Rows of b times the stored entries of a row of a: added up, their mean, or the largest or smallest of them."""
    if reduce in ("sum", "mean"):
        total = steps(basics.matmul, steps(basics.mul, a, steps.data("stored", stored_entries_mask(a))), b)
        counts = np.maximum(stored_entries_mask(a).sum(axis=1, keepdims=True), 1) if reduce == "mean" else None
        return done(total if counts is None else steps(basics.div, total, steps.data("counts", counts)))
    inside: Array = np.asarray(stored_entries_mask(a) > 0)
    sign = 1 if reduce == "amax" else -1
    products: Array = as_numbers(a.held)[:, :, None] * as_numbers(b.held)
    best = np.argmax(np.where(inside[:, :, None], sign * products, -np.inf), axis=1)
    index = steps.data("best", best)
    picked = steps(basics.mul, steps(basics.gather, a, 1, index), steps(basics.gather, b, 0, index))
    if inside.any(axis=1).all():
        return done(picked)
    empty = np.broadcast_to(np.logical_not(inside).all(axis=1, keepdims=True), best.shape)
    return "torch.where", (steps.data("empty", empty), 0.0, picked), {}
