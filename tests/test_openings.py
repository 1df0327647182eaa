"""``--expand``: every composite operation opened computes the same, forward and backward, or the page says why not."""

from __future__ import annotations

import numpy as np
import pytest
from click.testing import CliRunner

import symgrad
from symgrad.language import expand_composites, why_whole
from symgrad.numeric import as_float, forward, numeric_pullback
from symgrad_cli.main import main
from tests.cases import Case, cases
from tests.compare import assert_same

COMPOSITE = [case for case in cases() if case.op.expands]


@pytest.mark.one_in(3)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", COMPOSITE, ids=[case.name for case in COMPOSITE])
def test_a_composite_opened_is_the_same_forward_and_backward_or_says_why_not(case: Case) -> None:
    program = case.program
    opened = expand_composites(program)
    if opened is program:
        (reason,) = why_whole(program)
        assert reason.startswith(f"{case.last.called} is not expanded: ")
        return
    assert len([s for s in opened.steps if s.op != "expand"]) > 1 or opened.steps[-1].op != case.last.op
    wanted = [tensor.name for tensor in program.inputs]
    before, after = (forward(own, dict(case.inputs)) for own in (program, opened))
    assert_same(as_float(before[program.output]), as_float(after[opened.output]), what="forward")
    seed = np.random.default_rng(3).integers(-3, 4, np.shape(before[program.output]))
    whole, apart = (numeric_pullback(p, v, seed, wanted) for p, v in ((program, before), (opened, after)))
    for name in wanted:
        assert_same(as_float(whole[name]), as_float(apart[name]), tolerance=1e-7, what=name)


def test_there_are_composites_that_open_and_the_rest_is_few() -> None:
    whole = {case.name for case in COMPOSITE if expand_composites(case.program) is case.program}
    assert len(COMPOSITE) >= 30
    assert len(whole) < len(COMPOSITE) / 4, whole


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("x@a", "There is nothing to expand: matmul is one equation."),
        ("tanh(x@a)", "There is nothing to expand: matmul and tanh are one equation each."),
    ],
)
def test_the_page_says_why_nothing_was_opened(command: str, said: str) -> None:
    found = CliRunner().invoke(main, ["explain", command, "--expand", "--no-check", "--brief"], catch_exceptions=False)
    told = " ".join(found.stdout.split())
    assert said in told
    assert ".." not in told


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("command", "line", "said"),
    [
        ("softmax(x, -1)", "t3[i] = Σ_j t1[j]", ""),
        ("silu(x)", "t3[i] = exp(−x[i])", ""),
        (
            "tanh(x@a)",
            "t1[i,k] = Σ_j x[i,j]·a[j,k]",
            "There is nothing to expand: matmul and tanh are one equation each.",
        ),
    ],
)
def test_derive_opens_composites_or_says_why_not(command: str, line: str, said: str) -> None:
    whole, opened = (
        CliRunner().invoke(main, ["derive", command, *more], catch_exceptions=False) for more in ([], ["--expand"])
    )
    assert line in opened.stdout
    assert (line in whole.stdout) == bool(said)
    assert opened.stderr.strip() == said


@pytest.mark.parametrize(
    ("end", "begins"),
    [
        ("y.backward()", "torch raises an error at line 3, y.backward():"),
        ("y.backward(retain_graph=True)", "torch raises an error at line 3, y.backward(retain_graph=True):"),
        ("y.mul_(2); y.sum().backward()", "torch raises an error at line 3, y.mul_(2); y.sum().backward():"),
        ("y.sum()", "This script has no backward()"),
        ("y.backward(torch.ones(2))", ""),
        ("y.sum().backward()  # y.backward() raises", ""),
    ],
)
def test_a_pasted_script_begins_with_what_torch_raises(end: str, begins: str) -> None:
    text = f"x = torch.tensor([1., 2.], requires_grad=True)\ny = torch.exp(x)\n{end}"
    page = symgrad.explain(text).to_text()
    raised = [line.strip() for line in page.splitlines()[1:4] if "torch raises" in line or "has no" in line]
    assert [line[: len(begins)] for line in raised] == ([begins] if begins else [])
