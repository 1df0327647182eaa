"""Complex tensors, the same ones in every run, and their parts."""

from __future__ import annotations

import numpy as np
import torch

from symgrad import capture
from tests.compare import assert_same

C = torch.complex128


def draw(*shape, dtype=C, seed=0):
    """A tensor, the same in every run."""
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed + sum(shape)))


def real(*shape, seed=0):
    """The same for real numbers."""
    return draw(*shape, dtype=torch.float64, seed=seed)


def parts(tensor):
    """A tensor as an array, complex numbers as pairs."""
    found = tensor.detach()
    return (torch.view_as_real(found.resolve_conj()) if found.is_complex() else found).numpy()


def held_against_torch(fn, *tensors):
    """The captured program, after its pullback and pushforward were compared with torch."""
    program = capture(fn, *tensors)
    leaves = [t.detach().clone().requires_grad_(True) for t in tensors]
    out = fn(*[leaf.clone() for leaf in leaves])
    weights = draw(*out.shape, dtype=out.dtype, seed=7)
    expected = torch.autograd.grad(out, leaves, weights, allow_unused=True)
    found = program.pullback(weights)
    assert_same(parts(out), program.results[0], what="the value")
    tangents = {}
    for (name, got), true, leaf in zip(found.items(), expected, leaves, strict=True):
        assert_same(
            np.zeros(parts(leaf).shape) if true is None else parts(true),
            got,
            what=f"the gradient with respect to {name}",
        )
        tangents[name] = parts(draw(*leaf.shape, dtype=leaf.dtype, seed=11))
    moved = program.pushforward(tangents)
    left = sum(np.sum(found[name] * tangent) for name, tangent in tangents.items())
    assert_same(left, np.sum(parts(weights) * moved), what="⟨v, Ju⟩ = ⟨vᵀJ, u⟩")
    return program
