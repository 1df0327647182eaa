"""Where all entries are equal a call may be misread and still give torch's value: what comes back tells the difference.

A call is captured at zeros, at ones and among ties, and its vᵀJ held against autograd's.
"""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from symgrad.errors import UnsupportedError
from symgrad.tracing import capture
from tests.compare import assert_same
from tests.test_capture import randn

TIES = [[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]]
ZEROS, ONES = torch.zeros(3, 3).tolist(), torch.ones(3, 3).tolist()
SAMPLES = torch.full((1, 1, 3), 0.3, dtype=torch.float64)
MASKS = (
    torch.tensor([True, False, True]),
    torch.tensor([[True, False, True], [False, False, False], [True, True, True]]),
    torch.tensor([[0.0, -1, -torch.inf], [-torch.inf] * 3, [0, 0, 0]], dtype=torch.float64),
    torch.tensor([[0.0, -1, -torch.inf], [-1, 0, 0], [0, 0, 0]], dtype=torch.float64),
)
PLACES = torch.tensor([[0, 0, 1], [0, 1, 1], [0, 0, 0]])
CALLS = {
    # where entries stood: along which axis, in which plane
    "cummax": lambda x: torch.cummax(x, 1).values, "cummin": lambda x: torch.cummin(x, 0)[0],
    "kthvalue": lambda x: torch.kthvalue(x, 2, 1).values, "kthvalue kept": lambda x: torch.kthvalue(x, 2, 0, True)[0],
    "mode": lambda x: torch.mode(x)[0], "median": lambda x: torch.median(x, 1).values, "msort": lambda x: torch.msort(x),
    "nanmedian": lambda x: torch.nanmedian(x, 0)[0], "sort": lambda x: x.sort(1, descending=True).values,
    "topk": lambda x: x.topk(2, 0).values, "of a row": lambda x: x[:1].cummax(0)[0] + x[:, :1].cummax(1)[0],
    "max_pool2d": lambda x: F.max_pool2d(x[None], (1, 2), 1), "adaptive": lambda x: F.adaptive_max_pool2d(x[None], (2, 1)),
    "max_pool with places": lambda x: F.max_pool2d(x[None], 2, 1, return_indices=True)[0],
    "fractional": lambda x: F.fractional_max_pool3d(
        x.repeat(2, 2).expand(1, 1, 6, 6, 6) * 1.0, 2, output_size=(2, 3, 2), return_indices=True, _random_samples=SAMPLES)[0],
    # masks and draws that the value does not show
    **{f"attention {n}": lambda x, m=m: F.scaled_dot_product_attention(x, x.T, x + 1, m) for n, m in enumerate(MASKS)},
    "attention of one": lambda x: F.scaled_dot_product_attention(x, x, x * 0, MASKS[0], scale=2.0),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.5, True), "dropout": lambda x: F.dropout(x, 0.5, True),
    "feature_alpha_dropout": lambda x: F.feature_alpha_dropout(x, 0.5, True),
    "rrelu": lambda x: F.rrelu(x, training=True), "sparse": lambda x: x.to_sparse().to_dense(),
    "compressed": lambda x: (x.to_sparse_csr() * 2).to_dense(), "columns": lambda x: x.to_sparse_csc().to_dense(),
    "a product": lambda x: torch.mm(x.to_sparse_csr(), x),
    "unmasked": lambda x: x.to_sparse().to_dense(masked_grad=False),
    # margins
    "replicated": lambda x: F.pad(x[None], (-3, 2), mode="replicate"),
    "circular": lambda x: F.pad(x[None], (2, -1), mode="circular"),
    # kinks of what torch decomposes otherwise, and ties that torch shares
    "margins": lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2])),
    "squared margins": lambda x: F.multi_margin_loss(x, torch.tensor([0, 1, 2]), p=2, margin=0.5, reduction="none"),
    "weighed margins": lambda x: F.multi_margin_loss(
        x, torch.tensor([2, 1, 2]), weight=torch.tensor([1.0, 2.0, 0.5]).double(), reduction="sum"),
    "one margin": lambda x: F.multi_margin_loss(x[0], torch.tensor(1)),
    "hardshrink": lambda x: F.hardshrink(x, lambd=-1.0), "hardshrink at 0": lambda x: F.hardshrink(x, lambd=0.0),
    **{f"{r} {own}": lambda x, r=r, own=own: x.scatter_reduce(0, PLACES, x.T * 1, r, include_self=own)
       for r in ("amax", "amin", "prod") for own in (True, False)},
    "nextafter": lambda x: torch.nextafter(x, x.T), "nextafter of one": lambda x: torch.nextafter(x[0, 0], x),
    "cond": lambda x: torch.linalg.cond(x + 2 * torch.eye(3).double()),
    "xlogy": lambda x: torch.xlogy(0, x), "xlog1py": lambda x: torch.special.xlog1py(0, x - 1),
    # rules that hold and have to go on holding
    "amax": lambda x: torch.amax(x, 1), "fmin": lambda x: torch.fmin(x, x.T), "clamp": lambda x: x.clamp(0, 1),
    "hinge": lambda x: F.hinge_embedding_loss(x, -torch.ones(3, 3)), "prod": lambda x: x.prod(1),
    "margin": lambda x: F.margin_ranking_loss(x, x.T, torch.ones(3, 3)), "norm": lambda x: x.norm(torch.inf, 0),
    "labels": lambda x: F.multilabel_margin_loss(x, torch.tensor([[0, -1, -1]] * 3)),
}  # fmt: skip


