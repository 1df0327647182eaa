"""Torch calls that have to be derived without a black box: inner spellings, and options that the table's text has not.

Each is captured, pulled back with a random seed and held against torch's autograd, in float64.
"""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

from symgrad.errors import InputError
from symgrad.tracing import capture
from tests.compare import assert_same
from tests.test_capture import assert_like_torch, randn

aten = torch.ops.aten


def grid(*shape):
    """Places in and out of a tensor, and some at the borders of its cells."""
    places = randn(*shape)
    places.reshape(-1)[::3] = places.reshape(-1)[::3].round()
    return places


def same(calls, *shapes):
    return [pytest.param(call, [randn(*s) if isinstance(s, tuple) else s for s in shapes]) for call in calls]


def overlapping_maxima(weights, x):
    """Windows that overlap: one maximum may get several weights."""
    places = F.max_pool2d(x, 3, 1, return_indices=True)[1]
    return aten.max_pool2d_with_indices_backward(weights, x, [3, 3], [1, 1], [0, 0], [1, 1], False, places)


SAMPLING = [
    *same(
        [
            lambda x: F.interpolate(x, scale_factor=(1.5, 0.7), mode="bilinear"),
            lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear", recompute_scale_factor=True),
            lambda x: F.interpolate(x, (2, 7), mode="bicubic", align_corners=True),
            lambda x: F.interpolate(x, scale_factor=1.7, mode="bicubic"),
            lambda x: F.interpolate(x, (3, 2), mode="bicubic", antialias=True),
            lambda x: F.interpolate(x, scale_factor=0.6, mode="nearest"),
            lambda x: F.interpolate(x, (3, 1), mode="area"),
            lambda x: F.upsample_bilinear(x, (5, 6)),
            lambda x: aten.upsample_bilinear2d(x, [7, 3], True),
            lambda x: aten.upsample_bicubic2d(x, [7, 3], False),
            lambda x: aten.upsample_nearest2d(x, [7, 3]),
            lambda x: aten._upsample_nearest_exact2d(x, [7, 3]),
            lambda x: aten._upsample_bilinear2d_aa(x, [2, 3], False),
            lambda x: aten._upsample_bilinear2d_aa(x, [2, 3], True, 1.7, 0.9),
            lambda x: aten.upsample_bicubic2d(x, [7, 3], True, 1.7, 0.9),
        ],
        (2, 1, 4, 5),
    ),
    *same([lambda x: F.interpolate(x, (3, 4, 1), mode="trilinear")], (1, 2, 2, 3, 2)),
    *same(
        [
            lambda x, g, m=mode, p=padding, c=corners: F.grid_sample(x, g, m, p, c)
            for mode in ("bilinear", "nearest")
            for padding in ("zeros", "border", "reflection")
            for corners in (False, True)
        ],
        (2, 2, 3, 4), grid(2, 2, 3, 2),
    ),
    *same([lambda x, g: aten.grid_sampler_2d(x, g, 2, 0, False)], (1, 1, 3, 4), grid(1, 2, 3, 2)),
    *same([lambda x, g: torch.grid_sampler_3d(x, g, 0, 1, True)], (1, 1, 3, 2, 2), grid(1, 1, 2, 2, 3)),
]  # fmt: skip
POOLING = [
    *same(
        [
            lambda x: F.avg_pool2d(x, 2, ceil_mode=True, count_include_pad=False),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, divisor_override=5),
            lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
            lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2),
            lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2, output_size=(5, 7)),
            lambda x: F.fold(F.unfold(x, (2, 3), dilation=(2, 1), padding=1, stride=2), (5, 6), (2, 3), (2, 1), 1, 2),
            lambda x: F.pixel_unshuffle(x[:, :, :4], 2),
        ],
        (2, 2, 5, 6),
    ),
    *same([lambda x: F.avg_pool1d(x, 3, 2, 1, ceil_mode=True)], (2, 6)),
    *same([lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2)], (1, 2, 6)),
    *same([lambda x: F.avg_pool3d(x, 2, ceil_mode=True)], (1, 3, 3, 3)),
    *same([overlapping_maxima], (2, 3, 2, 3), (2, 3, 4, 5)),
    *same([overlapping_maxima], (3, 2, 3), (3, 4, 5)),
]
ONE, OTHER = randn(2)
INDEX = torch.tensor([[0, 2, 0], [1, 1, 1]])
WRITING = [
    *same(
        [
            lambda x, s, r=reduce, i=include: torch.scatter_reduce(x, 0, INDEX, s, reduce=r, include_self=i)
            for reduce in ("sum", "prod", "mean", "amax", "amin")
            for include in (False, True)
        ],
        (4, 4), (2, 3),
    ),
    *same(
        [
            lambda x, s, r=reduce, i=include: torch.index_reduce(x, 1, INDEX[0], s, r, include_self=i)
            for reduce in ("prod", "mean", "amax", "amin")
            for include in (False, True)
        ],
        (2, 4), (2, 3),
    ),
    *same(
        [
            lambda x, s: torch.index_add(x, 0, torch.tensor([0]), s, alpha=-2),
            lambda x, s: torch.index_copy(x, 0, torch.tensor(0), s) * x,
            lambda x, s: torch.index_fill(x, 0, torch.tensor([0]), 2.0) * s + x,
            lambda x, s: torch.scatter_reduce(x, 0, torch.tensor(0), s, "prod"),
        ],
        ONE.clone(), OTHER.clone(),
    ),
    *same(
        [
            lambda x, s: x.index_put((INDEX[0], INDEX[1]), s[0, :3], accumulate=True),
            lambda x, s: x.index_put((INDEX[0],), s[:3], accumulate=True),
            lambda x, s: x.index_put((torch.tensor([2, 0]),), s[:2]),
            lambda x, s: x.put(torch.tensor([3, -1, 3]), s[0, :3], accumulate=True),
            lambda x, s: x.put(torch.tensor([3, -1, 0]), s[0, :3]),
        ],
        (3, 4), (3, 4),
    ),
]  # fmt: skip
LENGTHS = [
    *same(
        [
            lambda x: torch.linalg.norm(x, 1) + torch.linalg.norm(x, -1) + torch.linalg.norm(x, "fro"),
            lambda x: torch.linalg.norm(x, float("inf")) - torch.linalg.norm(x, -float("inf")),
            lambda x: torch.linalg.matrix_norm(x, float("inf"), (1, 0), keepdim=True),
            lambda x: torch.norm(x, 0, dim=1) + torch.norm(x, -2.5, dim=1) + torch.norm(x, 0.5, 1),
            lambda x: torch.linalg.vector_norm(x * (x > 0), -1, 0) + torch.linalg.vector_norm(x * (x > 0), 0.5, 0),
            lambda x: torch.renorm(x, 2, 0, 1.5) + torch.renorm(x, 1, 1, 2.0),
            lambda x: torch.renorm(x, float("inf"), 0, 1.0),
            lambda x: F.normalize(x, p=-1.0),
        ],
        (3, 4),
    ),
    *same(
        [lambda x, p=p: F.pdist(x, p) for p in (0.0, 0.5, 1.0, 2.0, 3.0, float("inf"))]
        + [lambda x, p=p: torch.cdist(x, x[1:], p) for p in (0.0, 0.5, 1.0, 1.5, float("inf"))]
        + [lambda x: torch.cdist(x, x.flip(0) ** 2, compute_mode="donot_use_mm_for_euclid_dist")],
        (4, 3),
    ),
]
NORMS = same(
    [
        lambda x, w, b: torch.native_batch_norm(x, w, b, None, None, True, 0.1, 1e-5)[0],
        lambda x, w, b: torch.native_batch_norm(x, w, b, b.detach(), w.detach() ** 2, False, 0.1, 1e-5)[0],
        lambda x, w, b: torch._native_batch_norm_legit(x, w, b, True, 0.1, 1e-3)[0],
        lambda x, w, b: torch.native_layer_norm(x.mT, [3], w, b, 1e-5)[0],
        lambda x, w, b: torch.native_group_norm(x, w, b, 4, 3, 2, 1, 1e-5),
        lambda x, w, b: F.instance_norm(x, running_mean=b.detach(), running_var=w.detach() ** 2, weight=w, bias=b),
        lambda x, w, b: F.instance_norm(x, b.detach(), w.detach() ** 2, w, b, use_input_stats=False),
        lambda x, w, b: aten._safe_softmax(x * w[:, None] + torch.where(b > 0, 0.0, -torch.inf)[:, None], -1),
    ],
    (4, 3, 2), (3,), (3,),
)  # fmt: skip
STATISTICS = [
    *same(
        [
            lambda x: torch.diff(x, 2, 0, prepend=x[:1] ** 2, append=x[:2]),
            lambda x: torch.diff(x, 0),
            lambda x: torch.cov(x) + torch.cov(x, correction=0, fweights=torch.tensor([1, 2, 1, 3, 1])),
            lambda x: torch.corrcoef(x) * torch.corrcoef(x[0]),
            lambda x: torch.quantile(x, 0.3) + torch.quantile(x, 0.8, 1, interpolation="midpoint").sum(),
            lambda x: torch.quantile(x, torch.tensor([0.1, 0.25], dtype=x.dtype), 1, keepdim=True),
            lambda x: torch.quantile(x, torch.sigmoid(x[0, :2]), 0),
            lambda x: torch.nanquantile(torch.where(x > 1, torch.nan, x), 0.4, 1, interpolation="higher"),
            lambda x: torch.nanquantile(torch.where(x > 1, torch.nan, x), torch.sigmoid(x[0, :2]), 1),
            lambda x: torch.quantile(x, torch.sigmoid(x[0, :2]), 1, interpolation="midpoint"),
            lambda x: torch.segment_reduce(x, "mean", lengths=torch.tensor([2, 0, 1]), initial=1.0),
            lambda x: torch.segment_reduce(x, "prod", offsets=torch.tensor([0, 1, 3])),
            lambda x: torch.trace(x) * torch.diag(x).sum(),
        ],
        (3, 5),
    ),
    *same(
        [
            lambda w, s, m=mode: F.embedding_bag(torch.tensor([0, 2, 2, 1, 0]), w, torch.tensor([0, 3, 3]), mode=m)
            for mode in ("sum", "mean", "max")
        ]
        + [lambda w, s: F.embedding_bag(torch.tensor([[0, 2], [2, 1]]), w, mode="sum", per_sample_weights=s)]
        + [lambda w, s: F.embedding_bag(torch.tensor([[0, 2], [2, 1]]), w * s.sum(), mode="mean", padding_idx=2)],
        (3, 4), (2, 2),
    ),
]  # fmt: skip
GRIDS = same(
    [
        lambda x, g, p=padding, c=corners: F.grid_sample(x, g, "bicubic", p, c)
        for padding in ("border", "reflection")
        for corners in (False, True)
    ]
    + [lambda x, g: torch.grid_sampler_2d(x, 2 * g, 2, 1, False)],
    (2, 1, 3, 4), grid(2, 2, 1, 2),
)  # fmt: skip
WEIGHTS = [
    *same(
        [
            lambda v, g: torch._weight_norm(v, g[:, :1, :1], 0),
            lambda v, g: torch._weight_norm(v, g[:1, :1], 2),
            lambda v, g: torch._weight_norm(v, g[0, 0, 0], -1),
        ],
        (2, 3, 2), (2, 3, 2),
    ),
    *same(
        [
            lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 3, -1, 0], [2, -1, 0, 0]])),
            lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, 3, 0, 2], [-1, 3, 0, 0]]), reduction="none"),
            lambda x: F.multilabel_margin_loss(x[0], torch.tensor([1, 0, -1, -1]), reduction="sum"),
            lambda x: F.pad(x[None], (-1, 2), "circular") ** 2,
            lambda x: F.cosine_similarity(x[0, 0], x[1, 2], dim=0),
            lambda x: torch.frexp(x).mantissa * torch.nextafter(x, x + 1),
            lambda x: F.gaussian_nll_loss(x, x * 2, x[:, 0].exp()),
            lambda x: torch.segment_reduce(x, "max", lengths=torch.tensor([[1, 3], [2, 2]]), axis=1),
            lambda x: torch.segment_reduce(x, "sum", lengths=torch.tensor([1]), initial=2.0, unsafe=True),
            lambda x: torch.segment_reduce(x * 0 + 1, "max", lengths=torch.tensor([1, 1]), initial=1.0) * x,
            lambda x: torch.segment_reduce(x, "min", lengths=torch.tensor([2, 0]), initial=x.mean().item()),
            lambda x: torch.nanmedian(torch.where(x > 1, torch.nan, x)) * x,
            lambda x: torch.linalg.lstsq(x.mT, x.mT**2).residuals,
            lambda x: torch.linalg.tensorsolve(x[:, None, :2], x[:, :1], dims=(0,)),
            lambda x: torch.linalg.pinv(x, atol=1e3) + x.mT,
            lambda x: x.to_sparse().to_dense() * x,
            lambda x: F.embedding(torch.tensor([0, 1, 1]), x.detach().clone(), max_norm=0.5) * x[0],
        ],
        (2, 4),
    ),
]  # fmt: skip
EMPTY = same(
    [
        lambda x: torch.linalg.det(x[:0, :0]) * x,
        lambda x: torch.linalg.eigvalsh(x[:0, :0]).sum() + x,
        lambda x: torch.maximum(x[:0], x[0]),
        lambda x: x.narrow(0, torch.tensor(1), 0) * 2,
        lambda x: torch.stack(torch.linalg.svd(x[:, :0])[:1]).sum() + x,
        lambda x: x.put(torch.tensor([], dtype=torch.int64), x[0, :0]),
    ],
    (3, 3),
)
"""Without rows, or without columns, a Jacobian has nothing to derive."""
JOINS = same(
    [
        lambda x, y: torch.cat([torch.tensor([], dtype=x.dtype), x, y], -2),
        lambda x, y: torch.cat([x, torch.tensor([], dtype=x.dtype), y, x], dim=1),
        lambda x, y: torch.cat([torch.tensor([]), x * y], 1),
        lambda x, y: torch.cat([x.new_zeros(0, 3), y]).sum() * torch.cat([x[:0, 0], x[0]]),
    ],
    (3, 3), (3, 3),
)  # fmt: skip
"""An empty tensor with one axis fits any other: a cache of keys and values begins like that."""


