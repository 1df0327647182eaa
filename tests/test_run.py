"""``symgrad run``: scripts run as they are, and each call of backward is explained from what was seen."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import numpy as np
import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.event_content import closing_text, legend_text
from symgrad.tracing.story.events import summarize_leaves
from symgrad.tracing.story.session_pages import event_text, session_json
from tests.networks import LENET
from tests.played import play, tell


def test_a_named_tuple_s_tensors_are_called_by_its_fields(tmp_path):
    batch = (
        "import collections\nb = collections.namedtuple('B', 'x y')(torch.ones(2, requires_grad=True), torch.ones(2))\n"
    )
    told = tell(tmp_path, f"{batch}(b.x * b.y).sum().backward()\n")
    assert "out = (b.x * b.y).sum()" in told


def test_gradient_argument_py(tmp_path):
    session, told = play(
        tmp_path,
        """
from torch.autograd import Variable
x = Variable(torch.ones(2, 3), requires_grad=True)
a = Variable(torch.ones(3, 4))
out = torch.mm(x, a)
gradient = torch.FloatTensor([[1, 2, 3, 4], [5, 6, 7, 8]])
out.backward(gradient)
""",
    )
    (leaf,) = session.calls[0].leaves
    assert leaf.form == "v @ a.T"
    assert leaf.jacobian == "8×6 I(2) ⊗ aᵀ"
    np.testing.assert_array_equal(leaf.added, [[10] * 3, [26] * 3])
    assert "out = x @ a" in told


def test_scalar_and_non_scalar_output_py(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.tensor([1., 2., 3.], requires_grad=True)
y = torch.tensor([4., 5., 6.], requires_grad=True)
torch.dot(x, y).backward()
z = x * y
try:
    z.backward()
except RuntimeError as e:
    print(f"Error: {e}")
""",
    )
    assert session.status == 0
    assert [leaf.form for leaf in session.calls[0].leaves] == ["y", "x"]
    assert session.calls[1].failure.startswith("RuntimeError: grad can be implicitly created")
    assert "the gradient of the sum:      z.backward(torch.ones_like(z))   or z.sum().backward()" in "\n".join(
        session.calls[1].reasons
    )


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_lenet_py(tmp_path, precision):
    session, told = play(tmp_path, f"torch.set_default_dtype(torch.{precision})\n" + LENET)
    assert [len(call.leaves) for call in session.calls] == [10, 10]
    assert not any(call.boxes for call in session.calls)
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)
    if precision == "float64":
        assert max(leaf.error for call in session.calls for leaf in call.leaves) < 1e-9
    assert all(leaf.before is None for leaf in session.calls[1].leaves)
    assert "10 leaves = torch" in told
    assert "conv1.weight  10×150" in told


# Loops, grad, several outputs -----------------------------------------------------------------------------

LOOP = """
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.{name}(net.parameters(), lr=0.05)
x, y = torch.randn(16, 3), torch.randn(16, 1)
for step in range(20):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(net(x), y)
    loss.backward()
    optimizer.step()
"""


@pytest.mark.one_in(2)
@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_a_training_loop(tmp_path, name):
    session, told = play(tmp_path, LOOP.format(name=name))
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20]
    assert all(call.agrees for call in session.calls)
    assert [call.repeated for call in session.calls] == [False] + [True] * 5
    assert "call 20: the same program; 4 leaves = torch" in told
    assert "script.py:10: 14 further calls with as many operations, equal where compared, counted only" in closing_text(
        session
    )
    assert "calls 1, 2, 3, 5, 10, 20 were checked" in closing_text(session)
    assert told.count("the next backward() starts from zero") == 1


NETWORKS = {
    "an LSTM cell": """
net = torch.nn.LSTMCell(3, 4)
h, c = net(torch.randn(2, 3))
(h + c).backward(torch.randn(2, 4))
""",
    "a transformer encoder layer with dropout": """
net = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
net(torch.randn(2, 5, 8)).pow(2).mean().backward()
""",
    "a residual block with batch norm": """
class Residual(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.BatchNorm2d(3)
        self.conv2, self.norm2 = torch.nn.Conv2d(3, 3, 3, padding=1), torch.nn.BatchNorm2d(3)
        self.relu = torch.nn.ReLU(inplace=True)
    def forward(self, x):
        y = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(x)))))
        y += x
        return self.relu(y)
net = Residual()
net(torch.randn(2, 3, 5, 5)).sum().backward()
""",
}


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", NETWORKS)
def test_networks(tmp_path, name):
    session, _ = play(tmp_path, f"torch.manual_seed(0)\ntorch.set_default_dtype(torch.float64)\n{NETWORKS[name]}")
    (call,) = session.calls
    assert session.status == 0
    assert call.boxes == ()
    assert len(call.leaves) >= 4
    assert all(leaf.error < 1e-9 for leaf in call.leaves if not leaf.rounding)
    assert session.agrees


