"""A captured program, asked in every way: each answer is torch's own gradient of the function, or its Jacobian."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from symgrad import Capture, capture
from tests.compare import assert_same

Function = Callable[..., torch.Tensor]


def slope(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """A gradient that is differentiated again."""
    x = x if x.requires_grad else x.requires_grad_()
    (found,) = torch.autograd.grad((torch.tanh(x * w) * w).sum(), x, create_graph=True)
    return found * x


def slope_of_a_solution(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    """The same of an operation whose slope reads what stands neither before nor behind it: an inverse."""
    w = w if w.requires_grad else w.requires_grad_()
    (found,) = torch.autograd.grad(torch.linalg.solve(x + 2 * torch.eye(2), w).exp().sum(), w, create_graph=True)
    return found * w


PROGRAMS: dict[str, tuple[Function, tuple[tuple[int, ...], ...]]] = {
    "windows": (lambda x: x.unfold(1, 3, 1) * x[:, :3, None], ((2, 5),)),
    "windows apart": (lambda x: (x * x).unfold(0, 2, 3).sum(-1), ((8,),)),
    "fold": (lambda x: F.fold(x.tanh(), (3, 4), 2), ((2, 4, 6),)),
    "unfold": (lambda x: F.unfold(x.exp()[None], 2, padding=1), ((1, 3, 3),)),
    "convolution": (lambda x, w: F.conv1d(x, w, stride=2, padding=2, dilation=2), ((1, 2, 6), (2, 2, 3))),
    "pool": (lambda x: F.avg_pool1d(F.max_pool1d(x, 3, stride=2, padding=1), 2, stride=1), ((1, 1, 7),)),
    "shifted": (lambda x: x[2:] * x[1:-1] - x[:-2].flip(0), ((5, 2),)),
    "parts": (lambda x, y, z: torch.cat([x, y * x, z, y], 1).tanh() ** 2, ((2, 1), (2, 1), (2, 3))),
    "stacked": (lambda x, y: torch.stack([x, y, x * y, y], 1).softmax(1), ((3,), (3,))),
    "many joined": (lambda x: torch.cat([x * n for n in range(1, 10)], 1).tanh(), ((2, 2),)),
    "many stacked": (lambda x: torch.stack([x + n for n in range(9)]).exp(), ((2,),)),
    "read often": (lambda x: x * x.sin() + x.exp() / (1 + x * x) - x, ((2, 3),)),
    "normalised": (lambda x, w: F.layer_norm(x * w, (3,), w), ((2, 3), (3,))),
    "picked": (lambda x: x.flip(1).diagonal(1), ((2, 3),)),
    "running": (lambda x: x.cumsum(0).exp() + x.cumprod(0), ((3,),)),
    "arithmetic": (lambda x, y: torch.remainder(x, y) * (x % 0.4) + torch.fmod(y, x) - x ** y / torch.atan2(x, y), ((2, 3), (3,))),
    "slope": (slope, ((2, 3), (3,))),
    "slope of a solution": (slope_of_a_solution, ((2, 2), (2,))),
}  # fmt: skip


def given(name: str) -> tuple[Function, list[torch.Tensor], Capture, torch.Tensor, list[torch.Tensor]]:
    """A function, what it is applied to, what is captured of it, a seed, and what torch sends back for that."""
    function, shapes = PROGRAMS[name]
    generator = torch.Generator().manual_seed(len(name))
    values = [torch.rand(shape, generator=generator, dtype=torch.float64) + 0.5 for shape in shapes]
    out = function(*(leaves := [value.clone().requires_grad_() for value in values]))
    seed = torch.randint(-4, 5, out.shape, generator=generator).double()
    return function, values, capture(function, *values), seed, [*torch.autograd.grad(out, leaves, seed)]


@pytest.mark.one_in(3, alone=3)
@pytest.mark.parametrize("name", PROGRAMS)
def test_whatever_is_asked_of_a_program_is_torchs(name: str) -> None:
    function, values, program, seed, expected = given(name)
    jacobians = torch.autograd.functional.jacobian(function, tuple(values), vectorize=False)
    changes = {
        label: torch.linspace(-1, 2, v.numel()).reshape(v.shape).numpy()
        for label, v in zip(program.inputs, values, strict=True)
    }
    pairs = zip(jacobians, changes.values(), strict=True)
    moved = sum(j.reshape(seed.numel(), -1).numpy() @ c.reshape(-1) for j, c in pairs)
    assert_same(moved.reshape(seed.shape), program.pushforward(changes), what=name)
    by_numbers, by_tensors = program.pullback(seed.numpy()), program.pullback(seed, backend="torch")
    for label, right, rows in zip(program.inputs, expected, jacobians, strict=True):
        assert_same(right, by_numbers[label], what=f"{label} of {name}")
        assert_same(right, by_tensors[label], what=f"{label} of {name} on tensors")
        assert_same(rows.reshape(seed.numel(), -1), program.jacobian(label).dense(), what=f"J by {label} of {name}")


@pytest.mark.one_in(3, alone=3)
@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "slope of a solution"])  # its g has no line
def test_the_lines_of_a_program_run(name: str) -> None:
    _, values, program, seed, expected = given(name)
    lines = program.backward(seed.numpy())
    space: dict[str, Any] = {}
    exec(lines.code(), space)
    found = space["backward"](*values, seed)
    for right, own in zip(expected, [found] if len(values) == 1 else found, strict=True):
        assert_same(right, own, what=f"{name}: {lines.code()}")


@pytest.mark.parametrize("name", ["windows apart", "windows", "shifted", "running", "arithmetic", "parts", "stacked"])
def test_a_program_is_pulled_back_on_jax(name: str) -> None:
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    jax = pytest.importorskip("jax")
    _, _, program, seed, expected = given(name)
    with jax.enable_x64(True):
        found = program.pullback(jax.numpy.asarray(seed.numpy()), backend="jax")
    for right, own in zip(expected, found.values(), strict=True):
        assert_same(right, np.asarray(own))


VIEWS: list[tuple[Function, tuple[int, ...], str]] = [
    (lambda x: x.flatten(1).exp(), (2, 3, 2), "x.flatten(1)"),
    (lambda x: x.transpose(0, 1).squeeze(2).exp(), (2, 3, 1), "x.transpose(0, 1).squeeze(2)"),
    (lambda x: x.permute(2, 0, 1)[..., None].exp(), (2, 3, 2), "x.permute(2, 0, 1)[:, :, :, None]"),
    (lambda x: x.diagonal(1).tile(2, 1).exp(), (3, 3), "x.diagonal(1).tile(2, 1)"),
    (lambda x: x.reshape(3, 4).narrow(1, 0, 2).exp(), (2, 3, 2), "x.reshape(3, 4).narrow(1, 0, 2)"),
]


@pytest.mark.parametrize(("function", "shape", "views"), VIEWS, ids=[views for *_, views in VIEWS])
def test_views_are_read_from_the_left_as_they_are_called(
    function: Function, shape: tuple[int, ...], views: str
) -> None:
    program = capture(function, torch.ones(shape))
    (line,) = program.backward(np.ones(program.results[0].shape)).forward
    assert str(line) == f"out = exp({views})"
