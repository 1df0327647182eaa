"""Captured programs: what is recorded, and that the derived vᵀJ is torch's, in float64."""

from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

import symgrad
from symgrad.errors import InputError, ShapeError, UnknownNameError, UnsupportedError
from symgrad.tracing import capture
from symgrad.tracing.lift.values import find_difference, is_constant_array
from tests.compare import assert_same


def randn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def assert_like_torch(fn, *args, tolerance=1e-9, boxes=()):
    """Capture, pull a random seed back, compare with autograd; the black boxes are exactly ``boxes``."""
    state = torch.get_rng_state()
    program = capture(fn, *args)
    torch.set_rng_state(state)
    leaves = [a.detach().clone().requires_grad_() if a.is_floating_point() else a for a in args]
    result = fn(*[a.clone() for a in leaves])
    outputs = [t for t in (result if isinstance(result, (tuple, list)) else (result,)) if t.requires_grad]
    seeds = [randn(*t.shape, seed=n) if t.dim() else torch.tensor(1.5 + n) for n, t in enumerate(outputs)]
    parameters = dict(fn.named_parameters()) if isinstance(fn, nn.Module) else {}
    wanted = [t for t in leaves if t.requires_grad] + list(parameters.values())
    expected = torch.autograd.grad(
        outputs, wanted, [s.to(t.dtype) for s, t in zip(seeds, outputs, strict=True)], allow_unused=True
    )
    found = program.pullback(seeds if len(seeds) > 1 else seeds[0])
    names = [n for n in program.inputs if n not in parameters] + list(parameters)
    assert len(names) == len(wanted)
    for name, right in zip(names, expected, strict=True):
        right = np.zeros(found[name].shape) if right is None else right.numpy()
        np.testing.assert_allclose(
            np.asarray(found[name], dtype=float),
            right,
            rtol=0,
            atol=tolerance * max(1.0, np.abs(right).max(initial=0)),
            err_msg=name,
        )
    assert tuple(box.spelling for box in program.black_boxes) == tuple(boxes)
    return program


# The level people write -----------------------------------------------------------------------------------


def two_steps(x, a):
    h = torch.mm(x, a)
    return F.relu(h) * 2 + x.sum()


def test_operations_and_names_are_the_authors():
    program = assert_like_torch(two_steps, randn(2, 3), randn(3, 4))
    assert program.inputs == ("x", "a")
    assert program.operations[:3] == ("h = x @ a", "t1 = relu(h)", "t2 = t1 * 2")
    assert "input  x  2×3  float64" in repr(program)
    assert "output" in repr(program)


def test_the_recording_is_the_program_that_text_gives():
    captured = capture(lambda x, a: torch.tanh(x @ a), randn(2, 3), randn(3, 4)).recording
    read, _ = symgrad.derive("tanh(x @ a)", shapes={"x": (2, 3), "a": (3, 4)})
    assert [s.op for s in captured.steps] == [s.op for s in read.steps]
    assert [s.options for s in captured.steps] == [s.options for s in read.steps]


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: 2 * x + 1 - x / 3 + (1 - x) ** 2 - (-x),
        lambda x: (x @ x.T, x.T @ x, x.mT.sum(0)),
        lambda x: 1 / (x * x + 1) + 2.0**x,
        lambda x: x[0, 1:] * x[..., -2:][1] + x[:, None, 0].sum(),
        lambda x: torch.einsum("ij,kj->ik", x, x),
        lambda x: x.permute(1, 0).reshape(-1).view(3, 2).flatten().unsqueeze(0).expand(2, 6),
        lambda x: torch.cat([x, x * 2], dim=1).sum(dim=-1, keepdim=True).squeeze(),
        lambda x: x.max(dim=1).values + x.amin(1) + x.max(),
        lambda x: F.softmax(x, dim=-1) * F.log_softmax(x, 0),
        lambda x: F.cross_entropy(x, torch.tensor([2, 0])),
        lambda x: torch.where(x > 0, x, x.exp()),
        lambda x: x.double().to(torch.float64).contiguous().float().double() * 1.0,
        lambda x: torch.add(x, x * x, alpha=3) + torch.addmm(x, x @ x.T, x, beta=2),
        lambda x: torch.clamp(x, -0.5, 0.5).norm() + x.std() + x.var(dim=0).sum(),
    ],
)
def test_functions_methods_and_operators(fn):
    tolerance = 1e-6 if "float" in str(fn.__code__.co_names) else 1e-9
    assert_like_torch(fn, randn(2, 3), tolerance=tolerance)