@pytest.mark.one_in(12)
@pytest.mark.one_in(36)
@pytest.mark.filterwarnings("ignore:.*in beta:UserWarning")
@pytest.mark.filterwarnings("ignore:.*is deprecated")
@pytest.mark.filterwarnings("ignore:The default behavior for interpolate")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks")  # torch's own, once
@pytest.mark.parametrize(
    ("call", "inputs"), [*SAMPLING, *POOLING, *WRITING, *LENGTHS, *NORMS, *STATISTICS, *JOINS, *GRIDS, *WEIGHTS, *EMPTY]
)
def test_it_is_derived_and_torchs(call, inputs):
    assert_like_torch(call, *inputs)


def test_rows_counted_by_how_often_they_are_read_are_no_derivative():
    weight, index = randn(4, 2), torch.tensor([0, 1, 1])
    for call in (
        lambda w: F.embedding(index, w, scale_grad_by_freq=True),
        lambda w: torch.embedding(w, index, -1, True),
        lambda w: F.embedding(index, w, None, None, 2.0, True),
    ):
        program = capture(call, weight)
        assert "not the derivative" in program.black_boxes[0].reason
        leaf = weight.clone().requires_grad_()
        call(leaf).sum().backward()
        assert_same(leaf.grad, program.pullback(torch.ones(3, 2))["w"])


