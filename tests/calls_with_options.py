"""Calls with the options that torch documents, and what they read: modes, weights, several axes, places to write to.

`CALLS` are read as texts and captured, `RUN` are captured: a text cannot have them, or it takes long for every size.
"""

from __future__ import annotations

import re

import numpy as np

DRAWN = np.random.default_rng(3)
SHAPES = {
    "u": (3,), "w": (4,), "z": (2,), "x": (3, 4), "y": (3, 4), "S": (3, 3), "T": (3, 3), "B": (2, 3, 4), "C": (2, 4, 2), "i": (1, 2, 4, 5),
    "s": (1, 2, 6), "g": (1, 2, 3, 2),
}  # fmt: skip
VALUES = {name: DRAWN.uniform(0.2, 1.4, size=shape) for name, shape in SHAPES.items()}
VALUES["S"] += 2 * np.eye(3)
WHOLE = {
    "n": np.array([2, 0]), "m": np.array([1, 3, 0]), "at": np.array([[0, 2, 1, 1], [2, 2, 0, 1], [1, 0, 2, 2]]),
    "cls": np.array([[1, 0, -1, 2], [2, 3, 0, -1], [0, -1, 1, 1]]),
}  # fmt: skip

CALLS = [
    "F.nll_loss(B.mT, at[:2, :3], w.detach())", "torch.tensordot(B, C, dims=([2], [1]))",
    "torch.linalg.multi_dot([u, x, w])", "torch.linalg.matrix_norm(x, 1)",
    "torch.linalg.tensorsolve(S.reshape(3, 1, 3), u[:, None])", "einsum('...ij,...jk->...ik', B, C)",
    "x.median(1).values", "torch.cartesian_prod(z, u)", "torch.meshgrid(u, z, indexing='xy')[0]",
    "torch.broadcast_tensors(u[:, None], x)[0]", "torch.hsplit(x, 2)[1]", "torch.column_stack([u, x])",
    "torch.atleast_3d(x)", "torch.rot90(x, -1, (1, 0))", "x.roll(2)", "torch.take_along_dim(x, at[:2], dim=0)",
    "x.scatter_reduce(0, at, y, reduce='mean')", "B[n // 2, ..., m[:2]]",
]  # fmt: skip
RUN = [
    "torch.remainder(x, y) * (x % w) + torch.fmod(y, x) - x ** y / torch.atan2(x, y)",
    "torch.maximum(x, y) * torch.where(x > y, x, w).clamp(0.4, 1.1) + torch.hypot(x, w) * (x >= y).double()",
    "F.interpolate(s, scale_factor=2, mode='linear')", "F.grid_sample(i, g, mode='nearest', align_corners=True)",
    "F.lp_pool2d(i, 3, (2, 1), ceil_mode=True)", "F.scaled_dot_product_attention(B, B, B, attn_mask=S[None] > 1)",
    "F.embedding_bag(m[None], x.T, mode='max')",
    "F.embedding_bag(m, x.T, n.flip(0), mode='sum', per_sample_weights=u)", "F.multilabel_margin_loss(x, cls)",
    "F.ctc_loss(x[:, None].log_softmax(-1), n[None], (3,), (2,), blank=1)",
    "torch.segment_reduce(x, 'mean', lengths=n.flip(0) + n // 2)",
    "torch.lu_solve(S, *torch.linalg.lu_factor(T + S))", "torch.quantile(x, z / 2, dim=0, interpolation='lower')",
    "torch.nanquantile(x, 0.5, dim=1, keepdim=True)", "torch.nanmedian(x)", "x.put(n, z, accumulate=True)",
    "x.masked_scatter(x > 0.8, y)", "torch.stft(s[0], 4, 2, window=w, return_complex=True).abs()",
    "torch.linalg.householder_product(x.T, u)", "F.rrelu(x - 1, training=False)", "torch.nextafter(x, y)",
    "torch.linalg.solve(torch.complex(S, T), torch.complex(T, S)).abs()", "torch.complex(x, y).prod(0).real",
    "torch.linalg.eigvalsh(torch.complex(S + S.T, T - T.T))", "torch.linalg.svdvals(torch.complex(x, y))",
    "torch.linalg.qr(torch.complex(S, T))[1].abs()", "torch.linalg.lu_factor(torch.complex(S, T))[0].abs()",
    "torch.linalg.pinv(torch.complex(x, y)).abs()", "torch.complex(x, y).scatter(0, at[:1], 2.5).real",
    "torch.complex(x, y).logcumsumexp(0).real", "torch.sparse.mm(S.to_sparse(), x)",
]  # fmt: skip


def inputs_of(text: str) -> tuple[dict[str, np.ndarray], set[str]]:
    """The inputs that stand in a text, and those of them that hold whole numbers."""
    names = {*re.findall(r"(?<![.\w'])([A-Za-z]+)\b(?!\s*=[^=]|\()", text)}
    return {name: value for name, value in (VALUES | WHOLE).items() if name in names}, names & {*WHOLE}