SEVERAL = [
    lambda x, y: torch.clamp(x, y, y + 0.5),
    lambda x, y: torch.clamp(x, max=y),
    lambda x, y: x.clamp_min(y).clamp_max(0.7),
    lambda x, y: torch.clamp_min(x, -0.2) + torch.clamp_max(y, 0.2),
    lambda x, y: F.softplus(x, 2.0, 0.5) * y,
    lambda x, y: torch.div(x, y, rounding_mode="floor") + torch.div(x, y, rounding_mode="trunc") + y,
    lambda x, y: torch.var_mean(x, dim=1)[0] + torch.var_mean(y, 1, keepdim=False)[1],
    lambda x, y: torch.std_mean(x)[0] * torch.std_mean(y, unbiased=False)[0] + torch.std_mean(x)[1],
    lambda x, y: torch.angle(x) * y,
    lambda x, y: torch.fill(x, 2.0) * y,
    lambda x, y: torch.fill(x, True) * y + torch.fill(y, False),
    lambda x, y: torch.fill(x, y[0, 0]) * x,
    lambda x, y: torch.constant_pad_nd(x, (1, 2), 3.0).sum(0) * torch.constant_pad_nd(y, (2, 1)),
    lambda x, y: torch.norm(x, float("inf")) * torch.norm(y, float("-inf"), dim=1),
    lambda x, y: torch.slice_scatter(x, y[:, :2], 1, 1, 3) * x,
    lambda x, y: torch.diagonal_scatter(x, y[:, 0]) * x,
    lambda x, y: torch.masked_scatter(x, torch.tensor([[True, False, True]]), y) * x,
    lambda x, y: torch.put(x, torch.tensor([1, 4]), y[0, :2]) * x,
    lambda x, y: torch.linalg.inv(x @ y.T) @ x,
    lambda x, y: torch.linalg.solve(x @ y.T, y[:, 0]),
    lambda x, y: torch.linalg.solve(x @ y.T, y, left=True) * x,
    lambda x, y: torch.linalg.solve(x @ y.T, x.T, left=False),
    lambda x, y: torch.permute_copy(x, (1, 0)) @ torch.view_copy(y, (2, 3)),
]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("fn", SEVERAL)
def test_calls_that_are_several_entries_of_the_table(fn):
    assert_like_torch(fn, randn(2, 3), randn(2, 3, seed=7))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: [part * n for n, part in enumerate(x.chunk(2, 0), 2)],
        lambda x: [part.exp() for part in torch.split(x, [1, 2], dim=1)],
        lambda x: [part * part for part in x.unbind(1)],
        lambda x: x.flip(0) * x.roll(1, 1),
        lambda x: x[torch.tensor([0, 0, 1])] * 2,
        lambda x: x[x > 0] * 3,
        lambda x: torch.gather(x, 1, torch.tensor([[0, 0], [2, 1]])),
        lambda x: x.sort(dim=1).values * torch.tensor([1.0, 2.0, 3.0]),
        lambda x: x.topk(2, dim=1).values.exp(),
        lambda x: x.unfold(1, 2, 1) * 2,
        lambda x: x.diagonal() + x.movedim(0, 1).reshape(-1)[:2],
    ],
)
def test_choices_of_entries_are_derived(fn):
    assert_like_torch(fn, randn(2, 3))


# In place, views, versions --------------------------------------------------------------------------------


def in_place(x):
    y = x * 1
    y += 1
    y.mul_(x).exp_()
    return y


def slices_written(x):
    y = x * 2
    y[0] = x[1] * x[0]
    y[:, 1:] *= 3
    y[y > 2] = 0.5
    return y


