"""Gradients as textbooks print them: matrix calculus, losses, activations, normalisations, pieces of attention.

The right-hand sides are written by hand, from The Matrix Cookbook, Deep Learning (Goodfellow, Bengio, Courville), and
what lectures have on the board: expectations, never inputs. What is derived has to read so, character by character.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad

RISK = "-(y * log(sigmoid(X @ w)) + (1 - y) * log(1 - sigmoid(X @ w))).mean()"
LAST = "(v * out).sum(-1, keepdim=True)"
SPREAD = "(x.var(-1, correction=0, keepdim=True) + 1e-05).sqrt()"
TANH = "((2 / math.pi) ** 0.5 * (x + 0.044715 * x ** 3)).tanh()"
SHAPES = {
    "x": (2, 3), "y": (2, 3), "X": (3, 3), "Y": (3, 3), "A": (4, 3), "b": (3,), "c": (4,), "u": (3,), "w": (3,), "W": (3, 4),
    "D": (4, 3), "t": (4,), "q": (3, 4), "k": (5, 4), "g": (5, 2), "label": (2,), "rows": (6, 1, 4, 2), "pair": (3, 1, 2, 2), "dot": (4, 3, 1, 1), "image": (2, 3, 5, 5), "kernel": (4, 3, 3, 3),
    "tall": (4, 3), "Z": (3, 4), "row": (2, 3, 6), "photo": (2, 3, 4, 4), "up": (2, 4, 3, 3), "one": (4, 3, 2), "wide": (2, 8, 3, 3), "x0": (3,), "S": (4, 4),
    "deep": (2, 4, 5, 5), "heads": (2, 2, 3, 2, 2), "keys": (2, 2, 5, 4), "few": (6, 2, 3, 3), "depth": (4, 1, 3, 3), "point": (6, 2, 1, 1), "few2": (4, 3, 2, 2), "cols": (2, 8, 9),
}  # fmt: skip

GATE, GATED = "row[:, :, row.shape[2] // 2:]", "row[:, :, :row.shape[2] // 2]"
WIDE = ["wide.shape[0]", "wide.shape[1] // 4", "wide.shape[2]", "2", "wide.shape[3]", "2"]
PHOTO = ["photo.shape[0]", "photo.shape[1]", "2", "2", "photo.shape[2] // 2", "photo.shape[3] // 2"]
IN_TWO, IN_FOUR = (f"deep.unflatten(1, ({n}, -1)).transpose(0, 2).flatten(1, 2)" for n in (2, 4))
BOOK = [
    # Matrix calculus
    ("X @ Y", "X", "v @ Y.T"),
    ("X @ Y", "Y", "X.T @ v"),
    ("A @ u", "u", "v @ A"),
    ("A @ u", "A", "v[:, None] * u"),
    ("u @ X @ u", "u", "v * ((X + X.T) @ u)"),
    ("(D.T @ S @ D).sum()", "D", "(v * ((S + S.T) @ D.sum(-1)))[:, None].expand(D.shape)"),
    ("u @ b", "u", "v * b"),
    ("b @ X @ u", "X", "v * b[:, None] * u"),
    ("trace(X @ Y)", "X", "v * Y.T"),
    ("trace(X.T @ Y @ X)", "X", "v * ((Y + Y.T) @ X)"),
    ("trace(X @ X.T)", "X", "2 * v * X"),
    ("trace(X)", "X", "v.expand(X.shape[0]).diag()"),
    ("inverse(X)", "X", "-out.T @ (v @ out.T)"),
    ("inverse(X).T", "X", "-out @ (v.T @ out)"),
    ("det(X)", "X", "v * out * inverse(X).T"),
    ("log(det(X))", "X", "v * inverse(X).T"),
    ("logdet(X)", "X", "v * inverse(X).T"),
    ("log(det(inv(X)))", "X", "-v * inverse(X).T"),
    ("trace(inverse(X) @ Y)", "X", "-v * (inverse(X).T @ (Y.T @ inverse(X).T))"),
    ("solve(X, b)", "b", "torch.linalg.solve(X.T, v)"),
    ("outer(u, b)", "u", "v @ b"),
    ("X.T", "X", "v.T"),
    # Transposed convolutions in groups
    ("conv_transpose2d(deep, few2, groups=2, stride=2)", "deep", "conv2d(v, few2, stride=2, groups=2)"),
    ("conv_transpose2d(deep, few2, groups=2, stride=2)", "few2", "conv2d(v.unflatten(1, (2, -1)).transpose(0, 2).flatten(1, 2), deep.transpose(0, 1), dilation=2, groups=2).transpose(0, 1)"),
    ("conv_transpose2d(deep, depth, groups=4, padding=1)", "deep", "conv2d(v, depth, padding=1, groups=4)"),
    # Logarithms of the base
    ("2 ** x", "x", "v * out * math.log(2)"),
    ("exp2(x)", "x", "v * out * math.log(2)"),
    ("log10(x)", "x", "v / x / math.log(10)"),
    ("x // 3", "x", "zeros_like(x)"),
    ("x // y", "x", "zeros_like(x)"),
    # Axes that are read as one number are one axis
    ("heads.flatten(3) @ keys.mT", "heads", "(v @ keys).reshape(heads.shape)"),
    # What a view takes goes back to where arange, viewed in the same way, says
    ("t[::2]", "t", "zeros_like(t).index_add(0, arange(t.shape[0])[::2], v)"),
    ("t.unfold(0, 2, 1)", "t", "zeros_like(t).index_add(0, arange(t.shape[0]).unfold(0, 2, 1).flatten(), v.flatten())"),
    ("F.fold(cols, (4, 4), 2)", "cols", "F.unfold(v, 2)"),
    ("diagonal(Z, 1)", "Z", "zeros_like(Z).diagonal_scatter(v, 1)"),
    ("diag_embed(x)", "x", "v.diagonal(0, 1, 2)"),
    # Convolutions in groups: channels of a group in the place of the batch
    ("F.conv2d(deep, few, groups=2)", "deep", "conv_transpose2d(v, few, groups=2)"),
    ("F.conv2d(deep, few, groups=2)", "few", f"conv2d({IN_TWO}, v.transpose(0, 1), groups=2).transpose(0, 1)"),
    ("F.conv2d(deep, point, groups=2)", "deep", "conv_transpose2d(v, point, groups=2)"),
    ("F.conv2d(deep, point, groups=2)", "point", f"conv2d({IN_TWO}, v.transpose(0, 1), groups=2).transpose(0, 1)"),
    ("F.conv2d(deep, depth, padding=1, groups=4)", "deep", "conv_transpose2d(v, depth, padding=1, groups=4)"),
    (
        "F.conv2d(deep, depth, padding=1, groups=4)",
        "depth",
        f"conv2d({IN_FOUR}, v.transpose(0, 1), padding=1, groups=4).transpose(0, 1)",
    ),
    # Shares of a sum of exponentials are a softmax
    ("log(exp(A @ u).sum())", "u", "v * (A.T @ softmax(A @ u, dim=-1))"),
    ("log(exp(A @ u).sum())", "A", "v * u * softmax(A @ u, dim=-1)[:, None]"),
    # Parts side by side
    ("F.glu(row)", "row", f"t = {GATE}.sigmoid(); cat([v * t, v * {GATED} * t * (1 - t)], -1)"),
    (
        "stack([b[0] - b[1], b[1] * b[0]])",  # of as many entries as b has
        "b",
        "pad((v[0] + v[1] * b[1])[None], (0, b.shape[0] - 1)) + pad((v[1] * b[0] - v[0])[None], (1, b.shape[0] - 2))",
    ),
    # The same entries in another order: the way back is one as well
    (
        "F.pixel_shuffle(wide, 2)",
        "wide",
        f"v.reshape({', '.join(WIDE)}).permute(0, 1, 3, 5, 2, 4).reshape(wide.shape)",
    ),
    (
        "F.pixel_unshuffle(photo, 2)",
        "photo",
        f"v.reshape({', '.join(PHOTO)}).permute(0, 1, 4, 2, 5, 3).reshape(photo.shape)",
    ),
    (
        "F.pixel_shuffle(one, 2)",
        "one",
        "v.reshape(one.shape[1], 2, one.shape[2], 2).permute(1, 3, 0, 2).reshape(one.shape)",
    ),
    # A sign below the line is one above it
    ("1 / abs(u)", "u", "-v * u.sign() / u ** 2"),
    ("sin(2 * math.pi * u)", "u", "2 * math.pi * v * (2 * math.pi * u).cos()"),
    ("(math.pi / 2 * u).exp()", "u", "math.pi / 2 * v * out"),
    ("w / abs(u) ** 3", "u", "-3 * v * w * u.sign() / u ** 4"),
    # Norms and least squares
    ("norm(u)", "u", "v * u / out"),
    ("norm(X) ** 2", "X", "2 * v * X"),
    ("norm(A @ u - c) ** 2", "u", "2 * v * (A.T @ (A @ u - c))"),
    ("((A @ u - c) ** 2).sum()", "u", "2 * v * (A.T @ (A @ u - c))"),
    ("0.5 * ((A @ u - c) ** 2).sum()", "u", "v * (A.T @ (A @ u - c))"),
    ("u / norm(u)", "u", f"(v - out * {LAST}) / norm(u)"),
    ("F.mse_loss(x, y)", "x", "2 * v * (x - y) / x.numel()"),
    ("F.l1_loss(x, y)", "x", "v * (x - y).sign() / x.numel()"),
    ("F.smooth_l1_loss(u, w)", "u", "v * where((u - w).abs() >= 1, (u - w).sign(), u - w) / u.shape[0]"),
    ("F.huber_loss(u, w)", "u", "v * where((u - w).abs() > 1, (u - w).sign(), u - w) / u.shape[0]"),
    # Logistic regression
    ("log(1 + exp(u))", "u", "v * u.sigmoid()"),
    ("1 / (1 + exp(-u))", "u", "v * out * (1 - out)"),
    ("F.softplus(u)", "u", "v * u.sigmoid()"),
    ("F.logsigmoid(u)", "u", "v * (-u).sigmoid()"),
    ("log(1 + exp(-t * (D @ w))).mean()", "w", "-v * (D.T @ (t * (-t * (D @ w)).sigmoid())) / t.shape[0]"),
    (RISK.replace("X", "D").replace("y", "t"), "w", "v * (D.T @ ((D @ w).sigmoid() - t)) / t.shape[0]"),
    # Activations
    ("sigmoid(x)", "x", "v * out * (1 - out)"),
    ("tanh(x)", "x", "v * (1 - out ** 2)"),
    ("relu(x)", "x", "v * (x > 0)"),
    ("exp(x)", "x", "v * out"),
    ("sqrt(x)", "x", "v / out / 2"),
    ("log(x)", "x", "v / x"),
    ("sinh(x)", "x", "v * x.cosh()"),
    ("abs(x)", "x", "v * x.sign()"),
    ("F.silu(x)", "x", "v * x.sigmoid() * (x * (1 - x.sigmoid()) + 1)"),
    ("F.mish(x)", "x", "v * (F.softplus(x).tanh() + x * x.sigmoid() * (1 - F.softplus(x).tanh() ** 2))"),
    ("F.elu(x)", "x", "v * where(x > 0, 1, x.exp())"),
    ("F.softsign(x)", "x", "v / (x.abs() + 1) ** 2"),
    ("F.hardtanh(x)", "x", "v * (x < 1) * (x > -1)"),
    # Softmax and cross-entropy
    ("softmax(x, dim=-1)", "x", f"out * (v - {LAST})"),
    ("log_softmax(x, dim=-1)", "x", "v - v.sum(-1, keepdim=True) * out.exp()"),
    (
        "F.cross_entropy(x, label, label_smoothing=0.1)", "x",
        "v * (softmax(x, dim=-1) - 0.9 * one_hot(label, x.shape[1]) - 0.1 / x.shape[1]) / x.shape[0]",
    ),
    (
        "-log_softmax(x, dim=-1)[torch.arange(x.shape[0]), label].mean()", "x",
        "v * (log_softmax(x, dim=1).exp() - one_hot(label, x.shape[1])) / x.shape[0]",
    ),
    ("x[range(2), label]", "x", "v[:, None] * one_hot(label, x.shape[1])"),
    ("torch.cross(u, b, dim=0)", "u", "torch.linalg.cross(b, v, dim=-1)"),
    ("torch.cross(u, b, dim=0)", "b", "torch.linalg.cross(v, u, dim=-1)"),
    ("w @ torch.cross(u, b, dim=0)", "b", "v * torch.linalg.cross(w, u, dim=-1)"),
    ("torch.cross(tall, D, dim=1)", "D", "torch.linalg.cross(v, tall, dim=-1)"),
    ("logsumexp(x, -1)", "x", "v[:, None] * (x - out[:, None]).exp()"),
    # Layers
    ("F.linear(x, W.T, c)", "x", "v @ W.T"),
    ("tanh(x @ W)", "x", "(v * (1 - out ** 2)) @ W.T"),
    ("relu(x @ W + c)", "W", "x.T @ (v * (x @ W + c > 0))"),
    ("relu(x @ W + c)", "c", "(v * (x @ W + c > 0)).sum(0)"),
    ("F.conv2d(image, kernel)", "image", "conv_transpose2d(v, kernel)"),
    ("F.conv2d(image, kernel)", "kernel", "conv2d(image.transpose(0, 1), v.transpose(0, 1)).transpose(0, 1)"),
    # Normalisations
    ("x - x.mean(-1, keepdim=True)", "x", "v - v.mean(-1, keepdim=True)"),
    (
        "F.layer_norm(x, (3,))", "x",
        f"(v - v.mean(-1, keepdim=True) - out * {LAST.replace('sum', 'mean')}) / {SPREAD}",
    ),
    # Attention
    ("softmax(q @ k.T, dim=-1) @ g", "g", "softmax(q @ k.T, dim=1).T @ v"),
    ("q @ k.T", "q", "v @ k"),
    ("q @ k.T", "k", "v.T @ q"),
    # Sums, products, moves
    ("x.sum(0)", "x", "v.expand(x.shape)"),
    ("x.mean()", "x", "(v / x.numel()).expand(x.shape)"),
    ("prod(u)", "u", "v * out / u"),
    ("prod(x, dim=1)", "x", "v[:, None] * out[:, None] / x"),
    ("cumsum(x, 1)", "x", "v.flip(-1).cumsum(-1).flip(-1)"),
    ("x * u", "u", "(v * x).sum(0)"),
    ("x * y * y * y", "y", "3 * v * x * y ** 2"),
    ("(x * y) * (x * y)", "x", "2 * v * x * y ** 2"),
    ("(x * u) * (x * u)", "u", "2 * u * (v * x ** 2).sum(0)"),
    ("h = x * y; h * y + h", "y", "v * x * (2 * y + 1)"),
    ("(x * y) * x ** 3", "x", "4 * v * y * x ** 3"),
    ("x * x * x.sqrt()", "x", "5 * v * x ** 1.5 / 2"),
    ("x / u", "x", "v / u"),
    ("cat([x, y])", "y", "v[x.shape[0]:]"),
    ("x.reshape(6)", "x", "v.reshape(x.shape)"),
    ("prod(x, dim=-1, keepdim=True)", "x", "v * out / x"),
    ("cumprod(u, 0)", "u", "(v * out).flip(-1).cumsum(-1).flip(-1) / u"),
    ("stack([u, b])", "u", "v[0]"),
    ("x[:, 0]", "x", "pad(v[:, None], (0, x.shape[1] - 1))"),
    ("x.flip(0)", "x", "v.flip(0)"),
    ("x.roll(1, 0)", "x", "v.roll(-1, 0)"),
    ("x.roll(1, 1) ** 2", "x", "2 * v.roll(-1, 1) * x"),
    ("sin(x.roll(-2, 1))", "x", "v.roll(2, 1) * x.cos()"),
    ("X.roll(1, -1) @ Y.T", "Y", "v.T @ X.roll(1, 1)"),
    ("tril(X)", "X", "v.tril()"),
    ("diag(u)", "u", "v.diag()"),
    ("x.repeat(2, 1)", "x", "v.reshape(2, x.shape[0], x.shape[1]).sum(0)"),
    ("x.repeat_interleave(2, 1)", "x", "v.reshape(x.shape[0], x.shape[1], 2).sum(-1)"),
    # Pools, windows, pictures
    ("F.avg_pool1d(row, 2)", "row", "pad(v.repeat_interleave(2, -1), (0, row.shape[2] % 2)) / 2"),
    (
        "F.avg_pool2d(photo, 3, stride=1)", "photo",
        "conv_transpose2d(v, photo.new_ones(photo.shape[1], 1, 3, 3), groups=photo.shape[1]) / 9",
    ),
    ("F.adaptive_avg_pool2d(photo, 1)", "photo", "(v / (photo.shape[2] * photo.shape[3])).expand(photo.shape)"),
    ("F.interpolate(photo, scale_factor=2)", "photo", "4 * avg_pool2d(v, 2)"),
    ("F.unfold(photo, 2)", "photo", "F.fold(v, photo.shape[-2:], 2)"),
    ("F.unfold(photo, 2, padding=1, stride=2)", "photo", "F.fold(v, photo.shape[-2:], 2, padding=1, stride=2)"),
    # More of the same shelves
    ("F.normalize(x, dim=-1)", "x", f"(v - out * {LAST}) / norm(x, dim=-1, keepdim=True)"),
    ("x / x.sum(-1, keepdim=True)", "x", f"(v - {LAST}) / sum(x, dim=1, keepdim=True)"),
    ("F.cosine_similarity(u, b, dim=0)", "u", "v * (b / norm(b) - out * u / norm(u)) / norm(u)"),
    ("(u * b).sum() / (norm(u) * norm(b))", "u", "v * (b / norm(u) / norm(b) - out * u / norm(u) ** 2)"),
    (
        "F.rms_norm(x, (3,), eps=1e-05)", "x",
        f"(v - out * {LAST.replace('sum', 'mean')}) / ((x ** 2).mean(-1, keepdim=True) + 1e-05).sqrt()",
    ),
    (
        "F.instance_norm(row)", "row",
        f"(v - v.mean(-1, keepdim=True) - out * {LAST.replace('sum', 'mean')}) / {SPREAD.replace('x', 'row')}",
    ),
    ("x.var(-1)", "x", "2 * v[:, None] * (x - x.mean(-1, keepdim=True)) / (x.shape[1] - 1)"),
    ("x.std()", "x", "v * (x - x.mean()) / out / (x.numel() - 1)"),
    ("F.gelu(x)", "x", "v * (torch.special.ndtr(x) + x * (-x ** 2 / 2).exp() / (2 * math.pi) ** 0.5)"),
    (
        "F.gelu(x, approximate='tanh')", "x",
        f"t = {TANH}; v * (t / 2 + x * (0.134145 * x ** 2 + 1) * (1 - t ** 2) / (2 * math.pi) ** 0.5 + 1 / 2)",
    ),
    ("F.relu6(x)", "x", "v * (x < 6) * (x > 0)"),
    ("F.leaky_relu(x, 0.1)", "x", "v * where(x > 0, 1, 0.1)"),
    ("F.tanhshrink(x)", "x", "v * x.tanh() ** 2"),
    ("x * sigmoid(x)", "x", "v * sigmoid(x) * (x * (1 - sigmoid(x)) + 1)"),
    ("b / (1 + exp(-u))", "u", "v * b * u.sigmoid() * (-u).sigmoid()"),
    ("F.binary_cross_entropy_with_logits(u, b)", "u", "v * (u.sigmoid() - b) / u.shape[0]"),
    ("F.kl_div(x, y, reduction='batchmean')", "x", "-v * y / x.shape[0]"),
    ("exp(-u ** 2 / 2)", "u", "-v * u * out"),
    ("log(u.sum())", "u", "(v / sum(u)).expand(u.shape)"),
    ("1 / x", "x", "-v / x ** 2"),
    ("X @ X", "X", "X.T @ v + v @ X.T"),
    ("einsum('ij,jk->ik', X, Y)", "X", "v @ Y.T"),
    ("norm(x - y)", "x", "v * (x - y) / out"),
    ("erf(x)", "x", "2 * v * (-x ** 2).exp() / math.pi ** 0.5"),
    ("norm(u, 3)", "u", "v * u * u.abs() / out ** 2"),
    ("norm(X - Y) ** 2", "X", "2 * v * (X - Y)"),
    # What people write themselves, and layers with all their parts
    ("x.amin(0)", "x", "v * (x == out) / (x == out).sum(0, keepdim=True)"),
    ("x.amax()", "x", "v * (x == out) / (x == out).sum()"),
    ("x.prod(dim=0)", "x", "v * out / x"),
    ("x.norm(dim=1)", "x", "v[:, None] * x / out[:, None]"),
    ("norm(x, dim=0)", "x", "v * x / out"),
    ("norm(x, p=1, dim=1)", "x", "v[:, None] * x.sign()"),
    ("F.layer_norm(x, (3,), w, b)", "w", "(v * layer_norm(x, x.shape[-1:])).sum(0)"),
    ("F.layer_norm(x, (3,), w, b)", "b", "v.sum(0)"),
    (
        "F.batch_norm(x, None, None, w, b, training=True)", "w",
        "(v * batch_norm(x, None, None, training=True)).sum(0)",
    ),
    (
        "F.batch_norm(x, None, None, training=True)", "x",
        f"(v - v.mean(0, keepdim=True) - out * (v * out).mean(0, keepdim=True)) / {SPREAD.replace('-1', '0')}",
    ),
    ("F.softplus(x, beta=2)", "x", "v * (2 * x).sigmoid()"),
    ("F.conv2d(image, kernel, c, padding=1)", "image", "conv_transpose2d(v, kernel, padding=1)"),
    (
        "F.conv2d(image, kernel, c, padding=1)", "kernel",
        "conv2d(image.transpose(0, 1), v.transpose(0, 1), padding=1).transpose(0, 1)",
    ),
    ("F.conv2d(image, kernel, c)", "c", "v.sum((0, 2, 3))"),
    # Windows as wide as the image, as in networks for texts, and windows of one entry
    ("F.conv2d(rows, pair, u)", "rows", "conv_transpose2d(v, pair)"),
    ("F.conv2d(rows, pair, u)", "pair", "conv2d(rows.transpose(0, 1), v.transpose(0, 1)).transpose(0, 1)"),
    ("F.conv2d(rows, pair, u)", "u", "v.sum((0, 2, 3))"),
    ("F.conv2d(image, dot)", "image", "conv_transpose2d(v, dot)"),
    ("F.conv2d(image, dot)", "dot", "conv2d(image.transpose(0, 1), v.transpose(0, 1)).transpose(0, 1)"),
    ("F.conv_transpose2d(up, kernel)", "up", "conv2d(v, kernel)"),
    ("F.conv_transpose2d(up, kernel)", "kernel", "conv2d(v.transpose(0, 1), up.transpose(0, 1)).transpose(0, 1)"),
    ("F.conv_transpose2d(up, kernel, stride=2, padding=1)", "up", "conv2d(v, kernel, stride=2, padding=1)"),
    (
        "F.huber_loss(u, w, delta=0.5)", "u",
        "v * where((u - w).abs() > 1 / 2, (u - w).sign() / 2, u - w) / u.shape[0]",
    ),
    ("F.poisson_nll_loss(u, w)", "u", "v * (u.exp() - w) / u.shape[0]"),
    ("F.gaussian_nll_loss(u, w, b)", "u", "v * (u - w) / b / u.shape[0]"),
    ("F.binary_cross_entropy(u, w)", "u", "v * ((1 - w) / (1 - u) - w / u) / u.shape[0]"),
    ("F.soft_margin_loss(u, w)", "u", "-v * w * (-u * w).sigmoid() / u.shape[0]"),
    ("relu(1 - u * w).mean()", "u", "-v * w * (1 - u * w > 0) / u.shape[0]"),
    ("torch.log(torch.cosh(u - w)).mean()", "u", "v * (u - w).sinh() / cosh(u - w) / u.shape[0]"),
    ("(x * (log(x) - log(y))).sum()", "x", "v * (log(x) - log(y) + 1)"),
    ("(u * w).sum() / w.sum()", "u", "v * w / sum(w)"),
    ("(u * w).sum() / w.sum()", "w", "v * (u - out) / sum(w)"),
    ("torch.cdist(X, Y)", "X", "X * (v / out).sum(-1, keepdim=True) - (v / out) @ Y"),
    (
        "exp(-((X[:, None] - Y[None]) ** 2).sum(-1) / 2)", "X",
        "-(v[:, :, None] * out[:, :, None] * (X[:, None] - Y[None])).sum(1)",
    ),
    (
        "-log_softmax(X @ Y.T / 0.1, dim=1).diagonal().mean()", "X",
        "10 * v * (log_softmax((X @ Y.T) / 0.1, dim=1).exp() @ Y - Y) / X.shape[0]",
    ),
    ("torch.cov(x)", "x", "((v + v.T) @ (x - x.mean(-1, keepdim=True))) / (x.shape[1] - 1)"),
    ("torch.cov(x) / 3", "x", "((v + v.T) @ (x - x.mean(-1, keepdim=True))) / (3 * (x.shape[1] - 1))"),
    ("x - x.mean(0)", "x", "v - v.mean(0, keepdim=True)"),
    ("u @ X @ u / (u @ u)", "u", "v * (u @ X + X @ u - 2 * out * u) / (u @ u)"),
    ("solve(X.T @ X + Y, b)", "b", "torch.linalg.solve((X.T @ X + Y).T, v)"),
    ("tanh(x @ W + c) @ A", "W", "x.T @ ((v @ A.T) * (1 - tanh(x @ W + c) ** 2))"),
    ("sin(x) * exp(-x)", "x", "v * exp(-x) * (x.cos() - sin(x))"),
    ("x.pow(3).sum().sqrt()", "x", "3 * v * x ** 2 / out / 2"),
    ("((A @ u - c) ** 2).sum() + 0.1 * u.abs().sum()", "u", "v * (0.1 * u.sign() + 2 * (A.T @ (A @ u - c)))"),
    (
        "softmax(q @ k.T / 2, dim=-1) @ g", "q",
        "t = softmax((q @ k.T) / 2, dim=1); ((t * (v @ g.T - (t * (v @ g.T)).sum(-1, keepdim=True))) @ k) / 2",
    ),
    # The Matrix Cookbook once more, and what is symmetric
    ("trace(W.T @ X @ Z)", "X", "v * (W @ Z.T)"),
    ("trace(X @ X)", "X", "2 * v * X.T"),
    ("trace(matrix_power(X, 3))", "X", "3 * v * (X.T @ X.T)"),
    ("b @ X.T @ u", "X", "v * b * u[:, None]"),
    ("(X @ b + u) @ Y @ (X @ b + u)", "X", "v * b * ((Y + Y.T) @ (X @ b + u))[:, None]"),
    ("b @ inverse(X) @ u", "X", "-v * (inverse(X).T @ b)[:, None] * (inverse(X) @ u)"),
    ("X @ X.T", "X", "(v + v.T) @ X"),
    ("log(det(x @ x.T))", "x", "2 * v * (inverse(x @ x.T) @ x)"),
    ("logdet(tall.T @ tall)", "tall", "2 * v * (tall @ inverse(tall.T @ tall))"),
    ("log(det(X.T @ X))", "X", "2 * v * (X @ inverse(X.T @ X))"),
    ("b @ inverse(tall.T @ tall) @ b", "b", "2 * v * (inverse(tall.T @ tall) @ b)"),
    ("solve(tall.T @ tall, b)", "b", "torch.linalg.solve(tall.T @ tall, v)"),
    ("solve(X, b)", "X", "-out * torch.linalg.solve(X.T, v)[:, None]"),
    ("kron(u, b)", "u", "v.reshape(u.shape[0], b.shape[0]) @ b"),
    # Losses that people write out
    ("-((1 - u) ** 2 * log(u)).mean()", "u", "v * (2 * (1 - u) * log(u) - (1 - u) ** 2 / u) / u.shape[0]"),
    (
        "1 - 2 * (u * b).sum() / (b.sum() + u.sum())", "u",
        "2 * v * (sum(u * b) / (sum(u) + sum(b)) ** 2 - b / (sum(u) + sum(b)))",
    ),
    ("-0.5 * (1 + u - w ** 2 - exp(u)).sum()", "u", "0.5 * v * (exp(u) - 1)"),
    ("-0.5 * (1 + u - w ** 2 - exp(u)).sum()", "w", "v * w"),
    ("-(u * log(u)).sum()", "u", "-v * (log(u) + 1)"),
    ("((A @ u - c) ** 2).mean() + 0.1 * (u ** 2).sum()", "u", "v * (0.2 * u + 2 * (A.T @ (A @ u - c)) / A.shape[0])"),
    (
        "-(log_softmax(x, dim=-1) * y).sum(-1).mean()", "x",
        "v * (log_softmax(x, dim=1).exp() * y.sum(-1, keepdim=True) - y) / x.shape[0]",
    ),
    ("((u - b) @ inverse(X) @ (u - b)).sqrt()", "u", "v * ((inverse(X) + inverse(X).T) @ (u - b)) / out / 2"),
    ("F.pairwise_distance(x, y)", "x", "v[:, None] * (x + 1e-06 - y) / out[:, None]"),
    # Standardised by hand
    ("(x - x.mean()) / x.std()", "x", "(v - v.mean() - out * (v * out).sum() / (x.numel() - 1)) / std(x)"),
    (
        "(x - x.mean(0)) / x.std(0)", "x",
        "(v - v.mean(0, keepdim=True) - out * (v * out).sum(0, keepdim=True) / (x.shape[0] - 1)) / std(x, dim=0)",
    ),
    (
        "(x - x.mean(-1, keepdim=True)) / (x.var(-1, keepdim=True, correction=0) + 1e-5).sqrt()", "x",
        "(v - v.mean(-1, keepdim=True) - out * (v * out).mean(-1, keepdim=True)) / sqrt(var(x, dim=1, correction=0, keepdim=True) + 1e-05)",
    ),
    # Activations and attention
    ("x * sigmoid(1.702 * x)", "x", "v * sigmoid(1.702 * x) * (1.702 * x * (1 - sigmoid(1.702 * x)) + 1)"),
    ("F.silu(x @ W) * (x @ Z)", "Z", "x.T @ (v * silu(x @ W))"),
    ("softmax(x / 2, dim=-1)", "x", f"out * (v - {LAST}) / 2"),
    ("q @ (k.T @ g)", "k", "g @ (v.T @ q)"),
    ("logsumexp(A @ u, 0)", "u", "v * (A.T @ (A @ u - out).exp())"),
    ("log(exp(x).sum(-1))", "x", "v[:, None] * softmax(x, dim=-1)"),
    ("softmax(q @ k.T / 8 ** 0.5, dim=-1)", "q", f"(out * (v - {LAST}) / 8 ** 0.5) @ k"),
    # Covariance and correlation: the mean of what is centred is 0
    ("((u - u.mean()) * (b - b.mean())).sum() / (u.shape[0] - 1)", "u", "v * (b - mean(b)) / (u.shape[0] - 1)"),
    (
        "(u - u.mean()) @ (b - b.mean()) / (norm(u - u.mean()) * norm(b - b.mean()))", "u",
        "v * ((b - mean(b)) / norm(u - mean(u)) / norm(b - mean(b)) - out * (u - mean(u)) / norm(u - mean(u)) ** 2)",
    ),
    ("((x - x.mean(0)) ** 2).sum(0)", "x", "2 * v * (x - mean(x, dim=0))"),
    ("(x - x.mean(0)).T @ (x - x.mean(0)) / 3", "x", "((x - mean(x, dim=0)) @ (v + v.T)) / 3"),
    ("(u - u.mean()).sum()", "u", "zeros_like(u)"),
    # A power that is the output; other functions of one number
    ("(u ** 3).sum() ** (1 / 3)", "u", "v * u ** 2 / out ** 2"),
    ("u ** b", "b", "v * out * u.log()"),
    ("u ** b", "u", "v * b * u ** (b - 1)"),
    ("x / (1 + x ** 2).sqrt()", "x", "v / (x ** 2 + 1) ** 1.5"),
    ("1 / (1 + exp(b - u))", "u", "v * out * (1 - out)"),
    ("F.softplus(-(u - b))", "b", "v * (b - u).sigmoid()"),
    ("F.softplus(-(A @ W - t)).mean()", "A", "-v * ((t - A @ W).sigmoid() @ W.T) / (A.shape[0] * W.shape[1])"),
    ("u ** 1.5", "u", "1.5 * v * u ** 0.5"),
    ("u ** 0.5", "u", "0.5 * v / out"),
    ("(1 + u ** 2) ** 0.5", "u", "v * u / out"),
    ("u / (1 + u ** 2) ** 0.5", "u", "v / (u ** 2 + 1) ** 1.5"),
    ("torch.lgamma(u)", "u", "v * torch.polygamma(0, u)"),
    ("torch.digamma(u)", "u", "v * torch.polygamma(1, u)"),
    ("logaddexp(u, b)", "u", "v * (u - b).sigmoid()"),
    ("logaddexp(u, b)", "b", "v * (b - u).sigmoid()"),
    ("F.softshrink(x)", "x", "v * (x.abs() > 1 / 2)"),
    ("F.hardshrink(x, 0.25)", "x", "v * (x.abs() > 1 / 4)"),
    ("relu(1 + x - y).sum()", "x", "v * (1 + x - y > 0)"),
    ("norm(X - u[:, None] * b) ** 2", "u", "-2 * v * ((X - u[:, None] * b) @ b)"),
    ("norm(A @ u - c) ** 2 / A.shape[0]", "u", "2 * v * (A.T @ (A @ u - c)) / A.shape[0]"),
    ("atan2(u, b)", "u", "v * b / (u ** 2 + b ** 2)"),
    ("(1 - u) * b + u * w", "u", "v * (w - b)"),
    # Layers with what is learned beside them: a low-rank addition, gates, a filter's update, a rotation
    ("x @ (W + X @ Z)", "X", "x.T @ v @ Z.T"),
    ("x @ (W + X @ Z)", "Z", "X.T @ (x.T @ v)"),
    ("(x @ W) * sigmoid(x @ Z)", "W", "x.T @ (v * sigmoid(x @ Z))"),
    ("(x @ W) * sigmoid(x @ Z)", "Z", "x.T @ (v * (x @ W) * sigmoid(x @ Z) * (1 - sigmoid(x @ Z)))"),
    ("(1 - u) * b + u * tanh(w)", "w", "v * u * (1 - tanh(w) ** 2)"),
    ("(1 - sigmoid(u)) * b + sigmoid(u) * w", "u", "v * sigmoid(u) * (w - b) * (1 - sigmoid(u))"),
    ("u + X @ (b - Y @ u)", "u", "v - v @ X @ Y"),
    ("u + X @ (b - Y @ u)", "X", "v[:, None] * (b - Y @ u)"),
    ("(eye(3) - X @ Y) @ Z", "X", "-v @ Z.T @ Y.T"),
    ("u * b.cos() + w * b.sin()", "b", "v * (w * b.cos() - u * b.sin())"),
    ("F.batch_norm(x, w, b)", "x", "v / (b + 1e-05).sqrt()"),
    ("F.batch_norm(x, w, b, u, c[:3])", "x", "v * u / (b + 1e-05).sqrt()"),
    (
        "x / (x ** 2).mean(-1, keepdim=True).sqrt()", "x",
        f"(v - out * {LAST.replace('sum', 'mean')}) / sqrt(mean(x ** 2, dim=1, keepdim=True))",
    ),
    ("softmax(x / t[0], dim=-1)", "x", f"out * (v - {LAST}) / t[0]"),
    ("relu(q) @ relu(k).T @ g", "q", "(v @ g.T @ relu(k)) * (q > 0)"),
    # Losses with what keeps the weights small, and of pairs
    (
        "relu(1 - t * (D @ w)).mean() + 0.1 * (w ** 2).sum()", "w",
        "v * (0.2 * w - (D.T @ (t * (1 - t * (D @ w) > 0))) / t.shape[0])",
    ),
    (
        "log(1 + exp(-t * (D @ w))).mean() + 0.1 * (w ** 2).sum()", "w",
        "v * (0.2 * w - (D.T @ (t * (-t * (D @ w)).sigmoid())) / t.shape[0])",
    ),
    (
        "relu(norm(u - b) - norm(u - w) + 1)", "u",
        "v * (norm(u - b) - norm(u - w) + 1 > 0) * ((u - b) / norm(u - b) - (u - w) / norm(u - w))",
    ),
    ("-log(sigmoid(u - b)).mean()", "b", "v * (1 - sigmoid(u - b)) / u.shape[0]"),
    ("-(y * log(softmax(x, dim=-1))).sum()", "x", "v * (softmax(x, dim=1) * y.sum(-1, keepdim=True) - y)"),
    ("(u * log(u / b)).sum()", "b", "-v * u / b"),
    ("((u - b) ** 2 / w + log(w)).sum() / 2", "u", "v * (u - b) / w"),
    ("((u - b) ** 2 / w + log(w)).sum() / 2", "w", "v * (1 / w - (u - b) ** 2 / w ** 2) / 2"),
    ("(D @ w - t).abs().mean()", "w", "v * (D.T @ (D @ w - t).sign()) / D.shape[0]"),
    ("((x @ W) ** 2).sum()", "W", "2 * v * (x.T @ (x @ W))"),
    ("(X @ u) @ (Y @ u)", "u", "v * (X.T @ (Y @ u) + Y.T @ (X @ u))"),
]  # fmt: skip


PLANES = "mean((0, 2, 3), keepdim=True)"
LINES = [
    (
        "F.batch_norm(photo, None, None, u, b, training=True)",
        [
            f"photo.grad = r * (v_xhat - v_xhat.{PLANES} - xhat * (v_xhat * xhat).{PLANES})",
            "with v_xhat = v * u[:, None, None]",
            "with r = 1 / (photo.var((0, 2, 3), correction=0, keepdim=True) + 1e-05).sqrt()",
            "with xhat = batch_norm(photo, None, None, training=True)",
        ],
    ),
    (
        "F.layer_norm(photo, (3, 4, 4))",
        [
            "photo.grad = r * (v - v.mean((1, 2, 3), keepdim=True) - out * (v * out).mean((1, 2, 3), keepdim=True))",
            "with r = 1 / (photo.var((1, 2, 3), correction=0, keepdim=True) + 1e-05).sqrt()",
        ],
    ),
]


STEPS = [
    ("(u / (1 + u ** 2) ** 0.5).sum()", "u", ["u.grad = 1 / t3 - u ** 2 / t3 ** 3"]),
    ("(u / (1 + u ** 2).sqrt()).sum()", "u", ["u.grad = 1 / t3 - u ** 2 / t3 ** 3"]),
    ("norm(A @ u - c) ** 2 / A.shape[0]", "u", ["u.grad = (2 * t2 / A.shape[0]) @ A"]),
    ("norm(A @ u - c) ** 2 + 0.5 * norm(u) ** 2", "u", ["u.grad = u + (2 * t2) @ A"]),
    ("log(sigmoid(u)).sum()", "u", ["u.grad = 1 - t1"]),
    ("det(X) ** 2", "X", ["X.grad = 2 * t1 ** 2 * inverse(X).T"]),
    ("((A @ u - c) ** 2).sum() / (2 * A.shape[0])", "u", ["u.grad = (t2 / t2.shape[0]) @ A"]),
    ("h = inverse(X); h.sum() + det(X)", "X", ["v_h = ones_like(h)", "X.grad = t2 * h.T - h.T @ (v_h @ h.T)"]),
    ("relu(x @ W).sum()", "W", ["W.grad = x.T @ (t1 > 0)"]),
    ("(relu(u - b) + relu(b - u)).sum()", "u", ["u.grad = (t1 > 0).to(u) - (t3 > 0).to(u)"]),
    ("F.leaky_relu(x @ W).sum()", "W", ["W.grad = x.T @ where(t1 > 0, 1, 0.01)"]),
    ("(x @ W)[range(2), label].mean()", "W", ["W.grad = x.T @ (one_hot(label, t1.shape[1]) / 2)"]),
    (
        "F.triplet_margin_loss(tall, A, D)",
        "tall",
        [
            "v_t1 = (t1 + 1.0 >= 0) / t1.shape[0]",
            "v_far = -v_t1",
            "v_near = v_t1",
            "tall.grad = v_far[:, None] * (tall + 1e-06 - D) / far[:, None] + v_near[:, None] * (tall + 1e-06 - A) / near[:, None]",
        ],
    ),
    (
        "F.cosine_embedding_loss(tall, A, t)",
        "tall",
        [
            "v_cos = t13 * (cos >= 0) / t10.shape[0] - t10 / t10.shape[0]",
            "v_t9 = v_cos / m",
            "v_n = -v_t9 * sum(t7, dim=1) / n ** 2",
            "tall.grad = (v_t9 / n)[:, None] * A + (v_n / n)[:, None] * tall",
        ],
    ),
    ("t = A * 0.5; s = (t ** 2).sum(); 0.5 * s * 0.3", "A", ["v_t = 0.3 * t", "A.grad = 0.5 * v_t"]),
    ("s = (u ** 2).sum(); s / (A.shape[0] - 1) + A.sum()", "u", ["u.grad = 2 * u / (A.shape[0] - 1)"]),
]  # fmt: skip


def used_in(text: str, shapes: Mapping[str, Any]) -> dict[str, Any]:
    """The tensors that a text reads, with their shapes."""
    names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    return {name: shape for name, shape in shapes.items() if name in {node.id for node in names} - made}


@pytest.mark.one_in(6, alone=3)
@pytest.mark.parametrize(("text", "wanted", "lines"), STEPS, ids=[text for text, _, _ in STEPS])
def test_what_is_multiplied_and_divided_by_is_not_in_the_lines(text: str, wanted: str, lines: list[str]) -> None:
    """A size that no tensor of a step has is named after one that has it; code of the lines is torch's gradient."""
    used = used_in(text, SHAPES)
    numbers = {name: np.random.default_rng(5).uniform(0.2, 0.9, size=shape) for name, shape in used.items()}
    numbers |= {"label": np.array([2, 0])} if "label" in used else {}
    explained = symgrad.explain(text, wrt=[wanted], **numbers)
    assert explained.passed
    assert [str(line) for line in explained.backward.statements] == lines
    scope: dict[str, Any] = {}
    exec(explained.backward.code(), scope)
    read = scope["backward"].__code__.co_varnames[: scope["backward"].__code__.co_argcount]
    found = scope["backward"](*(torch.from_numpy(numbers[name]) for name in read))
    np.testing.assert_allclose(found.numpy(), explained.gradients[wanted].value, rtol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "lines"), LINES, ids=[text for text, _ in LINES])