@pytest.mark.one_in(18)
@pytest.mark.filterwarnings("ignore:Sparse:UserWarning")
@pytest.mark.parametrize("entries", [ZEROS, ONES, TIES], ids=["zeros", "ones", "ties"])
@pytest.mark.parametrize("name", CALLS)
def test_a_call_on_equal_entries(name: str, entries: list[list[float]]) -> None:
    x, state = torch.tensor(entries, dtype=torch.float64), torch.get_rng_state()
    leaf = x.clone().requires_grad_()
    out = CALLS[name](leaf)
    seed = randn(*out.shape, seed=1) if out.dim() else torch.tensor(1.5, dtype=torch.float64)
    (right,) = torch.autograd.grad(out, leaf, seed)
    torch.set_rng_state(state)
    program = capture(CALLS[name], x)
    assert not program.black_boxes, program
    assert_same(right, program.pullback(seed)["x"], tolerance=1e-12)


@pytest.mark.parametrize("word", ["mode", "nanmedian", "kthvalue", "cummax", "cummin", "sort", "median"])
def test_a_choice_from_a_number_is_the_number(word: str) -> None:
    options = {"kthvalue": (1, 0)}.get(word, (0,))
    program = capture(lambda x: getattr(torch, word)(x, *options)[0] * 3, torch.tensor(2.0, dtype=torch.float64))
    assert not program.black_boxes, program
    assert_same(3.0, program.pullback()["x"])


def test_no_convention_where_rounding_alone_differs() -> None:
    """A mask of −∞ is not finite, and yet nothing is undefined."""
    program = capture(CALLS["attention 0"], torch.ones(3, 3, dtype=torch.float64))
    program.pullback(randn(3, 3))
    assert not program.conventions


# --- what was kept, and written behind the counter's back ---------------------------------------------------


def kept_input(x):
    y = x * 2
    z = y * x
    y.data = torch.ones(2, dtype=x.dtype)
    return z


def kept_leaf(x):
    z = x * x
    x.data = torch.full((2,), 5.0, dtype=x.dtype)
    return z


def kept_data(x):
    w = torch.ones(2, 2, dtype=x.dtype)
    z = w @ x
    w.data.fill_(3.0)
    return z


def kept_places(x):
    places = torch.tensor([0, 1, 0])
    z = x[places]
    places.data.fill_(1)
    return z


def kept_mask(x):
    mask = torch.tensor([True, False])
    z = torch.where(mask, x, 2 * x)
    mask.data.fill_(False)
    return z


@pytest.mark.parametrize("fn", [kept_input, kept_leaf, kept_data, kept_places, kept_mask])
def test_what_is_kept_and_written_through_data_is_refused(fn) -> None:
    with pytest.raises(UnsupportedError, match=r"through \.data"):
        capture(fn, torch.tensor([1.0, -2.0], dtype=torch.float64))


def own_result(x):
    z = x.exp()
    z.data = torch.ones(2, dtype=x.dtype)  # exp keeps its result as it was
    return z


def other_memory(x):
    y = x * 2
    w = y.view(2, 1) ** 2
    y.data = torch.ones(2, dtype=x.dtype)  # the view keeps the old memory
    return w


def unread(x):
    w = torch.ones(2, dtype=x.dtype)
    z = w + x
    w.data.fill_(3.0)
    return z


@pytest.mark.parametrize("fn", [own_result, other_memory, unread])
def test_what_torch_does_not_meet_again_may_be_written(fn) -> None:
    x = torch.tensor([1.0, -2.0], dtype=torch.float64)
    leaf, seed = x.clone().requires_grad_(), torch.tensor([2.0, -3.0], dtype=torch.float64)
    out = fn(leaf)
    (right,) = torch.autograd.grad(out, leaf, seed.reshape(out.shape))
    assert_same(right, capture(fn, x).pullback(seed.reshape(out.shape))["x"])
