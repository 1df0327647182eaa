"""Own equations as input: what a text states is differentiated, shown and proven like the table's operations."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import symgrad
from symgrad.errors import ShapeError, SymgradError
from symgrad.ops import equation_functions
from symgrad.render import write_derivation as written_derived
from symgrad.testing import assert_backward
from tests.compare import assert_same
from tests.nights import numbers


def correlate(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.stack([(x[i : i + len(w)] * w).sum() for i in range(len(x) - len(w) + 1)])


TWINS = [
    ("out[i] = Σ_j x[i+j]·w[j]", {"x": (6,), "w": (3,)}, correlate),
    ("out[i,k] = sum_j x[i,j]*a[j,k]", {"x": (2, 3), "a": (3, 4)}, lambda x, a: x @ a),
    ("out[i] = exp(x[i]) / Σ_j exp(x[j])", {"x": (4,)}, lambda x: x.softmax(0)),
    ("out[b,i] = x[b,i] / √(Σ_k x[b,k]²/n + eps) where n = size(x, 1)", {"x": (2, 3), "eps": ()},
     lambda x, eps: x / ((x**2).mean(1, keepdim=True) + eps).sqrt()),
    ("out[…,k] = Σ_j x[…,j]·w[k,j] + b[k]", {"x": (2, 5, 3), "w": (4, 3), "b": (4,)}, torch.nn.functional.linear),
    ("out[i] = Σ_j [j ≤ i]·x[j]", {"x": (5,)}, lambda x: x.cumsum(0)),
    ("out[i] = Π_j x[i,j]", {"x": (3, 4)}, lambda x: x.prod(1)),
    ("out[t] = Σ_s [s ≤ t]·x[t−s]·w[s]", {"x": (5,), "w": (3,)},
     lambda x, w: torch.stack([sum(x[t - s] * w[s] for s in range(min(t + 1, 3))) for t in range(5)])),
    ("out[i<2·size(x, 0)] = x[⌊i/2⌋]", {"x": (3,)}, lambda x: x.repeat_interleave(2)),
    ("out[i] = x[(i + d) mod size(x, 0)]·x[i] where d = 1", {"x": (4,)}, lambda x: x.roll(-1) * x),
    ("h = x @ w; out[i] = Σ_j h[i,j]²", {"x": (2, 3), "w": (3, 2)}, lambda x, w: ((x @ w) ** 2).sum(1)),
    ("h[i] = tanh(x[i]); out = sum_i h[i]^2 + sum(x)", {"x": (4,)}, None),
    ("h[i] = tanh(x[i]) + b; h.softmax(0)", {"x": (4,), "b": ()}, lambda x, b: (x.tanh() + b).softmax(0)),
    ("out[i] = gelu(x[i])·σ(y[i])", {"x": (4,), "y": (4,)}, lambda x, y: torch.nn.functional.gelu(x) * y.sigmoid()),
    ("out[i] = max_j x[i,j]·w[j]", {"x": (3, 4), "w": (4,)}, lambda x, w: (x * w).amax(1)),
    ("out = (Σ_i (y[i] + y[i + 1]))·dx/2", {"y": (5,), "dx": ()}, lambda y, dx: torch.trapezoid(y) * dx),
]  # fmt: skip


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("text", "shapes", "twin"), [t for t in TWINS if t[2]], ids=[t[0] for t in TWINS if t[2]])
def test_an_equation_is_what_torch_computes(text: str, shapes: dict[str, tuple[int, ...]], twin: object) -> None:
    generator = np.random.default_rng(7)
    values = {name: generator.uniform(0.3, 1.5, size=shape) for name, shape in shapes.items()}
    leaves = {name: torch.tensor(value, requires_grad=True) for name, value in values.items()}
    out = twin(*leaves.values())
    seed = generator.integers(-3, 4, size=tuple(out.shape))
    out.backward(torch.tensor(seed, dtype=torch.float64))
    found = symgrad.explain(text, seed=seed, **values)
    assert found.passed, found.to_text()
    assert_same(out, found.output, what=text)
    for name, leaf in leaves.items():
        assert_same(leaf.grad, found.gradients[name].value, what=f"{text} by {name}")


def by_loops(text: str, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    """``out[i] = Σ_j f(x[a·i + b·j + c])·w[j]`` by plain loops; ``text`` holds a, b, c."""
    a, b, c = map(int, text.split())
    count = (len(x) - 1 - c - b * (len(w) - 1)) // a + 1
    return np.array([sum(np.tanh(x[a * i + b * j + c]) * w[j] for j in range(len(w))) for i in range(count)])


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(2))
@settings(max_examples=6)
@given(a=st.integers(1, 3), b=st.integers(1, 2), c=st.integers(0, 2), n=st.integers(1, 3), more=st.integers(0, 4))
def test_windows_of_any_stride_run_as_far_as_they_stay_inside(
    part: int, a: int, b: int, c: int, n: int, more: int
) -> None:
    x, w = np.linspace(-1, 1, c + b * (n - 1) + 1 + more), np.linspace(0.5, 1.5, n)
    found = symgrad.explain(f"out[i] = sum_j tanh(x[{a}*i + {b}*j + {c}])*w[j]", x=x, w=w)
    assert found.passed, found.to_text()
    assert_same(by_loops(f"{a} {b} {c}", x, w), found.output, what=f"{a}, {b}, {c}")


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("out[i] = max_j x[i,j]", lambda x: x.amax(1)),
        ("out[j] = min_i x[i,j]", lambda x: x.amin(0)),
        ("out = max_{i,j} |x[i,j]|", lambda x: x.abs().amax()),
        ("out[i,j] = exp(x[i,j] − max_k x[i,k]) / Σ_l exp(x[i,l] − max_k x[i,k])", lambda x: x.softmax(1)),
    ],
)
def test_the_largest_shares_at_a_tie_as_torch_has_it(text: str, twin: object) -> None:
    x = torch.tensor([[1.0, 2.0, 2.0], [-3.0, -3.0, -3.0]], dtype=torch.float64, requires_grad=True)
    out = twin(x)
    seed = torch.arange(2, 2 + out.numel(), dtype=torch.float64).reshape(out.shape)
    out.backward(seed)
    found = symgrad.explain(text, x=x.detach().numpy().astype(float), seed=seed.numpy())
    assert found.passed, found.to_text()
    assert_same(out, found.output, what=text)
    assert_same(x.grad, found.gradients["x"].value, what=text)


TERMS = st.sampled_from(["x[i]", "y[i]", "x[i]·y[i]", "exp(x[i])", "|x[i]|", "x[i]²", "[x[i] > y[i]]", "Σ_j x[j]·y[j]",
                         "Σ_k [k ≤ i]·y[k]", "x[size(x, 0) − 1 − i]", "√(x[i]² + 1)", "mean_j y[j]", "max_j x[j]·y[j]", "2", "i",
                         "c"])  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize("part", range(2))
@settings(max_examples=20)
@given(
    parts=st.lists(TERMS, min_size=1, max_size=4),
    signs=st.lists(st.sampled_from([" + ", " − ", "·", " / "]), min_size=3, max_size=3),
)
def test_random_equations_are_proven(part: int, parts: list[str], signs: list[str]) -> None:
    text = "out[i] = " + "".join(f"{sign}({part})" for sign, part in zip(["x[i]·", *signs], parts, strict=False))
    values = {"x": np.array([1.5, -0.5, 2.0]), "y": np.array([0.7, 1.2, -0.4]), "c": np.array(1.3)}
    used = {name: value for name, value in values.items() if f"{name}[" in text or (name == "c" and "(c)" in text)}
    try:
        found = symgrad.explain(text, **used)
    except SymgradError as error:
        assert "divides by zero" in error.problem or "(i)" in text, text
        return
    assert found.passed, f"{text}\n{found.to_text()}"


@pytest.mark.parametrize("right", ["Σ_i (x[i] − x[i])", "Σ_i 0·x[i]", "max_j (x[j] − x[j])", "Σ_j (2 + x[j] − x[j])"])
@pytest.mark.parametrize("left", ["out", "out[k<2]"])
def test_what_comes_to_a_constant_is_proven_like_any_equation(left: str, right: str) -> None:
    found = symgrad.explain(f"{left} = {right}", x=[1.5, -0.5, 2.0])
    assert found.passed, found.to_text()
    assert_same(found.gradients["x"].value, np.zeros(3), what=right)


def test_the_page_says_how_far_a_letter_runs_and_who_computed() -> None:
    text = symgrad.explain("out[i] = sum_j x[i+j]*w[j]", x=[1, 2, 3, 4, 5], w=[1, 0, -1]).to_text()
    assert "out[i] = sum_j x[i+j]*w[j]" in text.splitlines()[0]
    assert "out[i] = Σ_j x[i + j]·w[j]" in text
    assert "i runs over 3 values, as far as x[i + j] stays in range" in " ".join(text.split())
    assert "torch evaluates the equation itself" in " ".join(text.split())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("out[r<2] = sum_i x[2*i+r]", lambda x, w: x[:6].reshape(3, 2).sum(0)),
        ("out = sum_{i,r<2} x[2*i+r]^2", lambda x, w: (x[:6] ** 2).sum()),
        ("out = sum_{i,r} x[2*i+r]*w[r]", lambda x, w: (x.unfold(0, 3, 2) @ w).sum()),
    ],
)
def test_a_sum_runs_on_from_letters_that_are_known(text: str, twin: Any) -> None:
    x, w = torch.arange(1.0, 8.0).double().requires_grad_(), torch.tensor([1.0, 0, 2]).double()
    out = twin(x, w)
    out.sum().backward()
    given = {"w": w.numpy()} if "w[" in text else {}
    found = symgrad.explain(text, x=x.detach().numpy(), **given)
    assert found.passed, found.to_text()
    assert_same(out, found.output, what=text)
    assert_same(x.grad, found.gradients["x"].value, what=text)


NUMBERS_IN_CONDITIONS = [
    ("out[i] = [i < n]·x[i]", lambda x, w, n: [x[i] * (i < n) for i in range(5)]),
    ("out[i] = Σ_{j<2} [i + j < n]·x[i + j]",
     lambda x, w, n: [sum(x[i + j] * (i + j < n) for j in range(2)) for i in range(4)]),
    ("out[i] = Σ_j [0 ≤ i + j < n]·x[i]·w[j]",
     lambda x, w, n: [x[i] * sum(w[j] * (i + j < n) for j in range(3)) for i in range(5)]),
    ("out[i] = Σ_j [j < n]·x[i]·w[j]", lambda x, w, n: [x[i] * sum(w[j] * (j < n) for j in range(3)) for i in range(5)]),
    ("out[i] = Σ_j [0 ≤ i − j < n]·x[i]·w[j]",
     lambda x, w, n: [x[i] * sum(w[j] * (0 <= i - j < n) for j in range(3)) for i in range(5)]),
]  # fmt: skip


@pytest.mark.one_in(3)
@pytest.mark.parametrize(("text", "twin"), NUMBERS_IN_CONDITIONS, ids=[t for t, _ in NUMBERS_IN_CONDITIONS])
@pytest.mark.parametrize("n", [2.5, 3.0, -1.0, 9.0])
def test_a_number_in_a_condition_is_no_size(text: str, twin: Any, n: float) -> None:
    x, w = np.array([1.5, -2.0, 0.5, 3.0, -1.0]), np.array([0.7, -1.1, 2.0])
    given = {"x": x, "n": n} | ({"w": w} if "w" in text else {})
    found = symgrad.explain(text, **given)
    assert found.passed, found.to_text()
    assert_same(np.array(twin(x, w, n)), found.output, what=text)


def test_an_entry_that_a_number_may_let_outside_is_refused() -> None:
    with pytest.raises(SymgradError, match=r"x\[i\] reads 1 after the end"):
        symgrad.explain("out[i<5] = [i + 1 < n]·x[i]", x=np.ones(4), n=5)


def test_a_whole_number_in_an_index_is_a_number() -> None:
    found = symgrad.explain("out[i] = Σ_r x[s*i+r]*w[r]", s=2, x=np.arange(9), w=[1, 2, 3])
    assert found.output.shape == (4,)
    assert "s is 2" in found.to_text()
    with pytest.raises(SymgradError, match="is not an integer"):
        symgrad.explain("out[i] = Σ_r x[s*i+r]*w[r]", s=2.5, x=np.arange(9), w=[1, 2, 3])


def test_nothing_flows_to_what_is_read_inside_an_index() -> None:
    found = symgrad.explain("out[i] = x[n[i]]²", x=[1.0, 2.0, 3.0], n=[0, 1, 1], seed=[1, 1, 1])
    assert found.passed
    assert found.gradients["x"].value.tolist() == [2, 8, 0]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "n", "read"),
    [
        ("out[j] = x[n[j]]", [0, 3], "3"),
        ("out[j] = x[n[j]]", [0, -1], "-1"),
        ("out[j] = x[n[j]]", [0, 1.5], "1.5"),
        ("out[j] = x[n[j] + 1]", [0, 2], "3"),
        ("out[j] = [n[j] ≥ 0]·x[n[j]]", [-1, 4], "4"),
        ("out[j] = x[n[j]]", [0, 2], ""),
        ("out[j] = [0 ≤ n[j] < size(x, 0)]·x[n[j]]", [-1, 4], ""),
        ("out = Σ_j (1 − [n[j] < 0])·x[n[j]]", [-1, 2], ""),
        ("out[i<1] = x[n[i]]", [0, 9], ""),
        ("out[j] = x[n[j] mod size(x, 0)]", [-1, 4], ""),
    ],
)
def test_a_position_that_is_read_has_to_be_there(text: str, n: list[float], read: str) -> None:
    """Beside a condition that does not hold nothing is read."""
    try:
        found = symgrad.explain(text, x=[1.0, 2.0, 3.0], n=n)
    except SymgradError as error:
        assert error.found == (f"the position {read} on an axis with 3 entries",)
    else:
        assert not read
        assert found.passed
        assert "another value" not in found.to_text()


def test_what_is_read_at_positions_has_the_form_of_pythons_brackets() -> None:
    given: dict[str, Any] = {"x": [1.0, 2.0, 3.0], "n": [0, 2, 2, 1]}
    forms = [symgrad.explain(text, **given).gradients["x"].closed_form for text in ("out[j] = x[n[j]]", "x[n]")]
    assert forms == ["zeros_like(x).index_add(0, n, v)"] * 2


def test_a_tensor_without_indices_is_told_how_an_entry_is_written() -> None:
    with pytest.raises(SymgradError, match="reads x with 0 indices, and it has 1") as refused:
        symgrad.explain("out = √x", x=[1.0, 2.0])
    assert refused.value.hints == ("an entry is x[i], and the left says for which i",)


def test_every_writer_and_the_second_derivative_take_an_equation() -> None:
    found = symgrad.explain("out = Σ_i (x[i]²·w[i] + x[i]·c)", x=[1.0, 2.0], w=[3.0, 4.0], c=2.0, order=2)
    assert found.passed
    assert "out = Σ_i" in found.to_markdown()
    assert r"\sum_{j} x_{j}" in found.to_latex()
    assert json.loads(found.to_json())["expression"].startswith("out = Σ_i")
    _, formulas = symgrad.derive("out[i] = Σ_j x[i+j]·w[j]")
    assert [formula.name for formula in formulas] == ["x", "w"]


def test_einsums_subscripts_are_short_for_an_equation() -> None:
    found = symgrad.explain("ij,jk->ik", seed=[[1, 2, 3, 4], [5, 6, 7, 8]])
    assert found.gradients["x"].closed_form == "v @ a.T"
    assert found.gradients["x"].value.tolist() == [[10, 10, 10], [26, 26, 26]]
    for text in ("i,j->ij", "ii->i", "ij->", "bij,bjk->bik"):
        assert symgrad.explain(text).passed, text


@pytest.mark.parametrize(
    ("text", "meant"), [("ij,jk", "ij,jk->ik"), ("i, i", "i, i->"), ("x,y", None), ("loss,total", None)]
)
def test_subscripts_without_an_arrow_are_told_to_have_one(text: str, meant: str | None) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text)
    asked = [hint.partition("arrow: ")[2] for hint in caught.value.hints if "arrow" in hint]
    assert asked == ([] if meant is None else [meant])
    assert meant is None or symgrad.explain(meant).passed


def test_a_candidate_is_held_against_an_equation() -> None:
    x, w = torch.randn(6, dtype=torch.float64), torch.randn(3, dtype=torch.float64)
    assert_backward(correlate, "out[i] = sum_j x[i+j]*w[j]", x=x, w=w)

    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return correlate(x, w)

        @staticmethod
        def backward(ctx, v):
            x, w = ctx.saved_tensors
            return torch.zeros_like(x), torch.zeros_like(w)

    with pytest.raises(AssertionError):
        assert_backward(Wrong.apply, "out[i] = sum_j x[i+j]*w[j]", x=x, w=w)


@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("out[i] = pi*x[i]^2 + e*x[i]", lambda x: np.pi * x**2 + np.e * x),
        ("out[i] = π·x[i] + e^x[i]", lambda x: np.pi * x + x.exp()),
        ("out[t<4] = Σ_n x[n]·cos(2·pi·n·t/size(x, 0))", lambda x: torch.fft.fft(x, 4).real),
        ("out[e] = x[e] + Σ_e2 x[e2]", lambda x: x + x.sum()),
        ("h = x*x; out[i] = d·h[i] where d = e/pi", lambda x: x**2 * np.e / np.pi),
    ],
)
def test_pi_and_e_are_the_numbers_that_a_page_prints(text: str, twin: Any) -> None:
    x = torch.tensor([0.5, -1.0, 2.0, 1.5], dtype=torch.float64, requires_grad=True)
    out = twin(x)
    seed = torch.arange(1.0, 5.0, dtype=torch.float64)
    out.backward(seed)
    found = symgrad.explain(text, x=x.detach().numpy(), seed=seed.numpy())
    assert list(found.gradients) == ["x"]
    assert found.passed, found.to_text()
    assert_same(out, found.output, what=text)
    assert_same(x.grad, found.gradients["x"].value, what=text)


@pytest.mark.parametrize("text", ["ij,jk->ik", "i j, j k -> i k", "ij,jk→ik", " ij , jk->i k "])
def test_subscripts_are_read_as_einsum_reads_them(text: str) -> None:
    assert symgrad.explain(text, check=False).gradients["x"].closed_form == "v @ a.T"


@pytest.mark.parametrize(
    ("subscripts", "where"), [("ij,jk->im", "im"), ("ij,jk->iik", "iik"), ("i1,i2->i", "i1,i2->i")]
)
def test_subscripts_that_mean_nothing_have_their_place(subscripts: str, where: str) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(subscripts)
    assert caught.value.excerpt is not None
    assert subscripts[slice(*caught.value.span)] == where


def test_python_texts_are_still_python() -> None:
    for text in ("x[0]", "h = x[0]; h * 2", "sum(x)", "x.sum()", "where(x > 0, x, 0)", "h = x * 1; h[0] = 3"):
        assert symgrad.explain(text, check=False).output is not None


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "text",
    [
        "out[i] = y[3*i] / tanh(a[i,i + i,i + 2])",
        "out = sum_j (x[j + j]*[j = 2]*y[j,j + j,j])",
        "out[i] = exp(relu([i != 1]*a[i,i,i]*y[2*i])) - a[2*i,i,i]*b[i]",
    ],
)
def test_sizes_that_nobody_said_are_found_also_where_they_are_rounded(text: str) -> None:
    found = symgrad.explain(text)
    assert found.passed
    assert all(tensor.value.size for tensor in found.inputs)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("out[i] = Σ_j x[i+j]·w[j]", (2,)),
        ("out[i,j] = Σ_{r<3,s<3} x[i+r,j+s]·w[r,s]", (2, 1)),
        ("out[i] = x[i+5]", (2,)),
        ("h = x[3:]; out[i] = h[i+2]", (2,)),
        ("out[i] = Σ_j x[2·i+j]·w[j]", (2,)),
        ("out[i<2] = Σ_j x[j,2·i + j]", (2,)),
        ("out[i<2] = (Π_j √(1 + (x[j,2·i + j]·w[j])²))", (2,)),
        ("out = Σ_{i<2} Σ_j x[2·i + j,j]", ()),
    ],
)
def test_sizes_that_nobody_said_leave_no_tensor_empty(text: str, shape: tuple[int, ...]) -> None:
    """The first equation of the documentation, with nothing given, was about an output without entries."""
    assert symgrad.explain(text, check=False).output.shape == shape
    assert symgrad.explain("out[i] = x[i+5]", shapes={"x": (5,)}, check=False).output.shape == (0,)  # as it was said


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("text", "shapes", "subscripts"),
    [
        ("out[…] = Σ_i x[i,…]", {"x": (2, 3, 4)}, "i...->..."),
        ("out[…] = Σ_i x[i,…]·a[i,…]", {"x": (2, 3), "a": (2, 3)}, "i...,i...->..."),
        ("out[…] = Σ_i x[i,…]·a[…,i]", {"x": (2, 3), "a": (3, 2)}, "i...,...i->..."),
        ("out[j,…,i] = x[i,…,j]", {"x": (2, 3, 4)}, "i...j->j...i"),
        ("out[…,i,k] = Σ_j x[…,i,j]·a[…,j,k]", {"x": (5, 2, 3), "a": (3, 4)}, "...ij,...jk->...ik"),
    ],
)
def test_the_axes_of_dots_are_those_at_their_place(text: str, shapes: dict[str, Any], subscripts: str) -> None:
    """``x[i,…]`` begins with i: the others are the last axes, not the first. The shorthand says the same."""
    generator = np.random.default_rng(0)
    values = {name: generator.integers(-3, 4, shape) for name, shape in shapes.items()}
    expected = np.einsum(subscripts, *values.values())
    assert_same(symgrad.explain(text, **values).output, expected)
    found = symgrad.explain(subscripts, **values)
    assert_same(found.output, expected)
    assert all(gradient.passed for gradient in found.gradients.values())


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("out = sum_{i<j} x[i]*x[j]", "Σ_{i,j} [i < j]"),
        ("out[i] = sum_{j<i} x[j]", "Σ_j [j < i]"),
        ("out[i] = prod_{j≤i} x[j]", "[j ≤ i]"),
        ("out[i] = x[i] if x[i] > 0 else 0", "[x[i] > 0]"),
        ("out[i] = where(x[i]>0, x[i], 0.1*x[i])", "[x[i] > 0]"),
        ("out[i] = x[i//2]", "⌊i/2⌋"),
        ("out[i] = x[i % 3]", "⌊i/3⌋"),
        ("...ij->ij", ""),
        ("out[i] = x[i,…] + x[…,i]", ""),
        ("out[i] = sum_j A[i,j] x[j]", "write the product sign"),
        ("out[i] = x[i]^2 [x[i] > 0]", "write the product sign"),
        ("out[i] = (x[i] > 0)*x[i]", "[x[i] > 0]"),
        ("out[i] = [x[i] > 0 or y[i] > 0]*x[i]", "max([x[i] > 0], [y[i] > 0])"),
        ("out[i] = not x[i]", "1 − [x[i] > 0]"),
        ("out[i] = x[i][j]", "x[i,j]"),
        ("out[i] = tanh x[i]", "tanh(x[i])"),
        ("out[i] = torch.exp(x[i])", "exp(x[i])"),
        ("out[i] = a[i] @ x", "Σ_j a[i,j]·x[j]"),
        ("out[i] = x[1:]", "h = x[1:]"),
        ("out[i] = \\sum_j x[i,j]", "sum_j"),
        ("out[i] = sum_{j!=i} x[j]", "Σ_j [j ≠ i]"),
        ("out = sum_ij x[i,j]", "Σ_{i,j}"),
        ("out = sum_i,j x[i,j]", "Σ_{i,…}"),
        ("out = sum x[i]", "Σ_{i}"),
        ("out[i] = softmax(x[i])", "h = softmax(x)"),
        ("out[i] = mean(x[i])", "mean_j x[j]"),
        ("i1,i2->i", "ij,jk->ik"),
    ],
)
def test_a_refusal_says_how_it_is_written_here(text: str, hint: str) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text)
    assert not hint or any(hint in each for each in caught.value.hints)


WITH_OPTIONS = [
    ("leaky_relu(x[i], 0.3)", lambda x: torch.nn.functional.leaky_relu(x, 0.3)),
    ("elu(x[i], 2)", lambda x: torch.nn.functional.elu(x, 2)),
    ("hardtanh(x[i], -1/2, 2)", lambda x: torch.nn.functional.hardtanh(x, -0.5, 2)),
    ("clamp(x[i], 0, 1)", lambda x: x.clamp(0, 1)),
    ("clamp(x[i], -1/2)", lambda x: x.clamp(-0.5)),
    ("threshold(x[i], 1/2, 7)", lambda x: torch.nn.functional.threshold(x, 0.5, 7)),
    ("addcmul(x[i], x[i], x[i], 3)", lambda x: torch.addcmul(x, x, x, value=3)),
]


@pytest.mark.parametrize(("text", "twin"), WITH_OPTIONS, ids=lambda part: part if isinstance(part, str) else "")
def test_an_option_that_is_a_number_counts(text: str, twin: Any) -> None:
    """It was read, and then left out, without a word: leaky_relu(x[i], 0.3) had the slope 0.01."""
    x = torch.tensor([-2.0, -0.25, 0.75, 3.0], dtype=torch.float64, requires_grad=True)
    result = symgrad.explain(f"out[i] = {text}", x=x.detach().numpy())
    twin(x).sum().backward()
    assert result.passed
    assert_same(result.gradients["x"].value, x.grad.numpy())


@pytest.mark.parametrize("part", numbers(range(2), range(2, 4)))
def test_every_function_takes_so_many_arguments_and_says_so(part: int) -> None:
    """With each number of them: proven, or refused in words."""
    for name, word in sorted(equation_functions().items())[part::4]:
        for count in range(1, word.most + 2):
            parts = [str(n) if n in word.numbers else f"{'xyzuw'[n]}[i]/2" for n in range(count)]
            text = f"out[i] = {name}({', '.join(parts)})"
            if not word.least <= count <= word.most:
                with pytest.raises(SymgradError):
                    symgrad.explain(text, x=[0.5, 1.5])
                continue
            try:
                assert symgrad.explain(text, x=[0.5, 1.5]).passed, text
            except SymgradError as refusal:
                assert str(refusal), text


@pytest.mark.parametrize(
    "text", ["leaky_relu(x[i], a)", "clamp(x[i], y[i])", "polygamma(x[i], x[i])", "besseli(a, x[i])"]
)
def test_what_cannot_be_differentiated_by_is_a_number_in_the_text(text: str) -> None:
    with pytest.raises(SymgradError, match="takes a number here, written in the text"):
        symgrad.explain(f"out[i] = {text}", x=[0.5, 1.5])


@pytest.mark.parametrize(
    "text", ["gamma(x[i])", "erfinv(x[i]/4)", "digamma(x[i])", "i0(x[i])", "i1e(x[i])", "copysign(y[i], x[i])"]
)
def test_torch_runs_every_function_that_it_has(text: str) -> None:
    """In its own equation, below 0 as above."""
    result = symgrad.explain(f"out[i] = {text}", x=[-2.5, -0.5, 1.5])
    assert result.passed
    assert result.gradients["x"].checks


GUARDED = [
    ("out[i,k] = [i ≠ k]/(x[i] − x[k])", lambda i, k, x: 1 / (x[i] - x[k]), "each"),
    ("out[i] = Σ_k [i ≠ k]·x[i]/(x[i] − x[k])", lambda i, k, x: x[i] / (x[i] - x[k]), "sum"),
    ("out[i] = Σ_k (1 − δ_ik)/(x[i] − x[k])", lambda i, k, x: 1 / (x[i] - x[k]), "sum"),
    ("out[i] = Σ_k [x[i] ≠ x[k]]·√|x[i] − x[k]|", lambda i, k, x: (x[i] - x[k]).abs().sqrt(), "sum"),
    ("out[i] = Π_k ([k = i] + [k ≠ i]·(5 − x[k])/(x[i] − x[k]))", lambda i, k, x: (5 - x[k]) / (x[i] - x[k]), "product"),
    ("out[i] = max_k [k ≠ i]/(x[i] − x[k])", lambda i, k, x: 1 / (x[i] - x[k]), "max"),
]  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize(("text", "term", "how"), GUARDED, ids=[text for text, *_ in GUARDED])
def test_a_condition_that_does_not_hold_leaves_its_term_out_whatever_it_is(text: str, term: Any, how: str) -> None:
    """0/0 stands there: in the forward pass by a plan, in the gradient, and in torch's run of the equation."""
    x = torch.tensor([1.0, 2.0, 4.0, 7.0], dtype=torch.float64, requires_grad=True)
    nothing = x.new_tensor(1.0 if how == "product" else 0.0)
    rows = torch.stack([torch.stack([term(i, k, x) if i != k else nothing for k in range(4)]) for i in range(4)])
    out = {
        "each": lambda: rows,
        "sum": lambda: rows.sum(1),
        "product": lambda: rows.prod(1),
        "max": lambda: rows.amax(1),
    }[how]()
    seed = torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape) - 1
    out.backward(seed)
    found = symgrad.explain(text, x=x.detach().numpy(), seed=seed.numpy())
    assert found.passed, found.to_text()
    assert "nan" not in found.to_text().lower()
    assert_same(out, found.output, what=text)
    assert_same(x.grad, found.gradients["x"].value, what=text)


