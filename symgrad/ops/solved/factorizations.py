"""Cholesky and QR: factors that equations determine together.

As in `symgrad.ops.solved.decompositions` what is differentiated is one Newton step from the factors that were found, which
are held still. A matrix that is read as symmetric enters as (x + xᵀ)/2, so that the gradient is symmetric, as torch's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.errors import DomainError, ShapeError, UndefinedError
from symgrad.indexing import Equation, Index, delta
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import matrices
from symgrad.ops.moving.arranging import at_least
from symgrad.ops.solved.matrices import (
    ASYMMETRY,
    Matrix,
    above,
    axes_of,
    below,
    checked_symmetric,
    identity,
    of,
    square,
)
from symgrad.ops.spec import At, Held, View, example, operation
from symgrad.shapes import Shape, Size, Sizes

# Cholesky ----------------------------------------------------------------------------------------------------


def lower_factor(x: Any) -> Any:
    """By NumPy; a matrix that is not positive definite is refused."""
    try:
        return np.linalg.cholesky(checked_symmetric(x))
    except np.linalg.LinAlgError:
        raise DomainError("this matrix is not positive definite", hints=("x @ x.T plus the identity is",)) from None


def product_of_factors(x: View, out: View, inv: View) -> tuple[Equation, ...]:
    """out·outᵀ − x = 0 for a symmetric x, and out is 0 over the diagonal"""
    n = x.shape[-1]
    *batch, i, k = axes_of(x, n, n)
    *other, p, q = axes_of(x, n, n)
    factor = of(out, tuple(batch), n, n)
    return (
        Equation((*batch, i, k), (factor @ factor.T - of(x, tuple(batch), n, n).symmetric)[i, k]),
        Equation((*other, p, q), of(out, tuple(other), n, n).weighed(above)[p, q]),
    )


def half(i: Index, k: Index) -> Expr:
    """1 under the diagonal, ½ on it: what of a symmetric M = Y + Yᵀ makes the lower triangular Y."""
    return below(i, k) + delta(i, k) / 2


@operation(
    says="the lower triangular factor of a symmetric x = out·outᵀ",
    numpy=lower_factor, torch=lambda torch, x: torch.linalg.cholesky((x + x.mT) / 2), shape=square,
    residual=product_of_factors, beside={"inv": lambda call, x, out: ("inverse", (out,), {})},
    domain={"x": matrices("definite")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("cholesky(x)", x=(3, 3)), example("cholesky(x)", x=(2, 2, 2))),
    arrays="np.linalg.cholesky",
)  # fmt: skip
def cholesky(at: At, x: View, out: Held, inv: Held) -> Expr:
    """out = out₀ + out₀·Φ(out₀⁻¹·x·out₀⁻ᵀ − I), Φ the lower triangle with half of the diagonal"""
    *batch, i, k = at
    n = x.shape[-1]
    factor, inner = (of(view, tuple(batch), n, n) for view in (out, inv))
    inside = inner @ of(x, tuple(batch), n, n).symmetric @ inner.T - identity(n)
    return (factor + factor @ inside.weighed(half))[i, k]


def triangular(x: Any) -> Any:
    """x, whose other triangle has to be 0 but for rounding."""
    x = np.asarray(x, float)
    if x.size and np.max(np.abs(np.triu(x, 1))) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this factor is not lower triangular", hints=("x.tril()", "upper=True, for an upper one"))
    return x


@operation(
    says="x, a lower triangular factor as cholesky gives it; torch reads no other triangle, and yet hands a gradient to it",
    written="{}", numpy=triangular, torch=lambda torch, x: x.clone(), shape=square, domain={"x": matrices("lower")},
    ranks={"x": (2,)}, examples=(example("triangular_factor(x)", x=(3, 3)),),
)  # fmt: skip
def triangular_factor(at: At, x: View) -> Expr:
    """out[i,j] = x[i,j]"""
    return x[at]


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


def qr_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """Q has the shape of x."""
    return (*shapes[0][:-2], *tall(sizes, shapes[0]))


def triangular_shape(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """R is square."""
    _, columns = tall(sizes, shapes[0])
    return (*shapes[0][:-2], columns, columns)


def factors_of(x: Any) -> tuple[Any, Any]:
    """Q and R; columns that depend on each other have no derivative."""
    q, r = np.linalg.qr(np.asarray(x, float) + 0.0)  # torch's LAPACK turns no column round for a -0
    diagonal = np.abs(np.diagonal(r, axis1=-2, axis2=-1))
    if diagonal.size and np.any(diagonal <= 1e-12 * np.max(np.abs(r))):
        raise UndefinedError("the columns of this matrix depend on each other, so its QR factors have no derivative")
    return q, r


def skew(inside: Matrix) -> Matrix:
    """What of M = Ω + (an upper triangle) is the skew Ω: the part below the diagonal minus its transpose."""
    lower = inside.weighed(below)
    return lower - lower.T


def columns_at_right_angles(x: View, out: View, inv: View) -> tuple[Equation, ...]:
    """outᵀ·out − I = 0, outᵀ·x is 0 under the diagonal, and out spans x: x − out·outᵀ·x = 0"""
    rows, columns = x.shape[-2:]
    equations: list[Equation] = []
    for m, n in ((columns, columns), (columns, columns), (rows, columns)):
        *batch, i, k = axes_of(x, m, n)
        q, y = (of(view, tuple(batch), rows, columns) for view in (out, x))
        parts = (q.T @ q - identity(columns), (q.T @ y).weighed(below), y - q @ (q.T @ y))
        equations.append(Equation((*batch, i, k), parts[len(equations)][i, k]))
    return tuple(equations)


@operation(
    name="qr_q", written="qr({}).Q",
    says="the factor of x = out·R whose columns have length 1 and stand at right angles, R upper triangular",
    numpy=lambda x: factors_of(x)[0], torch=lambda torch, x: torch.linalg.qr(x)[0],
    shape=qr_shape, residual=columns_at_right_angles,
    beside={"inv": lambda call, x, out: ("inverse", (call("matmul", call("mT", out), x),), {})},
    domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("qr(x).Q", x=(3, 2)), example("qr(x).Q", x=(2, 2, 2))),
)  # fmt: skip
def qr_q(at: At, x: View, out: Held, inv: Held) -> Expr:
    """out = out₀ + (I − out₀·out₀ᵀ)·x·R₀⁻¹ + out₀·Ω, Ω the skew part of out₀ᵀ·x·R₀⁻¹"""
    *batch, i, k = at
    rows, columns = x.shape[-2:]
    q = of(out, tuple(batch), rows, columns)
    moved = of(x, tuple(batch), rows, columns) @ of(inv, tuple(batch), columns, columns)
    return (q + (moved - q @ (q.T @ moved)) + q @ skew(q.T @ moved))[i, k]


def same_gram_matrix(x: View, out: View, inv: View, q: View) -> tuple[Equation, ...]:
    """outᵀ·out − xᵀ·x = 0, and out is 0 under the diagonal"""
    rows, columns = x.shape[-2:]
    *batch, i, k = axes_of(x, columns, columns)
    *other, p, s = axes_of(x, columns, columns)
    r, y = of(out, tuple(batch), columns, columns), of(x, tuple(batch), rows, columns)
    return (
        Equation((*batch, i, k), (r.T @ r - y.T @ y)[i, k]),
        Equation((*other, p, s), of(out, tuple(other), columns, columns).weighed(below)[p, s]),
    )


@operation(
    name="qr_r", written="qr({}).R",
    says="the upper triangular factor of x = Q·out, where Qᵀ·Q = I",
    numpy=lambda x: factors_of(x)[1], torch=lambda torch, x: torch.linalg.qr(x)[1],
    shape=triangular_shape, residual=same_gram_matrix,
    beside={"inv": lambda call, x, out: ("inverse", (out,), {}),
            "q": lambda call, x, out: ("matmul", (x, call("inverse", out)), {})},
    domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("qr(x).R", x=(3, 2)), example("qr(x).R", x=(2, 2, 2))),
)  # fmt: skip
def qr_r(at: At, x: View, out: Held, inv: Held, q: Held) -> Expr:
    """out = out₀ + (C − Ω)·out₀, C = Q₀ᵀ·x·out₀⁻¹ − I and Ω its skew part"""
    *batch, i, k = at
    rows, columns = x.shape[-2:]
    r = of(out, tuple(batch), columns, columns)
    moved = of(x, tuple(batch), rows, columns) @ of(inv, tuple(batch), columns, columns)
    inside = of(q, tuple(batch), rows, columns).T @ moved - identity(columns)
    return (r + (inside - skew(inside)) @ r)[i, k]
