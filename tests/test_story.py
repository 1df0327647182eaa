"""The stories of long programs: lines that fit, leaves summed up, calls sampled, blocks folded."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from symgrad.backward import Line
from symgrad.language.python_text import read_python
from symgrad.render.numbers import format_digits
from symgrad.render.wrapping import elide_lines, in_columns, wrap_lines
from symgrad.tracing import run_script
from symgrad.tracing.session.history import Outline, compare_outlines
from symgrad.tracing.session.sampling import OFTEN, is_checked
from symgrad.tracing.story.event_content import closing_text, legend_text
from symgrad.tracing.story.events import MANY, Note
from symgrad.tracing.story.folding import fold_lines
from symgrad.tracing.story.session_pages import event_markdown, event_text, sort_events
from tests.test_run import own_default_precision

__all__ = ["own_default_precision"]


def play(tmp_path, source, width=80, **options):
    """Run a script; its session and everything that was told."""
    path = tmp_path / "script.py"
    path.write_text("import torch\nfrom torch import nn\nimport torch.nn.functional as F\n" + source, encoding="utf-8")
    told = []
    session = run_script(str(path), [], tell=lambda event: told.append(event_text(event, width)), **options)
    assert session.status == 0
    return session, "\n".join(told)


# Lines ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(40))
def test_no_line_is_too_long_and_no_word_is_lost(seed):
    draw = np.random.default_rng(seed)
    signs = list("ab,.()[]·×+= \u1d40")
    text = "\n".join(" " * draw.integers(0, 30) + "".join(draw.choice(signs, draw.integers(0, 300))) for _ in range(5))
    width = int(draw.integers(20, 100))
    found = wrap_lines(text, width)
    assert max(map(len, found.split("\n"))) <= width
    assert re.sub(r"\s", "", found) == re.sub(r"\s", "", text)


@pytest.mark.parametrize("count", [1, 12, 14, 15, 40, 500])
@pytest.mark.parametrize("named", [0, 3, 30])
def test_the_middle_cut_counts_what_it_leaves_out(count, named):
    draw = np.random.default_rng(count + named)
    own = set(draw.choice(count, min(named, count), replace=False).tolist())
    lines = [f"{'h' if n in own else 't'}{n} = x * {n}" for n in range(count)]
    shown = elide_lines(lines, 12)
    left_out = sum(int(m[1]) for line in shown if (m := re.fullmatch(r"… (\d+) more …", line)))
    kept = [line for line in shown if "more" not in line]
    assert len(kept) + left_out == count
    assert kept == [line for line in lines if line in set(kept)]
    assert kept[0] == lines[0]
    assert kept[-1] == lines[-1]
    assert len(shown) <= 25
    if 0 < len(own) <= 4:
        assert own <= {int(re.match(r"[ht](\d+)", line)[1]) for line in kept}


def test_a_table_that_is_too_wide_has_two_lines_a_row():
    rows = [("", "J", "v", "change", ""), ("x", "2×2", "v * y" * 7, "none  [1 2]  [1 2]", "= torch")]
    assert max(map(len, in_columns(rows, 50, 3))) <= 50
    assert len(in_columns(rows, 50, 3)) == 3  # the head has one
    assert len(in_columns(rows, 200, 3)) == 2


# Leaves ---------------------------------------------------------------------------------------------------

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
    session, told = play(tmp_path, DEEP)
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
    session, _ = play(tmp_path, DEEP)
    names = [leaf.name for leaf in session.calls[0].leaves]
    expected = [f"{layer}.{part}" for layer in ("first", *(f"rest[{n}]" for n in range(7)), "dead")
                for part in ("weight", "bias")]  # fmt: skip
    assert names == expected


def test_zeros_and_their_reasons(tmp_path):
    parts = "".join(f"w{n} = torch.ones(2, requires_grad=True)\n" for n in range(14))
    session, told = play(
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
    _, told = play(
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


# Calls ----------------------------------------------------------------------------------------------------


def test_which_calls_are_checked():
    numbers = [n for n in range(1, 100_001) if is_checked(n)]
    assert numbers[:8] == [1, 2, 3, 5, 10, 20, 50, 100]
    assert len(numbers) <= 20


@pytest.mark.slow
def test_another_program_is_told_however_late_it_comes_again(tmp_path):
    session, told = play(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(60):
    y = (w.exp() if step in (55, 57) else w * 2).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20, 50, 58]
    assert OFTEN < 58
    assert [call.repeated for call in session.calls] == [False, *[True] * 6, False]
    assert "exp(w)" in told
    note = next(event for event in session.events if isinstance(event, Note) and "a new program" in event.text)
    assert note.text == (
        "call 56 ran a new program (new: 1 Exp; gone: 1 Mul) and was not recorded: symgrad explains it when it "
        "occurs again, or with symgrad run --call 56"
    )
    assert session.counted == {"script.py:9": 52}
    assert "52 further calls with the same operations and sizes" in closing_text(session)


def test_what_comes_once_while_nobody_looks_is_not_claimed_to_be_the_same(tmp_path):
    session, _ = play(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(30):
    y = (w.exp() if step == 27 else w * 2).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20]
    assert "script.py:9: 24 further calls, counted only" in closing_text(session)
    assert closing_text(session).endswith("; 1 of them ran a program that is not shown\n")


@pytest.mark.slow
def test_a_factor_that_grows_is_no_other_program_each_time(tmp_path):
    """Annealing: a few are told with what is different, then some are looked at."""
    session, _ = play(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for step in range(60):
    loss = (w * (1 + step / 100)).exp().sum() / (step + 1)
    w.grad = None
    loss.backward()
""",
    )
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 10, 20, 50]
    assert "1.01 instead of 1" in " ".join(session.calls[1].unlike)


