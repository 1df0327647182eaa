"""`symgrad.testing` on its corpora: every fault is caught and named, each message is a golden, no right one is accused."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from symgrad import SymgradError
from symgrad.testing import BackwardReport, check_backward
from tests.candidates import Candidate, function, with_ctx
from tests.correct_backwards import CORRECT
from tests.faulty_backwards import FAULTS
from tests.kernel_backwards import RIGHT, WRONG
from tests.more_backwards import MORE_RIGHT, MORE_WRONG
from tests.unusual_backwards import UNUSUAL_RIGHT, UNUSUAL_WRONG

EVERY_WRONG = (*FAULTS, *WRONG, *MORE_WRONG, *UNUSUAL_WRONG)
EVERY_RIGHT = (*CORRECT, *RIGHT, *MORE_RIGHT, *UNUSUAL_RIGHT)

WIDEST = 92
"""pytest writes eight columns before a message, and a terminal has 100."""
GOLDENS = Path(__file__).parent / "golden" / "faulty_backwards.txt"
LINE, IN_LINE = re.compile(r"\.py:\d+\)"), re.compile(r"(?m)^((?:or )?in line) \d+ of")
FORM = re.compile(r", \w+\.grad = .*?(?=  \()")
"""The closed form beside a finding has tests of its own."""
UPDATE = "SYMGRAD_UPDATE_GOLDENS"


def named(candidates: tuple[Candidate, ...]) -> list[object]:
    """Parameters with ids."""
    return [pytest.param(c, id=c.name) for c in candidates]


def message(name: str, report: BackwardReport) -> str:
    """Everything that is found, without the batteries."""
    text = "".join(f"{finding}\n" for finding in report.findings)
    text = IN_LINE.sub(r"\1 … of", LINE.sub(".py:…)", text))
    return f"## {name}\n{FORM.sub('', text)}"


def goldens() -> dict[str, str]:
    """The messages as they were read and judged, by candidate."""
    parts = GOLDENS.read_text(encoding="utf-8").split("## ")[1:]
    return {part.partition("\n")[0]: f"## {part.rstrip()}\n" for part in parts}


RANDOM = ("random", "dropout drawn again")
"""Faults whose numbers are other ones each time."""
ROUNDED = ("linear in float32",)
"""Faults whose number of ulps is that of the machine's own matrix product."""


@pytest.mark.skipif(UPDATE not in os.environ, reason=f"writes the goldens; set {UPDATE}")
def test_goldens_are_written() -> None:
    GOLDENS.write_text(
        "\n".join(message(c.name, c.report()) for c in EVERY_WRONG if c.name not in RANDOM), encoding="utf-8"
    )


@pytest.mark.one_in(96, alone=12)
@pytest.mark.parametrize("candidate", named(EVERY_WRONG))
def test_every_fault_is_caught_and_named(candidate: Candidate) -> None:
    """Caught, named as a reader would, and in the words of the golden."""
    report = candidate.report()
    assert not report.passed
    assert report.findings[0].kind in candidate.kinds
    assert max(map(len, report.to_text().splitlines())) <= WIDEST
    if candidate.name not in RANDOM:
        shown = (message(candidate.name, report), goldens()[candidate.name])
        told, golden = (re.sub(r"[\d,]+ ulps", "… ulps", text) if candidate.name in ROUNDED else text for text in shown)
        assert told == golden


