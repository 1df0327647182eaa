"""What is imported and called: functions that return numbers, exercises that check a line, files that hold values."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result

import symgrad
from symgrad_cli.main import main
from tests import torch_side
from tests.compare import assert_same

SOFTMAX = "(out * (v - (v * out).sum(-1, keepdim=True))) @ w.T"
DRAWN = np.random.default_rng(2)
NUMBERS: list[tuple[str, dict[str, tuple[int, ...]], str]] = [
    ("softmax(x @ w, -1)", {"x": (2, 3), "w": (3, 2)}, ""),
    ("F.conv1d(x, w, stride=2)", {"x": (1, 2, 6), "w": (2, 2, 3)}, ""),
    ("(x[:, 1:] - x[:, :-1]) * w", {"x": (3, 4), "w": (3,)}, ""),
    ("log(1 + exp(-w * (x @ w)))", {"x": (3, 3), "w": (3,)}, ""),
    ("x.cumsum(0) / w.norm()", {"x": (3, 2), "w": (4,)}, ""),
    ("solve(x, w)", {"x": (3, 3), "w": (3,)}, ""),
    ("h = tanh(x * w); h @ h", {"x": (3,), "w": (3,)}, "tanh(x * w) @ tanh(x * w)"),
    ("out[i] = sum_j x[i+j]*w[j]^2", {"x": (6,), "w": (3,)}, "x.unfold(0, 3, 1) @ w**2"),
]
"""Texts, with shapes, and how torch has what it cannot run."""


@pytest.mark.one_in(4)
@pytest.mark.parametrize(("text", "shapes", "by_torch"), NUMBERS, ids=[text for text, *_ in NUMBERS])
def test_what_a_function_returns_is_torchs(text: str, shapes: dict[str, tuple[int, ...]], by_torch: str) -> None:
    """J, its rows and columns along a direction, and second derivatives of Σ v·out by one input and by two."""
    values = {name: DRAWN.uniform(0.5, 1.5, size=shape) for name, shape in shapes.items()}
    given = {name: torch_side.tensor(value) for name, value in values.items()}

    def outputs(*tensors: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(by_torch or text, dict(zip(given, tensors, strict=True)))

    out = outputs(*given.values())
    seed = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape).numpy()
    rows = torch.autograd.functional.jacobian(outputs, (*given.values(),))

    def loss(*tensors: torch.Tensor) -> torch.Tensor:
        return (outputs(*tensors) * torch.tensor(seed)).sum()

    blocks = torch.autograd.functional.hessian(loss, (*given.values(),))
    for place, (name, value) in enumerate(values.items()):
        j, own = rows[place].reshape(seed.size, -1).numpy(), blocks[place][place].reshape(value.size, -1).numpy()
        along = DRAWN.normal(size=value.shape)
        found = symgrad.jacobian(text, name, check=False, **values)
        assert_same(j, found.dense(), what=f"J of {text} by {name}")
        assert found.nonzeros >= np.count_nonzero(np.abs(j) > 1e-12)
        for expected, got, what in (
            (seed.reshape(-1) @ j, symgrad.vjp(text, name, seed=seed, check=False, **values), "vᵀJ"),
            (j @ along.reshape(-1), symgrad.jvp(text, name, along, **values), "J·u"),
            (own @ along.reshape(-1), symgrad.hvp(text, name, along, seed=seed, **values), "H·u"),
        ):
            assert_same(expected, np.reshape(got, -1), what=f"{what} of {text} by {name}")
        for second, other in enumerate(values):
            block = symgrad.hessian(text, name, other, seed=seed, check=False, **values).value
            expected = blocks[place][second].reshape(-1)
            assert_same(expected, np.reshape(block, -1), what=f"H of {text} by {name}, {other}")


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("expression", "line", "kind", "why"),
    [
        ("softmax(x@w)", SOFTMAX, "exact", "of other sizes"), ("softmax(x@w)", f"x.grad = {SOFTMAX}", "exact", ""),
        ("softmax(x@w)", f"1.00001*{SOFTMAX}", "approximate", "1.0e-05"), ("softmax(x@w)", f"-{SOFTMAX}", "wrong", "the sign is flipped"),
        ("softmax(x@w)", "v @ w.T", "wrong", "v passes softmax unchanged"), ("x@a", "2*v@a.T", "wrong", "every entry is 2 times"),
        ("x@a", "v.sum()", "wrong", "the shape of x, 2×3; this has a number"), ("relu(x)", "v", "wrong", "is 0, not"),
        ("relu(x)", "v*(x > 0)", "exact", ""), ("relu(x)", "v*(x >= 0)", "wrong", "right but where an input is 0"), ("abs(x)", "v", "wrong", ""),
        ("abs(x)", "v*x/abs(x)", "wrong", "right but where an input is 0"),
        ("x.sum()", "v.expand(2)", "wrong", "right at the sizes of this exercise, not at others"), ("x.sum()", "v.expand(x.shape)", "exact", ""),
        ("h = tanh(x); h@w", "(v@w.T)*(1 - h**2)", "exact", ""), ("x@a", "v @ b", "unread", "there is no 'b' here"),
        ("x@a", "v @ a", "unread", "do not fit together"), ("x@a", "", "unread", "no line"), ("x@a", "v" * 3000, "unread", "at most"),
        ("x@a", "__import__('os').system('true')", "unread", "two underscores"), ("x@a", "open('/etc/passwd')", "unread", ""),
        ("x@a", "[v for v in v]", "unread", ""), ("x@a", "lambda: v", "unread", ""),
    ],
)  # fmt: skip
def test_lines_and_verdicts(expression: str, line: str, kind: str, why: str) -> None:
    verdict = symgrad.exercise(expression).check(line)
    assert (verdict.kind, why in verdict.said) == (kind, True), verdict
    assert verdict.right is (kind == "exact")
    assert "--" not in verdict.said, "an option of explain is no advice here"


def test_the_command_asks_checks_and_gives_up() -> None:
    run = CliRunner()
    found = run.invoke(main, ["exercise", "x@a", "--answer", "v @ a.T"])
    assert (found.exit_code, found.stdout.split(":")[0]) == (0, "exact")
    found = run.invoke(main, ["exercise", "x@a", "--answer", "a @ v.T"])
    assert found.exit_code == 1
    found = run.invoke(main, ["exercise", "x@a", "--wrt", "a"], input="v.T @ x\nx.T @ v\n")
    assert found.exit_code == 0
    assert "wrong" in found.stdout
    assert "exact" in found.stdout
    found = run.invoke(main, ["exercise", "x@a"], input="\n")
    assert found.exit_code == 1
    assert "v @ a.T" in found.stdout


def explained(path: Path) -> Result:
    """What is said of x * x for the values in a file."""
    return CliRunner().invoke(
        main, ["explain", "x * x", "--let", f"x=@{path}", "--seed", "ones", "--brief", "--format", "json"]
    )


class Runs:
    """What runs code where it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("ran"),)


def test_a_file_holds_the_values_of_an_input_and_runs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object array in a .npy file would run code when loaded."""
    monkeypatch.chdir(tmp_path)
    values = np.array([[1, 2.5], [3, -4]])
    np.save("whole.npy", values)
    Path("text.json").write_text(json.dumps(values.tolist()), encoding="utf-8")
    for name in ("whole.npy", "text.json"):
        found = explained(Path(name))
        assert found.exit_code == 0
        assert json.loads(found.stdout)["gradients"]["x"]["value"] == (2 * values).tolist()
    np.save("pickled.npy", np.array([Runs()], dtype=object), allow_pickle=True)
    Path("cut.npy").write_bytes(Path("whole.npy").read_bytes()[:-9])
    Path("named.json").write_text('{"x": 1}', encoding="utf-8")
    for name in ("pickled.npy", "cut.npy", "named.json", "missing.npy", "."):
        found = explained(Path(name))
        assert found.exit_code == 2, name
        assert "error[value]" in found.stderr, name
    assert not Path("ran").exists()
