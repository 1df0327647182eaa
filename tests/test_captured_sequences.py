"""Recurrent layers, packed sequences, alignments and factors of matrices in captured programs: derived, and torch's.

The layers are torch's own in single precision, held against the same layers in double precision.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from symgrad.tracing import capture
from tests.compare import assert_same
from tests.test_capture import assert_like_torch, randn

LAYERS = [
    nn.LSTM(2, 3),
    nn.LSTM(2, 3, num_layers=2, bidirectional=True, proj_size=2, batch_first=True),
    nn.GRU(2, 3, bidirectional=True),
    nn.GRU(2, 3, bias=False, num_layers=2),
    nn.RNN(2, 3, nonlinearity="relu", batch_first=True),
    nn.RNN(2, 3, bidirectional=True),
    nn.LSTMCell(2, 3),
    nn.GRUCell(2, 3),
]


def together(value):
    """All that a layer returns, in one row."""
    parts = value if isinstance(value, (tuple, list)) else [value]
    return torch.cat([p.reshape(-1) if isinstance(p, torch.Tensor) else together(p) for p in parts])


class Packed(nn.Module):
    """The layer on two sequences of different lengths, packed and unpacked again."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        given = pack_padded_sequence(x, torch.tensor([1, 3]), self.layer.batch_first, enforce_sorted=False)
        out, state = self.layer(given)
        return pad_packed_sequence(out, self.layer.batch_first, padding_value=0.5)[0], state


class Whole(nn.Module):
    """The layer, with all that it returns in one row."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return together(self.layer(x))


def shape_of(layer):
    if isinstance(layer, nn.RNNCellBase):
        return (2, 2)
    return (2, 3, 2) if layer.batch_first else (3, 2, 2)


@pytest.mark.one_in(8)
@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize("kind", [lambda layer: layer, Packed])
@pytest.mark.parametrize("layer", LAYERS, ids=str)
def test_a_recurrent_layer_in_single_precision_is_derived(layer, kind):
    if kind is Packed and isinstance(layer, nn.RNNCellBase):
        return
    torch.manual_seed(0)
    layer = copy.deepcopy(layer)
    for parameter in layer.parameters():
        nn.init.normal_(parameter)
    x = torch.randn(shape_of(layer))
    net = Whole(kind(layer))
    program = capture(net, x)
    assert not program.black_boxes
    weights = torch.arange(1.0, 1 + len(net(x)))
    found = program.pullback(weights)
    exact = copy.deepcopy(net).double()
    leaf = x.double().requires_grad_()
    exact(leaf).backward(weights.double())
    for name, value in {"x": leaf, **dict(exact.named_parameters())}.items():
        assert_same(value.grad, found[name], tolerance=1e-4, what=name)


LENGTHS = (torch.tensor([4, 3]), torch.tensor([2, 0]))
FACTORS = [
    (lambda a: torch.linalg.lu(a), [(3, 3)]),
    (lambda a: torch.linalg.lu(a), [(2, 4, 2)]),
    (lambda a: torch.linalg.lu(a), [(2, 2, 4)]),
    (lambda a: torch.lu(a)[0], [(3, 3)]),
    (lambda a: torch.lu_unpack(*torch.linalg.lu_factor(a)), [(4, 3)]),
    (lambda a, b: torch.lu_solve(b, *torch.linalg.lu_factor(a)), [(3, 3), (3, 2)]),
    (lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False), [(3, 3), (2, 3)]),
    (lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, adjoint=True), [(2, 3, 3), (3, 2)]),
    (lambda a, b: torch.linalg.lu_solve(*torch.linalg.lu_factor(a), b, left=False, adjoint=True), [(3, 3), (2, 3)]),
    (lambda a, t: torch.linalg.householder_product(a, t), [(4, 3), (2,)]),
    (lambda a, t, c: torch.ormqr(a, t, c), [(3, 2), (2,), (3, 2)]),
    (lambda a, t, c: torch.ormqr(a, t, c, left=False), [(3, 2), (2,), (2, 3)]),
    (lambda a, t, c: torch.ormqr(a, t, c, transpose=True), [(3, 2), (2,), (3, 2)]),
    (lambda a, t, c: torch.ormqr(a, t, c, left=False, transpose=True), [(2, 3, 2), (2, 2), (2, 2, 3)]),
]


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore:torch.lu")
@pytest.mark.parametrize(("call", "shapes"), FACTORS)
def test_factors_are_derived(call, shapes):
    def whole(*inputs):
        found = call(*inputs)
        return together([p for p in (found if isinstance(found, tuple) else [found]) if p.requires_grad])

    assert_like_torch(whole, *(randn(*shape) for shape in shapes))


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("blank", [0, 2])
def test_the_loss_over_alignments_is_derived(reduction, blank):
    targets = torch.tensor([[1, 1], [3, 3]])
    assert_like_torch(
        lambda x: F.ctc_loss(x.log_softmax(-1), targets, *LENGTHS, blank=blank, reduction=reduction), randn(4, 2, 4)
    )
    flat = torch.tensor([1, 3, 1])
    assert_like_torch(lambda x: F.ctc_loss(x.log_softmax(-1), flat, (4, 4), (2, 1), blank), randn(4, 2, 4))


def test_an_alignment_that_cannot_be_counts_nothing_where_that_is_asked_for():
    targets, lengths = torch.tensor([[1, 1, 2], [1, 2, 1]]), (torch.tensor([3, 4]), torch.tensor([3, 3]))
    assert_like_torch(
        lambda x: F.ctc_loss(x.log_softmax(-1), targets, *lengths, reduction="sum", zero_infinity=True), randn(4, 2, 3)
    )


def test_a_loss_of_numbers_that_are_no_probabilities_is_not_said_to_be_derived():
    """torch's backward is another function's there."""
    program = capture(lambda x: F.ctc_loss(x, torch.tensor([[1, 2]]), (4,), (2,)), randn(4, 1, 4))
    assert [box.spelling for box in program.black_boxes] == ["torch.ctc_loss"]


DRAWS = [
    lambda x: F.rrelu(x, training=True),
    lambda x: F.rrelu(x, training=False),
    lambda x: torch.normal(x, x.exp()) * x,
    lambda x: torch.bernoulli(torch.sigmoid(x)) * x,
    lambda x: torch.poisson(x.exp()) + x,
    lambda x: x.clone().exponential_() * x,
    lambda x: F.gumbel_softmax(x, dim=-1),
    lambda x: F.fractional_max_pool2d(x[None], 2, output_size=(2, 2)),
    lambda x: F.dropout(x, 0.5) * x,
]


@pytest.mark.parametrize("call", DRAWS)
def test_what_was_drawn_is_data(call):
    x = randn(4, 3)
    leaf = x.clone().requires_grad_()
    torch.manual_seed(3)
    out = call(leaf)
    weights = torch.arange(1.0, 1 + out.numel(), dtype=out.dtype).reshape(out.shape)
    out.backward(weights)
    torch.manual_seed(3)
    program = capture(call, x)
    assert not program.black_boxes
    assert_same(leaf.grad, program.pullback(weights)["x"])