@pytest.mark.one_in(16, alone=6)
@pytest.mark.parametrize("candidate", named(EVERY_RIGHT))
def test_no_right_backward_is_accused(candidate: Candidate) -> None:
    """And something was compared."""
    report = candidate.report()
    assert report.passed, report.to_text()
    assert {b.name: b for b in report.batteries}["value"].count > 0
    assert "this is not" not in report.to_text()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize(
    ("text", "shapes"),
    [("x @ w", [(3, 4), (4, 2)]), ("F.conv1d(x, w)", [(2, 3, 5), (2, 3, 2)]), ("x.cumsum(0) - 2 * w", [(4,), (4,)])],
    ids=["product", "convolution", "sums"],
)
def test_products_of_small_whole_numbers_are_compared_for_equality(
    text: str, shapes: list[tuple[int, ...]], dtype: torch.dtype
) -> None:
    """The battery was never made once: forward values of whole numbers had become objects."""
    x, w = (torch.ones(shape, dtype=dtype) for shape in shapes)
    calls = {"x @ w": torch.matmul, "F.conv1d(x, w)": torch.conv1d}
    report = check_backward(calls.get(text, lambda x, w: x.cumsum(0) - 2 * w), text, only="whole numbers", x=x, w=w)
    assert [(b.verdict, b.count) for b in report.batteries] == [("passed", 2)]


def test_the_corpora_are_what_the_documentation_says() -> None:
    assert len(FAULTS) >= 60
    assert len(CORRECT) >= 40
    every = (*EVERY_WRONG, *EVERY_RIGHT)
    assert len({c.name for c in every}) == len(every)
    assert set(goldens()) == {c.name for c in EVERY_WRONG if c.name not in RANDOM}


@pytest.mark.parametrize(
    ("pull", "said"),
    [
        (lambda v, x, a: (a @ v, x.T @ v), "equals a @ v: the operands of @ are swapped, and the transpose"),
        (lambda v, x, a: (v @ a.T, v @ x.T), "equals v @ x.T: the operands of @ are swapped"),
        (lambda v, x, a: (a.T @ v, x.T @ v), "equals a.T @ v: the operands of @ are swapped"),
    ],
)
def test_the_sides_of_a_product_the_other_way_round_are_named(pull: Any, said: str) -> None:
    generator = np.random.default_rng(0)
    pair = (lambda x, a: x @ a), pull
    report = check_backward(pair, "x @ a", x=generator.normal(size=(3, 3)), a=generator.normal(size=(3, 3)))
    assert [f.kind for f in report.findings] == ["swapped"]
    assert said in report.findings[0].message


def test_an_equation_is_what_a_backward_is_held_against_and_its_size_rule_decides() -> None:
    x, w = torch.randn(6, dtype=torch.float64), torch.randn(3, dtype=torch.float64)

    def correlated(x: Any, w: Any) -> Any:
        return x.unfold(0, len(w), 1) @ w

    assert check_backward(correlated, "out[i] = sum_j x[i+j]*w[j]", x=x, w=w, order=2).passed
    report = check_backward(correlated, "out[i] = sum_j x[i+j]*w[j]*2", x=x, w=w)
    assert [f.kind for f in report.findings] == ["forward"]

    def differences(x: Any) -> Any:
        return x[2:] - 2 * x[1:-1] + x[:-2]

    assert check_backward(differences, "out[i] = x[i+2] - 2*x[i+1] + x[i]", x=x).passed


def test_a_function_class_means_its_apply_and_a_misuse_is_told_at_the_callers_line() -> None:
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            return 2 * v

    x = torch.ones(3, dtype=torch.float64)
    assert check_backward(Double, "2 * x", x=x).passed
    with pytest.raises(SymgradError) as caught:
        check_backward(Double, "twice(x)", x=x)
    assert len(caught.traceback) == 2
    assert caught.value.__cause__ is None


def test_a_wrong_formula_is_not_called_rounding() -> None:
    """Whole numbers show a wrong gradient as well as a rounded one; only the latter is a matter of precision."""
    wrong = function(lambda x: x.cumsum(0), lambda v, x: v.cumsum(0))
    report = check_backward(wrong, "x.cumsum(0)", x=torch.randn(4, generator=torch.Generator().manual_seed(0)))
    assert {finding.kind for finding in report.findings} == {"transposed", "value"}
    assert "is rounded" not in report.to_text()


