"""Eigenvalues and singular values of complex matrices, and their vectors, by one step from those that were found.

With the value λ and the right and left vectors v, u held still, x solves [[A − λ, v], [vᴴ, 0]]·[x, ·] = [0, 1], and y
the same with Aᴴ, λ̄ and u. Then λ' = yᴴ·A·x / yᴴ·x is the eigenvalue of a matrix nearby but for an error of fourth
order, and so is the x that belongs to λ': the value and the first three derivatives are those of the eigenvalue and
its vector. The vector has the length 1, and its phase is the one that torch found, which nobody chose: it enters as a
factor of its own, an input of the lifted program. Where a small turn of it changes a result, the call stays torch's
own, which says for each seed whether it has a gradient.

A real matrix with complex eigenvalues is a complex one; singular values are eigenvalues of [[0, A], [Aᴴ, 0]].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from symgrad.errors import SymgradError
from symgrad.numeric import Values
from symgrad.numeric.exact import as_float
from symgrad.numeric.sweeps import push
from symgrad.ops.solved.solving import APART
from symgrad.tracing.lift.complex_matrices import blocks, solve
from symgrad.tracing.lift.inside import Expansion, definition
from symgrad.tracing.lift.lifted import Lifted, Refused
from symgrad.tracing.record.trace import Node

EQUAL = "two {} are equal: which is which changes with the direction, so there is no derivative"


def apart(values: Any) -> bool:
    """Whether no two values are equal."""
    gaps = (values.unsqueeze(-1) - values.unsqueeze(-2)).abs()
    gaps = gaps + torch.diag_embed(torch.full(values.shape, torch.inf, dtype=gaps.dtype))
    return not values.numel() or bool((gaps.amin((-2, -1)) > APART * values.abs().amax(-1)).all())


def bordered(p: Expansion, a: Any, values: Any, held: Any) -> Any:
    """For each value λ and column v the x with (A − λ)·x = −μ·v and vᴴ·x = 1, as columns."""
    count, size = values.shape[-1], a.shape[-1]
    shape = (*a.shape[:-2], count, size, size)
    inner = a.unsqueeze(-3).expand(shape) - values[..., None, None] * torch.eye(size, dtype=a.dtype)
    corner = torch.zeros(*shape[:-2], 1, 1, dtype=a.dtype)
    upper = torch.cat([inner, held.mT.unsqueeze(-1)], -1)
    lower = torch.cat([held.mH.unsqueeze(-2), corner], -1)
    ends = torch.cat([torch.zeros(*shape[:-1], 1, dtype=a.dtype), corner + 1], -2)
    return solve(p, torch.cat([upper, lower], -2), ends)[..., :size, 0].mT


def followed(p: Expansion, a: Any, values: Any, right: Any, left: Any) -> tuple[Any, Any]:
    """The eigenvalues, and a function that gives the vectors; all but ``a`` are held still."""
    x = bordered(p, a, values, right)
    y = bordered(p, a.mH, values.conj(), left)
    moved = (y.conj() * (a @ x)).sum(-2) / (y.conj() * x).sum(-2)

    def vectors() -> Any:
        found = bordered(p, a, moved, right)
        return found / torch.linalg.vector_norm(found, dim=-2, keepdim=True) * p.phases(values)

    return moved, vectors


@definition(also=("eigvals",))
def eig(p: Expansion, a: Any) -> Any:
    """Eigenvalues and eigenvectors of any square matrix whose eigenvalues are apart."""
    values, right = torch.linalg.eig(a.detach())
    a = a if a.is_complex() else torch.complex(a, torch.zeros_like(a))
    if not apart(values):
        raise Refused(EQUAL.format("eigenvalues"))
    moved, vectors = followed(p, a, values, right, torch.linalg.inv(right).mH)
    return (moved, vectors()) if p.index else (moved,)


@definition(also=("_linalg_eigh",))
def eigh(p: Expansion, a: Any, UPLO: str = "L", compute_v: bool = True) -> Any:  # torch's name
    """Of a Hermitian matrix the left vectors are the right ones; values alone may be equal."""
    a = (a + a.mH) / 2
    values, right = torch.linalg.eigh(a.detach(), UPLO=UPLO)
    if not apart(values):
        if p.index:
            raise Refused(EQUAL.format("eigenvalues"))
        return (p(torch.linalg.eigvalsh, blocks(a))[..., ::2],)
    moved, vectors = followed(p, a, values.to(a.dtype), right, right)
    return (moved.real, vectors()) if p.index else (moved.real,)


@definition()
def eigvalsh(p: Expansion, a: Any, UPLO: str = "L") -> Any:  # torch's name
    """The eigenvalues alone."""
    return eigh(p, a, UPLO)


@definition()
def svdvals(p: Expansion, a: Any, **_: Any) -> Any:
    """Those of the blocks, each of which is there twice."""
    return p(torch.linalg.svdvals, blocks(a))[..., ::2]


@definition("_linalg_svd")
def svd(p: Expansion, a: Any, full_matrices: bool = True, compute_uv: bool = True, *, driver: Any = None) -> Any:
    """U, S and Vh, by the eigenvectors of [[0, A], [Aᴴ, 0]], which hold u above v."""
    rows, columns = a.shape[-2:]
    if p.index == 1 or not compute_uv:
        return None, svdvals(p, a)
    if full_matrices and (columns - rows) * (p.index - 1) > 0:
        raise Refused("the vectors that full_matrices=True adds are any that fit, so they have no derivative")
    u, values, vh = torch.linalg.svd(a.detach(), full_matrices=False)
    if not apart(torch.cat([values, -values], -1)):
        raise Refused(EQUAL.format("singular values"))
    above = torch.cat([torch.zeros(*a.shape[:-2], rows, rows, dtype=a.dtype), a], -1)
    below = torch.cat([a.mH, torch.zeros(*a.shape[:-2], columns, columns, dtype=a.dtype)], -1)
    held = torch.cat([u, vh.mH], -2) / 2**0.5
    both = followed(p, torch.cat([above, below], -2), values.to(a.dtype), held, held)[1]() * 2**0.5
    return both[..., :rows, :], None, both[..., rows:, :].mH


def old_svd(p: Expansion, a: Any, some: bool = True, compute_uv: bool = True) -> Any:
    """torch's older call, which gives V."""
    u, s, vh = (*svd(p, a, not some, compute_uv), None)[:3]
    return u, s, None if vh is None else vh.mH


