"""Lines of a program as people paste them: what torch adds to .grad when the same lines run is what is explained."""

from __future__ import annotations

import re
from typing import Any

import pytest
import torch
import torch.nn as nn
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

import symgrad
from symgrad import SymgradError
from tests.compare import assert_same

PASTED = (
    (
        "import torch\nx = torch.ones(2, 3, requires_grad=True)\na = torch.ones(3, 4)\nout = x @ a\n"
        "v = torch.tensor([[1., 2, 3, 4], [5, 6, 7, 8]])\nout.backward(v)\nprint(x.grad)"
    ),
    (
        "from torch import nn\nimport torch.nn.functional as F\nx = torch.tensor([1., -2., 3.], requires_grad=True)\n"
        "y = F.relu(x)  # the kink is not met\ny.backward(gradient=torch.ones_like(y), retain_graph=True)\nx.grad"
    ),
    "x = torch.tensor(2.0, requires_grad=True); y = x**3; y.backward()",
    "x = torch.linspace(0, 1, 3).requires_grad_(); (x * x).sum().backward(); print('grad', x.grad)",
    "x = torch.full((2, 2), 0.5); x.requires_grad_(); L = (x @ x).sum(); unused = x * 2; L.backward()",
    (
        "torch.manual_seed(3); w = nn.Parameter(torch.arange(3.)); b = nn.Parameter(torch.zeros(2))\n"
        "x = torch.tensor([[1., 2., 3.], [4., 5., 6.]]); loss = ((x @ w + b - 1)**2).mean(); loss.backward(); w.grad; b.grad"
    ),
    "x = torch.ones(3, requires_grad=True); v = torch.arange(3.); y = x * v; y.backward(v)",
    "x = torch.eye(2, requires_grad=True); h = x * 3; h.sum().backward(torch.tensor(2.))",
    "x = torch.FloatTensor([1, 2, 3]); x.requires_grad = True; y = (x**2).sum(); y.backward()",
    (
        "from torch.autograd import Variable\nx = Variable(torch.Tensor([[1, 2], [3, 4]]), requires_grad=True)\n"
        "t = Variable(torch.Tensor([1, -2]))\ny = (x @ t) ** 2\ny.backward(torch.Tensor([1, 3]))"
    ),
    (
        "w = torch.tensor([1., -2.]); w.requires_grad=True\nopt = torch.optim.SGD([w], lr=0.1)\n"
        "loss = (w**2).sum()\nopt.zero_grad()\nloss.backward()\nopt.step()"
    ),
)

SNIPPETS = (
    "x = torch.tensor([1., 2.], requires_grad=True)\ny = x * 3\ny.mul_(2)\ny.sum().backward()\nx.grad",
    "x = torch.tensor([1., 2.])\nx.requires_grad_()\ny = x * 3\ny += 1\nloss = (y ** 2).mean()\nloss.backward()\nprint(x.grad)",
    "x = torch.ones(3, requires_grad=True)\ny = x * 2\nfor _ in range(3):\n    y = y * 2\nv = torch.tensor([0.1, 1.0, 0.0001])\ny.backward(v)\nprint(x.grad)",
    "w = torch.full((3,), 0.5); w.requires_grad = True; y = w * 2; y[0] = 7; y.backward(torch.arange(3.))",
    ">>> x = torch.ones(2, requires_grad=True)\n>>> y = x * 3\n>>> y.mul_(5)\ntensor([15., 15.])\n>>> torch.relu_(y)\n>>> y.sum().backward()",
)


CONSOLE = (
    (
        ">>> import torch\n>>> x = torch.ones(2, requires_grad=True)\n>>> y = x + 2\n>>> y\n"
        "tensor([3., 3.], grad_fn=<AddBackward0>)\n>>> z = y * y * 3\n>>> z, z.mean()\n"
        "(tensor([27., 27.], grad_fn=<MulBackward0>), tensor(27., grad_fn=<MeanBackward0>))\n"
        ">>> z.mean().backward()\n>>> x.grad\ntensor([9., 9.])"
    ),
    (
        "In [1]: x = torch.arange(3., requires_grad=True)\n\nIn [2]: x * 2\nOut[2]: tensor([0., 2., 4.])\n\n"
        "In [3]: y = (x *\n   ...: x)\n\nIn [4]: y.backward(torch.ones(3))"
    ),
    ">>> x = torch.ones(2, requires_grad=True)\n>>> y = (x *\n... 2)\n>>> y.sum().backward()\n>>> # done",
)


@pytest.mark.parametrize("text", [*CONSOLE, SNIPPETS[-1]])
def test_what_a_console_shows_is_read_as_it_was_typed(text: str) -> None:
    """Without prompts and answers; a mistake is shown where it was typed."""
    typed = "\n".join(
        re.sub(r"^[ ]*(>>>|\.\.\.:?|In \[\d+\]:) ?", "", line)
        for line in text.split("\n")
        if re.match(r"[ ]*(>>>|\.\.\.|In )", line)
    )
    expected, found = ran(typed), symgrad.explain(text)
    assert found.passed
    assert set(found.gradients) == set(expected)
    for name, gradient in expected.items():
        assert_same(found.gradients[name].value, gradient.numpy())
    opening = found.to_text().partition("Equal")[0]
    assert not re.search(r">>>|In \[|\.\.\.|tensor\(\[3", opening)
    with pytest.raises(SymgradError, match=r">>> x \+ nope\(x\)\n +\^\^\^\^"):
        symgrad.explain(">>> x + nope(x)")


