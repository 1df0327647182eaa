"""Where torch's backward of a call contradicts its own forward pass, pages and runs say so; nothing else is excused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.tracing import run_script
from symgrad.tracing.lift.boxes import format_change
from symgrad.tracing.session.agreement import apply_torch_rule
from symgrad.tracing.story.session_pages import event_text

RULED = {
    "cosine_similarity below its eps": (
        (
            "x = torch.tensor([[1e-9, 2e-9]], requires_grad=True)\ny = torch.tensor([[1.0, 2.5]], requires_grad=True)\n"
            "F.cosine_similarity(x, y).sum().backward()"
        ),
        "x",
    ),
    "its eps is large": (
        (
            "x = torch.tensor([[0.1, 0.2]], requires_grad=True)\ny = torch.tensor([[1.0, 2.5]])\n"
            "F.cosine_similarity(x, y, eps=0.5).sum().backward()"
        ),
        "x",
    ),
    "a polar length below 0": (
        (
            "x = torch.tensor([-1.0, 2.0], requires_grad=True)\n"
            "torch.polar(x, torch.tensor([0.3, 0.4])).real.sum().backward()"
        ),
        "x",
    ),
    "on the way": (
        (
            "x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)\n"
            "F.cosine_similarity(torch.tanh(x) * 0.1, x, eps=0.5).square().sum().backward()"
        ),
        "x",
    ),
}
Y = torch.tensor([[1.0, 2.5]], dtype=torch.float64)
HEAD = "import torch\nimport torch.nn.functional as F\n"
DOUBLE = "torch.set_default_dtype(torch.float64)\n"


def told(tmp_path, body, double=True):
    script = tmp_path / "script.py"
    script.write_text(HEAD + (DOUBLE if double else "") + body + "\ntorch.set_default_dtype(torch.float32)\n")
    session = run_script(str(script), [])
    (event,) = session.calls
    return session, event, " ".join(event_text(event, 200).split())


@pytest.mark.one_in(8)
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize(("body", "name"), RULED.values(), ids=list(RULED))
def test_a_run_names_torchs_rule(tmp_path, body, name, double):
    session, event, page = told(tmp_path, body, double)
    (leaf,) = [leaf for leaf in event.leaves if leaf.name == name]
    assert leaf.ruled
    assert leaf.agrees is None
    assert session.agrees
    assert "≠ torch: torch has its own rule" in page
    assert page.count("torch has a rule of its own for") == 1
    assert "vᵀJ is the derivative" in page


CALLS = {
    "cosine_similarity": (lambda x: F.cosine_similarity(x, Y, eps=0.5), [[0.1, 0.2]]),
    "polar": (lambda x: torch.view_as_real(torch.polar(x, torch.ones_like(x))).sum(1), [-1.0]),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_derived_number_that_is_wrong_is_not_excused(name):
    run, x = CALLS[name]
    program = symgrad.capture(run, torch.tensor(x, dtype=torch.float64))
    derived = program.pullback(np.ones(1))["x"]
    told = {}
    for factor in (1.0, 1.01, -1.0, 0.0):
        for origin in program.origins.values():
            if "x" in origin.box.names:
                weights = np.ones(np.shape(program.arrays[origin.steps[-1]]))
                found, reason = apply_torch_rule(origin, {"x": factor * derived}, weights, program.arrays)
                told[factor] = bool(reason)
                assert bool(reason) == (not np.allclose(found["x"], factor * derived))
    assert told == {1.0: True, 1.01: False, -1.0: False, 0.0: False}


@pytest.mark.parametrize("double", [True, False])
def test_a_backward_of_the_users_own_is_no_rule_of_torchs(tmp_path, double):
    body = (
        "class Twice(torch.autograd.Function):\n"
        "    @staticmethod\n    def forward(ctx, x):\n        return 2 * x\n"
        "    @staticmethod\n    def backward(ctx, v):\n        return 3 * v\n"
        "x = torch.tensor([1.0, 2.0], requires_grad=True)\nTwice.apply(x).sum().backward()"
    )
    _, event, page = told(tmp_path, body, double)
    assert not any(leaf.ruled for leaf in event.leaves)
    assert "a rule of its own" not in page


@pytest.mark.one_in(4)
@pytest.mark.parametrize("eps", [1e-8, 1e-4, 0.5, 100.0])
def test_a_page_names_it_too(eps):
    x = [[0.3 * eps, 0.4 * eps]]
    found = symgrad.explain(f"F.cosine_similarity(x, y, eps={eps})", x=x, y=[[eps, 3 * eps]])
    assert found.passed
    (check,) = [check for check in found.gradients["x"].checks if check.own_rule]
    assert "its own forward pass has the slope" in check.note


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (1.0, 3.0, "1 → 3"), ([1.0], [3.0], "1 → 3"), ([1.0, 2.0], [1.0, 3.0], "[1 2] → [1 3]"),
        ([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 9.0, 4.0, 5.0], "at [2] 3 → 9"),
        ([float("nan"), 1.0, 1.0, 1.0, 1.0], [float("nan"), 1.0, 1.0, 1.0, 2.0], "at [4] 1 → 2"),
    ],
)  # fmt: skip
def test_what_a_backward_wrote_over_is_told_by_the_first_entry(before: object, after: object, told: str) -> None:
    assert format_change(torch.tensor(before), torch.tensor(after)) == told
