"""The backward as lines: as the textbooks have them, equal to torch when they are pasted and run, derived once.

What is compared with torch is text that `exec` runs, on the inputs alone: a wrong line, a missing one, a name that is
not there or a forward line that does not compute what it says all fail here.
"""

from __future__ import annotations

import re
import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn
from torch.nn import functional as F

import symgrad
from symgrad import Capture
from symgrad.backward import Backward, template_cache
from symgrad.language.inference import find_inputs
from symgrad_cli.main import main
from tests.compare import assert_same
from tests.lines_of import run_lines

DOUBLE = torch.float64


def shown(lines: Backward) -> list[str]:
    """The lines as they are printed, forward and backward."""
    return [*map(str, lines.forward), "", *map(str, lines.statements)]


def networks() -> dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]]:
    """Programs that everybody has written, with inputs."""
    torch.manual_seed(0)
    x, classes = torch.randn(5, 3, dtype=DOUBLE), torch.tensor([0, 1, 0, 1, 1])
    mlp = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    lenet = nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(3, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(16, 5),
    ).double()  # fmt: skip
    cell, gru = nn.LSTMCell(3, 4).double(), nn.GRUCell(3, 4).double()
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True).double()
    image, state = torch.randn(2, 1, 14, 14, dtype=DOUBLE), torch.randn(5, 4, dtype=DOUBLE)
    group = nn.GroupNorm(2, 4).double()
    table = nn.Embedding(7, 3).double()
    places = torch.tensor([[1, 2], [2, 0]])
    return {
        "mlp": (lambda x: F.cross_entropy(mlp(x), classes), (x,)),
        "lenet": (lambda x: F.cross_entropy(lenet(x), classes[:2]), (image,)),
        "lstm": (lambda x, h, c: cell(x, (h, c)), (x, state, state / 2)),
        "gru": (lambda x, h: gru(x, h), (x, state)),
        "transformer": (lambda x: layer(x), (torch.randn(2, 3, 8, dtype=DOUBLE),)),
        "group norm": (lambda x: group(x), (state,)),
        "embedding": (lambda x: (table(places) * x).sum(), (torch.randn(2, 2, 3, dtype=DOUBLE),)),
        "residual": (lambda x: (x + torch.tanh(x @ x.T @ x)).std(), (x,)),
        "used by both outputs": (lambda x: (x.exp(), x.exp() * x), (x,)),
    }


NETWORKS = networks()
SPREAD = "c.grad = v_t3 - v_t3.mean(-1, keepdim=True)"
TOGETHER = "c.grad = pad(stack([v_t1, v[1] * t1]), (0, c.shape[0] - 2))"


def captured(name: str) -> Capture:
    """One of the networks, as it ran once."""
    function, inputs = NETWORKS[name]
    return symgrad.capture(function, *inputs)


@pytest.mark.one_in(8)
@pytest.mark.parametrize("name", NETWORKS)
def test_the_lines_of_a_network_give_torchs_gradients(name: str) -> None:
    program = captured(name)
    generator = np.random.default_rng(0)
    shapes = [np.shape(result) for result in program.results]
    seeds = [generator.normal(size=shape) for shape in shapes]
    seed = None if shapes == [()] else seeds[0] if len(seeds) == 1 else seeds
    lines = program.backward(seed)
    inputs = {line: program.arrays[t.name] for line, t in zip(lines.inputs, program.recording.inputs, strict=True)}
    found = run_lines(lines, inputs, *([] if seed is None else seeds))

    function, own = NETWORKS[name]
    leaves = [tensor.clone().requires_grad_() for tensor in own]
    results = function(*leaves)
    results = results if isinstance(results, tuple) else (results,)
    told = [torch.ones(())] if seed is None else [torch.as_tensor(s) for s in seeds]
    expected = torch.autograd.grad(results, leaves, told)
    for leaf, want in zip(list(lines.gradients)[: len(leaves)], expected, strict=True):
        assert_same(want, found[leaf], what=f"{name}: {leaf}")
    pulled = program.pullback(seed)
    for (label, want), got in zip(pulled.items(), found.values(), strict=True):
        assert_same(want, got, what=f"{name}: {label}")
    for line in lines.statements:
        assert line.value is None or np.shape(line.value) == tuple(map(int, line.shape or ()))


