"""Whether whole processes take longer than they did: ``python -m tests.benchmarks.guard``, exit code 1 where one does.

`kept.txt` has a line for each: how many times the processor time of ``import torch`` it took, then its name. Each is
measured in turns with that import, and the median of three counts. More than 1.6 times what was kept is measured again,
twice; what is so each time is told. Only ratios of one run are compared: machines differ, and two cores are shared.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.benchmarks.test_cost import command, processor_seconds

KEPT = Path(__file__).with_name("kept.txt")
WORSE, TURNS, TRIES = 1.6, 3, 3
LARGE = "import numpy, symgrad; x = numpy.linspace(-1, 1, 720 * 720).reshape(720, 720); "
SCRIPT = """
import torch
from torch import nn
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, dropout=0.0)
layer(torch.randn(2, 5, 16)).square().mean().backward()
"""


def works(script: Path) -> dict[str, Callable[[], Any]]:
    """What is measured, by name."""
    return {
        "explain x@a, 720 by 720": command("-c", LARGE + "symgrad.explain('x@a', x=x, a=x)"),
        "jacobian of tanh(x), 720 by 720, sparse": command("-c", LARGE + "symgrad.jacobian('tanh(x)', 'x', x=x).sparse()"),
        "symgrad explain x@a": command("-m", "symgrad_cli", "explain", "x@a"),
        "symgrad run, one encoder layer": command("-m", "symgrad_cli", "run", str(script)),
    }  # fmt: skip


def ratio(call: Callable[[], Any]) -> float:
    """How many times the processor time of importing torch a process takes."""
    base = command("-c", "import torch")
    return statistics.median(processor_seconds(call) / processor_seconds(base) for _ in range(TURNS))


def main() -> int:
    """Measure, compare, say."""
    kept = {name.strip(): float(value) for value, _, name in (x.partition(" ") for x in KEPT.read_text().splitlines())}
    slower = 0
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.py"
        script.write_text(SCRIPT, encoding="utf-8")
        for name, call in works(script).items():
            found = ratio(call)
            for _ in range(TRIES - 1):
                if found > WORSE * kept[name]:
                    found = min(found, ratio(call))
            worse = found > WORSE * kept[name]
            slower += worse
            sys.stdout.write(f"{found:6.2f} × import torch, kept {kept[name]:.2f}  {name}{'  SLOWER' * worse}\n")
            sys.stdout.flush()
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
