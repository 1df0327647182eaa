"""Backwards as authors of kernels write them: whole layers, each right, and with one fault.

``RIGHT`` and ``WRONG`` were written before the tool was run on them; ``kinds`` are names a reader would call right.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from tests.candidates import Candidate, draws, function, randn, with_ctx

EPS = 1e-3


def rms_inputs() -> dict[str, Any]:
    return {"x": randn(3, 4), "w": randn(4, seed=1)}


def x34() -> dict[str, Any]:
    return {"x": randn(3, 4)}


def gated() -> dict[str, Any]:
    return {"a": randn(3, 4), "b": randn(3, 4, seed=1)}


def labelled() -> dict[str, Any]:
    return {"z": randn(4, 3), "t": torch.tensor([0, 2, 1, 2])}


def turned() -> dict[str, Any]:
    angle = randn(3, 4, seed=5)
    return {"x": randn(3, 4), "c": torch.cos(angle), "s": torch.sin(angle)}


def qkv() -> dict[str, Any]:
    return {"q": randn(3, 4), "k": randn(5, 4, seed=1), "u": randn(5, 2, seed=2)}


def image() -> dict[str, Any]:
    return {"x": randn(2, 2, 4, 4), "w": randn(3, 2, 2, 2, seed=1)}


def affine() -> dict[str, Any]:
    return {"x": randn(4, 3), "w": randn(2, 3, seed=1), "b": randn(2, seed=2)}


def rows() -> dict[str, Any]:
    return {"w": randn(5, 3), "n": torch.tensor([[1, 3], [1, 4]])}


# layer norm


def layer(backward: Callable[..., Any]) -> Any:
    """A layer norm with weight and bias; ``backward(v, xh, r, w)``."""

    def forward(ctx: Any, x: Any, w: Any, b: Any) -> Any:
        r = torch.rsqrt(x.var(-1, keepdim=True, correction=0) + EPS)
        xh = (x - x.mean(-1, keepdim=True)) * r
        ctx.save_for_backward(xh, r, w)
        return xh * w + b

    return with_ctx(forward, lambda ctx, v: backward(v, *ctx.saved_tensors), "LayerNorm")


def layer_right(v: Any, xh: Any, r: Any, w: Any) -> Any:
    g = v * w
    dx = r * (g - g.mean(-1, keepdim=True) - xh * (g * xh).mean(-1, keepdim=True))
    return dx, (v * xh).sum(0), v.sum(0)


def layer_without_mean(v: Any, xh: Any, r: Any, w: Any) -> Any:
    g = v * w
    return r * (g - xh * (g * xh).mean(-1, keepdim=True)), (v * xh).sum(0), v.sum(0)


def layer_without_projection(v: Any, xh: Any, r: Any, w: Any) -> Any:
    g = v * w
    return r * (g - g.mean(-1, keepdim=True)), (v * xh).sum(0), v.sum(0)


def layer_without_weight(v: Any, xh: Any, r: Any, w: Any) -> Any:
    dx = r * (v - v.mean(-1, keepdim=True) - xh * (v * xh).mean(-1, keepdim=True))
    return dx, (v * xh).sum(0), v.sum(0)


def layer_swapped(v: Any, xh: Any, r: Any, w: Any) -> Any:
    dx, dw, db = layer_right(v, xh, r, w)
    return dx, db, dw


def layer_no_r(v: Any, xh: Any, r: Any, w: Any) -> Any:
    g = v * w
    return g - g.mean(-1, keepdim=True) - xh * (g * xh).mean(-1, keepdim=True), (v * xh).sum(0), v.sum(0)


def layer_bessel(v: Any, xh: Any, r: Any, w: Any) -> Any:
    g, n = v * w, v.shape[-1]
    dx = r * (g - g.mean(-1, keepdim=True) - xh * (g * xh).sum(-1, keepdim=True) / (n - 1))
    return dx, (v * xh).sum(0), v.sum(0)


def layer_weight_by_x(v: Any, xh: Any, r: Any, w: Any) -> Any:
    dx, _, db = layer_right(v, xh, r, w)
    return dx, (v * xh / r).sum(0), db


# rms norm


def rms(backward: Callable[..., Any]) -> Any:
    """An RMS norm; ``backward(v, x, w, r)``."""

    def forward(ctx: Any, x: Any, w: Any) -> Any:
        r = torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS)
        ctx.save_for_backward(x, w, r)
        return x * r * w

    return with_ctx(forward, lambda ctx, v: backward(v, *ctx.saved_tensors), "RMSNorm")


RMS = "x * rsqrt((x * x).mean(-1, keepdim=True) + 0.001) * w"


def rms_right(v: Any, x: Any, w: Any, r: Any) -> Any:
    g = v * w
    return r * g - x * r**3 * (g * x).mean(-1, keepdim=True), (v * x * r).sum(0)


def rms_square(v: Any, x: Any, w: Any, r: Any) -> Any:
    g = v * w
    return r * g - x * r**2 * (g * x).mean(-1, keepdim=True), (v * x * r).sum(0)


def rms_sum(v: Any, x: Any, w: Any, r: Any) -> Any:
    g = v * w
    return r * g - x * r**3 * (g * x).sum(-1, keepdim=True), (v * x * r).sum(0)


def rms_plus(v: Any, x: Any, w: Any, r: Any) -> Any:
    g = v * w
    return r * g + x * r**3 * (g * x).mean(-1, keepdim=True), (v * x * r).sum(0)


def rms_eps_outside(v: Any, x: Any, w: Any, r: Any) -> Any:
    r = 1 / (torch.sqrt((x * x).mean(-1, keepdim=True)) + EPS)
    return rms_right(v, x, w, r)


def rms_unreduced(v: Any, x: Any, w: Any, r: Any) -> Any:
    return rms_right(v, x, w, r)[0], v * x * r


# softmax, logsumexp


def soft_mean(v: Any, x: Any) -> Any:
    y = torch.softmax(x, -1)
    return y * (v - (v * y).mean(-1, keepdim=True))


def soft_axis(v: Any, x: Any) -> Any:
    y = torch.softmax(x, -1)
    return y * (v - (v * y).sum(0, keepdim=True))


def soft_unweighted(v: Any, x: Any) -> Any:
    y = torch.softmax(x, -1)
    return y * (v - v.sum(-1, keepdim=True))


def soft_right(v: Any, x: Any) -> Any:
    y = torch.softmax(x, -1)
    return y * (v - (v * y).sum(-1, keepdim=True))


def soft_inplace(v: Any, x: Any) -> Any:
    y = torch.softmax(x, -1)
    v -= (v * y).sum(-1, keepdim=True)
    return y * v


def soft_flat(v: Any, x: Any) -> Any:
    """Reads v by its own idea of the strides."""
    y = torch.softmax(x, -1)
    v = torch.as_strided(v, v.shape, (v.shape[1], 1), 0)
    return y * (v - (v * y).sum(-1, keepdim=True))


def softmax(x: Any) -> Any:
    return torch.softmax(x, -1)


def log_soft_right(v: Any, x: Any) -> Any:
    return v - torch.softmax(x, -1) * v.sum(-1, keepdim=True)


def log_soft_no_sum(v: Any, x: Any) -> Any:
    return v - torch.softmax(x, -1) * v


# rotary


def rotate(x: Any) -> Any:
    half = x.shape[-1] // 2
    return torch.cat([-x[..., half:], x[..., :half]], -1)


def unrotate(x: Any) -> Any:
    half = x.shape[-1] // 2
    return torch.cat([x[..., half:], -x[..., :half]], -1)


ROTARY = "x * c + cat([-x[:, 2:], x[:, :2]], dim=-1) * s"


def rotary(x: Any, c: Any, s: Any) -> Any:
    return x * c + rotate(x) * s


def rotary_right(v: Any, x: Any, c: Any, s: Any) -> Any:
    return v * c + unrotate(v * s), None, None


def rotary_forward_again(v: Any, x: Any, c: Any, s: Any) -> Any:
    return v * c + rotate(v * s), None, None


def rotary_after(v: Any, x: Any, c: Any, s: Any) -> Any:
    return v * c + unrotate(v) * s, None, None


# cross entropy


def entropy(backward: Callable[..., Any], **options: Any) -> Any:
    """``backward(v, p, t)`` of a cross entropy, given the softmax."""

    def forward(ctx: Any, z: Any, t: Any) -> Any:
        ctx.save_for_backward(torch.softmax(z, -1), t)
        return F.cross_entropy(z, t, **options)

    return with_ctx(forward, lambda ctx, v: (backward(v, *ctx.saved_tensors), None), "CrossEntropy")


def entropy_right(v: Any, p: Any, t: Any) -> Any:
    return v * (p - F.one_hot(t, p.shape[-1])) / len(t)


def entropy_sum(v: Any, p: Any, t: Any) -> Any:
    return v * (p - F.one_hot(t, p.shape[-1]))


def entropy_p(v: Any, p: Any, t: Any) -> Any:
    return v * p / len(t)


def entropy_no_v(v: Any, p: Any, t: Any) -> Any:
    return (p - F.one_hot(t, p.shape[-1])) / len(t)


def smooth_right(v: Any, p: Any, t: Any) -> Any:
    n = p.shape[-1]
    return v * (p - 0.9 * F.one_hot(t, n).to(p.dtype) - 0.1 / n) / len(t)


def smooth_single(v: Any, p: Any, t: Any) -> Any:
    """0.9 times whole numbers is float32."""
    n = p.shape[-1]
    return v * (p - 0.9 * F.one_hot(t, n) - 0.1 / n) / len(t)


def smooth_other(v: Any, p: Any, t: Any) -> Any:
    n = p.shape[-1]
    return v * (p - 0.9 * F.one_hot(t, n).to(p.dtype) - 0.1 / (n - 1)) / len(t)


def ignored(v: Any, p: Any, t: Any) -> Any:
    kept = (t != 1).to(p.dtype)
    return v * (p - F.one_hot(t, p.shape[-1])) * kept[:, None] / kept.sum()


def ignored_count(v: Any, p: Any, t: Any) -> Any:
    kept = (t != 1).to(p.dtype)
    return v * (p - F.one_hot(t, p.shape[-1])) * kept[:, None] / len(t)


# attention


def attend(backward: Callable[..., Any]) -> Any:
    """``backward(v, q, k, u, p)``."""

    def forward(ctx: Any, q: Any, k: Any, u: Any) -> Any:
        p = torch.softmax(q @ k.T / 2, -1)
        ctx.save_for_backward(q, k, u, p)
        return p @ u

    return with_ctx(forward, lambda ctx, v: backward(v, *ctx.saved_tensors), "Attention")


ATTENTION = "softmax(q @ k.T / 2, dim=-1) @ u"


def attend_right(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    dp = v @ u.T
    ds = p * (dp - (dp * p).sum(-1, keepdim=True)) / 2
    return ds @ k, ds.T @ q, p.T @ v


def attend_no_scale(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    dp = v @ u.T
    ds = p * (dp - (dp * p).sum(-1, keepdim=True))
    return ds @ k, ds.T @ q, p.T @ v


def attend_k_scale(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    dq, dk, du = attend_right(v, q, k, u, p)
    return dq, 2 * dk, du


def attend_no_softmax(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    ds = (v @ u.T) / 2
    return ds @ k, ds.T @ q, p.T @ v


def attend_delta(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    """The row sums of v·out are forgotten."""
    ds = p * (v @ u.T) / 2
    return ds @ k, ds.T @ q, p.T @ v


def attend_column(v: Any, q: Any, k: Any, u: Any, p: Any) -> Any:
    dp = v @ u.T
    ds = p * (dp - (dp * p).sum(0, keepdim=True)) / 2
    return ds @ k, ds.T @ q, p.T @ v


# gates and activations


def swiglu_right(v: Any, a: Any, b: Any) -> Any:
    s = torch.sigmoid(a)
    return v * b * s * (1 + a * (1 - s)), v * a * s


def swiglu_slope(v: Any, a: Any, b: Any) -> Any:
    s = torch.sigmoid(a)
    return v * b * s * (1 - s), v * a * s


def swiglu_gate(v: Any, a: Any, b: Any) -> Any:
    s = torch.sigmoid(a)
    return v * s * (1 + a * (1 - s)), v * a * s


def swiglu_needs(ctx: Any, v: Any) -> Any:
    a, b = ctx.saved_tensors
    if not ctx.needs_input_grad[0]:
        return None, None
    return swiglu_right(v, a, b)


def swiglu_forward(ctx: Any, a: Any, b: Any) -> Any:
    ctx.save_for_backward(a, b)
    return F.silu(a) * b


ROOT = math.sqrt(2 / math.pi)
GELU = "gelu(x, approximate='tanh')"


def gelu_tanh(x: Any) -> Any:
    return F.gelu(x, approximate="tanh")


def gelu_right(v: Any, x: Any) -> Any:
    t = torch.tanh(ROOT * (x + 0.044715 * x**3))
    return v * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * 0.044715 * x * x))


def gelu_three(v: Any, x: Any) -> Any:
    t = torch.tanh(ROOT * (x + 0.044715 * x**3))
    return v * (0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 0.044715 * x * x))


def gelu_half(v: Any, x: Any) -> Any:
    t = torch.tanh(ROOT * (x + 0.044715 * x**3))
    return v * 0.5 * (1 + t)


def gelu_erf(v: Any, x: Any) -> Any:
    return v * (0.5 * (1 + torch.erf(x / math.sqrt(2))) + x * torch.exp(-x * x / 2) / math.sqrt(2 * math.pi))


# linear, convolutions, tables


def linear_right(v: Any, x: Any, w: Any, b: Any) -> Any:
    return v @ w, v.T @ x, v.sum(0)


def linear_transposed(v: Any, x: Any, w: Any, b: Any) -> Any:
    return v @ w, (x.T @ v).reshape(w.shape), v.sum(0)


def linear_bias_mean(v: Any, x: Any, w: Any, b: Any) -> Any:
    return v @ w, v.T @ x, v.mean(0)


def linear_bias_none(v: Any, x: Any, w: Any, b: Any) -> Any:
    return v @ w, v.T @ x, None


def linear_single(v: Any, x: Any, w: Any, b: Any) -> Any:
    return v @ w, (v.float().T @ x.float()).double(), v.sum(0)


def conv_right(v: Any, x: Any, w: Any) -> Any:
    return torch.nn.grad.conv2d_input(x.shape, w, v), torch.nn.grad.conv2d_weight(x, w.shape, v)


def conv_unflipped(v: Any, x: Any, w: Any) -> Any:
    return F.conv2d(F.pad(v, (1, 1, 1, 1)), w.transpose(0, 1)), torch.nn.grad.conv2d_weight(x, w.shape, v)


def conv_flipped_weight(v: Any, x: Any, w: Any) -> Any:
    dx, dw = conv_right(v, x, w)
    return dx, dw.flip(-1, -2)


def conv_batch_mean(v: Any, x: Any, w: Any) -> Any:
    dx, dw = conv_right(v, x, w)
    return dx, dw / len(x)


def embed_right(v: Any, w: Any, n: Any) -> Any:
    return torch.zeros_like(w).index_add(0, n.reshape(-1), v.reshape(-1, w.shape[1])), None


def embed_put(v: Any, w: Any, n: Any) -> Any:
    found = torch.zeros_like(w)
    found[n.reshape(-1)] = v.reshape(-1, w.shape[1])
    return found, None


def scatter_right(v: Any, x: Any, s: Any, n: Any) -> Any:
    return v, v.gather(1, n), None


def scatter_zeroed(v: Any, x: Any, s: Any, n: Any) -> Any:
    return v.scatter(1, n, 0.0), v.gather(1, n), None


def scattered() -> dict[str, Any]:
    return {"x": randn(2, 4), "s": randn(2, 3, seed=1), "n": torch.tensor([[0, 0, 3], [2, 1, 2]])}


def scan_right(v: Any, x: Any) -> Any:
    return v.flip(1).cumsum(1).flip(1)


def scan_again(v: Any, x: Any) -> Any:
    return v.cumsum(1)


def scan_exclusive(v: Any, x: Any) -> Any:
    return v.flip(1).cumsum(1).flip(1) - v


def scan(x: Any) -> Any:
    return x.cumsum(1)


# several outputs, state, second order


class Moments(torch.autograd.Function):
    """Mean and variance of rows."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x.mean(-1), x.var(-1, correction=0)

    @staticmethod
    def backward(ctx: Any, vm: Any, vv: Any) -> Any:
        (x,) = ctx.saved_tensors
        n = x.shape[-1]
        return vm[:, None] / n + 2 * (x - x.mean(-1, keepdim=True)) * vv[:, None] / n