def through_a_view(x):
    y = x.clone()
    row = y[0]
    flat = y.view(-1)
    flat[1:4].mul_(x.reshape(-1)[2:5])
    row.add_(1)
    return y * 2, flat.sum(), row


def base_written(x):
    y = x * 1
    part = y[:, 0]
    y.mul_(x)
    return part, y


def out_argument(x):
    with torch.no_grad():
        buffer = torch.empty(2, 3, dtype=torch.float64)
    return torch.nn.functional.relu(x * 2, inplace=True) + buffer.copy_(x)


def data_then_gradient(x):
    y = torch.zeros(2, 3, dtype=torch.float64)
    y[0] = x[1]
    y[1] = x[0] ** 2
    return y


@pytest.mark.parametrize(
    "fn", [in_place, slices_written, through_a_view, base_written, out_argument, data_then_gradient]
)
def test_in_place_writes_make_new_versions(fn):
    assert_like_torch(fn, randn(2, 3))


WRITES = (
    lambda w: w[0].fill_(3), lambda w: w[0].zero_(), lambda w: w[:, 1].copy_(torch.tensor([5.0, 7.0])),
    lambda w: w[0].mul_(2), lambda w: w.view(-1)[2:4].add_(1), lambda w: w.T[0].normal_(), lambda w: w[0].uniform_(),
    lambda w: w.data[0].fill_(3), lambda w: w.detach()[0].fill_(3), lambda w: w.__setitem__(0, 3.0),
    lambda w: w[0][1:].fill_(3), lambda w: torch.nn.init.orthogonal_(w), lambda w: torch.nn.init.constant_(w[0], 3),
)  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_a_leaf_that_is_written_through_a_view_has_its_new_value(write):
    """nn.Embedding with padding_idx writes its row so: the leaf stays a leaf, its numbers are those that ran."""
    x, held = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64), []

    def fn(w):
        with torch.no_grad():
            assert w[0].dim() == 1  # the view is known before
            write(w)
            held.append(w.detach().clone())
        return (w * w * x).sum()

    program = capture(fn, torch.nn.Parameter(torch.arange(1.0, 7.0, dtype=torch.float64).reshape(2, 3)))
    assert_same(2 * held[0] * x, next(iter(program.pullback(1).values())), what="the leaf written")


def test_what_an_overwritten_value_was_is_kept():
    def fn(x):
        y = x * 2
        z = y * y  # its pullback mentions y as it was
        with torch.no_grad():
            kept = y.clone()
        return z.sum() + kept.sum() * 0

    def overwriting(x):
        y = x * 2
        z = y + x
        y.add_(100)
        return z * x

    assert_like_torch(fn, randn(2, 3))
    assert_like_torch(overwriting, randn(2, 3))


def test_a_write_that_nobody_saw_is_refused():
    def fn(x):
        y = x * 2
        z = y * x
        y.detach().numpy()[:] = 0  # no version counts this
        return z

    with pytest.raises(UnsupportedError, match="modified through NumPy"):
        capture(fn, randn(2, 3))


@pytest.mark.parametrize(
    "write",
    [
        lambda y: np.asarray(y.detach()).__setitem__(0, 9.0),
        lambda y: torch.from_dlpack(y.detach()).numpy().__setitem__(0, 9.0),
        lambda y: y.detach().view(-1).numpy().__setitem__(0, 9.0),
        lambda y: y.detach().untyped_storage().__setitem__(7, 9),
        lambda y: y.data.numpy().__setitem__(0, 9.0),
    ],
)
@pytest.mark.parametrize("after", [False, True])
def test_no_write_through_shared_memory_gives_wrong_numbers(write, after):
    def fn(x):
        y = x * 2
        z = None if after else y * x
        write(y)
        return y * x if after else z

    with pytest.raises(UnsupportedError, match=r"modified through NumPy|now returns another value"):
        capture(fn, randn(2, 3))


def test_a_handle_taken_earlier_is_remembered():
    def fn(x):
        y = x * 2
        handle = y.detach().numpy()
        z = y.exp()
        w = y.view(-1) * 3  # a new tensor in the same memory
        handle[0] = 7
        return z.sum() + w.sum()

    with pytest.raises(UnsupportedError, match="modified through NumPy"):
        capture(fn, randn(2, 3))


