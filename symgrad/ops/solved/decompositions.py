"""Inverse, solutions and determinants: operations that are defined by an equation which their result solves.

What is differentiated is one Newton step from the solution, out = out₀ − S·F(x, out₀), with out₀ and S, the inverse
of ∂F/∂out, held still. At the solution F is 0, so the value is out; and the derivative of the step by x is
−S·∂F/∂x, which is what the implicit function theorem says. S is no derivative of the operation: whether it belongs
to F is tested for every entry that has a ``residual``, by differentiating F = 0 itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from symgrad.errors import ShapeError, UndefinedError
from symgrad.indexing import Equation, Index, add_up, fresh, fresh_axes
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import matrices
from symgrad.ops.moving.arranging import at_least
from symgrad.ops.solved.matrices import Matrix, axes_of, batch_of_square, identity, inverted, of, square
from symgrad.ops.spec import At, Example, Held, Op, View, example, operation
from symgrad.program import Role
from symgrad.shapes import Shape, Sizes


def inverse_of(call: Any, x: Any, *rest: Any) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """What most solutions read beside: the inverse of the first operand."""
    return "inverse", (x,), {}


def one_side(x: View, out: View) -> tuple[Equation, ...]:
    """x·out − I = 0"""
    n = x.shape[-1]
    *batch, i, k = axes_of(x, n, n)
    product = of(x, tuple(batch), n, n) @ of(out, tuple(batch), n, n) - identity(n)
    return (Equation((*batch, i, k), product[i, k]),)


@operation(
    says="the inverse, which solves x·out = I",
    numpy=inverted, torch=lambda torch, x: torch.linalg.inv(x), shape=square, residual=one_side,
    role=Role.INVERTS,
    spelled=("torch.inverse", "torch.linalg.inv", "Tensor.inverse", "np.linalg.inv"),
    domain={"x": matrices("regular")}, ranks={"x": (2,)}, letters="ik",
    examples=(
        example("inverse(x)", x=(2, 2)), example("inverse(x)", x=(2, 3, 3)), example("b @ inverse(x)", b=(3,), x=(3, 3)),
    ),
)  # fmt: skip
def inverse(at: At, x: View, out: Held) -> Expr:
    """out = out₀ − out₀·(x·out₀ − I)"""
    *batch, i, k = at
    n = x.shape[-1]
    held = of(out, tuple(batch), n, n)
    return (held - held @ (of(x, tuple(batch), n, n) @ held - identity(n)))[i, k]


# Linear systems ----------------------------------------------------------------------------------------------


def fitting(sizes: Sizes, shapes: tuple[Shape, ...], left: bool) -> tuple[Shape, ...]:
    """The same leading axes for the matrix and the right-hand side."""
    a, b = shapes
    square(sizes, (a,))
    if not b or (len(b) == 1 and not left):
        raise ShapeError("the right-hand side is a vector or a matrix", found=(f"{len(b)} axes",))
    if len(b) == 1:
        return a, (*a[:-2], b[0])
    if left and len(b) == len(a) - 1 and stacked(sizes, a[:-1], b):
        return a, b
    batch = sizes.broadcast_shapes([a[:-2], b[:-2]])
    return (*batch, *a[-2:]), (*batch, *b[-2:])


def stacked(sizes: Sizes, rows: Shape, b: Shape) -> bool:
    """Whether ``b`` is a vector for each matrix of a stack, as torch reads it, and no matrix for all of them."""
    numbers = [(sizes.number(m), sizes.number(n)) for m, n in zip(rows, b, strict=True)]
    if any(m is None or m != n for m, n in numbers):
        return False
    for m, n in zip(rows, b, strict=True):
        sizes.unify(m, n)
    return True


def solution_shape(sizes: Sizes, shapes: tuple[Shape, ...], left: bool) -> Shape:
    """The shape of the right-hand side, whose columns (or rows) are as long as the matrix."""
    a, b = shapes
    sizes.unify(a[-1], b[-1] if len(b) == len(a) - 1 or not left else b[-2])
    return b


def solved(a: Any, b: Any, left: bool) -> Any:
    """By the inverse's own route, so that a singular matrix is refused alike."""
    a, b = np.asarray(a, float), np.asarray(b, float)
    inverted(a)
    if b.ndim == a.ndim - 1:
        return np.linalg.solve(a, b[..., None])[..., 0]
    if left:
        return np.linalg.solve(a, b)
    return np.swapaxes(np.linalg.solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)


def system(a: View, b: View, out: View, inv: View, left: bool = True) -> tuple[Equation, ...]:
    """a·out − b = 0, or out·a − b = 0"""
    axes = fresh_axes(b.shape, "i") if b.rank == a.rank - 1 == 1 else axes_of(b, *b.shape[-2:])
    return (Equation(axes, misfit(axes, a, b, out, left)),)


