"""Backwards whose slip had no name at first: off by one, a mask forgotten, a cache, other axes, a factor of one number.

Beside them right ones of as many kinds: in blocks, strided, of several outputs, modules, low precision, at ties.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from tests.candidates import DOUBLE, Candidate, function, randn, with_ctx

ATTENTION = "softmax((q @ k.T / 2).masked_fill(torch.ones(4, 4).tril() == 0, float('-inf')), -1) @ w"
BELOW = torch.ones(4, 4).tril() == 0


def attention(q: Any, k: Any, w: Any) -> Any:
    return torch.softmax((q @ k.T / 2).masked_fill(BELOW, -math.inf), -1) @ w


def attention_backward(masked: bool) -> Callable[..., Any]:
    """With the probabilities computed again."""

    def back(v: Any, q: Any, k: Any, w: Any) -> Any:
        p = torch.softmax((q @ k.T / 2).masked_fill(BELOW & masked, -math.inf), -1)
        v_p = v @ w.T
        v_s = p * (v_p - (v_p * p).sum(-1, keepdim=True)) / 2
        return v_s @ k, v_s.T @ q, p.T @ v

    return back


def in_blocks(v: Any, q: Any, k: Any, w: Any) -> Any:
    """Two keys at a time, as flash attention does."""
    s = (q @ k.T / 2).masked_fill(BELOW, -math.inf)
    p = torch.softmax(s, -1)
    rows = (v * (p @ w)).sum(-1, keepdim=True)
    v_q, v_k, v_w = (torch.zeros_like(t) for t in (q, k, w))
    for j in range(0, len(k), 2):
        block = p[:, j : j + 2]
        v_s = block * (v @ w[j : j + 2].T - rows) / 2
        v_w[j : j + 2] += block.T @ v
        v_k[j : j + 2] += v_s.T @ q
        v_q += v_s @ k[j : j + 2]
    return v_q, v_k, v_w


def convolution_backward(by: int) -> Callable[..., Any]:
    def back(v: Any, x: Any, w: Any) -> Any:
        v_x = nn.grad.conv2d_input(x.shape, w, v, padding=1)  # type: ignore[no-untyped-call]  # torch's gap
        return v_x.roll(by, -1), nn.grad.conv2d_weight(x, w.shape, v, padding=1)  # type: ignore[no-untyped-call]  # torch's gap

    return back


def first_row(v: Any, x: Any, w: Any) -> Any:
    g = v * (1 - torch.tanh(x @ w) ** 2)
    return g @ w.T, x[:1].T @ g[:1]


KEPT: list[Any] = []


def cached(ctx: Any, x: Any) -> Any:
    """What the last call was given is kept, wherever."""
    KEPT.append(x.detach().clone())
    return x.sin()


def from_the_cache(ctx: Any, v: Any) -> Any:
    return v * KEPT[-1].cos()


def wasteful(v: Any, x: Any, w: Any) -> Any:
    """One unit of the last place too much, everywhere."""
    return v * (1 + 2**-10) @ w.T, x.T @ v


def square() -> dict[str, Any]:
    return {"q": randn(4, 4), "k": randn(4, 4, seed=1), "w": randn(4, 3, seed=2)}


def image() -> dict[str, Any]:
    return {"x": randn(2, 3, 4, 4), "w": randn(2, 3, 3, 3, seed=1)}


def biased() -> dict[str, Any]:
    return {"x": randn(2, 3, 4, 3), "b": randn(3, seed=1)}


def x34() -> dict[str, Any]:
    return {"x": randn(3, 4)}


def layer() -> dict[str, Any]:
    return {"x": randn(3, 4), "w": randn(4, 2, seed=1)}


def half() -> dict[str, Any]:
    return {"x": randn(3, 4, dtype=torch.float16), "w": randn(4, 2, seed=1, dtype=torch.float16)}


def regular() -> dict[str, Any]:
    return {"x": randn(3, 3) + 3 * torch.eye(3, dtype=DOUBLE)}


def tied() -> dict[str, Any]:
    return {"x": torch.tensor([1.0, 3.0, 3.0], dtype=DOUBLE)}


def taken() -> dict[str, Any]:
    return {"x": randn(3, 4), "n": torch.tensor([[0, 0], [1, 3], [2, 2]])}


def with_bias(x: Any, b: Any) -> Any:
    return x + b[None, :, None, None]


def row(by: tuple[int, ...]) -> Callable[..., Any]:
    return function(with_bias, lambda v, x, b: (v, v.sum(by)))


def padded(x: Any) -> Any:
    return F.pad(x, (1, 0))


def convolved(x: Any, w: Any) -> Any:
    return F.conv2d(x, w, padding=1)


def elementwise(forward: Callable[..., Any], slope: Callable[..., Any]) -> Any:
    """A function of each entry, whose backward multiplies v with ``slope``."""
    return function(forward, lambda v, x: v * slope(x))


def slope_of(forward: Callable[..., Any]) -> Callable[..., Any]:
    """By torch."""

    def slope(x: Any) -> Any:
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            return torch.autograd.grad(forward(leaf).sum(), leaf)[0]

    return slope


def turned(x: Any, c: Any, s: Any, back: int = 1) -> Any:
    """Rotary positions; ``back`` −1 turns the other way."""
    a, b = x.chunk(2, -1)
    return torch.cat([a * c - back * b * s, b * c + back * a * s], -1)


ROTARY = "cat([x[..., :2] * c - x[..., 2:] * s, x[..., 2:] * c + x[..., :2] * s], -1)"
RMS = "x * torch.rsqrt((x ** 2).mean(-1, keepdim=True) + 1e-06) * w"


def rms(x: Any, w: Any) -> Any:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def rms_backward(v: Any, x: Any, w: Any, average: bool = True) -> Any:
    r = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    n, g = x * r, v * w
    return r * (g - n * (g * n).sum(-1, keepdim=True) / (x.shape[-1] if average else 1)), (v * n).sum(0)


def groups(x: Any, w: Any) -> Any:
    """By view, which refuses what is not contiguous."""
    g = x.view(2, 2, -1)
    return ((g - g.mean(-1, keepdim=True)) / (g.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()).view(2, 4, 3) * w


def lora_backward(v: Any, x: Any, a: Any, b: Any, factor: float = 2.0) -> Any:
    return 2 * v @ b @ a, 2 * (v @ b).T @ x, factor * v.T @ (x @ a.T)


def in_chunks(ctx: Any, h: Any, w: Any, y: Any) -> Any:
    """Cross entropy two rows at a time, its gradients made in the forward pass."""
    v_h, v_w, loss = torch.empty_like(h), torch.zeros_like(w), h.new_zeros(())
    for i in range(0, len(h), 2):
        z, rows = h[i : i + 2] @ w.T, y[i : i + 2]
        v_z = torch.softmax(z, -1) - F.one_hot(rows, len(w))
        loss = loss + F.cross_entropy(z, rows, reduction="sum")
        v_h[i : i + 2] = v_z @ w
        v_w += v_z.T @ h[i : i + 2]
    ctx.save_for_backward(v_h / len(h), v_w / len(h))
    return loss / len(h)


def of_chunks(ctx: Any, v: Any) -> Any:
    v_h, v_w = ctx.saved_tensors
    return v * v_h, v * v_w, None


def rotary() -> dict[str, Any]:
    angles = randn(3, 2, seed=1)
    return {"x": randn(2, 3, 4), "c": angles.cos(), "s": angles.sin()}


def weighted_rows() -> dict[str, Any]:
    return {"x": randn(3, 4), "w": randn(4, seed=1)}


def low_rank() -> dict[str, Any]:
    return {"x": randn(3, 4), "a": randn(2, 4, seed=1), "b": randn(3, 2, seed=2)}


def head() -> dict[str, Any]:
    return {"h": randn(5, 3), "w": randn(4, 3, seed=1), "y": torch.tensor([0, 2, 1, 1, 0])}


UNUSUAL_WRONG = (
    Candidate("conv2d: columns off by one", function(convolved, convolution_backward(1)), "conv2d(x, w, padding=1)", image, ("shifted",)),
    Candidate("pad: cropped on the wrong side", function(padded, lambda v, x: v[:, :-1]), "pad(x, (1, 0))", x34, ("shifted",)),
    Candidate("attention: computed again without its mask", function(attention, attention_backward(False)), ATTENTION, square, ("missing_step",)),
    Candidate("bias of an image: summed along other axes", row((0, 1, 2)), "x + b[None, :, None, None]", biased, ("wrong_axis",)),
    Candidate("norm: not divided", function(lambda x: x.norm(), lambda v, x: v * x), "x.norm()", lambda: {"x": randn(4)}, ("scaled", "missing_factor")),
    Candidate("det: without det", function(torch.det, lambda v, x: v * torch.inverse(x).T), "torch.det(x)", regular, ("scaled", "missing_factor")),
    Candidate("a cache of the last call", with_ctx(cached, from_the_cache), "x.sin()", lambda: {"x": randn(3)}, ("nondeterministic",)),
    Candidate("weight: of the first row alone", function(lambda x, w: torch.tanh(x @ w), first_row), "tanh(x @ w)", layer, ("overwritten",)),
    Candidate("dropout without a seed", lambda x: F.dropout(x, 0.5), None, x34, ("nondeterministic",)),
    Candidate("half: an ulp too much", function(torch.matmul, wasteful), "x @ w", half, ("precision",)),
    Candidate("relu: leaks", elementwise(F.relu, lambda x: torch.where(x > 0, torch.ones_like(x), 0.01)), "relu(x)", x34, ("wrong_operation",)),
    Candidate("softplus: times tanh", elementwise(F.softplus, torch.tanh), "softplus(x)", x34, ("wrong_operation",)),
    Candidate("gelu: by its tanh form", elementwise(F.gelu, slope_of(lambda x: F.gelu(x, approximate="tanh"))), "gelu(x)", x34, ("wrong_option",)),
    Candidate("hardswish: by silu", elementwise(F.hardswish, slope_of(F.silu)), "hardswish(x)", x34, ("wrong_operation",)),
    Candidate("layer: hardswish by silu", function(lambda x, w: F.hardswish(x @ w), lambda v, x, w: ((v * slope_of(F.silu)(x @ w)) @ w.T, x.T @ (v * slope_of(F.silu)(x @ w)))), "hardswish(x @ w)", layer, ("wrong_operation",)),
    Candidate("max_pool: v to the whole window", function(lambda x: F.max_pool1d(x, 2), lambda v, x: v.repeat_interleave(2, -1)), "max_pool1d(x, 2)", lambda: {"x": randn(1, 2, 6)}, ("wrong_operation",)),
    Candidate("rotary: turned the same way", function(turned, lambda v, x, c, s: (turned(v, c, s), None, None)), ROTARY, rotary, ("transposed",), {"wrt": ["x"]}),
    Candidate("rms norm: a sum for a mean", function(rms, lambda v, x, w: rms_backward(v, x, w, False)), RMS, weighted_rows, ("missing_factor",)),
    Candidate("lora: the scale of b", function(lambda x, a, b: 2 * (x @ a.T) @ b.T, lambda v, x, a, b: lora_backward(v, x, a, b, 1.0)), "2 * (x @ a.T) @ b.T", low_rank, ("scaled",)),
    Candidate("permuted the same way", function(lambda x: x.permute(1, 2, 0), lambda v, x: v.permute(1, 2, 0)), "x.permute(1, 2, 0)", lambda: {"x": randn(3, 3, 3)}, ("transposed",)),
)  # fmt: skip
UNUSUAL_RIGHT = (
    Candidate("masked attention, computed again", function(attention, attention_backward(True)), ATTENTION, square),
    Candidate("masked attention in blocks", function(attention, in_blocks), ATTENTION, square),
    Candidate("masked attention in blocks, without a text", function(attention, in_blocks), None, square),
    Candidate("conv2d by torch's grad", function(convolved, convolution_backward(0)), "conv2d(x, w, padding=1)", image),
    Candidate("bias of an image", row((0, 2, 3)), "x + b[None, :, None, None]", biased),
    Candidate("half: a product", function(torch.matmul, lambda v, x, w: (v @ w.T, x.T @ v)), "x @ w", half),
    Candidate("gives back an expanded v", function(lambda x: x.sum(0), lambda v, x: v.expand(3, 4)), "x.sum(0)", x34),
    Candidate("gives back v itself, twice", function(torch.add, lambda v, x, y: (v, v)), "x + y", lambda: {"x": randn(3), "y": randn(3, seed=1)}),
    Candidate("largest: shared at a tie", function(lambda x: x.max(), lambda v, x: v * (x == x.max()) / (x == x.max()).sum()), "x.max()", tied),
    Candidate("largest: the first at a tie", function(lambda x: x.max(), lambda v, x: v * F.one_hot(x.argmax(), 3)), "x.max()", tied),
    Candidate("gathered twice", function(lambda x, n: x.gather(1, n), lambda v, x, n: (torch.zeros_like(x).scatter_add(1, n, v), None)), "x.gather(1, n)", taken, options={"wrt": ["x"]}),
    Candidate("sine and cosine at once", function(lambda x: (x.sin(), x.cos()), lambda a, b, x: a * x.cos() - b * x.sin()), None, lambda: {"x": randn(3)}),
    Candidate("batch norm in training", nn.BatchNorm1d(4).double(), None, x34),
    Candidate("torch's LSTM cell", nn.LSTMCell(3, 2).double(), None, lambda: {"x": randn(2, 3)}),
    Candidate("an empty batch", function(torch.sin, lambda v, x: v * x.cos()), "x.sin()", lambda: {"x": randn(0, 3)}),
    Candidate("rotary", function(turned, lambda v, x, c, s: (turned(v, c, s, -1), None, None)), ROTARY, rotary, options={"wrt": ["x"]}),
    Candidate("rms norm", function(rms, rms_backward), RMS, weighted_rows),
    Candidate("groups by view", groups, None, lambda: {"x": randn(2, 4, 3), "w": randn(4, 1, seed=1)}),
    Candidate("lora", function(lambda x, a, b: 2 * (x @ a.T) @ b.T, lora_backward), "2 * (x @ a.T) @ b.T", low_rank),
    Candidate("cross entropy in chunks", with_ctx(in_chunks, of_chunks), "cross_entropy(h @ w.T, y)", head),
    Candidate("two outputs of one text", function(lambda x: tuple(p.clone() for p in x.chunk(2, -1)), lambda v, w, x: torch.cat([v, w], -1)), "x.chunk(2, -1)", x34),
    Candidate("vmapped", torch.vmap(lambda x: torch.softmax(x, -1)), "softmax(x, -1)", x34),
)  # fmt: skip
