"""Backwards that are right, as people write them: not one of them may be accused of anything.

torch's own, custom Functions of every kind, attention in blocks, kinks, strided and in-place code, several outputs,
modules, options, low precision, NumPy pairs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch.autograd.function import once_differentiable

from symgrad import capture
from tests.candidates import Candidate, draws, function, randn


def x34() -> dict[str, Any]:
    return {"x": randn(3, 4)}


def half(dtype: torch.dtype) -> Any:
    return lambda: {"x": randn(4, 5, dtype=dtype), "a": randn(5, 3, seed=1, dtype=dtype)}


class Softmax(torch.autograd.Function):
    """As in the documentation."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
        (y,) = ctx.saved_tensors
        return y * (v - (v * y).sum(-1, keepdim=True))


class Linear(torch.autograd.Function):
    """Of the extending tutorial: an optional bias, and needs_input_grad."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        ctx.save_for_backward(x, w, b)
        return x @ w.T + (0 if b is None else b)

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> Any:
        x, w, b = ctx.saved_tensors
        dx = v @ w if ctx.needs_input_grad[0] else None
        dw = v.T @ x if ctx.needs_input_grad[1] else None
        db = v.sum(0) if b is not None and ctx.needs_input_grad[2] else None
        return dx, dw, db


class Exp(torch.autograd.Function):
    """setup_context, a forward mode, and vmap's rule generated."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: torch.Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
        return v * ctx.saved_tensors[0]

    @staticmethod
    def jvp(ctx: Any, u: torch.Tensor) -> torch.Tensor:
        return u * ctx.saved_tensors[0]


class Once(torch.autograd.Function):
    """NumPy inside, and said to be differentiable once."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.array = x.detach().numpy()
        return torch.from_numpy(np.sin(ctx.array))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
        return v * torch.from_numpy(np.cos(ctx.array))


class Scale(torch.autograd.Function):
    """An option that is no tensor gets None."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, factor: float, name: str) -> torch.Tensor:
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> Any:
        return v * ctx.factor, None, None


class Doubled(torch.autograd.Function):
    """Writes into its input, and says so."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
        return 2 * v


class Split(torch.autograd.Function):
    """Two outputs, gradients of which may be None."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> Any:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x)
        return x**2, torch.sin(x)

    @staticmethod
    def backward(ctx: Any, v: Any, w: Any) -> Any:
        (x,) = ctx.saved_tensors
        parts = [2 * x * v] if v is not None else []
        parts += [torch.cos(x) * w] if w is not None else []
        return sum(parts) if parts else None


class Flash(torch.autograd.Function):
    """Attention in blocks: the forward keeps the log-sum-exp alone, the backward forms the probabilities again."""

    @staticmethod
    def forward(ctx: Any, q: torch.Tensor, k: torch.Tensor, u: torch.Tensor) -> torch.Tensor:
        block, scale = 2, q.shape[-1] ** -0.5
        out = torch.zeros_like(q @ u.new_zeros(q.shape[-1], u.shape[-1]))
        largest = q.new_full((q.shape[0], 1), -torch.inf)
        total = q.new_zeros(q.shape[0], 1)
        for begin in range(0, k.shape[0], block):
            s = q @ k[begin : begin + block].T * scale
            new = torch.maximum(largest, s.amax(-1, keepdim=True))
            p = torch.exp(s - new)
            shrink = torch.exp(largest - new)
            total = total * shrink + p.sum(-1, keepdim=True)
            out = out * shrink + p @ u[begin : begin + block]
            largest = new
        out = out / total
        ctx.save_for_backward(q, k, u, out, largest + total.log())
        ctx.block, ctx.scale = block, scale
        return out

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> Any:
        q, k, u, out, lse = ctx.saved_tensors
        dq, dk, du = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(u)
        delta = (v * out).sum(-1, keepdim=True)
        for begin in range(0, k.shape[0], ctx.block):
            at = slice(begin, begin + ctx.block)
            p = torch.exp(q @ k[at].T * ctx.scale - lse)
            du[at] = p.T @ v
            ds = p * (v @ u[at].T - delta) * ctx.scale
            dq += ds @ k[at]
            dk[at] = ds.T @ q
        return dq, dk, du


def layer_norm_backward(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    r = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
    h = (x - x.mean(-1, keepdim=True)) * r
    return r * (v - v.mean(-1, keepdim=True) - h * (v * h).mean(-1, keepdim=True))


def np_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def np_softmax_backward(v: Any, x: Any) -> Any:
    y = np_softmax(x)
    return y * (v - (v * y).sum(-1, keepdims=True))


def seeded_linear() -> torch.nn.Linear:
    torch.manual_seed(0)
    return torch.nn.Linear(4, 3).double()


def seeded_network() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 2)).double()


def straight(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """A strided result: what the engine takes without a word."""
    return (v.T * torch.cos(x).T).T


def ties() -> dict[str, Any]:
    return {"x": torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)}


def tied_pair() -> dict[str, Any]:
    return {"x": torch.tensor([1.0, 2.0], dtype=torch.float64), "y": torch.tensor([1.0, 3.0], dtype=torch.float64)}