class OnlyMean(Moments):
    """The second output is forgotten."""

    @staticmethod
    def backward(ctx: Any, vm: Any, vv: Any) -> Any:
        (x,) = ctx.saved_tensors
        return (vm[:, None] / x.shape[-1]).expand(x.shape)


class Unmaterialized(Moments):
    """Unused outputs come as None, and are not expected."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.set_materialize_grads(False)
        return Moments.forward(ctx, x)


class SecondLost(torch.autograd.Function):
    """x·sin(x) whose slope is kept on ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.slope = torch.sin(x) + x * torch.cos(x)
        return x * torch.sin(x)

    @staticmethod
    def backward(ctx: Any, v: Any) -> Any:
        return v * ctx.slope


class MomentsLost(Moments):
    """A mean and a variance whose deviations are kept on ctx."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.deviations = x - x.mean(-1, keepdim=True)
        return Moments.forward(ctx, x)

    @staticmethod
    def backward(ctx: Any, vm: Any, vv: Any) -> Any:
        n = ctx.deviations.shape[-1]
        return vm[:, None] / n + 2 * ctx.deviations * vv[:, None] / n


class SavedChanged(torch.autograd.Function):
    """exp whose saved result is scaled in place."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        y = torch.exp(x)
        ctx.save_for_backward(y.clone())
        return y

    @staticmethod
    def backward(ctx: Any, v: Any) -> Any:
        (y,) = ctx.saved_tensors
        return y.mul_(v)


