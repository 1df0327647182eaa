"""Eigenvalues and singular values, and the vectors that belong to them.

As in `symgrad.ops.solved.factorizations` one Newton step from what was found is differentiated. A vector's sign is nobody's
choice, so symgrad makes one; where two values are equal, which vectors belong to them is open, and so the derivative
does not exist: that is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sympy as sp

from symgrad.errors import UndefinedError
from symgrad.indexing import Equation, Index, add_up, delta, fresh
from symgrad.indexing.brackets import bracket
from symgrad.indexing.symbols import Expr
from symgrad.ops.domain import matrices
from symgrad.ops.moving.arranging import at_least
from symgrad.ops.solved.matrices import (
    Matrix,
    apart,
    axes_of,
    checked_symmetric,
    column_signs,
    identity,
    of,
    square,
)
from symgrad.ops.spec import At, Held, View, example, operation
from symgrad.shapes import Shape, Size, Sizes


def signs(torch: Any, columns: Any) -> Any:
    """`column_signs` of a tensor: constants."""
    return torch.tensor(column_signs(columns.detach().numpy()))


# Eigenvalues -------------------------------------------------------------------------------------------------


def eigen(x: Any, tied: bool = True) -> tuple[Any, Any]:
    """Eigenvalues in ascending order and eigenvectors as columns, each with its first leading entry positive.

    Equal values are refused unless ``tied``: to them belong no vectors in particular.
    """
    values, vectors = np.linalg.eigh(checked_symmetric(x))
    return values if tied else apart(values, "eigenvalues"), vectors * column_signs(vectors)


def torch_eigenvectors(torch: Any, x: Any, tied: bool = False) -> Any:
    """torch's, with the same signs."""
    vectors = torch.linalg.eigh((x + x.mT) / 2)[1]
    return vectors * signs(torch, vectors)


@operation(
    says="the eigenvalues of a symmetric x, in ascending order; they stand on the diagonal of Vᵀ·x·V, and a small turn of "
    "the eigenvectors V does not change them",
    numpy=lambda x: eigen(x)[0], torch=lambda torch, x: torch.linalg.eigvalsh((x + x.mT) / 2),
    shape=lambda sizes, shapes: square(sizes, shapes)[:-1],
    beside={"V": lambda call, x, out: ("eigenvectors", (x,), {"tied": True})},
    domain={"x": matrices("symmetric")}, ranks={"x": (2,)}, letters="k",
    examples=(example("eigvalsh(x)", x=(3, 3)), example("eigvalsh(x)", x=(2, 2, 2))),
)  # fmt: skip
def eigvalsh(at: At, x: View, V: Held) -> Expr:  # as everybody calls it
    """out[k] = Σ_ij V[i,k]·x[i,j]·V[j,k], V the eigenvectors, held still"""
    *batch, k = at
    n = x.shape[-1]
    i, j = fresh("i", n), fresh("j", n)
    inner = of(x, tuple(batch), n, n).symmetric[i, j]
    return add_up(V[(*batch, i, k)] * inner * V[(*batch, j, k)], [i, j])


def diagonalised(x: View, out: View, w: View, tied: bool = False) -> tuple[Equation, ...]:
    """outᵀ·x·out is 0 off the diagonal, and outᵀ·out − I = 0"""
    n = x.shape[-1]
    *batch, i, k = axes_of(x, n, n)
    *other, p, q = axes_of(x, n, n)
    vectors = of(out, tuple(batch), n, n)
    inside = vectors.T @ of(x, tuple(batch), n, n).symmetric @ vectors
    others = of(out, tuple(other), n, n)
    return (
        Equation((*batch, i, k), inside.weighed(lambda a, b: 1 - delta(a, b))[i, k]),
        Equation((*other, p, q), (others.T @ others - identity(n))[p, q]),
    )


@operation(
    says="the eigenvectors of a symmetric x as columns, the sign of each such that its first leading entry is positive",
    written="eigh({}).eigenvectors", numpy=lambda x, tied=False: eigen(x, tied)[1], torch=torch_eigenvectors, shape=square, residual=diagonalised,
    beside={"w": lambda call, x, out, tied=False: ("sum", (call("mul", out, call("matmul", x, out)),), {"dim": -2})},
    domain={"x": matrices("symmetric")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("eigh(x).eigenvectors", x=(3, 3)), example("eigh(x).eigenvectors", x=(2, 2, 2))),
)  # fmt: skip
def eigenvectors(at: At, x: View, out: Held, w: Held, tied: bool = False) -> Expr:
    """out = out₀ + out₀·E, E[m,k] = [m ≠ k]·(out₀ᵀ·x·out₀)[m,k] / (w₀[k] − w₀[m]), w₀ the eigenvalues"""
    *batch, i, k = at
    n = x.shape[-1]
    vectors = of(out, tuple(batch), n, n)
    inside = vectors.T @ of(x, tuple(batch), n, n).symmetric @ vectors
    return (vectors + vectors @ inside.weighed(lambda a, b: gap(w, tuple(batch), a, b)))[i, k]