def test_a_hook_is_no_disagreement(tmp_path):
    session, told = play(
        tmp_path,
        """
h = torch.zeros(2, requires_grad=True)
h.register_hook(lambda g: g * 2)
(h * 3).sum().backward()
""",
    )
    (leaf,) = session.calls[0].leaves
    np.testing.assert_array_equal([leaf.added, leaf.after], [[3, 3], [6, 6]])
    assert session.agrees
    assert "h has a hook: torch adds what the hook returns for vᵀJ" in told
    assert "changed by a hook" in told
    assert "≠" not in told


@pytest.mark.slow
def test_clipped_gradients_are_told_once(tmp_path):
    clipped = LOOP.format(name="SGD").replace(
        "    optimizer.step()", "    torch.nn.utils.clip_grad_norm_(net.parameters(), 0.1)\n    optimizer.step()"
    )
    told = tell(tmp_path, clipped)
    assert " ".join(told.split()).count("every gradient is clipped: the total norm is ") == 1


def test_parameters_that_numpy_updates_between_steps(tmp_path):
    session, _ = play(
        tmp_path,
        """
w = torch.tensor([1., 2.], requires_grad=True)
for step in range(3):
    loss = (w**2).sum()
    w.grad = None
    loss.backward()
    w.detach().numpy()[:] -= 0.25 * w.grad.numpy()
""",
    )
    assert session.status == 0
    assert all(call.explained for call in session.calls)
    np.testing.assert_allclose([call.leaves[0].added for call in session.calls], [[2, 4], [1, 2], [0.5, 1]])
    assert session.agrees


@pytest.mark.parametrize("name", ["2.bias", "net[2].bias"])
def test_one_call_in_detail(tmp_path, name):
    session, _ = play(tmp_path, LOOP.format(name="SGD"), call=3, only=[name])
    assert [call.number for call in session.calls] == [3]
    assert [leaf.name for leaf in session.calls[0].leaves] == ["net[2].bias"]
    assert "19 further calls" in closing_text(session)


