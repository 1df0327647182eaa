"""What the oracles say where floats do not hold a number, where mathematics and program part, and where they agree."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import symgrad
from tests.compare import assert_same


def disagreed(found: symgrad.Explanation) -> set[str]:
    """Which oracles said no: the first word of each."""
    return {c.oracle.split()[0].strip(",") for g in found.gradients.values() for c in g.checks if c.passed is False}


def test_exact_numbers_are_compared_exactly() -> None:
    third = symgrad.explain("x / 3", x=[1, 2, 4], seed=[1, 1, 2])
    values = third.gradients["x"].value
    assert [str(value) for value in values] == ["1/3", "1/3", "2/3"]
    assert all(check.exact for check in third.gradients["x"].checks if "SymPy" in check.oracle)


# --- mathematics and program --------------------------------------------------------------------------------


def test_mathematics_and_program_part_at_a_nan_and_it_is_said() -> None:
    """√ has no slope at 0 and the branch is not taken: mathematics says 1, the program 0·∞."""
    found = symgrad.explain("where(x > 0, sqrt(x), x)", x=[0.0, 4.0], seed=[1, 1])
    gradient = found.gradients["x"]
    assert np.isnan(gradient.value[0])
    assert gradient.value[1] == 0.25
    assert found.passed
    assert any(check.note for check in gradient.checks)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "x"),
    [
        ("softmax(x)", [800.0, -800.0, 790.0]), ("log_softmax(x)", [800.0, -800.0, 790.0]),
        ("logsumexp(x, dim=0)", [800.0, 799.0, -800.0]), ("sigmoid(x)", [800.0, -800.0]), ("softplus(x)", [800.0, -800.0]),
        ("tanh(x)", [800.0, -800.0]), ("silu(x)", [800.0, -800.0]), ("gelu(x)", [800.0, -800.0]),
    ],
)  # fmt: skip
def test_large_numbers_stay_finite(text: str, x: list[float]) -> None:
    found = symgrad.explain(text, x=x, seed=None if "logsumexp" in text else list(range(1, len(x) + 1)))
    for array in (found.output, found.gradients["x"].value, found.gradients["x"].jacobian.dense()):
        assert np.isfinite(np.asarray(array, dtype=float)).all()
    assert found.passed, disagreed(found)


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    "text",
    [
        "scaled_dot_product_attention(q, k, w)", "scaled_dot_product_attention(q, k, w, m)",
        "scaled_dot_product_attention(q, k, w, is_causal=True)", "softmax(q @ k.T, dim=1) @ w", "logcumsumexp(100 * q, 1)",
        "log_softmax(q @ k.T, dim=0)", "cross_entropy(q @ k.T, w[:3])", "logsumexp(q @ k.T, 1)",
    ],
)  # fmt: skip
def test_sums_of_large_exponentials_stay_finite(text: str) -> None:
    """Logits of some thousands: neither their exponentials nor the sums of those are numbers."""
    generator = np.random.default_rng(0)
    shapes = {"q": (3, 2), "k": (3, 2), "w": (3, 3), "m": (3, 3)}
    inputs = {
        n: generator.normal(size=s) * (1 if n == "w" else 60)
        for n, s in shapes.items()
        if n in re.findall(r"\w+", text)
    }
    found = symgrad.explain(text, seed="random", **inputs)
    assert all(np.isfinite(np.asarray(g.value, dtype=float)).all() for g in found.gradients.values())
    assert found.passed, disagreed(found)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("shape", [(4,), (6,), (8,), (2, 4), (3, 8)])
def test_sizes_that_do_not_come_out_whole_are_not_tried(shape: tuple[int, ...]) -> None:
    """Half of an odd number is no size."""
    found = symgrad.explain("F.glu(x)", x=np.arange(np.prod(shape), dtype=float).reshape(shape), check=False)
    assert found.gradients["x"].closed_form is not None


@pytest.mark.parametrize("shape", [(0, 1, 4, 4), (1, 2, 4, 0), (2, 0, 6)])
def test_where_torch_refuses_tensors_without_entries_the_page_says_so(shape: tuple[int, ...]) -> None:
    """torch leaves them as they are on the way forward, and its backward refuses some of them."""
    found = symgrad.explain("F.pixel_unshuffle(x, 2)", x=np.zeros(shape))
    assert found.passed
    assert found.output.shape == found.gradients["x"].value.shape == shape
    refused = [check for check in found.gradients["x"].checks if check.note.startswith("torch refuses: ")]
    assert refused or any("out.backward(v)" in check.oracle and check.passed for check in found.gradients["x"].checks)
    assert bool(refused) is ("Nothing is compared with torch, which refuses this: " in found.to_text(brief=True))


@pytest.mark.slow
def test_differences_say_nothing_of_what_is_only_read() -> None:
    text = "cov(x, fweights=b, aweights=c ** 2 + 0.5)"
    found = symgrad.explain(
        text, x=np.arange(9.0).reshape(3, 3) ** 1.5, b=np.array([1, 2, 1]), c=np.array([0.3, 0.4, 0.5])
    )
    assert found.passed, [check for g in found.gradients.values() for check in g.checks if check.passed is False]
    assert symgrad.explain("x.detach() * w", x=[1, 2], w=[3, 4]).passed


# --- choices are the program's --------------------------------------------------------------------------------


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("amax(exp(x))", {"x": [0.1, 0.2, 0.3]}), ("amin(sin(x), 0)", {"x": [0.5, 0.5, 2.0]}),
        ("median(tanh(x))", {"x": [0.1, 0.2, 0.3]}), ("max(log(x))", {"x": [0.3, 0.7]}),
        ("maximum(sqrt(x), x ** 0.5)", {"x": [0.3, 2.0]}),
        ("where(asin(x) > 0, 1, y)", {"x": [2.0, 0.5], "y": [1.0, 1.0]}),
        ("maximum(atan2(x, y), x)", {"x": [-0.0, -0.0], "y": [-1.0, 2.0]}),
        ("copysign(x, y)", {"x": [1.0, 2.0], "y": [-0.0, 0.0]}), ("x * torch.round(y)", {"x": [1.5], "y": [2.5]}),
    ],
)  # fmt: skip
def test_sympy_chooses_as_the_program_did(text: str, values: dict[str, list[float]]) -> None:
    """50 digits of a value are never equal to its float: an extreme was nobody's, and the right answer accused."""
    found = symgrad.explain(text, **values)
    checks = [c for g in found.gradients.values() for c in g.checks if c.oracle.startswith("SymPy")]
    assert found.passed, checks
    assert all(check.passed for check in checks)


