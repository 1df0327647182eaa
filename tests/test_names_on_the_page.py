"""Every name that a story mentions stands on its page, and is a name that the script's reader knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

import symgrad
from symgrad.tracing.record.frame_names import find_loop_only_names
from tests.played import play_network

LOST = """
torch.manual_seed(0)
D = nn.Linear(4, 1)
real, fake = torch.randn(5, 4), torch.randn(5, 4)
l = F.relu(1 - D(real) * 0).mean() + F.relu(D(fake) * 0 + 1).mean() - D.bias.sum() * 0
l.backward()
"""
SLICES = """
X, y = torch.randn(20, 3), torch.randn(20)
w = torch.zeros(3, 2, requires_grad=True)
((X[:10] @ w - y[:10, None]) ** 2).mean().backward()
"""
OWN = """
class Turn(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g

x = torch.randn(3, 4)
body, head, other = nn.Linear(4, 4), nn.Linear(4, 2), nn.Linear(4, 2)
h = body(x).tanh()
(head(h).sum() + other(Turn.apply(h)).pow(2).sum()).backward()
"""
READ = re.compile(r"(?<![\w.])[a-zA-Z]\w*(?:__\w*|_weight|_bias)\b|(?<![\w.])t\d+(?!\w)")
"""A name that Python alone has, as X__10 or head_weight, and one that a listing numbers."""


@pytest.mark.parametrize("source", [LOST, SLICES, OWN], ids=["lost", "slices", "own"])
def test_a_note_mentions_what_a_line_says(source: str, tmp_path: Path) -> None:
    _, told = play_network(tmp_path, source)
    defined = set(re.findall(r"^ +(t\d+) += ", told, re.MULTILINE))
    assert set(READ.findall(told)) - defined == set()


FILTER = """
H, A = torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 1.0], [0.0, 1.0]], requires_grad=True)
X = torch.arange(12.0).reshape(6, 2)
P, m = torch.eye(2), 0
for k in range(2):
    P = A @ P @ A.T
    m = m + (H @ P @ H.T).sum() + (X[:3] @ A).pow(2).sum() + (P @ H.T).sum()
m.backward()
"""


def test_what_a_line_reads_again_is_the_same_input(tmp_path: Path) -> None:
    session, told = play_network(tmp_path, FILTER)
    assert session.agrees
    assert "H.T" in told
    assert "X[:3]" in told
    assert not re.search(r"\.T_\d|X__3|_T_\d", told)


CHANGED = """
x = torch.ones(3)
w = torch.ones(3, requires_grad=True)
loss = ((w[:2] * x[:2]) ** 2).sum()
x = x * 3
loss = loss + ((w[:2] * x[:2]) ** 3).sum()
loss.backward()
"""


def test_what_was_changed_meanwhile_is_another_input(tmp_path: Path) -> None:
    """The same text with other numbers is no tensor read twice, and no number stands behind it."""
    session, told = play_network(tmp_path, CHANGED)
    assert session.agrees
    assert "data: x[:2]" in told
    assert "x__2" not in told
    assert "x[:2]_2" not in told


def test_data_without_a_name_is_numbered_once_where_the_script_has_some(tmp_path: Path) -> None:
    _, told = play_network(
        tmp_path,
        "data = torch.ones(3)\nw = torch.ones(3, requires_grad=True)\n"
        "(w * torch.rand(3) * torch.rand(3) * torch.rand(3) * data).sum().backward()\n",
    )
    assert "data_4" in told
    assert "data_2_2" not in told


def test_a_loop_over_parameters_gives_none_a_name_though_a_function_elsewhere_has_such_an_argument(
    tmp_path: Path,
) -> None:
    path = tmp_path / "loops.py"
    path.write_text(
        "def f(p, q):\n    q = p\n    return q\nfor p in [1]:\n    q = 2\nfor q in [3]:\n    pass\nlast = 0\n"
    )
    assert find_loop_only_names(str(path), 8) == {"p"}
    assert find_loop_only_names(str(path), 2) == frozenset()
    assert find_loop_only_names(str(path), 4) == frozenset()


NOBODYS = """
def parts(w):
    scaled = w * 3
    return scaled.sum(), scaled

w = torch.ones(3, requires_grad=True)
total, _ = parts(w)
(_ ** 2).sum().backward()
"""


def test_an_underscore_is_no_name(tmp_path: Path) -> None:
    _, told = play_network(tmp_path, NOBODYS)
    assert "scaled = w * 3" in told
    assert not re.search(r"(?<!\w)_(?!\w)", told.partition("\n")[2])


TWICE = """
torch.manual_seed(0)
x, window = torch.randn(1, 32, requires_grad=True), torch.hann_window(8)
size = lambda: torch.stft(x, 8, 4, 8, window, return_complex=True).abs()
(size().sum() + size().pow(2).sum()).backward()
"""


@pytest.mark.slow
def test_what_no_line_reads_and_nobody_named_is_not_told(tmp_path: Path) -> None:
    _, told = play_network(tmp_path, TWICE)
    ahead = told.partition("backward:")[0]
    defined = re.findall(r"^ +(t\d+(?:_\d+)?) += ", ahead, re.MULTILINE)
    assert defined
    for name in defined:
        assert len(re.findall(rf"(?<!\w){name}(?!\w)", told)) > 1, name


CANCELS = """
torch.manual_seed(2)
scores, to = torch.randn(24, 2, requires_grad=True), torch.randint(0, 10, (24,))
most = torch.full((10, 2), float("-inf")).scatter_reduce(0, to[:, None].expand(24, 2), scores, "amax")
e = (scores - most[to]).exp()
share = e / (torch.zeros(10, 2).index_add(0, to, e)[to] + 1e-16)
(share * torch.randn(24, 2)).sum().backward()
"""


def test_what_rounding_leaves_of_a_sum_beside_an_infinity_is_no_singular_point(tmp_path: Path) -> None:
    session, told = play_network(tmp_path, CANCELS)
    assert session.agrees
    assert "no derivative at this point" not in told
    assert "undefined" not in told


def test_a_tensor_without_axes_is_reshaped_by_a_call_that_torch_takes() -> None:
    x = torch.tensor([3.0], requires_grad=True)
    found = symgrad.capture(lambda x: torch.exp(2 * x.reshape(())), x).backward()
    assert "x.reshape(())" in str(found)
    space: dict[str, Any] = {}
    exec(found.code(), space)
    assert torch.allclose(space["backward"](x), 2 * torch.exp(2 * x))