def test_a_program_that_comes_back_is_told_once(tmp_path):
    """A loop of random depth has a few programs: each later call says which of them it ran."""
    session, told = play(
        tmp_path,
        """
w = torch.ones(3, requires_grad=True)
for depth in (1, 2, 1, 2, 1):
    y = ((w * 2) if depth == 1 else (w * 2).exp()).sum()
    w.grad = None
    y.backward()
""",
    )
    assert [(call.repeated, call.like, call.unlike) for call in session.calls] == [
        (False, 0, ()), (False, 0, ()), (True, 1, ("as in call 1",)), (True, 2, ()), (True, 1, ("as in call 1",)),
    ]  # fmt: skip
    assert told.count("y = ") == 2
    full, _, left = sort_events(session)
    assert ([[call.number for call in told.again] for told in full if told.again], left) == ([[3, 5], [4]], 0)


@pytest.mark.slow
def test_the_story_grows_in_its_file(tmp_path):
    """While the script still runs, what was told so far stands in the file."""
    script = tmp_path / "script.py"
    script.write_text(
        "import torch, pathlib\n"
        "x = torch.ones(2, requires_grad=True)\n"
        "(x * 2).sum().backward()\n"
        "print(len(pathlib.Path('story.txt').read_text(encoding='utf-8').splitlines()))\n"
        "(x * 3).sum().backward()\n"
    )
    code = "from symgrad_cli.run import run; run()"
    found = subprocess.run([sys.executable, "-c", code, "-o", "story.txt", str(script)], capture_output=True, text=True,
                           check=True, cwd=tmp_path)  # fmt: skip
    story = (tmp_path / "story.txt").read_text(encoding="utf-8")
    assert 3 < int(found.stdout) < len(story.splitlines())
    assert "script.py:5" in story
    assert found.stderr == ""
    assert story.endswith("equals what torch computed.\n")
    assert max(map(len, story.splitlines())) <= 80


def test_a_page_grows_by_the_same_parts(tmp_path):
    session, _ = play(tmp_path, "x = torch.ones(2, requires_grad=True)\n(x * 2).sum().backward()\n")
    assert "| `x` |" in "\n".join(map(event_markdown, session.events))
    assert closing_text(session) == ""


