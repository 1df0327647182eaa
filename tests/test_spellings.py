"""Further spellings of torch's in texts: the same numbers and gradients as torch's own call."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import symgrad
from symgrad.ops import find, find_compound
from symgrad.ops.calls.registry import OF_RUNS
from symgrad.tracing.lift.compositions import COMPOSITIONS
from tests.compare import assert_same

X, Y = [[1.0, -2.0, 0.5], [3.0, 0.25, -1.0]], [[2.0, 1.0, -3.0], [0.5, 4.0, 1.5]]
CALLS = {
    "F.dropout(x, training=False) * y": lambda x, y: F.dropout(x, training=False) * y,
    "F.alpha_dropout(x * y)": lambda x, y: F.alpha_dropout(x * y),
    "F.dropout1d(x, 0.) * torch.dropout(y, 0.5, False)": lambda x, y: (
        F.dropout1d(x, 0.0) * torch.dropout(y, 0.5, False)
    ),
    "F.softmin(x, 0) * y": lambda x, y: F.softmin(x, 0) * y,
    "torch.vstack([x, y[0], y])": lambda x, y: torch.vstack([x, y[0], y]),
    "torch.hstack((x, y))": lambda x, y: torch.hstack((x, y)),
    "torch.hstack((x[0], y[1]))": lambda x, y: torch.hstack((x[0], y[1])),
    "chunk(x, 2, 1)[-1] * y[:, :1]": lambda x, y: torch.chunk(x, 2, 1)[-1] * y[:, :1],
    "x.chunk(5, 1)[-2] * y[:, :1]": lambda x, y: x.chunk(5, 1)[-2] * y[:, :1],
    "x.split(2, dim=-1)[-1] * y[:, 1:]": lambda x, y: x.split(2, dim=-1)[-1] * y[:, 1:],
    "torch.split(x, [1, 2], 1)[-2] * y": lambda x, y: torch.split(x, [1, 2], 1)[-2] * y,
    "x.unbind()[-2] * y.unbind(1)[-1][0]": lambda x, y: x.unbind()[-2] * y.unbind(1)[-1][0],
    "torch.var_mean(x, 0)[-2] * y": lambda x, y: torch.var_mean(x, 0)[-2] * y,
    "x.detach() * x * y": lambda x, y: x.detach() * x * y,
    "torch.detach(x * y).exp() * x + y": lambda x, y: torch.detach(x * y).exp() * x + y,
    "x.unflatten(1, (3, 1)) * y[:, None]": lambda x, y: x.unflatten(1, (3, 1)) * y[:, None],
    "torch.unflatten(x, -1, (1, -1)) + y[:, None]": lambda x, y: torch.unflatten(x, -1, (1, -1)) + y[:, None],
    "torch.std_mean(x, 1)[0] * y[:, 0]": lambda x, y: torch.std_mean(x, 1)[0] * y[:, 0],
    "torch.var_mean(x, 0, correction=0).var * y": lambda x, y: torch.var_mean(x, 0, correction=0)[0] * y,
    "torch.var_mean(x, 0, keepdim=True)[1] * y": lambda x, y: torch.var_mean(x, 0, keepdim=True)[1] * y,
    "torch.div(x, y, rounding_mode='trunc') * x * y": lambda x, y: torch.div(x, y, rounding_mode="trunc") * x * y,
    "torch.div(x, y) * x": lambda x, y: torch.div(x, y) * x,
    "x.clamp_min(0.25) * y": lambda x, y: x.clamp_min(0.25) * y,
    "torch.clamp_max(x, 0.3) * y": lambda x, y: torch.clamp_max(x, 0.3) * y,
    "torch.div(x, y, rounding_mode='floor') * x * y": lambda x, y: torch.div(x, y, rounding_mode="floor") * x * y,
    "torch.meshgrid(x[0], y[0])[0] * torch.meshgrid(x[1], y[0])[-1]": lambda x, y: (
        torch.meshgrid(x[0], y[0], indexing="ij")[0] * torch.meshgrid(x[1], y[0], indexing="ij")[-1]
    ),
    "a, b = torch.meshgrid([x[0], y[0]], indexing='xy'); a * b": lambda x, y: torch.mul(
        *torch.meshgrid([x[0], y[0]], indexing="xy")
    ),
    "((x > 0) & ~(y > 1)) * x": lambda x, y: ((x > 0) & ~(y > 1)) * x + 0 * y,
    "where((x > 0) | (y > 2), x, y)": lambda x, y: torch.where((x > 0) | (y > 2), x, y),
    "((x > 0) ^ (y > 0)).float() * x * y": lambda x, y: ((x > 0) ^ (y > 0)).float() * x * y,
    "x.masked_fill((x < 0) & (y > 0), 3) * y": lambda x, y: x.masked_fill((x < 0) & (y > 0), 3) * y,
    "x.double() * y.to(torch.float64)": lambda x, y: x * y,
    "(x > 0).double() * y + x.type_as(y)": lambda x, y: (x > 0).double() * y + x,
    "(x > 0).to(y.dtype) @ y.T + x.to('cpu') @ y.mT": lambda x, y: (x > 0).to(y.dtype) @ y.T + x @ y.mT,
    "x.long() * y + (x > 0).int() * x": lambda x, y: x.long() * y + (x > 0).int() * x,
    "x.to(dtype=torch.int64) * y + x.astype(float)": lambda x, y: x.long() * y + x,
    "(2 * x).bool() * y + x.type(torch.bool)": lambda x, y: (2 * x).bool() * y + x.bool() + 0 * x,
    "x.sum(0, dtype=torch.float64) * y": lambda x, y: x.sum(0) * y,
    "(x > 0).mean(dtype=torch.float64) * x * y": lambda x, y: (x > 0).double().mean() * x * y,
    "F.softmax(x, dim=-1, dtype=torch.float64) * y": lambda x, y: F.softmax(x, -1) * y,
    "(x > 0).sum() * x / y": lambda x, y: (x > 0).sum() * x / y,
    "torch.isclose(x, y, rtol=0.5, atol=0.6) * x * y": lambda x, y: torch.isclose(x, y, rtol=0.5, atol=0.6) * x * y,
    "x.isclose(x + 1e-9).float() * y + x": lambda x, y: x.isclose(x + 1e-9) * y + x,
    "torch.signbit(x) * x * y + signbit(-0.0 * y)": lambda x, y: torch.signbit(x) * x * y + torch.signbit(-0.0 * y),
    "count_nonzero(relu(x)) * x * y": lambda x, y: torch.count_nonzero(x.relu()) * x * y,
    "x.relu().count_nonzero(dim=1)[:, None] * x * y": lambda x, y: x.relu().count_nonzero(1)[:, None] * x * y,
    "(x > 2).any() * x + (x > 2).any(1, keepdim=True) * y": lambda x, y: (x > 2).any() * x + (x > 2).any(1, True) * y,
    "torch.all(x > -2) * x + (y > 0).all(dim=0) * y": lambda x, y: torch.all(x > -2) * x + (y > 0).all(dim=0) * y,
    "torch.norm(x, p='fro') * y": lambda x, y: torch.norm(x, p="fro") * y,
    "x.norm('fro', dim=1) * y[:, 0]": lambda x, y: x.norm("fro", dim=1) * y[:, 0],
    "torch.addcmul(x, y, x, value=0.5)": lambda x, y: torch.addcmul(x, y, x, value=0.5),
    "torch.addcdiv(x, x, y, value=-1.5)": lambda x, y: torch.addcdiv(x, x, y, value=-1.5),
    "torch.dist(x, y, 1.5)": lambda x, y: torch.dist(x, y, 1.5),
    "torch.linalg.diagonal(x[None]) * y[0, :2]": lambda x, y: torch.linalg.diagonal(x[None]) * y[0, :2],
    "x[range(2), [2, 0]] * y[range(len(y)), 1]": lambda x, y: x[range(2), [2, 0]] * y[range(2), 1],
    "jnp.sum(jnp.square(x), axis=0) * jax.numpy.tanh(y)": lambda x, y: x.square().sum(0) * y.tanh(),
    "x / math.sqrt(4) * y": lambda x, y: x / 2 * y,
    "torch.vander(x[0]) * y[0] + x[1]": lambda x, y: torch.linalg.vander(x[0]).flip(1) * y[0] + x[1],
    "torch.vander(x[0], 2, increasing=True) * y[0, :2]": lambda x, y: torch.linalg.vander(x[0], N=2) * y[0, :2],
    "torch.linalg.vander(x, N=3) * y[:, None]": lambda x, y: torch.linalg.vander(x) * y[:, None],
    "x.detach() // 0.25 * y + x": lambda x, y: x.detach() // 0.25 * y + x,
    "torch.floor_divide(x.detach(), 0.1) * y + x": lambda x, y: torch.floor_divide(x.detach(), 0.1) * y + x,
    "x / (2 * math.inf) ** 0.5 + y * math.exp(-math.inf)": lambda x, y: x / torch.inf + y * 0,
    "x[[0, 0, 1]] * y[[1]]": lambda x, y: x[[0, 0, 1]] * y[[1]],
    "x[:, [-1, 0]] + y[1:, [0, -3]]": lambda x, y: x[:, [-1, 0]] + y[1:, [0, -3]],
    "x[[0, 1], [2, 0]] * y[0, [0, 1]]": lambda x, y: x[[0, 1], [2, 0]] * y[0, [0, 1]],
    "x[None][[0, 0], :, [1, 2]] * y[:, 0]": lambda x, y: x[None][[0, 0], :, [1, 2]] * y[:, 0],
    "x[:, [True, False, True]] * y[[False, True]][:, :2]": lambda x, y: (
        x[:, [True, False, True]] * y[[False, True]][:, :2]
    ),
    "x[torch.arange(2), torch.tensor([2, 0])] * y[torch.tensor(1), 0]": lambda x, y: (
        x[torch.arange(2), torch.tensor([2, 0])] * y[torch.tensor(1), 0]
    ),
    "x[torch.tensor([[0, 1], [1, 1]])] * y": lambda x, y: x[torch.tensor([[0, 1], [1, 1]])] * y,
    "(x > 0)[[1, 0]] * x * y": lambda x, y: (x > 0)[[1, 0]] * x * y,
    "x[0].T * y[0]": lambda x, y: x[0] * y[0],
    "x[None].T * y.T[..., None]": lambda x, y: x[None].permute(2, 1, 0) * y.T[..., None],
    "torch.slice_scatter(x, y[:1], 0, 1)": lambda x, y: torch.slice_scatter(x, y[:1], 0, 1),
    "x.slice_scatter(y[:, 1:], 1, 0, 3, 2)": lambda x, y: x.slice_scatter(y[:, 1:], 1, 0, 3, 2),
}
AS_THEY_STAND = (
    "torch.atleast_1d(x[0, 0]) * y[0]",
    "torch.atleast_2d(x[0]) * y",
    "torch.atleast_3d(x) * y[..., None]",
    "torch.dstack((x, y))",
    "torch.column_stack((x[0], y.T))",
    "torch.block_diag(x, y[0], x[0, 0]) ** 2",
    "torch.broadcast_tensors(x[0], y)[0] * y",
    "torch.broadcast_tensors(x[0], y)[-1] * x",
    "torch.cartesian_prod(x[0], y[1]) ** 2",
    "torch.combinations(x[0] * y[0])",
    "torch.combinations(x[0], 2, with_replacement=True) * y[0, 0]",
    "torch.tensor_split(x * y, 2, dim=1)[0]",
    "torch.tensor_split(x * y, [1], dim=1)[-1]",
    "x.tensor_split((1, 2), dim=-1)[1] * y",
    "x.hsplit(3)[-1] * y[:, :1]",
    "torch.hsplit(x[0] * y[0], [1, 2])[2]",
    "torch.vsplit(x, 2)[1] * y",
    "(x * y)[None].dsplit([2])[0]",
    "F.affine_grid(x[None] * y, y[None, None].shape, align_corners=True)",
    "x[0].expand_as(y) * y",
    "x.view_as(y.T) * y.T",
    "x.reshape_as(y[None]) * y",
    "torch.positive(x) * y",
    "x.adjoint() @ y",
    "torch.msort(x) * y",
    "x.msort() * y",
    "torch.diagflat(x[0] * y[0], 1)",
    "(x * y).diagflat() ** 2",
    "y.where(x > 0, x) * y",
    "x.absolute() * y",
    "x.greater(0) * y * x",
    "torch.less_equal(x, y) * x * y",
    "torch.not_equal(x, y) * x * y",
    "x[0].inner(y[0]) * y",
    "x[0].ger(y[0])",
    "x.float_power(2) * y",
    "x.true_divide(y)",
    "x.sgn() * x * y",
    "torch.fft.fftshift(x) * y",
    "torch.fft.ifftshift(x, dim=1) * y",
    "torch.fft.fftshift(x, dim=(0, 1)) * y",
    "F.channel_shuffle((x * y).T[None, :2], 2)",
    "torch.select_scatter(x, y[0], 0, -1)",
    "x.select_scatter(y[:, 1], 1, 2) * y",
    "torch.aminmax(x * y, dim=1).max",
    "(x * y).aminmax()[0]",
    "torch.clamp(x, y, max=3 * y.abs()) * y",
    "x.clamp(max=y) * x",
    "torch.diff(x, prepend=y[:, :1])",
    "torch.diff(x, dim=0, append=y) * 2",
    "F.softplus(x * y, beta=2, threshold=5)",
    "torch.linalg.inv_ex(x @ y.T).inverse",
    "torch.linalg.solve_ex(x @ y.T, y)[0]",
    "F.pad(x * y, (-1, 2), mode='replicate')",
    "torch.corrcoef(x[0]) * y",
    "F.linear_cross_entropy(x, y, torch.tensor([0, 1]))",
    "F.multilabel_soft_margin_loss(x, torch.sigmoid(y))",
    "F.multilabel_soft_margin_loss(x, torch.sigmoid(y), weight=x[0], reduction='none')",
    "torch.angle(x) * x + y",
    "torch.nan_to_num(1 / (x > 0), posinf=3.0) * x + torch.nan_to_num(torch.log(x) * y, 2.0, neginf=0) * y",
    "torch.nan_to_num(x / (x > 1), nan=1.0, neginf=-2.0) * y + x",
    "torch.clamp(x, min=0.25, max=float('inf')) * y",
    "x.clamp(float('-inf'), 0.5) * y.clip(float('-inf'), float('inf'))",
    "torch.clamp_min(x, y) * 2",
    "torch.div(input=x, other=y) * x",
    "torch.std_mean(x, 0, unbiased=False)[0] * y",
    "torch.diagonal_scatter(x, y[0, :2]) * x",
    "x.diagonal_scatter(y[1, :2], 1)",
    "torch.diagonal_scatter(x, y[:, 0][:1], -1)",
    "F.pad(x, (1, 0, 0, 2), value=-torch.inf).exp() * y.sum()",
    "F.pad(x, (1, -1), value=torch.nan)[:, 1:] * y[:, :2]",
    "torch.clamp(x, max=2 * float('inf')) / float('inf') + y",
    "torch.where(torch.isnan(x), y, x * y)",
    "torch.where(x.isinf(), y, x * y)",
    "torch.isfinite(x) * y + x",
    "torch.where(torch.logical_and(x > 0, y > 0), x, y)",
    "torch.where(torch.logical_or(x > 0, y > 0), x, y)",
    "torch.where(torch.logical_xor(x > 0, y > 0), x, y)",
    "(x > 0).logical_not() * x * y",
    "torch.diff(x, n=4).sum() + x.sum() * y",
    "torch.swapdims(x, 0, 1) @ y",
    "x.ravel() * y.ravel()",
)
"""What is the same text for torch: it is run as it stands."""


def run(text: str, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The text as PyTorch code."""
    return eval(text, {"torch": torch, "F": F, "x": x, "y": y})  # noqa: S307 -- a text of this file


