"""What data is called that the script has no name for, and what bears no name: each word is held against the run."""

from __future__ import annotations

import re

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import event_text

torch = pytest.importorskip("torch")

DATA = """
import torch
torch.manual_seed(0)
X, E, h0 = torch.randn(4, 3), torch.randn(5, 3), torch.zeros(1, 4, 2)
w = torch.randn(5, 2, requires_grad=True)
drop, rnn = torch.nn.Dropout(0.5), torch.nn.LSTM(3, 2, batch_first=True)
((X @ E.T) @ w).sum().backward()
(torch.randn(5, 2) * w * drop(torch.ones(5, 2))).sum().backward()
torch.nn.functional.dropout(w, 0.5).sum().backward()
seq = torch.randn(4, 2, 3)
rnn(seq, (h0, h0 + 1))[0].sum().backward()
"""


def told(tmp_path, text: str) -> list[str]:
    path = tmp_path / f"script_{len(text)}.py"  # one file each: lines of a file that was read are kept
    path.write_text(text, encoding="utf-8")
    return [" ".join(event_text(call).split()) for call in run_script(str(path), [], tell=lambda event: None).events]


@pytest.mark.slow
def test_data_without_a_name_is_the_text_that_made_it_or_its_numbers(tmp_path):
    product, drawn, dropped, recurrent = told(tmp_path, DATA)
    assert "data: X @ E.T" in product
    assert "data: torch.randn(5, 2)" in drawn
    assert "made inside drop(torch.ones(5, 2))" in drawn
    assert "mask: the dropout mask, 0 where it drops and 2 elsewhere" in dropped
    assert "seq.transpose(0, 1)" in recurrent
    assert "h0[0]" in recurrent
    assert "ones" in recurrent


HOLDING = """
import torch
W = torch.randn(1, 4, requires_grad=True)
b = torch.zeros(1, requires_grad=True)
total = 0
for task in range(2):
    fast = [W - 0.1 * W.sin(), b - 0.1 * b.exp()]
    total = total + (torch.ones(5, 4) @ fast[0].T + fast[1]).tanh().sum()
total.backward()
"""

INSIDE = """
import torch
from torch.autograd.functional import hvp
def f(w): return w.exp().sum().log()
a = torch.arange(4.)
hv = hvp(f, a, a)[1]
"""


@pytest.mark.slow
def test_no_tensor_bears_the_name_of_what_holds_it_or_of_what_its_line_only_gives_later(tmp_path):
    (call,) = told(tmp_path, HOLDING)
    assert " fast[1]" in call
    assert not re.search(r"fast\b(?!\[)", call)
    calls = told(tmp_path, INSIDE)
    assert calls
    for text in calls:
        header, _, rest = text.partition("hv = hvp(f, a, a)[1]")
        assert "hv" not in header
        assert rest
        assert not re.search(r"\bhv\b", rest)


NORMED = """
import torch
from torch import nn
torch.manual_seed(0)
new = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4))
old = nn.utils.spectral_norm(nn.Linear(3, 4))
x, w, s = torch.rand(2, 3), torch.rand(3, 2, requires_grad=True), torch.ones(3, 3)
new(x).sum().backward()
old(x).sum().backward()
((x.abs() + 0) @ w).sum().backward()
(x.clone() @ w).sum().backward()
"""


@pytest.mark.slow
def test_a_copy_of_a_buffer_has_the_name_of_the_buffer(tmp_path):
    new, old, computed, copied = told(tmp_path, NORMED)
    assert "new.parametrizations.weight[0]._u 4" in new
    assert "new.parametrizations.weight[0]._v 3" in new
    assert "old.weight_u 4" in old
    assert "data" not in new + old
    assert "data: x.abs() + 0" in computed  # equal to x, but not a copy of it
    assert "x 2×3" in copied


def test_a_copy_of_what_has_changed_since_keeps_no_name(tmp_path):
    text = NORMED.partition("new(x)")[0] + "keep = [x.clone() @ w]\nx.mul_(2)\nkeep[0].sum().backward()\n"
    (changed,) = told(tmp_path, text)
    assert "data: x.clone()" in changed


@pytest.mark.one_in(2)
@pytest.mark.parametrize("alone", [True, False])
def test_nobody_is_told_that_a_buffer_has_no_gradient(tmp_path, alone):
    more = "" if alone else "other = torch.nn.Linear(2, 2)\n"
    text = f"import torch\n{more}bn, x = torch.nn.BatchNorm1d(3), torch.rand(4, 3)\n(bn(x) ** 2).sum().backward()\n"
    (found,) = told(tmp_path, text)
    assert "running_mean" not in found.partition("has requires_grad=False")[0].rpartition("= torch")[2]
    assert "x has requires_grad=False, so x.grad stays None" in found


