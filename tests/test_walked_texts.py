"""Texts with a meaning only as they run, asked through `symgrad.explain`: what the page says, what is refused, and how."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

import symgrad
from symgrad.testing import check_backward
from tests.compare import assert_same

LAYER = (
    "def layer(t):\n    h = torch.tanh(t @ w)\n    return h if h.norm() < 1 else h / h.norm()\nlayer(layer(x)).sum()"
)
X = [[1.0, 2.0, 4.0], [0.5, -1.0, 2.0]]


def test_a_function_is_run_and_its_names_are_the_pages() -> None:
    found = symgrad.explain(LAYER, shapes={"x": (2, 3), "w": (3, 3)})
    assert found.passed
    assert found.outcome == "equal"
    page = found.to_text()
    assert "    def layer(t):\n        h = torch.tanh(t @ w)\n" in page  # line by line, as it was typed
    assert "h.T @ v_" in page
    assert "symgrad ran these lines once" in page
    assert json.loads(found.to_json())["expression"] == LAYER


@pytest.mark.parametrize(("text", "gradient"), [
    ("y = x\nwhile y.sum() < 60:\n    y = y * 2\ny.sum()", 8.0), ("f = lambda t, s=3: t * s\nf(x)", 3.0),
    ("if x.sum() > 0:\n    y = 2 * x\nelse:\n    y = x ** 2\ny", 2.0), ("sum([x * k for k in range(4)])", 6.0),
    ("d = {'a': x}\nd['b'] = d['a'] * 5\nd['b']", 5.0), ("y = x * n\nif n > 2:\n    y = y * n\ny", 9.0),
    ("y = 0\nfor t, s in zip([x, x], [2, 3]):\n    y = y + t * s\ny", 5.0), ("try:\n    y = x * 4\nfinally:\n    pass\ny", 4.0),
    ("y = x * 1\nz = y.view(-1)\nassert z.shape == (6,)\nz.mul_(7)\ny", 7.0),
])  # fmt: skip
def test_the_way_that_was_taken_is_differentiated(text: str, gradient: float) -> None:
    found = symgrad.explain(text, x=X, **({"n": 3} if "n >" in text else {}))
    assert found.passed
    assert_same(np.full((2, 3), gradient), found.gradients["x"].value, what=text)


def test_an_input_of_no_shape_has_the_axes_that_torch_takes() -> None:
    found = symgrad.explain("def f(t): return t @ w + b\nf(x).T")
    assert {given.name: np.shape(given.value) for given in found.inputs} == {"w": (3, 3), "b": (3, 3), "x": (3, 3)}
    assert "x is 3×3" in " ".join(found.assumptions)
    named = symgrad.explain("if True:\n    y = x[1:]\ny", shapes={"x": ("n",)})
    assert np.shape(named.output) == (2,)


def test_what_the_text_makes_is_an_input_or_a_constant() -> None:
    found = symgrad.explain(
        "x = torch.tensor([1., 2.], requires_grad=True)\ndef f(t): return t * m\nm = torch.tensor([3., 5.])\nf(x).sum().backward()"
    )
    assert found.passed
    assert set(found.gradients) == {"x"}
    assert found.gradients["x"].value.tolist() == [3, 5]
    assert "m is torch.tensor([3.0, 5.0]), a constant: it gets no gradient" in " ".join(found.to_text().split())
    seeded = symgrad.explain("def f(t): return t * t\nf(x).backward(gradient=torch.tensor([1., 0., 2.]))")
    assert seeded.gradients["x"].value.shape == (3,)
    assert seeded.seed_info.text == "torch.tensor([1.0, 0.0, 2.0])"


def test_random_numbers_are_numpys_and_the_same_for_torch() -> None:
    text = "torch.manual_seed(0)\nx = torch.randn(2, 3, requires_grad=True)\nat = torch.randint(0, 3, (4,))\ndef f(t): return torch.relu(t[:, at] @ torch.rand(4, 2)) * torch.rand_like(t[:, :2])\nf(x).sum().backward()"
    found = symgrad.explain(text)
    assert found.outcome == "equal"
    assert "NumPy's generator draws the random numbers" in " ".join(found.to_text().split())
    assert_same(np.random.default_rng(0).standard_normal((2, 3)), found.values["x"])


def test_many_inputs_of_no_shape_take_few_tries() -> None:
    names = [f"x{n}" for n in range(30)]
    found = symgrad.explain(f"def f(t): return t * 2\nf({' + '.join(names)}).sum()", check=False)
    assert len(found.gradients) == 30


def test_positions_are_whole_numbers_where_python_wants_them() -> None:
    loss = symgrad.explain(
        "h = x.exp().add_(x)\nF.cross_entropy(x - h.detach(), y)", x=[[1.0, 2.0], [0.5, 3.0]], y=[0, 1]
    )
    assert set(loss.gradients) == {"x"}
    found = symgrad.explain("def pick(t, at): return t[at]\npick(x, i)", x=[1.0, 2.0, 4.0], i=[2, 0, 2])
    assert found.passed
    assert found.gradients["x"].value.tolist() == [1, 0, 2]


@pytest.mark.parametrize(("text", "told"), [
    ("while True:\n    y = x * 2\ny", "it takes too many steps"), ("class A:\n    pass\nx", "classdef is not read"),
    ("def f(t): return t.numpy()\nopen('a')\nf(x)", "open is not known here"), ("def f(t): return t + 1\nf(x, x)", r"f\(\) is not called with its arguments: t"),
    ("assert x.ndim == 9\nx", "AssertionError"), ("if True:\n    y = x @ x\ny", "size of tensor|cannot be multiplied"), ("x;x;", "it computes nothing"),
    ("def f(t): return softmaks(t)\nf(x)", "softmaks is not known here"), ("x.sum().backward()\ny = x * 2", "after backward"),
    ("def f(t): return t\nf(x).backward()\nf(x).backward()", "more than once"), ("x.data.mul_(2)\nassert True\nx * x", "autograd does not see"),
    ("return x * 2", "outside a function"), ("assert True\nx\nbreak", "outside a loop"),
])  # fmt: skip
def test_what_cannot_be_run_is_refused_with_the_reason(text: str, told: str) -> None:
    with pytest.raises(symgrad.SymgradError, match=told):
        symgrad.explain(text, x=[[1, 2, 3], [4, 5, 6]])


def test_jacobians_plans_and_second_derivatives_of_such_texts() -> None:
    text = "def f(t):\n    return t ** 3 if t.sum() > 0 else t\nf(x).sum()"
    assert symgrad.jacobian(text, "x", x=[1, 2], check=False).dense().tolist() == [[3, 12]]
    assert symgrad.hessian(text, "x", x=[1, 2]).value.tolist() == [[6, 0], [0, 12]]
    assert symgrad.jvp(text, "x", [1, 1], x=[1, 2]).tolist() == 15


def test_a_text_that_is_not_python_and_one_without_torch_are_refused_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(symgrad.SymgradError, match="the Python keyword `def` is not allowed"):
        symgrad.explain("def f(t: return t\nf(x)")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(symgrad.SymgradError, match="the Python keyword `def` is not allowed"):
        symgrad.explain("def f(t): return t\nf(x)")


RUN_ONCE = [
    "h = x * 2\nh[0] = 2\nh.sin()", "h = x * w\nh[1:] *= x[:2]\nh[::2] = w[:2]\nh", "h = x * 2\nfor k in range(3):\n    h[k] = w[2 - k]\nh * x",
    "y = x\nfor k in range(3): y = y * w + k\ny", "h = (x + 1).sin().add_(w); h * h", "def f(t):\n    return t * w + t.sum()\nf(x)", "h = x * 2; h[[2, 0]] = w[:2]; h * w",
]  # fmt: skip


@pytest.mark.parametrize("text", RUN_ONCE)
def test_formulas_and_code_of_a_text_that_is_run_are_of_its_sizes(text: str) -> None:
    """The page and the code say so, and the numbers of the code are torch's."""
    numbers = {
        "x": torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64),
        "w": torch.tensor([1.5, 0.3, -0.7], dtype=torch.float64),
    }
    shapes = {name: (3,) for name in numbers if name in text}
    program, formulas = symgrad.derive(text, shapes=shapes)
    assert {t.name: program.numbers(t.shape) for t in program.inputs if t.name in shapes} == shapes
    assert {derived.name for derived in formulas} == {*shapes}
    explained = symgrad.explain(text, seed=[1, 2, 3], **{name: numbers[name] for name in shapes})
    assert explained.passed
    if program.made:  # positions that the text writes out
        with pytest.raises(symgrad.SymgradError, match="the text creates a tensor itself"):
            symgrad.export(text, shapes=shapes)
        return
    source = symgrad.export(text, style="functions", name="own", shapes=shapes)
    assert "symgrad ran these lines once" in " ".join(source.split())
    scope: dict[str, Any] = {}
    exec(source, scope)
    given = [numbers[tensor.name] for tensor in program.inputs]
    assert_same(explained.output, scope["own"](*given))
    found = scope["own_backward"](torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), *given)
    for name, gradient in zip(explained.gradients, found if len(given) > 1 else [found], strict=True):
        assert_same(explained.gradients[name].value, gradient, what=f"{name} of {text}")


