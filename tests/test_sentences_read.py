"""Sentences that a reader of random pages found false, each held against what is true there, with others of its kind."""

from __future__ import annotations

import re

import numpy as np
import pytest

import symgrad
from symgrad import explain
from symgrad.render import write_derivation as written_derived
from tests.compare import assert_same

HERE = [[1.0, 3.0], [2.0, 5.0]]


def told(text: str, **options: object) -> str:
    """The page in one line."""
    return " ".join(explain(text, **options).to_text(width=400).split())  # type: ignore[arg-type]  # values by name


@pytest.mark.parametrize(
    "text",
    [
        "x.max(1)[0]", "x.min(0)[0]", "x.sort()[0]", "x.topk(2)[0]", "x.kthvalue(1)[0]", "x.median(1)[0]", "x.cummax(0)[0]",
        "y, i = x.max(1); y", "(x @ x).T", "torch.linalg.inv(x).T", "x.exp().T", "softmax(x, 1).T", "x.exp() * 1",
        "x.exp().clone()", "x.exp().contiguous()", "x.T.clone()", "x.flip(0).T", "x.cumsum(0).mT", "(2 * x).T",
    ],
)  # fmt: skip
def test_a_result_is_said_by_what_it_is_made_of_and_not_by_itself(text: str) -> None:
    """What ends in a turn, a copy or a choice among results: ``out[i,j] = out[i,j]`` is no equation."""
    forward = explain(text, x=HERE, check=False).to_text(width=400).partition("\n2  The Jacobian")[0]
    sides = [line.split(" = ") for line in forward.splitlines() if line.startswith("     out[")]
    assert sides
    assert all(left.strip() != right.split("  ")[0].strip() for left, right, *_ in sides), forward
    assert "= out[" not in forward


@pytest.mark.parametrize("text", ["x > 0", "x.detach()", "x.long()", "x.detach() + (x > 0)", "(x == 1) * 2.0"])
def test_what_torch_has_no_backward_of_is_not_equal_to_it(text: str) -> None:
    found = explain(text, x=[1.0, -2.5])
    assert found.outcome == "torch has no derivative of this"
    said = told(text, x=[1.0, -2.5])
    assert "does not require grad" in said
    assert "Equal to torch" not in said


def test_a_path_by_another_input_that_nobody_asked_for_is_no_refusal() -> None:
    assert explain("x.detach() * y", wrt="x", x=[1.0, 2.0], y=[3.0, 4.0]).outcome == "equal"


@pytest.mark.parametrize(("text", "zeros"), [("x / x.norm()", False), ("2 * x / x.norm()", False), ("x.norm()", True)])
def test_what_is_0_at_the_length_0_is_what_comes_back_through_it(text: str, zeros: bool) -> None:
    """The whole gradient is 0 there only if all of it comes back through the norm: at 0, x / x.norm() has none."""
    page = " ".join(written_derived("text", *symgrad.derive(text), width=400).split())
    assert "the gradient is 0 there" not in page
    gradient = explain(text, x=[0.0, 0.0], seed=None if zeros else [1.0, 2.0]).gradients["x"].value
    assert bool(np.all(gradient == 0)) == zeros


@pytest.mark.parametrize("op", ["floor", "round", "sign", "trunc", "ceil"])
def test_a_slope_is_0_where_there_is_one(op: str) -> None:
    said = told(f"torch.{op}(x)", x=[1.5, 2.0, 0.0])
    assert "its slope is 0 wherever it has one" in said
    assert "is 0 everywhere" not in said
    assert "its slope is 0 everywhere" in told("(x * 0).sum()", x=[1.0, 2.0])


