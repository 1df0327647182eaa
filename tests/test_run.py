"""``symgrad run``: scripts run as they are, and each call of backward is explained from what was seen."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from click.testing import CliRunner

from symgrad.errors import InputError
from symgrad.render import PAGE_WRITERS
from symgrad.tracing import run_script
from symgrad.tracing.lift import values
from symgrad.tracing.lift.call_sweeps import CallwisePull
from symgrad.tracing.record.patching import DYNAMO, TorchPatches
from symgrad.tracing.session import agreement
from symgrad.tracing.story.event_content import closing_text, legend_text
from symgrad.tracing.story.events import summarize_leaves
from symgrad.tracing.story.session_pages import event_text, session_json, session_page
from symgrad_cli.main import main
from tests.networks import LENET

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def own_default_precision():
    """A script may change the default precision; the next test has its own."""
    import torch

    before = torch.get_default_dtype()
    yield
    torch.set_default_dtype(before)


def play(tmp_path, source, *arguments, **options):
    """Run a script; its session and everything that was told."""
    path = tmp_path / "script.py"
    path.write_text("import torch\n" + source, encoding="utf-8")
    told = []
    session = run_script(str(path), list(arguments), tell=lambda event: told.append(event_text(event)), **options)
    return session, "\n".join(told)


def command(path, *arguments, cwd=None):
    """The command itself, in a process of its own."""
    code = "from symgrad_cli.run import run; run()"
    return subprocess.run(
        [sys.executable, "-c", code, str(path), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
    )


# The snippets of the two threads --------------------------------------------------------------------------

ACCUMULATION = """
x = torch.tensor([1., 2., 3.], requires_grad=True)
y = torch.tensor([.5, -1., 2.], requires_grad=False) # Note: requires_grad=False
z = x * y

z.backward(torch.ones(3)) # Using gradient to allow for non-scalar
print(x.grad)

x.grad.zero_() #zero out the gradients

y2 = torch.tensor([4., 5., 6.], requires_grad=True)
z2 = x*y2
z2.backward()
print(x.grad)
"""


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("torch.autograd.backward(x * 2)", "(x * 2) has 3 elements"),
        ("x.sum().backward(); x.exp().backward()", "x.exp() has 3 elements"),
        ("x.zero_grad if 0 else (x + 1).backward()", "(x + 1) has 3 elements"),
    ],
)
def test_what_backward_is_called_on_is_read_where_the_call_stands(tmp_path, call, says):
    _, told = play(tmp_path, f"x = torch.ones(3, requires_grad=True)\ntry:\n    {call}\nexcept RuntimeError: pass\n")
    assert says in told


def test_a_named_tuple_s_tensors_are_called_by_its_fields(tmp_path):
    batch = (
        "import collections\nb = collections.namedtuple('B', 'x y')(torch.ones(2, requires_grad=True), torch.ones(2))\n"
    )
    _, told = play(tmp_path, f"{batch}(b.x * b.y).sum().backward()\n")
    assert "out = (b.x * b.y).sum()" in told


def test_accumulation_py(tmp_path, capsys):
    session, told = play(tmp_path, ACCUMULATION)
    first, second = session.calls
    assert first.program == ("z = x * y",)
    assert [(leaf.name, leaf.form, leaf.jacobian) for leaf in first.leaves] == [("x", "v * y", "3×3 diagonal(y)")]
    np.testing.assert_allclose(first.leaves[0].added, [0.5, -1, 2])
    assert first.agrees
    assert "y has requires_grad=False, so y.grad stays None" in told
    assert "x.grad is [0 0 0] from here on" in told
    assert "z2 has 3 elements, so J has 3 rows and backward() has no weights for them." in second.reasons
    assert "The call in line 7 passed torch.ones(3); this one passes nothing." in second.reasons
    assert "  the sum would give x.grad += y2, y2.grad += x" in second.reasons
    assert "(x.grad is [0 0 0] since line 10)" in told
    assert session.status == 1
    output = capsys.readouterr()
    assert output.out.startswith("tensor([ 0.5000, -1.0000,  2.0000])")
    assert "RuntimeError: grad can be implicitly created only for scalar outputs" in output.err
    installed = str(Path(torch.__file__).parent)  # below a checkout that is called symgrad, say
    assert "symgrad" not in output.err.replace(installed, "torch")


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


def test_a_call_in_one_clause_of_a_statement_is_named_as_it_is_written(tmp_path):
    clauses = ("try: {}\nexcept RuntimeError: pass", "try: pass\nfinally: {}", "if 0: pass\nelse: {}", "if 1: {}")
    for clause in clauses:
        session, _ = play(tmp_path, clause.format("torch.ones(2, requires_grad=True).exp().backward()"))
        told = "\n".join(session.calls[0].reasons)
        assert "torch.ones(2, requires_grad=True).exp()[0].backward()" in told, told


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


# Diagnoses ------------------------------------------------------------------------------------------------


def test_a_seed_of_the_wrong_shape(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.ones(4, requires_grad=True)
y = torch.outer(x, x)
try:
    y.backward(torch.ones_like(x))
except RuntimeError:
    pass
""",
    )
    reasons = "\n".join(session.calls[0].reasons)
    assert "16 outputs, so J has 16 rows" in reasons
    assert "v must be 4×4, not 4" in reasons
    assert "x 4 → y 4×4; J 16×4; v 4×4 = 1×16; vᵀJ 1×4 → 4" in reasons