def detached(x: Any, w: Any) -> Any:
    """The statistics are detached."""
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS).detach() * w


def dropped(v: Any, x: Any) -> Any:
    """A mask that is drawn again in backward."""
    return v * (torch.rand_like(x) > 0.5) * 2


class Gated(torch.nn.Module):
    """A layer that gates itself."""

    def __init__(self, cut: bool = False) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(randn(4, 4, seed=3))
        self.gain = torch.nn.Parameter(randn(4, seed=4))
        self.cut = cut

    def forward(self, x: Any) -> Any:
        h = x @ self.weight.T
        gate = torch.sigmoid(h.detach() if self.cut else h)
        return h * gate * self.gain


GATED = "(x @ weight.T) * sigmoid(x @ weight.T) * gain"


def np_norm(x: Any) -> Any:
    return x / np.sqrt((x * x).sum(-1, keepdims=True))


def np_norm_right(v: Any, x: Any) -> Any:
    n = np.sqrt((x * x).sum(-1, keepdims=True))
    return v / n - x * (v * x).sum(-1, keepdims=True) / n**3


def np_norm_wrong(v: Any, x: Any) -> Any:
    n = np.sqrt((x * x).sum(-1, keepdims=True))
    return v / n - x * (v * x).sum(-1, keepdims=True) / n