@pytest.mark.parametrize(
    ("matrix", "seed"),
    [([[1.0, 0.0], [0.0, 1.0]], [1, 0]), ([[2.0, 0.0], [0.0, 2.0]], [1, -3])],
)
@pytest.mark.parametrize("text", ["torch.linalg.eigvalsh(x)", "torch.linalg.svdvals(x)"])
def test_equal_eigenvalues_are_a_kink_each_alone(text: str, matrix: list[list[float]], seed: list[int]) -> None:
    """Moved by h on the diagonal one of two equal values takes all of it, and which one the sign of h decides."""
    (tie,) = explain(text, x=matrix, seed=seed).kinks
    assert sorted((tie.left, tie.right)) == [0.0, 1.0]
    assert_same(1.0, tie.together)
    assert not explain(text, x=[[1.0, 0.0], [0.0, 2.0]], seed=[1, 0]).kinks


def test_no_rounding_is_shown_of_what_is_counted_as_one_variable() -> None:
    page = explain("torch.linalg.eigvalsh(x)", x=[[2.0, 1.0], [1.0, 3.0]]).to_text(width=200)
    grid = page.partition("as one variable =")[2].splitlines()[:2]
    assert [re.sub(r"\s+", " ", row).strip() for row in grid] == ["1 ≈0", "≈0 1"]


@pytest.mark.parametrize(
    ("text", "at", "true"),
    [
        ("(1 - torch.exp(x)) / x", 1e-9, -0.5),
        ("(x - torch.sin(x)) / x ** 3", 1e-6, -1e-6 / 60),
        ("(1 - torch.cos(x)) / x ** 2", 1e-7, -1e-7 / 12),
    ],
)
def test_what_cancels_is_told_with_the_true_number(text: str, at: float, true: float) -> None:
    """Here a, there b, both wrong, tells nobody what is right."""
    said = told(text, x=[at])
    found = re.search(r"x\.grad\[0\] is (\S+) exactly, and (\S+) in floating point", said)
    assert found is not None, said
    assert_same(true, float(found[1]), tolerance=1e-3)
    assert_same(explain(text, x=[at], check=False).gradients["x"].value[0], float(found[2]), tolerance=1e-3)


@pytest.mark.parametrize(
    "text", ["F.cross_entropy(x, y, weight=w)", "F.nll_loss(x, y, weight=w)", "F.multi_margin_loss(x, y, weight=w)"]
)
def test_weights_of_classes_are_held_constant_and_not_said_to_be_without_effect(text: str) -> None:
    values = {"x": [[1.0, 2.0, 0.5], [0.0, 4.0, 3.5]], "y": [0, 1]}
    said = told(text, **values, w=[1.0, 2.0, 3.0])
    assert "holds w (its weight) constant, as torch does" in said
    outs = [float(explain(text, **values, w=w, check=False).output) for w in ([1.0, 2.0, 3.0], [1.0, 1.0, 1.0])]
    assert outs[0] != outs[1]


def test_half_precision_keeps_no_number_beyond_its_largest() -> None:
    assert "about 3 digits, and nothing above 65,504" in told("x.half()", x=[0.1, 70000.0])


def test_sizes_at_which_a_text_is_refused_are_not_said_to_mean_something_else() -> None:
    page = written_derived("text", *symgrad.derive("F.conv1d(x, w)"), width=300)
    assert "at other sizes the code is refused or means something else." in page
    with pytest.raises(symgrad.SymgradError):
        explain("F.conv1d(x, w)", shapes={"x": (1, 1, 2), "w": (1, 1, 3)})


@pytest.mark.parametrize("text", ["torch.logdet(x)", "torch.det(x)", "torch.linalg.slogdet(x)[1]"])
def test_a_sentence_on_determinants_names_no_letter_that_stands_nowhere(text: str) -> None:
    said = told(text, x=[[2.0, 1.0], [1.0, 3.0]])
    assert "linear in each row i, whose cofactors do not contain that row" in said
    assert " C" not in said.partition("Differentiate this")[0].partition("determinant")[2]


