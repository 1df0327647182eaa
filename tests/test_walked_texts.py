"""Texts with a meaning only as they run, asked through `symgrad.explain`: what the page says, what is refused, and how."""

from __future__ import annotations

import json

import numpy as np
import pytest

import symgrad
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
    found = symgrad.explain("def pick(t, at): return t[at]\npick(x, i)", x=[1.0, 2.0, 4.0], i=[2, 0, 2])
    assert found.passed
    assert found.gradients["x"].value.tolist() == [1, 0, 2]


@pytest.mark.parametrize(("text", "told"), [
    ("while True:\n    y = x * 2\ny", "it takes too many steps"), ("class A:\n    pass\nx", "classdef is not read"),
    ("def f(t): return t.numpy()\nopen('a')\nf(x)", "open is not known here"), ("def f(t): return t + 1\nf(x, x)", r"f\(\) is not called with its arguments: t"),
    ("assert x.ndim == 9\nx", "AssertionError"), ("if True:\n    y = x @ x\ny", "size of tensor|cannot be multiplied"), ("x;x;", "it computes nothing"),
    ("def f(t): return softmaks(t)\nf(x)", "softmaks is not known here"), ("x.sum().backward()\ny = x * 2", "after backward"),
    ("def f(t): return t\nf(x).backward()\nf(x).backward()", "more than once"), ("x.data.mul_(2)\nassert True\nx * x", "autograd does not see"),
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
