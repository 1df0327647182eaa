"""Gradients that were recorded with ``create_graph``: a loss built on one is explained like any other, equal to torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

import symgrad
from symgrad.errors import UnsupportedError
from symgrad.program import Pullback
from symgrad.tracing import Capture, run_script
from symgrad.tracing.lift import rewrites
from tests.compare import assert_same
from tests.lines_of import run_lines

DOUBLE = torch.float64
Case = tuple[Callable[..., Any], tuple[torch.Tensor, ...], Mapping[str, torch.Tensor]]


def grad(out: torch.Tensor, *wrt: torch.Tensor, **options: Any) -> tuple[torch.Tensor, ...]:
    """Gradients that can be differentiated again."""
    return torch.autograd.grad(out, wrt, create_graph=True, **options)


def programs() -> dict[str, Case]:
    """The patterns that people write, with their inputs and parameters."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()
    convolved = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8, 1)).double()
    linear = nn.Linear(2, 2).double()
    classes = torch.tensor([0, 1, 0, 1])

    def pinn(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
        u = net(torch.cat([x, t], dim=1))
        u_x, u_t = grad(u, x, t, grad_outputs=torch.ones_like(u))
        (u_xx,) = grad(u_x, x, grad_outputs=torch.ones_like(u_x))
        return (u_t + u * u_x - 0.01 * u_xx).pow(2).mean()

    def penalty(real: torch.Tensor, fake: torch.Tensor) -> torch.Tensor:
        between = 0.25 * real + 0.75 * fake
        score = net(between)
        (slope,) = grad(score, between, grad_outputs=torch.ones_like(score))
        return net(fake).mean() - net(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()

    def maml(x: torch.Tensor) -> torch.Tensor:
        grads = grad(F.cross_entropy(linear(x), classes), *linear.parameters())
        fast = [p - 0.1 * g for p, g in zip(linear.parameters(), grads, strict=True)]
        return F.cross_entropy(F.linear(x, *fast), classes)

    def hessian(x: torch.Tensor) -> torch.Tensor:
        (g,) = grad((x**3).sum() * x[0], x)
        rows = torch.stack([grad(entry, x)[0] for entry in g])
        return (rows * rows).sum()

    def product(x: torch.Tensor) -> torch.Tensor:
        def inner(z: torch.Tensor) -> torch.Tensor:
            return (z**4).sum() * z[0]

        found: torch.Tensor = torch.autograd.functional.hvp(inner, x, torch.ones_like(x), create_graph=True)[1]
        return found.sum()

    def stored(x: torch.Tensor) -> torch.Tensor:
        leaf = (x * 2).requires_grad_()
        leaf.retain_grad()
        (leaf**3).sum().backward(create_graph=True, inputs=[leaf])
        (leaf**2).sum().backward(create_graph=True, inputs=[leaf])
        assert leaf.grad is not None
        return (leaf.grad**2).sum()

    def kinks(x: torch.Tensor) -> torch.Tensor:
        return (grad(convolved(x).sum(), x)[0] ** 2).sum()

    def solved(x: torch.Tensor) -> torch.Tensor:
        return (grad(torch.linalg.inv(x @ x.T + torch.eye(2, dtype=DOUBLE)).sum(), x)[0] ** 2).sum()

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, dtype=DOUBLE)

    return {
        "PINN": (pinn, (draw(4, 1), draw(4, 1)), dict(net.named_parameters())),
        "WGAN-GP": (penalty, (draw(3, 2), draw(3, 2)), dict(net.named_parameters())),
        "MAML": (maml, (draw(4, 2),), dict(linear.named_parameters())),
        "a Hessian by hand": (hessian, (draw(3),), {}),
        "functional.hvp": (product, (draw(3),), {}),
        "backward, twice": (stored, (draw(3),), {}),
        "kinks and places": (kinks, (draw(2, 1, 6, 6),), dict(convolved.named_parameters())),
        "an inverse": (solved, (draw(2, 2),), {}),
    }


PROGRAMS = programs()


@pytest.mark.one_in(6)
@pytest.mark.filterwarnings("ignore:Using backward\\(\\) with create_graph:UserWarning")
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loss_on_a_gradient_is_explained_like_any_other(name: str) -> None:
    function, given, parameters = PROGRAMS[name]
    program: Capture = symgrad.capture(function, *given)
    assert not program.black_boxes
    assert any(isinstance(step.op, Pullback) for step in program.recording.steps)
    leaves = [tensor.clone().requires_grad_() for tensor in given]
    expected = torch.autograd.grad(function(*leaves), [*leaves, *parameters.values()], materialize_grads=True)
    labels = [*program.inputs[: len(leaves)], *parameters]
    found = program.pullback()
    for label, true in zip(labels, expected, strict=True):
        assert_same(true.numpy(force=True), found[label], what=f"{name}, by {label}")
    lines = program.backward()
    arrays = {own: program.arrays[tensor.name] for own, tensor in zip(lines.inputs, lines.source.inputs, strict=True)}
    pasted = run_lines(lines, arrays)
    own = {program.labels[tensor]: value for tensor, value in pasted.items()}
    for label, true in zip(labels, expected, strict=True):
        assert_same(true.numpy(force=True), own[label].numpy(), what=f"{name}, the lines, by {label}")


def test_what_shares_entries_is_the_same_after_a_gradient_was_asked_of_it() -> None:
    """As `torch.autograd.functional.jacobian` asks ``w.detach()``: nothing was written."""

    def loss(w: torch.Tensor) -> torch.Tensor:
        residual = w * 3 - 1
        w.detach().requires_grad_()
        return (grad((residual * w).sum(), w)[0] ** 2).sum()

    w = torch.tensor([0.5, -2.0], dtype=DOUBLE)
    leaf = w.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(leaf), leaf)
    assert_same(expected, symgrad.capture(loss, w).pullback()["w"])