def misfit(at: At, a: View, b: View, out: View, left: bool) -> Expr:
    """Σ_j a[i,j]·out[j,k] − b[i,k]"""
    if b.rank == a.rank - 1:
        *batch, i = at
        j = fresh("j", a.shape[-1])
        return add_up(a[(*batch, i, j)] * out[(*batch, j)], [j]) - b[at]
    *batch, i, k = at
    j = fresh("j", a.shape[-1])
    if left:
        return add_up(a[(*batch, i, j)] * out[(*batch, j, k)], [j]) - b[at]
    return add_up(out[(*batch, i, j)] * a[(*batch, j, k)], [j]) - b[at]


@operation(
    says="the solution of a·out = b",
    numpy=solved, torch=lambda torch, a, b, left: torch.linalg.solve(a, b, left=left),
    shape=solution_shape, align=fitting, residual=system, beside={"inv": inverse_of}, role=Role.SOLVES,
    prepare=lambda shapes, left=True: {"left": bool(left)},
    spelled=("torch.linalg.solve", "np.linalg.solve"),
    domain={"a": matrices("regular")}, ranks={"a": (2,), "b": (2, 1)}, letters="ik",
    examples=(
        example("solve(a, b)", a=(3, 3), b=(3, 2)), example("solve(a, b)", a=(2, 2), b=(2,)),
        example("solve(a, b, left=False)", a=(3, 3), b=(2, 3)), example("solve(a, b)", a=(2, 2, 2), b=(2, 3)),
    ),
)  # fmt: skip
def solve(at: At, a: View, b: View, out: Held, inv: Held, *, left: bool = True) -> Expr:
    """out = out₀ − a₀⁻¹·(a·out₀ − b)"""
    n = a.shape[-1]
    m = fresh("m", n)
    if b.rank == a.rank - 1:
        *batch, i = at
        return out[at] - add_up(inv[(*batch, i, m)] * misfit((*batch, m), a, b, out, left), [m])
    *batch, i, k = at
    if left:
        return out[at] - add_up(inv[(*batch, i, m)] * misfit((*batch, m, k), a, b, out, left), [m])
    return out[at] - add_up(misfit((*batch, i, m), a, b, out, left) * inv[(*batch, m, k)], [m])


# Determinants ------------------------------------------------------------------------------------------------
#
# A row's cofactors do not contain that row, so Laplace's expansion det x = Σ_j x[i,j]·C[i,j] is linear in row i with
# C held still, and C = det x·x⁻ᵀ. Moving all rows adds what moving each of them does.


def laplace(at: At, x: View, inv: View) -> Expr:
    """Σ_i (Σ_j x[i,j]·x₀⁻¹[j,i] − 1), the change of every row's expansion as a share of the determinant"""
    n = x.shape[-1]
    i, j = fresh("i", n), fresh("j", n)
    return add_up(add_up(x[(*at, i, j)] * inv[(*at, j, i)], [j]), [i]) - n


def expansion(x: View, inv: View) -> tuple[tuple[Index, ...], Expr]:
    """Σ_j x[i,j]·x⁻¹[j,i] − 1, which is 0: the expansion along row i, divided by the determinant"""
    *batch, i = axes_of(x, x.shape[-1])
    j = fresh("j", x.shape[-1])
    return (*batch, i), add_up(x[(*batch, i, j)] * inv[(*batch, j, i)], [j]) - 1


def determinant_examples(text: str) -> tuple[Example, ...]:
    """A matrix, and a stack of them."""
    return (example(text.format("x"), x=(3, 3)), example(text.format("x"), x=(2, 2, 2)))


def whole_expansion(x: View, out: View, inv: View) -> tuple[Equation, ...]:
    """Σ_j x[i,j]·C[i,j] − out = 0"""
    axes, change = expansion(x, inv)
    return (Equation(axes, out[axes[:-1]] * change),)


@operation(
    says="the determinant: by Laplace's expansion along row i it is Σ_j x[i,j]·C[i,j], and the cofactors C = out·x⁻ᵀ "
    "of that row do not contain the row",
    numpy=lambda x: np.linalg.det(np.asarray(x, float)), torch=lambda torch, x: torch.linalg.det(x),
    shape=batch_of_square, beside={"inv": inverse_of}, residual=whole_expansion,
    spelled=("torch.det", "torch.linalg.det", "Tensor.det", "np.linalg.det"),
    domain={"x": matrices("regular")}, ranks={"x": (2,)}, letters="b", examples=determinant_examples("det({})"),
)  # fmt: skip
def det(at: At, x: View, out: Held, inv: Held) -> Expr:
    """out = out₀ + Σ_i (Σ_j x[i,j]·C[i,j] − out₀), C = out₀·x₀⁻ᵀ the cofactors"""
    return out[at] + out[at] * laplace(at, x, inv)