def test_data_that_was_made_by_numpy_and_written_later():
    numbers = np.ones(3)
    data = torch.from_numpy(numbers)

    def fn(x):
        y = x * data
        numbers[:] = 5  # no tensor was asked for its memory: what the product gives now is not what it gave
        return y

    with pytest.raises(UnsupportedError, match="now returns another value"):
        capture(fn, randn(3))


def test_reading_through_numpy_and_writing_a_copy_are_fine():
    def fn(x):
        y = x * 2
        scale = float(y.detach().numpy().max())
        copy = y.detach().numpy().copy()
        copy[:] = 0
        return (y * scale).exp()

    program = capture(fn, randn(2, 3))
    x = randn(2, 3).requires_grad_()
    y = (x * 2 * float(2 * x.detach().max())).exp()
    np.testing.assert_allclose(program.pullback(np.ones((2, 3)))["x"], torch.autograd.grad(y.sum(), x)[0].numpy())


def test_a_program_keeps_the_values_of_its_run():
    net = nn.Linear(2, 1, bias=False).double()
    x = randn(1, 2)
    program = capture(net, x)
    before = program.pullback([[1.0]]), program.results[0].copy()
    with torch.no_grad():
        net.weight.fill_(100)
        x.fill_(100)
    np.testing.assert_array_equal(program.pullback([[1.0]])["input"], before[0]["input"])
    np.testing.assert_array_equal(program.pullback([[1.0]])["weight"], before[0]["weight"])
    np.testing.assert_array_equal(program.results[0], before[1])


def test_a_point_without_a_derivative_is_named():
    program = capture(lambda x: torch.pow(x, x) * 2, torch.zeros(2))
    before = repr(program)
    np.testing.assert_array_equal(program.pullback([1, 1])["x"], [0, 0])  # the equation gives 0 · log 0
    assert program.conventions == {"t1": "the slope is infinite or undefined at 0"}
    assert (
        "has no derivative at this point: the slope is infinite or undefined at 0; the numbers there follow torch's convention"
        in repr(program)
    )
    assert repr(program) == before  # what is told is the program's, whatever was asked of it


# Paths that are cut ---------------------------------------------------------------------------------------


def test_detach_cuts():
    program = assert_like_torch(lambda z: (z * z.detach()).sum(), randn(3))
    z = randn(3)
    np.testing.assert_allclose(program.pullback(1.0)["z"], z.numpy())


def test_no_grad_is_data():
    def fn(x):
        with torch.no_grad():
            scale = x.abs().max()
        return x / scale

    program = assert_like_torch(fn, randn(2, 3))
    assert len(program.data) == 1


def test_straight_through_rounding():
    assert_like_torch(lambda x: x + (x.round() - x).detach(), randn(2, 3))


def test_an_input_without_a_path_gets_zeros():
    program = capture(lambda x, y: x * 2, randn(2), randn(3))
    assert not program.pullback([1, 2])["y"].any()
    assert program.reaches("x")
    assert not program.reaches("y")


def test_dropout_is_the_mask_that_was_drawn():
    program = assert_like_torch(lambda x: F.dropout(x, 0.5) * x, randn(4, 5))
    assert any("mask" in name for name in program.data)


# Modules --------------------------------------------------------------------------------------------------


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.conv2, self.norm2 = nn.Conv2d(3, 3, 3, padding=1), nn.BatchNorm2d(3)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        y += x
        return self.relu(y)