def test_the_backward_is_listed_in_its_lines() -> None:
    """Recorded cotangents are called v_…, so those of the loss have another letter."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1)).double()

    def penalty(x: torch.Tensor) -> torch.Tensor:
        score = net(x)
        (slope,) = torch.autograd.grad(score, x, torch.ones_like(score), create_graph=True)
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    program = symgrad.capture(penalty, torch.rand(4, 2, dtype=DOUBLE))
    assert [line for line in program.operations if line.startswith(("v_", "slope"))] == [
        "v_t2 = data * 2.weight", "v_t1 = v_t2 * (1 - t2 ** 2)", "slope = v_t1 @ 0.weight",
    ]  # fmt: skip
    lines = program.backward()
    assert lines.letter == "g"
    assert "g_v_t1 = g_slope @ 0.weight.T" in map(str, lines.lines)


def test_weights_that_are_ones_are_written_as_ones() -> None:
    """The line of the first gradient, where its own seed is the number 1."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(torch.tanh(x).sum(), x, create_graph=True)[0].pow(2).sum()

    found = symgrad.capture(loss, torch.randn(3, dtype=torch.float64, requires_grad=True))
    assert "v_t1 = ones_like(t1)" in found.operations


def test_a_recorded_gradient_has_a_page_and_derivatives_of_its_own() -> None:
    """Every oracle agrees, torch's triple backward among them; what counts by its shape alone is no use."""

    def squared(x: torch.Tensor) -> torch.Tensor:
        return (grad(torch.tanh(x).sum(), x)[0] ** 2).sum()

    found = symgrad.capture(squared, torch.tensor([1.0, 2.0], dtype=DOUBLE)).explain(order=2)
    assert found.passed
    assert [check.passed for check in found.hessian("x").checks] == [True, True, True]
    assert "the pullback" not in found.expression
    page = found.to_text()
    assert "v_t1[p]·(1 − t1[p]²)" in page
    assert "x is used" not in page


def test_a_gradient_that_is_not_what_was_derived_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The steps are held against torch's own gradient: forget one way back, and nothing is explained."""
    plain = rewrites.steps_back

    def without_the_last(*arguments: Any) -> Any:
        steps, found = plain(*arguments)
        return steps, {name: None if name == "x" else end for name, end in found.items()}

    monkeypatch.setattr(rewrites, "steps_back", without_the_last)
    with pytest.raises(UnsupportedError, match="differentiated again differs from the derived one"):
        symgrad.capture(lambda x: grad((x**3).sum(), x)[0].sum(), torch.tensor([1.0, 2.0]))


