"""Definitions of functions of complex tensors, each written as a PyTorch program of simpler functions.

Comes in: the call's arguments. Goes out: its value, by operations that are recorded and lifted like any other
(`symgrad.tracing.lift.inside`) and compared with torch's value afterwards; a difference refuses the call.

Eigenvalues, singular values and their vectors are refined by one step from those that torch returned. With the value λ
and the right and left vectors v, u constant, x solves [[A − λ, v], [vᴴ, 0]]·[x, ·] = [0, 1], and y the same with Aᴴ, λ̄
and u. Then λ' = yᴴ·A·x / yᴴ·x is the eigenvalue of a matrix near A up to an error of fourth order, and so is the x
computed with λ': the value and the first three derivatives are those of the eigenvalue and its vector. The vector has
norm 1, and its phase is torch's arbitrary choice: it is a factor of its own, an input of the lifted program. If a small
change of the phase changes a result, the call is left to torch, which reports for each seed whether it has a gradient.
A real matrix with complex eigenvalues becomes a complex one; singular values are eigenvalues of [[0, A], [Aᴴ, 0]].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric import Values
from symgrad.numeric.exact import as_float
from symgrad.numeric.vector_products import push_numbers
from symgrad.ops.factorizations import APART
from symgrad.tracing.lift import LiftedProgram, Refused
from symgrad.tracing.lift.complex_matrices import by_module, complex_to_blocks, solve
from symgrad.tracing.lift.inside import DEFINITIONS, Expansion
from symgrad.tracing.lift.placing import ANOTHER, sparse_ones_like
from symgrad.tracing.record.trace import Node

# Numbers on a diagonal ----------------------------------------------------------------------------------------


def fill_diagonal(p: Expansion, z: Any, fill_value: Any, wrap: bool = False) -> Any:
    """Define a write of one number on the diagonal."""
    kept = np.ones(z.shape, dtype=bool)
    np.fill_diagonal(kept, False, wrap=wrap)
    return torch.where(torch.from_numpy(kept), z, fill_value)


# Products and sums along an axis -----------------------------------------------------------------------------


def scan_by_doubling(z: Any, dim: int, both: Callable[[Any, Any], Any]) -> Any:
    """Compute an inclusive scan by doubling: after n turns each entry combines 2ⁿ entries."""
    if not z.dim():
        return z.clone()
    reach, length = 1, z.shape[dim]
    while reach < length:
        behind = both(z.narrow(dim, 0, length - reach), z.narrow(dim, reach, length - reach))
        z = torch.cat([z.narrow(dim, 0, reach), behind], dim)
        reach *= 2
    return z.clone()


def logcumsumexp(p: Expansion, z: Any, dim: int) -> Any:
    """Define logcumsumexp; the branch of the logarithm, a multiple of 2πi, is torch's and is data."""

    def log_of_sum(x: Any, y: Any) -> Any:
        """Return log(exp(x − m) + exp(y − m)) + m, with the larger real part as m, so that nothing overflows."""
        most = torch.maximum(x.detach().real, y.detach().real)
        most = torch.where(most.isfinite(), most, 0)
        return torch.log(torch.exp(x - most) + torch.exp(y - most)) + most

    found = scan_by_doubling(z, dim, log_of_sum)
    away = torch.logcumsumexp(z.detach(), dim).imag - found.detach().imag
    return found + 2j * math.pi * torch.nan_to_num(torch.round(away / (2 * math.pi)))


