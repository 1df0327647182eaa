"""What people wrote in public trackers, and what a story says of it: each case stands for its family."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from symgrad import SymgradError, explain
from tests.compare import assert_same
from tests.contract.stories import stories_of


def story(tmp_path: Path, body: str) -> str:
    """What is told of a script, on one line."""
    path = tmp_path / "script.py"
    path.write_text(f"import torch\n{body}\n", encoding="utf-8")
    return re.sub(r"\s+", " ", " ".join(stories_of(path)))


# NaN and infinity: what to call instead ---------------------------------------------------------------------

T = torch.tensor([[0.0, 1.0, 1.0]])
BY_HAND: list[tuple[str, list[float], str, Callable[[torch.Tensor], torch.Tensor]]] = [
    ("(x ** 2).sum().sqrt()", [0.0, 0.0, 0.0], "x.norm()", lambda x: x.norm()),
    ("torch.sqrt(torch.sum(x * x, dim=1)).sum()", [0.0, 0.0, 0.0], "x.norm(dim=1)", lambda x: x.norm(dim=1).sum()),
    ("(x ** 2).sum(1, keepdim=True).sqrt().sum()", [0.0] * 3, "x.norm(dim=1, keepdim=True)", lambda x: x.norm(dim=1).sum()),
    ("x.exp().sum(1).log().sum()", [200.0, 1.0, 2.0], "x.logsumexp(dim=1)", lambda x: x.logsumexp(1).sum()),
    ("x.exp().sum().log()", [200.0, 1.0, 2.0], "x.logsumexp(dim=(0, 1))", lambda x: x.logsumexp((0, 1))),
    ("(x.exp() / x.exp().sum(1, keepdim=True))[:, 0].sum()", [200.0, 1.0, 2.0], "x.softmax(dim=1)", lambda x: x.softmax(1)[:, 0].sum()),
    ("(e := x.exp()).div(e.sum(1, keepdim=True))[0, 0]", [200.0, 1.0, 2.0], "x.softmax(dim=1)", lambda x: x.softmax(1)[0, 0]),
    ("x.softmax(1).log()[0, 1]", [200.0, 1.0, 2.0], "x.log_softmax(dim=1)", lambda x: x.log_softmax(1)[0, 1]),
    ("x.sigmoid().log().sum()", [-200.0, 1.0, 2.0], "F.logsigmoid(x)", lambda x: F.logsigmoid(x).sum()),
    ("(1 - x.sigmoid()).log().sum()", [200.0, 1.0, 2.0], "F.logsigmoid(-x)", lambda x: F.logsigmoid(-x).sum()),
    ("(x.exp() + 1).log().sum()", [200.0, 1.0, 2.0], "F.softplus(x)", lambda x: F.softplus(x).sum()),
    ("(1 + x.exp()).log().sum()", [200.0, 1.0, 2.0], "F.softplus(x)", lambda x: F.softplus(x).sum()),
    (
        "-(t * (p := x.sigmoid()).log() + (1 - t) * (1 - p).log()).mean()",
        [200.0, 1.0, 2.0],
        "F.binary_cross_entropy_with_logits(x, …)",
        lambda x: F.binary_cross_entropy_with_logits(x, T),
    ),
    (
        "-(t * x.log() + (1 - t) * (1 - x).log()).mean()",
        [0.0, 0.5, 1.0],
        "F.binary_cross_entropy(x, …)",
        lambda x: F.binary_cross_entropy(x, T),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("text", "at", "call", "other"), BY_HAND, ids=[text for text, *_ in BY_HAND])
def test_where_a_gradient_ends_in_nan_the_function_that_goes_on_is_named(
    text: str, at: list[float], call: str, other: Callable[[torch.Tensor], torch.Tensor], tmp_path: Path
) -> None:
    body = f"x = torch.tensor([{at}], requires_grad=True)\nt = torch.tensor({T.tolist()})\n({text}).backward()"
    told = story(tmp_path, body)
    assert "nan" in told
    assert (f" call {call} instead, " in told) == bool(call)
    x = torch.tensor([at], requires_grad=True)
    other(x).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


@pytest.mark.parametrize("text", ["x.sqrt().sum()", "x.log().sum()", "(1 / x).sum()", "(x ** 3).sum().sqrt()"])
def test_no_function_is_named_where_none_goes_on(text: str, tmp_path: Path) -> None:
    told = story(tmp_path, f"x = torch.tensor([[0.0, 0.0, 0.0]], requires_grad=True)\n({text}).backward()")
    assert "first appears" in told
    assert " instead" not in told


def test_a_logarithm_whose_argument_many_digits_alone_hold_has_its_gradient(tmp_path: Path) -> None:
    told = story(
        tmp_path, "x = torch.tensor([200.0, 1.0], requires_grad=True)\n(1 - x.sigmoid()).log().sum().backward()"
    )
    x = torch.tensor([200.0, 1.0], dtype=torch.float64)
    first, second = (-x.sigmoid()).tolist()
    found = re.search(r"Mathematically, x\.grad is \[(\S+) (\S+)\]", told)
    assert found is not None
    assert_same([float(number) for number in found.groups()], [first, second], tolerance=1e-2)
    assert "there is no J" not in told


# Options beyond what a type holds ---------------------------------------------------------------------------


@pytest.mark.parametrize("decimals", [-(10**4), 301, 10**9])
def test_round_to_more_decimals_than_a_number_has_is_refused_in_a_sentence(decimals: int) -> None:
    with pytest.raises(SymgradError, match="decimals has to be an integer from -300 to 300"):
        str(explain(f"torch.round(x, decimals={decimals})", x=[1.5]))


# A seed that shows nothing ----------------------------------------------------------------------------------

SOFTMAX = """class S(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        p = {forward}
        ctx.save_for_backward(p)
        return p
    @staticmethod
    def backward(ctx, g):
        (p,) = ctx.saved_tensors
        return {backward}
torch.manual_seed({seed})
x = torch.randn(5, requires_grad=True)
"""
PAIRS = [
    ("x.softmax(-1)", "p * (g - (g * p).sum(-1, keepdim=True)) * 7"),
    ("x - x.mean()", "7 * (g - g.mean())"),
]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("forward", "backward"), PAIRS, ids=[forward for forward, _ in PAIRS])
def test_rows_that_cancel_for_a_seed_are_told_and_rounding_of_them_is_no_slope(
    forward: str, backward: str, seed: int, tmp_path: Path
) -> None:
    body = SOFTMAX.format(forward=forward, backward=backward, seed=seed)
    told = story(tmp_path, f"{body}S.apply(x).sum().backward()")
    assert "backward is wrong" not in told
    assert "rows of J cancel" in told
    apart = story(tmp_path, f"{body}S.apply(x)[1].backward()")
    assert "rows of J cancel" not in apart
    assert "it returns 7 times the derivative" in apart


# Sums of rows of a Hessian ----------------------------------------------------------------------------------

ROWS = "whole rows of H are added, with the mixed derivatives (a Laplacian adds only the diagonal)"
FIELD = """X = torch.tensor([[0.3, 0.4], [1.0, 2.0]], requires_grad=True)
u = X[:, 0] ** 2 * X[:, 1]
(g,) = torch.autograd.grad(u.sum(), X, create_graph=True)
"""


@pytest.mark.parametrize(
    ("end", "mixed"),
    [
        ("torch.autograd.grad(g.sum(), X)", True),
        ("torch.autograd.grad(g, X, torch.ones_like(g))", True),
        ("g.sum().backward()", True),
        ("torch.autograd.grad(g[:, 0].sum(), X)", False),
        ("torch.autograd.grad((g * X.detach()).sum(), X)", False),
    ],
)
def test_a_gradient_that_is_summed_and_differentiated_is_no_laplacian(end: str, mixed: bool, tmp_path: Path) -> None:
    told = story(tmp_path, FIELD + end)
    assert "a Hessian-vector product" in told
    assert (ROWS in told) == mixed


# A node that no backward reaches ------------------------------------------------------------------------------

SQUARE = """
class Square(torch.autograd.Function):
    forward = staticmethod(lambda ctx, x: (ctx.save_for_backward(x), (x**2).sum())[1])
    backward = staticmethod(lambda ctx, v: 2 * v * ctx.saved_tensors[0])
w = torch.tensor([0.2, 0.8], requires_grad=True); p = w.softmax(0)
"""


@pytest.mark.parametrize(
    "line", ["Square.apply(p); (p * 3).sum().backward()", "Square.apply(w)\n(p * 3).sum().backward()"]
)
def test_a_result_that_is_thrown_away_is_told(line: str, tmp_path: Path) -> None:
    """The scaler of an auxiliary loss was called for the sake of its backward, which never ran."""
    told = story(tmp_path, SQUARE + line)
    assert "the result of Square.apply (line 7) is not used, so its backward never" in told


READ = (
    "for _ in range(2): Square.apply(w).backward()", "(Square.apply(w) * 2).backward()",
    "print(Square.apply(w).item()); (w * 2).sum().backward()", "a = Square.apply(w); (w * 2).sum().backward()",
    "y = Square.apply(w) * 2; del y; (w * 2).sum().backward()", "Square.apply(w.detach()); (w * 2).sum().backward()",
    "with torch.no_grad(): Square.apply(w)\n(w * 2).sum().backward()",
)  # fmt: skip


@pytest.mark.parametrize("line", READ)
def test_a_result_that_something_reads_is_not_said_to_be_thrown_away(line: str, tmp_path: Path) -> None:
    assert "is not used" not in story(tmp_path, SQUARE + line)


@pytest.mark.parametrize(("numbers", "happens"), [("1e25, 2e25", "overflows"), ("1e-25, 2e-25", "underflows")])
def test_a_gradient_of_0_in_single_precision_is_told_by_what_became_of_the_step(
    numbers: str, happens: str, tmp_path: Path
) -> None:
    told = story(tmp_path, f"x = torch.tensor([{numbers}], requires_grad=True)\ntorch.linalg.norm(x).backward()")
    assert f"torch.linalg.norm(x) (line 3) {happens}, and the largest entry is 0.894" in told
