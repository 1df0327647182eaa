"""torch's answers for tests: texts run as the Python they are.

`evaluate` hands a text to Python's own ``eval`` with torch tensors in scope. It shares nothing with symgrad's
reader, and is only for texts that the tests hold themselves.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Collection, Mapping
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

import symgrad

F64 = torch.float64


def tensor(value: Any) -> torch.Tensor:
    """``value`` in float64; a tensor stays itself, so that gradients flow through it."""
    return value if isinstance(value, torch.Tensor) else torch.tensor(np.array(value, dtype=np.float64, order="C"))


def tensors(inputs: Mapping[str, Any], fixed: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """Inputs in float64; of those in ``fixed`` that hold whole numbers, integers, which torch asks for there."""
    return {
        name: torch.tensor(np.asarray(a)) if name in fixed and np.asarray(a).dtype.kind == "i" else tensor(a)
        for name, a in inputs.items()
    }


def number(value: torch.Tensor) -> torch.Tensor:
    """A comparison as numbers, which is what it is worth in symgrad."""
    return value.to(F64) if value.dtype == torch.bool else value


def reduce(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    """A reduction that torch wants a dim for: without one, over all axes."""

    def over(x: torch.Tensor, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
        return function(x, tuple(range(x.dim())) if dim is None else dim, keepdim=keepdim)

    return over


def layer_norm(x: torch.Tensor, normalized_shape: Any = None, eps: float = 1e-5) -> torch.Tensor:
    """torch's, over the last axis where nothing is said."""
    shape = (x.shape[-1],) if normalized_shape is None else normalized_shape
    return F.layer_norm(x, shape if isinstance(shape, tuple) else (shape,), eps=eps)


def norm(x: torch.Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False) -> torch.Tensor:
    """The vector norm, over all axes where nothing is said."""
    return torch.linalg.vector_norm(x, p, dim, keepdim)


def where(condition: torch.Tensor, x: Any, y: Any) -> torch.Tensor:
    """torch.where on a condition that may be numbers."""
    return torch.where(condition != 0, tensor(x), tensor(y))


