"""What a story says of one call: its leaves summed up, its seed, its zeros, and its lines."""

from __future__ import annotations

import re
import sys

import numpy as np
import pytest
import torch

from symgrad.render.numbers import format_digits
from symgrad.tracing import run_script
from symgrad.tracing.story.event_content import legend_text
from symgrad.tracing.story.events import MANY
from symgrad.tracing.story.session_pages import event_text
from tests.played import play_network, tell_network

DEEP = """
torch.manual_seed(0)
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.rest = nn.ModuleList([nn.Linear(6, 6) for _ in range(7)])
        self.dead = nn.Linear(6, 6)
    def forward(self, x):
        h = self.first(x)
        for layer in self.rest:
            h = torch.tanh(layer(h))
        none = torch.relu(-self.dead(h)**2)
        return h.sum(1) + none.sum(1)
net = Net().double()
loss = net(torch.randn(5, 4).double()).pow(2).mean()
loss.backward()
"""


def test_the_numbers_of_a_summary(tmp_path):
    """Each is computed again from what torch left in .grad."""
    session, told = play_network(tmp_path, DEEP)
    (call,) = session.calls
    assert len(call.leaves) == 18 > MANY
    told = " ".join(told.split())
    lengths = {leaf.name: float(np.linalg.norm(leaf.after)) for leaf in call.leaves}
    moving = {name: size for name, size in lengths.items() if size}
    zero = [name for name, size in lengths.items() if not size]
    most, least = max(moving, key=moving.get), min(moving, key=moving.get)
    equal = sum(np.allclose(leaf.added, leaf.after, rtol=1e-9, atol=1e-12) for leaf in call.leaves)
    assert f"{equal} leaves = torch; the largest gradient norm is {format_digits(moving[most])} ({most})" in told
    assert f"the smallest {format_digits(moving[least])} ({least})" in told
    assert zero == ["dead.weight", "dead.bias"]
    assert re.search(r"0 with respect to dead\.weight, dead\.bias: \w+ = relu\(\w+\) \(line 16\)", told)
    assert "rest[3].weight 1×" not in told


def test_leaves_stand_in_the_order_in_which_they_are_read(tmp_path):
    session, _ = play_network(tmp_path, DEEP)
    names = [leaf.name for leaf in session.calls[0].leaves]
    expected = [f"{layer}.{part}" for layer in ("first", *(f"rest[{n}]" for n in range(7)), "dead")
                for part in ("weight", "bias")]  # fmt: skip
    assert names == expected


def test_zeros_and_their_reasons(tmp_path):
    parts = "".join(f"w{n} = torch.ones(2, requires_grad=True)\n" for n in range(14))
    session, told = play_network(
        tmp_path,
        parts + "masked = w0.masked_fill(torch.tensor([True, True]), 0.)\nstep = w1.round()\n"
        "away = w2 - w2\n(masked + step + away + " + " + ".join(f"w{n}" for n in range(3, 14)) + ").sum().backward()\n",
    )
    why = {leaf.name: leaf.why for leaf in session.calls[0].leaves}
    assert "masked" in why["w0"]
    assert "step = round(w1)" in why["w1"]
    assert why["w2"] == "the gradients that reach it cancel"
    assert all(not why[f"w{n}"] for n in range(3, 14))
    assert "0 with respect to w2: the gradients that reach it cancel" in " ".join(told.split())


def test_what_torch_computed_itself_is_counted_apart(tmp_path):
    told = tell_network(
        tmp_path,
        """
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x * 3
    @staticmethod
    def backward(ctx, v): return v * 3
w = [torch.full((2,), n + 1., requires_grad=True) for n in range(15)]
loss = sum((x * 2).sum() for x in w[:12]) + sum(Own.apply(x).sum() for x in w[12:])
loss.backward()
""",
    )
    told = " ".join(told.split())
    assert "12 leaves = torch" in told
    assert "3 leaves not verified: w[12], w[13], w[14]" in told


