"""Exported Functions against torch's own forward and backward: ratios of processor time in one run, equal first.

    OMP_NUM_THREADS=1 python -m tests.benchmarks.exported [--compile] [64 256 …]

A ratio is the median of rounds in which both are measured one after the other.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

import torch
from torch.nn import functional as F

import symgrad

ROUNDS, LEAST = 9, 0.02
SIZES = (64, 256, 1024)


def cases(n: int) -> Iterator[tuple[str, str, Callable[..., Any], dict[str, Any]]]:
    """Text, torch's own, inputs; attention and the layers of a network have n rows of 64."""
    x = torch.randn(n, n)
    row = {"w": torch.randn(n), "b": torch.randn(n)}
    yield "softmax", "softmax(x, dim=-1)", lambda x: torch.softmax(x, -1), {"x": x}
    text = f"layer_norm(x, ({n},), w, b)"
    yield "layer norm", text, lambda x, w, b: F.layer_norm(x, (n,), w, b), {"x": x, **row}
    yield "gelu", "gelu(x)", F.gelu, {"x": x}
    mlp = {"x": x, "u": torch.randn(n, n) / n, "a": torch.randn(n), "w": torch.randn(n, n) / n, "b": torch.randn(n)}
    text = "relu(x @ u.T + a) @ w.T + b"
    yield "MLP", text, lambda x, u, a, w, b: F.linear(torch.relu(F.linear(x, u, a)), w, b), mlp
    qkv = {name: torch.randn(n, 64) for name in "qku"}
    text = "softmax(q @ k.T / 8, dim=-1) @ u"
    yield "attention", text, lambda q, k, u: torch.softmax(q @ k.T / 8, -1) @ u, qkv
    yield "cross entropy", "cross_entropy(x, y)", F.cross_entropy, {"x": x, "y": torch.randint(0, n, (n,))}


def exported(text: str, inputs: dict[str, Any]) -> Callable[..., Any]:
    """The function of an exported module."""
    source = symgrad.export(text, shapes={name: t.shape for name, t in inputs.items()}, name="own")
    space: dict[str, Any] = {}
    exec(source, space)
    function: Callable[..., Any] = space["own"]
    return function


def step(function: Callable[..., Any], inputs: dict[str, Any], seed: Any) -> Callable[[], Any]:
    """One forward and one backward."""
    given = {n: t.clone().requires_grad_() if t.is_floating_point() else t for n, t in inputs.items()}
    leaves = [t for t in given.values() if t.is_floating_point()]

    def once() -> Any:
        return torch.autograd.grad(function(*given.values()), leaves, seed)

    return once


def seconds(once: Callable[[], Any], times: int) -> float:
    """Processor time of some calls."""
    begin = process_time()
    for _ in range(times):
        once()
    return process_time() - begin


def ratio(own: Callable[[], Any], theirs: Callable[[], Any]) -> tuple[float, float]:
    """Own by theirs, the median; and the microseconds of theirs."""
    seconds(own, 3), seconds(theirs, 3)
    times = max(1, int(LEAST / max(seconds(theirs, 1), 1e-6)))
    pairs = [(seconds(own, times), seconds(theirs, times)) for _ in range(ROUNDS)]
    return statistics.median(a / b for a, b in pairs), statistics.median(b for _, b in pairs) / times * 1e6


def main() -> None:
    """The table."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    compiled = "--compile" in sys.argv
    sizes = [int(word) for word in sys.argv[1:] if word.isdigit()] or SIZES
    found = []
    for n in sizes:
        for name, text, function, inputs in cases(n):
            own = exported(text, inputs)
            mine, theirs = (torch.compile(f, dynamic=False) if compiled else f for f in (own, function))
            out = function(*inputs.values())
            seed = torch.randn_like(out)
            first, second = step(mine, inputs, seed), step(theirs, inputs, seed)
            for one, other in zip(first(), second(), strict=True):
                torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-4)
            number, microseconds = ratio(first, second)
            found.append(number)
            print(f"{name:14} {n:5}  {number:5.2f}  ({microseconds:,.0f} µs)", flush=True)
    print(f"at most {max(found):.2f}, {sum(f <= 1.0 for f in found)} of {len(found)} at or below 1.0")


if __name__ == "__main__":
    main()
