"""Cholesky and QR: factors that equations determine together.

A matrix that is read as symmetric enters as (x + xᵀ)/2, so that the gradient is symmetric, as torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.entries.domain import matrices
from symgrad.entries.equations import op
from symgrad.errors import DomainError, ShapeError, UndefinedError
from symgrad.ops.moving.arranging import at_least
from symgrad.ops.solved.solving import ASYMMETRY, SYMMETRIC, checked_symmetric, solved, square
from symgrad.shapes import Shape, Size, Sizes

# Cholesky ----------------------------------------------------------------------------------------------------


def lower_factor(x: Any) -> Any:
    """By NumPy; a matrix that is not positive definite is refused."""
    try:
        return np.linalg.cholesky(checked_symmetric(x))
    except np.linalg.LinAlgError:
        raise DomainError("this matrix is not positive definite", hints=("x @ x.T plus the identity is",)) from None


solved("cholesky(x)", f"Σ_j out[…,i,j]·out[…,k,j] = s[i,k] where {SYMMETRIC}; [k > i]·out[…,i,k] = 0",
       "the lower triangular factor of a symmetric x = out·outᵀ, with a positive diagonal",
       step="out[…,i,k] = out[…,i,k] + Σ_j out[…,i,j]·f[j,k]·([k − j < 0] + δ(j, k)/2)"
            f" where f[a,b] = (Σ_{{p,q}} inv[…,a,p]·s[p,q]·inv[…,b,q]) − δ(a, b), {SYMMETRIC}",
       values=lower_factor, torch=lambda torch, x: torch.linalg.cholesky((x + x.mT) / 2), shape=square, kind="definite",
       beside={"inv": lambda call, x, out: ("inverse", (out,), {})}, arrays="np.linalg.cholesky",
       examples=("cholesky(x) with x:3x3", "cholesky(x) with x:2x2x2"))  # fmt: skip


def triangular(x: Any) -> Any:
    """x, whose other triangle has to be 0 but for rounding."""
    x = np.asarray(x, float)
    if x.size and np.max(np.abs(np.triu(x, 1))) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this factor is not lower triangular", hints=("x.tril()", "upper=True, for an upper one"))
    return x


op("triangular_factor(x)", "out[…,i,j] = x[…,i,j]",
   "x itself, a lower triangular matrix (others are refused): the entries above the diagonal are 0, and have a gradient all the same, as in torch", (),
   written="{}", forward=triangular, torch=lambda torch, x: x.clone(), shape=square, domain={"x": matrices("lower")},
   ranks={"x": (2,)}, examples=("triangular_factor(x) with x:3x3",))  # fmt: skip

# QR ----------------------------------------------------------------------------------------------------------


def tall(sizes: Sizes, x: Shape) -> tuple[Size, Size]:
    """Rows and columns, no fewer rows; sizes that nothing fixes are taken to be the same."""
    rows, columns = (sizes.number(size) for size in at_least(x, 2)[-2:])
    if rows is None or columns is None:
        sizes.unify(x[-2], x[-1])
    elif rows < columns:
        raise ShapeError("this takes a matrix with no fewer rows than columns", found=(f"{rows}×{columns}",))
    sizes.require(x[-2] - x[-1])
    return x[-2], x[-1]


def factors_of(x: Any) -> tuple[Any, Any]:
    """Q and R; columns that depend on each other have no derivative."""
    q, r = np.linalg.qr(np.asarray(x, float) + 0.0)  # torch's LAPACK turns no column round for a -0
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    if diagonal.size and np.any(diagonal <= 1e-12 * np.max(np.abs(r))):
        raise UndefinedError("the columns of this matrix depend on each other, so its QR factors have no derivative")
    return q, r


MOVED = "m[a,b] = Σ_p x[…,a,p]·inv[…,p,b]"
solved("qr_q(x)", "Σ_i out[…,i,a]·out[…,i,b] = δ(a, b); [a > b]·R[a,b] = 0 where R[a,b] = Σ_i out[…,i,a]·x[…,i,b]; "
       "x[…,i,k] = Σ_a out[…,i,a]·R[a,k] where R[a,b] = Σ_j out[…,j,a]·x[…,j,b]",
       "the factor of x = out·R whose columns have length 1 and stand at right angles, R upper triangular",
       step="out[…,i,k] = out[…,i,k] + m[i,k] − (Σ_a out[…,i,a]·c[a,k])"
            f" + Σ_a out[…,i,a]·(c[a,k]·[k − a < 0] − c[k,a]·[a − k < 0]) where c[a,b] = Σ_q out[…,q,a]·m[q,b], {MOVED}",
       values=lambda x: factors_of(x)[0], torch=lambda torch, x: torch.linalg.qr(x)[0], written="qr({}).Q",
       shape=lambda sizes, shapes: (*shapes[0][:-2], *tall(sizes, shapes[0])), kind="full",
       beside={"inv": lambda call, x, out: ("inverse", (call("matmul", call("mT", out), x),), {})},
       examples=("qr(x).Q with x:3x2", "qr(x).Q with x:2x2x2"))  # fmt: skip
solved("qr_r(x)", "Σ_j out[…,j,i]·out[…,j,k] = Σ_j x[…,j,i]·x[…,j,k]; [i > k]·out[…,i,k] = 0",
       "the upper triangular factor of x = Q·out, where Qᵀ·Q = I; the signs of its rows are those of Householder's reflections",
       step="out[…,i,k] = out[…,i,k] + Σ_a (c[i,a] − c[i,a]·[a − i < 0] + c[a,i]·[i − a < 0])·out[…,a,k]"
            f" where c[a,b] = (Σ_r q[…,r,a]·m[r,b]) − δ(a, b), {MOVED}",
       values=lambda x: factors_of(x)[1], torch=lambda torch, x: torch.linalg.qr(x)[1], written="qr({}).R",
       shape=lambda sizes, shapes: (*shapes[0][:-2], *[tall(sizes, shapes[0])[1]] * 2), kind="full",
       beside={"inv": lambda call, x, out: ("inverse", (out,), {}), "q": lambda call, x, out: ("matmul", (x, call("inverse", out)), {})},
       examples=("qr(x).R with x:3x2", "qr(x).R with x:2x2x2"))  # fmt: skip
