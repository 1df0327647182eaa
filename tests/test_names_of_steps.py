"""What steps, leaves and data of a script are called: as its author writes them."""

from __future__ import annotations

import re

import pytest

from tests.networks import NETWORK
from tests.played import play_network, tell_network


@pytest.mark.one_in(4)
@pytest.mark.parametrize(
    ("body", "lines"),
    [
        ("h = x @ w; loss = 0; g = h.tanh(); (g * h).sum().backward()", ["h = x @ w", "g = tanh(h)", "out = sum(?)"]),
        ("out = (\n    (x @ w).relu()\n    + (x @ w).tanh()\n).sum()\nout.backward()",
         ["? = x @ w", "? = relu(?)", "? = x @ w", "? = tanh(?)", "? = ? + ?", "out = sum(?)"]),
        ("a, b = x @ w, (x @ w).sin(); (a * b).sum().backward()",
         ["a = x @ w", "? = x @ w", "b = sin(?)", "? = a * b", "out = sum(?)"]),
        ("f = lambda a: (a @ w).exp()\nf(x).sum().backward()", ["? = x @ w", "? = exp(?)", "out = sum(?)"]),
        ("f = lambda a: (a @ w).exp(); h = f(x); h.sum().backward()", ["? = x @ w", "h = exp(?)", "out = sum(h)"]),
        ("q = sum((x @ w).exp() for _ in range(2)); q.sum().backward()",
         ["? = x @ w", "? = exp(?)", "? = x @ w", "? = exp(?)", "q = ? + ?", "out = sum(q)"]),
        ("f = lambda a: a * a.exp(); q = f(torch.tanh(x @ w)); q.sum().backward()",
         ["? = x @ w", "a = tanh(?)", "? = exp(a)", "q = a * ?", "out = sum(q)"]),
        ("def f(a):\n    return a * a.exp()\nq = torch.sin(f(torch.tanh(x @ w)))\nq.sum().backward()",
         ["? = x @ w", "a = tanh(?)", "? = exp(a)", "? = a * ?", "q = sin(?)", "out = sum(q)"]),
        ("f = lambda a: (a * w).exp()\nh = x @ w\nfor _ in range(2):\n    h = h + f(h[:1]).sum(0)\nh.sum().backward()",
         ["h = x @ w", "h_2 = h + ?", "h_3 = h_2 + ?", "out = sum(h_3)"]),
        ("f = lambda a: (a @ w).exp()\nloss = f(x[:, [2, 1, 0]]).sum()\nloss.backward()",
         ["? = x[:, [2, 1, 0]] @ w", "? = exp(?)", "loss = sum(?)"]),
        ("n = torch.distributions.Normal(x @ w, 1.0)\nn.log_prob(x).sum().backward()", ["n.loc = x @ w"]),
        ("if True: q = (x @ w).exp(); q.sum().backward()", ["? = x @ w", "q = exp(?)", "out = sum(q)"]),
        ("é = x @ w; q = é.exp(); q.sum().backward()", ["é = x @ w", "q = exp(é)", "out = sum(q)"]),
    ],
)  # fmt: skip
def test_a_name_is_that_of_the_statement_and_not_of_the_line(tmp_path, body, lines):
    given = "x, w = torch.randn(2, 3), torch.randn(3, 3, requires_grad=True)\n"
    session, _ = play_network(tmp_path, given + body + "\n")
    told = [re.sub(r"\bt\d+\b", "?", line) for line in session.calls[0].program]
    assert [line for line in told if line in lines] == lines


