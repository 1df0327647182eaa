"""A fixed part of torch's operator database in the default tests; the whole of it under the marker slow.

The whole, with the page docs/reference/coverage.md: ``python tests/conformance/sweep.py``.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.nights import numbers

SPEC = importlib.util.spec_from_file_location("conformance_sweep", Path(__file__).with_name("sweep.py"))
sweep = importlib.util.module_from_spec(SPEC)
sys.modules["conformance_sweep"] = sweep
SPEC.loader.exec_module(sweep)

pytestmark = pytest.mark.xdist_group("conformance")
"""One process loads torch's database, which takes it seconds."""

DERIVED = (
    "add",
    "mul",
    "div.no_rounding_mode",
    "matmul",
    "__rmatmul__",
    "bmm",
    "exp",
    "tanh",
    "nn.functional.relu",
    "sum",
    "mean",
    "amax",
    "softmax",
    "log_softmax",
    "logsumexp",
    "cat",
    "stack",
    "T",
    "expand",
    "index_select",
    "gather",
    "chunk",
    "unbind",
    "flip",
    "where",
    "nn.functional.linear",
    "nn.functional.layer_norm",
    "nn.functional.conv2d",
    "nn.functional.max_pool2d",
    "nn.functional.mse_loss",
    "fft.fft",
    "fft.irfftn",
    "stft",
    "polar",
    "view_as_complex",
)
RIGHT = ("linalg.det", "linalg.inv", "matrix_exp", "cumsum", "native_group_norm", "nn.functional.grid_sample")


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "expecttest", sys.modules.get("expecttest", sweep.stub()))
        yield


@pytest.mark.one_in(24, slow=4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", DERIVED)
def test_derived(name):
    outcome = sweep.run(name, 2)
    assert (outcome.status, outcome.count("derived")) == ("derived", outcome.samples), outcome.verdicts


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["add", "mul", "div.no_rounding_mode", "matmul", "abs", "fft.fft", "exp", "cat"])
def test_derived_with_complex_inputs(name):
    outcome = sweep.run(name, 2, "complex128")
    assert (outcome.status, outcome.count("derived")) == ("derived", outcome.samples), outcome.verdicts


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", RIGHT)
def test_right_whether_derived_or_not(name):
    assert sweep.run(name, 2).status in ("derived", "not derived")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", numbers(range(1), range(1, 24)))
def test_the_database_at_one_number(part):
    """Every entry the same: ties, zeros, matrices without an inverse, and torch's choice there."""
    number, start = (0.0, 1.0, 0.5)[part // 8], part % 8
    outcomes = [sweep.run(name, 1, filled_with=number) for name in list(sweep.variants())[start::8]]
    assert [o for o in outcomes if o.status in ("wrong", "error")] == []


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "name", ["_segment_reduce.lengths", "polar", "ormqr", "qr", "linalg.slogdet", "linalg.eigvalsh"]
)
def test_where_torch_has_a_rule_of_its_own(name):
    """A start that ties has no share; at length 0, and of reflections, torch's rule is no derivative."""
    for number in (0.0, 1.0):
        outcome = sweep.run(name, 3, filled_with=number)
        assert outcome.status in ("derived", "not derived"), outcome.verdicts


def test_a_slope_that_torch_does_not_have_is_confirmed_on_its_forward_pass():
    import torch

    class Sample:
        input, args, kwargs = torch.full((1,), 2.0, dtype=torch.float64), (), {}
        output_process_fn_grad = staticmethod(lambda out: out)

    class Square:
        name, variant_test_name = "square", ""
        op = staticmethod(torch.square)
        gradcheck_wrapper = staticmethod(lambda f, *args, **options: f(*args, **options))

    leaf = [Sample.input]
    for number, right in {4.0: True, 3.0: False}.items():
        given = Square, Sample, lambda values: (values[0], (), {}), leaf, [torch.ones(1)], 0
        assert sweep.is_the_slope(*given, [number], [0.0]) is right


def test_a_wrong_gradient_would_be_seen():
    import numpy as np

    assert not sweep.close(np.array([1.0, 2.0]), np.array([1.0, 2.1]), 1e-9)
    assert not sweep.close(np.array([np.nan]), np.array([0.0]), 1e-9)
    assert sweep.close(np.array([np.nan, 1.0]), np.array([np.nan, 1.0]), 1e-9)