def ran(text: str) -> dict[str, Any]:
    """The gradients that torch stores when the lines run."""
    own = {"torch": torch, "nn": nn, "F": F, "print": lambda *_: None}
    exec(text.replace("opt.step()", ""), own)  # it changes the leaf, and no gradient
    return {n: t.grad for n, t in own.items() if isinstance(t, torch.Tensor) and t.is_leaf and t.grad is not None}


@pytest.mark.parametrize("text", [*PASTED, *SNIPPETS[:-1]])
def test_pasted_lines_are_explained_as_they_run(text: str) -> None:
    """The values, the seed and the leaves are those of the lines; every gradient is torch's, and no other is told."""
    expected, found = ran(text), symgrad.explain(text)
    assert found.passed
    assert set(found.gradients) == set(expected)
    for name, grad in expected.items():
        assert_same(grad, found.gradients[name].value, what=f"{name}.grad of {text!r}", tolerance=1e-6)


@pytest.mark.slow
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.data())
def test_a_pasted_seed_is_the_one_given_beside(m: int, n: int, h: int, data: st.DataObject) -> None:
    """Values and seed in the text and beside it say the same."""
    numbers = st.integers(-4, 4)

    def tensor(rows: int, columns: int) -> list[list[int]]:
        return data.draw(st.lists(st.lists(numbers, min_size=columns, max_size=columns), min_size=rows, max_size=rows))

    x, a, v = tensor(m, n), tensor(n, h), tensor(m, h)
    pasted = symgrad.explain(
        f"x = torch.tensor({x}, dtype=torch.double, requires_grad=True); out = x@a; out.backward(torch.tensor({v}))",
        a=a, check=False,
    )  # fmt: skip
    beside = symgrad.explain("x@a", x=x, a=a, seed=v, check=False)
    for name in ("x", "a"):
        assert_same(beside.gradients[name].value, pasted.gradients[name].value, what=f"{name}, {x} {a} {v}")


def test_the_page_shows_what_computes() -> None:
    """Imports, prints and the call of backward are no part of the headline; what was drawn is said."""
    text = symgrad.explain(PASTED[0]).to_text()
    assert text.lstrip().startswith("x = torch.ones(2, 3, requires_grad=True); a = torch.ones(3, 4); out = x @ a")
    assert "import" not in text
    assert "print" not in text
    assert "26 26 26" in text
    assert "ones_like" not in symgrad.explain(PASTED[1]).to_text()
    drawn = symgrad.explain("x = torch.randn(2, requires_grad=True); (x*2).sum().backward()")
    assert "drawn once with NumPy's generator, seed 0" in drawn.to_text()


REFUSED = {
    "x.sum().backward(); x.sum().backward()": "two calls of backward",
    "x.sum().backward(); y = x*2": "after backward",
    "import torch": "no expression",
    "import torch\nprint(x)": "no expression",
    "out = x*2; out.backward(2*out)": "has to be a tensor of numbers",
    "out = x*2; out.backward(2.5)": "has to be a tensor of numbers",
    "(x*2).backward(torch.ones_like(out))": "has to be a tensor of numbers",
    "x = torch.ones(2, 2); (x*2).backward(torch.linalg.inv(x))": "has to be a tensor of numbers",
    "x = torch.ones(2, 2); (x*2).backward(F.pad(x, (1, 1)))": "has to be a tensor of numbers",
    "x = torch.ones(3, requires_grad=True); (x*2).backward(torch.ones(4))": "shape of the output",
    "x = (y*2).requires_grad_(); x.sum()": "is computed here",
    "torch.ones(3, requires_grad=True)*x": "has no gradient",
    "x.backward": "no attribute backward",
    "y = x.sum().backward()": "no method backward",
    "-" * 90 + "x.backward()": "no method backward",
    "(" * 1900 + "x.backward()": "nested more than",
    "torch.std_mean(x)[2]": "std_mean gives 2 tensors here",
    "torch.aminmax(x)[2]": "aminmax gives 2 tensors here",
    "a, b, c = torch.std_mean(x); a": r"expected 3, got 2",
    "x.chunk(2)[2]": "no part 2 among 2",
    "softmax(x, dim=d)": "dim of softmax cannot be a tensor",
    "F.leaky_relu(x, s)": "negative_slope of F.leaky_relu cannot be a tensor",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_cannot_be_read_of_pasted_lines_is_refused_at_its_place(text: str) -> None:
    """Each refusal in a sentence, and with a place in the text as it was pasted."""
    with pytest.raises(SymgradError, match=REFUSED[text]) as caught:
        symgrad.explain(text)
    assert caught.value.span is not None


@pytest.mark.parametrize(("text", "wrong"), [
    ("relu(x y)", "x y"), ("x ** * 2", "*"), ("f(x", "("), ("x @ a)", ")"), ("softmax(x, dim=1 2)", "1 2"),
])  # fmt: skip
def test_what_python_cannot_read_is_underlined_and_nothing_else(text: str, wrong: str) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text)
    assert caught.value.span is not None
    assert text[slice(*caught.value.span)] == wrong


def test_the_seed_is_said_once() -> None:
    """A seed beside a text that calls backward with one contradicts it."""
    with pytest.raises(SymgradError, match="defines v itself"):
        symgrad.explain("out = x*2; out.backward(torch.ones(2))", seed=[1, 2])
    program, derived = symgrad.derive("x = torch.ones(2, requires_grad=True); (x*x).sum().backward()")
    assert [tensor.name for tensor in program.inputs] == [d.name for d in derived] == ["x"]