def test_what_objects_hold_is_called_as_its_author_writes_it(tmp_path):
    session, told = play_network(
        tmp_path,
        """
from dataclasses import dataclass
from typing import NamedTuple
class Agent:
    def __init__(self):
        self.actor, self.scale = nn.Linear(3, 2), torch.zeros(1, requires_grad=True)
    def update(self, obs):
        loss = (self.scale.exp() * self.actor(obs)).mean()
        loss.backward()
class Layer:
    def __init__(self):
        self.weight = torch.randn(3, 3, requires_grad=True)
    @property
    def asked(self):
        raise SystemExit(3)
class Pair(NamedTuple):
    x: torch.Tensor
    y: torch.Tensor
@dataclass
class Batch:
    pair: Pair
Agent().update(torch.randn(5, 3))
layers, b = [Layer(), Layer()], Batch(Pair(torch.randn(4, 3), torch.randn(4, 3)))
h = b.pair.x
for layer in layers:
    h = torch.tanh(h @ layer.weight)
((h - b.pair.y) ** 2).mean().backward()
""",
    )
    assert [[row.name for row in call.leaves] for call in session.calls] == [
        ["self.scale", "self.actor.weight", "self.actor.bias"],
        ["layers[0].weight", "layers[1].weight"],
    ]
    assert "b.pair.y" in told
    assert "data" not in told


def test_many_names_are_not_all_listed(tmp_path):
    body = (
        "w = [torch.ones(2, requires_grad=True) for n in range(9)]\n"
        "def steps():\n    return [0.1 * torch.rand(2) for n in range(9)]\n"
        "loss = sum((p - s).square().sum() for p, s in zip(w, steps()))\nloss.backward()\n"
    )
    told = tell_network(tmp_path, body)
    assert "s, s_2, s_3, s_4, s_5, s_6 and 3 more: each 0.1 * torch.rand(2)" in " ".join(told.split())


