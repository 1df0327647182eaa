"""Small expressions at the places where sentences go wrong: axes of size 1 and 0, ties, zeros, equal entries.

Each is text that symgrad and torch read alike. Shapes, options and numbers are drawn; what torch refuses is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from random import Random

import numpy as np

from symgrad.errors import SymgradError
from tests import torch_side

UNARY = (
    "relu(x)", "abs(x)", "x", "-x", "2 * x", "x / 3", "x ** 2", "tanh(x)", "sign(x)", "x.clamp(min=0)", "F.hardtanh(x)",
    "F.relu6(x)", "torch.round(x)", "x - x", "x * 0", "x.detach() * x", "F.leaky_relu(x)", "sqrt(x ** 2)", "F.elu(x)",
    "torch.sigmoid(x)", "F.softshrink(x)", "F.hardswish(x)", "x.clamp(-1, 1)", "torch.sinc(x)", "F.threshold(x, 0, 0)",
    "torch.where(x > 0, x, 0 * x)", "(x > 0) * x", "torch.frac(x)", "exp(x)", "torch.nan_to_num(x)", "x * x.detach()",
)  # fmt: skip
BINARY = (
    "x + y", "x * y", "x - y", "maximum(x, y)", "minimum(x, y)", "torch.where(x > y, x, y)", "x * y.detach()",
    "F.mse_loss(x, y)", "F.l1_loss(x, y)", "F.smooth_l1_loss(x, y)", "F.mse_loss(x, y, reduction='sum')", "x * 0 + y",
    "torch.hypot(x, y)", "torch.lerp(x, y, 0.5)", "torch.dist(x, y)", "(x - y) ** 2", "x * y * 0",
)  # fmt: skip
VECTOR = (
    "softmax(x, dim=-1)", "log_softmax(x, dim=-1)", "cumsum(x, 0)", "x.flip(0)", "torch.diff(x)", "x[1:]", "x[:1]",
    "x.roll(1, 0)", "x[::2]", "sort(x).values", "max(x, dim=0).values", "x.expand({n}, {a})", "x.repeat({n})", "diag(x)",
    "x[1:] - x[:-1]", "outer(x, x)", "x[:, None] * x", "F.normalize(x, dim=0)", "x.std()", "x.var()", "x / x.sum()",
    "median(x).values if 0 else median(x)", "x.mean()", "x.sum()", "amax(x)", "x.norm()", "logsumexp(x, 0)", "prod(x)",
    "F.pad(x, ({n}, 0))", "x.unfold(0, {n}, 1)", "cat([x, x])", "stack([x, 2 * x])", "x.reshape(1, -1)", "topk(x, 1).values",
    "x.repeat_interleave({n})", "x - x.mean()", "gather(x, 0, p)", "x[p]", "index_select(x, 0, p)", "norm(x, 1)", "cummax(x, 0).values",
    "torch.linalg.norm(x, float('inf'))", "F.one_hot(p) @ x if 0 else x[p] * x[p]", "F.cosine_similarity(x, x, dim=0)", "x * x.sum()",
)  # fmt: skip
MATRIX = (
    "x.T", "x.sum(0)", "x.sum(1)", "x.mean(0)", "x.mean(1)", "x @ x.T", "softmax(x, dim=1)", "softmax(x, dim=0)", "x[:, 0]",
    "x.reshape(-1)", "amax(x, 1)", "x.sum(0, keepdim=True)", "x * x.sum(0)", "x.cumsum(1)", "triu(x)", "tril(x, -1)",
    "x.diagonal()", "x.T @ x", "x.flip(1)", "max(x, dim=1).values", "x.std(1)", "x.var(0)", "layer_norm(x, ({b},))", "x.expand({n}, {a}, {b})",
    "x.unsqueeze(1) * x", "x.norm(dim=1)", "F.normalize(x, dim=1)", "x.mean()", "logsumexp(x, 1)", "cat([x, x], 1)", "x - x.mean(1, keepdim=True)",
    "F.avg_pool1d(x[None], {k})[0]", "F.max_pool1d(x[None], {k})[0]", "F.adaptive_avg_pool1d(x[None], {n})[0]",
    "F.avg_pool2d(x[None, None], {k})", "F.max_pool2d(x[None, None], {k})", "F.interpolate(x[None], scale_factor=2)[0]",
    "F.adaptive_avg_pool2d(x[None, None], ({n}, {k}))", "F.unfold(x[None, None], {k})", "F.pad(x[None], (1, 1), mode='replicate')[0]",
    "F.interpolate(x[None, None], size=({a}, {b}), mode='bilinear')", "x.transpose(0, 1)", "x.permute(1, 0).reshape({a}, {b})", "x.unfold(1, {k}, 1)",
    "F.avg_pool1d(x[None], {k}, stride=1)[0]", "x.sum(1) * x.sum(1)", "F.cross_entropy(x, c)", "F.nll_loss(x, c)", "F.cross_entropy(x, c, reduction='none')",
    "F.group_norm(x[None], 1)", "F.pixel_unshuffle(x[None, None], {k})", "F.local_response_norm(x[None], 1)", "x.sum() * x", "trace(x)",
)  # fmt: skip
PAIRS = (
    "x @ y", "y @ x", "x + y", "x * y", "F.linear(x, y)", "torch.mv(x, y)", "x - y", "(x + y).sum()", "softmax(x, dim=-1) @ y",
    "relu(x @ y)", "torch.cdist(x, y)", "torch.outer(x, y)", "torch.kron(x, y)", "einsum('ij,j->i', x, y)", "F.conv1d(x[None], y[None])",
    "bilinear(x, x, y) if 0 else x @ y", "maximum(x, y)", "(x * y).mean()", "cat([x, y])", "torch.addmm(x, x, y)", "F.bilinear(x, x, y[None])",
)  # fmt: skip
AROUND = (
    "{}",
    "{}",
    "{}",
    "relu({})",
    "({}).sum()",
    "2 * ({})",
    "({}) * 0",
    "({}).mean()",
    "tanh({})",
    "({})[:1]",
    "({}).reshape(-1)",
    "x * ({})",
)
NUMBERS = (0.0, 0.0, 1.0, 1.0, -1.0, 2.0, 0.5, -0.5, 3.0)
REFUSALS = (RuntimeError, IndexError, TypeError, ValueError, AttributeError, NameError)


@dataclass(frozen=True)
class Drawn:
    """``text`` at ``inputs``, with weights: ``inner`` put into ``around``; ``positions`` are whole numbers."""

    number: int
    inner: str
    around: str
    inputs: Mapping[str, np.ndarray]
    seed: np.ndarray | None
    positions: frozenset[str]

    @property
    def text(self) -> str:
        """The whole."""
        return self.around.format(self.inner)


def drawn(number: int) -> Drawn | None:
    """The expression with this number; None where torch does not take it or it is worth nothing."""
    random, draw = Random(number), np.random.default_rng(number)
    size = lambda: random.choice((1, 1, 1, 2, 2, 3, 3, 4, 0))  # noqa: E731 -- the shortest way to say it
    a, b = size(), size()
    kind = random.choice(("unary", "binary", "vector", "vector", "matrix", "matrix", "pairs"))
    shape = {"vector": (a,), "matrix": (a, b)}.get(kind) or random.choice(((a,), (a, b), (a, b), ()))
    form = random.choice({"unary": UNARY, "binary": BINARY, "vector": VECTOR, "matrix": MATRIX, "pairs": PAIRS}[kind])
    text = form.replace("{n}", str(random.choice((1, 2, 3)))).replace("{k}", str(random.choice((1, 1, 2))))
    text = text.replace("{a}", str(a)).replace("{b}", str(b)).split(" if 0 ")[0]
    inner, around = text, random.choice(AROUND)
    text = around.format(inner)
    shapes = {"x": shape}
    if torch_side.words(text).count("y"):
        shapes["y"] = random.choice(
            (shape, shape[::-1], shape[-1:], (1, *shape[1:]), (*shape[:-1], 1), (b, size()), (b,))
        )
    inputs = {
        n: draw.choice(NUMBERS, size=s) if random.random() < 0.6 else np.round(draw.normal(size=s), 2)
        for n, s in shapes.items()
    }
    positions = {}
    if torch_side.words(text).count("p") and a:
        positions["p"] = draw.integers(0, a, size=random.choice((1, 2, a)))
    if torch_side.words(text).count("c") and b:
        positions["c"] = draw.integers(0, b, size=a).astype(np.int64)
    try:
        known = {n: torch_side.tensor(v) for n, v in inputs.items()}
        known |= {n: torch_side.torch.tensor(v) for n, v in positions.items()}
        out = torch_side.evaluate(text, known)
    except REFUSALS:
        return None
    if out.numel() * max(v.size for v in inputs.values()) > 400:
        return None
    seed = None if random.random() < 0.6 else draw.choice((0, 1, 2, -1), size=tuple(out.shape))
    return Drawn(number, inner, around, {**inputs, **positions}, seed, frozenset(positions))


def programs(start: int, count: int) -> Iterator[Drawn]:
    """So many expressions that torch takes, from a number on."""
    number = start
    while count:
        found = drawn(number)
        number += 1
        if found is not None:
            count -= 1
            yield found


__all__ = ["Drawn", "SymgradError", "programs"]
