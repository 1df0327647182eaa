"""The value at points that are not finite is torch's, or the page says that it is not."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.language import read_program
from symgrad.numeric import forward
from symgrad.ops import Op, find
from symgrad.oracles.typed_text import describe_other_values
from tests import torch_programs, torch_side
from tests.compare import assert_same
from tests.test_singular_table import OPS, cases

MOVED = (
    "F.pad(x, (1, 2))", "F.pad(x, (-1, 1))", "x.roll(1)", "x.flip(0)", "cat([x, x])", "stack([x, x])", "x[1:]",
    "diag(x)", "torch.block_diag(x[None], x[None])", "F.interpolate(x[None, None], scale_factor=2)", "x.repeat(2)",
    "x.unfold(0, 2, 1)", "x.cumsum(0)", "sort(x).values", "sort(x, 0, True).values", "topk(x, 2).values",
    "topk(x, 2, 0, False).values", "kthvalue(x, 2).values", "median(x)", "median(x, 0).values", "quantile(x, 0.3)",
    "x.max()", "amin(x, 0)", "x.cummax(0).values", "F.avg_pool1d(x[None], 2)",
)  # fmt: skip


@pytest.mark.parametrize("text", MOVED)
def test_what_is_not_finite_stays_where_torch_has_it(text: str) -> None:
    """A place that is not chosen is not there: 0·NaN and 0·∞ do not come from it. And NaN is the largest in order."""
    program = read_program(text, shapes={"x": (4,)}).program
    for x in (
        [np.nan, 1.0, -2.0, 0.5],
        [1.0, np.inf, 0.0, -3.0],
        [0.5, -np.inf, np.nan, 2.0],
        [3.0, np.nan, 1.0, np.nan],
    ):
        expected = torch_side.evaluate(text, {"x": torch_side.tensor(np.array(x))})
        assert_same(expected, forward(program, {"x": np.array(x)})[program.output], what=f"{text} at {x}")


@pytest.mark.parametrize("text", ["median(z, 0).values", "topk(z, 2).values", "quantile(z, 0.5)"])
def test_the_gradient_goes_to_the_entry_that_is_no_number(text: str) -> None:
    found = symgrad.explain(f"z = x + log(u); {text}", x=[0.5, 1.0, -2.0], u=[-1.0, 1.0, 1.0], wrt="x")
    assert found.passed
    assert found.gradients["x"].value[0] == 1


OTHERWISE = {
    "batch_norm": "torch has x·(w/σ) + (b − μ·w/σ), ∞ − ∞ where w is infinite; the equation w·(x − μ)/σ + b",
    "bilinear": "torch adds up over x before it multiplies by y = ∞; the equation's terms are ∞ − ∞",
    "complex_hfft": "which ∞ − ∞ are formed on the way is the algorithm's: a sum of cosines here, a fast transform there",
    "complex_irfft": "as complex_hfft",
    "complex_matmul": "torch's product of matrices makes NaN of ∞ + bi; the equation's four real sums do not",
    "gaussian_nll_loss": "torch bounds a variance of 0 by eps; the equation divides by it",
    "hardswish": "torch has x·relu6(x + 3)/6, at −∞ that is −∞·0; the equation has the limit, 0",
    "interpolate": "torch weighs a neighbour beyond the border by 0, 0·∞ = NaN; the equation has no such term",
    "lerp": "from w = 1/2 on torch has y − (1 − w)·(y − x), without the ∞ − ∞ of x + w·(y − x)",
    "lgamma": "log|Γ| has no limit at −∞, between its poles it falls: torch says ∞, SciPy −∞",
    "mvlgamma": "as lgamma",
    "poisson_nll_loss": "the equation multiplies Stirling's term by full = 0, 0·∞ = NaN; torch leaves it out",
    "polygamma": "at a pole torch divides by sin²(π·x), which rounding keeps from 0; at −∞ there is no limit",
    "qr_r": "a matrix with ∞ has no factors: what is left is LAPACK's, of NumPy's build here, of torch's there",
    "sign": "torch says that the sign of NaN is 0",
    "solve": "a system with NaN has no solution: what is left is LAPACK's, of NumPy's build here, of torch's there",
    "svd_u": "as qr_r",
    "svd_vh": "as qr_r",
    "trapezoid": "torch has Σ y − (first + last)/2, ∞ − ∞; the equation adds up halves and wholes",
}
"""Operations whose value torch has otherwise at one of these points, and why. The page says so where it happens."""


@pytest.mark.slow
@pytest.mark.parametrize("op", OPS, ids=[op.name for op in OPS])
def test_the_value_is_torchs_or_the_page_says_that_it_is_not(op: Op) -> None:
    apart = 0
    for inputs in cases(op):
        try:
            program = read_program(op.examples[0].text, shapes={n: a.shape for n, a in inputs.items()}).program
            ours = np.asarray(forward(program, inputs)[program.output], dtype=float)
            order = [tensor.name for tensor in program.inputs]
            given = [torch.tensor(np.asarray(inputs[n], dtype=float)) for n in order]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                theirs = torch_programs.function_of(program)(*given).detach().numpy()
        except (SymgradError, RuntimeError, IndexError, ValueError):
            continue  # one of the two refuses in words
        told = describe_other_values("out", ours, theirs)
        try:
            assert_same(theirs, ours)
        except AssertionError:
            assert told
            apart += 1
    assert (apart > 0) == (op.name in OTHERWISE)


@pytest.mark.parametrize(
    ("text", "at", "told"),
    [
        ("sign(log(x))", [-1.0, 2.0], "at out[0]: 0, by the equation nan"),
        ("hardswish(log(x))", [0.0, 1.0], "at out[0]: nan, by the equation 0"),
        ("sign(log(x))", [1.5, 2.0], ""),
    ],
)
def test_a_value_that_torch_has_otherwise_is_said(text: str, at: list[float], told: str) -> None:
    page = re.sub(r"\s+", " ", symgrad.explain(text, x=at).to_text())
    assert ("torch's own forward pass has another value" in page) == bool(told)
    assert told in page


@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_a_grid_that_is_not_finite_reads_what_torch_reads(mode: str, padding: str) -> None:
    if mode == "bicubic" and padding != "zeros":
        return
    op, x = find("grid_sample"), np.arange(9.0).reshape(1, 1, 3, 3)
    assert op is not None
    assert op.numpy is not None
    for far in (np.inf, -np.inf, np.nan):
        grid, options = np.array([[[[far, 0.25]]]]), {"mode": mode, "padding_mode": padding, "align_corners": True}
        expected = torch.nn.functional.grid_sample(torch.tensor(x), torch.tensor(grid), **options)
        assert_same(expected, op.numpy(x, grid, **options), tolerance=1e-6, what=f"{mode} {padding} {far}")