def test_a_leaf_that_is_out_of_sight_is_called_as_before(tmp_path):
    """The interpolates of WGAN-GP were a ``leaf`` in the backward of the loss."""
    body = (
        "net = nn.Linear(2, 1)\ndef penalty():\n    inner = torch.rand(3, 2).requires_grad_(True)\n"
        "    d, = torch.autograd.grad(net(inner).tanh().sum(), inner, create_graph=True)\n    return (d ** 2).sum()\n"
        "penalty().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert [leaf.name for leaf in session.calls[1].leaves] == ["inner", "weight", "bias"]


@pytest.mark.parametrize("made", ["{p: 0 for p in net.parameters()}", "[p.numel() for p in net.parameters()]"])
def test_what_a_loop_left_behind_names_no_parameter(tmp_path, made):
    """A comprehension with the same letter binds nothing: the last parameter was called p."""
    body = (
        f"net = nn.Sequential(nn.Linear(2, 1), nn.Tanh())\nfound = {made}\n"
        "for p in net.parameters():\n    p.data.mul_(1)\nnet(torch.rand(3, 2)).sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert [leaf.name for leaf in session.calls[0].leaves] == ["net[0].weight", "net[0].bias"]


def test_what_is_bound_after_a_call_gives_no_name_to_what_a_loop_left_behind(tmp_path):
    """The p of the last line is not that of the loop: in the second turn the last parameter was called p."""
    body = (
        "net = nn.Sequential(nn.Linear(2, 1), nn.Tanh())\nfor turn in range(2):\n"
        "    net(torch.rand(3, 2)).sum().backward()\n    for p in net.parameters():\n        p.data.mul_(1)\n"
        "p = torch.ones(2, requires_grad=True)\np.exp().sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert [[leaf.name for leaf in call.leaves] for call in session.calls] == [["net[0].weight", "net[0].bias"]] * 2 + [
        ["p"]
    ]


@pytest.mark.parametrize(
    ("read", "name"),
    [
        ("x[ix]", "x[ix]"),
        ("x[ 1:, :2 ]", "x[1:, :2]"),
        ("x[t][None]", "x[1][None]"),
        ("x[t:t + 1]", "x[1:2]"),
        ("x.T", "x.T"),
        ("box.x[-1]", "box.x[-1]"),
        ("x[torch.tensor([0])]", "data"),  # a call would run again where the name is read
        ("rand(2, 3)", "data"),
        ("(x[ix] + x[ix])", "data"),
    ],
)
def test_data_that_nobody_assigned_is_called_as_it_is_read(tmp_path, read, name):
    given = (
        "from types import SimpleNamespace as S\nfrom torch import rand\nx, w = rand(2, 3), rand(1, 1).requires_grad_()"
        "\nix, t, box = torch.tensor([1, 0]), 1, S(x=x)\n"
    )
    session, _ = play_network(tmp_path, f"{given}(w * {read}).sum().backward()\n")
    (call,) = session.calls
    assert call.program[-1] == f"out = (w * {name}).sum()" or call.program == (f"t1 = w * {name}", "out = sum(t1)")
    assert call.leaves[0].agrees


def test_two_tensors_of_one_turn_have_two_names(tmp_path):
    """In a residual block called twice, with one name for all it makes, it was ``out = out + out``."""
    body = """
def block(x):
    out = x @ w
    out = out.relu()
    out = out @ w
    out = out + x
    return out.tanh()
w = torch.eye(2, requires_grad=True)
(block(block(block(block(block(torch.ones(2)))))) ** 2).sum().backward()
"""
    session, _ = play_network(tmp_path, body)
    (call,) = session.calls
    block = next(n for n, line in enumerate(call.program) if line.startswith("…"))
    turn = call.program[block + 1 : block + 6]
    assert len({line.partition(" = ")[0].strip() for line in turn}) == 5
    assert not [line for line in call.program if re.search(r"(\b\w+) \+ \1\b", line)]


def test_a_name_inside_of_a_function_is_not_that_of_another_tensor_outside(tmp_path):
    """A library that arranges axes called whatever it was given ``x.reshape(shape)``."""
    session, _ = play_network(
        tmp_path,
        """
w, x, u = torch.randn(4, 3, requires_grad=True), torch.ones(2), torch.arange(12.0)
def grid(x):
    return x.reshape(3, 4)
def turned(x):
    return x.T.contiguous().reshape(-1)
(grid(u) @ w).sum().backward()
(turned(torch.ones(2, 4))[:4] @ w * x.sum()).sum().backward()
""",
    )
    first, second = (" ".join([*call.program, *call.notes, *call.told.forms.values()]) for call in session.calls)
    assert "u.reshape(3, 4) @ w" in first
    assert "x.reshape" not in first + second


def test_data_that_a_library_arranged_is_called_after_the_scripts(tmp_path):
    """It was called ``x.reshape(shape)``, by names that the user did not write."""
    home = tmp_path / "site-packages"
    home.mkdir()
    (home / "arranging.py").write_text("def arrange(x, shape):\n    return x.reshape(shape)\n")
    session, told = play_network(
        tmp_path,
        f"""
import sys
sys.path.append({str(home)!r})
from arranging import arrange
u, w = torch.arange(12.0), torch.randn(3, requires_grad=True)
(arrange(u, (4, 3)) * w).sum().backward()
F.mse_loss(arrange(u + 1, (4, 3)) * w, torch.zeros(4, 3)).backward()
""",
    )
    assert "u.reshape(4, 3) * w" in " ".join(session.calls[0].program)
    assert "x.reshape" not in "".join(told)


def test_what_autocast_rounds_is_called_after_what_it_is(tmp_path):
    session, told = play_network(
        tmp_path,
        """
torch.manual_seed(0)
net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
x = torch.randn(8, 3)
with torch.autocast("cpu", dtype=torch.bfloat16):
    loss = net(x).pow(2).mean()
loss.backward()
""",
    )
    told = session.calls[0].told
    assert told.forward[:3] == (
        "x_bf16 = x.bfloat16()", "net[0].weight_bf16 = net[0].weight.bfloat16()", "net[0].bias_bf16 = net[0].bias.bfloat16()"
    )  # fmt: skip
    assert "v_net[0].weight_bf16 = v_net[0].out.T @ x_bf16" in told.lines
    assert "bfloat16_" not in "".join((*told.forward, *told.lines, *told.forms.values(), told.flow))


def test_what_autocast_widens_keeps_its_name(tmp_path):
    """A sum of half and single precision rounds nothing; the layer's result in half precision was called t1_fp32."""
    source = """
torch.manual_seed(0)
fc, e = nn.Linear(3, 2), torch.randn(4, 2, requires_grad=True)
gc = nn.Linear(2, 2)
with torch.autocast("cpu", dtype=torch.bfloat16):
    y = fc(torch.randn(4, 3)) + e
    loss = nn.functional.mse_loss(torch.relu(gc(y)), torch.randn(4, 2))
loss.backward()
"""
    (call,) = play_network(tmp_path, source)[0].calls
    assert "fp32" not in "".join((*call.told.forward, *call.told.lines))
    assert "y_bf16 = y.bfloat16()" in call.told.forward
    assert all(leaf.agrees for leaf in call.leaves)


@pytest.mark.parametrize(
    ("cast", "called", "said"),
    [
        ("x.half()", "x_fp16", "x.half()"),
        ("x.to(torch.float16)", "x_fp16", "x.half()"),
        ("x.to(dtype=torch.bfloat16)", "x_bf16", "x.bfloat16()"),
        ("x.float()", "x_fp32", "x.float()"),
        ("(x * 2).type(torch.float)", "t1_fp32", "(x * 2).float()"),
    ],
)
def test_a_cast_to_fewer_digits_is_listed_as_what_it_is(tmp_path, cast: str, called: str, said: str) -> None:
    named = f"h = {cast}\n(h.double() * w).sum().backward()\n"
    unnamed = f"(({cast}).double() * w).sum().backward()\n"
    lines = "x, w = (torch.randn(4, dtype=torch.float64, requires_grad=True) for _ in range(2))\n"
    session, _ = play_network(tmp_path, f"torch.manual_seed(0)\n{lines}{named}{unnamed}")
    first, second = session.calls
    assert first.told.forward[0] == f"h = {said}"
    assert second.told.forward[0] == f"{called} = {said}"
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize(
    "made",
    [
        "F.softplus(x)", "torch.nn.Softplus()(x)", "F.ctc_loss(x.log_softmax(2), torch.tensor([[1], [2]]), [5, 4], [1, 1])",
        "F.embedding_bag(torch.tensor([[0, 1], [2, 3]]), x[0], mode='max')",
        "F.embedding_bag(torch.tensor([[0, 1], [2, 3]]), x[0], mode='sum')",
    ],
)  # fmt: skip
def test_what_a_call_of_several_steps_gives_keeps_its_name_and_is_no_cast(tmp_path, made: str, dtype: str) -> None:
    if "ctc" in made and dtype == "bfloat16":
        return  # torch has no such loss
    source = f"""
torch.manual_seed(0)
x = torch.randn(5, 4, 4).to(torch.{dtype})[:, : {2 if "ctc" in made else 4}].clone().requires_grad_()
h = {made}
(h * h).sum().backward()
"""
    (call,) = play_network(tmp_path, source)[0].calls
    text = "\n".join((*call.told.forward, *call.told.lines))
    assert re.search(r"^h = (?!.*(float|half)\(\))", text, re.MULTILINE), text
    assert not re.search("_fp32|_fp16|_bf16", text)
    assert all(leaf.agrees for leaf in call.leaves)


def names_of(session):
    """What the steps of the first call are called."""
    return [line.partition(" = ")[0] for line in session.calls[0].program]


@pytest.mark.slow
def test_what_a_module_gives_or_is_given_is_called_after_it(tmp_path):
    session, _ = play_network(tmp_path, NETWORK.format(blocks=1))
    assert names_of(session) == [
        "x_2", "blocks[0].norm.out", "blocks[0].up.out", "blocks[0].down.input", "blocks[0].down.out", "blocks[0].out",
        "head.out", "loss",
    ]  # fmt: skip
    told = session.calls[0].told.lines
    assert any(line.startswith("v_blocks[0].up.out = (v_") for line in told)
    assert session.calls[0].agrees


def test_a_module_that_is_called_again_and_one_in_another(tmp_path):
    body = (
        "fc, net = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), nn.Linear(2, 1)))\n"
        "net(fc(fc(torch.randn(3, 2)))).sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert names_of(session) == ["fc.out", "fc.out_2", "net[0].out", "net[1][0].out", "net[1][1].out", "out"]


def test_what_is_passed_to_a_function_is_called_as_there(tmp_path):
    body = (
        "def loss(pred, target):\n    return ((pred - target) ** 2).mean()\n"
        "def net(x, w):\n    return torch.tanh(x @ w)\n"
        "w = torch.randn(3, 2, requires_grad=True)\nloss(net(torch.randn(4, 3), w), torch.ones(4, 2)).backward()\n"
    )
    session, told = play_network(tmp_path, body)
    assert [role.split()[0] for role in session.calls[0].roles[:3]] == ["x", "w", "target"]
    assert any(line.startswith("pred = tanh(") for line in session.calls[0].program)
    assert "x: torch.randn(4, 3); target: torch.ones(4, 2)" in told


def test_a_number_beside_a_tensor_gives_it_no_name(tmp_path):
    body = (
        "w, scale = torch.ones(2, requires_grad=True), 2.0\n"
        "def f(a, b):\n    return (scale * a * (b > scale)).sum()\n"
        "f(w * 3, torch.randn(2)).backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert not any(re.match(r"scale\b", line) for line in (*session.calls[0].program, *session.calls[0].roles))


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("module", "given", "gates"),
    [
        ("nn.LSTM(3, 4)", "x", ["in_gate", "forget_gate", "cell_gate", "out_gate", "cy", "hy"]),
        ("nn.LSTMCell(3, 4)", "x[0]", ["in_gate", "forget_gate", "cell_gate", "out_gate", "cy"]),
        ("nn.GRU(3, 4)", "x", ["reset_gate", "input_gate", "new_gate", "cur_hidden"]),
        ("nn.GRUCell(3, 4)", "x[0]", ["reset_gate", "input_gate", "new_gate"]),
    ],
)
def test_gates_have_their_names(tmp_path, module, given, gates):
    body = f"cell = {module}\nx = torch.randn(2, 1, 3)\ncell({given})[0].sum().backward()\n"
    session, _ = play_network(tmp_path, body)
    assert set(gates) <= set(names_of(session))
    assert all(leaf.agrees for leaf in session.calls[0].leaves)


def test_what_torch_turns_before_it_reads_it_is_called_so(tmp_path):
    body = (
        "attn = nn.MultiheadAttention(4, 2, batch_first=True)\nsrc = torch.randn(2, 3, 4)\n"
        "out, _ = attn(src, src, src)\nout.sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert {"q", "k", "value", "attn_output"} <= set(names_of(session))  # v is the seed
    assert session.calls[0].letter == "v"
    assert any("src.transpose(1, 0)" in line for line in session.calls[0].program)
    assert not any(role.startswith("data") for role in session.calls[0].roles)


@pytest.mark.parametrize("view", ["z.T", "z.mT", "c.real", "z.H"])
def test_a_property_that_a_function_is_given_is_called_without_brackets(tmp_path, view):
    """It was z.T() in the line of the matrices."""
    body = f"""
x, y, z = torch.randn(2, 3, requires_grad=True), torch.randn(3, 4), torch.randn(2, 4)
c = torch.randn(4, 2, dtype=torch.complex64)
torch.linalg.multi_dot((x, y, {view})).trace().backward()
"""
    session, _ = play_network(tmp_path, body)
    said = " ".join((*session.calls[0].told.forward, *session.calls[0].told.forms.values()))
    assert f"@ {view}" in said
    assert "()" not in said.replace("trace()", "")


def test_two_values_on_the_right_have_the_two_names_on_the_left(tmp_path):
    body = (
        "w = torch.randn(2, requires_grad=True)\ni, f = w * 2, w * 3\ni, f = torch.sigmoid(i), torch.tanh(f)\n"
        "(i * f).sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert [name for name in names_of(session) if name[0] in "if"] == ["i", "i_2", "f", "f_2"]
