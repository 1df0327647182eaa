"""What capturing and explaining PyTorch programs costs, as ratios: `python -m pytest --benchmark-only -n 0 tests/benchmarks`.

Nothing is asserted about time. Aims: capturing `nn.TransformerEncoderLayer` at most 20 times its eager forward;
explaining LeNet in under 5 s beyond importing torch, with at most 3 times the memory of running it. Every figure is
printed and kept in ``extra_info``. Processes run with one thread each, so that a busy machine changes less.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.networks import LENET

ONE = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
LAYER = """
import statistics, time, torch
from torch import nn
from symgrad import capture
from symgrad.tracing.captured.function import recording
from symgrad.tracing.record.mode import Recorder

def median(call, rounds):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)

def recorded():
    with recording(Recorder()):
        layer(x)

torch.set_num_threads(1)
layer = nn.TransformerEncoderLayer(d_model={d}, nhead={heads}, dim_feedforward={wide}, batch_first=True)
layer.train({train})
x = torch.randn({batch}, {length}, {d})
capture(layer, x)
print(median(lambda: layer(x), 9), median(recorded, 9), median(lambda: capture(layer, x), 5))
"""


def process(*arguments: str) -> str:
    """A fresh interpreter with one thread; what it printed."""
    environment = os.environ | ONE
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, text=True, env=environment)
    return done.stdout


def seconds(call: Callable[[], Any], rounds: int = 5) -> float:
    """The median time of a call."""
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def say(capsys: Any, text: str) -> None:
    """Print past pytest's capture."""
    with capsys.disabled():
        sys.stdout.write(f"\n  {text}\n")


LAYERS = {
    "512 wide, batch 10, length 32": {"d": 512, "heads": 8, "wide": 2048, "batch": 10, "length": 32},
    "64 wide, batch 8, length 32": {"d": 64, "heads": 4, "wide": 256, "batch": 8, "length": 32},
}


@pytest.mark.parametrize("train", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("name", LAYERS)
def test_capturing_a_transformer_layer(benchmark: Any, capsys: Any, name: str, train: bool) -> None:
    """Against the eager forward; recording alone beside it."""
    code = LAYER.format(train=train, **LAYERS[name])
    eager, recorded, captured = map(float, benchmark.pedantic(lambda: process("-c", code), rounds=1).split())
    benchmark.extra_info.update(eager=eager, record=recorded / eager, capture=captured / eager)
    say(capsys, f"transformer layer, {name}, {'train' if train else 'eval'}: eager {eager * 1e3:.1f} ms, recording "
                f"{recorded / eager:.1f}x, capture {captured / eager:.1f}x")  # fmt: skip


def test_explaining_lenet(benchmark: Any, capsys: Any, tmp_path: Path) -> None:
    """The whole command, two calls of backward with ten leaves each, beyond importing torch."""
    script = tmp_path / "lenet.py"
    script.write_text(LENET, encoding="utf-8")
    imports = seconds(lambda: process("-c", "import torch"), 3)
    plain = seconds(lambda: process(str(script)), 3)
    benchmark.pedantic(lambda: process("-m", "symgrad_cli", "run", str(script)), rounds=3)
    beyond = benchmark.stats.stats.median - imports
    benchmark.extra_info.update(beyond=beyond, imports=imports, plain=plain)
    say(
        capsys,
        f"LeNet explained in {beyond:.2f} s beyond importing torch ({imports:.2f} s; the script alone {plain:.2f} s)",
    )


PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def test_the_memory_of_explaining_lenet(benchmark: Any, capsys: Any, tmp_path: Path) -> None:
    """Peak resident memory of the whole process, against the script alone."""
    script = tmp_path / "lenet.py"
    script.write_text(LENET, encoding="utf-8")
    assert resource.RUSAGE_CHILDREN
    plain = int(process("-c", PEAK, sys.executable, str(script)))
    explained = benchmark.pedantic(
        lambda: int(process("-c", PEAK, sys.executable, "-m", "symgrad_cli", "run", str(script))), rounds=1
    )
    benchmark.extra_info.update(plain=plain, explained=explained, ratio=explained / plain)
    say(
        capsys,
        f"LeNet's peak memory: {plain / 1024:.0f} MB run, {explained / 1024:.0f} MB explained, {explained / plain:.2f}x",
    )
