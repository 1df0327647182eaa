"""The reader that every text is held against walks a text as Python runs it, over torch's tensors, and runs nothing else.

What Python gives is asked of Python: the tests' own texts, and no others, go through ``exec``.
"""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pytest
import torch

from symgrad.reference import ReferenceResult, TextRejected, UnsupportedText, run_reference
from tests.compare import assert_same

X, A = [[0.3, -1.2, 2.1], [0.7, 1.9, -0.4]], [[0.6, 0.2, -1.5], [1.1, -0.8, 0.9]]
LONG = "y = x * 2\n"


def leaf(value: Any) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64, requires_grad=True)


BARE = {"norm": torch.norm, "kl_div": torch.nn.functional.kl_div}
"""What bare words are, by the documented order: ``torch.nn.functional`` first, then ``torch``, then its parts."""


def by_python(text: str, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """The value of the last line of a text."""
    *before, last = text.replace("; ", "\n").split("\n")
    scope = {"torch": torch, "F": torch.nn.functional, "nn": torch.nn, "np": np, **BARE, **given}
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec("\n".join([*before, f"out = {last}"]), scope)
    finally:
        torch.set_default_dtype(usual)
    out = scope["out"]
    assert isinstance(out, torch.Tensor)
    return out


PYTHONS = (
    "x, y = x*2, x*3; x*y", "x, a = a, x; x - a", "x, s = x / x.sum(), x.sum(); x * s", "x, a = torch.stack([a, x]); x - a * 2",
    "p = q = x * 2; p.mul_(3); q", "p, *q = x.unbind(1); p * q[1]", "*p, q = x.unbind(1); q * p[0]", "(p, q), r = (x, a), x * a; p - q * r",
    "y = x * 1; y[1:] = a[:1]; y", "y = x * 1; y[:, ::2] *= a[:, ::2]; y", "y = x * 1; y[0], y[1] = y[1], y[0]; y", "y = x * 2; y += a; y",
    "y = x * 2; z = y; z += a; y", "y = x * 2; z = +y; z.mul_(5); y", "y = x * 2; z = y.contiguous(); z.mul_(5); y",
    "y = x * 2; z = y.to(torch.float64); z.mul_(5); y", "y = x * 2; z = y.view(6); z.mul_(5); y", "y = x * 2; z = y.reshape(6); z[0] = 0; y",
    "y = x * 2; z = y.T; z.mul_(5); y", "y = x * 2; z = y.clone(); z.mul_(5); y", "y = x * 2; y.detach().mul_(3); y", "y = x * 2; y.data.mul_(3); y * a",
    "y = x * 2\nfor k in range(3):\n    y = y * a + k\ny", "y = 0\nfor row in x:\n    y = y + row * row\ny", "t = []\nfor r in x:\n    t.append(r * 2)\ntorch.stack(t)",
    "y = x * 2\nfor i, r in enumerate(a):\n    y[i] = r * i\ny", "with torch.no_grad():\n    y = x * 2\ny * x", "y = x * 2\nwith torch.no_grad():\n    y.mul_(3)\ny * a",
    "from torch import sin as cos; cos(x)", "from torch import tanh as t; t(x)", "import torch as t; t.sin(x)", "import torch.nn.functional as f; f.relu(x)",
    "from math import pi; pi * x", "import math; x * math.sqrt(2)", "from torch.nn import functional as G; G.softmax(x, 1)", "exp = x * 2; exp * a", "sum = x * 2; sum + 1",
    "y = torch.relu_(x * 2); y", "y = x - 0.5; F.relu(y, inplace=True); y", "y = x * 2; y.add_(1).mul_(3); y", "y = x * 2; torch.add(y, a, out=y) if False else y",
    "y = x if x.shape[0] > 1 else a; y * 2", "torch.cat([r * 2 for r in x])", "z = x[x > 0]; z * 2", "x.masked_select(a > 0) * 3", "x.sum().item() * x",
    "(y := x * 2) + y", "y = x * 2; del a; y", "w: int = 3; x * w", "x[:, [0, 2]]", "x[..., None] * a[:, :, None]", "x[torch.tensor([1, 0])]", "torch.max(x.sum(), a.sum())",
    "sum([x, a])", "abs(x)", "x.round()", "pow(x, 2)", "len(x) * x", "float(2) * x", "x.max(1).values", "x.max(1)[0]", "torch.linalg.qr(x).R", "v, i = x.sort(1); v * a",
    "x.size(0) * x", "x.shape[1] * x", "x @ a.T", "x.T @ a", "-x ** 2", "x // 1 * a", "x % 2", "2 ** x", "~(x > 0) * a", "(x > 0) & (a > 0) | (x < -1)",
    "0 < 1 < 2 and x * 2", "not 0 and x", "t = [1, 2]; t[0] += 5; x * t[0]", "if x.shape[0] > 1:\n    y = x\nelse:\n    y = a\ny * 2",
    "torch.arange(3) * 0.1 * x", "torch.arange(3) / 7 * x", "norm(x, 1) * x", "kl_div(x, a.abs(), reduction='sum') * x",
    "f = nn.MSELoss(); f(x, a)", "nn.Sequential(nn.Tanh(), nn.Softmax(1))(x)", "nn.Flatten(0)(x)", "x.new_zeros(3) + x",
    "torch.zeros_like(x) + a", "torch.full((2, 3), 2.5) * x", "(torch.arange(6) % 4).reshape(2, 3) * x", "torch.tensor([1, 2, 3]) * x", "torch.eye(2) @ x",
    "(torch.tensor([200, 1, 2], dtype=torch.uint8) + torch.tensor([100, 1, 2], dtype=torch.uint8)) * x", "torch.tensor([.1, .2, .3], dtype=torch.float16) * x",
    "torch.tensor([100, 2, 3], dtype=torch.int8) * 2 * x", "(torch.arange(3, dtype=torch.uint8) - 2) * x", "(torch.tensor([7, 8, 9]) // 2) * x",
    "def f(t, s=3, *, u):\n    t = t * s\n    return t - u\nf(x, u=a) * x", "k = 2\nf = lambda t: t * k\nk = 5\nf(x)", "fs = [lambda t: t * k for k in range(3)]\nfs[0](x)",
    "def f(t):\n    def g(s):\n        return s * t\n    return g(a)\nf(x)", "def f(n):\n    return x if n == 0 else f(n - 1) * a\nf(3)", "def f(t, s=[]):\n    s.append(t)\n    return sum(s)\nf(x)\nf(a)",
    "def f(t):\n    for k in range(4):\n        if k == 2:\n            return t * k\nf(x)", "y, n = x, 0\nwhile n < 5:\n    n += 1\n    if n == 2: continue\n    if n == 4: break\n    y = y * a + n\ny",
    "def f(t, s=2): return t * s\nf(x, s=5) + f(a)", "d = {'p': a, 'p': x}\nd['p'] * 2", "d = {'p': x, 2: a}\nd['q'] = d['p'] * d[2]\nsum(d.values()) * d.get('q')", "d = {f'w{k}': x * k for k in range(3)}\nd['w1'] - d['w2']", "y = x\nfor k, t in {'p': a, 'q': x}.items():\n    y = y * t + len(k)\ny",
    "assert x.shape == (2, 3), 'no'\nx * a", "try:\n    y = x * 2\nexcept RuntimeError:\n    y = a\nelse:\n    y = y * a\nfinally:\n    y = y + 1\ny", "t = [x, a]\ny = t.pop() * 2 if 1 in [1, 2] and 3 not in (1, 2) else x\ny * len(t)",
    "s = 1\nfs = [lambda t: t * s for _ in range(2)]\ns = 3\nfs[0](x)", "def f(x):\n    return x * 2\nf(a) + x", "def f():\n    y = a\n    return y\ny = x\nf() * y",
)  # fmt: skip


@pytest.mark.parametrize("text", PYTHONS)
def test_a_text_is_worth_what_python_makes_of_it(text: str) -> None:
    """Right side first, then the targets; names that are one tensor stay one; torch's own types of whole numbers."""
    given, own = ({"x": leaf(X), "a": leaf(A)} for _ in range(2))
    expected, found = by_python(text, given), run_reference(text, own)
    assert found.output.shape == expected.shape
    assert_same(expected.detach().double(), found.output.detach().double(), what=text)
    if expected.requires_grad and "//" not in text.split("torch")[0]:
        wanted = torch.autograd.grad(expected.sum(), [*given.values()], allow_unused=True)
        theirs = torch.autograd.grad(found.output.sum(), [*own.values()], allow_unused=True)
        for one, other in zip(wanted, theirs, strict=True):
            assert (one is None) == (other is None)
            assert_same(torch.zeros(1) if one is None else one, torch.zeros(1) if other is None else other, what=text)


REFUSED = {
    "y = x; y.mul_(2)": "a leaf Variable that requires grad is being used in an in-place operation",
    "b = x; b, x = x, b; b.sin_()": "a leaf Variable that requires grad",
    "x.view(-1).mul_(2)": "a view of a leaf Variable that requires grad",
    "x[x > 0] = 0.5": "a leaf Variable that requires grad",
    "p, q = x.unbind(1)": r"too many values to unpack \(expected 2\)",
    "p, q, r, s = x.unbind(1)": r"not enough values to unpack \(expected 4, got 3\)",
    "p, q, r = x": r"not enough values to unpack \(expected 3, got 2\)",
    "exp = x * 2; exp(x)": "'Tensor' object is not callable",
    "(x > 0) - a": "Subtraction, the `-` operator, with a bool tensor",
    "-(x > 0) * a": "Negation, the `-` operator, on a bool tensor",
    "x.T.view(6)": "view size is not compatible",
    "softmax(x)": "missing 1 required positional arguments",
    "layer_norm(x)": "missing 1 required positional argument: 'normalized_shape'",
    "F.layer_norm(x, 3)": "argument 'normalized_shape'",
    "F.gelu(x, 'tanh')": "takes 1 positional argument but 2 were given",
    "torch.tensor([7, 8, 9]).pow(-1) * x": "Integers to negative integer powers are not allowed",
    "torch.tensor([300, 1, 2], dtype=torch.uint8) * x": "cannot be converted",
    "torch.view_as_real(torch.fft.ihfft(x))": "view_as_real doesn't work on unresolved conjugated tensors",
    "x + torch.ones(7)": "The size of tensor",
    "if x > 0:\n    y = x\ny": "Boolean value of Tensor with more than one value is ambiguous",
}  # fmt: skip


@pytest.mark.parametrize("text", REFUSED)
def test_what_torch_or_python_refuses_is_refused_in_their_words(text: str) -> None:
    with pytest.raises(TextRejected, match=REFUSED[text]):
        run_reference(text, {"x": leaf(X), "a": leaf(A)})


def test_a_value_that_was_written_over_is_refused_by_its_backward() -> None:
    found = run_reference("y = x.exp(); y.mul_(2); y", {"x": leaf(X)})
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.output.sum().backward()


CONSOLES = {
    ">>> y = x*2\n>>> y.mul_(5)\ntensor([…])\n>>> y": 10.0,
    "In [1]: y = x*2\nIn [2]: y.mul_(5)\nOut[2]: tensor([…])\nIn [3]: y": 10.0,
    ">>> y = x*2\n>>> for k in range(3):\n...     y = y*2\n...\n>>> y": 16.0,
    ">>> y = x*2\n>>> print(y.add_(x))\n>>> y": 3.0,
    ">>> from torch import mul as add\n>>> add(x, 4)": 4.0,
}


@pytest.mark.parametrize("text", CONSOLES)
def test_every_line_of_a_console_runs(text: str) -> None:
    x = leaf(X)
    assert_same(CONSOLES[text] * x.detach(), run_reference(text, {"x": x}).output.detach(), what=text)


def test_what_is_pasted_most_is_read() -> None:
    text = "x = torch.tensor([1., 2.], requires_grad=True)\ny = x * 3\ny.mul_(2)\ny.sum().backward()\nx.grad"
    found = run_reference(text, {})
    assert_same(found.output.detach(), torch.tensor(18.0))
    assert_same(torch.autograd.grad(found.output, found.leaves["x"])[0], torch.tensor([6.0, 6.0]))


SAID = {
    "x = torch.ones(3); x.requires_grad = True; y = x * 2; y.backward(torch.tensor([1., 2., 3.])); print(x.grad)": [
        1.0,
        2.0,
        3.0,
    ],
    "torch.manual_seed(0); x = torch.ones(2).requires_grad_(); (x * 3).backward(gradient=torch.ones(2)); x.grad.zero_()": [
        1.0,
        1.0,
    ],
    "x = nn.Parameter(torch.ones(2)); y = x * 3; y.backward()": None,
    "x = Variable(torch.ones(2), requires_grad=True); y = x * 3; y.backward()": None,
}


@pytest.mark.parametrize("text", SAID)
def test_what_a_text_says_beside_what_it_computes(text: str) -> None:
    state = torch.get_rng_state()
    found = run_reference(text, {})
    assert torch.equal(torch.get_rng_state(), state)
    assert found.leaves["x"].requires_grad
    assert (found.seed is None) == (SAID[text] is None)
    if SAID[text] is not None:
        assert_same(found.seed, torch.tensor(SAID[text]))


def test_drawn_numbers_are_those_that_are_handed_in() -> None:
    state = torch.get_rng_state()
    draws = [np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), np.array([1, 0])]
    found = run_reference("w = torch.randn(2, 3); (x * w)[torch.randperm(2)]", {"x": leaf(X)}, draws)
    assert_same(found.output.detach(), torch.tensor(X, dtype=torch.float64).mul(torch.tensor(draws[0]))[[1, 0]])
    assert torch.equal(torch.get_rng_state(), state)
    for text in (
        "torch.randn(2, 3) * x",
        "F.dropout(x, 0.5)",
        "F.dropout(x)",
        "x * torch.rand_like(a)",
        "F.rrelu(x, training=True)",
    ):
        with pytest.raises(UnsupportedText, match="drawn"):
            run_reference(text, {"x": leaf(X), "a": leaf(A)})
    assert_same(
        run_reference("F.dropout(x, 0.5, training=False)", {"x": leaf(X)}).output.detach(),
        torch.tensor(X, dtype=torch.float64),
    )


