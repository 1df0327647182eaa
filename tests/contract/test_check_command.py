"""``symgrad check``: its table, its exit status, and the test that it writes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from symgrad_cli.main import main

KERNELS = """
import numpy as np
import torch


class Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.softmax(x, -1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, v):
        (y,) = ctx.saved_tensors
        return y * (v - (v * y).sum(-1, keepdim=True))


def softmax(x):
    return Softmax.apply(x)


class Wrong(Softmax):
    @staticmethod
    def backward(ctx, v):
        return ctx.saved_tensors[0] * v


wrong = Wrong.apply


def forward(x, a):
    return x @ a


def backward(v, x, a):
    return v @ a, x.T @ v


loss = torch.nn.functional.cross_entropy
"""


@pytest.fixture
def kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A module of kernels in the current folder, under a name of its own."""
    name = f"kernels_{abs(hash(tmp_path))}"
    (tmp_path / f"{name}.py").write_text(KERNELS, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, name, raising=False)
    return name


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments], catch_exceptions=False)


def test_the_exit_status_says_what_was_found(kernels: str) -> None:
    """0 right, 1 wrong, 2 misused: message on stderr, table on stdout."""
    right = run(f"{kernels}:softmax", "softmax(x, dim=-1)", "--let", "x=randn(3,4)")
    assert right.exit_code == 0
    assert "the backward of 'softmax(x, dim=-1)' passes" in right.stdout
    assert "layout           passed    10" in right.stdout
    wrong = run(f"{kernels}:wrong", "softmax(x, dim=-1)", "--let", "x=randn(3,4)")
    assert wrong.exit_code == 1
    assert "missing_term: x.grad[" in wrong.stdout
    for arguments, said in (
        ((f"{kernels}:softmaks", "x", "--let", "x=randn(3)"), "has no softmaks"),
        ((f"{kernels}:softmax", "softmax(y)", "--let", "x=randn(3)"), "needs a value for y"),
        ((f"{kernels}:softmax", "softmax(x)", "--let", "x=randn"), "x needs a shape"),
        ((f"{kernels}:softmax", "softmax(x)"), "no input is floating point"),
        ((f"{kernels}:softmax", "softmax(x)", "--let", "x=randn(3)", "--wrt", "z"), "no value for z"),
        ((f"{kernels}:softmax", "softmax(x)", "--let", "x=randn(3)", "--only", "sum"), "no battery 'sum'"),
        ((kernels, "softmax(x)", "--let", "x=randn(3)"), "needs a module and a function in it"),
    ):
        misused = run(*arguments)
        assert misused.exit_code == 2
        assert said in misused.stderr
        assert misused.stdout == ""


def test_pairs_types_and_constants(kernels: str) -> None:
    """A forward and a backward of NumPy; whole numbers stay whole beside --wrt; JSON."""
    pair = run(f"{kernels}:forward,backward", "x @ a", "--let", "x=randn(3,3)", "--let", "a=randn(3,3,seed=1)")
    assert pair.exit_code == 1
    assert "equals v @ a: the transpose of a is missing" in pair.stdout
    lets = ("--let", "z=randn(3,4)", "--let", "t=[0,2,1]")
    loss = run(f"{kernels}:loss", "cross_entropy(z, t)", *lets, "--wrt", "z", "--dtype", "float32", "--format", "json")
    assert loss.exit_code == 0
    found = json.loads(loss.stdout)
    assert found["inputs"] == {"z": "3×4 float32"}
    assert run(f"{kernels}:softmax", "--let", "x=randn(3,4)", "--order", "2").exit_code == 0


@pytest.mark.parametrize(("name", "passes"), [("softmax", True), ("wrong", False)])
def test_the_test_that_is_written_makes_the_same_check(kernels: str, tmp_path: Path, name: str, passes: bool) -> None:
    """It runs by itself and comes to the same."""
    file = tmp_path / f"test_{name}.py"
    target = f"{kernels}:{name}"
    run(target, "softmax(x, dim=-1)", "--let", "x=randn(2,3)", "--order", "2", "--emit-test", str(file))
    scope: dict[str, object] = {}
    sys.path.insert(0, str(tmp_path))
    try:
        exec(compile(file.read_text(encoding="utf-8"), file.name, "exec"), scope)
    finally:
        sys.path.remove(str(tmp_path))
    (test,) = [thing for word, thing in scope.items() if word.startswith("test_")]
    assert callable(test)
    if passes:
        test()
    else:
        with pytest.raises(AssertionError, match="missing_term"):
            test()
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--ignore", "E501", str(file)], check=False
    )
    assert ruff.returncode == 0