@pytest.mark.parametrize(
    "text", ["x.norm()", "x / x.norm()", "x.std()", "torch.linalg.norm(x, 3)", "torch.cdist(x[None], y[None])"]
)
def test_a_length_is_no_number_that_the_forward_pass_chose(text: str) -> None:
    """Its equation has a guard for 0, which reads the result; a page in a browser computes it all the same."""
    values = {"x": [3.0, 4.0]} | ({"y": [1.0, 1.0]} if "y" in text else {})
    assert "Only v can be edited here" not in explain(text, **values).to_html()
    assert "position or solution found in the forward pass" in explain("x.max()", x=[3.0, 4.0]).to_html()


@pytest.mark.parametrize(
    ("text", "values", "entry", "true"),
    [
        ("torch.tanh(x)", {"x": [20.0, 0.0]}, "x.grad[0]", 1 / np.cosh(20.0) ** 2),
        ("torch.sigmoid(x @ w)", {"x": [[40.0, 0.0], [0.0, -40.0]], "w": [1.0, 1.0]}, "x.grad[0,0]", np.exp(-40.0)),
        ("F.gelu(x)", {"x": [-12.0, 0.0]}, "x.grad[0]", -12 * np.exp(-72.0) / np.sqrt(2 * np.pi)),
        ("1 - torch.sigmoid(x)", {"x": [38.0, 1.0]}, "x.grad[0]", -np.exp(-38.0)),
    ],
)  # fmt: skip
def test_a_part_that_is_saturated_is_not_shown_as_0_without_a_word(
    text: str, values: dict[str, object], entry: str, true: float
) -> None:
    """Others are not 0, so that no sentence on a gradient of 0 is said."""
    found = re.search(rf"{re.escape(entry)} is (\S+) exactly, and 0 in floating point", told(text, **values))
    assert found is not None, told(text, **values)[:400]
    assert_same(1.0, float(found[1]) / true, tolerance=2e-2)


@pytest.mark.parametrize(
    ("text", "at", "true"),
    [("torch.sigmoid(x)", 36.0, 2.3195e-16), ("torch.sigmoid(x)", 30.0, 9.3576e-14), ("torch.tanh(x)", 18.0, 9.28e-16)],
)
def test_what_has_few_digits_left_is_told_with_the_true_number(text: str, at: float, true: float) -> None:
    """Torch's number is as far off: that the two agree says nothing about the derivative."""
    found = re.search(r"x\.grad\[0\] is (\S+) exactly, and (\S+) in floating point", told(text, x=[at]))
    assert found is not None, told(text, x=[at])[:400]
    assert_same(1.0, float(found[1]) / true, tolerance=2e-3)
    assert abs(float(found[2]) / true - 1) > 1e-3


def test_what_is_truly_0_is_not_said_to_be_lost() -> None:
    assert "in truth" not in told("F.relu(x).tanh()", x=[-20.0, 1.0])
    assert "in truth" not in told("torch.tanh(x)", x=[0.5, 1.0])


def test_a_derivative_that_no_float_holds_is_there_all_the_same() -> None:
    """At 1e-200 1/x is 1e200, and its slope -1e400: beside a pole of another entry it is no pole."""
    said = told("1/x", x=[0.0, 1.0, 1e-200])
    assert "Undefined here: there is no derivative at x[0], because out[0] has no finite value." in said
    assert "At x[2] the derivative is larger than any float: it evaluates to -inf (in torch as well)." in said
    assert "x[0] and x[2]" not in said


def test_an_output_without_a_value_is_the_reason_where_it_is_moved_alone() -> None:
    """√ has no slope at 0, whatever stands in another row."""
    said = told("sqrt(x) + 0 / (x - 1)", x=[0.0, 1.0, 4.0])
    assert "there is no derivative at x[1], because out[1] has no finite value." in said
    assert re.search(r"there is no derivative at x\[0\], where the slope of sqrt\(x\) is infinite or undefined\.", said)