@pytest.mark.parametrize(
    ("text", "where", "hint"),
    [
        ("out[i] = x[i,0]*2", "x[i,0]", ""),
        ("h = x*2; out[i]  =  h[i,2]*x[i]", "h[i,2]", ""),
        ("h = x*2; out[i,r]  =  sum_j h[i + r]*x[j]", "i", "out[i<…]"),
        ("out[i] = h[i]^2; h[i] = x[i]", "h", "in front of this line"),
        ("out = x*y; y[i] = x[i]", "y", "in front of this line"),
        ("out[i] = x[i]^2 where d = x[i]", "d = x[i]", "leave the definition out"),
        ("out = argmax_j x[j]", "x", "max_j x[j]"),
        ("out[i] = sum_k x[k]^i where i = 2", "i = 2", "another name"),
        ("y = x[i]*2; out = sum_i y[i]", "i", "y[i] = …"),
        ("out[i] = relu(b)*x[0]", "i", "b[i]"),
        ("out = sum_k x[k] + k[0]", "k[0]", "another letter"),
        ("h[i] = h[i-1]*a + x[i]", "h[i-1]", "Σ_j [j ≤ i]·a^(i − j)·x[j]"),
        ("out[i] = softmax_j x[i,j]", "x", "h = softmax(x"),
    ],
)
def test_a_refusal_stands_under_what_it_is_about(text: str, where: str, hint: str) -> None:
    with pytest.raises(SymgradError) as caught:
        symgrad.explain(text, x=[1.0, 2.0, 3.0])
    assert text[slice(*caught.value.span)] == where
    assert not hint or any(hint in each for each in caught.value.hints)