def test_why_the_seed_has_another_letter(tmp_path):
    given = "x, v_net = torch.randn(2, 3), nn.Linear(3, 1)\nx.requires_grad_()\n"
    session, told = play_network(tmp_path, given + "head = nn.Linear(1, 1)\nhead(v_net(x)).sum().backward()")
    assert "names of the script begin with v, so the seed is called g here" in told
    assert "\ng weighs the rows; they add up to gᵀJ" in legend_text(session)
    told = tell_network(
        tmp_path, given + "g, = torch.autograd.grad(x.exp().sum(), x, create_graph=True)\ng.sum().backward()"
    )
    assert "v_… already names gradients, so the seed is called u here" in told


TWICE = """
class Cubed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x ** 2
c, x = torch.zeros((), requires_grad=True), torch.tensor([-1.0, 1.0])
b = c * 2
"""


@pytest.mark.parametrize(("read", "what"), [("c", "it"), ("b", "b"), ("(c + c)", "(c + c)")])
def test_what_is_added_up_to_0_over_a_broadcast_is_said_to_be_that(tmp_path, read, what):
    """It was ``nothing comes back through t3 = c.expand(2)``: a step that is not told, and two numbers come back."""
    told = tell_network(tmp_path, f"{TWICE}y = Cubed.apply({read} + x)\n(y ** 2).sum().backward()\n")
    assert f"the gradient in torch with respect to c is 0: the gradients that reach {what} cancel" in " ".join(
        told.split()
    )
    assert "expand" not in told


PARTS = {
    "two files": """
from blocks import block
x = torch.ones(2, requires_grad=True)
(block(x) * 2).sum().backward()
""",
    "one file": """
def block(x):
    return (x - 1).round()
x = torch.ones(2, requires_grad=True)
(block(x) * 2).sum().backward()
""",
}


@pytest.mark.parametrize(("files", "place"), [("two files", "(blocks.py:2)"), ("one file", "(line 6)")])
def test_a_line_of_another_file_is_told_with_the_file(tmp_path, monkeypatch, files, place):
    """In a script of forty lines something was said of line 303: that of the library's file."""
    (tmp_path / "blocks.py").write_text("def block(x):\n    return (x - 1).round()\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    told = tell_network(tmp_path, PARTS[files])
    sys.modules.pop("blocks", None)
    assert f"{place} passes no gradient back: its slope is 0 wherever it has one" in " ".join(told.split())


@pytest.mark.slow
def test_the_seed_has_one_letter_in_all_that_is_said_of_a_call_and_of_those_like_it(tmp_path):
    body = (
        "w, b = torch.ones(2, 2, requires_grad=True), torch.ones(2, requires_grad=True)\nfor turn in range(2):\n"
        "    x = torch.ones(3, 2, requires_grad=True)\n"
        "    d, = torch.autograd.grad(((x @ w) ** 2).sum(), x, create_graph=True)\n"
        "    (F.batch_norm(d + b, None, None, training=True) * torch.ones(3, 2)).sum().backward()\n"
    )
    session, told = play_network(tmp_path, body)
    assert [call.letter for call in session.calls if call.kind == "backward"] == ["g", "g"]
    told = told[told.index("script.py:8") :]
    assert "vᵀJ with respect to" not in told
    assert "v₁" not in told
    assert told.count("the seed is called") == 1


def test_what_is_handed_back_is_not_put_into_any_grad(tmp_path):
    """It was ``net[0].weight.grad = …`` for ``torch.autograd.grad(loss, net.parameters())``."""
    body = (
        "net = nn.Sequential(*[layer for n in range(7) for layer in (nn.Linear(2, 2), nn.Tanh())])\n"
        "loss = net(torch.ones(1, 2)).sum()\ngrads = torch.autograd.grad(loss, net.parameters())\n"
        "net(torch.ones(1, 2)).sum().backward()\n"
    )
    session, told = play_network(tmp_path, body)
    first, second = (told[told.index(f"script.py:{line}") :] for line in (6, 7))
    assert ".grad" not in first[: first.index("script.py:7")].partition("\n")[2]
    assert "v_net[12].weight = " in first
    assert "net[12].weight.grad = " in second
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)