@pytest.mark.one_in(48)
@pytest.mark.parametrize("text", [*CALLS, *AS_THEY_STAND])
def test_a_spelling_is_what_torch_makes_of_it(text: str) -> None:
    x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (X, Y))
    out = CALLS[text](x, y) if text in CALLS else run(text, x, y)
    weights = torch.arange(1.0, out.numel() + 1, dtype=torch.float64).reshape(out.shape)
    out.backward(weights)
    found = symgrad.explain(text, x=X, y=Y, seed=weights, check=False)
    assert_same(out.detach().numpy(), found.output)
    assert_same(x.grad.numpy(), found.gradients["x"].value)
    assert_same(y.grad.numpy(), found.gradients["y"].value)


def test_what_no_wording_covers_is_refused() -> None:
    refused = {
        "(x > 0).clamp_min(0.5)": "integers",
        "torch.div(x, y, rounding_mode='up')": "is 'trunc' or 'floor'",
        "torch.meshgrid(x[0], y[0])[2]": "meshgrid gives 2 tensors",
        "torch.meshgrid(x, y[0])[0]": "meshgrid takes vectors",
        "x[[2]]": "no position 2 on an axis of 2",
        "x[[[0, 1], [1, 1]]]": r"ambiguous[^?]*x\[\[0, 1\], \[1, 1\]\][^?]*x\[torch.tensor\(\[\[0, 1\], \[1, 1\]\]\)\]",
        "nn.PReLU()(x)": r"nn.PReLU has weights of its own[^?]*F\.prelu\(x, weight\)",
        "torch.nn.GroupNorm(1, 3)(x)": r"has weights of its own[^?]*F\.group_norm\(x, num_groups, weight, bias\)",
        "nn.Linear(3, 4)(x)": r"has weights of its own[^?]*F\.linear\(x, weight, bias\)[^?]*symgrad run",
        "[a for a in x]": r"`for` is not allowed[^?]*a list entry by entry: \[x\[0\], x\[1\]\]",
        "h = 2 * x; del x; h.foo": r"`del` is not allowed[^?]*foo is not read[^?]*leave it out",
        "x.view(b, t, -1)": r"b and t are sizes, without a value[^?]*b=2[^?]*t=2",
        "x.expand(n, 2, 3)": r"n is a size, without a value",
        "x / 0": r"divides by zero everywhere\n",
        "x.clamp(float('inf'), 1)": "min of clamp has to be finite",
        "x[[0], [True, False]]": "2 booleans do not fit an axis of 3",
        "x.clamp_min(y > 0)": "integers",
        "x[0].vsplit(1)[0]": "at least 2 axes, not 1",
        "F.affine_grid(x[None], (2, 1, 2, 3))": "the sizes 1 and 2 do not fit",
        "x.hsplit(2)[0]": "cannot be cut into 2 equal parts",
        "torch.tensor_split(x, 2)[2]": "gives 2 tensors here",
        "torch.select_scatter(x, x[0], 0, 2)": "no position 2 on an axis of 2",
        "torch.column_stack(x)": "takes a list of tensors",
        "F.channel_shuffle(x[None], 3)": "an axis of 2 does not make 3 equal parts",
        "torch.linalg.inv_ex(x @ x.T).info": "info of inv_ex has no derivative",
        "torch.slice_scatter(x, y, 0, 1)": "src of slice_scatter has to be 1×3",
        "x.unflatten(2, (3, 1))": "no axis 2",
        "torch.svd(x, compute_uv=False)[0]": "compute_uv=False makes none of these vectors",
        "x.svd(True, False).V": "compute_uv=False makes none of these vectors",
        "x.unbind(0)[-3]": "no part -3 among 2",
    }
    for text, complaint in refused.items():
        with pytest.raises(symgrad.SymgradError, match=complaint):
            symgrad.explain(text, x=X, **({"y": Y} if "y" in text else {}))


