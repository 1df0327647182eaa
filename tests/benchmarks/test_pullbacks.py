"""What vᵀJ of captured programs costs beside torch's own backward: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

One table of ratios, measured in turns in one process with one thread. Each workload is held against torch's numbers
first. Gradients are taken by the parameters on both sides, in float64, dropout off; the first call is not counted. Nothing
is asserted about time; the aims stand beside the figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from symgrad import capture
from tests.benchmarks.ratios import FOUND, Row
from tests.compare import assert_same

ROUNDS = 9


class LeNet(nn.Module):
    """Two convolutions, two poolings, three layers, for images of 28×28."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 6, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Flatten(), nn.Linear(256, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.layers(x)


class Deep(nn.Module):
    """tanh(x @ w), again and again."""

    def __init__(self, depth: int) -> None:
        super().__init__()
        self.depth, self.w = depth, nn.Parameter(torch.randn(3, 3) / 2)

    def forward(self, x: Any) -> Any:
        for _ in range(self.depth):
            x = torch.tanh(x @ self.w)
        return x


def mlp() -> nn.Module:
    """Eight layers, 256 wide."""
    return nn.Sequential(*(layer for _ in range(8) for layer in (nn.Linear(256, 256), nn.ReLU())))


def transformer(width: int, heads: int, layers: int = 1) -> nn.Module:
    """Encoder layers without dropout."""
    one = nn.TransformerEncoderLayer(width, heads, 4 * width, dropout=0.0, batch_first=True)
    return one if layers == 1 else nn.TransformerEncoder(one, layers, enable_nested_tensor=False)


WORK: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...], float]] = {
    "MLP 8×256, batch 64": (mlp, (64, 256), 1.5),
    "LeNet, batch 8": (LeNet, (8, 1, 28, 28), 1.5),
    "transformer layer, 64 wide": (lambda: transformer(64, 4), (8, 32, 64), 1.5),
    "transformer layer, 512 wide": (lambda: transformer(512, 8), (10, 32, 512), 1.5),
    "6 transformer layers, 128 wide": (lambda: transformer(128, 4, 6), (4, 32, 128), 1.5),
    "tanh(x @ w) 300 deep, 3×3": (lambda: Deep(300), (3, 3), 1.0),
}
"""By name: the model, the shape of its input, the aim as a ratio to torch's backward."""


def seconds(call: Callable[[], Any]) -> float:
    """The processor time of one call: what else the machine does counts less."""
    start = time.process_time()
    call()
    return time.process_time() - start


def side_by_side(*calls: Callable[[], Any], rounds: int = ROUNDS) -> list[float]:
    """Median times of calls that take turns."""
    times = [[seconds(call) for call in calls] for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def captured_row(name: str, captured: float, eager: float, steps: int) -> Row:
    """What capturing costs: 2.5 × the eager forward where that is large, else 12 ×, or 2 × and 150 µs for each operation."""
    wide = name == "transformer layer, 512 wide"
    most = 2.5 * eager if wide else max(12 * eager, 2 * eager + 150e-6 * steps)
    aim = "at most 2.5 × eager" if wide else "at most 12 × eager, or 2 × eager and 150 µs an operation"
    return Row(f"capture of {name}", None, captured, {"the forward": eager}, aim, captured <= most)


@pytest.mark.parametrize("name", WORK)
def test_pulling_back(benchmark: Any, capsys: Any, name: str) -> None:
    """The gradients by all parameters against torch.autograd.grad; capture against the eager forward."""
    make, shape, aim = WORK[name]
    before, threads = torch.get_default_dtype(), torch.get_num_threads()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    try:
        torch.manual_seed(0)
        model, x = make(), torch.randn(shape)
        program = capture(model, x)
        wanted = [name for name in program.inputs if name in dict(model.named_parameters())]
        assert len(wanted) == len(list(model.parameters()))
        out = model(x)
        seed = torch.randn_like(out)
        weights = seed.numpy()

        def theirs() -> Any:
            return torch.autograd.grad(out, list(model.parameters()), seed, retain_graph=True)

        def ours() -> Any:
            return program.pullback(weights, wrt=wanted)

        first, found = seconds(ours), ours()
        parameters = dict(model.named_parameters())
        for own, expected in zip(parameters, theirs(), strict=True):
            assert_same(expected, found[own], tolerance=1e-8, what=f"{name}, {own}")
        mine, torchs = side_by_side(ours, theirs)
        tensor = seed.clone()

        def on_tensors() -> Any:
            return program.pullback(tensor, wrt=wanted, backend="torch")

        for own, expected in zip(parameters, theirs(), strict=True):
            assert_same(expected, on_tensors()[own], tolerance=1e-8, what=f"{name}, {own}, on tensors")
        tensors, beside = side_by_side(on_tensors, theirs)
        captured, eager = side_by_side(lambda: capture(model, x), lambda: model(x), rounds=3)
        least = f"at most {aim} × torch's backward"
        FOUND.rows += [
            Row(f"vᵀJ of {name}, NumPy", first, mine, {"torch's backward": torchs}, least, mine <= aim * torchs),
            Row(f"vᵀJ of {name}, tensors", None, tensors, {"torch's backward": beside}, least, tensors <= aim * beside),
            captured_row(name, captured, eager, len(program.operations)),
        ]
        benchmark.extra_info.update(ratio=mine / torchs, on_torch=tensors / beside, aim=aim, capture=captured / eager)
        benchmark.pedantic(ours, rounds=1)
    finally:
        torch.set_default_dtype(before)
        torch.set_num_threads(threads)
    with capsys.disabled():
        steps = len(program.recording.steps)
        print(
            f"\n{name}: {mine / torchs:.2f} times torch's backward ({mine * 1e3:.2f} and {torchs * 1e3:.2f} ms; the aim "
            f"is {aim}), on tensors {tensors / beside:.2f} times, {mine / steps * 1e6:.0f} µs a step, first call {first * 1e3:.0f} ms, "
            f"capture {captured / eager:.1f} times eager"
        )
    assert np.isfinite(mine)