def gap(values: View, batch: At, m: Index, k: Index, power: int = 1) -> Expr:
    """1 / (w[k] − w[m]), and 0 on the diagonal"""
    if m.size == 1:
        return sp.S.Zero
    differs = bracket(sp.Ne(m, k, evaluate=False))
    return differs / (values[(*batch, k)] ** power - values[(*batch, m)] ** power)


# Singular values ---------------------------------------------------------------------------------------------


def thin(sizes: Sizes, x: Shape) -> Size:
    """The number of singular values; of sizes that nothing fixes, one."""
    return sizes.lesser(*at_least(x, 2)[-2:])


def singular(x: Any, tied: bool = True) -> tuple[Any, Any, Any]:
    """U, S and Vh; each column of U has its first leading entry positive. Equal values are refused unless ``tied``."""
    u, s, vh = np.linalg.svd(np.asarray(x, float), full_matrices=False)
    chosen = column_signs(u)
    return u * chosen, s if tied else apart(s, "singular values"), vh * np.swapaxes(chosen, -1, -2)


def nonzero(x: Any, tied: bool = False) -> tuple[Any, Any, Any]:
    """`singular`, where no singular value is 0: to 0 belongs no vector in particular."""
    u, s, vh = singular(x, tied)
    if s.size and np.any(s <= 1e-12 * np.max(s)):
        raise UndefinedError("a singular value is 0, so its vectors have no derivative")
    return u, s, vh


def torch_svd(torch: Any, x: Any) -> tuple[Any, Any, Any]:
    """torch's, with the same signs."""
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    chosen = signs(torch, u)
    return u * chosen, s, vh * chosen.mT


@operation(
    says="the singular values of x, in descending order; they stand on the diagonal of Uᵀ·x·Vhᵀ, and a small turn of the "
    "singular vectors does not change them",
    numpy=lambda x: singular(x)[1], torch=lambda torch, x: torch.linalg.svdvals(x),
    shape=lambda sizes, shapes: (*shapes[0][:-2], thin(sizes, shapes[0])),
    beside={"U": lambda call, x, out: ("svd_u", (x,), {"tied": True}),
            "Vh": lambda call, x, out: ("svd_vh", (x,), {"tied": True})},
    spelled=("torch.linalg.svdvals",), domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="k",
    examples=(example("svdvals(x)", x=(3, 2)), example("svdvals(x)", x=(2, 2, 3))),
)  # fmt: skip
def svdvals(at: At, x: View, U: Held, Vh: Held) -> Expr:  # as everybody calls them
    """out[k] = Σ_ij U[i,k]·x[i,j]·Vh[k,j], U and Vh held still"""
    *batch, k = at
    i, j = fresh("i", x.shape[-2]), fresh("j", x.shape[-1])
    return add_up(U[(*batch, i, k)] * x[(*batch, i, j)] * Vh[(*batch, k, j)], [i, j])


def squares(call: Any, x: Any, dim: int, keepdim: bool) -> Any:
    """Σ x² along ``dim``."""
    return call("sum", call("square", x), dim=dim, keepdim=keepdim)