def test_accumulating_twice(tmp_path):
    session, told = play(
        tmp_path,
        """
x = torch.tensor([1., 2.], requires_grad=True)
(x**2).sum().backward()
(x**2).sum().backward()
""",
    )
    leaf = session.calls[1].leaves[0]
    np.testing.assert_array_equal([leaf.before, leaf.added, leaf.after], [[2, 4], [2, 4], [4, 8]])
    assert "x.grad still held the value from line 4" in told


@pytest.mark.parametrize("column", [0, 1])
def test_a_write_through_data_beside_what_a_call_kept_is_none_to_it(tmp_path, column):
    """So torchdiffeq collects its stages: column by column of one tensor, behind the version counter."""
    session, told = play(
        tmp_path,
        f"""
class Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx, whole, column, at):
        ctx.at = at
        whole.data[:, at] = column
        return whole

    @staticmethod
    def backward(ctx, v):
        return v, v[:, ctx.at], None

x, dt = torch.ones(3, requires_grad=True), torch.tensor([2.], requires_grad=True)
y = Put.apply(torch.zeros(3, 2), x, 0)
y = Put.apply(y, x + (y[:, :1] * dt).sum(-1), {column})
(y * dt).sum().backward()
""",
    )
    (call,) = session.calls
    assert call.explained == (column == 1)
    assert ("a saved tensor was modified through .data" in " ".join(told.split())) == (column == 0)


@pytest.mark.parametrize("given", ["torch.ones(3, requires_grad=True)", "torch.ones(3, requires_grad=True) * 1"])
@pytest.mark.parametrize("write", ["k.data[1] = v", "k[1] = v", "k.view(-1)[1] = v"])
def test_what_a_forward_writes_unseen_by_autograd_accuses_no_backward(tmp_path, given, write):
    told = play(
        tmp_path,
        f"""
class Put(torch.autograd.Function):
    @staticmethod
    def forward(ctx, k, v):
        {write}
        return k * 1

    @staticmethod
    def backward(ctx, g):
        a = g.clone()
        a[1] = 0
        return a, g[1]

s = torch.ones((), requires_grad=True)
Put.apply({given}, s).sum().backward()
""",
    )[1]
    assert "not verified" in told
    assert "is not the derivative" not in told


FILLED = {
    "assigned": ("p.grad = torch.ones(2)", "p.grad still held the value from line 8"),
    "by two lines": ("p.sum().backward()\nq.grad = p.grad * 3", "still held the value from earlier lines"),
    "one of them assigned": ("q.grad = p.grad = torch.ones(2)\np.sum().backward()", "the value from earlier lines"),
    "by one line": ("(p * q).sum().backward()", ".grad of 2 tensors still held the value from line 8"),
    "under another name": ("of(p)", "p.grad still held the value from line 7"),
    "one under another name": ("of(p)\nq.sum().backward()", "still held the value from earlier lines"),
    "anew": (
        "(p * q).sum().backward()\np.grad = q.grad = None\nq.sum().backward()",
        "q.grad still held the value from line 10",
    ),
    "without a call": ("torch.Tensor.grad.__set__(p, torch.ones(2))", "p.grad still held the value from line 8"),
}


@pytest.mark.parametrize("first", FILLED)
def test_who_filled_grad_is_told_by_the_tensor_and_not_by_its_name(tmp_path, first):
    code, expected = FILLED[first]
    start = "p = torch.ones(2, requires_grad=True)\nq = torch.ones(2, requires_grad=True)\n"
    told = play(tmp_path, f"\n{start}def of(z):\n\n    z.sum().backward()\n{code}\n(2 * p * q).sum().backward()\n")[1]
    assert expected in " ".join(told.split())


def test_backward_a_second_time(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.tensor([1., 2.], requires_grad=True)
y = (x**2).sum()
y.backward()
try:
    y.backward()
except RuntimeError:
    pass
""",
    )
    reasons = "\n".join(session.calls[1].reasons)
    assert "The call in line 5 (y.backward()) already ran through this part of the graph" in reasons
    assert "saved tensors that this vᵀJ needs: x (torch may save more" in reasons


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("precision", "eps"), [("float32", "1.1920928955078125e-07"), ("float64", "2.220446049250313e-16")]
)
def test_what_a_norm_adds_where_nobody_said_is_that_of_the_type(tmp_path, precision, eps):
    """Single precision was told double precision's: the numbers agree as long as x is not small."""
    source = f"""
torch.manual_seed(0)
x = torch.randn(2, 4, dtype=torch.{precision}, requires_grad=True)
torch.nn.functional.rms_norm(x, (4,))[:, 0].sum().backward()
"""
    session, told = play(tmp_path, source)
    assert session.agrees
    assert f"+ {eps}).sqrt()" in " ".join(told.split())


def test_a_value_overwritten_in_place(tmp_path):
    session, _ = play(
        tmp_path,
        """
a = torch.tensor([1., 2.], requires_grad=True)
b = a.exp()
b.add_(1)
try:
    b.sum().backward()
except RuntimeError:
    pass
c = a * 2
c.add_(1)
c.sum().backward()
""",
    )
    reasons = "\n".join(session.calls[0].reasons)
    assert "The backward of b = exp(a) (line 4) needs b, its own output; line 5 (b.add_(1)) overwrote it." in reasons
    assert "write line 5 out of place:   b = b.add(1)" in reasons
    assert session.calls[1].agrees
    np.testing.assert_array_equal(session.calls[1].leaves[0].added, [2, 2])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("loss", "pairs"),
    [
        ("pred - t", True),
        ("t - torch.tanh(pred)", True),
        ("pred[:, 0] - t", False),
        ("t[:, None] - t + 0 * pred", False),  # a column that was made for it
        ("t.unsqueeze(1) - t + 0 * pred", False),
        ("pred - torch.arange(4.)", False),
    ],
)
def test_a_written_difference_of_a_column_and_a_row_of_as_many(tmp_path, loss, pairs):
    _, told = play(
        tmp_path,
        f"\npred, t = torch.ones(3, 1, requires_grad=True), torch.arange(3.)\n(({loss}) ** 2).mean().backward()\n",
    )
    assert ("both are broadcast to 3×3, so 9 pairs count and not 3" in " ".join(told.split())) == pairs