# Blocks that repeat ---------------------------------------------------------------------------------------

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
    session, _ = play(tmp_path, LOOP.format(lengths="9,", factor=2))
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
    session, told = play(tmp_path, LOOP.format(lengths="9, 9, 12, 5", factor=2))
    first, again, longer, shorter = session.calls
    turns = int(re.search(r"these \d+ steps.* (\d+) times first", "\n".join(first.program))[1]) + 1
    assert (first.repeated, again.unlike) == (False, ())
    assert longer.unlike == (f"{turns + 3} turns instead of {turns}",)
    assert shorter.unlike == (f"{turns - 4} turns instead of {turns}",)
    assert "the same program, " in told
    session, _ = play(
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
    session, told = play(
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


BACK = [
    line
    for n in range(9, 0, -1)
    for line in (f"v_t{n} = v_t{n + 1} @ w{n} * (t{n} > 0)", f"w{n}.grad = v_t{n}.T @ t{n - 1}")
]
NAMES = {
    f"{a}{n}": f"{b}{n}{c}"
    for a, b, c in (*((a, a, "") for a in ("v_t", "t", "p", "g", "h")), ("w", "w.", ".k"))
    for n in range(11)
}
GIVEN = {f"w{n}" for n in range(11)}


def once(lines, last=False):
    """Lines of code as they are told: those that are, and what is said of the others."""
    parts = [line.partition(" = ") for line in lines]
    made = [Line(name, code, name.replace(".", "_"), read_python(code), name, None) for name, _, code in parts]
    told = fold_lines([(str(line), line) for line in made], {**NAMES, **{name: name for name in "abx"}}, GIVEN, last)
    return [text for text, line in told if line is not None], [text for text, line in told if line is None]


@pytest.mark.parametrize("last", [False, True])
def test_equal_turns_are_told_once_and_every_line_is_counted(last):
    shown, (head,) = once(["a = x", *BACK, "b = x"], last)
    steps, others = (int(number) for number in re.findall(r"\d+", head)[:2])
    assert (steps, others) == (2, 8)
    assert len(shown) + steps * others == len(BACK) + 2
    assert shown == ["a = x", *(BACK[-2:] if last else BACK[:2]), "b = x"]
    assert head.endswith(
        "with w.9, w.8, w.7, …, w.2 in place of w.1; then:" if last else "with w.8, w.7, w.6, …, w.1 in place of w.9"
    )


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("v_t5 = v_t6 @", "v_t5 = v_t9 @"),  # reads another turn than the others do
        ("v_t5 = v_t6 @", "v_t5 = x @"),
        ("(t5 > 0)", "(t5 < 0)"),
        ("w5.grad = v_t5.T @ t4", "w5.grad = v_t5.T @ v_t5"),
    ],
)
def test_a_turn_that_differs_is_told(old, new):
    lines = [line.replace(old, new) for line in BACK]
    assert lines != BACK
    shown, _ = once(lines)
    assert next(line for line in lines if line not in BACK) in shown


SLICES = [f"v_t{n} = v_t{n + 1} * x[{4 * n}:{4 * n + 4}, :2] + 0.5" for n in range(9, 0, -1)]


@pytest.mark.parametrize("last", [False, True])
def test_numbers_that_go_on_by_the_same_step_are_told(last):
    shown, head = once(SLICES, last)
    assert shown == [SLICES[-1 if last else 0]]
    others = "x[36:40, :2], x[32:36, :2], x[28:32, :2], …, x[8:12, :2] in place of x[4:8, :2]; then:"
    assert head[0].endswith(
        others if last else "with x[32:36, :2], x[28:32, :2], x[24:28, :2], …, x[4:8, :2] in place of x[36:40, :2]"
    )


@pytest.mark.parametrize(("old", "new"), [("20:24", "20:25"), ("20:24", "20:23"), ("0.5", "1.5"), (":2", ":3")])
def test_numbers_that_jump_are_told(old, new):
    lines = [line.replace(old, new) if line.startswith("v_t5 ") else line for line in SLICES]
    shown, _ = once(lines)
    assert next(line for line in lines if line not in SLICES) in shown