def test_a_size_that_is_given_is_a_number_and_one_that_is_not_is_refused() -> None:
    assert np.shape(symgrad.explain("x.view(b, t, -1)", x=X, b=1, t=2).output) == (1, 2, 3)
    for ask in (symgrad.jacobian, symgrad.explain):
        with pytest.raises(symgrad.SymgradError, match="n is a size"):
            ask("x.reshape(n, 2)", x=X, **({"wrt": "x"} if ask is symgrad.jacobian else {}))


@pytest.mark.parametrize(
    "call", ["torch.slice_scatter(x, y)", "x.slice_scatter(y, 0, 0, 1)", "x.slice_scatter(y, 0, 1, 2, 2)"]
)
def test_a_slice_of_nothing_is_written_into_nothing(call: str) -> None:
    found = symgrad.explain(call, shapes={"x": (0, 3), "y": (0, 3)})
    assert found.passed
    assert found.gradients["x"].value.shape == (0, 3)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("call", ["fft2(x, s=(2, 2)).real", "fft2(x, s=(3, 2)).abs()", "rfft2(x, (2, 1)).imag"])
def test_a_sum_of_zeros_is_not_printed(call: str) -> None:
    """sin(π·a) is 0 for every a: there stood 2·Σ_{a<n} 0."""
    page = symgrad.explain(f"torch.fft.{call}", shapes={"x": (3, 3)}).to_text()
    assert "Σ" in page
    assert not re.search(r"Σ_(\{[^}]*\}|\w) (0\b(?!\.)|\(Σ_(\{[^}]*\}|\w) 0\))", page)


