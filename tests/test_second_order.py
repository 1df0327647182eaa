"""Second derivatives and forward mode: the Hessians that everybody knows, and torch's for the rest."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner

import symgrad
from symgrad import InputError, ShapeError
from symgrad import explanation as explained
from symgrad.calculus import reverse_sweep
from symgrad.closed_form import form
from symgrad.explanation import hessian_of
from symgrad.indexing.symbols import accesses, name_of
from symgrad.oracles.torch import torch_version
from symgrad_cli.main import main
from tests import torch_side
from tests.cases import Case, first_stories
from tests.compare import assert_same

POINT = np.random.default_rng(5).uniform(0.2, 1.5, size=200)


def values(**shapes: tuple[int, ...]) -> dict[str, np.ndarray]:
    """Numbers in these shapes, none equal."""
    start, found = 0, {}
    for name, shape in shapes.items():
        size = int(np.prod(shape))
        found[name] = POINT[start : start + size].reshape(shape)
        start += size
    return found


BOOK = [
    ("x @ A @ x", "x", {"x": (3,), "A": (3, 3)}, "A + A.T"),
    ("sum((A @ x - b) ** 2)", "x", {"x": (3,), "A": (2, 3), "b": (2,)}, "2 * (A.T @ A)"),
    ("mse_loss(x, y)", "x", {"x": (3,), "y": (3,)}, "2 * eye(x.shape[0]) / x.shape[0]"),
    (
        "sum(softplus(X @ w) - y * (X @ w))", "w", {"X": (4, 3), "w": (3,), "y": (4,)},
        "X.T @ ((X @ w).sigmoid() * (1 - (X @ w).sigmoid())).diag() @ X",
    ),
    (
        "cross_entropy(z, y)", "z", {"z": (3,), "y": (3,)},
        "p = softmax(z, dim=-1); y.sum() * (p.diag() - p[:, None] * p)",
    ),
    ("sum(exp(x @ a))", "a", {"x": (4, 3), "a": (3,)}, "x.T @ exp(x @ a).diag() @ x"),
    ("sum(x ** 3)", "x", {"x": (3,)}, "(6 * x).diag()"),
]  # fmt: skip
"""Hessians as the books have them."""
OTHERS = [
    ("sum(relu(x @ a) ** 2)", "a", {"x": (2, 3), "a": (3, 2)}),
    ("trace(x @ A @ x)", "x", {"x": (3, 3), "A": (3, 3)}),
    ("prod(x)", "x", {"x": (4,)}),
    ("sum(tanh(tanh(x @ a) @ b))", "a", {"x": (2, 3), "a": (3, 2), "b": (2, 2)}),
    ("norm(x)", "x", {"x": (3,)}),
    ("sum(x)", "x", {"x": (3,)}),
    ("var(x * x)", "x", {"x": (4,)}),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("text", "wrt", "shapes", "form"), BOOK, ids=[text for text, *_ in BOOK])
def test_a_hessian_that_everybody_knows(text: str, wrt: str, shapes: dict[str, tuple[int, ...]], form: str) -> None:
    found = symgrad.hessian(text, wrt, **values(**shapes))
    assert found.closed_form == form
    assert found.passed


@pytest.mark.one_in(8)
@pytest.mark.parametrize(
    ("text", "wrt", "shapes"), [row[:3] for row in BOOK] + OTHERS, ids=[row[0] for row in BOOK + OTHERS]
)
def test_a_hessian_is_torchs(text: str, wrt: str, shapes: dict[str, tuple[int, ...]]) -> None:
    numbers = values(**shapes)

    def function(moved: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(text, {n: moved if n == wrt else torch_side.tensor(a) for n, a in numbers.items()})

    expected = torch.autograd.functional.hessian(function, torch_side.tensor(numbers[wrt])).numpy()
    found = symgrad.hessian(text, wrt, **numbers)
    assert_same(expected, found.value, what=text)
    assert [check.passed for check in found.checks].count(True) >= 3
    assert_same(expected.reshape(found.jacobian.shape), found.jacobian.dense(), what=f"{text}, as a matrix")
    direction = POINT[-numbers[wrt].size :].reshape(numbers[wrt].shape)
    along = np.tensordot(expected, direction, axes=direction.ndim)
    assert_same(along, symgrad.hvp(text, wrt, direction, **numbers), what=f"H·u of {text}")


SMOOTH = [at for at in first_stories() if at.values[0].op.smooth and not at.values[0].op.data]


@pytest.mark.parametrize("case", SMOOTH)
def test_second_order_of_every_smooth_operation_is_torchs(case: Case) -> None:
    """Where the gradient reads nothing but v the Hessian is 0 as a formula, and the oracles need not be asked."""
    for first, second_ in itertools.combinations_with_replacement(case.names, 2):
        (gradient,) = (d.sweep for d in case.derived if d.name == first)
        if gradient.whole and {name_of(entry) for entry in accesses(gradient.equation.right)} <= {case.program.seed}:
            formula = reverse_sweep.second_derivative(case.program, first, second_)
            assert formula is not None
            assert formula.right == 0
            continue
        hessian = hessian_of(case.story, first, second_)
        assert hessian.checks
        failed = [check for check in hessian.checks if check.passed is False]
        assert not failed, (case.name, first, second_, failed)


def test_mixed_partials() -> None:
    numbers = values(x=(2,), A=(2, 2))
    found = symgrad.explain("x @ A @ x", order=2, **numbers)
    assert list(found.hessians) == [("x", "x"), ("x", "A"), ("A", "A")]
    assert found.passed
    mixed = found.hessian("x", "A")
    identity = np.eye(2)
    expected = np.einsum("ip,q->ipq", identity, numbers["x"]) + np.einsum("iq,p->ipq", identity, numbers["x"])
    assert_same(expected, mixed.value, what="∂²(x·A·x)/∂x∂A")
    assert not mixed.constant
    assert found.hessian("x").constant
    assert not np.any(found.hessian("A").value)


def test_exact_numbers_stay_exact() -> None:
    found = symgrad.hessian("sum((A @ x) ** 3)", "x", x=[1, 2], A=[[1, 2], [3, 4]])
    assert found.value.dtype == np.int64
    assert found.value.tolist() == [[624, 852], [852, 1176]]


def test_weights_make_a_scalar_of_any_output() -> None:
    found = symgrad.hessian("x ** 3", "x", seed=[1, 10], x=[1, 2])
    assert found.value.tolist() == [[6, 0], [0, 120]]


def test_pushforward_is_torchs() -> None:
    numbers = values(x=(2, 3), a=(3, 2))
    direction = POINT[:6].reshape(2, 3)

    def function(moved: torch.Tensor) -> torch.Tensor:
        return torch.softmax(moved @ torch_side.tensor(numbers["a"]), -1)

    _, tangent = torch.autograd.functional.jvp(function, torch_side.tensor(numbers["x"]), torch_side.tensor(direction))
    assert_same(tangent.numpy(), symgrad.jvp("softmax(x @ a, dim=-1)", "x", direction, **numbers), what="Ju")


# --- refusals -------------------------------------------------------------------------------------------------


def test_a_hessian_is_that_of_one_number() -> None:
    with pytest.raises(ShapeError, match="one number"):
        symgrad.hessian("x * x", "x", x=[1, 2])
    with pytest.raises(ShapeError, match="one number"):
        symgrad.hvp("x * x", "x", [1, 0], x=[1, 2])
    assert symgrad.hvp("x * x", "x", [1, 1], seed=[3, 4], x=[1, 2]).tolist() == [6, 8]
    with pytest.raises(InputError, match="one expression"):
        symgrad.explain("x * x", then="sum(out)", order=2, x=[1, 2])
    with pytest.raises(InputError, match="no Hessian"):
        symgrad.explain("sum(x)", x=[1, 2]).hessian("x")


@pytest.mark.parametrize("function", [symgrad.jvp, symgrad.hvp])
def test_a_direction_has_the_shape_of_its_input(function: object) -> None:
    assert callable(function)
    with pytest.raises(ShapeError, match="direction"):
        function("sum(x * x)", "x", [1, 2, 3], x=[1, 2])


@pytest.fixture
def no_formula(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every gradient is too long to be one formula."""
    monkeypatch.setattr(reverse_sweep, "LONGEST", 0)
    explained._derived.cache_clear()
    yield
    explained._derived.cache_clear()


