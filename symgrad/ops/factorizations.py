"""Factors that equations determine together: Cholesky, QR and LU, eigenvalues and singular values with their vectors.

A matrix that is read as symmetric enters as (x + xᵀ)/2, so that the gradient is symmetric, as torch's. LU exchanges no
rows: which rows are exchanged before is locally constant, a product with a matrix of zeros and ones. A vector's sign
is nobody's choice, so symgrad makes one; where two values are equal, which vectors belong to them is open, and so the
derivative does not exist: that is said.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from symgrad.entries.equations import op
from symgrad.entries.operands import Domain, require_rank
from symgrad.entries.spec import no_alignment
from symgrad.errors import DomainError, ShapeError, UndefinedError
from symgrad.ops.decompositions import solved_op, square_shape
from symgrad.program import Role
from symgrad.shapes import Shape, Size, Sizes

SYMMETRIC = "s[i,j] = (x[…,i,j] + x[…,j,i])/2"
"""x where x is symmetric: nothing flows to the rest."""
ASYMMETRY = 1e-5
"""How far from symmetric a matrix may be and still be taken for it: differences need to move one entry a little."""


def checked_symmetric(x: Any) -> Any:
    """(x + xᵀ)/2 of a matrix that is symmetric but for rounding; refuses any other."""
    x = np.asarray(x, float)
    turned = np.swapaxes(x, -1, -2)
    if x.size and np.max(np.abs(x - turned)) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this matrix is not symmetric", hints=("(x + x.T) / 2 is",))
    return (x + turned) / 2


APART = 1e-10
"""Values nearer to each other than this share of the largest count as equal."""


def require_distinct(values: Any, what: str) -> Any:
    """``values`` if no two along the last axis are equal; what belongs to equal ones has no derivative."""
    values = np.asarray(values, float)
    if values.shape[-1] > 1 and values.size:
        gaps = np.abs(np.diff(np.sort(values, axis=-1), axis=-1))
        largest = np.max(np.abs(values), axis=-1, keepdims=True)
        if np.any(gaps <= APART * np.maximum(largest, np.finfo(float).tiny)):
            raise UndefinedError(
                f"two {what} are equal: their vectors are not unique, so there is no derivative",
                hints=("functions of all values alike have one: eigvalsh, svdvals, trace, det, matrix_norm",),
            )
    return values


LEADING = 0.37
"""An entry leads its column when it is at least this share of the largest; no simple fraction, so ties are rare."""


def column_signs(columns: Any) -> Any:
    """The sign for each column that makes its first leading entry positive.

    An eigenvector's sign is nobody's choice: LAPACK's differs between builds, so neither NumPy's nor torch's is taken.
    """
    columns = np.asarray(columns)
    if not columns.size:
        return np.ones((*columns.shape[:-2], 1, columns.shape[-1]))
    sizes = np.abs(columns)
    first = np.argmax(sizes >= LEADING * sizes.max(axis=-2, keepdims=True), axis=-2)
    return np.where(np.take_along_axis(columns, np.expand_dims(first, -2), axis=-2) < 0, -1.0, 1.0)


# Cholesky ----------------------------------------------------------------------------------------------------


def lower_factor(x: Any) -> Any:
    """By NumPy; a matrix that is not positive definite is refused."""
    try:
        return np.linalg.cholesky(checked_symmetric(x))
    except np.linalg.LinAlgError:
        raise DomainError(
            "this matrix is not positive definite", hints=("a positive definite one: x @ x.T + eye(n)",)
        ) from None


solved_op("cholesky(x)", f"Σ_j out[…,i,j]·out[…,k,j] = s[i,k] where {SYMMETRIC}; [k > i]·out[…,i,k] = 0",
       "the lower triangular factor of a symmetric x = out·outᵀ, with a positive diagonal",
       step="out[…,i,k] = out[…,i,k] + Σ_j out[…,i,j]·f[j,k]·([k − j < 0] + δ(j, k)/2)"
            f" where f[a,b] = (Σ_{{p,q}} inv[…,a,p]·s[p,q]·inv[…,b,q]) − δ(a, b), {SYMMETRIC}",
       values=lower_factor, torch=lambda torch, x: torch.linalg.cholesky((x + x.mT) / 2), shape=square_shape, kind="definite",
       auxiliaries={"inv": lambda call, x, out: ("inverse", (out,), {})}, arrays="np.linalg.cholesky",
       examples=("cholesky(x) with x:3x3", "cholesky(x) with x:2x2x2"))  # fmt: skip


def triangular(x: Any) -> Any:
    """x, whose other triangle has to be 0 but for rounding."""
    x = np.asarray(x, float)
    if x.size and np.max(np.abs(np.triu(x, 1))) > ASYMMETRY * max(1.0, float(np.max(np.abs(x)))):
        raise DomainError("this factor is not lower triangular", hints=("x.tril()", "upper=True, for an upper one"))
    return x


op("triangular_factor(x)", "out[…,i,j] = x[…,i,j]",
   "x itself, a lower triangular matrix (others are refused): the entries above the diagonal are 0, and have a gradient all the same, as in torch", (),
   template="{}", forward=triangular, torch=lambda torch, x: x.clone(), shape=square_shape, domain={"x": Domain(matrix="lower")},
   ranks={"x": (2,)}, examples=("triangular_factor(x) with x:3x3",))  # fmt: skip

# QR ----------------------------------------------------------------------------------------------------------


def tall(sizes: Sizes, x: Shape) -> tuple[Size, Size]:
    """Rows and columns, no fewer rows; sizes that nothing fixes are taken to be the same."""
    rows, columns = (sizes.number(size) for size in require_rank(x, 2)[-2:])
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
solved_op("qr_q(x)", "Σ_i out[…,i,a]·out[…,i,b] = δ(a, b); [a > b]·R[a,b] = 0 where R[a,b] = Σ_i out[…,i,a]·x[…,i,b]; "
       "x[…,i,k] = Σ_a out[…,i,a]·R[a,k] where R[a,b] = Σ_j out[…,j,a]·x[…,j,b]",
       "the factor of x = out·R whose columns have length 1 and stand at right angles, R upper triangular",
       step="out[…,i,k] = out[…,i,k] + m[i,k] − (Σ_a out[…,i,a]·c[a,k])"
            f" + Σ_a out[…,i,a]·(c[a,k]·[k − a < 0] − c[k,a]·[a − k < 0]) where c[a,b] = Σ_q out[…,q,a]·m[q,b], {MOVED}",
       values=lambda x: factors_of(x)[0], torch=lambda torch, x: torch.linalg.qr(x)[0], template="qr({}).Q",
       shape=lambda sizes, shapes: (*shapes[0][:-2], *tall(sizes, shapes[0])), kind="full",
       auxiliaries={"inv": lambda call, x, out: ("inverse", (call("matmul", call("mT", out), x),), {})},
       examples=("qr(x).Q with x:3x2", "qr(x).Q with x:2x2x2"))  # fmt: skip
solved_op("qr_r(x)", "Σ_j out[…,j,i]·out[…,j,k] = Σ_j x[…,j,i]·x[…,j,k]; [i > k]·out[…,i,k] = 0",
       "the upper triangular factor of x = Q·out, where Qᵀ·Q = I; the signs of its rows are those of Householder's reflections",
       step="out[…,i,k] = out[…,i,k] + Σ_a (c[i,a] − c[i,a]·[a − i < 0] + c[a,i]·[i − a < 0])·out[…,a,k]"
            f" where c[a,b] = (Σ_r q[…,r,a]·m[r,b]) − δ(a, b), {MOVED}",
       values=lambda x: factors_of(x)[1], torch=lambda torch, x: torch.linalg.qr(x)[1], template="qr({}).R",
       shape=lambda sizes, shapes: (*shapes[0][:-2], *[tall(sizes, shapes[0])[1]] * 2), kind="full",
       auxiliaries={"inv": lambda call, x, out: ("inverse", (out,), {}), "q": lambda call, x, out: ("matmul", (x, call("inverse", out)), {})},
       examples=("qr(x).R with x:3x2", "qr(x).R with x:2x2x2"))  # fmt: skip

# Elimination --------------------------------------------------------------------------------------


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
    """The same by torch, whose ``lu_factor`` exchanges rows: the first row and column, then what is left of the rest."""
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
solved_op("lu_factors(x)", f"Σ_j L[i,j]·U[j,k] = x[…,i,k] where {LOWER}, {UPPER}",
       "the triangles of x = L·U in one matrix, L under the diagonal and with ones on it, U on it and over it; no rows "
       "are exchanged",
       step="out[…,i,k] = out[…,i,k] + (Σ_j L[i,j]·[k − j < 0]·f[j,k]) + Σ_j (1 − [j − i < 0])·f[i,j]·U[j,k]"
            f" where f[a,b] = (Σ_{{p,q}} left[…,a,p]·x[…,p,q]·right[…,q,b]) − δ(a, b), {LOWER}, {UPPER}",
       values=eliminated, torch=eliminated_by_torch, shape=square_shape, kind="dominant",
       auxiliaries={"left": inverse_of_lower, "right": lambda call, x, out: ("inverse", (call("triu", out),), {})},
       examples=("lu_factors(x) with x:3x3", "lu_factors(x) with x:2x2x2"))  # fmt: skip

# Eigenvalues and singular values ------------------------------------------------------------------


def column_sign_constants(torch: Any, columns: Any) -> Any:
    """`column_signs` of a tensor: constants."""
    return torch.tensor(column_signs(columns.detach().numpy()))


# Eigenvalues -------------------------------------------------------------------------------------------------


def eigen(x: Any, tied: bool = True) -> tuple[Any, Any]:
    """Eigenvalues in ascending order and eigenvectors as columns, each with its first leading entry positive.

    Equal values are refused unless ``tied``: to them belong no vectors in particular.
    """
    values, vectors = np.linalg.eigh(checked_symmetric(x))
    return values if tied else require_distinct(values, "eigenvalues"), vectors * column_signs(vectors)


def torch_eigenvectors(torch: Any, x: Any, tied: bool = False) -> Any:
    """torch's, with the same signs."""
    vectors = torch.linalg.eigh((x + x.mT) / 2)[1]
    return vectors * column_sign_constants(torch, vectors)


