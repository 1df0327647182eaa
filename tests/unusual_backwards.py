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
    Candidate("vmapped", torch.vmap(lambda x: torch.softmax(x, -1)), "softmax(x, -1)", x34),
)  # fmt: skip