@pytest.mark.parametrize(
    ("output", "whole"),
    [
        ("x.sin()", True),
        ("torch.tanh(x) * x", True),
        ("x.cumsum(0)", False),
        ("x * x.sum()", False),
        ("x[:2] * 2", False),
    ],
)
def test_ones_that_hold_all_of_a_diagonal_jacobian(tmp_path, output, whole):
    _, told = play(tmp_path, f"\nx = torch.arange(3.).requires_grad_()\ny = {output}\ny.backward(torch.ones_like(y))\n")
    assert ("J is diagonal, so v = ones returns all of it" in told) == whole
    _, told = play(
        tmp_path, f"\nx = torch.arange(3.).requires_grad_()\ny = {output}\ny.backward(2 * torch.ones_like(y))\n"
    )
    assert "returns all of it" not in told


def test_a_loss_of_nothing_says_so_and_no_reason_for_its_zero(tmp_path):
    _, told = play(
        tmp_path,
        """
z = torch.ones(2, 3, requires_grad=True)
torch.nn.functional.cross_entropy(z, torch.tensor([-100, -100])).backward()
torch.nn.functional.cross_entropy(z[:1], torch.tensor([1])).backward()
""",
    )
    told = " ".join(told.split())
    assert "cross_entropy averages over no entries (0 / 0), so its mean is nan" in told
    assert "nan first appears in the forward pass: out = cross_entropy(z, target)" in told
    assert "slope" not in told
    assert "division by 1" not in told


def test_a_derivative_that_only_a_matrix_with_an_inverse_shows_is_not_called_zero(tmp_path):
    _, told = play(tmp_path, "\nA = torch.tensor([[1., 2.], [2., 4.]], requires_grad=True)\ntorch.det(A).backward()\n")
    assert "the gradient in torch with respect to A is 0" in told
    assert "vᵀJ with respect to A is 0" not in told


def test_an_operation_that_writes_over_its_own_input_is_not_to_blame(tmp_path):
    session, _ = play(
        tmp_path,
        """
x = torch.tensor([1., -2.], requires_grad=True)
h = torch.sigmoid(x)
h += 1
y = torch.relu_(h)
try:
    y.sum().backward()
except RuntimeError:
    pass
h = x * 2
h.mul_(h)
try:
    h.sum().backward()
except RuntimeError:
    pass
""",
    )
    reasons = "\n".join(session.calls[0].reasons)
    assert "The backward of h = sigmoid(x) (line 4) needs h, its own output; line 5 (h += 1)" in reasons
    assert "line 6" not in reasons
    assert "line 12 (h.mul_(h)) overwrote it" in "\n".join(session.calls[1].reasons)  # it reads what it writes twice


def test_weights_that_a_step_changed_before_the_second_backward(tmp_path):
    session, _ = play(
        tmp_path,
        """
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU(inplace=True), torch.nn.Linear(3, 3), torch.nn.Tanh())
first = net(torch.ones(4, 2))
out = torch.nn.Linear(3, 1)(torch.tanh(net[2](first)))
opt = torch.optim.SGD(net.parameters(), lr=0.1)
out.mean().backward(retain_graph=True)
opt.step()
try:
    (out ** 2).mean().backward()
except RuntimeError:
    pass
""",
    )
    reasons = session.calls[1].reasons
    assert sum("(opt.step()) overwrote it" in reason for reason in reasons) == 1
    assert "  every backward first:    then line 8, which changes the weights" in reasons
    assert not any("out of place" in reason or "clone()" in reason for reason in reasons)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            "w = torch.ones(2, requires_grad=True)\n(w * x).sum().backward()\nw = w - 0.1 * w.grad\nw.grad",
            "w is a new tensor (it was computed in line 6) and not a leaf; line 5 filled .grad of the earlier w",
        ),
        ("x.sum().backward()\ny = x * 2\ny.grad", "the last backward (line 4) had no path to it"),
        (
            "y = torch.ones(2, requires_grad=True).double()\ny.sum().backward()\ny.grad",
            "with requires_grad_() after that computation it is a leaf itself",
        ),
        ("a = x * 0.1\na.sum().backward()\na.grad", "a is not a leaf"),
        ("y = torch.ones(2)\n(x * y).sum().backward()\ny.grad", "y.grad is None: requires_grad=False"),
        ("w = torch.ones(2, requires_grad=True)\nx.sum().backward()\nw.grad", "had no path to w"),
        ("y = x.detach()\nx.sum().backward()\ny.grad", "was cut in line 4 by .detach()"),
        (
            "w = torch.ones(2, requires_grad=True)\n(w.detach() * x).sum().backward()",
            "w gets nothing: the path was cut",
        ),
    ],
)
def test_why_a_gradient_is_none(tmp_path, recwarn, body, said):
    _, told = play(tmp_path, f"\nx = torch.tensor([1., 2.], requires_grad=True)\n{body}\n")
    assert said in " ".join(told.split())