def test_numbers_have_double_precision_and_the_process_its_own_type() -> None:
    usual = torch.get_default_dtype()
    for text in ("torch.ones(3) * 0.1", "torch.arange(3) * 0.1", "torch.arange(3) / 3", "torch.where(x > 0, 0.1, 0.2)", "torch.tensor([0.1, 0.2])",
                 "torch.linspace(0, 1, 4)", "torch.tensor(0.1) * torch.arange(2)", "torch.arange(3).float() * 0.1", "torch.hann_window(4)", "(x > 0).double() * 0.1"):  # fmt: skip
        found = run_reference(text, {"x": leaf(X)}).output
        assert found.dtype is torch.float64, text
    assert_same(run_reference("torch.ones(3) * 0.1", {}).output, torch.full((3,), 0.1, dtype=torch.float64))
    assert torch.get_default_dtype() is usual
    assert run_reference("x.half() * 0.1", {"x": leaf(X)}).kept == ("half",)


def test_numpys_texts_run_on_numpys_arrays() -> None:
    x, a = np.array(X), np.array(A)
    for text in (
        "np.dot(x, a.T)",
        "np.linalg.norm(x)",
        "np.std(x)",
        "np.cumsum(x)",
        "x.sum(axis=0)",
        "np.einsum('ij,ij->i', x, a)",
        "numpy.maximum(x, a)",
    ):
        expected = eval(text, {"np": np, "numpy": np, "x": x, "a": a})  # noqa: S307 -- the tests' own texts
        assert_same(expected, run_reference(text, {"x": x, "a": a}).output, what=text)