def test_the_lines_of_a_normalisation_read_as_in_the_book(text: str, lines: list[str]) -> None:
    used = used_in(text, SHAPES)
    generator = np.random.default_rng(5)
    numbers = {name: generator.uniform(0.2, 0.9, size=shape) for name, shape in used.items()}
    brief = symgrad.explain(text, wrt=["photo"], check=False, **numbers).to_text(brief=True, width=1000)
    assert [line.strip() for line in brief.splitlines()[1:] if re.match(r"(with )?[\w.]+ = ", line.strip())] == lines


@pytest.mark.parametrize(("text", "line"), [
    ("x[:, ::2] + 2 * x[:, 1::2]", "x.grad = stack([v, 2 * v], -1).flatten(-2)"),
    ("x[1::3] * x[::3] + x[2::3]", "x.grad = stack([v * t1, v * t2, v], 1).flatten(0, 1)"),
])  # fmt: skip
def test_entries_that_are_read_in_turn_are_put_side_by_side(text: str, line: str) -> None:
    told = symgrad.explain(text, shapes={"x": (6, 6)}, check=False).backward
    assert str(told.statements[-1]).partition("  ")[0] == line


@pytest.mark.one_in(18, alone=4)
@pytest.mark.parametrize(("text", "wanted", "form"), BOOK, ids=[f"{text} by {wanted}" for text, wanted, _ in BOOK])
def test_a_gradient_reads_as_in_the_book(text: str, wanted: str, form: str) -> None:
    used = used_in(text, SHAPES)
    generator = np.random.default_rng(5)  # in every domain, and the determinants are above 0
    numbers = {
        name: generator.uniform(0.2, 0.9, size=shape) + (np.eye(3) if shape == (3, 3) else 0)
        for name, shape in used.items()
    }
    numbers |= {"label": np.array([2, 0])} if "label" in used else {}
    explained = symgrad.explain(text, wrt=[wanted], check=False, **numbers)
    assert explained.gradients[wanted].closed_form == form


