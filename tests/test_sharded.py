"""An exported backward on torch's own distributed tensors: two processes, a batch in two shards, torch's gradients.

Nothing of ours is distributed: the exported lines are plain functions of torch, and DTensor runs them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import symgrad

TEXT = "softmax(x @ w, dim=-1)"
WORKER = """
import sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, distribute_tensor

rank, store = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
sys.path.insert(0, sys.argv[3])
import exported

mesh = init_device_mesh("cpu", (2,))
torch.manual_seed(0)
x, w, v = (torch.randn(shape, dtype=torch.float64) for shape in ((4, 3), (3, 5), (4, 5)))
expected = torch.func.vjp(lambda x, w: torch.softmax(x @ w, -1), x, w)[1](v)
parts = [distribute_tensor(t, mesh, [placed]) for t, placed in ((x, Shard(0)), (w, Replicate()), (v, Shard(0)))]
leaves = [part.requires_grad_() for part in parts[:2]]
out = getattr(exported, sys.argv[4])(*leaves)
assert out.placements == (Shard(0),), out.placements
found = torch.autograd.grad(out, leaves, parts[2])
for name, mine, other in zip("xw", found, expected):
    gap = (mine.full_tensor() - other).abs().max().item()
    assert gap < 1e-12, (name, gap)
print("the same", flush=True)
dist.destroy_process_group()
"""


@pytest.mark.slow
def test_an_exported_backward_on_two_shards(tmp_path: Path) -> None:
    source = symgrad.export(TEXT, shapes={"x": (4, 3), "w": (3, 5)}, name="scores")
    (tmp_path / "exported.py").write_text(str(source))
    (tmp_path / "worker.py").write_text(WORKER)
    command = [sys.executable, str(tmp_path / "worker.py")]
    workers = [
        subprocess.Popen(
            [*command, str(rank), str(tmp_path / "store"), str(tmp_path), "scores"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in (0, 1)
    ]  # fmt: skip
    told = [worker.communicate(timeout=240)[0] for worker in workers]
    assert [worker.returncode for worker in workers] == [0, 0], "\n".join(told)
    assert all("the same" in text for text in told)