def test_two_layers_and_a_loss_read_like_the_lecture() -> None:
    assert shown(captured("mlp").backward()) == [
        "t1 = linear(x, 0.weight, 0.bias)",
        "t2 = relu(t1)",
        "t3 = linear(t2, 2.weight, 2.bias)",
        "out = cross_entropy(t3, classes)",
        "",
        "v_t3 = (softmax(t3, dim=-1) - one_hot(classes, 2)) / 5",
        "v_t1 = (v_t3 @ 2.weight) * (t1 > 0)",
        "x.grad = v_t1 @ 0.weight",
        "0.weight.grad = v_t1.T @ x",
        "0.bias.grad = v_t1.sum(0)",
        "2.weight.grad = v_t3.T @ t2",
        "2.bias.grad = v_t3.sum(0)",
    ]


@pytest.mark.slow
def test_attention_reads_like_the_textbook() -> None:
    for text in ("S = q @ k.T / 2; P = softmax(S, dim=-1); P @ u", "F.scaled_dot_product_attention(q, k, u)"):
        lines = symgrad.explain(text, shapes={"q": (3, 4), "k": (5, 4), "u": (5, 2)}, check=False).backward
        by = "2" if "/ 2" in text else "q.shape[1] ** 0.5"
        assert [str(line) for line in lines.statements] == [
            "v_P = v @ u.T",
            "v_S = P * (v_P - (v_P * P).sum(-1, keepdim=True))",
            f"q.grad = (v_S @ k) / {by}",
            f"k.grad = (v_S.T @ q) / {by}",
            "u.grad = P.T @ v",
        ]


def test_heads_are_put_together_as_they_were_taken_apart() -> None:
    """It was ``v.permute(0, 1, 3, 2).reshape(3, 10, 4).mT``."""
    x, v = torch.randn(3, 4, 10, dtype=DOUBLE), torch.randn(3, 2, 4, 5)
    apart = symgrad.capture(lambda x: x.reshape(3, 4, 2, 5).transpose(1, 2), x)
    assert shown(apart.backward(v))[-1] == "x.grad = v.permute(0, 2, 1, 3).reshape(x.shape)"
    parts = symgrad.capture(lambda x: (x.reshape(3, 4, 2, 5).permute(2, 0, 1, 3)).exp(), x)
    assert shown(parts.backward(v.transpose(0, 1)))[-1] == "x.grad = (v * out).permute(1, 2, 0, 3).reshape(x.shape)"


@pytest.mark.slow
def test_lenet_reads_like_the_lecture() -> None:
    assert [str(line) for line in captured("lenet").backward().statements] == [
        "v_t8 = (softmax(t8, dim=-1) - one_hot(classes[:2], 5)) / 2",
        "v_t6 = (v_t8 @ 7.weight).reshape(t6.shape)",
        "v_t5 = zeros_like(t5).flatten(2).scatter_add(2, at_t6.flatten(2), v_t6.flatten(2)).reshape(t5.shape)",
        "v_t4 = v_t5 * (t4 > 0)",
        "v_t3 = conv_transpose2d(v_t4, 3.weight)",
        "v_t2 = zeros_like(t2).flatten(2).scatter_add(2, at_t3.flatten(2), v_t3.flatten(2)).reshape(t2.shape)",
        "v_t1 = v_t2 * (t1 > 0)",
        "x.grad = conv_transpose2d(v_t1, 0.weight)",
        "0.weight.grad = conv2d(x.transpose(0, 1), v_t1.transpose(0, 1)).transpose(0, 1)",
        "0.bias.grad = v_t1.sum((0, 2, 3))",
        "3.weight.grad = conv2d(t3.transpose(0, 1), v_t4.transpose(0, 1)).transpose(0, 1)",
        "3.bias.grad = v_t4.sum((0, 2, 3))",
        "7.weight.grad = v_t8.T @ t7",
        "7.bias.grad = v_t8.sum(0)",
    ]