ONE = {
    "x": (1, 3), "y": (1, 3), "W": (3, 2), "c": (2,), "label": (1,), "q": (1, 3, 4), "k": (1, 5, 4), "g": (1, 5, 2),
}  # fmt: skip
BATCHES_OF_ONE = [
    ("x @ W", "W", "x.T @ v"),
    ("relu(x @ W + c)", "W", "x.T @ (v * (x @ W + c > 0))"),
    ("relu(x @ W + c)", "c", "(v * (x @ W + c > 0)).sum(0)"),
    ("F.linear(x, W.T, c)", "c", "v.sum(0)"),
    ("F.cross_entropy(x, label)", "x", "v * (softmax(x, dim=-1) - one_hot(label, x.shape[1]))"),
    ("F.layer_norm(x, (3,))", "x", next(form for text, _, form in BOOK if text == "F.layer_norm(x, (3,))")),
    ("F.mse_loss(x, y)", "x", "2 * v * (x - y) / x.numel()"),
    ("q @ k.transpose(-2, -1)", "k", "v.mT @ q"),
    (
        "F.scaled_dot_product_attention(q, k, g)", "q",
        f"(((v @ g.mT - {LAST}) * softmax((q @ k.mT) / q.shape[2] ** 0.5, dim=-1)) @ k) / q.shape[2] ** 0.5",
    ),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "wanted", "form"), BATCHES_OF_ONE, ids=[f"{t} by {w}" for t, w, _ in BATCHES_OF_ONE])