@pytest.mark.parametrize(
    ("body", "how"),
    [("x.argmax()", "argmax: its result is int64"), ("x.detach().sum()", ".detach()"), ("torch.ones(2).sum()", "")],
)
def test_no_path_at_all(tmp_path, body, how):
    session, _ = play(
        tmp_path,
        f"\nx = torch.tensor([1., 2.], requires_grad=True)\ny = {body}\ntry:\n    y.backward()\n"
        "except RuntimeError:\n    pass\n",
    )
    assert session.calls[0].reasons[0].startswith("There is no J")
    assert how in session.calls[0].reasons[0]


def test_zero_is_not_none(tmp_path):
    session, _ = play(tmp_path, "\nx = torch.tensor([1.2, 2.], requires_grad=True)\nx.round().sum().backward()\n")
    np.testing.assert_array_equal(session.calls[0].leaves[0].added, [0, 0])
    assert session.calls[0].agrees


def test_nan_through_where(tmp_path):
    session, told = play(
        tmp_path,
        "\nx = torch.tensor([-1., 4.], requires_grad=True)\ntorch.where(x > 0, x.sqrt(), x).sum().backward()\n",
    )
    assert "nan first appears in the backward of t1 = sqrt(x) (line 4), at x[0] = -1" in told
    assert "Mathematically, x.grad is [1 0.25]." in told
    assert "torch.where(condition, x, 1), then t1 = sqrt(safe)" in told
    assert session.calls[0].agrees


CHOOSING = (
    # x, what is computed with c = x > 0, the cure (none: no single operand of the step is at fault)
    ("-1., 0., 4.", "torch.where(~c, x, x.log())", "torch.where(condition, 1, x)"),
    ("0., 2.", "torch.where(x == 0, 1., x.sin() / x)", "torch.where(condition, 1, x)"),
    ("-1., 0., 4.", "torch.where(c, x ** -0.5 * 2, 0.)", "torch.where(c, x, 1)"),
    ("-1., 0., 4.", "x.sqrt().masked_fill(~c, 0.)", "x.masked_fill(condition, 1)"),
    ("-1., 0., 4.", "x.sqrt() * c", ""),
    ("0., 0., 4.", "torch.where(c[:, None], x.sqrt(), x)", ""),
)


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("numbers", "text", "cure"), CHOOSING)
def test_the_cure_of_a_lost_entry_is_one_that_helps(tmp_path, numbers, text, cure):
    """What is told is done: torch's gradient is then finite, and the value what it was."""
    body = f"\nx = torch.tensor([{numbers}], requires_grad=True)\nc = x > 0\n({text}).sum().backward()\n"
    _, told = play(tmp_path, body)
    told = " ".join(told.split())
    assert "first appears" in told
    assert "fused" not in told
    assert (f"safe = {cure}, then" in told) == bool(cure)
    assert ("give " in told) == bool(cure)
    if not cure:
        return
    x = torch.tensor([float(n) for n in numbers.split(", ")], requires_grad=True)
    c = x > 0
    conditions = {"c": c, "condition": x == 0 if "==" in text else ~c, "torch": torch, "x": x}
    safe = eval(cure, conditions)  # noqa: S307 -- a text of this test's own
    of = text.replace("x.sin() / x", "x.sin() / safe").replace("x.log", "safe.log").replace("x.sqrt", "safe.sqrt")
    cured = eval(of.replace("x **", "safe **"), conditions | {"safe": safe})  # noqa: S307 -- as above
    plain = eval(text, conditions)  # noqa: S307 -- as above
    torch.testing.assert_close(cured, plain)
    assert torch.isfinite(torch.autograd.grad(cured.sum(), x)[0]).all()


def test_a_hook_of_a_module_is_no_function_of_the_users(tmp_path):
    body = (
        "\nlayer = torch.nn.Linear(3, 2)\n"
        "layer.register_full_backward_hook(lambda m, g, o: (g[0] * 2,))\n"
        "x = torch.ones(4, 3, requires_grad=True)\nlayer(x).sum().backward()\n"
    )
    _, told = play(tmp_path, body)
    told = " ".join(told.split())
    assert "a backward hook of a module" in told
    assert "of the user's own" not in told
    assert "BackwardHookFunction.backward" not in told
    assert "a backward hook of a module changes the gradient: it returns the slope 2" in told