def qkv() -> dict[str, Any]:
    return {"q": randn(3, 4), "k": randn(5, 4, seed=1), "u": randn(5, 4, seed=2)}


MATMUL = function(torch.matmul, lambda v, x, a: (v @ a.T, x.T @ v))

CORRECT: tuple[Candidate, ...] = (
    # torch's own
    Candidate("tanh", torch.tanh, "tanh(x)", x34),
    Candidate("softmax", lambda x: torch.softmax(x, -1), "softmax(x, dim=-1)", x34),
    Candidate("matmul", torch.matmul, "x @ a", lambda: {"x": randn(2, 3), "a": randn(3, 4, seed=1)}),
    Candidate(
        "cross entropy",
        F.cross_entropy,
        "cross_entropy(z, t)",
        lambda: {"z": randn(3, 4), "t": torch.tensor([0, 2, 1])},
    ),
    Candidate("layer norm", lambda x: F.layer_norm(x, (4,)), "layer_norm(x)", x34),
    Candidate("conv1d", F.conv1d, "conv1d(x, w)", lambda: {"x": randn(1, 2, 6), "w": randn(2, 2, 3, seed=1)}),
    Candidate("conv2d", F.conv2d, "conv2d(x, w)", lambda: {"x": randn(1, 2, 4, 4), "w": randn(2, 2, 2, 2, seed=1)}),
    Candidate("logsumexp", lambda x: torch.logsumexp(x, 0), "logsumexp(x, dim=0)", x34),
    Candidate(
        "gather",
        lambda x, n: torch.gather(x, 1, n),
        "gather(x, 1, n)",
        lambda: {"x": randn(3, 4), "n": torch.tensor([[0, 1], [2, 2], [3, 0]])},
    ),
    Candidate(
        "solve",
        torch.linalg.solve,
        "solve(A, b)",
        lambda: {"A": randn(3, 3) + 3 * torch.eye(3, dtype=torch.float64), "b": randn(3, seed=1)},
    ),
    Candidate("attention", F.scaled_dot_product_attention, "scaled_dot_product_attention(q, k, u)", qkv),
    Candidate("sort", lambda x: torch.sort(x, -1).values, "sort(x).values", x34),
    Candidate("second order", torch.tanh, "tanh(x)", x34, (), {"order": 2}),
    # custom Functions
    Candidate("custom softmax", Softmax.apply, "softmax(x, dim=-1)", x34, (), {"order": 2}),
    Candidate("custom matmul", MATMUL, "x @ a", lambda: {"x": randn(3, 3), "a": randn(3, 3, seed=1)}, (), {"order": 2}),
    Candidate(
        "linear with bias",
        Linear.apply,
        "linear(x, w, b)",
        lambda: {"x": randn(4, 3), "w": randn(2, 3, seed=1), "b": randn(2, seed=2)},
    ),
    Candidate(
        "linear without bias",
        lambda x, w: Linear.apply(x, w, None),
        "x @ w.T",
        lambda: {"x": randn(4, 3), "w": randn(2, 3, seed=1)},
    ),
    Candidate("forward mode", Exp.apply, "exp(x)", x34, (), {"order": 2}),
    Candidate("once differentiable", Once.apply, "sin(x)", x34, (), {"order": 2}),
    Candidate("options", Scale.apply, "x * factor", lambda: {"x": randn(4), "factor": 2.5, "name": "scale"}),
    Candidate(
        "custom layer norm", function(lambda x: F.layer_norm(x, (4,)), layer_norm_backward), "layer_norm(x)", x34
    ),
    Candidate("flash attention", Flash.apply, "softmax(q @ k.T / 2, dim=-1) @ u", qkv),
    Candidate(
        "bias reduced",
        function(torch.add, lambda v, x, b: (v, v.sum(0))),
        "x + b",
        lambda: {"x": randn(4, 3), "b": randn(3, seed=1)},
    ),
    Candidate(
        "a gradient that is v itself",
        function(torch.add, lambda v, x, y: (v, v)),
        "x + y",
        lambda: {"x": randn(3), "y": randn(3, seed=1)},
    ),
    Candidate("an expanded gradient", function(lambda x: x.sum(), lambda v, x: v.expand(x.shape)), "x.sum()", x34),
    Candidate("trailing None", function(torch.exp, lambda v, x: (v * torch.exp(x), None)), "exp(x)", x34),
    Candidate(
        "None for a constant",
        function(lambda x, t: x * t, lambda v, x, t: (v * t, None)),
        "x * t",
        lambda: {"x": randn(3), "t": torch.tensor([1.0, 0.0, 1.0], dtype=torch.float64)},
        (),
        {"wrt": "x"},
    ),
    # kinks: anything legal
    Candidate("relu", torch.relu, "relu(x)", ties),
    Candidate("relu with 1 at 0", function(torch.relu, lambda v, x: v * (x >= 0)), "relu(x)", ties),
    Candidate(
        "relu with a half at 0", function(torch.relu, lambda v, x: v * ((x > 0) + 0.5 * (x == 0))), "relu(x)", ties
    ),
    Candidate(
        "maximum to the first",
        function(torch.maximum, lambda v, x, y: (v * (x >= y), v * (y > x))),
        "maximum(x, y)",
        tied_pair,
    ),
    Candidate("abs", torch.abs, "x.abs()", ties),
    Candidate(
        "amax at a tie",
        lambda x: x.amax(),
        "x.amax()",
        lambda: {"x": torch.tensor([1.0, 2.0, 2.0], dtype=torch.float64)},
    ),
    # memory
    Candidate("strided result", function(torch.sin, straight), "sin(x)", x34),
    Candidate("reshape", function(lambda x: x.reshape(-1), lambda v, x: v.reshape(x.shape)), "x.reshape(-1)", x34),
    Candidate(
        "asks for contiguous",
        function(lambda x: x.reshape(-1), lambda v, x: v.contiguous().view(x.shape)),
        "x.reshape(-1)",
        x34,
    ),
    Candidate("in place", lambda x: x.mul_(2), "2 * x", x34),
    Candidate("in place, marked", Doubled.apply, "2 * x", x34),
    Candidate("transposed input", torch.sin, "sin(x)", lambda: {"x": randn(4, 3).T}),
    # several outputs, modules, captured programs, nothing at all
    Candidate("two outputs", Split.apply, ["x ** 2", "sin(x)"], x34),
    Candidate("min and max", lambda x: (x.amin(1), x.amax(1)), ["x.amin(1)", "x.amax(1)"], x34),
    Candidate("a module", seeded_linear(), "linear(x, weight, bias)", x34),
    Candidate("a module, captured", seeded_network(), None, x34),
    Candidate(
        "a captured program", lambda x: torch.tanh(x) * x, capture(lambda x: torch.tanh(x) * x, randn(3, 4)), x34
    ),
    Candidate("nothing is known", Softmax.apply, None, x34),
    Candidate(
        "nothing is known of several",
        Linear.apply,
        None,
        lambda: {"x": randn(4, 3), "w": randn(2, 3, seed=1), "b": randn(2, seed=2)},
    ),
    # low precision
    Candidate("float32", torch.matmul, "x @ a", half(torch.float32)),
    Candidate("float16", torch.matmul, "x @ a", half(torch.float16)),
    Candidate("bfloat16", torch.matmul, "x @ a", half(torch.bfloat16)),
    Candidate(
        "custom softmax in float16",
        Softmax.apply,
        "softmax(x, dim=-1)",
        lambda: {"x": randn(4, 8, dtype=torch.float16)},
    ),
    Candidate(
        "custom softmax in bfloat16",
        Softmax.apply,
        "softmax(x, dim=-1)",
        lambda: {"x": randn(4, 8, dtype=torch.bfloat16)},
    ),
    Candidate(
        "custom layer norm in float32",
        function(lambda x: F.layer_norm(x, (4,)), layer_norm_backward),
        "layer_norm(x)",
        lambda: {"x": randn(3, 4, dtype=torch.float32)},
    ),
    Candidate(
        "flash attention in float32",
        Flash.apply,
        "softmax(q @ k.T / 2, dim=-1) @ u",
        lambda: {n: t.float() for n, t in qkv().items()},
    ),
    Candidate("cancellation in float32", torch.tanh, "tanh(x)", lambda: {"x": torch.tensor([1.0, 4.0, -6.0])}),
    Candidate(
        "cancellation, another way",
        function(torch.tanh, lambda v, x: v / torch.cosh(x) ** 2),
        "tanh(x)",
        lambda: {"x": torch.tensor([1.0, 17.0, -9.0], dtype=torch.float64)},
    ),
    # large enough that the basis is not tried
    Candidate("more than 64 outputs", Softmax.apply, "softmax(x, dim=-1)", lambda: {"x": randn(16, 32)}),
    Candidate("an empty tensor", Softmax.apply, "softmax(x, dim=-1)", lambda: {"x": randn(0, 4)}),
    Candidate("one number", torch.sin, "sin(x)", lambda: {"x": randn()}),
    # NumPy pairs
    Candidate("numpy: softmax", (np_softmax, np_softmax_backward), "softmax(x, dim=-1)", lambda: {"x": draws(3, 4)}),
    Candidate(
        "numpy: matmul",
        (lambda x, a: x @ a, lambda v, x, a: (v @ a.T, x.T @ v)),
        "x @ a",
        lambda: {"x": draws(2, 3), "a": draws(3, 4, seed=1)},
    ),
    Candidate(
        "numpy: float32",
        (lambda x: np.exp(x), lambda v, x: v * np.exp(x)),
        "exp(x)",
        lambda: {"x": draws(4).astype(np.float32)},
    ),
    Candidate(
        "numpy: several outputs",
        (lambda x: (np.sin(x), np.cos(x)), lambda v, x: v[0] * np.cos(x) - v[1] * np.sin(x)),
        ["sin(x)", "cos(x)"],
        lambda: {"x": draws(4)},
    ),
    Candidate("numpy: nothing is known", (np_softmax, np_softmax_backward), None, lambda: {"x": draws(3, 4)}),
)
