"""Backwards that were written against the tool after it stood: cells, gates, norms, losses, modules, pairs, sizes.

The wrong ones slip in one place each; beside most stands the right one. A module around an opaque Function was accused
(its parameters did not move in the differences), and a gate with its halves exchanged ended in an error of ours.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.candidates import DOUBLE, Candidate, draws, function, randn


def lstm(g: Any, c: Any) -> Any:
    i, f, _, z = g.chunk(4, -1)
    return torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(z)


def lstm_backward(v: Any, g: Any, c: Any, power: int = 2) -> Any:
    i, f, o, z = g.chunk(4, -1)
    s_i, s_f, t = torch.sigmoid(i), torch.sigmoid(f), torch.tanh(z)
    d_i = v * t * s_i * (1 - s_i)
    d_f = v * c * s_f * (1 - s_f)
    d_z = v * s_i * (1 - t**power)
    return torch.cat([d_i, d_f, torch.zeros_like(o), d_z], -1), v * s_f


def unit(x: Any) -> Any:
    return x / x.norm(dim=-1, keepdim=True)


def unit_backward(v: Any, x: Any) -> Any:
    n = x.norm(dim=-1, keepdim=True)
    y = x / n
    return (v - y * (v * y).sum(-1, keepdim=True)) / n


def unit_over_all(v: Any, x: Any) -> Any:
    n = x.norm(dim=-1, keepdim=True)
    y = x / n
    return (v - y * (v * y).sum()) / n


def cosine(a: Any, b: Any) -> Any:
    return (a @ b) / (a.norm() * b.norm())


def cosine_backward(v: Any, a: Any, b: Any, power: int = 2) -> Any:
    n, m = a.norm(), b.norm()
    c = (a @ b) / (n * m)
    return v * (b / (n * m) - c * a / n**power), v * (a / (n * m) - c * b / m**2)


def bilinear(x: Any, w: Any, y: Any) -> Any:
    return torch.einsum("bi,oij,bj->bo", x, w, y)


def bilinear_backward(v: Any, x: Any, w: Any, y: Any, weight: str = "oij") -> Any:
    return (
        torch.einsum("bo,oij,bj->bi", v, w, y),
        torch.einsum(f"bo,bi,bj->{weight}", v, x, y),
        torch.einsum("bo,oij,bi->bj", v, w, x),
    )


def huber_backward(v: Any, x: Any, y: Any, sign: int = -1) -> Any:
    d = x - y
    g = torch.where(d.abs() < 1, d, torch.sign(d))
    return v * g / len(d), sign * v * g / len(d)


def solve_backward(v: Any, a: Any, b: Any, turned: bool = True) -> Any:
    x = torch.linalg.solve(a, b)
    w = torch.linalg.solve(a.T if turned else a, v)
    return -w[:, None] * x[None, :], w


def rows(x: Any) -> Any:
    return (x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()


def rows_backward(v: Any, x: Any) -> Any:
    s = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    y = (x - x.mean(-1, keepdim=True)) / s
    return (v - v.mean(-1, keepdim=True) - y * (v * y).mean(-1, keepdim=True)) / s


def rows_without_mean(v: Any, x: Any) -> Any:
    s = (x.var(-1, correction=0, keepdim=True) + 1e-5).sqrt()
    y = (x - x.mean(-1, keepdim=True)) / s
    return (v - y * (v * y).mean(-1, keepdim=True)) / s


def mish_backward(v: Any, x: Any, times: bool = True) -> Any:
    t, s = torch.tanh(F.softplus(x)), torch.sigmoid(x)
    slope = s * (1 - t * t)
    return v * (t + (x * slope if times else slope))


def glu_backward(v: Any, x: Any, swapped: bool = False) -> Any:
    a, b = x.chunk(2, -1)
    s = torch.sigmoid(b)
    halves = [v * s, v * a * s * (1 - s)]
    return torch.cat(halves[::-1] if swapped else halves, -1)


def exp_product_backward(v: Any, q: Any, k: Any, turned: bool = True) -> Any:
    e = v * np.exp(q @ k.T)
    return e @ k, (e.T if turned else e) @ q


def doubled(v: Any, x: Any) -> Any:
    v *= 2
    return v * x


HELD: dict[Any, torch.Tensor] = {}


def in_one_buffer(v: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """The gradient in a tensor that every call writes into."""
    return torch.mul(v, x.cos(), out=HELD.setdefault((x.shape, x.dtype), torch.empty_like(x)))


def std_backward(v: Any, x: Any, count: float = 1.0) -> Any:
    return v * (x - x.mean()) / (x.std() * count)


class Scaled(torch.nn.Module):
    """A parameter behind a Function that nothing is known of."""

    def __init__(self, reduced: bool) -> None:
        super().__init__()
        self.w = torch.nn.Parameter(randn(3))
        self.reduced = reduced

    def forward(self, x: Any) -> Any:
        def back(v: Any, x: Any, w: Any) -> Any:
            return v * w, (v * x).sum(0) if self.reduced else v * x

        return function(torch.mul, back)(x, self.w)


ROWS = "layer_norm(x, (4,))"
UNIT, COSINE, MISH = "x / x.norm(dim=-1, keepdim=True)", "(a @ b) / (a.norm() * b.norm())", "x * tanh(softplus(x))"
BILINEAR, EXP_PRODUCT = "einsum('bi,oij,bj->bo', x, w, y)", "exp(q @ k.T)"


def cell() -> dict[str, Any]:
    return {"g": randn(2, 8), "c": randn(2, 2, seed=1)}


def x34() -> dict[str, Any]:
    return {"x": randn(3, 4)}


def pair() -> dict[str, Any]:
    return {"a": randn(4), "b": randn(4, seed=1)}


def three() -> dict[str, Any]:
    return {"x": randn(2, 3), "w": randn(4, 3, 3, seed=1), "y": randn(2, 3, seed=2)}


def two() -> dict[str, Any]:
    return {"x": randn(5), "y": randn(5, seed=1)}


def system() -> dict[str, Any]:
    return {"a": randn(3, 3) + 3 * torch.eye(3, dtype=DOUBLE), "b": randn(3, seed=1)}


def arrays() -> dict[str, Any]:
    return {"q": draws(3, 2), "k": draws(3, 2, seed=1)}


def slipped(backward: Any, **slip: Any) -> Any:
    """A backward with its slip."""
    return lambda *given: backward(*given, **slip)


def mish(x: Any) -> Any:
    return x * torch.tanh(F.softplus(x))


def exp_product(q: Any, k: Any) -> Any:
    return np.exp(q @ k.T)


MORE_WRONG = (
    Candidate("lstm cell: tanh not squared", function(lstm, slipped(lstm_backward, power=1)), None, cell, ("value",)),
    Candidate("unit rows: summed over all", function(unit, unit_over_all), UNIT, x34, ("wrong_line", "wrong_axis")),
    Candidate("cosine: a norm once", function(cosine, slipped(cosine_backward, power=1)), COSINE, pair, ("missing_factor",)),
    Candidate("bilinear: weight turned", function(bilinear, slipped(bilinear_backward, weight="oji")), BILINEAR, three, ("transposed",)),
    Candidate("huber: one sign for both", function(F.smooth_l1_loss, slipped(huber_backward, sign=1)), "smooth_l1_loss(x, y)", two, ("sign",)),
    Candidate("avg_pool: not divided", function(lambda x: F.avg_pool1d(x, 2), lambda v, x: v.repeat_interleave(2, -1)), "avg_pool1d(x, 2)", lambda: {"x": randn(1, 2, 6)}, ("scaled",)),
    Candidate("solve: not turned", function(torch.linalg.solve, slipped(solve_backward, turned=False)), "torch.linalg.solve(a, b)", system, ("transposed",)),
    Candidate("variance: by n", function(lambda x: x.var(1), lambda v, x: v[:, None] * 2 * (x - x.mean(1, keepdim=True)) / x.shape[1]), "x.var(1)", x34, ("scaled", "wrong_option")),
    Candidate("rows: without the mean", function(rows, rows_without_mean), ROWS, x34, ("missing_term",)),
    Candidate("trace: everywhere", function(torch.trace, lambda v, x: v * torch.ones_like(x)), "torch.trace(x)", lambda: {"x": randn(3, 3)}, ("missing_factor",)),
    Candidate("mish: x forgotten", function(mish, slipped(mish_backward, times=False)), MISH, lambda: {"x": randn(5)}, ("missing_factor",)),
    Candidate("glu: halves exchanged", function(lambda x: F.glu(x, -1), slipped(glu_backward, swapped=True)), "glu(x, -1)", lambda: {"x": randn(2, 6)}, ("wrong_line", "value")),
    Candidate("a module's parameter is unreduced", Scaled(False), None, lambda: {"x": randn(2, 3)}, ("unreduced",)),
    Candidate("numpy: a product not turned", (exp_product, slipped(exp_product_backward, turned=False)), EXP_PRODUCT, arrays, ("transposed",)),
    Candidate("numpy: v doubled in place", (lambda x: x**2, doubled), "x ** 2", lambda: {"x": draws(3)}, ("mutates_seed",)),
    Candidate("one buffer for every gradient", function(torch.sin, in_one_buffer), "sin(x)", x34, ("mutates_gradient",)),
    Candidate("numpy: deviation without n", (lambda x: x.std(), std_backward), "x.std(correction=0)", lambda: {"x": draws(4)}, ("scaled",)),
)  # fmt: skip
MORE_RIGHT = (
    Candidate("lstm cell", function(lstm, lstm_backward), None, cell),
    Candidate("unit rows", function(unit, unit_backward), UNIT, x34),
    Candidate("cosine", function(cosine, cosine_backward), COSINE, pair),
    Candidate("bilinear", function(bilinear, bilinear_backward), BILINEAR, three),
    Candidate("huber", function(F.smooth_l1_loss, huber_backward), "smooth_l1_loss(x, y)", two),
    Candidate("avg_pool", function(lambda x: F.avg_pool1d(x, 2), lambda v, x: v.repeat_interleave(2, -1) / 2), "avg_pool1d(x, 2)", lambda: {"x": randn(1, 2, 6)}),
    Candidate("linear system", function(torch.linalg.solve, solve_backward), "torch.linalg.solve(a, b)", system),
    Candidate("variance", function(lambda x: x.var(1), lambda v, x: v[:, None] * 2 * (x - x.mean(1, keepdim=True)) / (x.shape[1] - 1)), "x.var(1)", x34),
    Candidate("rows", function(rows, rows_backward), ROWS, x34),
    Candidate("mish by hand", function(mish, mish_backward), MISH, lambda: {"x": randn(5)}),
    Candidate("glu by hand", function(lambda x: F.glu(x, -1), glu_backward), "glu(x, -1)", lambda: {"x": randn(2, 6)}),
    Candidate("a module around a Function", Scaled(True), None, lambda: {"x": randn(2, 3)}),
    Candidate("numpy: a product", (exp_product, exp_product_backward), EXP_PRODUCT, arrays),
    Candidate("numpy: deviation", (lambda x: x.std(), slipped(std_backward, count=4.0)), "x.std(correction=0)", lambda: {"x": draws(4)}),
    Candidate("torch's attention in bfloat16", F.scaled_dot_product_attention, "scaled_dot_product_attention(q, k, u)", lambda: {n: randn(1, 3, 4, seed=i, dtype=torch.bfloat16) for i, n in enumerate("qku")}),
    Candidate("torch's distances", torch.cdist, "cdist(x, y)", lambda: {"x": randn(3, 2), "y": randn(2, 2, seed=1)}),
    Candidate("torch's relu6 at both kinks", F.relu6, "relu6(x)", lambda: {"x": torch.tensor([0.0, 6.0, 3.0], dtype=DOUBLE)}),
    Candidate("torch's amax at ties", lambda x: x.amax(1), "x.amax(1)", lambda: {"x": torch.tensor([[1.0, 1.0, 0.0], [2.0, 0.0, 2.0]], dtype=DOUBLE)}),
)  # fmt: skip