op("eigvalsh(x)", f"out[…,k] = Σ_{{i,j}} V[…,i,k]·s[i,j]·V[…,j,k] where {SYMMETRIC}, V: the eigenvectors as columns",
   "the eigenvalues of a symmetric x, in ascending order; they stand on the diagonal of Vᵀ·x·V, and a small turn of "
   "the eigenvectors V does not change them", (), forward=lambda x: eigen(x)[0],
   torch=lambda torch, x: torch.linalg.eigvalsh((x + x.mT) / 2), shape=lambda sizes, shapes: square_shape(sizes, shapes)[:-1],
   align=no_alignment, smooth=False, auxiliaries={"V": lambda call, x, out: ("eigenvectors", (x,), {"tied": True})}, domain={"x": Domain(matrix="symmetric")}, ranks={"x": (2,)}, examples=("eigvalsh(x) with x:3x3", "eigvalsh(x) with x:2x2x2"))  # fmt: skip

INSIDE = f"P[a,b] = Σ_{{p,q}} out[…,p,a]·s[p,q]·out[…,q,b], {SYMMETRIC}"
solved_op("eigenvectors(x, tied=False)", f"[i ≠ k]·P[i,k] = 0 where {INSIDE}; Σ_p out[…,p,i]·out[…,p,k] = δ(i, k)",
       "the eigenvectors of a symmetric x as columns, by ascending eigenvalues, of which no two are equal unless tied; the sign of each such that its first large entry (0.37 of the largest at least) is positive",
       step=f"out[…,i,k] = out[…,i,k] + Σ_m out[…,i,m]·P[m,k]·[m ≠ k]/(w[…,k] − w[…,m]) where {INSIDE}",
       values=lambda x, tied: eigen(x, tied)[1], torch=torch_eigenvectors, shape=square_shape, kind="symmetric", role=Role.TURNS, template="eigh({}).eigenvectors",
       auxiliaries={"w": lambda call, x, out: ("sum", (call("mul", out, call("matmul", x, out)),), {"dim": -2})},
       examples=("eigh(x).eigenvectors with x:3x3", "eigh(x).eigenvectors with x:2x2x2"))  # fmt: skip

