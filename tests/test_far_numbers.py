"""Numbers near the end of the floats' range: what cancels or divides out on the way is not lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad import SymgradError
from symgrad.explanation import proofs
from symgrad.numeric import symbols_and_digits
from symgrad.numeric.exact import as_float
from tests.cases import Case, cases
from tests.compare import assert_same

POWERS = ("(y / x) ** hypot(m, x)", "y / x * y", "(y / x) ** x")


@pytest.mark.parametrize("text", POWERS)
@pytest.mark.parametrize("far", [1e300, -1e300, 1e-300])
def test_a_quotient_by_what_is_far_is_torchs(text: str, far: float) -> None:
    x = torch.tensor([far, far], dtype=torch.float64, requires_grad=True)
    y, m = torch.full((2,), far, dtype=torch.float64), torch.tensor([0.0, 1.0])
    eval(text, {"x": x, "y": y, "m": m, "hypot": torch.hypot}).sum().backward()  # noqa: S307 -- a text of this test's own
    values: Mapping[str, object] = {n: v for n, v in (("x", [far] * 2), ("y", [far] * 2), ("m", [0, 1])) if n in text}
    found = symgrad.explain(text, check=False, wrt="x", **values).gradients["x"]
    scale = float(x.grad.abs().max()) if x.grad is not None else 0.0
    assert scale > 0
    assert x.grad is not None
    assert_same(x.grad / scale, np.asarray(found.value) / scale)
    assert_same(x.grad / scale, np.asarray(found.jacobian.dense()).sum(axis=0) / scale)


@pytest.mark.parametrize("far", [1e300, -1e300, 1e20])
def test_uses_of_one_tensor_cancel_in_a_step(far: float) -> None:
    """logaddexp(x, x) is x + log 2: the second derivative of (x + log 2)·x·y by x is 2·y."""
    text, values = "logaddexp(x, x) * (x * y)", {"x": [far] * 2, "y": [1.0, 3.0]}
    assert_same([2.0, 6.0], symgrad.hvp(text, "x", [1, 1], seed=[1, 1], **values))
    whole = symgrad.hessian(text, "x", seed=[1, 1], check=False, **values)
    assert_same(np.diag([2.0, 6.0]), whole.value)


@pytest.mark.parametrize(("far", "n"), [(1e300, -1), (-1e300, 1), (-1e300, 2)])
def test_the_terms_of_an_entry_of_a_jacobian_cancel(far: float, n: int) -> None:
    """exp(logaddexp(x·n, n)) is exp(n) where x·n is −∞, as far as floats go: so is its slope by n."""
    text, values = "exp(logaddexp(x * n, n))", {"x": [far] * 2, "n": [n] * 2}
    assert_same(np.exp(n) * np.eye(2), symgrad.jacobian(text, "n", **values).dense())
    assert_same([np.exp(n)] * 2, symgrad.explain(text, wrt="n", check=False, **values).gradients["n"].value)


@pytest.mark.parametrize("near", [0.0, 1e-33, -1e-17, 3e-12, 1e-9, -2e-8, 1e-7])
def test_the_slope_of_sinc_near_its_top_is_small(near: float) -> None:
    """cos(πx)/x − sin(πx)/(πx²) is a difference of 1/x's, of which nothing is left in floats."""
    found = symgrad.explain("torch.special.sinc(x)", x=np.array([near]), check=False)
    assert_same([-(math.pi**2) * near / 3], found.gradients["x"].value, tolerance=5e-8)


FAR_POINTS = (800.0, -800.0, 2.0**53, 1e-200, 1e170)


@pytest.mark.one_in(80)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_what_an_entry_is_written_out_to_adds_up(case: Case) -> None:
    """exp(800) / (exp(800) + exp(801)) is no NaN, and terms that are shown come to what stands behind them."""
    far = FAR_POINTS[case.seed % len(FAR_POINTS)]
    near = {n: a if n in case.fixed else np.sign(far) * np.abs(a) + far for n, a in case.inputs.items()}
    inputs = near if abs(far) > 1 else {n: a if n in case.fixed else a * far for n, a in case.inputs.items()}
    try:
        explanation = symgrad.explain(case.example.text, check=False, **inputs)
    except SymgradError:
        return
    for gradient in explanation.gradients.values():
        for at in list(np.ndindex(gradient.value.shape))[:2]:
            entry = gradient.entry(at)
            if entry.terms and np.isfinite(as_float(entry.total)):
                terms = as_float([value for _, value in entry.terms])
                size = max(np.abs(terms).sum(), np.finfo(float).tiny)
                assert_same(as_float(entry.total) / size, terms.sum() / size, tolerance=1e-6, what=f"{at}")


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("logcumsumexp(x, 0)", {"x": [-800.0, -801.0, -802.0]}),
        ("logcumsumexp(x, 0)", {"x": [-744.0, -744.5, -743.0]}),
        ("F.cross_entropy(x, y)", {"x": [800.0, 801.0, 800.0], "y": 1}),
    ],
)
def test_what_overflows_term_by_term_is_written_out_with_its_number(text: str, values: Mapping[str, object]) -> None:
    gradient = symgrad.explain(text, check=False, wrt="x", **values).gradients["x"]
    for place in range(3):
        entry = gradient.entry((place,))
        assert entry.terms
        assert_same(as_float(entry.total), sum(float(value) for _, value in entry.terms))