def test_the_gates_of_an_lstm_cell_lie_side_by_side() -> None:
    texts = [str(line) for line in captured("lstm").backward([np.ones((5, 4)), np.ones((5, 4))]).statements]
    assert texts[0].startswith("v_")
    assert " = v2 + v1 * " in texts[0]
    assert any("cat([" in text and text.endswith("], -1)") for text in texts)
    assert not any("pad(" in text for text in texts)


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "exp(x @ w) / exp(x @ w).sum(-1, keepdim=True)",  # x @ w and its exponential are computed once
            [
                "v_t5 = -(v * out).sum(-1, keepdim=True) / t5",
                "v_t1 = (v / t5 + v_t5) * t2",
                "x.grad = v_t1 @ w.T",
                "w.grad = x.T @ v_t1",
            ],
        ),
        ("log(exp(c).sum())", ["c.grad = t1 / sum(t1)"]),  # a number beside a vector is not expanded
        ("((c - c.mean()) ** 2).mean().sqrt()", ["v_t3 = t3 / out / t4.shape[0]", SPREAD]),  # 2 cancels
        ("stack([c[0] ** 2, c[0] * c[1]])", ["v_t1 = 2 * v[0] * t1 + v[1] * c[1]", TOGETHER]),
        ("layer_norm(x, (3,)).sum()", ["x.grad = zeros_like(x)"]),  # is not used a line on the way to it
    ],
)
def test_a_line_says_nothing_twice_and_nothing_that_is_not_read(text: str, told: list[str]) -> None:
    shapes = {name: shape for name, shape in {"x": (2, 3), "w": (3, 4), "c": (3,)}.items() if name in find_inputs(text)}
    numbers = {name: np.random.default_rng(1).normal(size=shape) for name, shape in shapes.items()}
    explained = symgrad.explain(text, **numbers)
    assert [str(line) for line in explained.backward.statements] == told
    values = {tensor.name: explained.values[tensor.name] for tensor in explained.program.inputs}
    seeds = [explained.seed] if np.shape(explained.seed) else []
    found = run_lines(explained.backward, values, *seeds)
    for name, gradient in explained.gradients.items():
        assert_same(gradient.value, found[name], what=f"{text} by {name}")


@pytest.mark.slow
def test_a_weight_that_is_broadcast_twice_has_no_line_and_is_read_where_it_stands() -> None:
    """It was ``t8 = bn.weight[:, None, None]``, told twice, with a cotangent that was turned back in the next line."""
    conv, norm = nn.Conv2d(2, 3, 3).double(), nn.BatchNorm2d(3).double()
    x, y = torch.randn(4, 2, 5, 5, dtype=DOUBLE), torch.randn(4, 2, 5, 5, dtype=DOUBLE)
    modules = nn.ModuleDict({"conv": conv, "norm": norm})

    def twice(modules: nn.ModuleDict, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (modules["norm"](modules["conv"](x)).exp() + modules["norm"](modules["conv"](y)).tanh()).mean()

    program = symgrad.capture(twice, modules, x, y)
    lines = program.backward(wrt=["norm.weight", "norm.bias", "conv.weight"])
    assert not [line for line in shown(lines) if re.match(r"\w+ = norm", line)]
    told = {name: str(line) for name, line in lines.gradients.items()}
    assert [line for line in told.values() if "[:, None, None]" in line or "[:, 0, 0]" in line] == []
    assert any(line.count(".sum((0, 2, 3))") == 2 for line in told.values())


def test_what_falls_apart_leaves_turned_tensors_where_they_are_read() -> None:
    """It was ``(v_t5 * t1).sum((0, 2, 3))[:, None, None][:, 0, 0]``."""

    def wider(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x.tanh() * w[:, None, None] + b[:, None, None], scale_factor=2) ** 2

    x, w = torch.randn(4, 3, 5, 5, dtype=DOUBLE), torch.randn(3, dtype=DOUBLE)
    lines = shown(symgrad.capture(wider, x, w, w.clone()).backward(torch.ones(4, 3, 10, 10)))
    assert "t5 = t1 * w[:, None, None] + b[:, None, None]" in lines
    assert lines[-2:] == ["w.grad = (v_t5 * t1).sum((0, 2, 3))", "b.grad = v_t5.sum((0, 2, 3))"]


def test_neighbours_among_the_channels_are_a_matrix() -> None:
    """The line of AlexNet's normalisation had 700 characters."""
    x = torch.randn(2, 7, 4, 4, dtype=DOUBLE)
    lines = shown(symgrad.capture(lambda x: F.local_response_norm(x, 5), x).backward(torch.ones(2, 7, 4, 4)))
    assert 'd = einsum("cd,ndij->ncij", near, t7) * 2e-05 + 1' in lines
    assert max(map(len, lines)) < 80


def test_two_draws_are_not_one() -> None:
    torch.manual_seed(1)
    program = symgrad.capture(lambda x: F.dropout(x, 0.5) * F.dropout(x, 0.5), torch.ones(40, dtype=DOUBLE))
    lines = program.backward(np.ones(40))
    pulled = program.pullback(np.ones(40))
    inputs = {line: program.arrays[t.name] for line, t in zip(lines.inputs, program.recording.inputs, strict=True)}
    found = run_lines(lines, inputs, np.ones(40))
    assert_same(pulled["x"], found["x"], what="x")


TURNS = {
    "rotary": (lambda x: torch.stack([x[:, ::2] * 2, x[:, 1::2] * 3], -1).flatten(-2), "stack([2 * v_t5[:, :, 0], 3 * v_t5[:, :, 1]], -1).flatten(-2)"),
    "columns": (lambda x: x[:, ::3] * x[:, 1::3] + x[:, 2::3], "stack([v * t2, v * t1, v], -1).flatten(-2)"),
    "rows": (lambda x: x[::2] * x[1::2], "stack([v * t2, v * t1], 1).flatten(0, 1)"),
    "one is left out": (lambda x: x[:, ::3] * x[:, 1::3], "zeros_like(x).index_add(1, arange(6)[1::3], v_t2) + zeros_like(x).index_add(1, arange(6)[::3], v_t1)"),
}  # fmt: skip


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("run", "said"), TURNS.values(), ids=list(TURNS))
def test_slices_that_take_turns_are_one_stack(run, said) -> None:
    program = symgrad.capture(run, torch.arange(24, dtype=DOUBLE).reshape(4, 6) / 8)
    seed = np.random.default_rng(1).integers(-3, 4, size=np.shape(program.results[0]))
    lines = program.backward(seed)
    assert lines.gradients["x"].code == said
    assert_same(program.pullback(seed)["x"], run_lines(lines, dict(program.arrays), seed)["x"], what="x")