def test_a_black_box_under_a_gradient_is_named() -> None:
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x)
            return torch.from_numpy(np.tan(x.detach().numpy()))

        @staticmethod
        def backward(ctx: Any, v: torch.Tensor) -> torch.Tensor:  # type: ignore[override]  # torch takes any number
            return v * ctx.saved_tensors[0]

    with pytest.raises(UnsupportedError, match="cannot be differentiated again: that operation is not derived"):
        symgrad.capture(lambda x: grad(Own.apply(x * x).sum(), x)[0].sum(), torch.tensor([0.1, 0.2]))


@pytest.mark.one_in(2)
@pytest.mark.parametrize("layer", [nn.Linear(2, 3), nn.Conv1d(2, 3, 1), nn.LayerNorm(2), nn.Identity()])
def test_a_pullback_that_reads_only_a_shape_passes_nothing_on(layer: nn.Module, tmp_path: Path) -> None:
    """The gradient of what is linear in x does not depend on x: J is 0, in words as in numbers."""
    source = """
import torch
from torch import nn
x = torch.ones(2, 2, requires_grad=True)
layer = nn.{layer}
g, = torch.autograd.grad(layer(x).sum(), x, create_graph=True)
(g * g + 0 * x).sum().backward()
"""
    path = tmp_path / "script.py"
    path.write_text(source.format(layer=layer), encoding="utf-8")
    session = run_script(str(path), [])
    assert [(call.explained, call.agrees) for call in session.calls] == [(True, True)] * 2
    assert not session.calls[1].leaves[0].added.any()
    assert "g = sum" not in "".join(session.calls[0].program)


@pytest.mark.parametrize(
    ("gradient", "said"),
    [
        ("Square.apply(x).sum()", "by Square.backward, whose result has no history"),
        ("(2 * x).sum()", "by differentiation: this gradient is a constant"),
    ],
)
def test_where_the_history_of_a_gradient_ends(gradient: str, said: str, tmp_path: Path) -> None:
    source = f"""
import torch
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.twice = 2 * x
        return x ** 2
    @staticmethod
    def backward(ctx, v):
        return v * ctx.twice
x = torch.ones(2, requires_grad=True)
g, = torch.autograd.grad({gradient}, x, create_graph=True)
(g ** 2).sum().backward()
"""
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    session = run_script(str(path), [])
    reasons = " ".join(session.calls[1].reasons)
    assert "the path from x to" in reasons
    assert said in reasons


def test_the_gradient_of_a_parameter_has_its_name_as_the_script_writes_it(tmp_path: Path) -> None:
    """It was called v_net_0__weight, as nobody writes it."""
    source = """
import torch
net, x = torch.nn.Sequential(torch.nn.Linear(2, 2)), torch.randn(3, 2)
d = {"a.b": torch.ones(2, requires_grad=True)}
def f():
    loss = net(x).pow(2).sum() + d["a.b"].exp().sum()
    found = torch.autograd.grad(loss, [net[0].weight, d["a.b"]], create_graph=True)
    return sum(g.pow(2).sum() for g in found)
f().backward()
"""
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    lines = " ".join(run_script(str(path), []).calls[1].told.forward)
    assert "v_net[0].weight = " in lines
    assert "v_d['a.b'] = " in lines
    assert "__" not in lines


def test_no_two_tensors_of_a_gradient_of_gradients_have_one_name(tmp_path: Path) -> None:
    """What is only broadcast is not listed: its cotangent had the name of one that is, and v_t2 = v_t2 stood there."""
    source = """
import torch
torch.manual_seed(0)
w = [torch.randn(s, requires_grad=True) for s in ((1, 4), (4,), (4, 1), (1,))]
net = lambda w: torch.relu(torch.randn(5, 1) @ w[0] + w[1]) @ w[2] + w[3]
loss = 0.0
for task in range(2):
    fast = w
    for step in range(2):
        g = torch.autograd.grad((net(fast) ** 2).mean(), fast, create_graph=True)
        fast = [p - 0.1 * q for p, q in zip(fast, g)]
    loss = loss + (net(fast) ** 2).mean()
loss.backward()
"""
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    for call in run_script(str(path), []).calls:
        made = [line.partition(" = ")[0] for line in (*call.program, *call.told.lines)]
        assert len(set(made)) == len(made), [name for name in made if made.count(name) > 1]
        scalars = {line.partition(" = ")[0] for line in call.program if "mean(" in line}
        broadcast = [line for line in call.program if line.startswith("v_") and ".sum(0)" in line]
        assert not [line for line in broadcast for name in scalars if f" v_{name}.sum(0)" in line]
