"""Loops and layers in a story: one block is told for all that are alike."""

from __future__ import annotations

import re

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.session import call_events
from tests.networks import NETWORK
from tests.played import play_network, tell_network

LOOP = """
torch.manual_seed(0)
w = torch.randn(3, 3, dtype=torch.float64, requires_grad=True)
for length in ({lengths}):
    h = torch.zeros(2, 3, dtype=torch.float64)
    total = 0
    for part in torch.randn(length, 2, 3, dtype=torch.float64).unbind(0):
        t = h @ w
        h = torch.tanh(t + part)
        total = total + (h * {factor}).sum()
    w.grad = None
    total.backward()
"""


def test_an_unrolled_loop_is_one_block(tmp_path):
    session, _ = play_network(tmp_path, LOOP.format(lengths="9,", factor=2))
    program = session.calls[0].program
    head = next(line for line in program if line.startswith("… these"))
    assert head.startswith("… these 6 steps, lines 11 to 13 in “for part in ")
    assert any("= tanh(" in line for line in program[program.index(head) + 1 :])
    turns = int(re.search(r"(\d+) times first", head)[1])
    others = [line for line in program if not line.startswith("…")]
    assert 9 * 6 - 2 <= turns * 6 + len(others) + 8 <= 9 * 6 + 8  # every step is told once, in a turn or by itself
    assert session.agrees