@pytest.mark.slow
def test_a_sum_of_hundreds_has_a_line_and_code() -> None:
    def run(w: torch.Tensor) -> torch.Tensor:
        h = x
        for _ in range(400):
            h = w * h
        return h

    x, before = torch.ones(2, dtype=DOUBLE), sys.getrecursionlimit()
    lines = symgrad.capture(run, torch.ones(2, dtype=DOUBLE)).backward(np.ones(2))
    assert lines.gradients["w"].code.count(" + ") == 399
    assert len(lines.code()) > 400
    assert sys.getrecursionlimit() == before


def test_a_line_that_holds_for_some_data_is_confirmed_on_every_run() -> None:
    def losses(classes: list[int]) -> Backward:
        target = torch.tensor(classes)
        return symgrad.capture(lambda x: F.cross_entropy(x, target), torch.randn(3, 4, dtype=DOUBLE)).backward()

    (whole,) = losses([0, 1, 2]).statements
    mask, left_out = losses([0, -100, 2]).statements
    assert whole.code == "(softmax(x, dim=-1) - one_hot(target, 4)) / 3"
    assert mask.code == "target != -100"
    assert left_out.code == "m[:, None] * (softmax(x, dim=-1) - one_hot(target * m, 4)) / m.sum()"


def test_a_black_box_has_no_line_and_says_whose_it_is() -> None:
    class Twice(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return 2 * x

        @staticmethod
        def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:
            return 2 * v

    program = symgrad.capture(lambda x: Twice.apply(x).exp(), torch.ones(2, dtype=DOUBLE))
    line = program.backward(np.ones(2)).gradients[program.wanted[0]]
    assert line.code is None
    assert "computed by PyTorch" in line.own


def test_names_that_are_taken_are_left_alone() -> None:
    lines = symgrad.explain("v_h = x * 2; h = exp(v_h); h * v", shapes={"x": (2,), "v": (2,)}, check=False).backward
    names = [*lines.inputs, *(line.target for line in (*lines.forward, *lines.statements)), *lines.seeds.values()]
    assert len(set(names)) == len(names)
    assert lines.seeds == {"out": "g"}


def taken(x: torch.Tensor, v1: torch.Tensor, torch_: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A program in whose lines `odd_names` are called like a seed, a module and a function."""
    return F.gelu(F.softmax(x, -1) * torch_) * v1, (x + v1).exp()


def odd_names() -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A function with a parameter that is called torch, and one that is called v1."""

    def run(x: torch.Tensor, v1: torch.Tensor, torch: torch.Tensor, math: torch.Tensor, softmax: torch.Tensor) -> Any:
        return (*taken(x * softmax, v1, torch), F.gelu(x) * math)

    torch.manual_seed(3)
    return run, tuple(torch.randn(2, 3, dtype=DOUBLE) for _ in range(5))


def numbers_in_chains() -> tuple[Callable[..., Any], tuple[torch.Tensor, ...]]:
    """A cotangent that is a number, 1/6, goes into ``.expand``; the gradient by y is 1."""
    torch.manual_seed(3)
    x, y = torch.randn(2, 3, dtype=DOUBLE), torch.randn((), dtype=DOUBLE)
    return lambda x, y: (x.tanh() ** 2).mean() + x.tanh().max() + y, (x, y)


@pytest.mark.parametrize("made", [odd_names, numbers_in_chains])
def test_lines_run_whatever_the_names_and_where_a_cotangent_is_a_number(made: Callable[[], Any]) -> None:
    function, inputs = made()
    program = symgrad.capture(function, *inputs)
    seeds = [np.random.default_rng(1).normal(size=np.shape(result)) for result in program.results]
    lines = program.backward(seeds if len(seeds) > 1 else None)
    given = {line: program.arrays[t.name] for line, t in zip(lines.inputs, program.recording.inputs, strict=True)}
    found = run_lines(lines, given, *(seeds if len(seeds) > 1 else ()))
    expected = program.pullback(seeds if len(seeds) > 1 else None)
    for (name, want), got in zip(expected.items(), found.values(), strict=True):
        assert_same(want, got, what=name)


def test_whether_a_line_is_shown_does_not_depend_on_what_was_asked_before() -> None:
    def shown(*x: float) -> str:
        return str(symgrad.explain("x.std() * 2", x=list(x), check=False).backward.gradients["x"].code)

    template_cache.TEMPLATES.clear()
    first, other, again = shown(1, 1), shown(1, 2), shown(1, 1)
    assert first == again == f"where(std(x) != 0, {other}, 0)"  # 0/0 there, where torch says 0


@pytest.mark.slow
def test_what_stands_twice_has_a_line_of_its_own_and_no_numbers() -> None:
    lines = symgrad.explain(
        "torch.linalg.cholesky(x @ x.T + y)", shapes={"x": (2, 2)}, y=np.eye(2), check=False
    ).backward
    helpers = [line for line in lines.lines if line.shape is None]
    assert helpers
    assert all(line.value is None for line in helpers)
    assert all(line.value is not None for line in lines.gradients.values())


def logistic_by_hand(x: Any, w: Any, y: Any) -> Any:
    """The loss of logistic regression as people write it down."""
    p = 1 / (1 + torch.exp(-(x @ w)))
    return -(y * torch.log(p) + (1 - y) * torch.log(1 - p)).mean()


def margins_by_hand(x: Any, w: Any, y: Any) -> Any:
    """The same with classes −1 and 1."""
    return torch.log(1 + torch.exp(-y * (x @ w))).mean()


@pytest.mark.parametrize(("made", "slope"), [(logistic_by_hand, "v_p * p * (1 - p)"), (margins_by_hand, ".sigmoid()")])
def test_a_logistic_function_written_out_is_one_in_its_line(made: Callable[..., Any], slope: str) -> None:
    torch.manual_seed(3)
    x, y = torch.randn(4, 3, dtype=torch.float64), torch.tensor([1.0, -1.0, 1.0, 1.0], dtype=torch.float64)
    w = torch.randn(3, dtype=torch.float64, requires_grad=True)
    lines = symgrad.capture(made, x, w, y).backward(wrt=["w"])
    said = str(lines).partition("\n\n")[2]
    assert slope in said
    assert "exp" not in said
    made(x, w, y).backward()
    found = run_lines(lines, {"x": x, "w": w.detach(), "y": y})
    assert_same(w.grad.numpy(), found["w"].numpy(), what=made.__name__)


NAMED_EXPONENTIAL = """
import sympy as sp
import torch
z = torch.tensor([0.5, -1.0], requires_grad=True)
e = torch.exp(-z)
p = 1 / (1 + e)
p.sum().backward()
"""


@pytest.mark.parametrize("asked", [False, True])
def test_an_exponential_with_a_name_goes_into_the_logistic_function_unless_it_is_asked_for(
    tmp_path: Path, asked: bool
) -> None:
    path = tmp_path / "script.py"
    both = NAMED_EXPONENTIAL.replace("p.sum().backward()", "torch.autograd.grad(p.sum(), [z, e])")
    text = both if asked else NAMED_EXPONENTIAL
    path.write_text(text, encoding="utf-8")
    told = CliRunner().invoke(main, ["run", str(path)], catch_exceptions=False)
    assert told.exit_code == 0
    assert ("p * (1 - p)" in told.stdout) != asked
    assert ("e = exp" in re.sub(" +", " ", told.stdout)) == asked


@pytest.mark.parametrize(
    "text", ["x.mean()", "x.T.mean()", "x.mean() / 2", "math.log(2) * x.sum()", "x.flip(0).mean()"]
)
def test_a_gradient_that_is_one_number_is_a_tensor_in_code(text: str) -> None:
    found = symgrad.explain(text, x=np.ones((2, 3)), check=False)
    gradient = run_lines(found.backward, {"x": np.ones((2, 3))})["x"]
    assert_same(np.asarray(found.gradients["x"].value, float), gradient, what=found.backward.code())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("size", "entries", "line"),
    [
        (2, 4, "v.repeat_interleave(2, 2).repeat_interleave(2, -1) / 4"),
        ((2, 1), 6, "(v[:, :, :, 0].repeat_interleave(3, -1) / 18)[:, :, :, None].expand(x.shape)"),
        (7, 7, "v"),
        ([None, 3], 6, "v.repeat_interleave(2, -1) / 2"),
    ],
)
def test_windows_that_fit_are_as_long_as_each_other(size: Any, entries: int, line: str) -> None:
    """2·i < 4·j + 4 is i < 2·j + 2, and so many i as that there are for every j."""
    x = torch.randn(2, 3, entries, entries)
    program = symgrad.capture(lambda x: F.adaptive_avg_pool2d(x, size), x)
    assert program.backward(torch.ones(F.adaptive_avg_pool2d(x, size).shape)).gradients["x"].code == line


def test_each_channel_may_be_a_group() -> None:
    """Of a depthwise convolution, as mobile networks and Mamba have it, with the sizes that a program ran with."""
    x, w = torch.randn(2, 4, 7, dtype=DOUBLE), torch.randn(4, 1, 3, dtype=DOUBLE)
    program = symgrad.capture(lambda x, w: F.conv1d(x, w, stride=2, padding=1, groups=4), x, w)
    line = program.backward(seed=torch.ones(2, 4, 4)).gradients["x"]
    assert line.code == "conv_transpose1d(v, w, stride=2, padding=1, groups=4)"


STEPS = ("sum({axis})", "mean({axis})", "amax({axis})", "mul(2)", "div(3)", "neg()", "unsqueeze({axis})", "transpose(0, -1)",
         "expand(2, *{{}}.shape)", "tanh()", "flip({axis})", "square()")  # fmt: skip
"""Moves, sums and slopes, of which a chain of three meets each other way of putting a number for a cotangent."""


@pytest.mark.one_in(12)
@pytest.mark.parametrize("seed", range(60))
def test_lines_of_chains_that_end_in_one_number_run_as_pasted(tmp_path: Path, seed: int) -> None:
    """The seed is 1, so cotangents are numbers: what turns or multiplies one has to be handed a tensor."""
    draw = np.random.default_rng(seed)
    x = torch.as_tensor(draw.normal(size=(2, 3, 2)))
    rank, statements, last = 3, [], "x"
    while len(statements) < 3:
        parts = []
        while len(parts) < 2:
            text = str(draw.choice(STEPS)).format(axis=int(draw.integers(0, max(rank, 1))))
            if rank < 2 and not text.startswith(("mul", "div", "neg", "tanh", "square", "expand")):
                continue
            parts.append(text.replace("{}", last) if not parts else text if "{}" not in text else "neg()")
            rank += 1 if parts[-1].startswith(("unsqueeze", "expand")) else 0
            rank -= 1 if parts[-1].startswith(("sum", "mean", "amax")) else 0
        statements.append(f"{'hkr'[len(statements)]} = {last}.{'.'.join(parts)}")
        last = "hkr"[len(statements) - 1]
    body = "".join(f"    {statement}\n" for statement in statements)
    file = tmp_path / f"chain_{seed}.py"
    file.write_text(f"def chain(x):\n{body}    return {last}.{'mean' if seed % 2 else 'sum'}()\n")
    chain = runpy.run_path(str(file))["chain"]
    program = symgrad.capture(chain, x)
    found = run_lines(program.backward(), {"x": x})
    leaf = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(chain(leaf), leaf)
    assert_same(want, *found.values(), what=f"seed {seed}: {statements}")