# Singular values ---------------------------------------------------------------------------------------------


def thin(sizes: Sizes, x: Shape) -> Size:
    """The number of singular values; of sizes that nothing fixes, one."""
    return sizes.lesser(*require_rank(x, 2)[-2:])


def numpy_svd(x: Any, tied: bool = True) -> tuple[Any, Any, Any]:
    """U, S and Vh; each column of U has its first leading entry positive. Equal values are refused unless ``tied``."""
    u, s, vh = np.linalg.svd(np.asarray(x, float), full_matrices=False)
    chosen = column_signs(u)
    return u * chosen, s if tied else require_distinct(s, "singular values"), vh * np.swapaxes(chosen, -1, -2)


def nonzero(x: Any, tied: bool = False) -> tuple[Any, Any, Any]:
    """`singular`, where no singular value is 0: to 0 belongs no vector in particular."""
    u, s, vh = numpy_svd(x, tied)
    if s.size and np.any(s <= 1e-12 * np.max(s)):
        raise UndefinedError("a singular value is 0, so its vectors have no derivative")
    return u, s, vh


def torch_svd(torch: Any, x: Any) -> tuple[Any, Any, Any]:
    """torch's, with the same signs."""
    u, s, vh = torch.linalg.svd(x, full_matrices=False)
    chosen = column_sign_constants(torch, u)
    return u * chosen, s, vh * chosen.mT


op("svdvals(x)", "out[…,k] = Σ_{i,j} U[…,i,k]·x[…,i,j]·Vh[…,k,j], U: the left singular vectors as columns, Vh: the right ones as rows",
   "the singular values of x, in descending order; they stand on the diagonal of Uᵀ·x·Vhᵀ, and a small turn of the "
   "singular vectors does not change them", ("torch.linalg.svdvals",), forward=lambda x: numpy_svd(x)[1],
   shape=lambda sizes, shapes: (*shapes[0][:-2], thin(sizes, shapes[0])), align=no_alignment, smooth=False,
   auxiliaries={"U": lambda call, x, out: ("svd_u", (x,), {"tied": True}), "Vh": lambda call, x, out: ("svd_vh", (x,), {"tied": True})},
   ranks={"x": (2,)}, examples=("svdvals(x) with x:3x2", "svdvals(x) with x:2x2x3"))  # fmt: skip


