"""Vector norms (Σ |d|ᵖ)^(1/p) for every p; distances, cosines, and vectors clipped or scaled to a norm.

Comes in: p and the text of the entries d. Goes out: the norm as the text of an equation, and on arrays. At an entry 0
torch's derivative of |d|ᵖ is 0, also for p below 1, where there is none; for p below 0 one entry 0 makes the norm 0.
For p = ±∞ the entries of the largest size share the gradient equally, or each gets all of it, as between two sets of
points (``apart``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from symgrad.entries.equations import TORCH, F, op
from symgrad.entries.operands import exact_number
from symgrad.errors import InputError, ShapeError, UnsupportedError
from symgrad.shapes import Shape


def norm_equation(value: Any, p: str = "p", d: str = "d", apart: bool = False) -> str:
    """The length of what has the entries d[j], for this value of the option p, where it may be ``out`` itself.

    >>> norm_equation(2), norm_equation(3), norm_equation(1), norm_equation(0)
    ('√(Σ_j d[j]²)', '(Σ_j |d[j]|^p)^(1/p)', 'Σ_j |d[j]|', 'Σ_j [d[j] ≠ 0]')
    """
    exact, size = exact_number(value), f"|{d}[j]|"
    if exact.is_infinite:
        one = f"|{d}[j]| = out"
        return f"out + Σ_j [{one}]·({size} − out)" if apart else f"(Σ_j {size}·[{one}]) / (Σ_k [|{d}[k]| = out])"
    if exact in (0, 1):
        return f"Σ_j {size}" if exact else f"Σ_j [{d}[j] ≠ 0]"
    if exact == 2:
        return f"√(Σ_j {d}[j]²)"
    if exact.is_Integer and exact > 0:
        return f"(Σ_j {size if exact % 2 else f'{d}[j]'}^{p})^(1/{p})"
    there = f"[Σ_k [{d}[k] = 0] = 0]·" if exact < 0 else ""
    return f"{there}(Σ_j [{d}[j] ≠ 0]·{size}^{p})^(1/{p})"


def as_long_as(entry: str, left: str = "out", p: str = "p", apart: bool = False) -> Callable[..., str]:
    """The equation of a length that is the output, where its root has no derivative, at 0, with torch's: 0."""

    def text(shapes: Any, **options: Any) -> str:
        value = options[p]
        rooted = float(value) not in (0, 1) and not np.isinf(float(value))
        return f"{left} = {'[out ≠ 0]·' * rooted}{norm_equation(value, p, apart=apart)} where d[j] = {entry}"

    return text


def of_length(equation: str) -> Callable[..., str]:
    """The equation, with the length of what has the entries d[j] in the place of its LENGTH."""
    return lambda shapes, p, **options: equation.replace("LENGTH", inner_length(p))


def inner_length(value: Any, d: str = "d") -> str:
    """A length that is not the output: no p that is infinite, whose ties the output tells."""
    if np.isinf(float(value)):
        raise UnsupportedError("an infinite p is not supported here")
    return norm_equation(value, d=d)


def numpy_length(d: Any, p: Any, axis: Any, keepdims: bool = False) -> Any:
    """NumPy: (Σ |d|ᵖ)^(1/p)."""
    if p == 1:
        return np.sum(np.abs(d), axis=axis, keepdims=keepdims)
    d, p = np.abs(np.asarray(d, float)), float(p)
    if p == 0:
        return np.sum(d != 0, axis=axis, keepdims=keepdims).astype(float)
    if np.isinf(p):
        return (np.amax if p > 0 else np.amin)(d, axis=axis, keepdims=keepdims)
    with np.errstate(divide="ignore"):
        return np.sum(d**p, axis=axis, keepdims=keepdims) ** (1 / p)


# Distances -------------------------------------------------------------------------------------------


def normalize(ranks: Mapping[str, int], p: Any, dim: int, eps: Any) -> str | None:
    """x / max(|x|, ε)"""
    return "n = clamp(norm(x, p, dim, keepdim=True), min=eps); x / n" if ranks["x"] else None


def cosine_similarity(ranks: Mapping[str, int], dim: int, eps: Any) -> str | None:
    """Σ x·y / (|x|·|y|)"""
    if not ranks["x"]:
        return None
    lengths = "clamp(norm(x, 2, dim), min=eps) * clamp(norm(y, 2, dim), min=eps)"
    return f"lengths = {lengths}; sum(x * y, dim=dim) / lengths"


op("cosine_similarity(x, y, dim: int=1, eps: float=1e-8)", "out = (Σ_j x[j]·y[j]) / ((a·[a ≥ eps] + eps·[a < eps])"
   "·(b·[b ≥ eps] + eps·[b < eps])) where a = √(Σ_k x[k]²), b = √(Σ_l y[l]²)",
   "the cosine of the angle between vectors along dim, each length eps at least", ("F.{}", "torch.{}", "aten.{}"), along="dim", kinks=0,
   expands=cosine_similarity,
   examples=("F.cosine_similarity(x, y)", "F.cosine_similarity(x, y, dim=0) with x:3 y:3"))  # fmt: skip


