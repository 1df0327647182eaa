"""Functions of complex tensors by their definitions in simpler ones, written as a PyTorch program each.

Comes in: what the call takes. Goes out: its value, by operations that are recorded and lifted like any other
(`symgrad.tracing.lift.inside`), and held against torch's value afterwards: a branch that is not torch's is refused.

Eigenvalues, singular values and their vectors come by one step from those that were found. With the value λ and the
right and left vectors v, u held still, x solves [[A − λ, v], [vᴴ, 0]]·[x, ·] = [0, 1], and y the same with Aᴴ, λ̄ and
u. Then λ' = yᴴ·A·x / yᴴ·x is the eigenvalue of a matrix nearby but for an error of fourth order, and so is the x that
belongs to λ': the value and the first three derivatives are those of the eigenvalue and its vector. The vector has
the length 1, and its phase is the one that torch found, which nobody chose: it enters as a factor of its own, an
input of the lifted program. Where a small turn of it changes a result, the call stays torch's own, which says for
each seed whether it has a gradient. A real matrix with complex eigenvalues is a complex one; singular values are
eigenvalues of [[0, A], [Aᴴ, 0]].
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
from symgrad.tracing.lift.complex_matrices import complex_to_blocks, solve
from symgrad.tracing.lift.inside import Expansion, definition
from symgrad.tracing.lift.placing import ANOTHER, sparse_ones_like
from symgrad.tracing.record.trace import Node

# Numbers on a diagonal ----------------------------------------------------------------------------------------


@definition()
def fill_diagonal(p: Expansion, z: Any, fill_value: Any, wrap: bool = False) -> Any:
    """A number on the diagonal."""
    kept = np.ones(z.shape, dtype=bool)
    np.fill_diagonal(kept, False, wrap=wrap)
    return torch.where(torch.from_numpy(kept), z, fill_value)


# Products and sums along an axis -----------------------------------------------------------------------------


def scan_by_doubling(z: Any, dim: int, both: Callable[[Any, Any], Any]) -> Any:
    """Neighbours taken together, then pairs of them, …: after n turns each entry holds what 2ⁿ entries give."""
    if not z.dim():
        return z.clone()
    reach, length = 1, z.shape[dim]
    while reach < length:
        behind = both(z.narrow(dim, 0, length - reach), z.narrow(dim, reach, length - reach))
        z = torch.cat([z.narrow(dim, 0, reach), behind], dim)
        reach *= 2
    return z.clone()


@definition()
def cumprod(p: Expansion, z: Any, dim: int, *, dtype: Any = None) -> Any:
    """The products so far."""
    return scan_by_doubling(z, dim, torch.mul)


def log_of_sum(x: Any, y: Any) -> Any:
    """log(exp(x − m) + exp(y − m)) + m, for any constant m: the larger real part, so that nothing overflows."""
    most = torch.maximum(x.detach().real, y.detach().real)
    most = torch.where(most.isfinite(), most, 0)
    return torch.log(torch.exp(x - most) + torch.exp(y - most)) + most


@definition()
def logcumsumexp(p: Expansion, z: Any, dim: int) -> Any:
    """The logarithms of the sums of exponentials so far; which of the logarithms torch has is data."""
    found = scan_by_doubling(z, dim, log_of_sum)
    away = torch.logcumsumexp(z.detach(), dim).imag - found.detach().imag
    return found + 2j * math.pi * torch.nan_to_num(torch.round(away / (2 * math.pi)))


@definition()
def prod(p: Expansion, z: Any, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
    """Products of two halves, until one entry is left."""
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


@definition()
def addbmm(p: Expansion, base: Any, x: Any, y: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """β·base + α·Σ x @ y"""
    return beta * base + alpha * torch.bmm(x, y).sum(0)


@definition()
def dist(p: Expansion, x: Any, y: Any, p_: Any = 2) -> Any:
    """The norm of the difference."""
    return torch.linalg.vector_norm(x - y, p_)


@definition()
def ldexp(p: Expansion, x: Any, power: Any) -> Any:
    """x·2^power"""
    return x * 2.0**power


@definition()
def constant_pad_nd(p: Expansion, z: Any, pad: Any, value: Any = 0) -> Any:
    """Of either part, with that part of the value."""
    number = complex(value)
    return torch.complex(
        torch.constant_pad_nd(z.real, pad, number.real), torch.constant_pad_nd(z.imag, pad, number.imag)
    )


@definition()
def scatter(p: Expansion, z: Any, dim: int, index: Any, value: Any) -> Any:
    """Of either part, with that part of a number."""
    number = complex(value)
    parts = torch.scatter(z.real, dim, index, number.real), torch.scatter(z.imag, dim, index, number.imag)
    return torch.complex(*parts)


@definition(also=("sampled_addmm",))
def sparse_sampled_addmm(p: Expansion, x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    """β·x + α·(a @ b) where x stores an entry."""
    return beta * x.to_dense() + alpha * sparse_ones_like(x.detach()).to_dense() * (a @ b)


@definition()
def fill(p: Expansion, z: Any, value: Any) -> Any:
    """One number everywhere."""
    number = value.to(z.dtype) if isinstance(value, torch.Tensor) else torch.full_like(z, value)
    return z * 0 + number


@definition()
def var_mean(p: Expansion, z: Any, dim: Any = None, *, correction: Any = None, keepdim: bool = False) -> Any:
    """The variance, and the mean."""
    axes = tuple(range(z.dim())) if dim is None else dim
    return torch.var(z, dim, correction=correction, keepdim=keepdim), torch.mean(z, axes, keepdim)


# Writes of complex entries are writes of pairs ---------------------------------------------------------------


def split_complex(z: Any, dtype: Any = None) -> Any:
    """The real and imaginary parts, on an axis behind the others."""
    return torch.view_as_real((z if dtype is None else z.to(dtype)).resolve_conj())


@definition("index_put")
def define_complex_index_put(p: Expansion, z: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Of the pairs: their axis stands behind those that are indexed."""
    places = tuple(slice(None) if i is None else i for i in indices)
    new = split_complex(values, z.dtype).expand(*z[places].shape, 2)
    return torch.view_as_complex(torch.ops.aten.index_put(split_complex(z), indices, new, accumulate))