WHERE_IN_A_BOUND = [
    ("out[i<n−r+1] = Σ_{k<r} x[i+k] where n = size(x, 0), r = 2", [3, 5]),
    ("out[i<2·n] = x[⌊i/2⌋] where n = size(x, 0)", [1, 1, 2, 2, 3, 3]),
    ("out[i] = x[i] mod 2", [1, 0, 1]),
]


@pytest.mark.parametrize(("text", "expected"), WHERE_IN_A_BOUND)
def test_what_where_defines_may_say_how_far_an_index_runs_and_data_have_remainders(text: str, expected: Any) -> None:
    found = symgrad.explain(text, x=[1.0, 2.0, 3.0])
    assert found.passed
    assert_same(np.array(expected), found.output, what=text)


@pytest.mark.parametrize("text", ["h = x*2; out[i] = h[i]; h = x*3; h*out", "y[i] = x[i]; x = x*2; x*y"])
def test_a_name_may_be_used_again(text: str) -> None:
    assert symgrad.explain(text, x=[1.0, 2.0, 3.0]).passed


@pytest.mark.parametrize(
    ("text", "shape", "size"),
    [
        ("out[t<4] = a[t mod 3]", (2,), 3),
        ("out[t<4] = a[(t + 1) mod 3]", (2,), 3),
        ("out[t<5] = a[⌊t/2⌋]", (2,), 3),
        ("out[t<5] = a[⌊t/2⌋ + 1]", (3,), 4),
        ("out[t<4] = a[3 - t mod 4]", (3,), 4),
        ("out[q<4] = [q ≥ 1]·a[q]", (3,), 4),
        ("out[q<4] = [q ≥ 1]·a[q − 1]", (2,), 3),
    ],
)
def test_a_remainder_or_a_condition_that_leads_outside_is_refused_and_a_size_nobody_gave_has_room(
    text: str, shape: tuple[int, ...], size: int
) -> None:
    with pytest.raises(ShapeError, match="after the end"):
        symgrad.explain(text, shapes={"a": shape}, check=False)
    assert symgrad.explain(text, check=False).inputs[0].value.shape == (size,)