def squares(call: Any, x: Any, dim: int, keepdim: bool) -> Any:
    """Σ x² along ``dim``."""
    return call("sum", call("square", x), dim=dim, keepdim=keepdim)


def unit(call: Any, x: Any, dim: int) -> tuple[str, tuple[Any, ...], dict[str, Any]]:
    """The vectors along ``dim``, each divided by its length: diag(s)·Vh without s."""
    return "div", (x, call("sqrt", squares(call, x, dim, True))), {}


TURN = "[a ≠ k]·(P[a,k]·s[…,k] + P[k,a]·s[…,a])/(s[…,k]² − s[…,a]²)"
GRAM = "G[a,b] = Σ_{p,q,r} out[…,p,a]·x[…,p,q]·x[…,r,q]·out[…,r,b]"
TURNED = "G[a,b] = Σ_{p,q,r} out[…,a,p]·x[…,q,p]·x[…,q,r]·out[…,b,r]"
solved_op("svd_u(x, tied=False)", f"[i ≠ k]·G[i,k] = 0 where {GRAM}; Σ_p out[…,p,i]·out[…,p,k] = δ(i, k); "
       f"Σ_{{j,l}} x[…,i,j]·x[…,l,j]·out[…,l,k] = Σ_c out[…,i,c]·G[c,k] where {GRAM}",
       "the left singular vectors of x as columns, by descending singular values, of which no two are equal unless tied; the sign of each such that its first large entry (0.37 of the largest at least) is positive",
       step=f"out[…,i,k] = out[…,i,k] + o[i,k] − (Σ_a out[…,i,a]·Σ_l out[…,l,a]·o[l,k]) + Σ_a out[…,i,a]·{TURN}"
            " where o[a,b] = Σ_j x[…,a,j]·Vh[…,b,j]/s[…,b], P[a,b] = Σ_{p,q} out[…,p,a]·x[…,p,q]·Vh[…,b,q]",
       values=lambda x, tied: nonzero(x, tied)[0], torch=lambda torch, x, tied: torch_svd(torch, x)[0], kind="full", role=Role.TURNS,
       shape=lambda sizes, shapes, tied: (*shapes[0][:-1], thin(sizes, shapes[0])), template="svd({}, full_matrices=False).U",
       auxiliaries={"s": lambda call, x, out: ("sqrt", (squares(call, call("matmul", call("mT", out), x), -1, False),), {}),
               "Vh": lambda call, x, out: unit(call, call("matmul", call("mT", out), x), -1)},
       examples=("svd(x, full_matrices=False).U with x:3x2", "svd(x, full_matrices=False).U with x:2x2x3"))  # fmt: skip
solved_op("svd_vh(x, tied=False)", f"[i ≠ k]·G[i,k] = 0 where {TURNED}; Σ_p out[…,i,p]·out[…,k,p] = δ(i, k); "
       f"Σ_{{j,l}} x[…,j,i]·x[…,j,l]·out[…,k,l] = Σ_c out[…,c,i]·G[c,k] where {TURNED}",
       "the right singular vectors of x as rows, by descending singular values, of which no two are equal unless tied, with signs that go with those of the left ones",
       step=f"out[…,k,i] = out[…,k,i] + o[k,i] − (Σ_a out[…,a,i]·Σ_l out[…,a,l]·o[k,l]) + Σ_a out[…,a,i]·{TURN}"
            " where o[a,b] = Σ_j x[…,j,b]·U[…,j,a]/s[…,a], P[a,b] = Σ_{p,q} out[…,a,p]·x[…,q,p]·U[…,q,b]",
       values=lambda x, tied: nonzero(x, tied)[2], torch=lambda torch, x, tied: torch_svd(torch, x)[2], kind="full", role=Role.TURNS,
       shape=lambda sizes, shapes, tied: (*shapes[0][:-2], thin(sizes, shapes[0]), shapes[0][-1]), template="svd({}, full_matrices=False).Vh",
       auxiliaries={"s": lambda call, x, out: ("sqrt", (squares(call, call("matmul", x, call("mT", out)), -2, False),), {}),
               "U": lambda call, x, out: unit(call, call("matmul", x, call("mT", out)), -2)}, letters="ik",
       examples=("svd(x, full_matrices=False).Vh with x:3x2", "svd(x, full_matrices=False).Vh with x:2x2x3"))  # fmt: skip