def test_what_a_layer_writes_is_its_own():
    """Running statistics, and rows that max_norm shortens, before they are read."""
    for net in (
        torch.nn.InstanceNorm1d(3, affine=True, track_running_stats=True),
        torch.nn.BatchNorm1d(3),
        torch.nn.Embedding(3, 3, max_norm=0.5),
    ):
        net = net.double()
        given = torch.tensor([[0, 2, 2]]) if isinstance(net, torch.nn.Embedding) else randn(2, 3, 4)
        program = capture(copy.deepcopy(net), given)
        assert not program.black_boxes
        out = net(given)
        out.backward(torch.ones_like(out))
        found = program.pullback(torch.ones_like(out))
        for name, parameter in net.named_parameters():
            assert_same(parameter.grad, found[name], what=f"{net}, {name}")


def test_what_is_written_twice_is_not_said_to_be_derived():
    x = randn(2, 3)
    program = capture(lambda x, s: x.index_put((torch.tensor([1, 1]),), s), x, randn(2, 3))
    assert [box.spelling for box in program.black_boxes] == ["Tensor.index_put"]
    assert "an entry is written twice" in program.black_boxes[0].reason


@pytest.mark.parametrize(
    "call",
    [
        lambda x, s: torch.scatter(x, 0, torch.tensor([[0, 1, 0], [0, 1, 1]]), s),
        lambda x, s: x.clone().scatter_(0, torch.tensor([[1, 1, 1], [0, 1, 1]]), s),
        lambda x, s: x.index_copy(0, torch.tensor([1, 1]), s),
        lambda x, s: F.max_unpool1d(x[None] + s[None], torch.tensor([[[0, 0, 1], [0, 1, 2]]]), 2),
    ],
)
def test_whatever_writes_an_entry_twice_is_left_to_torch(call):
    """scatter and index_copy ended in a traceback."""
    x, s = randn(2, 3), randn(2, 3)
    program = capture(call, x, s)
    assert "an entry is written twice" in " ".join(box.reason for box in program.black_boxes)
    leaves = [t.clone().requires_grad_() for t in (x, s)]
    out = call(*leaves)
    weights = randn(*out.shape)
    expected = torch.autograd.grad(out, leaves, weights)
    for found, gradient in zip(program.pullback(weights).values(), expected, strict=True):
        assert_same(gradient, found)