def test_a_batch_of_one_reads_as_any_batch(text: str, wanted: str, form: str) -> None:
    used = used_in(text, ONE)
    numbers = {name: np.random.default_rng(5).uniform(0.2, 0.9, size=shape) for name, shape in used.items()}
    numbers |= {"label": np.array([1])} if "label" in used else {}
    explained = symgrad.explain(text, wrt=[wanted], check=False, **numbers)
    assert explained.gradients[wanted].closed_form == form


HESSIANS = [
    (
        "log(1 + exp(-t * (D @ w))).mean()", "w",
        "(D.T @ (t ** 2 * ((D @ w) * t).sigmoid() * (-(D @ w) * t).sigmoid()).diag() @ D) / t.shape[0]",
    ),
    (
        "F.binary_cross_entropy_with_logits(D @ w, t)", "w",
        "(D.T @ ((D @ w).sigmoid() * (-D @ w).sigmoid()).diag() @ D) / D.shape[0]",
    ),
    ("F.softplus(u).sum()", "u", "(u.sigmoid() * (1 - u.sigmoid())).diag()"),
    ("sigmoid(u).sum()", "u", "(sigmoid(u) * (1 - sigmoid(u)) * (1 - 2 * sigmoid(u))).diag()"),
    ("tanh(u).sum()", "u", "(-2 * tanh(u) * (1 - tanh(u) ** 2)).diag()"),
    ("F.silu(u).sum()", "u", "(u.sigmoid() * (1 - u.sigmoid()) * (u + 2 - 2 * u * u.sigmoid())).diag()"),
    ("((A @ u - c) ** 2).mean()", "u", "2 * (A.T @ A) / A.shape[0]"),
    ("u @ X @ u", "u", "X + X.T"),
    ("norm(x0)", "x0", "u = x0 / out; (eye(x0.shape[0]) - u[:, None] * u) / out"),
    ("norm(A @ w - c)", "w", "u = (A.T @ (A @ w - c)) / out; (A.T @ A - u[:, None] * u) / out"),
    ("logsumexp(u, 0)", "u", "p = (u - out).exp(); p.diag() - p[:, None] * p"),
    ("logsumexp(A @ u, 0)", "u", "t = A.T @ (A @ u - out).exp(); A.T @ (A @ u - out).exp().diag() @ A - t[:, None] * t"),
    ("-log_softmax(u, 0)[1]", "u", "p = log_softmax(u, dim=0).exp(); p.diag() - p[:, None] * p"),
    ("-(u * log(u)).sum()", "u", "(-1 / u).diag()"),
    ("F.mse_loss(u, b)", "u", "2 * eye(u.shape[0]) / u.shape[0]"),
    ("((A @ u - c) ** 2).sum() + 0.1 * (u ** 2).sum()", "u", "2 * (A.T @ A) + 0.2 * eye(A.shape[1])"),
    (
        "-(t * log(sigmoid(D @ w)) + (1 - t) * log(1 - sigmoid(D @ w))).mean()", "w",
        "(D.T @ ((D @ w).sigmoid() * (1 - (D @ w).sigmoid())).diag() @ D) / t.shape[0]",
    ),
    ("((u - u.mean()) ** 2).sum()", "u", "2 * (eye(u.shape[0]) - 1 / u.shape[0])"),
    ("log(u.sum())", "u", "(-1 / sum(u) ** 2).expand(u.shape[0], u.shape[0])"),
    ("exp(u @ b)", "u", "out * b[:, None] * b"),
    ("((A @ u - c) ** 2).sum() / (2 * A.shape[0])", "u", "(A.T @ A) / A.shape[0]"),
    ("(u @ u) ** 2", "u", "4 * (2 * u[:, None] * u + (u @ u) * eye(u.shape[0]))"),
]  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "wanted", "form"), HESSIANS, ids=[text for text, _, _ in HESSIANS])
def test_a_hessian_reads_as_in_the_book(text: str, wanted: str, form: str) -> None:
    used = used_in(text, SHAPES)
    numbers = {name: np.random.default_rng(5).uniform(0.2, 0.9, size=shape) for name, shape in used.items()}
    explained = symgrad.explain(text, wrt=[wanted], order=2, check=False, **numbers)
    assert explained.hessians[wanted, wanted].closed_form == form


