"""Definitions of complex matrix functions by real ones: each entry a + bi becomes a block [[a, −b], [b, a]].

Sums, products, adjoints, inverses and triangles of block matrices are those of the complex matrices, so inverses,
solutions, exponentials, Cholesky and QR factors are read from the real ones. LU needs a correction of the diagonal
blocks. Input and output are those of `symgrad.tracing.lift.complex_definitions`.
"""

from __future__ import annotations

from typing import Any

import torch

from symgrad.ops.factorizations import eliminated
from symgrad.tracing.lift import Refused
from symgrad.tracing.lift.inside import DEFINITIONS, Definition, Expansion


def complex_to_blocks(z: Any) -> Any:
    """Return the real block matrix, with twice as many rows and columns."""
    rows = [torch.stack([z.real, -z.imag], -1), torch.stack([z.imag, z.real], -1)]
    return torch.stack(rows, -3).reshape(*z.shape[:-2], 2 * z.shape[-2], 2 * z.shape[-1])


def blocks_to_complex(real: Any) -> Any:
    """Return the complex matrix of a block matrix; the inverse of `complex_to_blocks`."""
    first = real.reshape(*real.shape[:-2], real.shape[-2] // 2, 2, real.shape[-1] // 2, 2).select(-1, 0)
    return torch.complex(first.select(-2, 0), first.select(-2, 1))


def through_blocks(p: Expansion, function: Any, z: Any) -> Any:
    """Apply a function of real matrices to the blocks, and return a complex matrix."""
    return blocks_to_complex(p(function, complex_to_blocks(z)))


def with_integer(function: Any) -> Any:
    """Return torch's ``…_ex`` form of a function, which returns the result and an integer."""
    return lambda p, z, *rest, check_errors=False, **named: (
        function(p, z, *rest, **named), torch.zeros(z.shape[:-2], dtype=torch.int32)
    )  # fmt: skip


def pinv(p: Expansion, z: Any, *_: Any, **__: Any) -> Any:
    """Define the pseudo-inverse at full rank, or a constant 0 if all singular values are below the cutoff."""
    return through_blocks(p, torch.linalg.pinv, z) if p.value.any() else z.mH * 0


# Linear systems ----------------------------------------------------------------------------------------------


def solve(p: Expansion, a: Any, b: Any, *, left: bool = True) -> Any:
    """Define solve on blocks; the parts of each entry of b are two rows."""
    if not a.is_complex():
        return p(torch.linalg.solve, a, b, left=left)
    if left and b.dim() == a.dim() - 1 and b.shape == a.shape[:-1]:
        return solve(p, a, b.unsqueeze(-1)).squeeze(-1)
    if not left:
        return solve(p, a.mT, b.mT).mT
    rows = torch.stack([b.real, b.imag], -2).reshape(*b.shape[:-2], 2 * b.shape[-2], b.shape[-1])
    found = p(torch.linalg.solve, complex_to_blocks(a), rows)
    parts = found.reshape(*found.shape[:-2], found.shape[-2] // 2, 2, found.shape[-1])
    return torch.complex(parts.select(-2, 0), parts.select(-2, 1))


def by_module(linalg: Definition, older: Definition) -> Definition:
    """Choose between torch.linalg's function and torch's older one of the same name, by the call's spelling."""
    return lambda p, *given, **spoken: (linalg if "linalg" in p.call.spelling else older)(p, *given, **spoken)


def read_triangle(a: Any, upper: bool, ones: bool, transposed: bool = False) -> Any:
    """Return the triangle of a matrix that a solver reads."""
    part = torch.triu(a, int(ones)) if upper else torch.tril(a, -int(ones))
    part = part + torch.eye(a.shape[-2], dtype=a.dtype) if ones else part
    return part.mT if transposed else part


def gram_of_factor(factor: Any, upper: bool) -> Any:
    """Return L·Lᴴ, where L is the factor or, if ``upper``, its adjoint."""
    lower = factor.mH if upper else factor
    return lower @ lower.mH


def lstsq(p: Expansion, a: Any, b: Any, *_: Any, **__: Any) -> Any:
    """Define least squares by the pseudo-inverse times b; return the residuals, too."""
    solution = pinv(p, a) @ b
    return solution, ((a @ solution - b).abs() ** 2).sum(-2)


# Factors -----------------------------------------------------------------------------------------------------


def cholesky(p: Expansion, z: Any, upper: bool = False) -> Any:
    """Define the Cholesky factor by its blocks, whose diagonal is positive as that of the factor is."""
    lower = through_blocks(p, torch.linalg.cholesky, z)
    return lower.mH if upper else lower


def define_complex_qr(p: Expansion, z: Any, mode: Any = "reduced") -> Any:
    """Define QR by the factors with a positive diagonal, which have block form, times torch's signs."""
    if mode not in ("reduced", True):
        raise Refused("the extra columns of mode 'complete' are arbitrary, so they have no derivative")
    q, r = p(torch.linalg.qr, complex_to_blocks(z))
    signs = r.detach().diagonal(dim1=-2, dim2=-1).sgn()
    own = torch.linalg.qr(z.detach())[1].diagonal(dim1=-2, dim2=-1).sgn()
    return blocks_to_complex(q * signs.unsqueeze(-2)) * own.conj().unsqueeze(-2), blocks_to_complex(
        signs.unsqueeze(-1) * r
    ) * own.unsqueeze(-1)


def lu_factors(x: Any) -> Any:
    """Compute the table's entry of that name: both triangles in one matrix, without row exchanges."""
    return torch.as_tensor(eliminated(x.detach().numpy()))


def square_lu(p: Expansion, z: Any, pivots: Any) -> Any:
    """Return L and U of a square matrix in one; ``pivots`` is U's diagonal, as a constant.

    If the rows of a complex matrix are rotated so that the pivots are positive, its block matrix has real factors L'
    and U'. The diagonal blocks of L' are unit lower triangular; their corners belong to U.
    """
    if not z.is_complex():
        return p(lu_factors, z)
    turn = pivots.sgn()
    both = p(lu_factors, complex_to_blocks(turn.conj().unsqueeze(-1) * z))
    one = torch.eye(both.shape[-1], dtype=both.dtype)
    lower, upper = torch.tril(both, -1) + one, torch.triu(both)
    corners = lower * complex_to_blocks(torch.eye(z.shape[-1]) * (1 + 1j)).abs()
    l_turned, u_turned = blocks_to_complex(lower @ (2 * one - corners)), blocks_to_complex(corners @ upper)
    strictly = torch.tril(turn.unsqueeze(-1) * l_turned * turn.conj().unsqueeze(-2), -1)
    return strictly + turn.unsqueeze(-1) * u_turned


def pack_lu(p: Expansion, z: Any) -> tuple[Any, Any]:
    """Return P, as data, and both triangles in one matrix; rows or columns beyond a square are solved for."""
    order, _lower, own = torch.linalg.lu(z.detach())
    rows, columns = z.shape[-2:]
    size, tall = min(rows, columns), rows > columns
    z = z if (order == torch.eye(rows)).all() else order.mT @ z
    both = square_lu(p, z[..., :size, :size], own.diagonal(dim1=-2, dim2=-1))
    if rows == columns:
        return order, both
    rest = z[..., size:, :] if tall else z[..., :, size:]
    found = solve(p, torch.triu(both), rest, left=False) if tall else solve(p, with_unit_diagonal(both), rest)
    return order, torch.cat([both, found], -2 if tall else -1)


def with_unit_diagonal(packed: Any) -> Any:
    """Return L with ones on its diagonal."""
    return torch.tril(packed, -1) + torch.eye(*packed.shape[-2:], dtype=packed.dtype)


def unpack_triangles(order: Any, packed: Any) -> tuple[Any, Any, Any]:
    """Return P, L and U from P and the packed triangles."""
    size = min(packed.shape[-2:])
    return order, with_unit_diagonal(packed[..., :, :size]), torch.triu(packed[..., :size, :])


def lu_unpack(p: Expansion, packed: Any, pivots: Any, *_: Any, **__: Any) -> Any:
    """Define lu_unpack."""
    return unpack_triangles(torch.lu_unpack(packed.detach(), pivots, unpack_data=False)[0], packed)


def linalg_lu_solve(p: Expansion, LU: Any, pivots: Any, B: Any, *, left: bool = True, adjoint: bool = False) -> Any:
    """Define the solution with P·L·U, or with its adjoint."""
    order, lower, upper = lu_unpack(p, LU, pivots)
    whole = order.to(LU.dtype) @ lower @ upper
    return solve(p, whole.mH if adjoint else whole, B, left=left)


# Determinants ------------------------------------------------------------------------------------------------


def det(p: Expansion, z: Any) -> Any:
    """Define det as the product of U's diagonal, with the sign of the permutation."""
    order, both = pack_lu(p, z)
    return torch.prod(both.diagonal(dim1=-2, dim2=-1), -1) * torch.linalg.det(order.real)


# Reflections -------------------------------------------------------------------------------------------------


def apply_reflections(z: Any, tau: Any, start: Any, adjoint: bool) -> Any:
    """Return (I − τ₁·v₁·v₁ᴴ)·(I − τ₂·v₂·v₂ᴴ)·…·start, or the adjoint's; the v are columns of z with unit diagonal."""
    columns = with_unit_diagonal(z)
    for n in range(tau.shape[-1]) if adjoint else reversed(range(tau.shape[-1])):
        v, share = columns[..., :, n : n + 1], tau[..., n, None, None]
        start = start - (share.conj() if adjoint else share) * (v @ (v.mH @ start))
    return start


def ormqr(p: Expansion, z: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Any:
    """Define the product of the reflections, or its adjoint, with a matrix from the left or the right."""
    return (
        apply_reflections(z, tau, other, transpose) if left else apply_reflections(z, tau, other.mH, not transpose).mH
    )


def householder_product(p: Expansion, z: Any, tau: Any) -> Any:
    """Define the first columns of the product of the reflections."""
    start = torch.eye(*z.shape[-2:], dtype=z.dtype)
    return apply_reflections(z, tau, start if tau.shape[-1] else z * 0 + start, False)


lu_factors.spelling = lu_factors.__name__  # type: ignore[attr-defined]  # how the table spells it
DEFINITIONS.update(
    inv_ex=with_integer(lambda p, z: through_blocks(p, torch.linalg.inv, z)),
    matrix_exp=lambda p, z: through_blocks(p, torch.linalg.matrix_exp, z),
    pinv=pinv,
    pinverse=pinv,
    solve=solve,
    **dict.fromkeys(("solve_ex", "_linalg_solve_ex"), with_integer(solve)),
    solve_triangular=lambda p, a, b, *, upper, left=True, unitriangular=False: solve(
        p, read_triangle(a, upper, unitriangular), b, left=left
    ),
    triangular_solve=lambda p, b, a, upper=True, transpose=False, unitriangular=False: (
        solve(p, read_triangle(a, upper, unitriangular, transpose), b),
        a.clone(),
    ),
    cholesky_solve=lambda p, b, factor, upper=False: solve(p, gram_of_factor(factor, upper), b),
    cholesky_inverse=lambda p, factor, upper=False: through_blocks(p, torch.linalg.inv, gram_of_factor(factor, upper)),
    lstsq=lstsq,
    cholesky=cholesky,
    cholesky_ex=with_integer(cholesky),
    qr=define_complex_qr,
    **dict.fromkeys(
        ("lu_factor", "lu_factor_ex", "linalg_lu_factor_ex", "_lu_with_info"), lambda p, z, *_, **__: pack_lu(p, z)[1]
    ),
    lu=by_module(lambda p, z, *_, **__: unpack_triangles(*pack_lu(p, z)), lambda p, z, *_, **__: pack_lu(p, z)[1]),
    lu_unpack=lu_unpack,
    lu_solve=by_module(linalg_lu_solve, lambda p, b, LU_data, LU_pivots: linalg_lu_solve(p, LU_data, LU_pivots, b)),
    det=det,
    _linalg_det=det,
    **dict.fromkeys(
        ("slogdet", "_linalg_slogdet"),
        lambda p, z: (torch.sgn(det(p, z)), p(torch.linalg.slogdet, complex_to_blocks(z))[1] / 2),
    ),
    **dict.fromkeys(("householder_product", "orgqr"), householder_product),
    ormqr=ormqr,
)
"""Functions by their last word; `by_module` separates torch.linalg's from torch's older ones."""