DEEP = "h = F.layer_norm(q @ k, (4,)); g = F.layer_norm(relu(h @ w) + h, (4,)); sum(g ** 3)"
"""A text whose second derivative nobody would read."""


@pytest.mark.usefixtures("no_formula")
@pytest.mark.parametrize("number", range(len(BOOK + OTHERS)))
def test_without_a_formula_it_is_the_jacobian_of_the_backward(number: int) -> None:
    text, wrt, shapes = (BOOK + OTHERS)[number][:3]
    numbers = values(**shapes)

    def function(moved: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(text, {n: moved if n == wrt else torch_side.tensor(a) for n, a in numbers.items()})

    expected = torch.autograd.functional.hessian(function, torch_side.tensor(numbers[wrt])).numpy()
    found = symgrad.hessian(text, wrt, check=False, **numbers)
    assert (found.formula, found.closed_form) == (None, None)
    assert_same(expected, found.value, what=text)
    rows, columns = found.jacobian.shape
    assert_same(expected.reshape(rows, columns), found.jacobian.operator().matmat(np.eye(columns)), what=f"{text}, H·u")


@pytest.mark.slow
def test_a_deep_program_has_second_derivatives() -> None:
    found = symgrad.explain(DEEP, wrt=["q"], order=2, **values(q=(2, 3), k=(3, 4), w=(4, 4)))
    (hessian,) = found.hessians.values()
    assert hessian.formula is None
    assert [check.passed for check in hessian.checks].count(True) >= 2
    assert found.passed
    assert "the formula is too long to show" in found.to_text()
    assert [h["text"] for h in json.loads(found.to_json())["hessians"]] == [None]


@pytest.mark.parametrize("text", ["sum(x ** 3)", "sum(tanh(x))", "sum(exp(x)) * sum(x)"])
def test_what_is_kept_of_one_size_is_not_taken_for_another(text: str) -> None:
    for size in (2, 3, 1):
        x, u = POINT[:size], POINT[-size:]
        found = symgrad.hessian(text, "x", x=x, check=False)
        assert_same(found.value @ u, symgrad.hvp(text, "x", u, x=x), what=f"H·u of {text} at {size}")
        assert_same(found.value @ u, found.jacobian.operator().matvec(u), what=f"the operator of {text} at {size}")


def test_what_does_not_depend_on_an_input_has_no_curvature() -> None:
    for text, numbers in (("x", {"x": 3.0}), ("sum(y) + 0 * sum(x)", {"x": [1.0, 2.0], "y": [3.0]}),
                          ("sum(round(x))", {"x": [1.2, 2.1]}), ("x.detach().sum()", {"x": [1.2, 2.1]})):  # fmt: skip
        found = symgrad.hessian(text, "x", check=False, **numbers)
        assert not np.any(found.value)
        u = np.ones(np.shape(numbers["x"]))
        assert not np.any(found.jacobian.operator().matvec(u.reshape(-1)))
        assert not np.any(symgrad.hvp(text, "x", u, **numbers))


def test_no_short_form_is_looked_for_in_a_formula_of_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The Hessian is there all the same."""
    text, numbers = "sum(x ** 3)", values(x=(3,))
    assert symgrad.hessian(text, "x", **numbers).closed_form == "(6 * x).diag()"
    monkeypatch.setattr(form, "WIDEST", 3)
    found = symgrad.hessian(text, "x", **numbers)
    assert found.closed_form is None
    assert_same(np.diag(6 * numbers["x"]), found.value, what=text)


def test_a_wrong_second_derivative_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracles are independent: forget the forward values, and they disagree."""
    monkeypatch.setattr(reverse_sweep, "accesses", lambda right: iter(()))
    assert torch_version() is not None
    found = symgrad.hessian("sum(tanh(x) ** 3)", "x", **values(x=(3,)))
    assert not found.passed
    assert [check.passed for check in found.checks][:2] == [False, False]


# --- what is shown --------------------------------------------------------------------------------------------


def run(*arguments: str) -> str:
    """What the command prints."""
    result = CliRunner().invoke(main, ["explain", *arguments], env={"COLUMNS": "100"}, catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result.stdout


ARGUMENTS = ("x@A@x", "--let", "x=[1,2]", "--let", "A=[[1,2],[3,4]]", "--wrt", "x", "--order", "2")


def test_the_page_shows_it() -> None:
    text = run(*ARGUMENTS)
    section = text[text.index("6  Second order: the Hessian") :]
    assert "∂²L/∂x[p]∂x[q] = A[p,q] + A[q,p]" in section
    assert "A + A.T" in section
    assert "It does not depend on x" in section
    assert "x0   2   5" in section
    assert "double backward" in section
    latex = run(*ARGUMENTS, "--format", "latex")
    assert r"\frac{\partial^2 L}{\partial" in latex
    assert latex.count("{") == latex.count("}")
    assert "the Hessian" in run(*ARGUMENTS, "--format", "markdown")


OPENINGS = [
    ("norm(x) --let x=[3,4]", "∂²L/∂x∂x = (eye(x.shape[0]) - u[:, None] * u) / out, where u = x / out"),
    ("sum(F.silu(x)) --let x=[3,4]", "∂²L/∂x∂x = (x.sigmoid() * (1 - x.sigmoid()) * (x + 2 - 2 * x * x.sigmoid())).diag()"),
    ("prod(x) --let x=[2,3,5]", "∂²L/∂x[p]∂x[q] = (1 − [q = p])·Π_j"),
    ("logsumexp(A@u,0) --let A=[[1,2],[0,1]] --let u=[1,2] --wrt u", "∂²L/∂u∂u = A.T @"),
    ("x@A@x --let x=[1,2] --let A=[[1,2],[0,1]] --wrt x", "∂²L/∂x∂x = A + A.T"),
    ("a*b*c --let a=1 --let b=2 --let c=3", "(2 more pairs of inputs: in the last section of the whole page)"),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("brief", [["--brief"], []])
@pytest.mark.parametrize(("command", "said"), OPENINGS, ids=[command for command, _ in OPENINGS])
def test_a_page_opens_with_its_second_derivatives(command: str, said: str, brief: list[str]) -> None:
    """With --brief nothing was said of them; on a whole page they began at its 60th line."""
    found = CliRunner().invoke(main, ["explain", *command.split(" "), "--order", "2", "--no-color", *brief])
    assert found.exit_code == 0, found.output
    lines = [line for line in found.stdout.splitlines() if line.strip()]
    assert said in " ".join(" ".join(lines[:12]).split())


def test_json_has_it() -> None:
    (found,) = json.loads(run(*ARGUMENTS, "--format", "json"))["hessians"]
    assert (found["first"], found["second"], found["closed_form"]) == ("x", "x", "A + A.T")
    assert found["value"] == [[2, 5], [5, 8]]
    assert found["passed"]
    assert json.loads(run("sum(x)", "--let", "x=[1,2]", "--format", "json"))["hessians"] == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "by", "numbers", "kept"),
    [
        ("F.cross_entropy(z, t)", "z", {"z": [1.0, 2.0, 0.5], "t": 1}, [("z", "z")]),
        ("F.nll_loss(log_softmax(z, -1), t)", "z", {"z": [[1.0, 2.0], [0.5, 3.0]], "t": [1, 0]}, [("z", "z")]),
        (
            "(x[i].sum() * w)**2",
            "x",
            {"x": [1.0, 2.0, 0.5], "i": [2, 0], "w": 3.0},
            [("x", "x"), ("x", "w"), ("w", "w")],
        ),
        ("where(m, x*x, x).sum()", "x", {"m": [1, 0], "x": [2.0, 3.0]}, [("x", "x")]),
    ],
)
def test_positions_and_masks_have_no_second_derivatives(
    text: str, by: str, numbers: dict[str, Any], kept: list[tuple[str, str]]
) -> None:
    """Differences would move a position beside its place: the pairs are those of what something flows to."""
    found = symgrad.explain(text, order=2, **numbers)
    assert list(found.hessians) == kept
    assert found.passed
    tensors = {name: torch.tensor(value) for name, value in numbers.items()}

    def at(moved: torch.Tensor) -> torch.Tensor:
        return torch_side.evaluate(text, tensors | {by: moved})

    expected = torch.autograd.functional.hessian(at, tensors[by].double())
    assert_same(expected.reshape(-1), np.reshape(found.hessians[by, by].value, -1), what=text)


@pytest.mark.parametrize(
    ("text", "given"),
    [
        ("F.multi_margin_loss(x, target, p=2)", {"x": [[1, 2.5, 3], [0.5, 4, 1]], "target": [1, 0]}),
        ("sum(torch.cdist(x, w))", {"x": [[1, 2], [0.5, 4]], "w": [[0, 1], [2, 7]]}),
    ],
)
def test_where_torch_has_no_double_backward_the_page_says_so(text: str, given: dict[str, Any]) -> None:
    """torch refuses with a NotImplementedError here and with a RuntimeError there."""
    found = symgrad.explain(text, wrt=["x"], order=2, **given)
    assert found.passed
    told = [check.note for check in found.hessians["x", "x"].checks if check.note.startswith("torch refuses: ")]
    assert told
    assert "not implemented" in told[0]


@pytest.mark.parametrize(("text", "x"), [("torch.linalg.det(x)", np.eye(2)), ("torch.det(x)", 2 * np.eye(3))])
def test_which_of_torchs_calls_has_the_hessian_is_told(text: str, x: np.ndarray) -> None:
    """A determinant is a polynomial; the forward rule of torch's goes through singular values, which are equal here."""
    found = " ".join(symgrad.explain(text, order=2, x=x).to_text().split())
    none = int(torch.func.hessian(torch.det)(torch.tensor(x)).isnan().sum())
    assert none
    assert f"has {none} of {none} entries here that are no numbers" in found
    assert "torch.autograd.functional.hessian, a backward through the backward, has them." in found
    right = torch.autograd.functional.hessian(torch.det, torch.tensor(x)).reshape(x.size, x.size)
    assert_same(right, np.reshape(symgrad.explain(text, order=2, x=x).hessians["x", "x"].value, right.shape))


@pytest.mark.parametrize("text", ["torch.linalg.inv(x).sum()", "softmax(x, 0)[0, 0]", "(x @ x).sum()"])
def test_no_other_call_is_told_of_where_both_have_the_hessian(text: str) -> None:
    assert (
        "torch.func.hessian, a forward pass" not in symgrad.explain(text, order=2, x=[[2.0, 1.0], [0.5, 3.0]]).to_text()
    )