@pytest.mark.parametrize(
    "asked", ["ps.values()", "{net.weight}", "ps", "(p for p in ps.values())", "list(ps.values())"]
)
def test_what_is_asked_for_may_be_any_iterable(tmp_path, asked):
    body = (
        "\nnet = torch.nn.Linear(3, 2)\nps = dict(net.named_parameters())\n"
        f"torch.autograd.grad(net(torch.ones(1, 3)).sum(), {asked})\n"
    )
    session, told = play(tmp_path, body)
    assert "is reached" not in told
    assert len(session.calls[0].leaves) == (1 if "{" in asked else 2)
    assert session.calls[0].agrees


def test_inf_at_zero(tmp_path):
    _, told = play(tmp_path, "\nx = torch.zeros(3, requires_grad=True)\nx.pow(2).sum().sqrt().backward()\n")
    assert "the slope of sqrt is infinite or undefined there" in " ".join(told.split())


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


@pytest.mark.slow
@pytest.mark.one_in(2)
@pytest.mark.parametrize(("precision", "side"), [("float32", 8), ("float64", 8), ("float32", 14)])
def test_a_gradient_that_is_zero_is_rounding_on_both_sides(tmp_path, precision, side):
    """With 14×14 pictures the terms of one step are too many to be measured: it stands still at other points."""
    session, told = play(
        tmp_path,
        f"""
torch.manual_seed(0)
torch.set_default_dtype(torch.{precision})
net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())
net(torch.randn(8, 3, {side}, {side})).pow(2).mean().backward()
""",
    )
    weight, bias, *_ = session.calls[0].leaves
    assert session.agrees
    assert (weight.rounding, bias.rounding) == (False, True)
    assert "none  +  0, up to rounding  = torch" in told
    assert re.search(
        r"vᵀJ with respect to net\[0\]\.bias is 0 \(the digits are rounding\): .* the same whatever net\[0\]\.bias is",
        " ".join(told.split()),
    )
    assert "running_mean" not in told.partition("not asked")[0][-80:]


@pytest.mark.slow
def test_a_gradient_of_digits_costs_one_sweep_and_one_leaf(tmp_path, monkeypatch):
    lots, asked, by_lot, pull = [], [], agreement.draw_weights, agreement.pull_recording

    def counted(program, seeds, wanted=None, **told):
        if "drawn" in told:
            asked.append((lots[-1], len(wanted)))
        return pull(program, seeds, wanted, **told)

    monkeypatch.setattr(agreement, "draw_weights", lambda lot: lots.append(lot) or by_lot(lot))
    monkeypatch.setattr(agreement, "pull_recording", counted)
    session, _ = play(
        tmp_path,
        """
torch.manual_seed(0)
x, wq, wk = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, 4, requires_grad=True)
b = torch.randn(4, requires_grad=True)  # softmax does not see it
(torch.softmax((x @ wq) @ (x @ wk + b).T, -1) @ x).pow(2).sum().backward()
""",
    )
    assert {leaf.name: leaf.rounding for leaf in session.calls[0].leaves} == {"wq": False, "wk": False, "b": True}
    assert asked == [(0, 1)]  # one lot settles it, and no other leaf is swept to


def test_only_gradients_that_may_be_rounding_are_swept_to_once_more(tmp_path, monkeypatch):
    """A transformer of six layers took 36 s of which 12 were sweeps by all its weights, asked about one bias."""
    asked, pull = [], agreement.pull_recording

    def counted(program, seeds, wanted=None, **told):
        asked.extend([[program.labels[name] for name in wanted or ()]] if {*told} & {"hook", "values"} else [])
        return pull(program, seeds, wanted, **told)

    monkeypatch.setattr(agreement, "pull_recording", counted)
    session, _ = play(
        tmp_path,
        """
torch.manual_seed(0)
x, w, b = torch.randn(5, 4), torch.randn(4, 4, requires_grad=True), torch.randn(4, requires_grad=True)
((x @ w).tanh().sum() * 1e6 + (b * 0.01).sum()).backward()
""",
    )
    assert session.agrees
    assert asked == [["b"]] * 5


@pytest.mark.parametrize(
    ("source", "line", "word"),
    [
        ("x = torch.zeros(3, requires_grad=True)\nx.norm().backward()", "where(out != 0, x / out, 0)", "kink of norm"),
        ("x = torch.full((3,), 2., requires_grad=True)\nx.std().backward()",
         "where(out != 0, (x - x.mean(-1, keepdim=True)) / out / 2, 0)", "x[0] = 2 is a kink of std (line 3): left"),
        ("x = torch.zeros(2, 3, requires_grad=True)\n(x.norm(dim=1) * torch.tensor([1., 2.])).sum().backward()",
         "where((t1 != 0)[:, None], data[:, None] * x / t1[:, None], 0)", "kink of norm"),
    ],
)  # fmt: skip
def test_a_length_of_0_keeps_its_line_and_its_guard(tmp_path, source, line, word):
    session, told = play(tmp_path, source)
    (leaf,) = session.calls[0].leaves
    assert (leaf.form, session.agrees) == (line, True)
    assert word in " ".join(told.split())
    assert "its slope by x is 0 here" not in told