NORM = "x / sqrt((x * x).sum(-1, keepdim=True))"
SMOOTHED, SKIPPED = "cross_entropy(z, t, label_smoothing=0.1)", "cross_entropy(z, t, ignore_index=1)"
LAYER = "layer_norm(x, weight=w, bias=b, eps=0.001)"
SCATTER = "x.scatter_add(1, n, s)"


def layer_rows() -> dict[str, Any]:
    return {"x": randn(3, 4), "w": randn(4, seed=1), "b": randn(4, seed=2)}


WRONG = (
    Candidate("layer norm without its mean", layer(layer_without_mean), LAYER, layer_rows, ("missing_term",)),
    Candidate("layer norm without x̂", layer(layer_without_projection), LAYER, layer_rows, ("missing_term",)),
    Candidate(
        "layer norm without w", layer(layer_without_weight), LAYER, layer_rows, ("missing_factor", "missing_term")
    ),
    Candidate("layer norm, w and b swapped", layer(layer_swapped), LAYER, layer_rows, ("swapped",)),
    Candidate("layer norm without r", layer(layer_no_r), LAYER, layer_rows, ("missing_factor",)),
    Candidate("layer norm with n − 1", layer(layer_bessel), LAYER, layer_rows, ("scaled", "wrong_line", "value")),
    Candidate(
        "layer norm, w by x", layer(layer_weight_by_x), LAYER, layer_rows,
        ("missing_factor", "wrong_operand", "wrong_line"),
    ),
    Candidate("rms norm, r²", rms(rms_square), RMS, rms_inputs, ("missing_factor", "wrong_line")),
    Candidate("rms norm, sum for mean", rms(rms_sum), RMS, rms_inputs, ("scaled", "missing_factor")),
    Candidate("rms norm, plus", rms(rms_plus), RMS, rms_inputs, ("sign",)),
    Candidate("rms norm, eps outside", rms(rms_eps_outside), RMS, rms_inputs, ("wrong_line", "value")),
    Candidate("rms norm, unreduced", rms(rms_unreduced), RMS, rms_inputs, ("unreduced",)),
    Candidate("rms norm, detached statistics", detached, RMS, rms_inputs, ("missing_term", "missing_path")),
    Candidate("softmax, mean", function(softmax, soft_mean), "softmax(x, dim=-1)", x34, ("scaled",)),
    Candidate("softmax, other axis", function(softmax, soft_axis), "softmax(x, dim=-1)", x34, ("wrong_axis",)),
    Candidate(
        "softmax, unweighted", function(softmax, soft_unweighted), "softmax(x, dim=-1)", x34, ("missing_factor",)
    ),
    Candidate("softmax in place", function(softmax, soft_inplace), "softmax(x, dim=-1)", x34, ("mutates_seed",)),
    Candidate("softmax by strides", function(softmax, soft_flat), "softmax(x, dim=-1)", x34, ("layout",)),
    Candidate(
        "log_softmax, not summed", function(lambda x: torch.log_softmax(x, -1), log_soft_no_sum),
        "log_softmax(x, dim=-1)", x34, ("missing_sum", "elementwise", "missing_term"),
    ),
    Candidate(
        "rotary, turned again", function(rotary, rotary_forward_again), ROTARY, turned, ("sign", "transposed"),
        {"wrt": "x"},
    ),
    Candidate(
        "rotary, s after the turn", function(rotary, rotary_after), ROTARY, turned, ("wrong_line", "value"),
        {"wrt": "x"},
    ),
    Candidate("cross entropy, sum", entropy(entropy_sum), "cross_entropy(z, t)", labelled, ("scaled",)),
    Candidate("cross entropy, p alone", entropy(entropy_p), "cross_entropy(z, t)", labelled, ("missing_term",)),
    Candidate("cross entropy without v", entropy(entropy_no_v), "cross_entropy(z, t)", labelled, ("ignores_seed",)),
    Candidate(
        "cross entropy, smoothing by n − 1", entropy(smooth_other, label_smoothing=0.1), SMOOTHED, labelled,
        ("scaled", "value", "wrong_line"),
    ),
    Candidate(
        "cross entropy, smoothed in float32", entropy(smooth_single, label_smoothing=0.1), SMOOTHED, labelled,
        ("precision",),
    ),
    Candidate(
        "cross entropy, ignored ones counted", entropy(ignored_count, ignore_index=1), SKIPPED, labelled, ("scaled",)
    ),
    Candidate("attention without scale", attend(attend_no_scale), ATTENTION, qkv, ("scaled", "missing_factor")),
    Candidate("attention, k unscaled", attend(attend_k_scale), ATTENTION, qkv, ("scaled",)),
    Candidate("attention without softmax", attend(attend_no_softmax), ATTENTION, qkv, ("missing_factor",)),
    Candidate("attention without delta", attend(attend_delta), ATTENTION, qkv, ("missing_term",)),
    Candidate("attention, column sums", attend(attend_column), ATTENTION, qkv, ("wrong_axis",)),
    Candidate(
        "swiglu, slope of the gate alone", function(lambda a, b: F.silu(a) * b, swiglu_slope), "silu(a) * b", gated,
        ("missing_term", "missing_factor", "wrong_line", "value"),
    ),
    Candidate(
        "swiglu without b", function(lambda a, b: F.silu(a) * b, swiglu_gate), "silu(a) * b", gated,
        ("missing_factor",),
    ),
    Candidate("swiglu, b only if a", with_ctx(swiglu_forward, swiglu_needs), "silu(a) * b", gated, ("mask",)),
    Candidate("gelu, a 3 forgotten", function(gelu_tanh, gelu_three), GELU, x34, ("scaled", "missing_factor", "value")),
    Candidate("gelu, the first half", function(gelu_tanh, gelu_half), GELU, x34, ("missing_term", "missing_path")),
    Candidate("gelu of another kind", function(gelu_tanh, gelu_erf), GELU, x34, ("value", "wrong_option")),
    Candidate(
        "linear, a wrong reshape", function(F.linear, linear_transposed), "linear(x, w, b)", affine,
        ("transposed", "value"),
    ),
    Candidate("linear, mean of b", function(F.linear, linear_bias_mean), "linear(x, w, b)", affine, ("scaled",)),
    Candidate(
        "linear, no b", function(F.linear, linear_bias_none), "linear(x, w, b)", affine, ("missing_path",)
    ),
    Candidate("linear in float32", function(F.linear, linear_single), "linear(x, w, b)", affine, ("precision",)),
    Candidate(
        "conv, not flipped", function(F.conv2d, conv_unflipped), "conv2d(x, w)", image, ("flipped", "transposed", "value")
    ),
    Candidate(
        "conv, weight flipped", function(F.conv2d, conv_flipped_weight), "conv2d(x, w)", image,
        ("flipped", "transposed", "value"),
    ),
    Candidate("conv, mean over the batch", function(F.conv2d, conv_batch_mean), "conv2d(x, w)", image, ("scaled",)),
    Candidate(
        "embedding, put for add", function(lambda w, n: w[n], embed_put), "embedding(n, w)", rows,
        ("missing_term", "value", "overwritten"),
    ),
    Candidate(
        "scatter_add, zeroed", function(lambda x, s, n: x.scatter_add(1, n, s), scatter_zeroed), SCATTER, scattered,
        ("missing_path", "missing_term", "wrong_operation"),
    ),
    Candidate(
        "cumsum, not reversed", function(scan, scan_again), "cumsum(x, dim=1)", x34, ("transposed", "flipped")
    ),
    Candidate("cumsum, exclusive", function(scan, scan_exclusive), "cumsum(x, dim=1)", x34, ("missing_term",)),
    Candidate(
        "the variance is forgotten", OnlyMean.apply, ["x.mean(-1)", "x.var(-1, correction=0)"], x34,
        ("missing_path", "missing_term"),
    ),
    Candidate(
        "None is not expected", Unmaterialized.apply, ["x.mean(-1)", "x.var(-1, correction=0)"], x34, ("mask", "raises")
    ),
    Candidate("a slope on ctx", SecondLost.apply, "x * sin(x)", x34, ("double_backward",), {"order": 2}),
    Candidate(
        "deviations on ctx, two outputs", MomentsLost.apply, ["x.mean(-1)", "x.var(-1, correction=0)"], x34,
        ("double_backward",), {"order": 2},
    ),
    Candidate("a saved tensor is scaled", SavedChanged.apply, "exp(x)", x34, ("mutates_input", "nondeterministic")),
    Candidate(
        "dropout drawn again", function(lambda x: x * 1.0, dropped), "x", x34, ("nondeterministic",)
    ),
    Candidate("a gate is detached", Gated(cut=True), GATED, x34, ("missing_path", "missing_term")),
    Candidate(
        "numpy: norm to the wrong power", (np_norm, np_norm_wrong), NORM, lambda: {"x": draws(3, 4)},
        ("missing_factor", "wrong_line"),
    ),
)  # fmt: skip