def test_what_torch_does_not_differentiate_by_is_told():
    x, places = randn(2, 3), torch.tensor([0, 2])
    with pytest.raises(InputError, match="torch has no gradient with respect to weight"):
        capture(lambda x, w: F.nll_loss(x, places, w), x, randn(3))


@pytest.mark.parametrize(
    ("places", "steps"),
    [([0, 3], ["out = take(x, i)"]), ([], ["out = take(x, i)"]), ([-1, 0], ["t1 = reshape", "out = gather"])],
)
def test_only_places_counted_from_the_end_are_counted_anew(places: list[int], steps: list[str]) -> None:
    """0 is a place as it stands, and no place at all is none below it."""
    index = torch.tensor(places, dtype=torch.long)
    found = capture(lambda x, i: torch.take(x, i), torch.arange(6.0).reshape(2, 3), index)
    assert [told[: len(step)] for told, step in zip(found.operations, steps, strict=True)] == steps


ATTENTION = {
    "dropout": {"dropout_p": 0.4},
    "dropout of the past": {"dropout_p": 0.4, "is_causal": True},
    "dropout and a mask": {"dropout_p": 0.4, "attn_mask": torch.tensor([[True, False, True]] * 2 + [[False] * 3])},
    "dropout and an added mask": {"dropout_p": 0.4, "attn_mask": torch.tensor([[0.5, -1.0, 2.0]]), "scale": 0.3},
    "everything drops": {"dropout_p": 1.0},
    "shared heads": {"enable_gqa": True, "is_causal": True},
    "shared heads and dropout": {"enable_gqa": True, "dropout_p": 0.4},
}