def test_where_two_values_divide_each_other_the_one_below_is_named_once(tmp_path):
    _, told = play(tmp_path, "x = torch.tensor([0., 1.], requires_grad=True)\n(torch.sin(x) / x).sum().backward()")
    assert told.count("first appears in the backward") == 1
    assert "in the backward of t1 / x (line 3), at x[0] = 0" in told


def test_an_infinite_bound_is_said_to_be_one(tmp_path):
    _, told = play(
        tmp_path,
        """
x, mask = torch.arange(4.).requires_grad_(), torch.tensor([1, 1, 0, 1])
torch.softmax(x.masked_fill(mask == 0, float("-inf")), 0)[0].backward()
""",
    )
    assert "bound: -inf" in told


def test_rounding_hides_no_wrong_gradient():
    derived, wrong = np.array([1.0, 2.0]), np.array([1.0, 2.001])
    floor = values.cancellation_floor(3.0, "float32")
    assert not values.relative_difference(derived, wrong, 2e-4, None, floor)[1]
    assert not values.relative_difference(np.zeros(2), np.array([0.0, 1e-4]), 2e-4, None, floor)[1]
    assert values.relative_difference(np.zeros(2), np.array([0.0, 1e-7]), 2e-4, None, floor)[1]


@pytest.mark.one_in(2)
@pytest.mark.parametrize("weights", [[[0.6, 1.3], [1.3, 0.4]], [[1.2, -0.8], [-0.8, 0.8]], [[-0.3, 1.3], [2.0, 0.6]]])
def test_where_tanh_is_flat_its_last_digit_is_most_of_its_slope(tmp_path, monkeypatch, weights):
    """1 − out² is what rounding left of it: NumPy's and torch's may differ by much, and a wrong factor is still seen."""
    source = (
        f"w = torch.tensor({weights}, dtype=torch.float64, requires_grad=True)\nh = torch.ones(1, 2, dtype=torch.float64)\n"
        "for n in range(7):\n    h = torch.tanh(h @ w) * (n + 1)\nh.sum().backward()\n"
    )
    assert play(tmp_path, source)[0].agrees
    derived = CallwisePull.back

    def wrong(*given, taken=None, **options):
        more = None if taken is None else lambda name, g: taken(name, 1.01 * g)
        return {name: 1.01 * g for name, g in derived(*given, taken=more, **options).items()}

    monkeypatch.setattr(CallwisePull, "back", wrong)
    assert not play(tmp_path, source)[0].agrees


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
    session, told = play(tmp_path, clipped)
    assert session.agrees
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


def test_a_leaf_that_is_not_there_is_not_called_unreached(tmp_path):
    """It was said that no leaf is reached and nothing added to any .grad."""
    _, told = play(tmp_path, "w = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()", only=["x"])
    assert "no leaf of that name is reached; reached are w" in told
    assert "nothing is added" not in told


@pytest.mark.parametrize("out", ["y.sum()", "((y > 0).float() * y).mean()", "(y * (x > 0)).sum()", "F.relu(y) @ y"])
def test_a_gradient_that_nothing_leads_to_is_told(tmp_path: Path, out: str) -> None:
    """The forward stays; the sentence takes the place of the table."""
    body = "x, y = torch.ones(3).requires_grad_(), torch.ones(3).requires_grad_()\n"
    asked = f"import torch.nn.functional as F\nassert torch.autograd.grad({out}, x, allow_unused=True) == (None,)\n"
    session, told = play(tmp_path, body + asked)
    assert session.status == 0
    assert "none of the requested tensors is reached" in told
    assert "not explained" not in told


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


# As python does -------------------------------------------------------------------------------------------


def test_arguments_main_and_path(tmp_path, capsys):
    (tmp_path / "beside.py").write_text("word = 'found'\n")
    session, _ = play(
        tmp_path, "import sys, beside\nprint(__name__, sys.argv[1:], beside.word)\nsys.exit(3)\n", "--epochs", "2"
    )
    assert session.status == 3
    assert capsys.readouterr().out == "__main__ ['--epochs', '2'] found\n"


@pytest.mark.parametrize(
    ("source", "status", "word"),
    [
        ("def f(:\n", 1, "SyntaxError"),
        ("import nothing_of_the_kind\n", 1, "ModuleNotFoundError"),
        ("raise SystemExit('over')\n", 1, "over"),
        ("import sys\nsys.exit()\n", 0, ""),
        ("1/0\n", 1, "ZeroDivisionError"),
    ],
)
def test_how_scripts_end(tmp_path, capsys, source, status, word):
    session, _ = play(tmp_path, source)
    assert session.status == status
    assert word in capsys.readouterr().err


def test_a_script_that_does_not_exist():
    with pytest.raises(InputError, match="cannot open the script"):
        run_script("no/such/script.py", [])
    with pytest.raises(InputError, match="is a folder without a __main__"):
        run_script("tests", [])
    with pytest.raises(InputError, match="a script without a name"):
        run_script("", [])