@pytest.mark.parametrize("text", ["cumprod(x, 0)", "prod(x)", "scatter_reduce(w, 0, n, x, reduce='prod')"])
def test_a_product_keeps_the_digits_of_small_factors(text: str) -> None:
    """ε·[c] + 1 − [c] is ε, not what rounding leaves of ε + 1 − 1."""
    values: dict[str, Any] = {"x": [1e-17, 3.0, 1e17], "w": [1.0], "n": [0, 0, 0]}
    found = symgrad.explain(text, **{n: v for n, v in values.items() if re.search(rf"\b{n}\b", text)}, wrt="x")
    for check in found.gradients["x"].checks:
        assert check.passed, check
    scale = np.array([1e17, 1, 1e-17])
    expected = {"cumprod(x, 0)": [3 + 3e-17, 1, 3]}.get(text, [3, 1, 3])
    assert_same(expected, np.asarray(found.gradients["x"].value, dtype=float) / scale)


# --- what an oracle cannot judge, it does not ------------------------------------------------------------------


def notes(text: str, **values: list[float]) -> dict[str, str]:
    """The words of every check that judged nothing, or less than all, by the first word of its oracle."""
    found = symgrad.explain(text, **values)
    assert found.passed, disagreed(found)
    checks = [c for g in found.gradients.values() for c in g.checks if c.note]
    return {c.oracle.split()[0].strip(","): c.note for c in checks}


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "values", "oracle", "said"),
    [
        ("log(atan2(x, y))", {"x": [2.0, 1e-300], "y": [1.0, 1e-300]}, "SymPy", "whose square overflows or underflows"),
        ("1 / log(x ** 2) * y", {"x": [1e-300], "y": [2.0]}, "SymPy", "is 0 in the program, SymPy"),
        ("F.elu(cumprod(x, 0) / x)", {"x": [1e300, -1.0, 1.0]}, "⟨v", "only rounding is left"),
        ("amax(y, 0) ** softmax(y, 0)", {"y": [1e300, 1e300, 1e300]}, "⟨v", "only rounding is left"),
        ("exp(logaddexp(x * y, y))", {"x": [-1e300], "y": [1.0]}, "SymPy", "SymPy 0: one of them by rounding"),
    ],
)
def test_numbers_that_floats_do_not_hold_accuse_nobody(
    text: str, values: dict[str, list[float]], oracle: str, said: str
) -> None:
    assert said in notes(text, **values)[oracle]