@pytest.mark.parametrize("x", [[2.0**53, 1.0, 3.0], [1e16, 1.0, 2.0]])
def test_torchs_exponents_that_lost_their_digits_accuse_nobody(x: list[float]) -> None:
    """torch has exp(x + log(3) - x) for 3, and 3 is what SymPy has with fifty digits."""
    found = symgrad.explain("logcumsumexp(x, 0)", x=x)
    assert_same([3.0, 0.0, 0.0], found.gradients["x"].value)
    assert found.passed


BESIDE_ITS_OWN = "torch's backward says 1e+20 for x[0] and 1 more, where its own forward pass has the slope 2.718e-16"


@pytest.mark.parametrize(("text", "told"), [("x*x", ""), ("exp(x/1e16)", BESIDE_ITS_OWN)])
def test_a_wrong_torch_is_seen_beside_large_numbers(text: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It disagrees; where its own forward pass has the slope that was derived, both numbers are told."""

    def wrong(own: Callable[..., Any], *arguments: Any) -> Any:
        found = own(*arguments)
        return replace(found, gradients={"x": found.gradients["x"] * 1e20 + 1e20})

    for asked in ("ask_torch", "run_torch"):
        monkeypatch.setattr(proofs, asked, partial(wrong, getattr(proofs, asked)))
    found = symgrad.explain(text, x=[1e16, 2.0])
    assert found.passed is bool(told)
    assert told in " ".join(found.to_text(brief=True).split())


CURVED = {
    # g: g(n), g′(n), g″(n)
    "log": (math.log, lambda n: 1 / n, lambda n: -1 / n**2),
    "sin": (math.sin, math.cos, lambda n: -math.sin(n)),
    "exp": (math.exp, math.exp, math.exp),
    "sqrt": (math.sqrt, lambda n: 0.5 / math.sqrt(n), lambda n: -0.25 / n**1.5),
}


@pytest.mark.one_in(4)
@pytest.mark.parametrize("far", [1e-300, -1e-250, 3e-200])
@pytest.mark.parametrize("name", CURVED)
def test_second_derivatives_have_their_digits_where_floats_lose_them(name: str, far: float) -> None:
    """g(n)/(n/x) is x·g(n)/n: its curvature by x is 0, and what 1/(n/x)³ makes on the way is not shown."""
    n, (g, slope, bend) = 2.5, CURVED[name]
    found = symgrad.explain(f"{name}(n)/(n/x)", order=2, n=n, x=far)
    mixed = slope(n) / n - g(n) / n**2
    twice = bend(n) / n - 2 * slope(n) / n**2 + 2 * g(n) / n**3
    assert found.passed
    assert_same([0.0], [float(found.hessian("x", "x").value)])
    assert_same([mixed], [float(found.hessian("n", "x").value)])
    assert_same([twice], [float(found.hessian("n", "n").value) / far])
    told = "lost in float64" in found.to_text()
    assert told == any(h.digits for h in found.hessians.values())
    assert told
    direct = symgrad.hessian(f"{name}(n)/(n/x)", "n", "x", n=n, x=far, check=False)
    assert_same([mixed], [float(direct.value)])


def test_numbers_that_floats_hold_are_theirs() -> None:
    found = symgrad.explain("log(n)/(n/x)", order=2, n=2.5, x=0.3)
    assert not any(h.digits for h in found.hessians.values())
    assert "lost in float64" not in found.to_text()


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("sum(log_softmax(x**x, 0) * w)", {"x": [-0.0, 2, 1e-300], "w": [1, 2, 5]}),
        ("logsumexp(leaky_relu(x), 0)", {"x": [0, 1e-300, 0.5]}),
        ("sum(log(n)/(n/x))", {"n": [2.0, 3.0], "x": [1e-300, 1.0]}),
    ],
)
def test_no_oracle_disagrees_with_second_derivatives_far_out(text: str, at: Mapping[str, object]) -> None:
    """Found by night runs."""
    assert symgrad.explain(text, order=2, **at).passed


@pytest.mark.parametrize("text", ["sin(mean(y, 0, keepdim=True))", "y[0] * cos(sum(y) / 7)"])
def test_the_product_with_a_direction_is_that_of_the_whole_hessian(text: str) -> None:
    """Where H is made again with more digits, Hu is its product, and not another number in float64."""
    y, seed = np.array([1e-300, 1e300, 1.0]), np.ones((1,) if "mean" in text else ())
    whole = symgrad.hessian(text, "y", seed=seed, y=y, check=False)
    assert whole.digits
    rows = np.asarray(whole.value, dtype=float)
    direction = np.array([1.0, 0.0, -1.0])
    assert_same(rows @ direction, symgrad.hvp(text, "y", direction, seed=seed, y=y), what=text)


@pytest.mark.parametrize("text", ["x * (10**18 - 1)", "x * (10**9 + 1) * (10**8 + 1)", "x * x * (2**54 + 1)"])
def test_whole_numbers_that_no_float_holds_are_not_held_against_torch_digit_by_digit(text: str) -> None:
    assert symgrad.explain(text, x=[10, 3], seed=[1, -2]).passed


@pytest.mark.parametrize("text", ["x * 1e308 * 1e308", "(x / 1e-308 / 1e-308).sum()"])
def test_a_factor_beyond_floats_has_no_line(text: str) -> None:
    """`inf` is no name and no number of a text."""
    found = symgrad.explain(text, x=[2.0])
    assert found.passed
    assert found.gradients["x"].closed_form is None


OVERFLOWS = [
    ("F.layer_norm(x, (3,))", [1e170, 1e170, 1.0], "0, torch's nan; in truth it is 0.707107"),
    ("x / x.norm()", [1e200, 2e200], "0 (in torch as well); in truth it is 0.447214"),
    ("x.exp() / x.exp().sum()", [1000.0, 1.0], "nan (in torch as well); in truth it is 1"),
    ("log(exp(x))", [1000.0, 1.0], "inf (in torch as well); in truth it is 1000"),
    ("exp(x)", [1000.0, 1.0], "inf (in torch as well); in truth it is outside the range of floats"),
    ("(x ** 2).sum(0, True).sqrt()", [1e-200, 2e-200], "0 (in torch as well); in truth it is 2.23607e-200"),
]


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "at", "made"), OVERFLOWS)
def test_what_overflows_on_the_way_is_no_derivative_and_no_reason_for_0(text: str, at: list[float], made: str) -> None:
    """Neither is "the derivative is 0, which torch loses" true there, nor "every entry of J is 0", nor "undefined"."""
    page = " ".join(symgrad.explain(text, x=at).to_text().split())
    assert f"overflow or underflow: for out[0] the steps compute {made}." in page
    assert not any(false in page for false in ("the derivative is", "there is no derivative", "every entry of J is 0"))


def test_a_gradient_that_underflows_is_no_jump() -> None:
    """At 1e-300 x² + y² is 0 to a program, which then takes the derivative of the angle at the origin for 0."""
    page = " ".join(symgrad.explain("atan2(x, y)", x=[1e-300], y=[1e-300]).to_text().split())
    assert "for x.grad[0] the steps compute 0 (in torch as well); in truth it is 5e+299." in page
    assert "jump" not in page


@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("0 * log(x)", [0.0, 1.0]),
        ("exp(x)", [-1000.0]),
        ("1 / exp(x)", [1000.0]),
        ("relu(x)", [1e300]),
        ("x % 1e300", [-1e-300]),
    ],
)
def test_an_infinite_number_that_is_right_is_no_overflow(text: str, at: list[float]) -> None:
    assert "for floats" not in symgrad.explain(text, x=at).to_text()


OF_FLOATS_ALONE = [
    ("x.norm()", {"x": [1e-200, 2e-200]}, "x.grad is 0 only because of rounding: norm underflows", "0.894"),
    ("torch.cdist(x, y)", {"x": [[1e-200, 2e-200]], "y": [[0.0, 0.0]]}, "cdist underflows", "0.894"),
    ("x % y", {"x": -1e-200, "y": 1e200}, "y.grad is 0 only because of rounding: remainder rounds it away", "1.0"),
    ("relu(x * y)", {"x": 1e-200, "y": 1e-200}, "x.grad is 0 only because of rounding: mul underflows", "1.0e-200"),
    (
        "x * y * z",
        {"x": 1e-200, "y": 1e-200, "z": 3.0},
        "z.grad is 0 only because of rounding",
        "1.0e-400, smaller than any",
    ),
    ("exp(-x) * y", {"x": [1000.0], "y": [2.0]}, "exp underflows", "1.02e-434, smaller than any"),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "at", "told", "size"), OF_FLOATS_ALONE)
def test_what_underflows_on_the_way_is_no_reason_for_0(
    text: str, at: Mapping[str, object], told: str, size: str
) -> None:
    """Neither J is 0 there, nor is it a kink: real numbers are not 0 where floats are."""
    page = " ".join(symgrad.explain(text, **at).to_text().split())
    assert told in page
    assert f", and the largest entry is {size}" in page
    assert not any(false in page for false in ("every entry of J is 0", "is a kink", "stays the same whatever"))


def test_rows_that_underflow_and_add_up_to_0_anyway() -> None:
    """The gradient is 0 in truth; J is 0 in floats alone, and is not called 0."""
    page = " ".join(symgrad.explain("softmax(x, 0)", x=[1000.0, 0.0]).to_text().split())
    assert "x.grad is 0, but J is not: softmax underflows: its derivatives are 0 only because of rounding." in page
    assert "every entry of J is 0" not in page


@pytest.mark.slow
def test_what_cancels_is_no_underflow() -> None:
    """Fifty digits leave 1e-52 of it: attention with equal values was said to be too small for floats."""
    ones = np.ones((2, 3))
    page = " ".join(symgrad.explain("softmax(q@k.T/2) @ w", q=ones, k=ones, w=ones).to_text().split())
    assert "for floats" not in page


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "given", "size"),
    [
        ("tanh(x)", {"x": [30.0]}, "3.5e-26"),
        ("sigmoid(x)", {"x": [40.0, -800.0]}, "4.25e-18"),
        ("1 - torch.exp(-torch.exp(x))", {"x": 7.0}, "6.0e-474, smaller than any float"),
        ("torch.sigmoid(x@w + b)", {"x": np.ones((32, 100)), "w": np.ones((100, 4)), "b": np.ones(4)}, "5.47e-44"),
        ("tanh(x@W)", {"x": np.ones((64, 128)), "W": np.ones((128, 4))}, "1.06e-110"),
        ("tanh(x)", {"x": 8000.0}, "7.77e-6949, smaller than any float"),
    ],
)
def test_what_is_rounded_away_is_no_reason_for_0(text: str, given: dict[str, Any], size: str) -> None:
    """1 − tanh² is 0 where tanh is rounded to 1, at every size of the tensors."""
    page = " ".join(symgrad.explain(text, **given).to_text().split())
    assert "x.grad is 0 only because of rounding: " in page
    assert f"the largest entry is {size}." in page
    assert "every entry of J is 0" not in page
    assert "stays the same" not in page


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "at"),
    [
        ("x ** y", {"x": [0.0, 2.0], "y": [2.0, 0.0]}),
        ("relu(x)", {"x": [-0.5, -2.5]}),
        ("relu(-exp(x))", {"x": [0.5]}),
        ("x.norm() * y", {"x": [0.5, 0.25], "y": 0.0}),
        ("softmax(x, 0)", {"x": [0.5, 0.25]}),
        ("floor(x / 1e200) + y", {"x": [0.5], "y": [1.0]}),
    ],
)
def test_a_gradient_that_is_0_is_no_underflow(text: str, at: Mapping[str, object]) -> None:
    page = " ".join(symgrad.explain(text, **at).to_text().split())
    assert "x.grad is 0" in page
    assert "for floats" not in page
    assert "than any float" not in page


@pytest.mark.parametrize(
    "text", ["softmax(x, dim=-1)", "log_softmax(x, dim=-1)", "sigmoid(x)", "softmax(x ** x, dim=-1)"]
)
def test_digits_are_asked_for_only_where_they_are_cheap(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """exp with n times the digits takes n² times as long, and what tells softmax at 1e6 from 0 has 434,000 digits."""
    work: list[float] = []

    def counted(function: Any, count: int) -> Any:
        def one(*numbers: Any) -> Any:
            work.append((symbols_and_digits.mpmath.mp.dps / 500) ** 2)
            if work[-1] > 1e4:
                pytest.fail(f"{function} of {symbols_and_digits.mpmath.mp.dps} digits")
            return known(*numbers)

        known = original(function, count)
        return np.frompyfunc(one, count, 1)

    original = symbols_and_digits.mpmath_function
    monkeypatch.setattr(symbols_and_digits, "mpmath_function", counted)
    found = symgrad.explain(text, x=[[1.0, 1e6, 3.0], [1e6, 1e6 - 1, -1.0]] if "**" not in text else [[7.0, 1.0]])
    assert found.passed
    assert sum(work) <= 3 * 1e4