def unit(call: Any, x: Any, dim: int) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The vectors along ``dim``, each divided by its length: diag(s)·Vh without s."""
    return "div", (x, call("sqrt", squares(call, x, dim, True))), {}


def left_vectors(m: Matrix, u: Matrix, v: Matrix, s: View, batch: At) -> Matrix:
    """u + (I − u·uᵀ)·m·v/s + u·Ω, Ω[a,b] = (P[a,b]·s[b] + s[a]·P[b,a]) / (s[b]² − s[a]²) with P = uᵀ·m·v"""

    def scaled(matrix: Matrix, power: int) -> Matrix:
        return matrix.weighed(lambda a, b: s[(*batch, b)] ** power)

    inside = scaled(u.T @ m @ v, 1)
    turning = (inside + inside.T).weighed(lambda a, b: gap(s, batch, a, b, power=2))
    outside = scaled(m @ v, -1)
    return u + (outside - u @ (u.T @ outside)) + u @ turning


def singular_equations(m: Matrix, u: Matrix, rows: Size) -> tuple[Matrix, ...]:
    """uᵀ·m·mᵀ·u is 0 off the diagonal, uᵀ·u − I = 0, and u spans what m does: m·mᵀ·u − u·(uᵀ·m·mᵀ·u) = 0"""
    inside = u.T @ (m @ (m.T @ u))
    off = inside.weighed(lambda a, b: 1 - delta(a, b))
    return off, u.T @ u - identity(u.columns), m @ (m.T @ u) - u @ inside


def equations_of(x: View, out: View, turned: bool) -> tuple[Equation, ...]:
    """`singular_equations` of x, or of its transpose."""
    rows, columns = x.shape[-2:]
    count = out.shape[-2] if turned else out.shape[-1]
    long = columns if turned else rows
    found: list[Equation] = []
    for size in (count, count, long):
        *batch, i, k = axes_of(x, size, count)
        m, u = of(x, tuple(batch), rows, columns), of(out, tuple(batch), *out.shape[-2:])
        parts = singular_equations(m.T, u.T, columns) if turned else singular_equations(m, u, rows)
        found.append(Equation((*batch, i, k), parts[len(found)][i, k]))
    return tuple(found)


@operation(
    name="svd_u", written="svd({}, full_matrices=False).U",
    says="the left singular vectors of x as columns, the sign of each such that its first leading entry is positive",
    numpy=lambda x, tied=False: nonzero(x, tied)[0], torch=lambda torch, x, tied=False: torch_svd(torch, x)[0],
    shape=lambda sizes, shapes, tied=False: (*shapes[0][:-1], thin(sizes, shapes[0])),
    residual=lambda x, out, s, Vh, tied=False: equations_of(x, out, turned=False),
    beside={"s": lambda call, x, out, tied=False: ("sqrt", (squares(call, call("matmul", call("mT", out), x), -1, False),), {}),
            "Vh": lambda call, x, out, tied=False: unit(call, call("matmul", call("mT", out), x), -1)},
    domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("svd(x, full_matrices=False).U", x=(3, 2)), example("svd(x, full_matrices=False).U", x=(2, 2, 3))),
)  # fmt: skip
def svd_u(at: At, x: View, out: Held, s: Held, Vh: Held, tied: bool = False) -> Expr:  # as everybody calls it
    """out = out₀ + (I − out₀·out₀ᵀ)·x·V₀/s₀ + out₀·Ω, Ω[a,b] = (P[a,b]·s₀[b] + s₀[a]·P[b,a]) / (s₀[b]² − s₀[a]²), P = out₀ᵀ·x·V₀"""
    *batch, i, k = at
    place, (rows, columns), count = tuple(batch), x.shape[-2:], k.size
    u, v = of(out, place, rows, count), of(Vh, place, count, columns).T
    return left_vectors(of(x, place, rows, columns), u, v, s, place)[i, k]


@operation(
    name="svd_vh", written="svd({}, full_matrices=False).Vh",
    says="the right singular vectors of x as rows, with signs that go with those of the left ones",
    numpy=lambda x, tied=False: nonzero(x, tied)[2], torch=lambda torch, x, tied=False: torch_svd(torch, x)[2],
    shape=lambda sizes, shapes, tied=False: (*shapes[0][:-2], thin(sizes, shapes[0]), shapes[0][-1]),
    residual=lambda x, out, s, U, tied=False: equations_of(x, out, turned=True),
    beside={"s": lambda call, x, out, tied=False: ("sqrt", (squares(call, call("matmul", x, call("mT", out)), -2, False),), {}),
            "U": lambda call, x, out, tied=False: unit(call, call("matmul", x, call("mT", out)), -2)},
    domain={"x": matrices("full")}, ranks={"x": (2,)}, letters="ik",
    examples=(example("svd(x, full_matrices=False).Vh", x=(3, 2)), example("svd(x, full_matrices=False).Vh", x=(2, 2, 3))),
)  # fmt: skip
def svd_vh(at: At, x: View, out: Held, s: Held, U: Held, tied: bool = False) -> Expr:  # as everybody calls it
    """outᵀ = out₀ᵀ + (I − out₀ᵀ·out₀)·xᵀ·U₀/s₀ + out₀ᵀ·Ω, as for the left vectors of xᵀ"""
    *batch, i, k = at
    place, (rows, columns), count = tuple(batch), x.shape[-2:], i.size
    u, v = of(U, place, rows, count), of(out, place, count, columns).T
    return left_vectors(of(x, place, rows, columns).T, v, u, s, place)[k, i]