def log_determinant(
    name: str, says: str, numpy: Callable[[Any], Any], torch: Any, spelled: tuple[str, ...] = (), written: str = ""
) -> Op:
    """log det or log |det|: one equation, since the logarithm's derivative is the share by which det grows."""

    def index(at: At, x: View, out: Held, inv: Held) -> Expr:
        """out = out₀ + Σ_i (Σ_j x[i,j]·x₀⁻¹[j,i] − 1)"""
        return out[at] + laplace(at, x, inv)

    return operation(
        name=name, written=written, says=f"{says}: Laplace's expansion along a row, divided by the determinant",
        numpy=numpy, torch=torch, shape=batch_of_square, beside={"inv": inverse_of}, spelled=spelled,
        residual=lambda x, out, inv: (Equation(*expansion(x, inv)),),
        domain={"x": matrices("definite")}, ranks={"x": (2,)}, letters="b", examples=determinant_examples(written or name + "({})"),
    )(index)  # fmt: skip


def real_logarithm(x: Any) -> Any:
    """log det x, NaN where the determinant is negative."""
    sign, size = np.linalg.slogdet(np.asarray(x, float))
    return np.where(sign < 0, np.nan, size)


logdet = log_determinant(
    "logdet", "the logarithm of the determinant, NaN where that is negative", real_logarithm,
    lambda torch, x: torch.logdet(x), ("torch.logdet", "Tensor.logdet"),
)  # fmt: skip
logabsdet = log_determinant(
    "logabsdet", "the logarithm of the determinant's absolute value",
    lambda x: np.linalg.slogdet(np.asarray(x, float))[1], lambda torch, x: torch.linalg.slogdet(x)[1],
    written="slogdet({}).logabsdet",
)  # fmt: skip


# The pseudo-inverse ------------------------------------------------------------------------------------------


def of_full_rank(x: Any) -> Any:
    """NumPy's pseudo-inverse; where the rank is not full it jumps."""
    x = np.asarray(x, float)
    if min(x.shape[-2:]) and np.any(np.linalg.matrix_rank(x) < min(x.shape[-2:])):
        raise UndefinedError(
            "this matrix does not have full rank: its pseudo-inverse jumps there, so there is no derivative",
            hints=("a small multiple of the identity added to x.T @ x",),
        )
    return np.linalg.pinv(x)


def turned(sizes: Sizes, shapes: tuple[Shape, ...]) -> Shape:
    """As many rows as x has columns."""
    *batch, rows, columns = at_least(shapes[0], 2)
    return (*batch, columns, rows)


def penrose(x: View, out: View, left: View, right: View) -> tuple[Equation, ...]:
    """x·out·x = x, out·x·out = out, and both products are symmetric"""
    rows, columns = x.shape[-2:]
    equations: list[Equation] = []
    for m, n in ((rows, columns), (columns, rows), (rows, rows), (columns, columns)):
        *batch, i, k = axes_of(x, m, n)
        y, pseudo = of(x, tuple(batch), rows, columns), of(out, tuple(batch), columns, rows)
        parts = (y @ pseudo @ y - y, pseudo @ y @ pseudo - pseudo, skewness(y @ pseudo), skewness(pseudo @ y))
        equations.append(Equation((*batch, i, k), parts[len(equations)][i, k]))
    return tuple(equations)


def skewness(product: Matrix) -> Matrix:
    """What is 0 for a symmetric matrix."""
    return product - product.T


@operation(
    says="the pseudo-inverse, which Penrose's four equations determine",
    numpy=of_full_rank, torch=lambda torch, x: torch.linalg.pinv(x),
    shape=turned, residual=penrose,
    beside={"left": lambda call, x, out: ("matmul", (x, out), {}), "right": lambda call, x, out: ("matmul", (out, x), {})},
    domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="ik", examples=(example("pinv(x)", x=(3, 2)), example("pinv(x)", x=(2, 2, 3))),
    arrays="np.linalg.pinv",
)  # fmt: skip
def pinv(at: At, x: View, out: Held, left: Held, right: Held) -> Expr:
    """out = 2·out₀ − out₀·x·out₀ + out₀·out₀ᵀ·xᵀ·(I − x₀·out₀) + (I − out₀·x₀)·xᵀ·out₀ᵀ·out₀"""
    *batch, i, k = at
    place = tuple(batch)
    rows, columns = x.shape[-2:]
    m, y = of(x, place, rows, columns), of(out, place, columns, rows)
    beyond = identity(rows) - of(left, place, rows, rows)
    outside = identity(columns) - of(right, place, columns, columns)
    return (y + (y - y @ m @ y) + y @ y.T @ m.T @ beyond + outside @ m.T @ y.T @ y)[i, k]
