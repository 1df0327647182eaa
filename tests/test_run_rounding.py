"""What is rounding in a gradient, and what is not: asked as seldom as can be, and no wrong gradient is hidden."""

from __future__ import annotations

import re

import numpy as np
import pytest

from symgrad.tracing.lift import values
from symgrad.tracing.lift.call_sweeps import CallwisePull
from symgrad.tracing.session import agreement
from tests.played import play


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("precision", "side"), [("float32", 8), ("float64", 8), ("float32", 14)])
def test_a_gradient_that_is_zero_is_rounding_on_both_sides(tmp_path, precision, side):
    """With 14×14 pictures the terms of one step are too many to be measured: it stands still at other points."""
    session, told = play(
        tmp_path,
        f"""
torch.manual_seed(0)
torch.set_default_dtype(torch.{precision})
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
net(torch.randn(8, 3, {side}, {side})).pow(2).mean().backward()
""",
    )
    weight, bias, *_ = session.calls[0].leaves
    assert session.agrees
    assert (weight.rounding, bias.rounding) == (False, True)
    assert "none  +  0, up to rounding  = torch" in told
    assert re.search(
        r"vᵀJ with respect to net\[0\]\.bias is 0 \(the digits are rounding\): .* the same whatever net\[0\]\.bias is",
        " ".join(told.split()),
    )
    assert "running_mean" not in told.partition("not asked")[0][-80:]


@pytest.mark.slow
def test_a_gradient_of_digits_costs_one_sweep_and_one_leaf(tmp_path, monkeypatch):
    lots, asked, by_lot, pull = [], [], agreement.draw_weights, agreement.pull_recording

    def counted(program, seeds, wanted=None, **told):
        if "drawn" in told:
            asked.append((lots[-1], len(wanted)))
        return pull(program, seeds, wanted, **told)

    monkeypatch.setattr(agreement, "draw_weights", lambda lot: lots.append(lot) or by_lot(lot))
    monkeypatch.setattr(agreement, "pull_recording", counted)
    session, _ = play(
        tmp_path,
        """
torch.manual_seed(0)
x, wq, wk = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
b = torch.randn(4, requires_grad=True)  # softmax does not see it
(torch.softmax((x @ wq) @ (x @ wk + b).T, -1) @ x).pow(2).sum().backward()
""",
    )
    assert {leaf.name: leaf.rounding for leaf in session.calls[0].leaves} == {"wq": False, "wk": False, "b": True}
    assert asked == [(0, 1)]  # one lot settles it, and no other leaf is swept to


def test_only_gradients_that_may_be_rounding_are_swept_to_once_more(tmp_path, monkeypatch):
    """A transformer of six layers took 36 s of which 12 were sweeps by all its weights, asked about one bias."""
    asked, pull = [], agreement.pull_recording

    def counted(program, seeds, wanted=None, **told):
        asked.extend([[program.labels[name] for name in wanted or ()]] if {*told} & {"hook", "values"} else [])
        return pull(program, seeds, wanted, **told)

    monkeypatch.setattr(agreement, "pull_recording", counted)
    session, _ = play(
        tmp_path,
        """
torch.manual_seed(0)
x, w, b = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, requires_grad=True)
((x @ w).tanh().sum() * 1e6 + (b * 0.01).sum()).backward()
""",
    )
    assert session.agrees
    assert asked == [["b"]] * 5


def test_rounding_hides_no_wrong_gradient():
    derived, wrong = np.array([1.0, 2.0]), np.array([1.0, 2.001])
    floor = values.cancellation_floor(3.0, "float32")
    assert not values.relative_difference(derived, wrong, 2e-4, None, floor)[1]
    assert not values.relative_difference(np.zeros(2), np.array([0.0, 1e-4]), 2e-4, None, floor)[1]
    assert values.relative_difference(np.zeros(2), np.array([0.0, 1e-7]), 2e-4, None, floor)[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", [[[0.6, 1.3], [1.3, 0.4]], [[1.2, -0.8], [-0.8, 0.8]], [[-0.3, 1.3], [2.0, 0.6]]])
def test_where_tanh_is_flat_its_last_digit_is_most_of_its_slope(tmp_path, monkeypatch, weights):
    """1 − out² is what rounding left of it: NumPy's and torch's may differ by much, and a wrong factor is still seen."""
    source = (
        f"w = torch.tensor({weights}, dtype=torch.float64, requires_grad=True)\nh = torch.ones(1, 2, dtype=torch.float64)\n"
        "for n in range(7):\n    h = torch.tanh(h @ w) * (n + 1)\nh.sum().backward()\n"
    )
    assert play(tmp_path, source)[0].agrees
    derived = CallwisePull.back

    def wrong(*given, taken=None, **options):
        more = None if taken is None else lambda name, g: taken(name, 1.01 * g)
        return {name: 1.01 * g for name, g in derived(*given, taken=more, **options).items()}

    monkeypatch.setattr(CallwisePull, "back", wrong)
    assert not play(tmp_path, source)[0].agrees