@pytest.mark.slow
def test_another_number_of_turns_and_another_constant(tmp_path):
    session, told = play_network(tmp_path, LOOP.format(lengths="9, 9, 12, 5", factor=2))
    first, again, longer, shorter = session.calls
    turns = int(re.search(r"these \d+ steps.* (\d+) times first", "\n".join(first.program))[1]) + 1
    assert (first.repeated, again.unlike) == (False, ())
    assert longer.unlike == (f"{turns + 3} turns instead of {turns}",)
    assert shorter.unlike == (f"{turns - 4} turns instead of {turns}",)
    assert "the same program, " in told
    session, _ = play_network(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for n, (size, factor) in enumerate([(100, 0.5), (100, 0.5), (28, 0.5), (100, 0.25), (28, 0.25), (100, 1), (100, 1)]):
    x = torch.ones(size, 3)
    loss = (x * w).exp().sum() * factor if n < 5 else (x * w).sin().sum() * factor
    w.grad = None
    loss.backward()
""",
    )
    assert [(call.repeated, call.unlike) for call in session.calls] == [
        (False, ()),
        (True, ()),
        (True, ("28 rows instead of 100",)),
        (True, ("0.25 instead of 0.5",)),
        (True, ("28 rows instead of 100", "0.25 instead of 0.5")),
        (False, ()),
    ]


def test_layers_of_a_list_are_one_block(tmp_path):
    session, told = play_network(
        tmp_path,
        """
layers = nn.ModuleList([nn.Linear(4, 4) for _ in range(24)])
x = torch.randn(3, 4)
for layer in layers:
    x = torch.relu(layer(x)) + x
x.sum().backward()
""",
    )
    (call,) = session.calls
    where = "… these 3 steps, line 8 in “for layer in layers”, 23 times first, with layers[0], layers[1], layers[2], …"
    assert call.program[0] == f"{where}, layers[22] in place of layers[23]; then:"
    folds = re.findall(
        r"… these (\d) lines (\d+) times (first|more), with (.*?) in place of (layers\[\d+\])", " ".join(told.split())
    )
    assert folds == [
        ("2", "23", "first", "layers[0], layers[1], layers[2], …, layers[22]", "layers[23]"),
        ("4", "22", "more", "layers[22], layers[21], layers[20], …, layers[1]", "layers[23]"),
    ]


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "steps"), [("GRU", 6), ("LSTM", 7), ("RNN", 24)])
def test_the_steps_of_a_recurrent_layer_are_told_once(tmp_path, kind, steps):
    """Forward all but the last one or two, backward all between the first and the last: those read other things."""
    told = tell_network(
        tmp_path,
        f"rnn, x = torch.nn.{kind}(3, 5, batch_first=True), torch.randn(4, {steps}, 3)\n"
        "rnn(x)[0][:, -1].pow(2).sum().backward()\n",
    )
    flat = " ".join(told.split())
    assert re.search(rf"… th\S+ (\d+ )?lines? ({steps - 1}|{steps - 2}) times first", flat)
    more = re.search(r"… th\S+ (?:\d+ )?lines? (\d+) times more, with v_t", flat)
    assert more is not None
    assert int(more[1]) >= steps - 3


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "body",
    [
        "h = torch.tanh(h @ w + rows[n])",
        "h = torch.tanh(h @ w + rows[6 - n])",
        "h = torch.tanh(h @ w + rows[n * n % 7])",
        "h = torch.tanh(h @ w + rows[n] * rows[n // 2])",
        "h = torch.tanh(h @ (w if n % 2 else w.T))",
        "h = torch.tanh(h @ w) + (old if n > 2 else 0 * h); old, older = older if n > 2 else h, h",
        "h = torch.tanh(h @ w); h = h * (n + 1)",
        "h = torch.cat([h, h @ w])",
    ],
)
def test_turns_that_differ_are_not_folded_away(tmp_path, monkeypatch, body):
    """What is told in blocks and by itself, unfolded, are all the steps that ran."""
    session, _ = play_network(
        tmp_path,
        "w = torch.randn(2, 2, dtype=torch.float64, requires_grad=True)\n"
        "h = older = torch.ones(1, 2, dtype=torch.float64)\n"
        "rows = (torch.ones(7, 1, 2, dtype=torch.float64) * w[0]).unbind()\n"
        f"for n in range(7):\n    {body}\nh.sum().backward()\n",
    )
    count = 0
    for line in session.calls[0].program:
        head = re.match(r"… th\w+(?: (\d+))? steps?\b.* (\d+) times first", line)
        count += int(head[1] or 1) * int(head[2]) if head is not None else 1
    seen = []
    original = call_events.list_folded_program
    monkeypatch.setattr(
        call_events, "list_folded_program", lambda program: seen.append(len(program.told)) or original(program)
    )
    run_script(str(tmp_path / "script.py"), [])
    assert seen == [count]
    assert session.agrees


def test_of_two_blocks_one_is_told_and_what_differs(tmp_path):
    """It was ``these 8 steps × 2`` over lines that read ``layers[k].weight``."""
    body = (
        "layers = nn.ModuleList([nn.Linear(2, 2) for n in range(2)])\nx = torch.ones(1, 2)\n"
        "for layer in layers:\n    x = layer(x).tanh().exp().sin().cos()\nx.sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    told = session.calls[0].program
    assert told[0].startswith("… these 5 steps, line 7 in “for layer in layers”, once first, with layers[0] in place")
    assert [line for line in told if "layers[0]" in line] == [told[0]]
    assert [line for line in told if "layers[1].weight" in line]


def test_of_two_turns_that_differ_in_more_than_one_part_both_are_told(tmp_path):
    """Nobody could say what a third turn reads."""
    body = (
        "w, u = [torch.eye(2, requires_grad=True) for n in range(2)], [torch.eye(2, requires_grad=True) for n in 'ab']\n"
        "x = torch.ones(1, 2)\nfor a, b in zip(w, u):\n    x = ((x @ a).tanh().exp() @ b).sin().cos()\n"
        "x.sum().backward()\n"
    )
    session, _ = play_network(tmp_path, body)
    assert not any(line.startswith("…") for line in session.calls[0].program)


def test_what_the_script_calls_by_several_names_is_not_told_as_one(tmp_path):
    """Of q, k and v only v had its lines, and others read q_2 and k_2."""
    body = (
        "w, x = torch.eye(6, requires_grad=True), torch.ones(2, 6)\nh = x @ w\nq, k, v = h.split(2, dim=1)\n"
        "q = q.tanh().exp()\nk = k.tanh().exp()\nv = v.tanh().exp()\n"
        "for n in range(20):\n    v = (v + q) * k\nv.sum().backward()\n"
    )
    told = tell_network(tmp_path, body)
    for name in ("q", "k", "v"):
        assert f"  {name} = " in told or f"  {name}  " in told
    assert "times first" not in told[: told.index("exp")]


LOOPS = """
def step(h, x):
    h = torch.tanh(h + x)
    return h * x.sin()

h = torch.ones(3, requires_grad=True)
x = torch.randn(6, 3)
for row in x.unbind():
    {body}
    k = torch.cos(k)
    h = k + row
h.sum().backward()
"""


@pytest.mark.parametrize(("body", "quoted"), [("k = torch.tanh(h * row)", True), ("k = step(h, row)", False)])
def test_the_head_of_a_loop_is_quoted_where_all_its_steps_are(tmp_path, body, quoted):
    """Steps of a function that the loop calls are not in the loop's body: its head is not said then."""
    session, _ = play_network(tmp_path, LOOPS.format(body=body))
    heads = [line for line in session.calls[0].program if line.startswith("… these")]
    assert len(heads) == 1
    assert ("in “for row in x.unbind()”" in heads[0]) is quoted


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_of_equal_blocks_one_is_told_forward_and_back(tmp_path, blocks):
    session, told = play_network(tmp_path, NETWORK.format(blocks=blocks))
    often = "once" if blocks == 2 else f"{blocks - 1} times"
    ahead, back = "\n".join(session.calls[0].program), " ".join(told.split())
    assert f"{often} first, with blocks[0]" in ahead
    assert not re.search(r"blocks\[0\]\.(up|down)\.out =", ahead)
    assert re.search(rf"… these \d+ lines {often} more, with blocks\[{blocks - 2}\]", back)
    assert "blocks[0].up.weight.grad =" not in back