class Net(nn.Module):
    """LeNet as in the tutorial: ten parameter tensors."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, image):
        hidden = F.max_pool2d(F.relu(self.conv1(image)), 2)
        hidden = F.max_pool2d(F.relu(self.conv2(hidden)), 2)
        hidden = torch.flatten(hidden, 1)
        hidden = F.relu(self.fc1(hidden))
        hidden = F.relu(self.fc2(hidden))
        return self.fc3(hidden)


def seeded(make):
    torch.manual_seed(0)
    return make().double()


def test_lenet_is_derived_and_right():
    program = assert_like_torch(seeded(Net), randn(1, 1, 32, 32))
    assert "conv1.weight" in program.inputs
    assert len(program.inputs) == 11
    assert program.operations[-1] == "out = linear(hidden_5, fc3.weight, fc3.bias)"
    assert program.closed_form("fc3.bias") == "v.sum(0)"


def test_a_residual_block_with_batch_norm_in_train_mode():
    assert_like_torch(seeded(Residual), randn(2, 3, 5, 5))


def test_an_lstm_cell():
    assert_like_torch(seeded(lambda: nn.LSTMCell(3, 4)), randn(2, 3))


def test_a_transformer_encoder_layer_with_dropout():
    layer = seeded(lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True))
    assert_like_torch(layer, randn(2, 5, 8))


def test_tied_weights_get_both_parts():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(torch.tanh(self.a(x)))

    program = assert_like_torch(seeded(Tied), randn(2, 3))
    assert program.inputs == ("x", "a.weight")


def test_frozen_parameters_and_buffers_are_data():
    layer = seeded(lambda: nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    layer[0].weight.requires_grad_(False)
    program = capture(layer.eval(), randn(4, 3))
    assert "0.weight" in program.data
    assert "1.running_mean" in program.data
    assert "0.bias" in program.inputs


def test_nested_containers():
    def fn(batch, *, scale):
        return {"loss": (batch["x"] * batch["pair"][1]).sum() * scale, "aux": [batch["pair"][0]]}

    program = capture(fn, {"x": randn(2), "pair": (randn(3), randn(2, seed=1))}, scale=2.0)
    assert program.inputs == ("batch.x", "batch.pair[0]", "batch.pair[1]")
    found = program.pullback([1.0, np.ones(3)])
    np.testing.assert_allclose(found["batch.x"], 2 * randn(2, seed=1).numpy())
    np.testing.assert_allclose(found["batch.pair[0]"], np.ones(3))


# Black boxes ----------------------------------------------------------------------------------------------


class TripleSlope(torch.autograd.Function):
    """A cube whose author claims another slope."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, v):
        (x,) = ctx.saved_tensors
        return v * 100 * x


def test_a_custom_function_is_a_black_box_with_its_own_backward():
    program = assert_like_torch(lambda x: TripleSlope.apply(x).sum(), randn(3), boxes=("TripleSlope.apply",))
    assert "■ not verified" in repr(program)
    with pytest.raises(UnsupportedError, match=r"no derivation|not derived"):
        program.closed_form("x")
    with pytest.raises(UnsupportedError, match=r"no derivation|not derived"):
        program.explain()
    pushed = program.pushforward({"x": np.ones(3)})
    assert pushed == pytest.approx(float((100 * randn(3)).sum()))


def test_what_no_equation_reaches_is_a_black_box_and_right():
    program = assert_like_torch(
        lambda x: torch.as_strided_scatter(x, x[0, :2], (2,), (1,)).sum() * x.sum(),
        randn(3, 3),
        boxes=("torch.as_strided_scatter",),
    )
    (box,) = program.black_boxes  # with its reason, and not with the names that torch's parts of it have
    assert (
        box.reason == "torch's backward passes on the gradient of the overwritten entries, not of those that were kept"
    )


# Program --------------------------------------------------------------------------------------------------


def test_pushforward_and_pullback_are_adjoint():
    program = capture(two_steps, randn(2, 3), randn(3, 4))
    u, v = {"x": randn(2, 3, seed=5).numpy(), "a": randn(3, 4, seed=6).numpy()}, randn(2, 4, seed=7).numpy()
    there = float((v * program.pushforward(u)).sum())
    back = program.pullback(v)
    assert there == pytest.approx(sum(float((back[n] * u[n]).sum()) for n in u))


