"""Functions of complex tensors by their definitions in simpler ones, written as a PyTorch program each.

Comes in: what the call takes. Goes out: its value, by operations that are recorded and lifted like any other
(`symgrad.tracing.lift.inside`), and held against torch's value afterwards: a branch that is not torch's is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from symgrad.tracing.lift.inside import Expansion, definition
from symgrad.tracing.lift.lifted import Refused
from symgrad.tracing.lift.placing import ANOTHER, of_ones

# Numbers on a diagonal ----------------------------------------------------------------------------------------


@definition()
def fill_diagonal(p: Expansion, z: Any, fill_value: Any, wrap: bool = False) -> Any:
    """A number on the diagonal."""
    kept = np.ones(z.shape, dtype=bool)
    np.fill_diagonal(kept, False, wrap=wrap)
    return torch.where(torch.from_numpy(kept), z, fill_value)


# Products and sums along an axis -----------------------------------------------------------------------------


def running(z: Any, dim: int, both: Callable[[Any, Any], Any]) -> Any:
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
    return running(z, dim, torch.mul)


def log_of_sum(x: Any, y: Any) -> Any:
    """log(exp(x − m) + exp(y − m)) + m, for any constant m: the larger real part, so that nothing overflows."""
    most = torch.maximum(x.detach().real, y.detach().real)
    most = torch.where(most.isfinite(), most, 0)
    return torch.log(torch.exp(x - most) + torch.exp(y - most)) + most


@definition()
def logcumsumexp(p: Expansion, z: Any, dim: int) -> Any:
    """The logarithms of the sums of exponentials so far; which of the logarithms torch has is data."""
    found = running(z, dim, log_of_sum)
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
    return beta * x.to_dense() + alpha * of_ones(x.detach()).to_dense() * (a @ b)


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


def pairs(z: Any, dtype: Any = None) -> Any:
    """The real and imaginary parts, on an axis behind the others."""
    return torch.view_as_real((z if dtype is None else z.to(dtype)).resolve_conj())


@definition()
def index_put(p: Expansion, z: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    """Of the pairs: their axis stands behind those that are indexed."""
    places = tuple(slice(None) if i is None else i for i in indices)
    new = pairs(values, z.dtype).expand(*z[places].shape, 2)
    return torch.view_as_complex(torch.ops.aten.index_put(pairs(z), indices, new, accumulate))


@definition()
def put(p: Expansion, z: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    """Of the pairs in one row."""
    row = torch.index_put(
        pairs(z).reshape(-1, 2), (index.reshape(-1),), pairs(source, z.dtype).reshape(-1, 2), accumulate
    )
    return torch.view_as_complex(row.reshape(*z.shape, 2))


@definition()
def masked_scatter(p: Expansion, z: Any, mask: Any, source: Any) -> Any:
    """Of the pairs: both parts where the mask holds."""
    shape = (z.real + mask).shape
    z, both = z.expand(shape), mask.expand(shape).unsqueeze(-1).expand(*shape, 2)
    return torch.view_as_complex(torch.masked_scatter(pairs(z), both, pairs(source)))


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