def numpy_dot(x: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """NumPy's dot: like @ up to matrices."""
    return x @ a if a.dim() < 3 else torch.tensordot(x, a, dims=([-1], [-2]))


class Trigamma(torch.autograd.Function):
    """ψ′ = ζ(2, ·) as accurate as float64 allows: torch's own series leaves off 3e-9, in digamma's derivative too."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """ζ(2, x)."""
        ctx.save_for_backward(x)
        return torch.special.zeta(2.0, x)

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> torch.Tensor:
        """ψ″ = −2·ζ(3, ·)."""
        (x,) = ctx.saved_tensors
        return weights * -2 * torch.special.zeta(3.0, x)


class Digamma(torch.autograd.Function):
    """ψ with ψ′ from `Trigamma`."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """ψ(x)."""
        ctx.save_for_backward(x)
        return torch.digamma(x)

    @staticmethod
    def backward(ctx: Any, weights: torch.Tensor) -> torch.Tensor:
        """ψ′ = ζ(2, ·)."""
        (x,) = ctx.saved_tensors
        return weights * torch.special.zeta(2.0, x)


def polygamma(n: int, x: torch.Tensor) -> torch.Tensor:
    """torch's, but for n = 1."""
    return Trigamma.apply(x) if n == 1 else torch.polygamma(n, x)


MORE_DIGITS: dict[str, Callable[..., torch.Tensor]] = {
    "digamma": Digamma.apply,
    "polygamma": lambda x, n: polygamma(int(n), x),
}
"""The operations of which torch's own values, or slopes, have fewer digits than are asked for, with all of them."""


def eigh(x: torch.Tensor) -> Any:
    """torch's, each vector with the sign that symgrad gives it: nobody's choice otherwise."""
    values, vectors = torch.linalg.eigh(x)
    return SimpleNamespace(eigenvalues=values, eigenvectors=vectors * signs_of(vectors))


def svd(x: torch.Tensor, full_matrices: bool = True) -> Any:
    """torch's, with the same signs on both sides."""
    u, s, vh = torch.linalg.svd(x, full_matrices=full_matrices)
    chosen = signs_of(u)
    return SimpleNamespace(U=u * chosen, S=s, Vh=vh * chosen.mT)


def lu_factors(x: torch.Tensor) -> torch.Tensor:
    """Both triangles of x = L·U in one matrix; torch's own exchanges rows."""
    if not x.shape[-1]:
        return x
    left = x[..., 1:, :1] / x[..., :1, :1]
    rest = lu_factors(x[..., 1:, 1:] - left * x[..., :1, 1:])
    return torch.cat([x[..., :1, :], torch.cat([left, rest], -1)], -2)


def signs_of(columns: torch.Tensor) -> torch.Tensor:
    """1 or −1 for each column: its first entry of at least 0.37 of the largest becomes positive."""
    columns = columns.detach()
    leads = columns.abs() >= 0.37 * columns.abs().amax(dim=-2, keepdim=True)
    first = leads.to(torch.int8).argmax(dim=-2, keepdim=True)
    return columns.gather(-2, first).sign()


def in_a_row(t: torch.Tensor | None) -> torch.Tensor | None:
    """A tensor whose entries lie one after another."""
    return t if t is None else t.clone(memory_format=torch.contiguous_format)


def batch_norm(
    x: torch.Tensor, mean: Any, var: Any, weight: Any = None, bias: Any = None, **options: Any
) -> torch.Tensor:
    """torch's, on statistics and a weight in a row: 2.13's backward reads a column or a diagonal as if it were one."""
    mean, var, weight = in_a_row(mean), in_a_row(var), in_a_row(weight)
    return F.batch_norm(x, mean, var, weight, bias, **options)


def pdist(x: torch.Tensor, p: float = 2.0) -> torch.Tensor:
    """torch's, but for no rows at all: 2.13's backward ends the process there."""
    return F.pdist(x, p) if len(x) else x.sum(1)


EXACT = SimpleNamespace(
    **{
        **vars(F),
        "batch_norm": batch_norm,
        "pdist": pdist,
        "softplus": lambda x, beta=1, threshold=20: F.softplus(x, beta, 40 if threshold == 20 else threshold),
        "hardsigmoid": lambda x: F.relu6(x + 3) / 6,  # torch's own has 1/6 in float32: see test_table.py
    }
)
"""torch.nn.functional, with what torch itself computes in another precision than float64 written out."""
OWN: dict[str, Any] = {
    "np": SimpleNamespace(dot=numpy_dot),
    "identity": torch.clone, "T": torch.t, "norm": norm, "layer_norm": layer_norm, "where": where,
    "softmax": lambda x, dim=-1: torch.softmax(x, dim), "log_softmax": lambda x, dim=-1: torch.log_softmax(x, dim),
    "logsumexp": reduce(torch.logsumexp), "amax": reduce(torch.amax), "amin": reduce(torch.amin),
    "linalg_norm": torch.linalg.norm, "digamma": MORE_DIGITS["digamma"], "polygamma": polygamma,
    "pow": torch.pow, "sum": torch.sum, "max": torch.max, "min": torch.min, "abs": torch.abs,
    "eigh": eigh, "svd": svd, "solve": torch.linalg.solve, "triangular_factor": torch.clone, "lu_factors": lu_factors, "cholesky": torch.linalg.cholesky, "cat": torch.cat, "maximum": lambda x, y: torch.maximum(tensor(x), tensor(y)),
    "minimum": lambda x, y: torch.minimum(tensor(x), tensor(y)),
    "view_as_real": lambda z: torch.view_as_real(z.resolve_conj()),  # torch's own wants a conjugate worked out first
}  # fmt: skip
"""What symgrad's plain names mean in torch, where torch has another spelling or another default."""


PLACES = (EXACT, torch, torch.special, torch.linalg)
"""Where a plain name is looked for."""


SIGNED = SimpleNamespace(
    **{**vars(torch), "linalg": SimpleNamespace(**{**vars(torch.linalg), "eigh": eigh, "svd": svd})}
)
"""torch, whose singular vectors and eigenvectors have the signs that symgrad gives them."""


class Names(dict[str, Any]):
    """The names a text may use: its tensors, then `OWN`, then those of `PLACES`."""

    def __missing__(self, name: str) -> Any:
        for place in PLACES:  # torch's losses are not what F's are
            if name not in OWN and hasattr(place, name):
                return getattr(place, name)
        if name in OWN:
            return OWN[name]
        for entry in symgrad.operations():  # torch has no such function: the entry says how torch computes it
            if entry.name == name and not entry.spellings:
                return partial(entry.torch, torch)
        raise KeyError(name)


def known_to_torch(text: str) -> bool:
    """Whether every function that `text` calls is one of torch's, by whatever name torch keeps it under."""
    homes = (torch, torch.Tensor, F, torch.linalg, torch.special, torch.fft)
    return all(any(hasattr(home, name) for home in homes) for name in re.findall(r"(\w+)\(", text))


def evaluate(
    text: str,
    tensors: Mapping[str, Any],
    as_numbers: bool = True,
    shake: Callable[[torch.Tensor], torch.Tensor] = lambda value: value,
    floats: torch.dtype = F64,
) -> torch.Tensor:
    """What ``text`` comes to in torch; truth values as the numbers that they are in symgrad.

    ``shake`` is what becomes of the value of each statement but the last, ``floats`` what torch's floats are.
    """
    scope = Names({"torch": SIGNED, "F": EXACT, "math": math, **tensors})
    nothing: dict[str, Any] = {}
    *statements, last = [part.strip() for part in text.split(";")]
    precision = torch.get_default_dtype()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch advises against some things that it does
        torch.set_default_dtype(floats)  # (x > 0) / 3 is float32 otherwise
        try:
            for statement in statements:
                name, _, right = statement.partition(" = ")
                scope[name] = shake(eval(right, nothing, scope))  # noqa: S307 -- the tests' own texts are torch code
            value = eval(last, nothing, scope)  # noqa: S307 -- the tests' own texts are torch code
            return number(value) if as_numbers else value
        finally:
            torch.set_default_dtype(precision)


def words(text: str) -> list[str]:
    """``text`` cut into names and what stands between them; a name after a dot is no tensor and stays with it."""
    return re.findall(r"\.?[^\W\d]\w*|[^\w.]+|\.|\d+", text)


def leaves(inputs: Mapping[str, Any], fixed: Collection[str] = ()) -> dict[str, torch.Tensor]:
    """Inputs as leaf tensors that collect gradients, but for those in ``fixed``."""
    return {name: t if name in fixed else t.requires_grad_() for name, t in tensors(inputs, fixed).items()}


def gradients(
    compute: Callable[[Mapping[str, torch.Tensor]], torch.Tensor],
    inputs: Mapping[str, Any],
    seed: Any,
    fixed: Collection[str] = (),
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The output, and what ``out.backward(seed)`` leaves in every input; zeros where torch leaves nothing."""
    leaf = leaves(inputs, fixed)
    out = compute(leaf)
    if out.requires_grad:
        out.backward(tensor(seed).to(F64).reshape(out.shape))
    zero = {name: np.zeros(np.shape(array)) for name, array in inputs.items()}
    return out.detach().numpy(), {n: zero[n] if t.grad is None else t.grad.numpy() for n, t in leaf.items()}


def text_gradients(
    text: str, inputs: Mapping[str, Any], seed: Any, fixed: Collection[str] = ()
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """`gradients` of a text."""
    return gradients(lambda known: evaluate(text, known), inputs, seed, fixed)