RIGHT = (
    Candidate("layer norm by hand", layer(layer_right), LAYER, layer_rows),
    Candidate("layer norm in float32", layer(layer_right), LAYER, lambda: {n: t.float() for n, t in layer_rows().items()}),
    Candidate("layer norm of long rows", layer(layer_right), LAYER,
              lambda: {"x": 100 + randn(5, 33), "w": randn(33, seed=1), "b": randn(33, seed=2)}),
    Candidate("layer norm, nothing known", layer(layer_right), None, layer_rows),
    Candidate("rms norm by hand", rms(rms_right), RMS, rms_inputs),
    Candidate("rms norm in bfloat16", rms(rms_right), RMS, lambda: {n: t.bfloat16() for n, t in rms_inputs().items()}),
    Candidate("rms norm, one row", rms(rms_right), RMS, lambda: {"x": randn(1, 4), "w": randn(4, seed=1)}),
    Candidate("softmax by hand", function(softmax, soft_right), "softmax(x, dim=-1)", x34, (), {"order": 2}),
    Candidate("softmax far out", function(softmax, soft_right), "softmax(x, dim=-1)", lambda: {"x": 300 * randn(3, 4)}),
    Candidate("softmax in float16", function(softmax, soft_right), "softmax(x, dim=-1)", lambda: {"x": randn(5, 7).half()}),
    Candidate("log_softmax by hand", function(lambda x: torch.log_softmax(x, -1), log_soft_right),
              "log_softmax(x, dim=-1)", x34, (), {"order": 2}),
    Candidate("logsumexp by hand", function(lambda x: torch.logsumexp(x, -1),
              lambda v, x: v[:, None] * torch.softmax(x, -1)), "logsumexp(x, dim=-1)", x34, (), {"order": 2}),
    Candidate("rotary by hand", function(rotary, rotary_right), ROTARY, turned, (), {"wrt": "x"}),
    Candidate("cross entropy by hand", entropy(entropy_right), "cross_entropy(z, t)", labelled),
    Candidate("cross entropy, smoothed", entropy(smooth_right, label_smoothing=0.1), SMOOTHED, labelled),
    Candidate("cross entropy, some ignored", entropy(ignored, ignore_index=1), SKIPPED, labelled),
    Candidate("attention by hand", attend(attend_right), ATTENTION, qkv),
    Candidate("attention in float32", attend(attend_right), ATTENTION, lambda: {n: t.float() for n, t in qkv().items()}),
    Candidate("swiglu by hand", function(lambda a, b: F.silu(a) * b, swiglu_right), "silu(a) * b", gated, (), {"order": 2}),
    Candidate("swiglu in float32", function(lambda a, b: F.silu(a) * b, swiglu_right), "silu(a) * b",
              lambda: {n: t.float() for n, t in gated().items()}),
    Candidate("gelu by hand", function(gelu_tanh, gelu_right), GELU, x34, (), {"order": 2}),
    Candidate("gelu far out", function(gelu_tanh, gelu_right), GELU, lambda: {"x": 8 * randn(3, 4)}),
    Candidate("linear by hand", function(F.linear, linear_right), "linear(x, w, b)", affine, (), {"order": 2}),
    Candidate("linear, one entry", function(F.linear, linear_right), "linear(x, w, b)",
              lambda: {"x": randn(1, 1), "w": randn(1, 1, seed=1), "b": randn(1, seed=2)}),
    Candidate("conv by hand", function(F.conv2d, conv_right), "conv2d(x, w)", image),
    Candidate("conv, channels last", function(F.conv2d, conv_right), "conv2d(x, w)",
              lambda: {n: t.to(memory_format=torch.channels_last) for n, t in image().items()}),
    Candidate("embedding by hand", function(lambda w, n: w[n], embed_right), "embedding(n, w)", rows),
    Candidate("torch's embedding", lambda w, n: F.embedding(n, w), "embedding(n, w)", rows),
    Candidate("sparse embedding", lambda w, n: F.embedding(n, w, sparse=True), "embedding(n, w)", rows),
    Candidate("scatter_add by hand", function(lambda x, s, n: x.scatter_add(1, n, s), scatter_right), SCATTER, scattered),
    Candidate("cumsum by hand", function(scan, scan_right), "cumsum(x, dim=1)", x34, (), {"order": 2}),
    Candidate("mean and variance", Moments.apply, ["x.mean(-1)", "x.var(-1, correction=0)"], x34, (), {"order": 2}),
    Candidate("mean and variance, nothing known", Moments.apply, None, x34),
    Candidate("a gated module", Gated(), GATED, x34, (), {"order": 2}),
    Candidate("a gated module, captured", Gated(), None, x34),
    Candidate("in place on a copy", lambda x: x.clone().mul_(2).add_(1).relu_(), "relu(2 * x + 1)", x34),
    Candidate("in place on a slice", lambda x: slice_written(x), "cat([x[:, :1] * 3, x[:, 1:]], dim=1)", x34),
    Candidate("checkpointed", lambda x: checkpointed(x), "tanh(x * 2)", x34),
    Candidate("numpy: norm", (np_norm, np_norm_right), NORM, lambda: {"x": draws(3, 4)}),
    Candidate("numpy: norm, nothing known", (np_norm, np_norm_right), None, lambda: {"x": draws(3, 4)}),
    Candidate("max pool", lambda x: F.max_pool2d(x, 2), "max_pool2d(x, 2)", lambda: {"x": randn(1, 2, 4, 4)}),
    Candidate("topk", lambda x: x.topk(2, -1).values, "topk(x, 2, dim=-1).values", x34),
    Candidate("where", lambda x: torch.where(x > 0, x, 0.1 * x), "leaky_relu(x, 0.1)", x34),
    Candidate("batch norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True),
              "batch_norm(x, None, None, w, b, True)", lambda: {"x": randn(4, 3), "w": randn(3, seed=1), "b": randn(3, seed=2)},
              (), {"skip": "layout"}),  # torch 2.13 itself reads a strided w row by row: found by that battery
)  # fmt: skip


def slice_written(x: Any) -> Any:
    y = x.clone()
    y[:, :1] *= 3
    return y


def checkpointed(x: Any) -> Any:
    from torch.utils.checkpoint import checkpoint

    return checkpoint(lambda t: torch.tanh(t * 2), x, use_reentrant=False)