BY_P: dict[str, Any] = {"reuse": True, "kinks": 0}

# fmt: off
op("pairwise_distance(x, y, p: number=2.0, eps=1e-6, keepdim=False)", "out = [out ≠ 0]·√(Σ_j (x[j] − y[j] + eps)²)",
   "the length of x − y + eps along the last axis; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", F, "torch.pairwise_distance", along="last",
   variants=as_long_as("x[j] − y[j] + eps"), **BY_P,
   forward=lambda x, y, p, eps, keepdims=False: numpy_length(x - y + float(eps), p, -1, keepdims),
   examples=("F.pairwise_distance(x, y)", "F.pairwise_distance(x, y, p=1.0)"))
op("normalize(x, p: number=2.0, dim=1, eps=1e-12)", "out[i] = x[i] / (a·[a ≥ eps] + eps·[a < eps]) where a = √(Σ_j x[j]²)",
   "x divided by its length along dim, eps at least; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p)", ("F.{}",), along="dim", expands=normalize,
   variants=of_length("out[i] = x[i] / (a·[a ≥ eps] + eps·[a < eps]) where a = LENGTH, d[j] = x[j]"), examples=("F.normalize(x)", "F.normalize(x, dim=0) with x:3"))
op("dist(x, y, p: number=2)", "out = [out ≠ 0]·√(Σ_j (x[j] − y[j])²)",
   "the length of x − y over all entries; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", TORCH, along="all", variants=as_long_as("x[j] − y[j]"),
   forward=lambda x, y, p: numpy_length(x - y, p, None), **BY_P, examples=("dist(x, y)", "dist(x, y, 3) with x:3 y:3"))
op("cdist(x, y, p: float >= 0=2.0, compute_mode: unused=None)", "out[…,i,k] = [out ≠ 0]·√(Σ_j (x[…,i,j] − y[…,k,j])²)",
   "the distances between the rows of x and the rows of y; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", ("torch.{}", "aten._cdist_forward"),
   variants=as_long_as("x[…,i,j] − y[…,k,j]", "out[…,i,k]", apart=True),
   forward=lambda x, y, p: numpy_length(np.asarray(x)[..., :, None, :] - np.asarray(y)[..., None, :, :], p, -1),
   **BY_P, ranks={"x": (2, 3), "y": (2, 3)}, examples=("cdist(x, y) with x:2x3 y:3x3", "cdist(x, y, 1.0) with x:2x2 y:2x2"))
# fmt: on


op("pdist(x, p: float >= 0=2.0)", "out[k<size(x, 0)·(size(x, 0) − 1)/2] = [out ≠ 0]·√(Σ_j (x[m,j] − x[n,j])²), m: the first row of"
   " the k-th pair in order, n: the second", "the distance between every two rows m < n; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p); the derivative at 0 is 0", ("F.{}", "torch.{}", "aten._pdist_forward"),
   variants=as_long_as("x[m,j] − x[n,j]", "out[k<size(x, 0)·(size(x, 0) − 1)/2]", apart=True),
   index_data={"m": lambda x, p: np.triu_indices(len(x), 1)[0], "n": lambda x, p: np.triu_indices(len(x), 1)[1]},
   forward=lambda x, p: numpy_length(np.subtract(*np.asarray(x, float)[np.array(np.triu_indices(len(x), 1))]), p, -1),
   torch=lambda torch, x, p: torch.nn.functional.pdist(x, float(p)) if len(x) else x.sum(1),  # of no rows 2.13's backward ends the process
   **BY_P, letters="k",
   examples=("F.pdist(x) with x:3x2", "F.pdist(x, 1.0) with x:4x2", "F.pdist(x, 3) with x:3x3"))  # fmt: skip


# Cut to a length ------------------------------------------------------------------------------------


def longest(shapes: tuple[Shape, ...], p: Any, dim: Any, maxnorm: Any) -> None:
    """p and the length are positive."""
    if len(shapes[0]) < 2:
        raise ShapeError("renorm takes a tensor with two axes or more")
    if p <= 0 or p == float("inf") or maxnorm < 0:
        raise InputError("renorm takes p > 0, finite, and maxnorm from 0 up", found=(f"p={p}, maxnorm={maxnorm}",))


op("renorm(x, p: number, dim: int, maxnorm: float)", "out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7)"
   " where a = √(Σ_j x[j]²)", "what lies at one place of dim, all other axes its line, shortened to the length maxnorm where it is longer; for another p than 2 lengths are (Σ |d|ᵖ)^(1/p)", TORCH,
   along="all but dim", checks=longest,
   variants=of_length("out[i] = x[i]·(1 − [a − maxnorm > 0]) + [a − maxnorm > 0]·x[i]·maxnorm/(a + 1/10^7) where a = LENGTH, d[j] = x[j]"),
   examples=("renorm(x, 2, 0, 1.5)", "renorm(x, 1, 1, 2.0)", "renorm(x, 3, 2, 1.0) with x:2x2x2"))  # fmt: skip