def test_a_remainder_by_the_size_itself_is_always_inside() -> None:
    found = symgrad.explain("out[t<5] = a[t mod size(a, 0)]", shapes={"a": (2,)})
    assert found.passed
    assert found.gradients["a"].value.tolist() == [3, 2]


def test_a_remainder_is_the_number_itself_where_that_is_smaller() -> None:
    found = symgrad.explain("out[i] = b[i]·a[i mod 5]", shapes={"a": (4,), "b": (4,)})
    assert found.passed
    assert found.gradients["a"].value.tolist() == [1, 1, 1, 1]
    with pytest.raises(ShapeError, match="after the end"):
        symgrad.explain("out[i] = b[i]·a[i mod 5]", shapes={"a": (4,), "b": (6,)}, check=False)


def test_a_condition_that_holds_nowhere_is_no_refusal_of_torchs() -> None:
    found = symgrad.explain("out[s<4,t<1] = [t ≠ 0]·x[s]", shapes={"x": (4,)})
    assert found.passed
    assert found.gradients["x"].value.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("out[i] = sum_j x[i+j]*w[j]", "out[i] = Σ_j x[i + j]·w[j]"),
        ("ij,jk->ik", "out[i,k] = Σ_j x[i,j]·a[j,k]"),
        ("h = x @ w; out[i] = Σ_j [j ≤ i]·h[i,j]²", "out[i] = Σ_j [j ≤ i]·h[i,j]²"),
        ("x @ a", "out = x @ a"),
    ],
)
def test_a_derivation_is_headed_by_the_equation(text: str, title: str) -> None:
    assert written_derived("text", *symgrad.derive(text)).split("   ")[0].strip() == title