def test_a_number_is_written_as_it_was_whatever_was_derived_before() -> None:
    """2 and 2.0 are equal, and what was derived with one was taken for the other."""
    numbers = {"q": np.ones((2, 3)), "k": np.ones((4, 3)), "g": np.ones((4, 2))}
    forms = [
        symgrad.explain(f"softmax(q @ k.T / {two}, dim=-1) @ g", wrt=["q"], check=False, **numbers)
        .gradients["q"]
        .closed_form
        for two in ("2", "2.0", "2")
    ]
    assert forms[0] == forms[2] != forms[1]


def test_einsum_is_told_in_its_own_letters() -> None:
    told = symgrad.explain("einsum('bij,ji->bi', a, c)", a=np.ones((2, 3, 4)), c=np.ones((4, 3)), check=False).to_text()
    assert "out[b,i] = Σ_j a[b,i,j]·c[j,i]" in told
    assert "c.grad[p,q] = Σ_b a[b,q,p]·v[b,q]" in told


ROWS, THREE = torch.arange(6.0).reshape(2, 3) / 7, torch.tensor([0.5, 1.5, 2.5])
AT_HAND = [
    (lambda u: F.binary_cross_entropy_with_logits(u, THREE / 3), THREE, "v * (u.sigmoid() - target) / 3"),
    (lambda x: x.repeat(2, 1), ROWS, "v.reshape(2, 2, 3).sum(0)"),
    (lambda x: x.repeat(4, 2, 2), ROWS, "v.reshape(4, 2, 2, 2, 3).sum((0, 1, 3))"),
    (lambda u: (u**3).sum() ** (1 / 3), THREE, "v * u ** 2 / out ** 2"),
    (lambda u: u * (100 / 3), THREE, "100 * v / 3"),
    (lambda u: u * 0.12345678901234567, THREE, "0.12345678901234566 * v"),
    (lambda u: (0.25 * u**2).mean(), THREE, "0.5 * v * u / 3"),
    (lambda x: (0.5 * (x.exp() - x)).sum(1).mean(), torch.ones(4, 2), "v * (exp(x) - 1) / 8"),
    (lambda x: (x.flatten() * 0.1).mean(), ROWS, "(0.1 * v / 6).expand(x.shape)"),
    (lambda x: x @ x.T / 0.07, ROWS, "((v + v.T) @ x) / 0.07"),
    (lambda x: x.prod(1), ROWS + 0.1, "v[:, None] * out[:, None] / x"),  # out was rounded to 32 bits
]