@pytest.mark.parametrize("text", [
    "h = x * 2; h[h > 1] = 0.5; h", "if x.sum() > 0:\n    y = 2 * x\nelse:\n    y = x ** 2\ny", "def f(t): return torch.where(t > 1, t, t * 3)\nf(x)",
])  # fmt: skip
def test_formulas_that_hold_for_some_numbers_alone_are_not_shown_for_all(text: str) -> None:
    for ask in (symgrad.derive, symgrad.export):
        with pytest.raises(symgrad.SymgradError, match="depends on the numbers"):
            ask(text)
    assert symgrad.explain(text, x=[0.1, 2.0, 3.0]).passed


def test_a_backward_is_checked_against_a_text_that_is_run() -> None:
    def forward(x: Any) -> Any:
        h = x * 2
        h[0] = 3
        return h * x

    x, text = np.array([0.5, -1.0, 2.0]), "h = x * 2\nh[0] = 3\nh * x"
    assert check_backward((forward, lambda v, x: v * np.append(3, 4 * x[1:])), text, x=x).passed
    assert not check_backward((forward, lambda v, x: v * 4 * x), text, x=x).passed


@pytest.mark.parametrize(("text", "gradients"), [
    ("x = x * 2; x[0] = 1; x", {"x": [0, 2]}), ("x = x * a\nfor k in range(2): x = x + a * k\nx", {"x": [5, 7], "a": [4, 5]}),
    ("x, a = a, x\na = a.clone()\na.mul_(x)\na", {"x": [5, 7], "a": [3, 4]}), ("with torch.no_grad():\n    y = x * 2\ny.sum()", {"x": [0, 0]}),
    ("with torch.no_grad(): y = x * a\ny", {"x": [0, 0], "a": [0, 0]}), ("from math import pi as p\nfor k in range(2): y = x * k\ny + 0 * p", {"x": [1, 1]}),
    ("def g(t): return t * 2\ngs = [g, g]\ny = gs[0](gs[1](x))\ny", {"x": [4, 4]}), ("import torch as t\nif True: y = t.sin(x) * 0\ny", {"x": [0, 0]}),
])  # fmt: skip
def test_an_input_may_be_assigned_to_and_its_gradient_may_be_0(text: str, gradients: dict[str, list[float]]) -> None:
    numbers = {"x": [3, 4], "a": [5, 7]}
    assert set(symgrad.explain(text).gradients) == {*gradients}  # nobody says which names are inputs
    found = symgrad.explain(text, **{name: numbers[name] for name in gradients})
    assert {name: gradient.value.tolist() for name, gradient in found.gradients.items()} == gradients