@pytest.mark.slow
def test_names_that_are_not_the_users_own_are_explained() -> None:
    """t3 stands in no text of the user's; h does."""
    x = torch.tensor([[0.5, -1.0], [2.0, 0.25]], dtype=torch.float64)
    wrong = function(lambda x: torch.rsqrt((x * x).mean(-1) + 1), lambda v, x: (v * 2)[:, None] * x)
    (finding,) = check_backward(wrong, "rsqrt((x * x).mean(-1) + 1)", x=x, only="value").findings
    named = set(re.findall(r"\bt\d\b", finding.message.partition("\nwhere")[0]))
    told = set(re.findall(r"^where (t\d) = ", finding.message, re.MULTILINE))
    assert named <= told
    (finding,) = check_backward(
        function(lambda x: torch.tanh(x @ x), lambda v, x: v @ x.T), "h = x @ x; tanh(h)", x=x, only="value"
    ).findings
    assert "where h" not in finding.message


@pytest.mark.parametrize("writes", [True, False])
def test_what_is_written_into_a_basis_seed_alone_is_seen(writes: bool) -> None:
    def backward(v: Any, x: Any) -> Any:
        if writes and int((v != 0).sum()) == 1:
            v.mul_(1).add_(v != 0)
        return torch.cos(x) * ((v > 1).to(v) if writes and v.max() == 2 and int((v != 0).sum()) == 1 else v)

    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    report = check_backward(function(torch.sin, backward), "sin(x)", x=x, only=("value", "purity"))
    assert [f.kind for f in report.findings] == (["mutates_seed"] if writes else [])