def test_an_option_before_the_script_is_ours_and_one_behind_it_the_scripts(tmp_path):
    (tmp_path / "script.py").write_text("import sys\nprint(sys.argv[1:])\n")
    wrong = CliRunner().invoke(main, ["run", "--depth", "2", str(tmp_path / "script.py")])
    assert (wrong.exit_code, "No such option '--depth'" in wrong.output) == (2, True)
    right = CliRunner().invoke(main, ["run", str(tmp_path / "script.py"), "--order", "2", "-o", "x", "--help"])
    assert (right.exit_code, right.output.splitlines()[0]) == (0, "['--order', '2', '-o', 'x', '--help']")


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


def test_nothing_stays_patched(tmp_path):
    import torch

    before = (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad)
    play(tmp_path, "\n1/0\n")
    assert (torch.Tensor.backward, torch.autograd.backward, torch.autograd.grad) == before
    assert not torch.overrides._get_current_function_mode_stack()


def test_threads_are_let_alone(tmp_path):
    session, _ = play(
        tmp_path,
        """
import threading
x = torch.ones(2, requires_grad=True)
thread = threading.Thread(target=lambda: (x * 2).sum().backward())
thread.start(); thread.join()
assert x.grad.tolist() == [2., 2.]
(x * 3).sum().backward()
""",
    )
    assert session.status == 0
    assert len(session.calls) == 1
    np.testing.assert_array_equal(session.calls[0].leaves[0].before, [2, 2])


def test_json_and_markdown(tmp_path):
    session, _ = play(tmp_path, ACCUMULATION)
    told = json.loads(session_json(session))
    assert told["events"][0]["leaves"][0]["closed_form"] == "v * y"
    assert told["events"][2]["failure"].startswith("RuntimeError")
    page = PAGE_WRITERS["markdown"](session_page(session))
    assert "| `x` | 3×3 diagonal(y) | `v * y` | none  +  \\[0.5 -1 2\\] | = torch |" in page


FORMATS = """
w = torch.linspace(-1, 1, 200, requires_grad=True)
for n in range(2):
    h = torch.where(w > 0, w.sqrt(), w) * w.detach()
    h.sum().backward()
    (h * 2).backward() if n else None
"""


IN_PAIRS = """
z = torch.tensor([1 + 2j, 3 - 1j], requires_grad=True)
(z.abs() ** 2).sum().backward()
"""


@pytest.mark.parametrize("source", [ACCUMULATION, FORMATS, IN_PAIRS], ids=["accumulation", "nan", "complex"])
def test_every_format_says_what_the_text_says(tmp_path, source):
    """Also of an array that is too large to be kept: data has its shape."""
    session, told = play(tmp_path, source)
    data, markdown, latex = (
        json.loads(session_json(session)),
        PAGE_WRITERS["markdown"](session_page(session)),
        PAGE_WRITERS["latex"](session_page(session)),
    )
    assert len(data["events"]) == len(session.events)
    assert latex.isascii()
    assert latex.count("{") - latex.count(r"\{") == latex.count("}") - latex.count(r"\}")
    for call in session.calls:
        said = [call.failure, *call.reasons, *call.notes, *(leaf.form or "" for leaf in call.leaves)]
        for sentence in said if not call.repeated else call.notes:
            for page in (told.split(), markdown.replace("\\", "").split()):
                assert " ".join(sentence.split()) in " ".join(page)
    for leaf in [leaf for call in session.calls for leaf in call.leaves]:
        assert f"\\texttt{{{leaf.name}}}" in latex


@pytest.mark.slow
def test_the_command_is_transparent(tmp_path):
    path = tmp_path / "script.py"
    path.write_text("import torch\n" + ACCUMULATION)
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    watched = command("-o", str(tmp_path / "story.txt"), str(path))
    assert watched.returncode == plain.returncode == 1
    assert watched.stderr == plain.stderr
    assert watched.stdout == plain.stdout
    assert "z = x * y" in (tmp_path / "story.txt").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_command_with_a_closed_stdout(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, torch\nsys.stdout.close()\nx = torch.ones(2, requires_grad=True)\n(x*2).sum().backward()\n"
    )
    assert command(path).returncode == 0


@pytest.mark.slow
def test_the_command_refuses_a_missing_script(tmp_path):
    found = command(tmp_path / "missing.py")
    assert found.returncode == 2
    assert "cannot open the script" in found.stderr


def test_an_interrupted_script_has_the_status_of_one(tmp_path, capsys):
    session, told = play(
        tmp_path, "x = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\nraise KeyboardInterrupt"
    )
    assert session.status == 130
    assert "= torch" in told
    assert capsys.readouterr().err.rstrip().endswith("KeyboardInterrupt")


@pytest.mark.slow
def test_an_interrupted_script_ends_as_python_ends_it_and_the_story_is_told(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import atexit, os, signal, torch\natexit.register(lambda: print('bye'))\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in what a shell started with &
        "x = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n"
        "os.kill(os.getpid(), signal.SIGINT)\nwhile True:\n    pass\n"
    )
    plain = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, check=False)
    run = command(path)
    assert plain.returncode == -signal.SIGINT
    assert run.returncode == 128 + signal.SIGINT  # what a shell says of the other
    assert run.stderr.strip() == plain.stderr.strip()
    assert "KeyboardInterrupt" in run.stderr
    assert run.stdout.endswith("bye\n")
    assert "= torch" in run.stdout


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
    _, told = play(
        tmp_path,
        "e = torch.ones(3, requires_grad=True)\n"
        "out = torch.where(e > 2, e, -9e15 * torch.ones_like(e)).mean()\nout.backward(torch.tensor(1E-3))\n",
    )
    assert "-9e15 * torch.ones_like(e)" in told
    assert "1E-3" in told