def test_a_gradient_that_stands_among_the_lines_does_not_stand_in_the_table_again(tmp_path):
    body = (
        "net = nn.Sequential(*[layer for n in range(4) for layer in (nn.Linear(2, 2), nn.Tanh())])\n"
        "x = torch.ones(1, 2)\nfor n in range(6):\n    x = net(x)\nx.sum().backward()\n"
    )
    session, told = play_network(tmp_path, body)
    assert len(session.calls[0].leaves) == 8
    assert told.count(".weight.grad = ") == 4
    assert "composed" not in told
    assert told.count(" = torch\n") == 9


def test_the_weights_of_a_gradient_are_its_seed(tmp_path):
    body = (
        "x = torch.rand(3, requires_grad=True)\ny = x ** 3\n"
        "g, = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)\ng.sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert any("seed" in line for line in session.calls[1].program)
    assert not any("data" in line for line in session.calls[1].program)


CANCELS = """
h = torch.randn(5, requires_grad=True) * 2
p = torch.softmax(h, 0)
(p * 1000).sum().backward()
z = nn.Linear(4, 3)(torch.randn(6, 4))
(z.softmax(1) * 1000).sum().backward()
"""
SHRINKS = """
net = nn.Sequential(*[m for _ in range(12) for m in (nn.Linear(4, 4), nn.Sigmoid())])
net(torch.randn(6, 4)).sum().backward()
h = torch.randn(5, dtype=torch.float64, requires_grad=True) * 2
t = torch.tanh(18 + h / 9)
(t * torch.randn(5)).sum().backward()
h = torch.tensor([40.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True) * 2
p = torch.softmax(h, 0)
(p * torch.tensor([1.0, 2.0, 5.0])).sum().backward()
"""


@pytest.mark.one_in(6)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("source", "word"), [(CANCELS, "cancel"), (SHRINKS, "vanishes")])
def test_a_difference_that_cancels_is_not_said_to_vanish(tmp_path, source, word, seed):
    """Which of the two it is was computed: with signs by lot nothing cancels, and what shrinks is short all the same."""
    session, _ = play_network(tmp_path, f"torch.manual_seed({seed})\n{source}")
    assert [word in call.told.warning for call in session.calls] == [True] * len(session.calls)


SMALL = """
z = torch.tensor([[20.0, 0.0, -1.0]], requires_grad=True)
F.cross_entropy(z, torch.tensor([0])).backward()
x = torch.tensor([40.0, 0.0, -1.0], dtype=torch.float64, requires_grad=True)
(torch.softmax(x, 0) * torch.tensor([1.0, 2.0, 5.0])).sum().backward()
y = torch.tensor([9.0, 10.0], requires_grad=True)
torch.sigmoid(-2 * y).sum().backward()
"""
ROUNDED = """
x = torch.randn(5, requires_grad=True)
torch.softmax(x, 0).sum().backward()
a = torch.randn(5, dtype=torch.float64, requires_grad=True)
(a * 3.1 * 0.7 - a * (3.1 * 0.7)).sum().backward()
"""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("source", "rounded"), [(SMALL, False), (ROUNDED, True)])
def test_a_small_gradient_is_not_said_to_be_rounding(tmp_path, source, rounded, seed):
    """What a confident classifier learns is small and not 0; what cancels is 0 but for rounding."""
    session, told = play_network(tmp_path, f"torch.manual_seed({seed})\n{source}")
    rows = [leaf for call in session.calls for leaf in call.leaves]
    assert all(leaf.agrees for leaf in rows)
    assert (
        all(leaf.rounding or not leaf.added.any() for leaf in rows)
        if rounded
        else not any(leaf.rounding for leaf in rows)
    )
    assert ("is 0" in told) is rounded