def test_a_second_derivative_of_several_outputs_counts_them_all() -> None:
    x = torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)

    class Both(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            ctx.lost = 2 * x
            return x**2, torch.sin(x)

        @staticmethod
        def backward(ctx: Any, a: Any, b: Any) -> Any:
            (x,) = ctx.saved_tensors
            return a * ctx.lost + b * torch.cos(x)

    report = check_backward(Both, ["x ** 2", "sin(x)"], x=x, order=2)
    assert [f.kind for f in report.findings] == ["double_backward"]
    right = check_backward(lambda x: (x**2, torch.sin(x)), ["x ** 2", "sin(x)"], x=x, order=2)
    assert right.passed
    assert {b.name: b.count for b in right.batteries}["double_backward"] == 3


@pytest.mark.parametrize("seed", range(4))
def test_a_backward_that_is_right_for_one_seed_alone_is_seen(seed: int) -> None:
    x = torch.tensor([[1.5]], dtype=torch.float64)
    backward = with_ctx(
        lambda ctx, x: (ctx.save_for_backward(x), x * x)[1],
        lambda ctx, v: 2 * v * ctx.saved_tensors[0] + v * v,
        "Square",
    )
    report = check_backward(backward, "x * x", x=x, seed=seed, only="value")
    assert not report.passed


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_compiled_candidate_whose_graph_serves_once_is_judged_by_its_numbers(backend: str) -> None:
    """aot_eager gives its buffers away: a second backward through one graph raises."""
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    right = torch.compile(lambda x: torch.softmax(x, -1) * x, backend=backend)
    report = check_backward(right, "softmax(x, dim=-1) * x", x=x, order=2)
    assert report.passed, report.to_text()
    wrong = torch.compile(lambda x: torch.softmax(x, -1) * x.detach(), backend=backend)
    assert not check_backward(wrong, "softmax(x, dim=-1) * x", x=x).passed


@pytest.mark.one_in(2)
@pytest.mark.parametrize("wrong", [False, True])
def test_a_jax_function_with_a_vjp_of_its_own_is_a_candidate(wrong: bool) -> None:
    jax = pytest.importorskip("jax")

    @jax.custom_vjp
    def softmax(x: Any) -> Any:
        return jax.nn.softmax(x, -1)

    def ahead(x: Any) -> Any:
        y = jax.nn.softmax(x, -1)
        return y, y

    def back(y: Any, v: Any) -> Any:
        return (y * (v - (v * y).mean(-1, keepdims=True) * (1 if wrong else y.shape[-1])),)

    softmax.defvjp(ahead, back)
    x = np.random.default_rng(0).normal(size=(2, 3))
    report = check_backward(softmax, "softmax(x, dim=-1)", x=x)
    assert [f.kind for f in report.findings] == (["scaled"] if wrong else []), report.to_text()
    assert report.inputs == {"x": "2×3 float32"}  # JAX computes in it unless it is told otherwise
    if wrong:
        assert "1/3 of what it should be" in report.findings[0].message


@pytest.mark.parametrize("text", ["x.chunk(2, -1)", "x.split(2, -1)", "(x[:, :2], x[:, 2:])", "[x[:, :2], x[:, 2:]]"])
def test_one_text_is_several_outputs_where_the_function_returns_several(text: str) -> None:
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert check_backward(lambda x: x.chunk(2, -1), text, x=x, order=2).passed
    turned = check_backward(lambda x: x.chunk(2, -1)[::-1], text, x=x)
    assert [f.kind for f in turned.findings] == ["forward"]
    fewer = check_backward(lambda x: x.chunk(4, -1)[:2], "x.chunk(4, -1)", x=x)
    assert "returns 2 tensors" in fewer.findings[0].message
    with pytest.raises(SymgradError, match="one of them, such as"):
        check_backward(lambda x: x, text, x=x)


def test_a_forward_pass_that_refuses_a_layout_is_told_and_not_accused() -> None:
    """It raises where the user sees it; a backward that raises at a layout of v is found inside a model."""
    x = torch.randn(3, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    refusing = with_ctx(lambda ctx, x: x.view(-1) * 2, lambda ctx, v: 2 * v.reshape(3, 4))
    report = check_backward(refusing, "2 * x.reshape(-1)", x=x)
    assert report.passed, report.to_text()
    (layout,) = (b for b in report.batteries if b.name == "layout")
    assert "it raises an error there, so no result is wrong" in layout.note
    backward = with_ctx(lambda ctx, x: 2 * x, lambda ctx, v: 2 * v.view(-1).view(3, 4))
    assert [f.kind for f in check_backward(backward, "2 * x", x=x).findings] == ["layout"]


def test_a_backward_whose_numbers_were_held_against_nothing_is_not_said_to_pass() -> None:
    def opaque(x: Any) -> Any:
        return np.sin(x)

    x = np.ones(3, dtype=np.float32)
    report = check_backward((opaque, lambda v, x: v), None, x=x)  # float32: differences say nothing
    assert report.passed
    assert report.to_text().startswith("nothing was found in the backward of ")
    assert "there was no reference for its numbers" in report.to_text()


@pytest.mark.one_in(2)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_option_that_would_give_another_shape_is_no_cause(reduction: str) -> None:
    """A loss without a forward pass of its own reads at the indices of its result, which has none under "mean"."""
    x, noise = torch.randn(2, 3, dtype=torch.float64), torch.randn(2, 3, dtype=torch.float64)
    call = f'F.multi_margin_loss(x, target, reduction="{reduction}")'
    wrong = function(
        lambda x, target: torch.nn.functional.multi_margin_loss(x, target, reduction=reduction),
        lambda v, x, target: (v.sum() * noise, None),
    )
    found = check_backward(wrong, call, x=x, target=torch.tensor([1, 0]))
    assert not found.passed


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("total", "said"),
    [(".sum(-1)", "keepdim=True is missing"), (".sum()", "summed over everything, not only over -1")],
)
def test_a_sum_along_too_many_axes_and_one_that_keeps_none_are_named(total: str, said: str) -> None:
    """Both were a wrong line without a word about what is wrong with it."""

    class Softmax(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            out = torch.softmax(x, -1)
            ctx.save_for_backward(out)
            return out

        @staticmethod
        def backward(ctx: Any, v: Any) -> Any:
            (out,) = ctx.saved_tensors
            return out * (v - ((v * out).sum(-1) if total == ".sum(-1)" else (v * out).sum()))

    x = torch.randn(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    finding = check_backward(Softmax.apply, "softmax(x, dim=-1)", x=x).findings[0]
    assert finding.kind == "wrong_axis"
    assert said in finding.message


@pytest.mark.parametrize(
    ("weights", "kind", "said"),
    [
        ((0, 1), "missing_path", "the gradient from output 1, x ** 2 is missing"),
        ((1, -1), "sign", "the gradient from output 2, sin(x), has the wrong sign"),
        ((1, 3), "scaled", "the gradient from output 2, sin(x), is 3 times what it should be"),
        ((0.25, 1), "scaled", "the gradient from output 1, x ** 2, is 1/4 of what it should be"),
    ],
)
def test_what_comes_back_from_one_output_may_be_missing_subtracted_or_weighted(
    weights: tuple[float, float], kind: str, said: str
) -> None:
    """A weight other than 0 and −1 was a wrong value without a word about what is wrong with it."""
    first, second = weights

    def backward(v: Any, x: Any) -> Any:
        return first * v[0] * 2 * x + second * v[1] * np.cos(x)

    pair = (lambda x: (x**2, np.sin(x))), backward
    (finding,) = check_backward(pair, ["x ** 2", "sin(x)"], x=np.array([0.5, -1.0, 2.0])).findings
    assert finding.kind == kind
    assert said in finding.message


class Product(torch.autograd.Function):
    """Two factors."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, y)
        return x * y

    @staticmethod
    def backward(ctx: Any, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, y = ctx.saved_tensors
        return v * y, v * x


@pytest.mark.parametrize("name", ["inf", "nan", "y"])
def test_an_input_may_be_called_as_a_number_is(name: str) -> None:
    """As a tensor that is given, or as a parameter of a module."""
    x, y = torch.rand(3, dtype=torch.float64), torch.rand(3, dtype=torch.float64)
    assert check_backward(Product.apply, f"x * {name}", **{"x": x, name: y}).passed

    class Scaled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_parameter(name, torch.nn.Parameter(y))

        def forward(self, x: torch.Tensor) -> Any:
            return Product.apply(x, self.get_parameter(name))

    report = check_backward(Scaled(), f"x * {name}", x=x)
    assert report.passed
    assert name in report.to_text()


@pytest.mark.parametrize("scale", [1e-40, 1e-150, 1e-290])
def test_a_wrong_backward_of_tiny_numbers_is_wrong(scale: float) -> None:
    """Gradients below 1e-39 were all alike."""
    x = scale * torch.tensor([0.8, -0.3, 1.7], dtype=torch.float64)
    assert check_backward(function(lambda x: x**2, lambda v, x: 2 * v * x), "x ** 2", x=x).passed
    assert not check_backward(function(lambda x: x**2, lambda v, x: 3 * v * x), "x ** 2", x=x).passed


POLES = [
    (torch.log, lambda v, x: v / x, "log(x)", 0.0),
    (torch.reciprocal, lambda v, x: -v / x**2, "1 / x", 1e-7),
    (torch.tan, lambda v, x: v / torch.cos(x) ** 2, "tan(x)", np.pi / 2),
    (lambda x: x.abs().sqrt(), lambda v, x: v * x.sign() / 2 / x.abs().sqrt(), "x.abs().sqrt()", 1e-8),
    (torch.relu, lambda v, x: v * (x > 0), "relu(x)", 1e-7),
    (torch.abs, lambda v, x: v * x.sign(), "abs(x)", 0.0),
]


@pytest.mark.parametrize(("forward", "backward", "text", "value"), POLES, ids=[text for _, _, text, _ in POLES])
def test_a_pole_is_no_kink(forward: Any, backward: Any, text: str, value: float) -> None:
    """Left of 0 a logarithm has no slope, and was said to have that of −1e6."""
    x = torch.tensor([value, 1.0], dtype=torch.float64)
    report = check_backward(function(forward, backward), text, x=x)
    (note,) = [battery.note for battery in report.batteries if battery.name == "kink"]
    assert ("a kink" in note) == (text in ("relu(x)", "abs(x)"))