def test_what_has_no_name_is_not_called_as_another_tensor_of_the_script(tmp_path):
    text = """\
import torch
mask, w = torch.tensor([1.0, 2.0]), torch.ones(2, 3, requires_grad=True)
(torch.nn.functional.dropout(w, 0.5) * mask[:, None]).sum().backward()
"""
    (found,) = told(tmp_path, text)
    assert "w * mask_2" in found
    assert "mask_2: the dropout mask" in found


def test_a_leaf_without_a_name_is_called_so_and_shown_as_it_was_made(tmp_path):
    """It was called x, beside an x of the script's own."""
    source = """
import torch
x = torch.ones(2)
w = torch.ones(3, requires_grad=True).to(torch.float64)
(w * w).sum().backward()
"""
    (said,) = told(tmp_path, source)
    assert "out = (leaf * leaf).sum()" in said
    assert "leaf: torch.ones(3, requires_grad=True)" in said


PARTS = {
    "d = dict(y=w @ E.T, z=w @ P)\n    return (d['y'].sum() * d['z']).sum()": "d",
    "state = cell(X, (C, C))\n    return (state[0] * w[:4]).sum() + state[1].exp().sum()": "state",
    "pair = Pair(w @ E.T, w @ P)\n    return (pair.b.exp()).sum() + pair.a.sum()": "pair",
}


@pytest.mark.parametrize(("body", "name"), PARTS.items(), ids=PARTS.values())
def test_a_tuple_s_name_is_that_of_no_value_in_it(tmp_path, body: str, name: str):
    """Its last value was called so, where the function had returned: ``state`` was the cell's c alone."""
    source = f"""
import torch
from collections import namedtuple
Pair = namedtuple("Pair", "a b")
X, E, P, C = torch.randn(4, 3), torch.randn(5, 2), torch.randn(2, 3), torch.zeros(4, 2)
w, cell = torch.randn(5, 2, requires_grad=True), torch.nn.LSTMCell(3, 2)
def f():
    {body}
f().backward()
"""
    (said,) = told(tmp_path, source)
    assert not re.search(rf"(?m)^ *{name}(_\d)? +=", said)
    assert f"v_{name}" not in said


SEVERAL = {
    "a, b = X.chunk(2, dim=-1)\n    return (a * w[:4] + b * w[1:]).sum()": "a: X.chunk(2, dim=-1)[0]; b: X.chunk(2, dim=-1)[1]",
    "return (w * X.topk(2).values[:, 0].max()).sum() + (w[:4] * X[:, :2].sort(0)[0]).sum()": "data_2: X[:, :2].sort(0)[0]",
}


@pytest.mark.parametrize(("body", "said"), SEVERAL.items(), ids=["unpacked", "taken"])
def test_one_of_several_results_is_not_said_to_be_all_of_them(tmp_path, body: str, said: str):
    """Two halves were each x.chunk(2, dim=-1), and the second of two rows was said to be ``src, dst``."""
    head = "\nimport torch\nX, w = torch.randn(4, 4), torch.randn(5, 2, requires_grad=True)\ndef f(X, E):\n    src, dst = E\n    "
    (found,) = told(
        tmp_path, f"{head}{body} + (w[src] * w[dst]).sum()\nf(X, torch.tensor([[0, 1], [2, 3]])).backward()\n"
    )
    assert said in " ".join(found.split())
    assert "src, dst" not in found
    assert "dst: dst" not in found


DROPPED = """
import torch
from torch import nn
torch.manual_seed(0)
class Adapter(nn.Module):
    def __init__(self):
        super().__init__()
        self.dropout, self.A, self.B = nn.Dropout(0.1), nn.Parameter(torch.ones(2, 4)), nn.Parameter(torch.zeros(3, 2))
    def forward(self, x):
        return self.dropout(x) @ self.A.T @ self.B.T
model, x = nn.Sequential(Adapter()), torch.randn(8, 4)
(model(x) ** 2).sum().backward()
"""


def test_what_dropout_made_of_data_is_not_called_as_the_data_and_zeros_are_named(tmp_path):
    """It was ``self.dropout(x)`` in the lines, as if it were drawn again, and B was told as model_0__B."""
    (found,) = told(tmp_path, DROPPED)
    said = " ".join(found.split())
    assert "data @ model[0].A.T" in said
    assert "data: self.dropout(x)" in said
    assert "while model[0].B has the given entries, which are all 0" in said


def test_a_name_that_was_changed_is_told_with_the_text_it_stands_for(tmp_path):
    source = """
import torch
a, w = torch.tensor([0, 2, 1, 1]), torch.randn(4, 3, requires_grad=True)
def f(x):
    a = x * 2
    return a.sigmoid()
f(w).gather(1, a.unsqueeze(1)).sum().backward()
"""
    (found,) = told(tmp_path, source)
    assert "a_0: the script's a.unsqueeze(1)" in found