def test_autograd_grad_and_several_outputs(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.tensor([1., 2., 3., 4.], requires_grad=True)
y = torch.outer(x, x)
g, = torch.autograd.grad(y, x, torch.ones(4, 4))
torch.autograd.backward([x.sum(), x * 2], [torch.tensor(1.), torch.ones(4)])
assert g.tolist() == [20.] * 4
""",
    )
    assert session.status == 0
    assert session.calls[0].leaves[0].form == "(v + v.T) @ x"
    np.testing.assert_array_equal(session.calls[1].leaves[0].added, [3] * 4)
    assert session.agrees


CUBE = """
class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x**3
    @staticmethod
    def backward(ctx, v):
        return v * 7"""


def test_a_wrong_custom_backward_is_torchs_own(tmp_path):
    session, told = play(
        tmp_path,
        f"""{CUBE}
x = torch.ones(2, requires_grad=True)
Cube.apply(x).sum().backward()
""",
    )
    np.testing.assert_array_equal(session.calls[0].leaves[0].added, [7, 7])
    assert "is not verified" in told


def test_what_goes_through_a_black_box_is_never_said_to_be_checked(tmp_path):
    """A wrong backward of the user's own: its numbers are torch's, and neither equal nor derived; the others are."""
    session, told = play(
        tmp_path,
        f"""{CUBE}
x = torch.ones(2, requires_grad=True)
w = [torch.ones(2, requires_grad=True) for _ in range(7)]
for _ in range(2):
    (Cube.apply(x).sum() + sum((own * 2).sum() for own in w)).backward()
""",
    )
    first, again = session.calls
    assert {(leaf.boxed, leaf.agrees) for leaf in first.leaves} == {(True, None), (False, True)}
    assert session.agrees
    page = told.splitlines()
    (start,) = [n for n, line in enumerate(page) if re.match(r" +x +1×2", line)]
    row = page[start]
    assert row.endswith("not verified")
    assert "derived" not in row
    assert summarize_leaves(again) == "7 leaves = torch, 1 leaf not verified"
    assert legend_text(session).count("\n") == 4
    alone = replace(session, events=[replace(first, leaves=tuple(leaf for leaf in first.leaves if leaf.boxed))])
    assert "= torch" not in legend_text(alone)
    assert "= torch" not in "".join(map(summarize_leaves, alone.calls))
    data = json.loads(session_json(session))["events"][0]["leaves"]
    assert sorted((leaf["black_box"], leaf["agrees"]) for leaf in data if leaf["name"] == "x") == [(True, None)]


def test_nothing_compared_is_not_said_to_be_equal(tmp_path):
    """A call that reaches no leaf, and a leaf whose gradient a hook changed."""
    session, _ = play(
        tmp_path,
        """
x = torch.ones(2, requires_grad=True)
x.register_hook(lambda g: g * 2)
(x * 3).sum().backward()
""",
    )
    (call,) = session.calls
    assert summarize_leaves(call) == "1 leaf not compared"
    assert summarize_leaves(replace(call, leaves=())) == "no leaf is reached"


def test_a_second_order_call_is_told_with_the_backward_that_it_goes_through(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.tensor([1., 2.], requires_grad=True)
g, = torch.autograd.grad((x**3).sum(), x, create_graph=True)
g.sum().backward()
assert x.grad.tolist() == [6., 12.]
""",
    )
    assert session.status == 0
    call = session.calls[1]
    assert "g = 3 * v_t1 * x ** 2" in call.program
    assert [(leaf.form, leaf.agrees) for leaf in call.leaves] == [("6 * u_g * v_t1 * x", True)]
    assert "u_name is ∂out/∂name" in event_text(call)


def test_a_variable_that_a_loop_left_behind_names_no_parameter(tmp_path):
    """Within the loop it does, and elsewhere if nothing else does."""
    session, _ = play(
        tmp_path,
        """
net = torch.nn.Linear(2, 1)
for p in net.parameters():
    p.pow(2).sum().backward()
for w in [torch.ones(2, requires_grad=True)]:
    pass
(net(torch.ones(2)) * w).sum().backward()
""",
    )
    assert [[leaf.name for leaf in call.leaves] for call in session.calls] == [["p"], ["p"], ["weight", "bias", "w"]]


def test_a_backward_in_a_capture_of_a_watched_script_has_the_names_of_the_script(tmp_path) -> None:
    """It failed at once (a default of `torch.autograd.backward` was lost), and would have had a number for a name."""
    (tmp_path / "held_elsewhere.py").write_text(
        "def f(x):\n    (x * held()).sum().backward()\n    return x * 2\n\n\n"
        "def behind(w):\n    return eval('lambda: held', {'held': w})\n"
    )
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, symgrad, held_elsewhere\n"
        "w = torch.ones(3, requires_grad=True)\n"
        "held_elsewhere.held = held_elsewhere.behind(w)\n"
        "symgrad.capture(held_elsewhere.f, torch.ones(3))\n"
        "(w * w).sum().backward()\n"
    )
    session = run_script(str(script), [])
    assert session.status == 0
    first, second = session.events
    assert [leaf.name for leaf in first.leaves][1:] == ["w"]
    assert [leaf.name for leaf in second.leaves] == ["w"]


def test_what_several_names_are_assigned_has_the_first_of_them(tmp_path) -> None:
    """`h = c = zeros(3)` before a loop was called data, and every `a = b = …` by a number."""
    session, _ = play(
        tmp_path,
        "w = torch.ones(3, requires_grad=True)\n"
        "def net(x):\n    h = c = torch.zeros(3)\n    for t in x:\n        a = b = h * w + t\n"
        "        h = a.tanh()\n        c = c + b\n    return h.sum() + c.sum()\n"
        "net(torch.ones(2, 3)).backward()\n",
    )
    (event,) = session.events
    assert event.told.forward[0] == "a = h * w + t"
    assert "data" not in " ".join(event.told.forward)