def test_a_number_beside_the_larger_of_two_is_no_axis() -> None:
    """In torch.max(a, b) the second one is a tensor; in math.sqrt(d) d is a number, and one has to be given."""
    text = "torch.max(q * (y - x), (q - 1) * (y - x)).mean()"
    q, x, y = (torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in (0.3, X, Y))
    torch.max(q * (y - x), (q - 1) * (y - x)).mean().backward()
    found = symgrad.explain(text, q=0.3, x=X, y=Y)
    assert_same(q.grad, found.gradients["q"].value)
    assert symgrad.explain("x @ y.T / math.sqrt(d)", x=X, y=Y, d=4, check=False).gradients.keys() == {"x", "y"}
    with pytest.raises(symgrad.SymgradError, match=r"math.sqrt takes a number[^?]*d=64"):
        symgrad.explain("x / math.sqrt(d)", x=X)


CUTS = {
    "x.detach() * y": "no gradient flows back through detach",
    "(x > 0) * y": "no gradient flows back through >",
    "x.detach() + (x > 0) * y": "no gradient flows back through detach and >",
    "index_add(y, 0, x, y)": "index_add only reads x (as its index), which gets no gradient",
    "x.floor() * y": "small changes of x do not change the output",
}


@pytest.mark.parametrize("text", CUTS)
def test_a_gradient_that_is_cut_off_says_what_cuts_it(text: str) -> None:
    values = {"x": [0, 1], "y": [2.0, 3.0]} if "index" in text else {"x": [0.5, 1.25], "y": [2.0, 3.0]}
    found = symgrad.explain(text, wrt="x", **values)
    assert found.passed
    assert_same(found.gradients["x"].value, [0.0, 0.0])
    said = " ".join(found.to_text(width=300).split())
    assert f"J = 0: {CUTS[text]}: every entry is 0" in said
    ends = "torch refuses an input that requires a gradient" if "index" in text else "torch leaves it at None"
    assert (f"x.grad is 0: {CUTS[text]}; {ends}." in said) != ("floor" in text)
    assert "flows back" not in " ".join(symgrad.explain("x * y", **values, check=False).to_text().split())


INSIDE = re.compile(r"_|convolution|upsample_|native_|grid_sampler|linalg_|max_pool2d_with_indices_backward")
"""What torch calls inside: nobody writes these in a text."""


@pytest.mark.parametrize("word", sorted(COMPOSITIONS))
def test_what_a_captured_program_understands_a_text_understands_or_says_why_not(word: str) -> None:
    known = find(word) is not None or find_compound(word) is not None
    assert known != (word in OF_RUNS) or INSIDE.match(word)


@pytest.mark.parametrize(
    "text",
    [
        "F.dropout(x)",
        "x[x.argmax()]",
        "torch.argsort(x) * x",
        "F.alpha_dropout(x, 0.5, True)",
        "x.masked_scatter(x > 0, y)",
        "torch.lu(x)[0]",
        "x.fill_diagonal_(0.)",
        "x.uniform_()",
    ],
)
def test_a_call_that_needs_a_run_says_how_to_ask(text: str) -> None:
    with pytest.raises(symgrad.SymgradError, match="cannot be read from a text") as told:
        symgrad.explain(text, x=X, **({"y": Y} if "y" in text else {}))
    assert "--call module:function" in str(told.value)
