"""What the lines of a backward cost, derived from nothing: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

A GPT-2-shaped model, a text of a hundred layers, an LSTM cell in a loop. What is built alike is derived once, so that a
first call costs little more than one layer does; the gradients are held against torch's first.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from sympy.core.cache import clear_cache
from torch import nn

import symgrad
from symgrad.backward import line_templates, template_cache
from tests.benchmarks.ratios import FOUND, Row, seconds
from tests.compare import assert_same

local = importlib.import_module("symgrad.calculus.local_derivatives")


class Block(nn.Module):
    """Attention and a feed-forward layer, each after a normalisation, both added."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.first, self.second, self.heads = nn.LayerNorm(width), nn.LayerNorm(width), heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).split(width, dim=2)
        q, k, v = (p.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for p in parts)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, width))
        return x + self.narrow(F.gelu(self.wide(self.second(x)), approximate="tanh"))


class GPT(nn.Module):
    """The loss of a small GPT-2."""

    def __init__(self, layers: int, width: int, words: int = 65, length: int = 16) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, 4) for _ in range(layers)))
        self.last, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)

    def forward(self, read: Any, wanted: Any) -> Any:
        x = self.words(read) + self.places(torch.arange(read.shape[1]))
        return F.cross_entropy(self.head(self.last(self.blocks(x))).flatten(0, 1), wanted.flatten())


class Loop(nn.Module):
    """An LSTM cell, step by step."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(4, 6)

    def forward(self, x: Any) -> Any:
        h = c = torch.zeros(x.shape[1], 6)
        for t in range(len(x)):
            h, c = self.cell(x[t], (h, c))
        return h.square().mean()


def forget() -> None:
    """Empty every cache that a line could be found in."""
    template_cache.TEMPLATES.clear()
    for cached in (line_templates.derive_template, local.derive_local, local.local_pullback, local.standard_key):
        cached.cache_clear()
    clear_cache()


def row(work: str, call: Callable[[], Any], aim: float | None) -> None:
    """One workload: from nothing, then again."""
    forget()
    first, later = seconds(call), seconds(call)
    FOUND.rows.append(Row(work, first, later, {}, f"{aim:g} s" if aim else "–", first <= aim if aim else None))


def lines_of(model: nn.Module, *inputs: Any) -> Callable[[], Any]:
    """The lines of a captured model's loss, held against torch's gradients."""
    program = symgrad.capture(model, *inputs)
    found = program.backward().gradients
    model(*inputs).backward()
    for name, parameter in model.named_parameters():
        own = next(line for line in found.values() if line.name == f"{name}.grad")
        assert own.code is not None
        assert_same(parameter.grad.numpy(), own.value, tolerance=1e-4, what=name)
    return program.backward


def test_lines(benchmark: Any) -> None:
    """The three rows."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        read, wanted = torch.randint(0, 65, (2, 2, 16))
        row("the lines of a GPT of 12 layers, 64 wide, after capture", lines_of(GPT(12, 64), read, wanted), 2.0)
        row("the lines of 99 steps of an LSTM cell, after capture", lines_of(Loop(), torch.randn(99, 2, 4)), None)
        layers = [f"h{n + 1} = tanh({f'h{n}' if n else 'x'} @ w{n})" for n in range(99)]
        text = "; ".join([*layers, "tanh(h99 @ w99)"])
        row(
            "`explain` of a text of 100 layers without check, and its lines",
            lambda: str(symgrad.explain(text, shapes={"x": (2, 3)}, check=False).backward), 1.0,
        )  # fmt: skip
        benchmark.pedantic(lambda: None, rounds=1)
    finally:
        torch.set_num_threads(threads)
