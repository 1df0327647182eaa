"""The pytest plugin, in test sessions of its own; and what it costs where nobody uses it."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import symgrad.testing.check
from symgrad.testing import report
from symgrad.testing.report import BackwardReport, Finding

pytest_plugins = ["pytester"]
LOADED = (torch, symgrad.testing.check)
"""An inner session forgets what it imported, and torch cannot be imported twice."""
ROOT = Path(__file__).parent.parent
OWN = ("-p", "no:symgrad", "-p", "symgrad.testing.plugin", "-p", "no:xdist", "-p", "no:cacheprovider")
HEAD = """
import pytest, torch

class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x ** 2

    @staticmethod
    def backward(ctx, v):
        return ctx.n * ctx.saved_tensors[0] * v, None

def right(x):
    return Square.apply(x, 2)

def wrong(x):
    return Square.apply(x, 3)
"""


def test_the_fixture_and_the_marker(pytester: pytest.Pytester) -> None:
    """Right ones pass, wrong ones fail with the finding, and each leaves its report."""
    pytester.makepyfile(
        HEAD
        + """
def test_fixture(check_backward):
    assert check_backward(right, "x ** 2", x=torch.ones(3)).passed

def test_fixture_fails(check_backward):
    check_backward(right, "x ** 2", x=torch.ones(3))
    check_backward(wrong, "x ** 2", x=torch.ones(3))

@pytest.mark.symgrad("x ** 2", x=(3,))
def test_marker():
    return right

@pytest.mark.symgrad("x ** 2", x=(3,), only="value")
@pytest.mark.parametrize("candidate", [right, wrong])
def test_marker_fails(candidate):
    return candidate

def test_plain():
    from symgrad.testing import assert_backward
    assert_backward(right, "x ** 2", x=torch.ones(3))
"""
    )
    result = pytester.runpytest_inprocess(*OWN, "--strict-markers", "--symgrad-report", "reports")
    result.assert_outcomes(passed=4, failed=2)
    result.stdout.fnmatch_lines(["E*scaled: x.grad*every entry is 3/2 times what it should be*"])
    assert "symgrad/testing/check.py" not in result.stdout.str()
    reports = sorted(p.name for p in (pytester.path / "reports").iterdir())
    assert len(reports) == 2 * 7
    (second,) = (name for name in reports if name.endswith("test_fixture_fails-2.json"))
    found = json.loads((pytester.path / "reports" / second).read_text(encoding="utf-8"))
    assert found["findings"][0]["kind"] == "scaled"
    page = (pytester.path / "reports" / second.replace(".json", ".html")).read_text(encoding="utf-8")
    assert "every entry is 3/2 times what it should be" in page
    assert '<td class="failed">failed</td>' in page
    told = report.report_page(
        "<script>", replace(BackwardReport("a < b", "", (), ()), findings=(Finding("<", "", "", "&"),))
    )
    assert "<script>" not in told
    assert "&lt;script&gt;" in told


def test_misuse_is_said(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        HEAD
        + """
@pytest.mark.symgrad("x ** 2", x=(3,))
def test_returns_nothing():
    right

@pytest.mark.symgrad("x @ y", x=(3,))
def test_does_not_fit():
    return right
"""
    )
    result = pytester.runpytest_inprocess(*OWN)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["*is marked symgrad, but returns no function to check*"])
    result.stdout.fnmatch_lines(["*needs a value for y*"])


COST = """
import sys, time
import pytest
begin = time.process_time()
import symgrad.testing.plugin
print(time.process_time() - begin)
assert "torch" not in sys.modules and "sympy" not in sys.modules and "numpy" not in sys.modules
"""


@pytest.mark.slow
def test_a_session_that_does_not_use_it_pays_nothing() -> None:
    """Below 5 ms of processor time, and none of the libraries."""
    times = []
    for _ in range(3):
        command = [sys.executable, "-c", COST]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        times.append(float(done.stdout))
    assert min(times) < 0.005, times