def test_where_sympy_has_no_function_there_is_no_number() -> None:
    found = symgrad.explain("atan2(relu(log1p(x)), log1p(F.hardtanh(x)))", x=[-1.0, 1.0])
    assert found.passed, disagreed(found)


@pytest.mark.parametrize("op", [op.name for op in symgrad.operations() if "keepdim" in op.defaults])
def test_a_number_has_no_axis_to_keep(op: str) -> None:
    text = f"{op}(x, dim=0, keepdim=True)"
    try:
        found = symgrad.explain(text, x=2.0, check=False)
    except symgrad.SymgradError:
        return
    assert found.output.shape == (), text


@pytest.mark.parametrize(
    ("text", "side"), [("fmax(log(x), y)", 1), ("fmin(log(x), y)", 1), ("fmax(y, log(x))", 1), ("fmin(y, log(x))", 1)]
)
def test_what_is_no_number_loses_against_every_other(text: str, side: float) -> None:
    """The derivative exists and is the other's; where both are none there is nothing."""
    found = symgrad.explain(text, x=[-1.0], y=[2.0])
    assert found.passed
    assert_same([side], found.gradients["y"].value)
    assert found.gradients["y"].singular is None


def test_a_sum_of_nothing_is_zero() -> None:
    """Where a form is proven at other sizes, all of a sum may vanish: Σ 0 is a number that SymPy has no float for."""
    found = symgrad.explain("F.log_softmax(F.fold(y, (3, 3), 2), dim=1)", y=np.linspace(-1, 1, 16).reshape(1, 4, 4))
    assert found.passed


CANCELLING = [
    ("((x + 1)**64 - (x + 1)**64) + x", [2, 3]),
    ("((x + 1)**64 - (x + 1)**64) + x", [2.5, 0.5]),
    ("(exp(60*x) - exp(60*x)) + sin(x)", [2.5, 1.0]),
    ("(x*1e9)**3 - (x*1e9)**3 + x**2", [2.5, 1.0]),
    ("x + x*1e20 - x*1e20", [1.0]),
    ("0.1*x + 1e20*x - x*1e20", [1.0, 3.0]),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "x"), CANCELLING)
def test_terms_that_cancel_beyond_floats_accuse_nobody(text: str, x: list[float]) -> None:
    """Which side has lost its digits is said; that a gradient is 0 "because J is" is not."""
    found = symgrad.explain(text, x=x)
    assert found.passed
    assert any(check.cancelled for check in found.gradients["x"].checks)
    page = found.to_text(width=400)
    assert "erms as large as" in page
    assert "floats keep about 16 digits" in page
    assert "x.grad is 0: " not in page
    assert "torch's own rule" not in page


@pytest.mark.parametrize(("text", "x"), [("logcumsumexp(x, 1)", [[-1e8, 1e8, 1.0], [1.0, 1e8, -1e8]])])
def test_digits_that_large_numbers_cost_accuse_nobody(text: str, x: list[list[float]]) -> None:
    found = symgrad.explain(text, x=x)
    assert found.passed
    assert "Values up to 1e+08 are subtracted" in found.to_text(width=400)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("x", [[2.0**53, 2.0**53 - 1, 1.0], [2.0**53, 2.0**53, 1.0], [1e16, 1e16, 2.0]])
def test_where_a_gradient_turns_between_neighbouring_floats_nobody_is_accused(x: list[float]) -> None:
    found = symgrad.explain("logcumsumexp(x, 0)", x=x)
    assert found.passed
    page = found.to_text(width=400)
    assert "alues up to 9e+15 are subtracted" in page or "alues up to 1e+16 are subtracted" in page
    assert "ties" not in page


def test_small_terms_that_cancel_are_no_excuse() -> None:
    """Terms of 1e5 lose eleven digits less."""
    found = symgrad.explain("x*1e5 - x*1e5 + tanh(x)", x=[0.5, 1.0])
    assert found.passed
    assert not any(check.cancelled for check in found.gradients["x"].checks)