@pytest.mark.slow
@pytest.mark.one_in(3)
@pytest.mark.parametrize(("kind", "steps"), [("GRU", 6), ("LSTM", 7), ("RNN", 24)])
def test_the_steps_of_a_recurrent_layer_are_told_once(tmp_path, kind, steps):
    """Forward all but the last one or two, backward all between the first and the last: those read other things."""
    _, told = play(
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
    session, _ = play(
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
    from symgrad.tracing.session import call_events

    seen = []
    original = call_events.list_folded_program
    monkeypatch.setattr(
        call_events, "list_folded_program", lambda program: seen.append(len(program.told)) or original(program)
    )
    run_script(str(tmp_path / "script.py"), [])
    assert seen == [count]
    assert session.agrees


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
    session, _ = play(tmp_path, given + body + "\n")
    told = [re.sub(r"\bt\d+\b", "?", line) for line in session.calls[0].program]
    assert [line for line in told if line in lines] == lines


def test_why_the_seed_has_another_letter(tmp_path):
    given = "x, v_net = torch.randn(2, 3), nn.Linear(3, 1)\nx.requires_grad_()\n"
    session, told = play(tmp_path, given + "head = nn.Linear(1, 1)\nhead(v_net(x)).sum().backward()")
    assert "names of the script begin with v, so the seed is called g here" in told
    assert "\ng weighs the rows; they add up to gᵀJ" in legend_text(session)
    _, told = play(
        tmp_path, given + "g, = torch.autograd.grad(x.exp().sum(), x, create_graph=True)\ng.sum().backward()"
    )
    assert "v_… already names gradients, so the seed is called u here" in told


def test_what_objects_hold_is_called_as_its_author_writes_it(tmp_path):
    session, told = play(
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
    _, told = play(tmp_path, f"{TWICE}y = Cubed.apply({read} + x)\n(y ** 2).sum().backward()\n")
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
    _, told = play(tmp_path, PARTS[files])
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
    session, told = play(tmp_path, body)
    assert [call.letter for call in session.calls if call.kind == "backward"] == ["g", "g"]
    told = told[told.index("script.py:8") :]
    assert "vᵀJ with respect to" not in told
    assert "v₁" not in told
    assert told.count("the seed is called") == 1


def test_many_names_are_not_all_listed(tmp_path):
    body = (
        "w = [torch.ones(2, requires_grad=True) for n in range(9)]\n"
        "def steps():\n    return [0.1 * torch.rand(2) for n in range(9)]\n"
        "loss = sum((p - s).square().sum() for p, s in zip(w, steps()))\nloss.backward()\n"
    )
    _, told = play(tmp_path, body)
    assert "s, s_2, s_3, s_4, s_5, s_6 and 3 more: each 0.1 * torch.rand(2)" in " ".join(told.split())


def test_what_is_handed_back_is_not_put_into_any_grad(tmp_path):
    """It was ``net[0].weight.grad = …`` for ``torch.autograd.grad(loss, net.parameters())``."""
    body = (
        "net = nn.Sequential(*[layer for n in range(7) for layer in (nn.Linear(2, 2), nn.Tanh())])\n"
        "loss = net(torch.ones(1, 2)).sum()\ngrads = torch.autograd.grad(loss, net.parameters())\n"
        "net(torch.ones(1, 2)).sum().backward()\n"
    )
    session, told = play(tmp_path, body)
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
    session, told = play(tmp_path, body)
    assert len(session.calls[0].leaves) == 8
    assert told.count(".weight.grad = ") == 4
    assert "composed" not in told
    assert told.count(" = torch\n") == 9


def test_a_leaf_that_is_out_of_sight_is_called_as_before(tmp_path):
    """The interpolates of WGAN-GP were a ``leaf`` in the backward of the loss."""
    body = (
        "net = nn.Linear(2, 1)\ndef penalty():\n    inner = torch.rand(3, 2).requires_grad_(True)\n"
        "    d, = torch.autograd.grad(net(inner).tanh().sum(), inner, create_graph=True)\n    return (d ** 2).sum()\n"
        "penalty().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert [leaf.name for leaf in session.calls[1].leaves] == ["inner", "weight", "bias"]


@pytest.mark.parametrize("made", ["{p: 0 for p in net.parameters()}", "[p.numel() for p in net.parameters()]"])
def test_what_a_loop_left_behind_names_no_parameter(tmp_path, made):
    """A comprehension with the same letter binds nothing: the last parameter was called p."""
    body = (
        f"net = nn.Sequential(nn.Linear(2, 1), nn.Tanh())\nfound = {made}\n"
        "for p in net.parameters():\n    p.data.mul_(1)\nnet(torch.rand(3, 2)).sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert [leaf.name for leaf in session.calls[0].leaves] == ["net[0].weight", "net[0].bias"]


def test_of_two_blocks_one_is_told_and_what_differs(tmp_path):
    """It was ``these 8 steps × 2`` over lines that read ``layers[k].weight``."""
    body = (
        "layers = nn.ModuleList([nn.Linear(2, 2) for n in range(2)])\nx = torch.ones(1, 2)\n"
        "for layer in layers:\n    x = layer(x).tanh().exp().sin().cos()\nx.sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
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
    session, _ = play(tmp_path, body)
    assert not any(line.startswith("…") for line in session.calls[0].program)


def test_what_the_script_calls_by_several_names_is_not_told_as_one(tmp_path):
    """Of q, k and v only v had its lines, and others read q_2 and k_2."""
    body = (
        "w, x = torch.eye(6, requires_grad=True), torch.ones(2, 6)\nh = x @ w\nq, k, v = h.split(2, dim=1)\n"
        "q = q.tanh().exp()\nk = k.tanh().exp()\nv = v.tanh().exp()\n"
        "for n in range(20):\n    v = (v + q) * k\nv.sum().backward()\n"
    )
    _, told = play(tmp_path, body)
    for name in ("q", "k", "v"):
        assert f"  {name} = " in told or f"  {name}  " in told
    assert "times first" not in told[: told.index("exp")]


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
    session, _ = play(tmp_path, f"{given}(w * {read}).sum().backward()\n")
    (call,) = session.calls
    assert call.program[-1] == f"out = (w * {name}).sum()" or call.program == (f"t1 = w * {name}", "out = sum(t1)")
    assert call.leaves[0].agrees


def test_the_weights_of_a_gradient_are_its_seed(tmp_path):
    body = (
        "x = torch.rand(3, requires_grad=True)\ny = x ** 3\n"
        "g, = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)\ng.sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert any("seed" in line for line in session.calls[1].program)
    assert not any("data" in line for line in session.calls[1].program)


@pytest.mark.parametrize(
    ("order", "said"),
    [
        ("12345", "4 times first, with p1, p2, p3, p4 in place of p5; then:"),
        ("54321", "4 times first, with p5, p4, p3, p2 in place of p1; then:"),
        ("13524", "2 times first, with p1, p3 in place of p5; then:"),
        ("11111", "4 times first; then:"),
        ("14253", ""),  # neither as far apart, nor the same
    ],
)
def test_what_is_read_in_turn_is_said_and_nothing_else(order, said):
    parts = [f"p{n} = x[{n}]" for n in range(1, 6)]
    turns = [line for n, of in enumerate(order, 1) for line in (f"g{n} = relu(h{n - 1}) + p{of}", f"h{n} = tanh(g{n})")]
    _, heads = once([*parts, *turns], last=True)
    assert [head for head in heads if "these 2 lines" in head] == ([f"… these 2 lines {said}"] if said else [])


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
    session, _ = play(tmp_path, body)
    (call,) = session.calls
    block = next(n for n, line in enumerate(call.program) if line.startswith("…"))
    turn = call.program[block + 1 : block + 6]
    assert len({line.partition(" = ")[0].strip() for line in turn}) == 5
    assert not [line for line in call.program if re.search(r"(\b\w+) \+ \1\b", line)]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["y = t1 * t2", "t3 = y + t1"], ["y = t2 * t1", "t3 = y + t1"]),
        (["y = relu(x)"], ["y = tanh(x)"]),
        (["y = x * w"], ["y = x * u"]),
        (["y = x ** 2"], ["y = x ** n"]),
        (["a = x[1:3] * 2", "b = a[2:5] * 7"], ["a = x[2:4] * 3", "b = a[3:6] * 7"]),
    ],
)
def test_another_program_is_not_the_same(old, new):
    assert compare_outlines(Outline(tuple(old), ()), Outline(tuple(new), ())) is None
    assert compare_outlines(Outline(tuple(old), ()), Outline(tuple(old), ())) == ()


def test_shapes_that_differ():
    lines = ("y = linear(x, w)",)

    def given(*shapes):
        return Outline(lines, tuple(zip("xw", shapes, strict=True)))

    assert compare_outlines(given((8, 3), (2, 3)), given((5, 3), (2, 3))) == ("5 rows instead of 8",)
    assert compare_outlines(given((8, 3), (2, 3)), given((8, 4), (2, 4))) == (
        "x 8×4 instead of 8×3",
        "w 2×4 instead of 2×3",
    )
    assert compare_outlines(given((8, 3), (2, 3)), given((8, 3, 1), (2, 3))) is None


# Words ----------------------------------------------------------------------------------------------------


def test_a_changed_constant_has_as_many_digits_as_tell() -> None:
    def scaled(number: str) -> Outline:
        return Outline((f"y = x*{number}",), ())

    assert compare_outlines(scaled("0.55"), scaled("0.6050000000000001")) == ("0.605 instead of 0.55",)
    assert compare_outlines(scaled("0.12345678"), scaled("0.12345699")) == ("0.123457 instead of 0.1234568",)
    assert compare_outlines(scaled("1234567"), scaled("1234568")) == ("1234568 instead of 1234567",)
    assert compare_outlines(scaled("0.30000000000000004"), scaled("0.3")) == ("0.3 instead of 0.30000000000000004",)


def test_a_name_inside_of_a_function_is_not_that_of_another_tensor_outside(tmp_path):
    """A library that arranges axes called whatever it was given ``x.reshape(shape)``."""
    session, _ = play(
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
    session, told = play(
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
    session, told = play(
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
    (call,) = play(tmp_path, source)[0].calls
    assert "fp32" not in "".join((*call.told.forward, *call.told.lines))
    assert "y_bf16 = y.bfloat16()" in call.told.forward
    assert all(leaf.agrees for leaf in call.leaves)


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
    session, _ = play(tmp_path, f"torch.manual_seed({seed})\n{source}")
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
    session, told = play(tmp_path, f"torch.manual_seed({seed})\n{source}")
    rows = [leaf for call in session.calls for leaf in call.leaves]
    assert all(leaf.agrees for leaf in rows)
    assert (
        all(leaf.rounding or not leaf.added.any() for leaf in rows)
        if rounded
        else not any(leaf.rounding for leaf in rows)
    )
    assert ("is 0" in told) is rounded


def test_each_output_has_a_seed_of_its_own(tmp_path):
    session, _ = play(
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
    session, _ = play(tmp_path, LOOPS.format(body=body))
    heads = [line for line in session.calls[0].program if line.startswith("… these")]
    assert len(heads) == 1
    assert ("in “for row in x.unbind()”" in heads[0]) is quoted


@pytest.mark.parametrize("rows", ["torch.arange(10)", "range(10)"])
def test_an_entry_of_each_row_goes_back_as_one_class_of_each(tmp_path, rows):
    """The loss of makemore; `z.view(-1)[…]` with the rows' numbers in it is what torch does, and nobody's line."""
    source = (
        f"z = torch.randn(10, 15, requires_grad=True)\nlogp = z.log_softmax(-1)\n(-logp[{rows}, y].mean()).backward()"
    )
    _, told = play(tmp_path, f"y = torch.randint(0, 15, (10,))\n{source}\n")
    assert "v_logp = -one_hot(y, 15) / 10\n" in told
    assert "v_logp - v_logp.sum(-1, keepdim=True) * logp.exp()" in told


def test_label_smoothing_divides_what_is_summed(tmp_path):
    loss = "torch.nn.functional.cross_entropy(z, y, label_smoothing=0.1).backward()"
    _, told = play(tmp_path, f"y = torch.arange(10)\nz = torch.randn(10, 15, requires_grad=True)\n{loss}\n")
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
    _, told = play(tmp_path, ACTOR, 120)
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
    session, _ = play(tmp_path, f"torch.manual_seed(0)\n{lines}{named}{unnamed}")
    first, second = session.calls
    assert first.told.forward[0] == f"h = {said}"
    assert second.told.forward[0] == f"{called} = {said}"
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)


def names_of(session):
    """What the steps of the first call are called."""
    return [line.partition(" = ")[0] for line in session.calls[0].program]


NETWORK = """
class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(4), nn.Linear(4, 8), nn.Linear(8, 4)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block() for _ in range({blocks})])
        self.stem, self.head = nn.Linear(4, 4), nn.Linear(4, 2)
    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)
model = Net()
loss = nn.functional.cross_entropy(model(torch.randn(3, 4)), torch.tensor([0, 1, 0]))
loss.backward()
"""


@pytest.mark.slow
def test_what_a_module_gives_or_is_given_is_called_after_it(tmp_path):
    session, _ = play(tmp_path, NETWORK.format(blocks=1))
    assert names_of(session) == [
        "x_2", "blocks[0].norm.out", "blocks[0].up.out", "blocks[0].down.input", "blocks[0].down.out", "blocks[0].out",
        "head.out", "loss",
    ]  # fmt: skip
    told = session.calls[0].told.lines
    assert any(line.startswith("v_blocks[0].up.out = (v_") for line in told)
    assert session.calls[0].agrees


@pytest.mark.parametrize("blocks", [2, 3, 5])
def test_of_equal_blocks_one_is_told_forward_and_back(tmp_path, blocks):
    session, told = play(tmp_path, NETWORK.format(blocks=blocks))
    often = "once" if blocks == 2 else f"{blocks - 1} times"
    ahead, back = "\n".join(session.calls[0].program), " ".join(told.split())
    assert f"{often} first, with blocks[0]" in ahead
    assert not re.search(r"blocks\[0\]\.(up|down)\.out =", ahead)
    assert re.search(rf"… these \d+ lines {often} more, with blocks\[{blocks - 2}\]", back)
    assert "blocks[0].up.weight.grad =" not in back


def test_a_module_that_is_called_again_and_one_in_another(tmp_path):
    body = (
        "fc, net = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Tanh(), nn.Linear(2, 1)))\n"
        "net(fc(fc(torch.randn(3, 2)))).sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert names_of(session) == ["fc.out", "fc.out_2", "net[0].out", "net[1][0].out", "net[1][1].out", "out"]


def test_what_is_passed_to_a_function_is_called_as_there(tmp_path):
    body = (
        "def loss(pred, target):\n    return ((pred - target) ** 2).mean()\n"
        "def net(x, w):\n    return torch.tanh(x @ w)\n"
        "w = torch.randn(3, 2, requires_grad=True)\nloss(net(torch.randn(4, 3), w), torch.ones(4, 2)).backward()\n"
    )
    session, told = play(tmp_path, body)
    assert [role.split()[0] for role in session.calls[0].roles[:3]] == ["x", "w", "target"]
    assert any(line.startswith("pred = tanh(") for line in session.calls[0].program)
    assert "x: torch.randn(4, 3); target: torch.ones(4, 2)" in told


def test_a_number_beside_a_tensor_gives_it_no_name(tmp_path):
    body = (
        "w, scale = torch.ones(2, requires_grad=True), 2.0\n"
        "def f(a, b):\n    return (scale * a * (b > scale)).sum()\n"
        "f(w * 3, torch.randn(2)).backward()\n"
    )
    session, _ = play(tmp_path, body)
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
    session, _ = play(tmp_path, body)
    assert set(gates) <= set(names_of(session))
    assert all(leaf.agrees for leaf in session.calls[0].leaves)


def test_what_torch_turns_before_it_reads_it_is_called_so(tmp_path):
    body = (
        "attn = nn.MultiheadAttention(4, 2, batch_first=True)\nsrc = torch.randn(2, 3, 4)\n"
        "out, _ = attn(src, src, src)\nout.sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert {"q", "k", "value", "attn_output"} <= set(names_of(session))  # v is the seed
    assert session.calls[0].letter == "v"
    assert any("src.transpose(1, 0)" in line for line in session.calls[0].program)
    assert not any(role.startswith("data") for role in session.calls[0].roles)


def test_two_values_on_the_right_have_the_two_names_on_the_left(tmp_path):
    body = (
        "w = torch.randn(2, requires_grad=True)\ni, f = w * 2, w * 3\ni, f = torch.sigmoid(i), torch.tanh(f)\n"
        "(i * f).sum().backward()\n"
    )
    session, _ = play(tmp_path, body)
    assert [name for name in names_of(session) if name[0] in "if"] == ["i", "i_2", "f", "f_2"]
