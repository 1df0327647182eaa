"""Tensors that a text makes itself, and names that stand for numbers: torch's own numbers, and no gradient."""

from __future__ import annotations

import json
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import symgrad
from symgrad.errors import SymgradError, UnsupportedError
from symgrad.language import read_program
from symgrad.language.constructors import MAKERS, METHODS, refuse_uninitialized
from tests.compare import assert_same

X = torch.tensor([[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], dtype=torch.float64)
MADE = {
    "torch.ones(2, 3)": lambda x: torch.ones(2, 3),
    "torch.zeros(x.shape) + 1": lambda x: torch.ones(2, 3),
    "torch.ones(size=(3,))": lambda x: torch.ones(3),
    "torch.full((2, 3), 0.5)": lambda x: torch.full((2, 3), 0.5),
    "torch.full([3], 1 / x.shape[0])": lambda x: torch.full([3], 0.5),
    "torch.full_like(x, fill_value=2)": lambda x: torch.full_like(x, 2),
    "torch.eye(x.size(-1))[:2]": lambda x: torch.eye(3)[:2],
    "torch.eye(2, 3, device=device)": lambda x: torch.eye(2, 3),
    "torch.arange(3)": lambda x: torch.arange(3),
    "torch.arange(1, 4, dtype=x.dtype)": lambda x: torch.arange(1, 4),
    "torch.arange(x.shape[1] + 1, device='cpu')[1:]": lambda x: torch.arange(4)[1:],
    "torch.arange(1, 0, -0.4)": lambda x: torch.arange(1, 0, -0.4, dtype=torch.float64),
    "torch.linspace(0, 1, 3)": lambda x: torch.linspace(0, 1, 3, dtype=torch.float64),
    "torch.linspace(1, 3, steps=1)": lambda x: torch.linspace(1, 3, steps=1),
    "torch.tensor([[1, 2.5, 3], [4, 5, 6]])": lambda x: torch.tensor([[1, 2.5, 3], [4, 5, 6]]),
    "torch.Tensor([1, 2, 3]) + torch.FloatTensor([[0.5], [2]]) * torch.DoubleTensor([3.0])": lambda x: torch.tensor(
        [[2.5, 3.5, 4.5], [7.0, 8.0, 9.0]]
    ),
    "torch.LongTensor([1, 2, 3]) * torch.IntTensor([2])": lambda x: torch.tensor([2, 4, 6]),
    "torch.tensor([1.7, -1.7, 2], dtype=torch.long)": lambda x: torch.tensor([1, -1, 2]),
    "torch.full((3,), 2.5, dtype=torch.int64) + torch.LongTensor([0.5, 1.5, -0.5])": lambda x: torch.tensor([2, 3, 2]),
    "torch.tensor([0.5, 0, 2], dtype=torch.bool)": lambda x: torch.tensor([True, False, True]),
    "torch.BoolTensor([True, False, True])": lambda x: torch.tensor([True, False, True]),
    "torch.tensor(2.0)": lambda x: torch.tensor(2.0),
    "torch.tensor([True, False, True])": lambda x: torch.tensor([True, False, True]),
    "torch.ones(3, dtype=torch.bool)": lambda x: torch.ones(3, dtype=torch.bool),
    "x.new_ones(3) + x.new_zeros((2, 1)) + x.new_full((3,), 4)": lambda x: torch.full((2, 3), 5),
    "x.new_tensor([1, 2, 3])": lambda x: torch.tensor([1.0, 2.0, 3.0]),
    "np.array([1, 2, 3]) + np.arange(3) + np.full((2, 3), 7)": lambda x: torch.tensor([8.0, 10.0, 12.0]),
    "torch.tril(torch.ones(3, 3))[:2]": lambda x: torch.tril(torch.ones(3, 3))[:2],
    "torch.rand(2, 3)": lambda x: torch.from_numpy(np.random.default_rng(0).random((2, 3))),
    "torch.randn_like(x)": lambda x: torch.from_numpy(np.random.default_rng(0).standard_normal((2, 3))),
    "torch.randint(2, 9, (3,))": lambda x: torch.from_numpy(np.random.default_rng(0).integers(2, 9, 3)),
    "torch.randint(9, size=(3,))": lambda x: torch.from_numpy(np.random.default_rng(0).integers(0, 9, 3)),
    "torch.randint_like(x, 9)": lambda x: torch.from_numpy(np.random.default_rng(0).integers(0, 9, (2, 3))),
    "torch.randperm(3)": lambda x: torch.from_numpy(np.random.default_rng(0).permutation(3)),
    "torch.randn(3) * torch.rand_like(x)": lambda x: torch.from_numpy(
        np.random.default_rng(0).standard_normal(3) * np.random.default_rng(1).random((2, 3))
    ),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", MADE)
def test_what_a_text_makes_are_torchs_numbers_and_nothing_flows_back_to_them(text: str) -> None:
    found = symgrad.explain(f"x * ({text})", x=X, check=False)
    assert_same((X * MADE[text](X)).numpy(), found.output)
    assert_same(torch.broadcast_to(MADE[text](X), X.shape).double().numpy(), found.gradients["x"].value)
    assert list(found.gradients) == ["x"]


INFINITE = {
    "x.masked_fill(torch.triu(torch.ones(2, 3), 1) == 1, float('-inf')).softmax(-1)":
        lambda x: x.masked_fill(torch.ones(2, 3).triu(1) == 1, -torch.inf).softmax(-1),
    "torch.where(x > 0, x, -torch.inf).logsumexp(-1)": lambda x: torch.where(x > 0, x, -torch.inf).logsumexp(-1),
    "(x + torch.full((2, 3), float('-inf')).triu(1)).softmax(-1)":
        lambda x: (x + torch.full((2, 3), -torch.inf).triu(1)).softmax(-1),
    "torch.maximum(x, torch.tensor([-torch.inf, 0, math.inf]))":
        lambda x: torch.maximum(x, torch.tensor([-torch.inf, 0, torch.inf])),
    "x.norm(float('inf')) + torch.linalg.vector_norm(x, ord=-np.inf)":
        lambda x: x.norm(torch.inf) + torch.linalg.vector_norm(x, ord=-torch.inf),
    "torch.where(x > 0, x, torch.nan)": lambda x: torch.where(x > 0, x, torch.nan),
    "F.scaled_dot_product_attention(x, x, x, attn_mask=torch.full((2, 2), -torch.inf).triu(1))":
        lambda x: torch.nn.functional.scaled_dot_product_attention(
            x, x, x, attn_mask=torch.full((2, 2), -torch.inf, dtype=x.dtype).triu(1)
        ),
}  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize("text", INFINITE)
def test_infinities_in_a_text_are_torchs(text: str) -> None:
    """A causal mask, mostly: what is not finite is data beside the tensors, so nothing of it is lost to 0·inf."""
    x = X.clone().requires_grad_()
    out = INFINITE[text](x)
    v = torch.linspace(1, 2, out.numel(), dtype=torch.float64).reshape(out.shape)
    out.backward(v)
    found = symgrad.explain(text, x=X, seed=v)
    assert_same(out, found.output)
    assert_same(x.grad, found.gradients["x"].value)


def test_every_maker_is_tried() -> None:
    known = {name for name, maker in {**MAKERS, **METHODS}.items() if maker is not refuse_uninitialized}
    same = {"asarray": "array", "as_tensor": "tensor", "rand_like": "randn_like", "ones": "zeros"}
    assert {name for name in known if not any(f"{same.get(name, name)}(" in text for text in MADE)} == set()


def test_the_page_says_what_a_constant_is_and_how_it_was_drawn() -> None:
    found = symgrad.explain("x * torch.randn(3) + torch.eye(3) + torch.eye(3)", x=[1.0, 2.0, 3.0])
    assert found.passed
    page = " ".join(found.to_text(width=400).split())
    assert "c is torch.randn(3), drawn once with NumPy's generator, seed 0, a constant" in page
    assert "c_2 is torch.eye(3), a constant: it gets no gradient." in page
    assert "c_3" not in page
    inputs = {i["name"]: i for i in json.loads(found.to_json())["inputs"]}
    assert inputs["c"]["made"] == {"code": "torch.randn(3)", "seed": 0}
    assert inputs["c_2"]["made"] == {"code": "torch.eye(3)"}
    assert "made" not in inputs["x"]


def test_a_constant_takes_the_name_it_is_given_and_no_name_of_another() -> None:
    named = symgrad.explain("mask = torch.ones(2); mask * c * torch.zeros(2)", c=[1.0, 2.0], check=False)
    assert [given.name for given in named.inputs] == ["c", "mask", "c_2"]


REFUSED = {
    "x * torch.empty(3)": "whatever was in memory",
    "x * torch.ones(3, requires_grad=True)": "has no gradient",
    "x * torch.ones(-1)": "no negative size",
    "x * torch.ones(0.5)": "takes sizes",
    "x * torch.ones(3, dtype=torch.complex64)": "not a dtype",
    "x * torch.arange(0, 1, 0)": "a step that is not 0",
    "x * torch.randint(5, 5, (3,))": "the second one larger",
    "x * torch.ones(3, colour=1)": "no argument colour",
    "x * torch.tensor([[1, 2], [3]])": "ragged",
    "x * torch.ones(10**9)": "too large",
    "x * torch.tensor(x)": "takes numbers",
    "torch.ones(3)": "no input to differentiate with respect to",
    "linspace(0, 1, x)": "differentiate with respect to: x stands for a number here, not for a tensor",
    "torch.zeros(m, x) * x": "differentiate with respect to: m and x stand for numbers here",
    "torch.randn(2) * 2": "no input to differentiate with respect to",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_makes_no_tensor_of_numbers_is_refused(text: str) -> None:
    with pytest.raises(SymgradError, match=REFUSED[text]):
        symgrad.explain(text, check=False)


NUMBERS = {
    "F.layer_norm(x, (n,)) * n": (("x", (2, 3)), {"n": 3}),
    "x.reshape(n, 2) * 2": (("x", (4,)), {"n": 2}),
    "x.view(b, t, -1).transpose(1, 2)": (("x", (6,)), {"b": 1, "t": 2}),
    "x[:n] * x[n:]": (("x", (4,)), {"n": 2}),
    "torch.ones(n) * x": (("x", (3,)), {"n": 3}),
    "softmax(x, dim=k)": (("x", (2, 3)), {"k": 1}),
    "clamp(x, a, b)": (("x", (2,)), {"a": 0, "b": 1.5}),
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("text", NUMBERS)
def test_a_name_that_stands_where_only_a_number_can_is_that_number(text: str) -> None:
    (name, shape), numbers = NUMBERS[text]
    found = symgrad.explain(text, shapes={name: shape}, **numbers)
    assert found.passed
    assert list(found.gradients) == [name]
    assert found.gradients[name].value.shape == shape
    assert f"{', '.join(f'{n} is {v}' for n, v in numbers.items())}, " in found.conventions[-1]


def test_a_size_that_nobody_gives_follows_from_the_tensors() -> None:
    reading = read_program("F.layer_norm(x, (n,), w)", shapes={"x": (2, 3)})
    assert [t.name for t in reading.program.inputs] == ["x", "w"]
    assert reading.remarks == ("n is 3, a number, not a tensor: it has no gradient",)


@pytest.fixture
def warned_always() -> Iterator[None]:
    """Torch repeats a warning: by default it says it once in a process, and not again in the next test."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    yield
    torch.set_warn_always(before)


@pytest.mark.usefixtures("warned_always")
def test_t_of_a_vector_repeats_torchs_warning() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        assert X[0].T.shape == (3,)
    found = symgrad.explain("x.T * 2", x=[1, 2, 3], check=False)
    assert found.conventions == ("x.T is that vector itself; torch warns that .T is deprecated but for matrices",)
    assert symgrad.explain("x.T * 2", x=[[1, 2, 3]], check=False).conventions == ()


def test_an_unknown_name_points_to_the_call_of_ones_own_function() -> None:
    for text in ("mylayer(x)", "self.layer(x)", "torch.mine(x)"):
        with pytest.raises(SymgradError, match="symgrad explain --call module:function"):
            symgrad.explain(text)


def test_what_a_text_makes_is_given_to_exported_code() -> None:
    with pytest.raises(UnsupportedError, match=r"and torch\.eye\(3\) where the code is called"):
        symgrad.export("x @ torch.eye(3)", shapes={"x": (2, 3)})
