"""Equal calls are lifted once: what the second one is written from gives the same program and the same numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from symgrad.tracing import capture
from symgrad.tracing.lift import templates
from symgrad.tracing.lift.values import standard_form
from tests.compare import assert_same


def gradients(function, *inputs):
    """Derived and torch's, for a seed of random numbers."""
    program = capture(function, *inputs)
    leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
    out = function(*leaves)
    seed = torch.randn(out.shape, dtype=out.dtype, generator=torch.Generator().manual_seed(1))
    moving = [leaf for leaf in leaves if leaf.requires_grad]
    return program, program.pullback(seed.numpy()), torch.autograd.grad(out, moving, seed)


def loop(cell):
    def run(x, h):
        for part in x.split(1):
            h = cell(part, h)
        return h

    return run


DRAW = torch.Generator().manual_seed(0)


def rows(*shape):
    return torch.randn(*shape, dtype=torch.float64, generator=DRAW)


W, U = rows(4, 4), rows(8, 8)
LOOPS = {
    "gru cell": lambda x, h: torch.gru_cell(x, h, rows(12, 4) * 0 + 0.1, W.repeat(3, 1), None, None),
    "linear and tanh": lambda x, h: torch.tanh(F.linear(h, W) + x) * 2,
    "sorted": lambda x, h: torch.sort(x * h, dim=-1)[0],
    "median and top": lambda x, h: (x + h).topk(4, dim=-1)[0] * x.median(),
    "pooled": lambda x, h: F.max_pool1d((x + h)[:, None], 3, 1, 1)[:, 0],
    "softplus on both sides of its shortcut": lambda x, h: F.softplus(x * 30) + h,
    "picked": lambda x, h: h[:, [1, 0, 3, 2]] * x.roll(1, -1),
    "clamped by tensors": lambda x, h: torch.clamp(h, min=x),
    "the same twice, then two": lambda x, h: x * x + x * h,
    "in place": lambda x, h: (h * 2).add_(x).relu_(),
    "norm": lambda x, h: F.layer_norm(x + h, (4,)) * h.norm(),
    "whole numbers and floats": lambda x, h: (h**2) * (x**2.0) + h * 1 + h * 1.0,
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_equal_calls(name):
    run = loop(LOOPS[name])
    x, h = rows(5, 4), rows(1, 4)
    templates.KNOWN.clear()
    first, derived, true = gradients(run, x, h)
    again, second, _ = gradients(run, x, h)
    assert not first.black_boxes
    for label, expected in zip(("x", "h"), true, strict=True):
        assert_same(expected, derived[label], what=label)
        np.testing.assert_array_equal(derived[label], second[label])
    assert [step.op for step in first.recording.steps] == [step.op for step in again.recording.steps]


def test_equal_calls_are_written_from_the_first():
    templates.KNOWN.clear()
    x = rows(5, 4)
    capture(loop(lambda part, h: torch.tanh(h @ W + part)), x, rows(1, 4))
    kept = len(templates.KNOWN)
    capture(loop(lambda part, h: torch.tanh(h @ W + part)), rows(9, 4), rows(1, 4))
    assert 3 <= kept <= len(templates.KNOWN) <= kept + 9  # split gives parts of another tensor


def test_positions_and_sorting_are_no_templates():
    templates.KNOWN.clear()
    table = rows(6, 2)
    for index in ([0, 1, 2], [2, 2, 5], [-1, 0, 3]):
        places = torch.tensor(index)
        _, derived, (true,) = gradients(lambda w, p=places: w[p] * w.index_select(0, p % 6), table)
        assert_same(true, derived["w"])
    for shift in (0.0, 1.0, 3.0):
        x = rows(4) + torch.tensor([shift, 0, 0, -shift], dtype=torch.float64)
        _, derived, (true,) = gradients(lambda x: x.sort()[0] * x.kthvalue(2)[0] * x.max(0)[0], x)
        assert_same(true, derived["x"])
    kept = {step.op for template in templates.KNOWN.values() for step, *_ in template.steps}
    assert kept
    assert not kept & {"index_select", "gather", "take", "take_along_dim", "embedding", "identity"}


def test_random_numbers_are_drawn_for_each_call():
    templates.KNOWN.clear()
    x = rows(40)

    def run(x):
        return F.dropout(x, 0.5) * F.dropout(x, 0.5)

    torch.manual_seed(3)
    program = capture(run, x)
    torch.manual_seed(3)
    leaf = x.clone().requires_grad_()
    out = run(leaf)
    assert_same(torch.autograd.grad(out.sum(), leaf)[0], program.pullback(np.ones(40))["x"])


def test_what_two_equal_calls_read_may_be_one_tensor_or_two():
    templates.KNOWN.clear()

    def run(x, y):
        return torch.addmm(x, x, y) @ torch.addmm(x, y, y) @ torch.addmm(y, y, x)

    _, derived, true = gradients(run, rows(4, 4), rows(4, 4))
    for label, expected in zip("xy", true, strict=True):
        assert_same(expected, derived[label])


def test_a_call_with_another_value_is_lifted_the_long_way(monkeypatch):
    """A template whose steps do not give torch's value is not used."""
    templates.KNOWN.clear()
    x = rows(3, 4)
    capture(lambda x: torch.tanh(x), x)
    key, kept = next(iter(templates.KNOWN.items()))
    wrong = replace(kept.steps[0][0], op="sin")
    form = standard_form(wrong, {str(wrong.arguments[0]): x.numpy()})
    templates.KNOWN[key] = replace(kept, steps=((wrong, form),))
    program = capture(lambda x: torch.tanh(x), x)
    assert [s.op for s in program.recording.steps] == ["tanh"]


@pytest.mark.slow
def test_the_cells_of_a_recurrent_network_in_float32_and_float64():
    for dtype in (torch.float64, torch.float32):
        cell = nn.LSTMCell(3, 4).to(dtype)

        def run(x, cell=cell, dtype=dtype):
            h = c = torch.zeros(2, 4, dtype=dtype)
            for part in x.split(3, dim=1):
                h, c = cell(part, (h, c))
            return h + c

        templates.KNOWN.clear()
        x = rows(2, 12).to(dtype)
        program, derived, (true,) = gradients(run, x)
        assert not program.black_boxes
        assert_same(true, derived["x"], tolerance=1e-9 if dtype == torch.float64 else 1e-5)