@definition("svd")
def svd_as_called(p: Expansion, a: Any, *arguments: Any, **keywords: Any) -> Any:
    """Two functions of torch's have this name."""
    return (svd if "linalg" in p.call.spelling else old_svd)(p, a, *arguments, **keywords)


TURNED = 1e-8
"""The share of a result that may come of rounding when a phase turns by 1."""


def phases_matter(lifted: Lifted, phases: Mapping[int, Sequence[Node]]) -> bool:
    """Whether a result changes with the phases of some calls' vectors, each turned by an angle of its own."""
    random = np.random.default_rng(0)
    turns = {}
    for node in (n for nodes in phases.values() for n in nodes if id(n) in lifted.refs):
        angles = random.normal(size=node.shape)
        turns[lifted.refs[id(node)].name] = np.stack([np.zeros(node.shape), angles], -1)
    if not turns:
        return False
    try:
        changes = push(lifted.program, Values(lifted.arrays, {}), turns, lifted.outputs, lifted.boxes)
    except (SymgradError, RuntimeError):  # a black box behind them, through which torch has no derivative
        return True
    for change, name in zip(changes, lifted.outputs, strict=True):
        largest = np.max(np.abs(as_float(lifted.arrays[name])), initial=1.0)
        if not np.all(np.abs(as_float(change)) <= TURNED * largest):
            return True
    return False