def test_numbers_are_quoted_as_the_script_has_them(tmp_path) -> None:
    """`-9e15 * ones_like(e)` was quoted with fifteen zeros, and a loop over 1e-3 with 0.001."""
    told = tell(
        tmp_path,
        "e = torch.ones(3, requires_grad=True)\n"
        "out = torch.where(e > 2, e, -9e15 * torch.ones_like(e)).mean()\nout.backward(torch.tensor(1E-3))\n",
    )
    assert "-9e15 * torch.ones_like(e)" in told
    assert "1E-3" in told


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "lines",
    [
        (
            "net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))\nx = torch.rand(4, 2)\n"
            "net(x).sum().backward()\nnet.eval()\nnet(x).pow(2).sum().backward()\n"
        ),
        (
            "x, m, v = torch.rand(4, 3, requires_grad=True), torch.zeros(3), torch.ones(3)\n"
            "torch.nn.functional.batch_norm(x, m, v, training=True).exp().sum().backward()\n"
            "torch.nn.functional.batch_norm(x, m, v).pow(2).sum().backward()\n(x * m).sum().backward()\n"
        ),
        (
            "net, x = torch.nn.InstanceNorm1d(3, track_running_stats=True), torch.rand(2, 3, 4, requires_grad=True)\n"
            "net(x).exp().sum().backward()\nnet.eval()\nnet(x).pow(2).sum().backward()\n"
        ),
    ],
)
def test_statistics_that_a_norm_has_moved_are_read_as_they_are(tmp_path, lines: str) -> None:
    """torch counts no version of them: the call in eval() was said to give another value than it gave."""
    session, _ = play(tmp_path, f"torch.manual_seed(0)\n{lines}")
    told = [event for event in session.events if hasattr(event, "number")]
    assert len(told) > 1
    assert all(event.explained and not event.boxes for event in told)
    assert all(leaf.agrees for event in told for leaf in event.leaves)


def test_a_backward_inside_a_backward_is_told_with_what_it_adds_to(tmp_path) -> None:
    """A checkpoint of the old kind runs one of its own, and the leaves that it fills were not mentioned at all."""
    session, _ = play(
        tmp_path,
        "from torch.utils.checkpoint import checkpoint\n"
        "a, b = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1)\nx = torch.ones(3, 2, requires_grad=True)\n"
        "b(checkpoint(a, x, use_reentrant=False)).mean().backward()\n"
        "b(checkpoint(a, x, use_reentrant=True)).mean().backward()\n",
    )
    first, second = session.events
    assert "ran inside" not in " ".join(first.notes)
    (told,) = [note for note in second.notes if "ran inside" in note]
    assert "added to .grad of a.weight, a.bias:" in told


@pytest.mark.parametrize(
    "line",
    [
        "b(checkpoint(a, a(x), use_reentrant=True)).mean().backward()",
        "(checkpoint(lambda t: a(t).tanh() @ e.weight.T, e(torch.tensor([1, 1])), use_reentrant=True)).sum().backward()",
    ],
)
def test_a_leaf_that_a_backward_inside_adds_to_as_well_is_not_compared(tmp_path, line: str) -> None:
    """A layer that stands outside of a checkpoint too was an accusation, or another v that torch was said to give."""
    session, told = play(
        tmp_path,
        "from torch.utils.checkpoint import checkpoint\ntorch.manual_seed(0)\n"
        "a, b, e = torch.nn.Linear(2, 2), torch.nn.Linear(2, 1), torch.nn.Embedding(3, 2)\n"
        f"x = torch.ones(3, 2)\n{line}\n",
    )
    (event,) = session.events
    assert event.explained
    assert event.agrees
    assert "changed by a backward inside" in " ".join(told.split())


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("steps", "has_lines"), [(320, True), (1001, False)])
def test_a_long_loop_over_one_weight_is_told_or_refused_and_compared(tmp_path, steps: int, has_lines: bool) -> None:
    """A sum of thousands of terms was a RecursionError, and what became too small on the way had "no derivative"."""
    session, _ = play(
        tmp_path,
        "w = torch.tensor(0.9, requires_grad=True)\nh = torch.tensor(0.1)\n"
        f"for i in range({steps}):\n    h = torch.tanh(h * w + 0.1)\nh.backward()\n",
    )
    (event,) = session.events
    assert [leaf.agrees for leaf in event.leaves] == [True]
    assert not [note for note in event.notes if "no derivative" in note]
    assert bool(event.told.lines) == has_lines
    assert ("a sum of 1,001 terms" in event.told.warning) != has_lines
