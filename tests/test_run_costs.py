"""What a script that is watched is asked once, or not at all."""

from __future__ import annotations

import pytest

from symgrad.numeric import vector_products
from symgrad.tracing import run_script
from symgrad.tracing.record import frame_names


def test_what_runs_a_script_is_not_in_its_sight(monkeypatch, tmp_path) -> None:
    """What click holds around a script was looked through, three deep, at every backward."""
    looked = set()
    collect = frame_names.collect_variable
    monkeypatch.setattr(frame_names, "collect_variable", lambda name, *rest: (looked.add(name), collect(name, *rest)))
    script = tmp_path / "script.py"
    script.write_text("import torch\nx = torch.ones(3, requires_grad=True)\n(x * x).sum().backward()")
    run_script(str(script), [])
    assert "x" in looked
    assert "tmp_path" not in looked


NET = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), {norm}torch.nn.Tanh(), torch.nn.Linear(4, 2))
net(torch.randn(5, 3)).pow(2).mean().backward()
"""


@pytest.mark.parametrize("norm", ["", "torch.nn.LayerNorm(4), "])
def test_a_call_that_is_told_is_swept_back_once(norm, monkeypatch, tmp_path) -> None:
    """The gradients that are compared with torch's and the cotangents of the lines are of one sweep to the leaves."""
    swept, own = [], vector_products.Pull.back
    monkeypatch.setattr(
        vector_products.Pull, "back", lambda self, *args, **told: swept.append(self) or own(self, *args, **told)
    )
    (tmp_path / "net.py").write_text(NET.format(norm=norm), encoding="utf-8")
    (event,) = run_script(str(tmp_path / "net.py"), []).calls
    assert all(leaf.agrees for leaf in event.leaves)
    assert all(line.value is not None for line in event.told.source.lines if line.shape is not None)
    assert sum(len(sweep.wanted) >= len(event.leaves) for sweep in swept) == 1