HOSTILE = (
    "__import__('os').system('touch PWNED')", "x.__class__", "x.__class__.__mro__", "torch.load('PWNED')", "torch.save(x, 'PWNED')", "np.save('PWNED', x)",
    "np.fromfile('PWNED')", "x.tofile('PWNED')", "np.ndarray.tofile(x, 'PWNED')", "torch.Tensor.numpy(x).tofile('PWNED')", "open('PWNED', 'w')", "eval('1')", "exec('1')",
    "getattr(x, 'sum')()", "torch.os.system('true')", "torch.sys.exit()", "torch.utils.cpp_extension.load('a')", "torch.hub.load('a', 'b')", "torch.ops.aten.add(x, x)",
    "torch._C._abort()", "torch.jit.script(x)", "torch.compile(x)", "torch.classes.load_library('a')", "torch.from_file('PWNED', size=1)", "torch.frombuffer(b'ab')",
    "np.lib.npyio.load('PWNED')", "np.linalg.test()", "np.f2py", "np.ctypeslib.load_library('a', 'b')", "import os; os.remove('PWNED')", "from os import system; system('true')",
    "import subprocess", "from torch import load; load('PWNED')", "from torch._C import _abort", "from numpy import load", "from . import x", "from torch import *",
    "lambda: x", "def f(*t):\n    return x\nf()", "@print\ndef f():\n    return x\nf()", "def f():\n    global y\n    y = x\nf()\ny", "def f():\n    yield x\nf()", "def f():\n    return f()\nf()",
    "def f():\n    y = y\n    return y\ny = x\nf()", "f = lambda t: t\nf.around", "(lambda: 1).__globals__", "torch.vmap(lambda t: t)(x)", "sorted([x], key=lambda t: 1)", "def f(t): return t\nf(x, x)", "x in [x]", "{}.update", "d = {}; d[x] = x; d[x]",
    "while True:\n    pass", "d = {'p': x}\nwhile 1:\n    d = {'p': d}", "try:\n    raise ValueError\nexcept ValueError:\n    y = x\ny", "y = x * 2\nfor k in range(2):\n    y.sum().backward()", "class A:\n    pass", "while True:\n    x", "async def f():\n    pass", "global x", "assert x", "assert 0\nx",
    "raise ValueError", "with open('PWNED', 'w') as f:\n    x", "with torch.cuda.stream(None):\n    x", "x.register_hook(print)", "x.apply_(abs)", "x.map_(x, max)", "x.set_(x)",
    "x.storage()", "x.untyped_storage()", "x.resize_(10)", "x.share_memory_()", "x.data_ptr()", "x.grad_fn", "x.backward.__func__", "x.share_memory_", "torch.set_default_dtype(torch.float32)",
    "torch.set_num_threads(1)", "torch.use_deterministic_algorithms(True)", "torch.autograd.Function", "torch.autograd.grad(x, x)", "torch.multiprocessing", "torch.set_grad_enabled(False)",
    "np.apply_along_axis(max, 0, x)", "np.vectorize(max)(x)", "np.pad(x, 1, mode=max)", "sorted(x, key=max)", "print.__self__", "print(x.__dict__)", "f'{x.__class__}'.x", "'{0.__class__}'.format(x)",
    "x.sum.__func__", "[].__class__", "().__class__.__bases__[0].__subclasses__()", "{}.__class__", "vars()", "globals()", "dir(x)", "input()", "breakpoint()", "exit()", "x.numpy().tofile('PWNED')",
    "out[i] = x[i]", "ij,jk->ik", "out = Σ_j x[j]", "x.__setattr__('a', 1)", "x.requires_grad_.__self__", "nn.Linear(3, 3)(x)", "nn.Module()", "nn.Sequential(print)(x)", "nn.init.normal_(x)",
    "torch.normal(0., 1., (2,))", "x.normal_()", "x.uniform_()", "x.random_()", "x.bernoulli_()", "torch.bernoulli(x)", "torch.multinomial(x, 1)", "b'x'", "x if x else", "x = ", "((((",
)  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_runs_but_what_is_on_the_list(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    state, usual = torch.get_rng_state(), torch.get_default_dtype()
    with pytest.raises((TextRejected, UnsupportedText)):
        run_reference(text, {"x": leaf(X), "a": leaf(A)})
    assert not [*tmp_path.iterdir()]
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_default_dtype() is usual
    assert torch.is_grad_enabled()


ENDLESS = (
    "torch.combinations(torch.arange(1000), 4)", "torch.arange(1e9)", "torch.arange(0., 1., 1e-10)", "torch.tensor([[0]*10**5]*10**5)", "[0]*10**9", "[[[0]*1000]*1000]*1000", "x.repeat(10**9)",
    "x.repeat(1000, 1000, 1000)", "x[0].expand(10**12, 3).sum()", "torch.zeros(10**6, 10**6)", "torch.zeros([10**10])", "torch.ones(10**5, 10**5) @ torch.ones(10**5, 10**5)", "torch.eye(10**6)", "torch.eye(20_000)",
    "torch.linspace(0, 1, 10**10)", "10**10**10", "2**(2**20) * x", "9**9**9**9", "1 << 10**10", "'a'*10**10", "range(10**12)", "for k in range(10**9):\n    x",
    "y = x\nfor k in range(10**4):\n    y = y + 1\n    for j in range(10**4):\n        y = y + 1", "[k for k in range(10**9)]", "[[j for j in range(10**4)] for k in range(10**4)]", "sum(range(10**12)) * x",
    "list(range(10**10))", "F.one_hot(torch.tensor([10**9]))", "torch.repeat_interleave(x, 10**10)", "torch.repeat_interleave(x, torch.tensor([10**10, 1]), 0)", "torch.bincount(torch.tensor([10**11]))",
    "F.pad(x, (10**9, 10**9))", "F.interpolate(x[None, None], scale_factor=1e6)", "torch.kron(torch.ones(5000, 5000), torch.ones(100, 100))", "torch.cartesian_prod(*[torch.arange(100)]*6)",
    "torch.meshgrid(*[torch.arange(200)]*5)[0] * 1.0", "torch.block_diag(*[torch.ones(1000, 1000)]*500)", "torch.vander(torch.ones(10**5), 10**6)", "torch.diag(torch.ones(10**6))", "torch.outer(torch.ones(10**6), torch.ones(10**6))",
    "torch.cdist(torch.ones(10**5, 10), torch.ones(10**5, 10))", "F.conv1d(torch.ones(1, 1, 10**7), torch.ones(1, 1, 5*10**6))", "F.avg_pool1d(torch.ones(1, 1, 10**7), 5*10**6, 1)", "torch.linalg.svd(torch.ones(6000, 6000))",
    "torch.einsum('a,b,c,d->abcd', *[torch.ones(300)]*4)", "y = [x]\nfor k in range(40):\n    y = y + y\nsum(y)", "y = torch.ones(1000, 1000)\nfor k in range(5000):\n    y = y * 1.0", "x.view(1, 2, 3).expand(10**10, 2, 3)",
    "y = [0]\nfor k in range(60):\n    y = [y, y]\ntorch.tensor(y)", "(" * 500 + "x" + ")" * 500, "-" * 5000 + "x", "x" + "+x" * 8000, "np.zeros(10**10)", "np.ones((10**5, 10**5))", "np.arange(1e10)", "np.repeat(x.detach().numpy(), 10**10)",
    "np.kron(np.ones(10**5), np.ones(10**5))", "pow(3, 10**9)", "pow(3, 10**9, 7)", "1e308 ** 9", "torch.tril_indices(10**5, 10**5)", "torch.hann_window(10**11)", "torch.full((10**4, 10**4, 10), 1.)", "max(range(10**11))",
)  # fmt: skip


@pytest.mark.parametrize("text", ENDLESS)
def test_what_a_text_costs_is_bounded_before_it_starts(text: str) -> None:
    started = perf_counter()
    with pytest.raises((TextRejected, UnsupportedText)):
        run_reference(text, {"x": leaf(X)})
    assert perf_counter() - started < 20  # a hundred times what it takes; without a bound it does not end


def test_threads_do_not_disturb_each_other() -> None:
    """The process's usual type, and whether gradients are recorded, are what they were, in every thread at every time."""
    usual, seen, stop = torch.get_default_dtype(), set[Any](), threading.Event()

    def watch() -> None:
        while not stop.is_set():
            seen.add((torch.get_default_dtype(), torch.is_grad_enabled()))

    found: list[ReferenceResult] = []
    watcher = threading.Thread(target=watch)
    runners = [
        threading.Thread(
            target=lambda: found.append(
                run_reference("with torch.no_grad():\n    y = torch.ones(2, 3) * 0.1\nx * y", {"x": leaf(X)})
            )
        )
        for _ in range(8)
    ]
    watcher.start()
    for thread in runners:
        thread.start()
    for thread in runners:
        thread.join()
    stop.set()
    watcher.join()
    assert len(found) == 8
    assert seen == {(usual, True)}
    assert all(torch.equal(one.output, found[0].output) for one in found)
