"""Points where something is not finite: undefined is no disagreement, and the page says one thing in every section."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad.explanation import Explanation
from symgrad.oracles.comparisons import CheckVerdict, Standing, compare
from symgrad.tracing.session.watch import WatchedRun
from symgrad_cli.main import main
from tests.compare import assert_same

NAN, INF = float("nan"), float("inf")


def verdicts(found: Explanation, name: str = "x") -> set[CheckVerdict]:
    """What the oracles came to."""
    return {check.verdict for check in found.gradients[name].checks}


def page(found: Explanation) -> str:
    """The text on one line."""
    return re.sub(r"\s+", " ", found.to_text())


# --- the verdict --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("expected", "got", "mathematics", "void", "verdict"),
    [
        ([1.0], [1.0], [1.0], [False], CheckVerdict.AGREES),
        ([1.0], [2.0], [1.0], [False], CheckVerdict.DIFFERS),
        ([NAN], [2.0], [NAN], [False], CheckVerdict.UNDEFINED),  # nothing is defined
        ([0.0], [INF], [NAN], [False], CheckVerdict.UNDEFINED),  # torch has a convention where there is no slope
        ([1.0], [NAN], [1.0], [False], CheckVerdict.AGREES),  # the steps lost it to 0·∞, torch has it
        ([NAN], [1.0], [1.0], [False], CheckVerdict.AGREES),  # torch lost it
        ([NAN], [1e96], [1e96 * (1 + 1e-14)], [False], CheckVerdict.AGREES),  # and rounding is rounding
        ([3.0], [NAN], [1.0], [False], CheckVerdict.DIFFERS),  # torch has another number than the mathematics
        ([2.0], [1.0], [NAN], [False], CheckVerdict.DIFFERS),  # two numbers that differ are two numbers
        ([2.0], [1.0], [NAN], [True], CheckVerdict.UNDEFINED),  # but not where an output has no value
        ([2.0, 5.0], [1.0, 4.0], [NAN, 4.0], [True, False], CheckVerdict.DIFFERS),
    ],
)
def test_what_is_undefined_is_not_compared_and_everything_else_is(
    expected: list[float], got: list[float], mathematics: list[float], void: list[bool], verdict: CheckVerdict
) -> None:
    standing = Standing(np.array(mathematics), np.array(void))
    assert compare("oracle", np.array(expected), np.array(got), standing=standing).verdict is verdict


def test_the_logarithm_of_a_negative_base_is_no_number_and_written_as_it_is() -> None:
    told = page(symgrad.explain("(-3)**x", x=[1.0, 2.0]))
    assert "log(−3)·v[p]·(−3)^x[p]" in told
    assert "Undefined here: there is no derivative at x[0] and x[1]" in told
    for word in ("Imaginary", "NaN()", "π"):
        assert word not in told


UNDEFINED: list[tuple[str, dict[str, Any]]] = [
    ("x.std()", {"x": [2.0]}),
    ("x.var()", {"x": [2]}),
    ("log(x)", {"x": [0, -1]}),
    ("sqrt(x)", {"x": [0]}),
    ("1/x", {"x": [0]}),
    ("x/abs(x)", {"x": [0]}),
    ("relu(log(x))", {"x": [-1.0]}),
    ("(-2)**x", {"x": [1]}),
    ("logit(x)", {"x": [-1.0, 2.0]}),
    ("F.cross_entropy(x, y)", {"x": [[1, 2], [3, 4]], "y": [-100, -100]}),
    ("xlogy(x, y)", {"x": [0.0], "y": [0.0]}),
    ("F.kl_div(x, y)", {"x": [0.5], "y": [0.0]}),
    ("F.gaussian_nll_loss(x, y, w)", {"x": [1.0], "y": [1.0], "w": [0.0]}),
]


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("text", "values"), UNDEFINED, ids=[text for text, _ in UNDEFINED])
def test_undefined_is_no_disagreement(text: str, values: dict[str, Any]) -> None:
    found = symgrad.explain(text, **values)
    assert found.passed, [(c.oracle, c.expected, c.got) for g in found.gradients.values() for c in g.checks]
    assert any(check.verdict is CheckVerdict.UNDEFINED for g in found.gradients.values() for check in g.checks)
    told = page(found)
    assert "Undefined here: there is no derivative at" in told
    assert "there is no derivative" in told
    assert "disagree:" not in told
    json.loads(found.to_json())


SATURATED = ((50.0, 1.0, 0.0, -100.0), (50.0, 0.0, 0.0, -100.0), (-800.0, 1.0, 0.0, 100.0), (-800.0, 0.25, 0.0, 100.0))


@pytest.mark.parametrize(("x", "y", "slope", "by_target"), SATURATED)
def test_a_saturated_cross_entropy_has_a_derivative(x: float, y: float, slope: float, by_target: float) -> None:
    """torch takes no logarithm below -100, so its loss is a number there and has a slope; the equation had 0/0."""
    found = symgrad.explain("F.binary_cross_entropy(torch.sigmoid(x), y)", x=x, y=y)
    assert found.passed
    assert_same(np.array(slope), found.gradients["x"].value)
    assert_same(np.array(by_target), found.gradients["y"].value)
    half = torch.sigmoid(torch.tensor(x).double())
    low, high = (torch.nn.functional.binary_cross_entropy(half, torch.tensor(t).double()) for t in (0.25, 0.75))
    assert_same(np.array(by_target), (high - low) / 0.5)
    assert "there is no derivative" not in page(found)


@pytest.mark.parametrize("p", [[0.0, 0.5], [0.0, 1e-320], [1e-320, 1.0]])
def test_equal_in_every_entry_is_said_only_where_torch_has_a_number_in_every_entry(p: list[float]) -> None:
    found = symgrad.explain("binary_cross_entropy(p, y)", p=p, y=[0.3, 0.2], wrt="y")
    (torchs,) = found.asked.gradients.values()
    told = " ".join(found.to_text().partition("1  Forward")[0].split())
    assert np.isinf(torchs).sum() == 1
    assert np.isfinite(found.gradients["y"].value).all()
    assert ("in every entry but 1, where torch has no number" in told) == bool(found.out_of_range)
    assert re.search(r"in every entry( \(|\.)", told) is None


def test_the_command_ends_well_where_nothing_is_defined() -> None:
    result = CliRunner().invoke(main, ["explain", "x.std()", "--let", "x=[2]"])
    assert result.exit_code == 0
    assert "undefined here" in result.stdout
    assert "whatever the numbers" not in result.stdout


def test_a_derivative_that_the_steps_lose_is_said_everywhere() -> None:
    """√ has no value at −1 and its branch is not taken: the derivative is 1, the arithmetic 0·nan."""
    found = symgrad.explain("torch.where(x>0, x.sqrt(), x)", x=[-1, -4])
    told = page(found)
    assert "At x[0] and x[1] the derivative is 1" in told
    assert "0·∞ is nan" in told
    assert "no derivative" not in told
    assert not re.search(r"0 \+ 1 = nan", told)
    assert verdicts(found) <= {CheckVerdict.AGREES, CheckVerdict.NOT_MADE}
    assert_same([1, 1], found.gradients["x"].singular.standing.mathematics)


def test_a_weight_of_nothing_makes_no_derivative_undefined() -> None:
    """log 0 counts nothing: L does not depend on it."""
    found = symgrad.explain("log(x)", x=[0.0, 2.0], seed=[0, 1])
    assert found.passed
    assert_same([0, 0.5], found.gradients["x"].singular.standing.mathematics)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "x", "slope"),
    [
        ("normalize(x, dim=0)", [0.0, 0.0], [1e12, 1e12]),
        ("where(x > 0, log(x), 3 * x)", [-1.0, 2.0], [3, 0.5]),
        ("x ** 400", [10], None),
    ],
)
def test_what_has_a_derivative_is_not_said_to_have_none(text: str, x: list[float], slope: list[float] | None) -> None:
    found = symgrad.explain(text, x=x)
    assert found.passed
    assert CheckVerdict.UNDEFINED not in verdicts(found)
    assert "there is no derivative" not in page(found)
    if slope is not None:
        assert_same(slope, found.gradients["x"].value, tolerance=1e-6)


@pytest.mark.one_in(6)
@pytest.mark.parametrize(
    ("text", "x", "undefined", "slopes"),
    [
        # nothing is left of x in the equation, and yet its step has no value
        ("0 * log(x)", [2.0, -1.0, 0.0], [False, True, True], [0, NAN, NAN]),
        ("0 / x", [0.0, -0.5, 2.0], [True, False, False], [NAN, 0, 0]),
        ("(0 / x) ** 1.5", [0.0, -0.5], [True, False], [NAN, 0]),
        ("x.reciprocal() * 0 + x", [0.0, 2.0], [True, False], [NAN, 1]),
        ("x[:1].std() * 0 + x", [2.0, 3.0], [True, True], [NAN, NAN]),
        ("torch.lerp(x, 1 / x, 0)", [0.0, 2.0], [True, False], [NAN, 1]),
        # but what is masked by a condition has one
        ("where(x > 0, 0 * log(x), 0)", [-1.0, 0.0, 2.0], [False, False, False], [0, 0, 0]),
        ("where(x > 0, sqrt(x), 0)", [-1.0, 2.0], [False, False], [0, 0.5**1.5]),
        # and what has none takes no neighbour with it
        ("where(x < 1, sin(x), sqrt(-x))", [0.5, 0.0, 2.0], [False, False, True], [np.cos(0.5), 1, NAN]),
        ("where(x < 0, x, x - x) / (x / x)", [-0.5, 0.0, 1.0], [False, True, False], [1, NAN, 0]),
        # where the steps are constant between their jumps the output alone says that there is none
        ("log(sign(x) - 1)", [0.5, -1.0], [True, True], [NAN, NAN]),
        ("asin(1 / sign(x))", [0.0, 1.0], [True, False], [NAN, 0]),
    ],
)
@pytest.mark.parametrize("check", [True, False])
def test_what_has_no_value_has_no_derivative_and_what_has_one_keeps_it(
    text: str, x: list[float], undefined: list[bool], slopes: list[float], check: bool
) -> None:
    found = symgrad.explain(text, x=x, check=check)
    told, met = page(found), found.gradients["x"].singular
    if check:
        assert found.passed
    elif "sign" in text:
        return  # without SymPy's own differentiation nobody knows what a constant is made of
    if met is None:
        assert not any(undefined)
        assert_same(slopes, found.gradients["x"].value)
        return
    assert met.undefined.tolist() == undefined
    assert_same(slopes, np.where(met.undefined, NAN, met.standing.mathematics))
    assert not re.search(r"= 0 = (nan|∞|-∞|-?inf)", told)


def test_integers_beyond_floats_stay_exact() -> None:
    assert symgrad.explain("x ** 400", x=[10]).gradients["x"].value[0] == 400 * 10**399


def test_equal_eigenvalues_by_themselves_have_a_gradient() -> None:
    found = symgrad.explain("torch.linalg.eigvalsh(A).sum()", A=[[1, 0], [0, 1]])
    assert found.passed
    assert_same(np.eye(2), found.gradients["A"].value)
    assert_same(np.eye(2), symgrad.explain("svdvals(A).sum()", A=[[1, 0], [0, 1]]).gradients["A"].value)
    with pytest.raises(symgrad.SymgradError, match="not unique"):
        symgrad.explain("eigh(A).eigenvectors", A=[[1, 0], [0, 1]])


def test_no_delta_function_in_a_second_derivative() -> None:
    """‖x‖ of one entry is |x|."""
    assert_same([0.0], symgrad.hvp("sum(x / norm(x))", "x", [3.0], x=[3.0]))


# --- a running program --------------------------------------------------------------------------------------


def pulled(fn: Any, x: list[float]) -> tuple[Any, Any, dict[str, str]]:
    """vᵀJ as captured and as torch has it, v = ones."""
    leaf = torch.tensor(x, dtype=torch.float64, requires_grad=True)
    out = fn(leaf)
    out.sum().backward()
    program = symgrad.capture(fn, leaf.detach())
    return program.pullback(np.ones(tuple(out.shape)))["x"], leaf.grad, program.conventions


@pytest.mark.filterwarnings("ignore:(std|var)")  # torch's own words about one number
@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda x: (x * 0).sqrt(), [4.0]), (lambda x: (x * 0).log(), [4.0]), (lambda x: 1 / (x * 0), [4.0]),
        (lambda x: x[:1].var(), [4.0, 2.0]), (lambda x: x.std(), [4.0]), (lambda x: (0 / x).sqrt(), [4.0]),
    ],
)  # fmt: skip
def test_nothing_that_is_not_finite_is_folded_away(fn: Any, x: list[float]) -> None:
    got, expected, conventions = pulled(fn, x)
    assert_same(expected, got)
    assert not conventions, "the equations say so by themselves"


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: torch.relu(torch.log(x)), lambda x: torch.nn.functional.hardtanh(torch.log(x)),
        lambda x: torch.amax(torch.log(x), 0), lambda x: torch.fmax(torch.log(x), torch.ones(2)),
        lambda x: torch.relu_(torch.log(x)), lambda x: torch.maximum(torch.log(x), torch.ones(1, dtype=torch.float64)),
    ],
)  # fmt: skip
def test_what_torch_makes_of_nan_is_taken_and_named(fn: Any) -> None:
    got, expected, conventions = pulled(fn, [-1.0, 2.0])
    assert_same(expected, got)
    assert all("nan" in reason or "not finite" in reason for reason in conventions.values())


def test_what_was_written_behind_a_pullback_is_refused() -> None:
    """torch computes with what stands there now, and says nothing."""

    def kept(x: Any) -> Any:
        y = x * 2
        z = y * x
        y.data.fill_(1.0)
        return z

    def free(x: Any) -> Any:
        y = x * 2
        z = y + x
        y.data.fill_(1.0)
        return z

    with pytest.raises(symgrad.SymgradError, match=r"through \.data"):
        symgrad.capture(kept, torch.tensor([3.0]))
    assert_same([3.0], symgrad.capture(free, torch.tensor([3.0])).pullback([1.0])["x"])


def told_of(run: Any) -> tuple[Any, str]:
    """The session of a few lines, and its words."""
    from symgrad.tracing.story.session_pages import event_text

    watch = WatchedRun("here.py")
    with watch.watching():
        run()
    return watch.session, "".join(event_text(event) for event in watch.session.events)


@pytest.mark.parametrize(
    ("fn", "x", "said"),
    [
        (lambda x: x.std(), [2.0], "undefined here"),
        (lambda x: x.log().sum(), [0.0, 1.0], "1 of 2 undefined here"),
        (lambda x: torch.where(x > 0, x.sqrt(), x).sum(), [-1.0, -4.0], "lost to 0·∞"),
        (lambda x: torch.relu(x.log()).sum(), [-1.0], "undefined here"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:std")  # torch's own words about one number
def test_a_run_says_undefined_and_ends_well(fn: Any, x: list[float], said: str) -> None:
    session, told = told_of(lambda: fn(torch.tensor(x, requires_grad=True)).backward())
    assert session.agrees
    assert said in told, told
    assert "≠" not in told


@pytest.mark.parametrize(
    ("fn", "x"),
    [
        (lambda x: (x * x.log()).sum(), [0.0, 1.0]),  # x·log(x): its slope is −∞ at 0, the part by log(x) 1 nearby
        (lambda x: (x * x.sqrt()).sum(), [0.0, 1.0]),
        (lambda x: (x.abs() ** 0.5 * x.abs()).sum(), [0.0, 1.0]),
    ],
)
def test_a_weight_that_is_0_only_at_the_point_is_no_part_that_does_not_count(fn: Any, x: list[float]) -> None:
    session, told = told_of(lambda: fn(torch.tensor(x, requires_grad=True)).backward())
    told = " ".join(told.split())
    assert "its part is 0" not in told
    assert "lost to" not in told
    assert "both depend on" in told
    assert session.agrees


def test_advice_fits_the_cause() -> None:
    def turning() -> None:
        a = torch.eye(2, requires_grad=True)
        (torch.linalg.eigh(a)[1] * torch.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()

    _, told = told_of(turning)
    assert "two of its values are equal" in told
    assert "clamp" not in told


@pytest.mark.parametrize("text", ["hardswish(log(x))", "relu6(log(x))", "F.hardsigmoid(sqrt(x)) * x", "F.elu(log(x))"])
def test_an_output_without_a_value_takes_no_other_entry_along(text: str) -> None:
    """What out[0] lacks says nothing of the entries that it is not made of, even where NaN is all that is left of it."""
    found = symgrad.explain(text, x=[-1.0, 2.0, 1.5])
    met = found.gradients["x"].singular
    assert met is not None
    assert met.undefined.tolist() == [True, False, False]


@pytest.mark.parametrize("text", ["floor(x / y)", "x // y", "round(x / y) * x", "where(y > 0, x, floor(x / y))"])
def test_of_a_step_function_without_a_value_too(text: str) -> None:
    """floor(1/0) is a number to SymPy, in which no symbol is left: it was taken for made of every entry."""
    found = symgrad.explain(text, x=[-3.0, 2.0, 1.5], y=[0.0, 3.0, 2.0])
    met = found.gradients["x"].singular
    assert met is not None
    assert met.undefined.tolist() == [True, False, False]


@pytest.mark.parametrize(
    ("x", "y", "wrt", "exists"), [(0.0, 2.0, "y", True), (0.0, 0.0, "x", True), (0.0, 0.0, "y", False)]
)
def test_a_slope_that_quotients_on_both_sides_confirm_is_torchs(x: float, y: float, wrt: str, exists: bool) -> None:
    """0ʸ is 0 near y = 2, and x⁰ is 1; the formula has 0·log 0 and 0/0 there. 0ʸ jumps at y = 0."""
    page = " ".join(symgrad.explain("x ** y", x=[x], y=[y], wrt=wrt).to_text().split())
    assert (f"At {wrt}[0] the derivative is 0." in page) == exists
    assert (f"Undefined here: there is no derivative at {wrt}[0]" in page) != exists
    assert "a weight of 0 meets" not in page


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "var(x, dim=0, correction=2)",
        "std(x, dim=0, correction=2)",
        "cov(x, correction=3)",
        "var_mean(x, 0, correction=2)[0]",
    ],
)
def test_what_divides_by_0_at_these_sizes_alone_has_a_page_in_every_form(text: str) -> None:
    """The matrix of J in symbols was a traceback: 1/(n − 2) is no entry where n is 2."""
    told = symgrad.explain(text, x=[[1.5, 2.0, -3.0], [3.0, 4.5, 1.0]])
    assert told.passed
    for written in (
        told.to_text(width=100),
        told.to_html(),
        told.to_latex(),
        told.to_markdown(),
        json.dumps(told.to_json()),
    ):
        assert "Undefined here" in written or "undefined" in written
    with pytest.raises(symgrad.SymgradError, match="this divides by 0 at these sizes"):
        told.gradients["x"].jacobian.matrix()