def test_each_output_has_a_seed_of_its_own(tmp_path):
    session, _ = play_network(
        tmp_path,
        """
x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
y = x**2
torch.autograd.backward([y, y.sin(), y], [torch.ones(3), torch.ones(3), 2 * torch.ones(3)])
""",
    )
    (call,) = session.calls
    assert call.leaves[0].jacobian.startswith("9×3")
    space = {"torch": torch}
    exec(call.told.source.code(), space)
    x = torch.tensor([1.0, -2.0, 3.0])
    seeds = torch.randn(3, 3)
    expected = 2 * x * (seeds[0] + seeds[2] + seeds[1] * (x**2).cos())
    torch.testing.assert_close(space["backward"](x, *seeds), expected)


@pytest.mark.parametrize("rows", ["torch.arange(10)", "range(10)"])
def test_an_entry_of_each_row_goes_back_as_one_class_of_each(tmp_path, rows):
    """The loss of makemore; `z.view(-1)[…]` with the rows' numbers in it is what torch does, and nobody's line."""
    source = (
        f"z = torch.randn(10, 15, requires_grad=True)\nlogp = z.log_softmax(-1)\n(-logp[{rows}, y].mean()).backward()"
    )
    told = tell_network(tmp_path, f"y = torch.randint(0, 15, (10,))\n{source}\n")
    assert "v_logp = -one_hot(y, 15) / 10\n" in told
    assert "v_logp - v_logp.sum(-1, keepdim=True) * logp.exp()" in told


def test_label_smoothing_divides_what_is_summed(tmp_path):
    loss = "torch.nn.functional.cross_entropy(z, y, label_smoothing=0.1).backward()"
    told = tell_network(tmp_path, f"y = torch.arange(10)\nz = torch.randn(10, 15, requires_grad=True)\n{loss}\n")
    assert "(softmax(z, dim=-1) - 0.9 * one_hot(y, 15) - 1 / 150) / 10" in told


ACTOR = """
s, w = torch.randn(8, 4), torch.randn(5, 4, requires_grad=True)
a, c = torch.randn(2, 5, requires_grad=True), torch.randn(1, 5, requires_grad=True)
z = F.linear(s, w)
logits, value = F.linear(F.relu(z), a), F.linear(F.relu(z), c)
loss = F.smooth_l1_loss(value, torch.randn(8, 1)) - logits.mean()
loss.backward()
"""


@pytest.mark.slow
def test_a_condition_and_a_division_stand_once(tmp_path):
    """Two heads over one layer, as actor and critic have."""
    told = play_network(tmp_path, ACTOR, 120)[1]
    assert "v_value  = where((value - target).abs() >= 1, (value - target).sign(), value - target) / 8\n" in told
    assert "v_z      = (v_logits @ a + v_value * c) * (z > 0)\n" in told
    assert "v_logits = -ones_like(logits) / 16\n" in told


@pytest.mark.parametrize(("width", "last"), [(62, "another_long_name.sum() + other.sum()"), (84, "")])
def test_the_shape_of_a_line_that_is_wrapped_stands_in_the_column(tmp_path, width: int, last: str) -> None:
    """It stood right behind the code, at no other shape's place."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "x, w = torch.ones(4, 3), torch.ones(3, 5, requires_grad=True)\n"
        "another_long_name = torch.ones(5, 2, requires_grad=True)\n"
        "first_hidden_layer = torch.relu(x @ w)\n"
        "other = first_hidden_layer.exp()\n"
        "product = first_hidden_layer @ another_long_name\n"
        "loss = torch.sigmoid(product + first_hidden_layer.sum() * another_long_name.sum() + other.sum()).pow(2)\n"
        "(loss * first_hidden_layer.tanh()[:, :2]).sum().backward()\n"
    )
    told: list[str] = []
    run_script(str(script), [], tell=lambda event: told.append(event_text(event, width)))
    shapes = [line for line in told[0].partition("  v = 1")[0].split("\n") if "4×" in line]
    assert len({line.rindex("4×") for line in shapes}) == 1
    assert last in [line.rpartition("4×")[0].strip() for line in shapes]