@pytest.mark.parametrize(("text", "output", "gradient"), [
    ("h = x * 2; h[0] = 3", [3, 4, 7], [0, 2, 2]), ("h = x * 2; h[1:] = x[:2]", [2, 1, 2], [3, 1, 0]), ("h = x.clone(); h[0] *= x[1]", [2, 2, 3.5], [2, 2, 1]),
    ("h = x.clone(); h.mul_(2)", [2, 4, 7], [2, 2, 2]), ("d = {}; d['a'] = x * 2", [2, 4, 7], [2, 2, 2]),
])  # fmt: skip
def test_a_text_that_ends_in_an_overwritten_tensor_gives_that(
    text: str, output: list[float], gradient: list[float]
) -> None:
    found = symgrad.explain(text, x=[1, 2, 3.5])
    assert found.outcome == "equal"
    assert_same(output, found.output, what=text)
    assert_same(gradient, found.gradients["x"].value, what=text)


def test_what_a_console_shows_is_run_as_it_was_typed() -> None:
    found = symgrad.explain(">>> y = x * 3\n>>> y[0] = 1\n>>> y.sum()\ntensor(…)", x=[1, 2])
    assert found.gradients["x"].value.tolist() == [0, 3]
    assert ">>>" not in found.to_text()


def test_what_a_cast_may_share_is_not_overwritten() -> None:
    """``y.float()`` is y itself, or a copy: the type of the user's tensor says which."""
    for text in (
        "y = x * 2; z = y.float(); y.mul_(2); z * y",
        "y = x * 2; z = y.float(); z[0] = 1; z * y",
    ):
        with pytest.raises(symgrad.SymgradError, match="overwrit"):
            symgrad.explain(text, x=[1.0, 2.0])
    found = symgrad.explain("h = (x * 2).float(); h[0] = 0; h * x", x=[1.0, 2.0])
    assert_same([0.0, 8.0], found.output, what="what nothing else shares")
    assert found.passed