@pytest.mark.parametrize("name", list(ATTENTION))
def test_attention_of_any_kind_is_softmax_of_scores(name: str) -> None:
    """With dropout it was what torch's own function is made of: ``bmm`` of reshaped roots of scaled queries."""
    heads = 2 if "heads" in name else 4
    given = (randn(2, 4, 3, 5), randn(2, heads, 3, 5, seed=1), randn(2, heads, 3, 5, seed=2))
    own = ATTENTION[name]

    def attend(q, k, v):
        S = k.sum()  # a name of the author's own
        return F.scaled_dot_product_attention(q, k, v, **own) * S

    torch.manual_seed(3)
    assert_like_torch(attend, *given)
    torch.manual_seed(3)
    operations = capture(attend, *given).operations
    assert not [line for line in operations if "bmm" in line]
    assert any(line.startswith("S = ") and "sum" in line for line in operations)
    assert any("softmax" in line or "attention" in line for line in operations)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("layout", ["to_sparse", "to_sparse_csr", "to_sparse_csc"])
def test_products_with_a_sparse_matrix_are_derived(layout):
    """A graph's matrix is mostly stored by coordinates."""
    a = getattr(torch.tensor([[0.0, 2.0, 0.0], [1.0, 0.0, 3.0]]), layout)()
    x, y, v = (torch.arange(n * 2.0).reshape(n, 2) - 1 for n in (3, 2, 2))
    for run, wanted in ((lambda x: torch.sparse.mm(a, x), 1), (lambda x: torch.sparse.addmm(y, a, x, alpha=3.0), 3)):
        program = capture(run, x)
        assert not program.black_boxes
        torch.testing.assert_close(
            torch.as_tensor(program.pullback(v.numpy())["x"]), wanted * (a.to_dense().T @ v), check_dtype=False
        )