def test_closed_form_jacobian_and_explanation():
    program = capture(lambda x, a: torch.mm(x, a), randn(2, 3), randn(3, 4))
    assert program.closed_form("x") == "v @ a.T"
    assert program.jacobian("x").shape == (8, 6)
    explanation = program.explain(np.arange(8).reshape(2, 4))
    assert explanation.passed
    np.testing.assert_allclose(explanation.gradients["a"].value, randn(2, 3).numpy().T @ np.arange(8).reshape(2, 4))


def test_a_variable_called_out_or_v():
    def fn(v, out):
        return v * out

    program = assert_like_torch(fn, randn(3), randn(3, seed=1))
    assert program.closed_form(program.inputs[1]) is not None


def test_seeds_are_checked():
    program = capture(lambda x: x * 2, randn(3))
    with pytest.raises(ShapeError, match="seed is a weight"):
        program.pullback()
    with pytest.raises(ShapeError, match="one weight for each"):
        program.pullback([1.0, 2.0])
    with pytest.raises(UnknownNameError):
        program.closed_form("y")


def test_float32_is_kept_and_agrees():
    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
    program = capture(lambda x: F.softmax(x, -1) * x, x)
    leaf = x.clone().requires_grad_()
    (F.softmax(leaf, -1) * leaf).sum().backward()
    assert program.results[0].dtype == np.float32
    np.testing.assert_allclose(program.pullback(np.ones((2, 3)))["x"], leaf.grad.numpy(), rtol=1e-5, atol=1e-6)


# Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "arguments", "error", "message"),
    [
        (lambda x: 3, (torch.ones(2),), InputError, "no tensor"),
        (lambda x: x.argmax(), (torch.ones(2),), InputError, "only integers"),
        (lambda x: torch.func.grad(lambda y: (y**2).sum())(x) * x, (torch.ones(2),), UnsupportedError, "not recorded"),
        ("not callable", (), InputError, "function or a module"),
    ],
)
def test_bad_input(fn, arguments, error, message):
    with pytest.raises(error, match=message):
        capture(fn, *arguments)


def test_an_exception_of_the_function_passes_through():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        capture(lambda x: x @ x, torch.ones(2, 3))


def test_integers_are_data():
    program = capture(lambda x, n: x[n] * 2, randn(3), torch.tensor([0, 0, 2]))
    assert program.inputs == ("x",)
    np.testing.assert_allclose(program.pullback([1.0, 1.0, 1.0])["x"], [4, 0, 2])


def test_nothing_stays_patched():
    before = torch.autograd.Function.apply.__func__
    capture(lambda x: x * 2, randn(2))
    assert torch.autograd.Function.apply.__func__ is before
    assert not torch.overrides._get_current_function_mode_stack()


# --- what torch computed, told from what the table would ------------------------------------------------------

LAID_OUT = {
    "as it is": lambda a: a,
    "transposed": lambda a: np.asfortranarray(a),
    "backwards": lambda a: np.ascontiguousarray(a[::-1, ::-1])[::-1, ::-1],
    "in single precision": lambda a: a.astype(np.float32),
    "with gaps": lambda a: np.repeat(a, 2, axis=1)[:, ::2],
}


@pytest.mark.one_in(2)
@pytest.mark.parametrize("ours", LAID_OUT)
@pytest.mark.parametrize("theirs", LAID_OUT)
def test_no_entry_is_missed_however_arrays_lie(ours: str, theirs: str) -> None:
    draw = np.random.default_rng(4)
    plain = draw.integers(-8, 9, (130, 300)).astype(float)  # several pieces
    assert find_difference(LAID_OUT[ours](plain), LAID_OUT[theirs](plain), "float64") is None
    assert is_constant_array(LAID_OUT[ours](plain), LAID_OUT[theirs](plain))
    for at in ((0, 0), (129, 299), (129, 0), (64, 150)):
        for other in (plain[at] + 1e-3, np.nan, np.inf, -np.inf):
            changed = plain.copy()
            changed[at] = other
            told = f"at [{at[0]},{at[1]}]"
            assert told in (find_difference(LAID_OUT[ours](changed), LAID_OUT[theirs](plain), "float64") or "")
            assert told in (find_difference(LAID_OUT[ours](plain), LAID_OUT[theirs](changed), "float64") or "")
            assert not is_constant_array(LAID_OUT[ours](changed), LAID_OUT[theirs](plain))