CHOICES = {
    "out[i] = max_j (x[j]*w[j]*x[i])": lambda x, w: (x[:, None] * x * w).amax(1),
    "out[i] = min_j (x[j]*w[j]*x[i])": lambda x, w: (x[:, None] * x * w).amin(1),
    "out[i,k] = max_j (x[j]*a[k,j]*a[k,i])": lambda x, a: ((x * a)[:, None] * a[:, :, None]).amax(2).T,
    "out[i] = 2*max_j (x[i]*a[i,j]*a[j,i]) + x[i]": lambda x, a: 2 * (x[:, None] * a * a.T).amax(1) + x,
    "out[i] = max_j (x[j] + w[j] + x[i] - w[i])": lambda x, w: (x[:, None] + x + w - w[:, None]).amax(1),
    "out[i] = max_j (x[j]/w[j]*(x[i] + w[j]))": lambda x, w: (x / w * (x[:, None] + w)).amax(1),
    "out[i] = max_r (x[i+r]*w[r]*x[r])": lambda x, w: (x * w * x).amax(),
    "out = max_{i,j} (x[i]*w[j]*x[j]*w[i])": lambda x, w: (x[:, None] * x * w * w[:, None]).amax(),
    "out[i] = Σ_j max_k (x[i]*w[j]*x[k]*w[k])": lambda x, w: (x[:, None, None] * w[:, None] * x * w).amax(2).sum(1),
    "out[i] = max_j h[j]*x[i]*w[i] where h[j] = x[j]*w[j]": lambda x, w: (x * w * x[:, None] * w[:, None]).amax(1),
    "out[…,i] = max_j (a[…,j]*x[i]*x[j])": lambda x, a: (a[:, None] * x[:, None] * x).amax(2),
    "out[i<2] = max_{j<3} (x[j]*x[i]*w[j]*i)": lambda x, w: (x[:3] * x[:2, None] * w[:3] * torch.arange(2.0)[:, None]).amax(1),
}  # fmt: skip


