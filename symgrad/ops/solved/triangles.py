"""Elimination without exchanging rows: x = L·U, both triangles in one matrix, as torch's ``lu_factor`` packs them.

As in `symgrad.ops.solved.decompositions` one Newton step from the factors that were found is differentiated. Which rows are
exchanged before is locally constant: that is a product with a matrix of zeros and ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import UndefinedError
from symgrad.indexing import Equation, Index
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import matrices
from symgrad.ops.solved.matrices import Matrix, axes_of, below, identity, of, square
from symgrad.ops.spec import At, Held, View, example, operation


def eliminated(x: Any) -> Any:
    """Row by row, by NumPy; a pivot that is 0 is refused."""
    found = np.array(x, dtype=float)
    for k in range(found.shape[-1]):
        pivots = found[..., k, k, None]
        if np.any(pivots == 0):
            raise UndefinedError("a pivot is 0: this matrix has no factors L·U without exchanging rows")
        found[..., k + 1 :, k] /= pivots
        found[..., k + 1 :, k + 1 :] -= found[..., k + 1 :, k, None] * found[..., None, k, k + 1 :]
    return found


def eliminated_by_torch(torch: Any, x: Any) -> Any:
    """The same by torch, whose `lu_factor` exchanges rows: the first row and column, then what is left of the rest."""
    if x.shape[-1] == 0:
        return x
    left = x[..., 1:, :1] / x[..., :1, :1]
    rest = eliminated_by_torch(torch, x[..., 1:, 1:] - left * x[..., :1, 1:])
    return torch.cat([x[..., :1, :], torch.cat([left, rest], -1)], -2)


def not_below(i: Index, k: Index) -> Expr:
    """1 on the diagonal and over it."""
    return sp.S.One - below(i, k)


def unit_lower(packed: Matrix) -> Matrix:
    """L: what stands under the diagonal, and ones on it."""
    return packed.weighed(below) + identity(packed.rows)


def product_of_triangles(x: View, out: View, left: View, right: View) -> tuple[Equation, ...]:
    """L·U − x = 0, L and U the triangles of out"""
    n = x.shape[-1]
    *batch, i, k = axes_of(x, n, n)
    packed = of(out, tuple(batch), n, n)
    product = unit_lower(packed) @ packed.weighed(not_below)
    return (Equation((*batch, i, k), (product - of(x, tuple(batch), n, n))[i, k]),)


def inverse_of_lower(call: Any, x: Any, out: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """L⁻¹."""
    ones = call("diag_embed", call("ones_like", call("diagonal", out, dim1=-2, dim2=-1)))
    return "inverse", (call("add", call("tril", out, diagonal=-1), ones),), {}


@operation(
    says="the triangles of x = L·U in one matrix, L under the diagonal and with ones on it, U on it and over it; no rows "
    "are exchanged",
    numpy=eliminated, torch=eliminated_by_torch, shape=square, residual=product_of_triangles,
    beside={"left": inverse_of_lower, "right": lambda call, x, out: ("inverse", (call("triu", out),), {})},
    domain={"x": matrices("dominant")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("lu_factors(x)", x=(3, 3)), example("lu_factors(x)", x=(2, 2, 2))),
)  # fmt: skip
def lu_factors(at: At, x: View, out: Held, left: Held, right: Held) -> Expr:
    """out = out₀ + L₀·Φ₋ + Φ₊·U₀, Φ = L₀⁻¹·x·U₀⁻¹ − I, Φ₋ its part under the diagonal and Φ₊ the rest"""
    *batch, i, k = at
    n = x.shape[-1]
    packed, inner, outer = (of(view, tuple(batch), n, n) for view in (out, left, right))
    change = inner @ of(x, tuple(batch), n, n) @ outer - identity(n)
    lower = unit_lower(packed) @ change.weighed(below)
    return (packed + lower + change.weighed(not_below) @ packed.weighed(not_below))[i, k]