def prod(p: Expansion, z: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Define a product by products of two halves, until one entry is left."""
    if dim is None:
        z, dim = z.reshape(-1), 0
    if not z.dim():
        return z.clone()
    while (length := z.shape[dim]) > 1:
        half = length // 2
        both = z.narrow(dim, 0, half) * z.narrow(dim, half, half)
        z = both if length % 2 == 0 else torch.cat([both, z.narrow(dim, length - 1, 1)], dim)
    return z.clone() if keepdim else z.squeeze(dim)


# Arithmetic that torch has in one kernel ---------------------------------------------------------------------


def apply_to_parts(function: Callable[..., Any], z: Any, *given: Any, value: Any) -> Any:
    """Apply a function to both parts, with the same part of ``value`` as its last argument."""
    number = complex(value)
    return torch.complex(function(z.real, *given, number.real), function(z.imag, *given, number.imag))


def fill(p: Expansion, z: Any, value: Any) -> Any:
    """Define a fill with one number."""
    number = value.to(z.dtype) if isinstance(value, torch.Tensor) else torch.full_like(z, value)
    return z * 0 + number


# Writes of complex entries are writes of pairs ---------------------------------------------------------------


def split_complex(z: Any, dtype: Any = None) -> Any:
    """Return the real and imaginary parts along a new last axis."""
    return torch.view_as_real((z if dtype is None else z.to(dtype)).resolve_conj())


def define_complex_index_put(p: Expansion, z: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Define index_put on pairs, whose axis comes after the indexed ones."""
    places = tuple(slice(None) if i is None else i for i in indices)
    new = split_complex(values, z.dtype).expand(*z[places].shape, 2)
    return torch.view_as_complex(torch.ops.aten.index_put(split_complex(z), indices, new, accumulate))


def define_complex_put(p: Expansion, z: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Define put on the flattened pairs."""
    row = torch.index_put(
        split_complex(z).reshape(-1, 2), (index.reshape(-1),), split_complex(source, z.dtype).reshape(-1, 2), accumulate
    )
    return torch.view_as_complex(row.reshape(*z.shape, 2))


def masked_scatter(p: Expansion, z: Any, mask: Any, source: Any) -> Any:
    """Define masked_scatter on pairs, with the mask repeated for both parts."""
    shape = (z.real + mask).shape
    z, both = z.expand(shape), mask.expand(shape).unsqueeze(-1).expand(*shape, 2)
    return torch.view_as_complex(torch.masked_scatter(split_complex(z), both, split_complex(source)))


NORMS = ("backward", "ortho", "forward")
"""The norms of a forward transform by torch's numbers: factors 1, 1/√n and 1/n."""

EQUAL = "two {} are equal: their vectors are not unique, so there is no derivative"


def are_distinct(values: Any) -> bool:
    """Whether no two values are equal up to `APART`."""
    gaps = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
    gaps = gaps + torch.diag_embed(torch.full(values.shape, torch.inf, dtype=gaps.dtype))
    return not values.numel() or bool((gaps.amin((-2, -1)) > APART * values.abs().amax(-1)).all())


def solve_bordered_system(p: Expansion, a: Any, values: Any, held: Any) -> Any:
    """Solve (A − λ)·x = −μ·v, vᴴ·x = 1 for each value λ and column v; return the x as columns."""
    count, size = values.shape[-1], a.shape[-1]
    shape = (*a.shape[:-2], count, size, size)
    inner = a.unsqueeze(-3).expand(shape) - values[..., None, None] * torch.eye(size, dtype=a.dtype)
    corner = torch.zeros(*shape[:-2], 1, 1, dtype=a.dtype)
    upper = torch.cat([inner, held.mT.unsqueeze(-1)], -1)
    lower = torch.cat([held.mH.unsqueeze(-2), corner], -1)
    ends = torch.cat([torch.zeros(*shape[:-1], 1, dtype=a.dtype), corner + 1], -2)
    return solve(p, torch.cat([upper, lower], -2), ends)[..., :size, 0].mT


def track_eigenpairs(p: Expansion, a: Any, values: Any, right: Any, left: Any) -> tuple[Any, Any]:
    """Return the eigenvalues, and a function that returns the vectors, as functions of ``a`` alone."""
    x = solve_bordered_system(p, a, values, right)
    y = solve_bordered_system(p, a.mH, values.conj(), left)
    moved = (y.conj() * (a @ x)).sum(-2) / (y.conj() * x).sum(-2)

    def vectors() -> Any:
        found = solve_bordered_system(p, a, moved, right)
        return found / torch.linalg.vector_norm(found, dim=-2, keepdim=True) * p.phases(values)

    return moved, vectors


def eig(p: Expansion, a: Any) -> Any:
    """Define the eigenvalues and eigenvectors of a square matrix with distinct eigenvalues."""
    values, right = torch.linalg.eig(a.detach())
    a = a if a.is_complex() else torch.complex(a, torch.zeros_like(a))
    if not are_distinct(values):
        raise Refused(EQUAL.format("eigenvalues"))
    moved, vectors = track_eigenpairs(p, a, values, right, torch.linalg.inv(right).mH)
    return (moved, vectors()) if p.index else (moved,)


def eigh(p: Expansion, a: Any, UPLO: str = "L", compute_v: bool = True) -> Any:  # torch's name
    """Define eigh, whose left and right vectors are equal; without vectors, equal eigenvalues are allowed."""
    a = (a + a.mH) / 2
    values, right = torch.linalg.eigh(a.detach(), UPLO=UPLO)
    if not are_distinct(values):
        if p.index:
            raise Refused(EQUAL.format("eigenvalues"))
        return (p(torch.linalg.eigvalsh, complex_to_blocks(a))[..., ::2],)
    moved, vectors = track_eigenpairs(p, a, values.to(a.dtype), right, right)
    return (moved.real, vectors()) if p.index else (moved.real,)


def define_complex_svd(
    p: Expansion, a: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: Any = None
) -> Any:
    """Define U, S and Vh by the eigenvectors of [[0, A], [Aᴴ, 0]], which are u stacked on v."""
    rows, columns = a.shape[-2:]
    if p.index == 1 or not compute_uv:
        return None, p(torch.linalg.svdvals, complex_to_blocks(a))[..., ::2]  # each of the blocks' is there twice
    if full_matrices and (columns - rows) * (p.index - 1) > 0:
        raise Refused("the extra vectors of full_matrices=True are arbitrary, so they have no derivative")
    u, values, vh = torch.linalg.svd(a.detach(), full_matrices=False)
    if not are_distinct(torch.cat([values, -values], -1)):
        raise Refused(EQUAL.format("singular values"))
    above = torch.cat([torch.zeros(*a.shape[:-2], rows, rows, dtype=a.dtype), a], -1)
    below = torch.cat([a.mH, torch.zeros(*a.shape[:-2], columns, columns, dtype=a.dtype)], -1)
    held = torch.cat([u, vh.mH], -2) / 2**0.5
    both = track_eigenpairs(p, torch.cat([above, below], -2), values.to(a.dtype), held, held)[1]() * 2**0.5
    return both[..., :rows, :], None, both[..., rows:, :].mH


def older_svd(p: Expansion, a: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """Define torch.svd, which returns V, not Vh."""
    u, s, vh = (*define_complex_svd(p, a, not some, compute_uv), None)[:3]
    return u, s, None if vh is None else vh.mH


def refuse_strides(p: Expansion, *_: Any, **__: Any) -> Any:
    """Refuse a call whose gradient in torch is that of another function."""
    raise Refused(ANOTHER)


DEFINITIONS.update(
    fill_diagonal=fill_diagonal,
    cumprod=lambda p, z, dim, *, dtype=None: scan_by_doubling(z, dim, torch.mul),
    logcumsumexp=logcumsumexp,
    prod=prod,
    addbmm=lambda p, base, x, y, *, beta=1, alpha=1: beta * base + alpha * torch.bmm(x, y).sum(0),
    dist=lambda p, x, y, p_=2: torch.linalg.vector_norm(x - y, p_),
    ldexp=lambda p, x, power: x * 2.0**power,
    constant_pad_nd=lambda p, z, pad, value=0: apply_to_parts(torch.constant_pad_nd, z, pad, value=value),
    scatter=lambda p, z, dim, index, value: apply_to_parts(torch.scatter, z, dim, index, value=value),
    **dict.fromkeys(("sparse_sampled_addmm", "sampled_addmm"), lambda p, x, a, b, *, beta=1, alpha=1: (
        beta * x.to_dense() + alpha * sparse_ones_like(x.detach()).to_dense() * (a @ b))),
    fill=fill,
    var_mean=lambda p, z, dim=None, *, correction=None, keepdim=False: (
        torch.var(z, dim, correction=correction, keepdim=keepdim),
        torch.mean(z, tuple(range(z.dim())) if dim is None else dim, keepdim)),
    index_put=define_complex_index_put,
    put=define_complex_put,
    masked_scatter=masked_scatter,
    as_strided_scatter=refuse_strides,
    _fft_c2c=lambda p, z, dim, normalization, forward: p(
        torch.fft.fftn if forward else torch.fft.ifftn, z, dim=tuple(dim),
        norm=NORMS[normalization if forward else 2 - normalization]),
    _fft_r2c=lambda p, x, dim, normalization, onesided: p(
        torch.fft.rfftn if onesided else torch.fft.fftn, x, dim=tuple(dim), norm=NORMS[normalization]),
    _fft_c2r=lambda p, z, dim, normalization, last_dim_size: p(
        torch.fft.irfftn, z, s=[*(z.shape[d] for d in dim[:-1]), last_dim_size], dim=tuple(dim),
        norm=NORMS[2 - normalization]),
    **dict.fromkeys(("eig", "eigvals"), eig),
    **dict.fromkeys(("eigh", "_linalg_eigh"), eigh),
    _linalg_svd=define_complex_svd,
    svd=by_module(define_complex_svd, older_svd),
)  # fmt: skip
"""Functions by their last word; ATen numbers the norms of an inverse transform in reverse order."""


TURNED = 1e-8
"""The largest relative change of a result, for a change of phases of size 1, that counts as rounding."""


def phases_matter(lifted: LiftedProgram, phases: Mapping[int, Sequence[Node]]) -> bool:
    """Whether a result depends on the phases of eigenvectors, tested by a random change of each phase."""
    random = np.random.default_rng(0)
    turns = {}
    for node in (n for nodes in phases.values() for n in nodes if id(n) in lifted.refs):
        angles = random.normal(size=node.shape)
        turns[lifted.refs[id(node)].name] = np.stack([np.zeros(node.shape), angles], -1)
    if not turns:
        return False
    try:
        changes = push_numbers(lifted.program, Values(lifted.arrays, {}), turns, lifted.outputs, lifted.boxes)
    except (SymgradError, RuntimeError):  # a black box behind them, through which torch has no derivative
        return True
    for change, name in zip(changes, lifted.outputs, strict=True):
        largest = np.max(np.abs(as_float(lifted.arrays[name])), initial=1.0)
        if not np.all(np.abs(as_float(change)) <= TURNED * largest):
            return True
    return False
