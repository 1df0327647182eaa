"""Backwards with one fault each, as people write them: on torch Functions and on plain NumPy pairs.

The seeded bugs are those of the threads that this tool was made for, and the slips of a derivation by hand. ``kinds``
are the names of the fault that a reader would call right.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.candidates import Candidate, draws, function, randn, with_ctx


def x34() -> dict[str, Any]:
    return {"x": randn(3, 4)}


def x33() -> dict[str, Any]:
    return {"x": randn(3, 3)}


def x5() -> dict[str, Any]:
    return {"x": randn(5)}


def xa() -> dict[str, Any]:
    return {"x": randn(3, 3), "a": randn(3, 3, seed=1)}


def xa34() -> dict[str, Any]:
    return {"x": randn(2, 3), "a": randn(3, 4, seed=1)}


def xb() -> dict[str, Any]:
    return {"x": randn(4, 3), "b": randn(3, seed=1)}


def positive() -> dict[str, Any]:
    return {"x": randn(3, 4).abs() + 0.5}


def linear() -> dict[str, Any]:
    return {"x": randn(4, 3), "w": randn(2, 3, seed=1), "b": randn(2, seed=2)}


def attention() -> dict[str, Any]:
    return {"q": randn(3, 3), "k": randn(3, 3, seed=1), "u": randn(3, 3, seed=2)}


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def matmul(x: Any, a: Any) -> Any:
    return x @ a


def frozen_weight() -> Any:
    """The weight's gradient is computed only if x needs one."""

    def forward(ctx: Any, x: Any, a: Any) -> Any:
        ctx.save_for_backward(x, a)
        return x @ a

    def backward(ctx: Any, v: Any) -> Any:
        x, a = ctx.saved_tensors
        return (v @ a.T, x.T @ v) if ctx.needs_input_grad[0] else (None, None)

    return with_ctx(forward, backward, "Frozen")


def ctx_path() -> Any:
    """What backward reads is kept on ctx."""

    def forward(ctx: Any, x: Any) -> Any:
        ctx.i = 2 * x
        return x**2

    return with_ctx(forward, lambda ctx, v: v * ctx.i, "Square")


def storage_read(forward: Any, backward: Any) -> Any:
    """A backward that reads v row by row from where its storage begins."""

    def reading(v: torch.Tensor, *saved: torch.Tensor) -> Any:
        stored = torch.tensor(v.untyped_storage(), dtype=torch.uint8).view(v.dtype)
        need = v.numel()
        stored = torch.cat([stored, stored.new_zeros(max(0, need - stored.numel()))])
        return backward(stored[:need].reshape(v.shape), *saved)

    return function(forward, reading, "Kernel")