def test_what_repeats_is_compared_once() -> None:
    row = np.arange(5.0)
    whole = np.broadcast_to(row, (10**9, 5))
    assert find_difference(whole, whole, "float64") is None
    assert "at [0,4]" in str(
        find_difference(np.broadcast_to(row, (3, 5)), np.broadcast_to(row * [1, 1, 1, 1, 2], (3, 5)), "float64")
    )
    assert find_difference(np.array([np.nan, np.inf, 1.0]), np.array([np.nan, np.inf, 1.0]), "float64") is None
    assert find_difference(np.array(1e9), np.array(1e9 + 0.5), "float64") is None  # of the largest entry
    assert find_difference(np.zeros((0, 3)), np.zeros((0, 3)), "float64") is None
    assert find_difference(np.zeros(()), np.ones(()), "float64") is not None


@pytest.mark.parametrize("shape", [(3, 3), (2, 4), (7, 3), (2, 2, 2)])
@pytest.mark.parametrize("wrap", [False, True])
@pytest.mark.parametrize("turn", [1, 1j])
def test_a_diagonal_that_is_written_over_keeps_the_rest(shape, wrap, turn):
    def filled(x):
        y = x * turn
        y.fill_diagonal_(2.0, wrap=wrap)
        return (y * y * turn).real

    assert_like_torch(filled, randn(*shape))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("p", [float("inf"), 1.0, 3.0])
@pytest.mark.parametrize("many", ["pdist", "cdist", "pairwise", "dist"])
def test_distances_in_single_precision(many: str, p: float, dtype: torch.dtype) -> None:
    """With p = ∞ the gradient goes to the difference that is the distance: torch's float32 was held against ours."""
    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(5, 3, generator=generator, dtype=dtype) for _ in range(2))
    calls = {
        "pdist": lambda x, y: F.pdist(x * y, p), "cdist": lambda x, y: torch.cdist(x, y, p),
        "pairwise": lambda x, y: F.pairwise_distance(x, y, p), "dist": lambda x, y: torch.dist(x, y, p),
    }  # fmt: skip
    out = calls[many](a := x.clone().requires_grad_(), b := y.clone().requires_grad_())
    weights = torch.randn(out.shape, generator=generator, dtype=dtype)
    out.backward(weights)
    found = capture(calls[many], x, y).pullback(weights)
    for leaf, got in zip((a, b), found.values(), strict=True):
        assert_same(leaf.grad.numpy(), got, tolerance=1e-5 if dtype == torch.float32 else 1e-12)


def test_steps_of_a_network_are_called_after_its_modules():
    """A module that has a number in the place of a name gives its values none."""
    layers = {"first": torch.nn.Linear(3, 4), "act": torch.nn.ReLU(), "last": torch.nn.Linear(4, 2)}
    net, numbered = torch.nn.Sequential(OrderedDict(layers)), torch.nn.Sequential(*layers.values())
    names = [
        [line.partition(" = ")[0] for line in symgrad.capture(own, torch.randn(2, 3)).operations]
        for own in (net, numbered)
    ]
    assert names == [["first.out", "act.out", "out"], ["t1", "t2", "out"]]


def test_a_call_of_several_results_is_in_the_program_once():
    program = symgrad.capture(torch.nn.LSTM(3, 4), torch.randn(2, 1, 3))
    names = [line.partition(" = ")[0] for line in program.operations]
    assert names.count("in_gate") == names.count("in_gate_2") == 1
    assert "in_gate_3" not in names
    assert program.data == ("h_zeros[0]", "c_zeros[0]")
    found = program.pullback([np.ones(t.shape) for t in program.results])
    assert np.isfinite(found["weight_hh_l0"]).all()


def test_a_long_chain_has_its_closed_form() -> None:
    """The steps of a program were gathered by one call inside the other."""

    def added(x: torch.Tensor) -> torch.Tensor:
        for _ in range(1050):
            x = x + 1
        return x

    assert symgrad.capture(added, torch.ones(3)).closed_form("x") == "v"