def test_a_leaf_that_was_not_asked_for_has_a_path(tmp_path) -> None:
    """`inputs=` and `autograd.grad` leave .grad at None, and no path was said to be missing."""
    session, told = play(
        tmp_path,
        "a, b, c = (torch.ones(2, requires_grad=True) for _ in 'abc')\n"
        "torch.autograd.grad((a * b).sum(), [a])\na.grad\n"
        "(a * b).sum().backward(inputs=[a])\nb.grad\nc.grad\n",
    )
    said = " ".join(told.split())
    assert "a.grad is None: autograd.grad (line 3) returns gradients and does not change .grad" in said
    assert "b.grad is None: inputs= of the last backward (line 5) did not include b" in said
    assert "c.grad is None: the last backward (line 5) had no path to c" in said
    assert all(event.agrees for event in session.events)


def test_only_what_was_asked_for_is_said_to_be_where_torch_refuses(tmp_path) -> None:
    _, told = play(
        tmp_path,
        "a, b, c = (torch.ones(2, requires_grad=True) for _ in 'abc')\n"
        "try:\n    torch.autograd.grad((a * b).sum(), [a, c])\nexcept RuntimeError:\n    pass\n"
        "try:\n    torch.autograd.grad(a * b, [a])\nexcept RuntimeError:\n    pass\n",
    )
    assert told.count("a 2 (differentiated)") == 2
    assert "b 2 (differentiated)" not in told
    assert ".grad +=" not in told


@pytest.mark.parametrize(
    ("line", "dtype", "truth"),
    [
        ("(x * 1e-4).reciprocal().mul(1e-3).sum().backward()", "float16", "as torch finds in float64"),
        ("(x * 1e-4).pow(-1).mul(1e-3).sum().backward()", "float16", "as torch finds in float64"),
        ("(1e-30 / (x * 1e-20)).sum().backward()", "float32", "the derivative is -1e10"),
        ("torch.atan2(x * 2e-3, torch.full_like(x, 2e-3))[0].backward()", "float16", "atan2((x * 0.002).double()"),
        ("torch.atan2(torch.full_like(x, 1e-3), x * 1e-3)[0].backward()", "float16", ", (x * 0.001).double())"),
    ],
)  # fmt: skip
def test_where_a_type_ends_the_call_that_reaches_further_is_told(tmp_path, line: str, dtype: str, truth: str) -> None:
    """The derivative is a number and torch's own backward overflows: doubles from here on, or from the start."""
    _, told = play(tmp_path, f"x = torch.tensor([1., 2.], dtype=torch.{dtype}, requires_grad=True)\n{line}\n")
    assert truth in " ".join(told.split())


@pytest.mark.parametrize("line", ["x.exp().sum().backward()", "((x * 1e27) ** 3).sum().backward()"])
def test_what_floats_do_not_hold_is_not_said_to_have_no_slope(tmp_path, line: str) -> None:
    """e¹⁰⁰⁰ is a number: there was said to be no J."""
    _, told = play(tmp_path, f"x = torch.tensor([1000., 1.], requires_grad=True)\n{line}\n")
    said = " ".join(told.split())
    assert "[0]; in float32 that is inf Mathematically," in said
    assert "there is no J" not in said
    _, told = play(tmp_path, "x = torch.tensor([0., 1.], requires_grad=True)\nx.log().sum().backward()\n")
    assert "there is no J at x[0] = 0" in " ".join(told.split())


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


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # torch's own forward mode calls it
def test_a_tangent_of_forward_mode_is_refused_with_its_reason(tmp_path) -> None:
    """Run again outside its level it gives one tensor, not two, which was an IndexError."""
    session, _ = play(
        tmp_path,
        "import torch.autograd.forward_ad as fw\nx = torch.ones(3, requires_grad=True)\n"
        "with fw.dual_level():\n"
        "    d = fw.make_dual(x, torch.ones(3))\n    fw.unpack_dual(d.sin()).tangent.sum().backward()\n",
    )
    (event,) = session.events
    assert not event.explained
    assert "depends on more than its arguments" in event.notes[0]


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


def test_a_recorder_within_another_leaves_its_hook_at_dynamo(monkeypatch) -> None:
    """A capture took both hooks away; at the end of the script there was none left to take, and it was said so."""

    class Context:
        def __init__(self) -> None:
            self.enter_exit_hooks = ["its own"]

    monkeypatch.setitem(sys.modules, DYNAMO, SimpleNamespace(_TorchDynamoContext=Context))
    context = Context()
    outer, inner = TorchPatches(object()), TorchPatches(object())
    with outer.watching_dynamo():
        with inner.watching_dynamo():
            assert len(context.enter_exit_hooks) == 3
        assert len(context.enter_exit_hooks) >= 2
    assert "enter_exit_hooks" not in vars(Context)