@pytest.mark.parametrize(("function", "value", "form"), AT_HAND, ids=[form for _, _, form in AT_HAND])
def test_a_run_at_sizes_that_are_numbers_reads_as_in_the_book(function: Any, value: torch.Tensor, form: str) -> None:
    lines = symgrad.capture(function, value).backward(seed=torch.full(function(value).shape, 2.0))
    assert lines.gradients[next(iter(lines.gradients))].code == form


BARE = [
    ("out[i] = Σ_j x[i+j]·w[j]", [(8,), (3,)], "conv_transpose1d(v[None], w[None, None])[0]", "conv1d(x[None], v[None, None])[0]"),
    ("out[i] = Σ_j x[i+2·j]·w[j]", [(8,), (3,)], "conv_transpose1d(v[None], w[None, None], dilation=2)[0]",
     "conv1d(x[None], v[None, None], stride=2)[0]"),
    ("out[i] = Σ_j x[2·i+j]·w[j]", [(8,), (3,)],
     "conv_transpose1d(v[None], w[None, None], stride=2, output_padding=(x.shape[0] - w.shape[0]) % 2)[0]",
     "conv1d(x[None], v[None, None], dilation=2)[0, :w.shape[0]]"),
    ("out[i,j] = Σ_k Σ_l x[i+k,j+l]·w[k,l]", [(6, 7), (2, 3)], "conv_transpose2d(v[None], w[None, None])[0]",
     "conv2d(x[None], v[None, None])[0]"),
]  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "shapes", "by_x", "by_w"), BARE, ids=[text for text, *_ in BARE])
def test_a_convolution_without_channels_is_torchs_with_one(text: str, shapes: Any, by_x: str, by_w: str) -> None:
    numbers = {name: np.arange(np.prod(shape)).reshape(shape) for name, shape in zip("xw", shapes, strict=True)}
    found = symgrad.explain(text, check=False, **numbers).gradients
    assert {name: found[name].closed_form for name in "xw"} == {"x": by_x, "w": by_w}