@definition("put")
def define_complex_put(p: Expansion, z: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Of the pairs in one row."""
    row = torch.index_put(
        split_complex(z).reshape(-1, 2), (index.reshape(-1),), split_complex(source, z.dtype).reshape(-1, 2), accumulate
    )
    return torch.view_as_complex(row.reshape(*z.shape, 2))


@definition()
def masked_scatter(p: Expansion, z: Any, mask: Any, source: Any) -> Any:
    """Of the pairs: both parts where the mask holds."""
    shape = (z.real + mask).shape
    z, both = z.expand(shape), mask.expand(shape).unsqueeze(-1).expand(*shape, 2)
    return torch.view_as_complex(torch.masked_scatter(split_complex(z), both, split_complex(source)))


@definition()
def as_strided_scatter(p: Expansion, *_: Any, **__: Any) -> Any:
    """What torch differentiates otherwise than it computes it."""
    raise Refused(ANOTHER)


# Fourier transforms as ATen has them -------------------------------------------------------------------------

NORMS = ("backward", "ortho", "forward")
"""How much of 1/n a forward transform has: nothing, its root, all."""


@definition()
def _fft_c2c(p: Expansion, z: Any, dim: Any, normalization: int, forward: bool) -> Any:
    """Along each axis; backward the scale is counted the other way round."""
    norm = NORMS[normalization if forward else 2 - normalization]
    return p(torch.fft.fftn if forward else torch.fft.ifftn, z, dim=tuple(dim), norm=norm)


@definition()
def _fft_r2c(p: Expansion, x: Any, dim: Any, normalization: int, onesided: bool) -> Any:
    """The same for a real tensor, all of it or the half that is not the other's conjugate."""
    return p(torch.fft.rfftn if onesided else torch.fft.fftn, x, dim=tuple(dim), norm=NORMS[normalization])


@definition()
def _fft_c2r(p: Expansion, z: Any, dim: Any, normalization: int, last_dim_size: int) -> Any:
    """Back to a real tensor."""
    sizes = [*(z.shape[d] for d in dim[:-1]), last_dim_size]
    return p(torch.fft.irfftn, z, s=sizes, dim=tuple(dim), norm=NORMS[2 - normalization])


EQUAL = "two {} are equal: their vectors are not unique, so there is no derivative"


def are_distinct(values: Any) -> bool:
    """Whether no two values are equal."""
    gaps = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
    gaps = gaps + torch.diag_embed(torch.full(values.shape, torch.inf, dtype=gaps.dtype))
    return not values.numel() or bool((gaps.amin((-2, -1)) > APART * values.abs().amax(-1)).all())


def solve_bordered_system(p: Expansion, a: Any, values: Any, held: Any) -> Any:
    """For each value λ and column v the x with (A − λ)·x = −μ·v and vᴴ·x = 1, as columns."""
    count, size = values.shape[-1], a.shape[-1]
    shape = (*a.shape[:-2], count, size, size)
    inner = a.unsqueeze(-3).expand(shape) - values[..., None, None] * torch.eye(size, dtype=a.dtype)
    corner = torch.zeros(*shape[:-2], 1, 1, dtype=a.dtype)
    upper = torch.cat([inner, held.mT.unsqueeze(-1)], -1)
    lower = torch.cat([held.mH.unsqueeze(-2), corner], -1)
    ends = torch.cat([torch.zeros(*shape[:-1], 1, dtype=a.dtype), corner + 1], -2)
    return solve(p, torch.cat([upper, lower], -2), ends)[..., :size, 0].mT


def track_eigenpairs(p: Expansion, a: Any, values: Any, right: Any, left: Any) -> tuple[Any, Any]:
    """The eigenvalues, and a function that gives the vectors; all but ``a`` are held still."""
    x = solve_bordered_system(p, a, values, right)
    y = solve_bordered_system(p, a.mH, values.conj(), left)
    moved = (y.conj() * (a @ x)).sum(-2) / (y.conj() * x).sum(-2)

    def vectors() -> Any:
        found = solve_bordered_system(p, a, moved, right)
        return found / torch.linalg.vector_norm(found, dim=-2, keepdim=True) * p.phases(values)

    return moved, vectors


@definition(also=("eigvals",))
def eig(p: Expansion, a: Any) -> Any:
    """Eigenvalues and eigenvectors of any square matrix whose eigenvalues are apart."""
    values, right = torch.linalg.eig(a.detach())
    a = a if a.is_complex() else torch.complex(a, torch.zeros_like(a))
    if not are_distinct(values):
        raise Refused(EQUAL.format("eigenvalues"))
    moved, vectors = track_eigenpairs(p, a, values, right, torch.linalg.inv(right).mH)
    return (moved, vectors()) if p.index else (moved,)


@definition(also=("_linalg_eigh",))
def eigh(p: Expansion, a: Any, UPLO: str = "L", compute_v: bool = True) -> Any:  # torch's name
    """Of a Hermitian matrix the left vectors are the right ones; values alone may be equal."""
    a = (a + a.mH) / 2
    values, right = torch.linalg.eigh(a.detach(), UPLO=UPLO)
    if not are_distinct(values):
        if p.index:
            raise Refused(EQUAL.format("eigenvalues"))
        return (p(torch.linalg.eigvalsh, complex_to_blocks(a))[..., ::2],)
    moved, vectors = track_eigenpairs(p, a, values.to(a.dtype), right, right)
    return (moved.real, vectors()) if p.index else (moved.real,)


@definition("_linalg_svd")
def define_complex_svd(
    p: Expansion, a: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: Any = None
) -> Any:
    """U, S and Vh, by the eigenvectors of [[0, A], [Aᴴ, 0]], which hold u above v."""
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


def define_legacy_svd(p: Expansion, a: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """torch's older call, which gives V."""
    u, s, vh = (*define_complex_svd(p, a, not some, compute_uv), None)[:3]
    return u, s, None if vh is None else vh.mH


@definition("svd")
def svd_as_called(p: Expansion, a: Any, *arguments: Any, **keywords: Any) -> Any:
    """Two functions of torch's have this name."""
    return (define_complex_svd if "linalg" in p.call.spelling else define_legacy_svd)(p, a, *arguments, **keywords)


TURNED = 1e-8
"""The share of a result that may come of rounding when a phase turns by 1."""


def phases_matter(lifted: LiftedProgram, phases: Mapping[int, Sequence[Node]]) -> bool:
    """Whether a result changes with the phases of some calls' vectors, each turned by an angle of its own."""
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