@pytest.mark.one_in(4)
@pytest.mark.parametrize("text", CHOICES)
def test_the_largest_of_a_product_is_as_large_as_itself(text: str) -> None:
    """Both sides of the comparison are multiplied in one order: the winner counted for nothing now and then."""
    for draw in range(5):
        lots = np.random.default_rng(draw)
        given = {n: lots.normal(size=(4, 4) if n == "a" else 4) for n in "xwa" if f"{n}[" in text}
        leaves = {n: torch.tensor(value, requires_grad=True) for n, value in given.items()}
        CHOICES[text](**leaves).sum().backward()
        for name, leaf in leaves.items():
            assert_same(
                leaf.grad.numpy(), symgrad.vjp(text, name, check=False, **given), what=f"{text} by {name}, {draw}"
            )


@pytest.mark.parametrize(
    ("text", "twin"),
    [
        ("out[i,j] = x[i+j]*w[j]", lambda x, w, u: x.unfold(0, 3, 1) * w),
        ("out[i,j] = x[2*i+j]*w[j]", lambda x, w, u: x.unfold(0, 3, 2) * w),
        (
            "out[i,j] = [i ≥ j]*x[i−j]*w[j]",
            lambda x, w, u: torch.stack([torch.cat((torch.zeros(j), x[: 6 - j])) * w[j] for j in range(3)], 1),
        ),
        ("out[i,j,k] = x[i+j]*w[j+k]*u[k]", lambda x, w, u: x.unfold(0, 2, 1)[:, :, None] * w.unfold(0, 2, 1) * u),
        ("out[i,j,k] = x[i+j+k]*w[j]*u[k]",
         lambda x, w, u: x.unfold(0, 4, 1).unfold(1, 2, 1) * w[:, None] * u),
    ],
)  # fmt: skip
def test_an_index_that_another_tensor_bounds_leaves_the_rest_to_the_others(text: str, twin: Any) -> None:
    """j runs over w, so i runs as far as x[i + j] stays in range: that was refused, i standing first."""
    x, w, u = (np.linspace(1, 2, n) for n in (6, 3, 2))
    given = {"x": x, "w": w, **({"u": u} if "u[" in text else {})}
    found = symgrad.explain(text, **given)
    assert found.passed, found.to_text()
    assert_same(twin(*map(torch.tensor, (x, w, u))).numpy(), found.output, what=text)


def test_a_condition_on_what_is_divided_by_stays_where_it_decides() -> None:
    assert "x.grad = v * (x > 0) / x" in written_derived("text", *symgrad.derive("out[i] = [x[i] > 0]·log(x[i])"))