def test_the_reason_of_a_black_box_is_a_sentence():
    """What torch cannot do inside is said in one line, and not by its own message, which goes on for pages."""
    a = torch.eye(2).to_sparse()
    (box,) = capture(lambda x: torch.hspmm(a, x).to_dense(), torch.ones(2, 2)).black_boxes
    assert box.reason == "torch.hspmm has no equation here"


def test_what_the_table_knows_is_not_taken_apart_further():
    """torch's own decompositions write a triangle as a choice by a mask."""
    operations = capture(lambda x: torch.linalg.lu(x)[1], torch.eye(3) + 1).operations
    assert any(" = tril(" in line for line in operations)
    assert not any("where(" in line for line in operations)


@pytest.mark.slow
def test_a_call_of_many_operations_is_taken_apart():
    net = torch.nn.RNN(1, 1).double()
    program = capture(lambda x: net(x)[0][-1], torch.ones(120, 1, 1, dtype=torch.float64))
    assert not program.black_boxes
    assert len(program.operations) > 400


@pytest.mark.parametrize("size", [0, 1, 2, 3])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_what_is_picked_may_be_nothing(size: int, count: int) -> None:
    """Of one entry there is no pair: the gradient is 0, and it comes by the calls that are planned, too."""
    x = torch.arange(size, dtype=torch.float64).requires_grad_()
    out = torch.combinations(x, count)
    v = torch.arange(out.numel(), dtype=torch.float64).reshape(out.shape) + 1
    found = capture(lambda x: torch.combinations(x, count), x).pullback(v.numpy())
    (right,) = torch.autograd.grad(out, x, v, allow_unused=True) if out.requires_grad else (None,)
    assert_same(torch.zeros(size) if right is None else right, found["x"], what=f"{count} of {size}")