def rng_backward(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return 2 * x * v * (1 + 1e-3 * torch.rand_like(x))


COUNT = {"calls": 0}


def counting(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    COUNT["calls"] += 1
    return 2 * x * v * (1.5 if COUNT["calls"] % 2 == 0 else 1.0)


def counted_anew() -> dict[str, Any]:
    COUNT["calls"] = 0
    return x5()


def raising(v: Any, x: Any) -> Any:
    raise KeyError("weight")


def printing(v: Any, x: Any) -> Any:
    print("grad", tuple(v.shape))
    return 2 * x * v


def layer_norm_backward(v: torch.Tensor, x: torch.Tensor, which: str) -> torch.Tensor:
    mean = x.mean(-1, keepdim=True)
    r = (x.var(-1, correction=0, keepdim=True) + 1e-5).rsqrt()
    h = (x - mean) * r
    if which == "no mean":
        return r * (v - h * (v * h).mean(-1, keepdim=True))
    if which == "no projection":
        return r * (v - v.mean(-1, keepdim=True))
    return r * v


def attention_forward(q: Any, k: Any, u: Any) -> Any:
    return torch.softmax(q @ k.T, -1) @ u


def attention_backward(v: Any, q: Any, k: Any, u: Any, which: str) -> Any:
    p = torch.softmax(q @ k.T, -1)
    dp = v @ u.T
    ds = p * (dp - (dp * p).sum(-1, keepdim=True))
    if which == "softmax elementwise":
        ds = p * (1 - p) * dp
    if which == "no row sum":
        ds = p * dp
    dq, dk, du = ds @ k, ds.T @ q, p.T @ v
    if which == "dk transposed":
        dk = ds @ q
    if which == "du transposed":
        du = p @ v
    if which == "swapped":
        dq, dk = dk, dq
    return dq, dk, du


def mlp_backward(v: Any, x: Any, w: Any, w2: Any, which: str) -> Any:
    h = torch.tanh(x @ w)
    dh = v @ w2.T
    dt = dh * (1 - h**2)
    if which == "no tanh":
        dt = dh
    if which == "tanh at the wrong place":
        dt = dh * (1 - (x @ w) ** 2)
    if which == "odd":
        dt = dh * (1 - h**2) + 0.1 * h
    return dt @ w.T, x.T @ dt, h.T @ v


def mlp() -> dict[str, Any]:
    return {"x": randn(3, 3), "w": randn(3, 3, seed=1), "w2": randn(3, 3, seed=2)}


MLP = "h = tanh(x @ w); h @ w2"


def mlp_forward(x: Any, w: Any, w2: Any) -> Any:
    return torch.tanh(x @ w) @ w2


def in_half(v: Any, x: Any, a: Any) -> Any:
    return (v.half() @ a.half().T).to(x.dtype), x.T @ v


def np_softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


FAULTS: tuple[Candidate, ...] = (
    # a transpose, somewhere
    Candidate("operand transposed", function(matmul, lambda v, x, a: (v @ a, x.T @ v)), "x @ a", xa, ("transposed",)),
    Candidate(
        "second operand transposed", function(matmul, lambda v, x, a: (v @ a.T, x @ v)), "x @ a", xa, ("transposed",)
    ),
    Candidate("v transposed", function(matmul, lambda v, x, a: (v.T @ a.T, x.T @ v)), "x @ a", xa, ("transposed",)),
    Candidate("result transposed", function(matmul, lambda v, x, a: (a @ v.T, x.T @ v)), "x @ a", xa, ("transposed",)),
    Candidate(
        "J instead of its transpose",
        function(lambda x: torch.cumsum(x, 0), lambda v, x: torch.cumsum(v, 0)),
        "cumsum(x, dim=0)",
        x5,
        ("transposed",),
    ),
    Candidate(
        "W@v for W.T@v",
        function(lambda W, x: W @ x, lambda v, W, x: (v[:, None] * x, W @ v)),
        "W @ x",
        lambda: {"W": randn(3, 3), "x": randn(3, seed=1)},
        ("transposed",),
    ),
    Candidate(
        "linear without its transpose",
        function(lambda x, w: x @ w.T, lambda v, x, w: (v @ w.T, v.T @ x)),
        "x @ w.T",
        lambda: {"x": randn(3, 3), "w": randn(3, 3, seed=1)},
        ("transposed",),
    ),
    Candidate(
        "bmm transposed",
        function(torch.bmm, lambda v, x, a: (v @ a, x.mT @ v)),
        "bmm(x, a)",
        lambda: {"x": randn(2, 3, 3), "a": randn(2, 3, 3, seed=1)},
        ("transposed",),
    ),
    Candidate(
        "solve without transpose",
        function(
            torch.linalg.solve,
            lambda v, A, b: (
                -torch.outer(torch.linalg.solve(A.T, v), torch.linalg.solve(A, b)),
                torch.linalg.solve(A, v),
            ),
        ),
        "solve(A, b)",
        lambda: {"A": randn(3, 3) + 3 * torch.eye(3, dtype=torch.float64), "b": randn(3, seed=1)},
        ("transposed",),
    ),
    Candidate(
        "inverse without transpose",
        function(torch.inverse, lambda v, A: -torch.inverse(A) @ v @ torch.inverse(A)),
        "inverse(A)",
        lambda: {"A": randn(3, 3) + 3 * torch.eye(3, dtype=torch.float64)},
        ("transposed",),
    ),
    # a factor
    Candidate(
        "twice",
        function(lambda W, x: W @ x, lambda v, W, x: (v[:, None] * x, 2 * (W.T @ v))),
        "W @ x",
        lambda: {"W": randn(2, 3), "x": randn(3, seed=1)},
        ("scaled",),
    ),
    Candidate("sign", function(torch.sub, lambda v, x, a: (v, v)), "x - a", xa, ("sign",)),
    Candidate(
        "sum for mean", function(lambda x: x.mean(), lambda v, x: v.expand(x.shape)), "x.mean()", x34, ("scaled",)
    ),
    Candidate(
        "mean over rows by columns",
        function(lambda x: x.mean(0), lambda v, x: (v / x.shape[1]).expand(x.shape)),
        "x.mean(0)",
        x34,
        ("scaled",),
    ),
    Candidate("square without its two", function(lambda x: x**2, lambda v, x: v * x), "x ** 2", x5, ("scaled",)),
    Candidate("bias by mean", function(torch.add, lambda v, x, b: (v, v.mean(0))), "x + b", xb, ("scaled",)),
    Candidate(
        "mse without its two",
        function(
            lambda x, y: ((x - y) ** 2).mean(), lambda v, x, y: (v * (x - y) / x.numel(), -v * (x - y) / x.numel())
        ),
        "mse_loss(x, y)",
        lambda: {"x": randn(3, 4), "y": randn(3, 4, seed=1)},
        ("scaled",),
    ),
    Candidate(
        "cross entropy without the mean",
        function(F.cross_entropy, lambda v, z, t: (v * (torch.softmax(z, 1) - F.one_hot(t, 4)), None)),
        "cross_entropy(z, t)",
        lambda: {"z": randn(3, 4), "t": torch.tensor([0, 2, 1])},
        ("scaled",),
    ),
    Candidate(
        "temperature forgotten",
        function(lambda q, k: q @ k.T / 2, lambda v, q, k: (v @ k, v.T @ q / 2)),
        "q @ k.T / 2",
        lambda: {"q": randn(3, 4), "k": randn(3, 4, seed=1)},
        ("scaled",),
    ),
    # v
    Candidate("ignores v", function(lambda x: x**2, lambda v, x: 2 * x), "x ** 2", x5, ("ignores_seed",)),
    Candidate("v summed", function(torch.exp, lambda v, x: v.sum() * torch.exp(x)), "exp(x)", x5, ("ignores_seed",)),
    Candidate(
        "ones for v",
        function(matmul, lambda v, x, a: (torch.ones_like(v) @ a.T, x.T @ v)),
        "x @ a",
        xa34,
        ("ignores_seed",),
    ),
    Candidate(
        "loss that ignores v",
        function(lambda x: (x**2).sum(), lambda v, x: 2 * x),
        "(x ** 2).sum()",
        x34,
        ("ignores_seed",),
    ),
    # an axis
    Candidate(
        "softmax along the other axis",
        function(softmax, lambda v, x: (lambda y: y * (v - (v * y).sum(0, keepdim=True)))(softmax(x))),
        "softmax(x, dim=-1)",
        x33,
        ("wrong_axis",),
    ),
    Candidate(
        "sum spread along the other axis",
        function(lambda x: x.sum(0), lambda v, x: v[:, None].expand(x.shape)),
        "x.sum(0)",
        x33,
        ("wrong_axis",),
    ),
    Candidate(
        "bias summed along the other axis",
        function(torch.add, lambda v, x, b: (v, v.sum(1))),
        "x + b",
        lambda: {"x": randn(3, 3), "b": randn(3, seed=1)},
        ("wrong_axis",),
    ),
    Candidate(
        "cumsum along the other axis",
        function(lambda x: torch.cumsum(x, 1), lambda v, x: v.flip(0).cumsum(0).flip(0)),
        "cumsum(x, dim=1)",
        x33,
        ("wrong_axis",),
    ),
    Candidate(
        "log_softmax along the other axis",
        function(lambda x: torch.log_softmax(x, 1), lambda v, x: v - torch.softmax(x, 1) * v.sum(0, keepdim=True)),
        "log_softmax(x, dim=1)",
        x33,
        ("wrong_axis",),
    ),
    # a term, a factor, a path
    Candidate(
        "softmax: mean for weighted mean",
        function(softmax, lambda v, x: softmax(x) * (v - v.mean(-1, keepdim=True))),
        "softmax(x, dim=-1)",
        x34,
        ("missing_factor",),
    ),
    Candidate(
        "softmax: elementwise",
        function(softmax, lambda v, x: (lambda y: y * (1 - y) * v)(softmax(x))),
        "softmax(x, dim=-1)",
        x34,
        ("elementwise",),
    ),
    Candidate(
        "softmax: no sum", function(softmax, lambda v, x: softmax(x) * v), "softmax(x, dim=-1)", x34, ("missing_term",)
    ),
    Candidate(
        "log_softmax: no sum",
        function(lambda x: torch.log_softmax(x, -1), lambda v, x: v - torch.softmax(x, -1) * v),
        "log_softmax(x, dim=-1)",
        x34,
        ("missing_term", "elementwise"),
    ),
    Candidate(
        "tanh: plus for minus",
        function(torch.tanh, lambda v, x: v * (1 + torch.tanh(x) ** 2)),
        "tanh(x)",
        x5,
        ("missing_term", "sign"),
    ),
    Candidate(
        "tanh: not squared",
        function(torch.tanh, lambda v, x: v * (1 - torch.tanh(x))),
        "tanh(x)",
        x5,
        ("missing_factor",),
    ),
    Candidate("tanh of x", function(torch.tanh, lambda v, x: v * (1 - x**2)), "tanh(x)", x5, ("wrong_operand",)),
    Candidate(
        "sigmoid: half of it",
        function(torch.sigmoid, lambda v, x: v * torch.sigmoid(x)),
        "sigmoid(x)",
        x5,
        ("missing_factor", "missing_term"),
    ),
    Candidate("exp: straight through", function(torch.exp, lambda v, x: v), "exp(x)", x5, ("missing_factor",)),
    Candidate(
        "silu: product rule halved",
        function(F.silu, lambda v, x: v * torch.sigmoid(x)),
        "silu(x)",
        x5,
        ("missing_term",),
    ),
    Candidate("product with itself", function(lambda x: x @ x, lambda v, x: v @ x.T), "x @ x", x33, ("missing_term",)),
    Candidate(
        "x * x with one use",
        function(lambda x: x * torch.exp(x), lambda v, x: v * torch.exp(x)),
        "x * exp(x)",
        x5,
        ("missing_term",),
    ),
    Candidate(
        "division's other half",
        function(torch.div, lambda v, x, y: (v / y, -v * x / y)),
        "x / y",
        lambda: {"x": randn(4), "y": randn(4, seed=1).abs() + 1},
        ("missing_factor",),
    ),
    Candidate("log: forgets to divide", function(torch.log, lambda v, x: v), "log(x)", positive, ("missing_factor",)),
    Candidate(
        "norm: forgets to divide",
        function(lambda x: x.norm(), lambda v, x: v * x),
        "norm(x)",
        x5,
        ("missing_factor", "scaled"),
    ),
    Candidate(
        "layer norm without the mean",
        function(lambda x: F.layer_norm(x, x.shape[-1:]), lambda v, x: layer_norm_backward(v, x, "no mean")),
        "layer_norm(x)",
        x34,
        ("missing_term",),
    ),
    Candidate(
        "layer norm without the projection",
        function(lambda x: F.layer_norm(x, x.shape[-1:]), lambda v, x: layer_norm_backward(v, x, "no projection")),
        "layer_norm(x)",
        x34,
        ("missing_term",),
    ),
    Candidate(
        "layer norm: statistics as constants",
        function(lambda x: F.layer_norm(x, x.shape[-1:]), lambda v, x: layer_norm_backward(v, x, "constants")),
        "layer_norm(x)",
        x34,
        ("missing_term", "missing_path"),
    ),
    Candidate(
        "attention: softmax elementwise",
        function(attention_forward, lambda v, q, k, u: attention_backward(v, q, k, u, "softmax elementwise")),
        "softmax(q @ k.T, dim=-1) @ u",
        attention,
        ("elementwise",),
    ),
    Candidate(
        "attention: no row sum",
        function(attention_forward, lambda v, q, k, u: attention_backward(v, q, k, u, "no row sum")),
        "softmax(q @ k.T, dim=-1) @ u",
        attention,
        ("missing_term",),
    ),
    Candidate(
        "attention: dk",
        function(attention_forward, lambda v, q, k, u: attention_backward(v, q, k, u, "dk transposed")),
        "softmax(q @ k.T, dim=-1) @ u",
        attention,
        ("transposed",),
    ),
    Candidate(
        "attention: du",
        function(attention_forward, lambda v, q, k, u: attention_backward(v, q, k, u, "du transposed")),
        "softmax(q @ k.T, dim=-1) @ u",
        attention,
        ("transposed",),
    ),
    Candidate(
        "attention: dq and dk swapped",
        function(attention_forward, lambda v, q, k, u: attention_backward(v, q, k, u, "swapped")),
        "softmax(q @ k.T, dim=-1) @ u",
        attention,
        ("swapped",),
    ),
    Candidate(
        "mlp: no tanh",
        function(mlp_forward, lambda v, x, w, w2: mlp_backward(v, x, w, w2, "no tanh")),
        MLP,
        mlp,
        ("missing_factor",),
    ),
    Candidate(
        "mlp: tanh of the wrong tensor",
        function(mlp_forward, lambda v, x, w, w2: mlp_backward(v, x, w, w2, "tanh at the wrong place")),
        MLP,
        mlp,
        ("wrong_operand",),
    ),
    Candidate(
        "mlp: an odd line",
        function(mlp_forward, lambda v, x, w, w2: mlp_backward(v, x, w, w2, "odd")),
        MLP,
        mlp,
        ("wrong_line",),
    ),
    Candidate(
        "no gradient for the weight",
        function(lambda x, w, b: x @ w.T + b, lambda v, x, w, b: (v @ w, None, v.sum(0))),
        "linear(x, w, b)",
        linear,
        ("missing_path",),
    ),
    Candidate(
        "zeros", function(softmax, lambda v, x: torch.zeros_like(x)), "softmax(x, dim=-1)", x34, ("missing_path",)
    ),
    Candidate("detached", lambda x: (x**2).detach(), "x ** 2", x5, ("missing_path",)),
    Candidate(
        "one path detached", lambda x: x * torch.tanh(x).detach(), "x * tanh(x)", x5, ("missing_term", "missing_path")
    ),
    Candidate("swapped", function(torch.mul, lambda v, x, a: (v * x, v * a)), "x * a", xa, ("swapped",)),
    # kinks
    Candidate(
        "relu: 2 at 0",
        function(torch.relu, lambda v, x: v * ((x > 0) + 2.0 * (x == 0))),
        "relu(x)",
        lambda: {"x": torch.tensor([-1.0, 0.0, 2.0], dtype=torch.float64)},
        ("kink",),
    ),
    Candidate(
        "maximum: nobody at a tie",
        function(torch.maximum, lambda v, x, y: (v * (x > y), v * (y > x))),
        "maximum(x, y)",
        lambda: {
            "x": torch.tensor([1.0, 2.0], dtype=torch.float64),
            "y": torch.tensor([1.0, 3.0], dtype=torch.float64),
        },
        ("kink",),
    ),
    # precision
    Candidate(
        "computed in half",
        function(matmul, in_half),
        "x @ a",
        lambda: {"x": randn(3, 4, dtype=torch.float32), "a": randn(4, 2, seed=1, dtype=torch.float32)},
        ("precision",),
    ),
    Candidate(
        "computed in float32",
        function(torch.exp, lambda v, x: (v.float() * torch.exp(x.float())).double()),
        "exp(x)",
        x5,
        ("precision",),
    ),
    # the raw contract
    Candidate("unreduced bias", function(torch.add, lambda v, x, b: (v, v)), "x + b", xb, ("unreduced",)),
    Candidate(
        "unreduced scalar",
        function(lambda x, s: x * s, lambda v, x, s: (v * s, v * x)),
        "x * s",
        lambda: {"x": randn(3), "s": randn(1, seed=1)},
        ("unreduced",),
    ),
    Candidate("too few", function(torch.add, lambda v, x, b: v), "x + b", xb, ("arity",)),
    Candidate("too many", function(torch.exp, lambda v, x: (v * torch.exp(x), v)), "exp(x)", x5, ("arity",)),
    Candidate("another shape", function(lambda x: x.T, lambda v, x: v), "x.T", x34, ("shape",)),
    Candidate(
        "another type",
        function(torch.exp, lambda v, x: (v * torch.exp(x)).double()),
        "exp(x)",
        lambda: {"x": randn(4, dtype=torch.float32)},
        ("dtype",),
    ),
    Candidate("raises", function(torch.exp, raising), "exp(x)", x5, ("raises",)),
    Candidate(
        "nan",
        function(lambda x: x**2, lambda v, x: torch.where(x == x[1], torch.nan, 2 * x * v)),
        "x ** 2",
        x5,
        ("not_finite",),
    ),
    Candidate("prints", function(lambda x: x**2, printing), "x ** 2", x5, ("prints",)),
    Candidate("another forward", torch.cos, "sin(x)", x5, ("forward",)),
    # memory
    Candidate(
        "reads v as if contiguous", storage_read(torch.exp, lambda v, x: v * torch.exp(x)), "exp(x)", x34, ("layout",)
    ),
    Candidate(
        "matmul that reads v as if contiguous",
        storage_read(matmul, lambda v, x, a: (v @ a.T, x.T @ v)),
        "x @ a",
        xa34,
        ("layout",),
    ),
    Candidate(
        "only stride 0 is wrong",
        function(torch.exp, lambda v, x: v * torch.exp(x) if 0 not in v.stride() else 2 * v * torch.exp(x)),
        "exp(x)",
        x34,
        ("layout",),
    ),
    Candidate(
        "view of a strided v",
        function(
            lambda x: x.reshape(-1),
            lambda v, x: v.view(-1)[: x.numel()].view(x.shape) if v.is_contiguous() else v.flip(0).reshape(x.shape),
        ),
        "x.reshape(-1)",
        x34,
        ("layout",),
    ),
    Candidate("mutates v", function(lambda x: 3 * x, lambda v, x: v.mul_(3)), "3 * x", x34, ("mutates_seed",)),
    Candidate(
        "mutates a saved tensor", function(lambda x: x**2, lambda v, x: x.mul_(2) * v), "x ** 2", x5, ("mutates_input",)
    ),
    Candidate(
        "forward writes into x",
        function(lambda x: x.data.mul_(2).clone() / 2 * 1.0, lambda v, x: v),
        "x * 1",
        x5,
        ("mutates_input",),
    ),
    Candidate("random", function(lambda x: x**2, rng_backward), "x ** 2", x5, ("nondeterministic",)),
    Candidate(
        "another answer every second time",
        function(lambda x: x**2, counting),
        "x ** 2",
        counted_anew,
        ("nondeterministic",),
    ),
    # masks, second order, forward mode
    Candidate("weight only if x needs one", frozen_weight(), "x @ a", xa34, ("mask",)),
    Candidate("kept on ctx", ctx_path(), "x ** 2", x5, ("double_backward",), {"order": 2}),
    # NumPy pairs
    Candidate(
        "numpy: softmax without sum",
        (np_softmax, lambda v, x: np_softmax(x) * v),
        "softmax(x, dim=-1)",
        lambda: {"x": draws(3, 4)},
        ("missing_term",),
    ),
    Candidate(
        "numpy: transposed",
        (matmul, lambda v, x, a: (v @ a, x.T @ v)),
        "x @ a",
        lambda: {"x": draws(3, 3), "a": draws(3, 3, seed=1)},
        ("transposed",),
    ),
    Candidate(
        "numpy: unreduced",
        (lambda x, b: x + b, lambda v, x, b: (v, v)),
        "x + b",
        lambda: {"x": draws(4, 3), "b": draws(3, seed=1)},
        ("unreduced",),
    ),
    Candidate(
        "numpy: ignores v",
        (lambda x: np.sin(x), lambda v, x: np.cos(x)),
        "sin(x)",
        lambda: {"x": draws(4)},
        ("ignores_seed",),
    ),
    Candidate(
        "numpy: sign", (lambda x: np.cos(x), lambda v, x: v * np.sin(x)), "cos(x)", lambda: {"x": draws(4)}, ("sign",)
    ),
    Candidate(
        "numpy: writes into v",
        (lambda x: 2 * x, lambda v, x: np.multiply(v, 2, out=v)),
        "2 * x",
        lambda: {"x": draws(4)},
        ("mutates_seed",),
    ),
    Candidate(
        "numpy: too few",
        (lambda x, b: x + b, lambda v, x, b: v),
        "x + b",
        lambda: {"x": draws(3), "b": draws(3, seed=1)},
        ("arity",),
    ),
    Candidate(
        "numpy: raises",
        (lambda x: np.exp(x), lambda v, x: v * np.exp(x)[7]),
        "exp(x)",
        lambda: {"x": draws(4)},
        ("raises",),
    ),
    Candidate(
        "numpy: divides by n",
        (lambda x: x.sum(0), lambda v, x: np.broadcast_to(v / x.shape[0], x.shape)),
        "x.sum(0)",
        lambda: {"x": draws(3, 4)},
        ("scaled",),
    ),
    Candidate(
        "numpy: memory order of v",
        (lambda x: np.exp(x), lambda v, x: v.ravel(order="K").reshape(v.shape) * np.exp(x)),
        "exp(x)",
        lambda: {"x": draws(3, 4)},
        ("layout",),
    ),
)
