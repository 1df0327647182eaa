"""Elimination without exchanging rows: x = L·U, both triangles in one matrix, as torch's ``lu_factor`` packs them.

Which rows are exchanged before is locally constant: that is a product with a matrix of zeros and ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import UndefinedError
from symgrad.ops.solved.solving import solved, square


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


def inverse_of_lower(call: Any, x: Any, out: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """L⁻¹."""
    ones = call("diag_embed", call("ones_like", call("diagonal", out, dim1=-2, dim2=-1)))
    return "inverse", (call("add", call("tril", out, diagonal=-1), ones),), {}


LOWER, UPPER = "L[a,b] = [a > b]·out[…,a,b] + δ(a, b)", "U[a,b] = [a ≤ b]·out[…,a,b]"
solved("lu_factors(x)", f"Σ_j L[i,j]·U[j,k] = x[…,i,k] where {LOWER}, {UPPER}",
       "the triangles of x = L·U in one matrix, L under the diagonal and with ones on it, U on it and over it; no rows "
       "are exchanged",
       step="out[…,i,k] = out[…,i,k] + (Σ_j L[i,j]·[k − j < 0]·f[j,k]) + Σ_j (1 − [j − i < 0])·f[i,j]·U[j,k]"
            f" where f[a,b] = (Σ_{{p,q}} left[…,a,p]·x[…,p,q]·right[…,q,b]) − δ(a, b), {LOWER}, {UPPER}",
       values=eliminated, torch=eliminated_by_torch, shape=square, kind="dominant",
       beside={"left": inverse_of_lower, "right": lambda call, x, out: ("inverse", (call("triu", out),), {})},
       examples=("lu_factors(x) with x:3x3", "lu_factors(x) with x:2x2x2"))  # fmt: skip
