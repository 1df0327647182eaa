"""What is said of a backward that fails, of a gradient that is None, zero, infinite or no number, and of the cure."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.played import play, tell


@pytest.mark.parametrize(
    ("call", "says"),
    [
        ("torch.autograd.backward(x * 2)", "(x * 2) has 3 elements"),
        ("x.sum().backward(); x.exp().backward()", "x.exp() has 3 elements"),
        ("x.zero_grad if 0 else (x + 1).backward()", "(x + 1) has 3 elements"),
    ],
)
def test_what_backward_is_called_on_is_read_where_the_call_stands(tmp_path, call, says):
    told = tell(tmp_path, f"x = torch.ones(3, requires_grad=True)\ntry:\n    {call}\nexcept RuntimeError: pass\n")
    assert says in told


def test_a_call_in_one_clause_of_a_statement_is_named_as_it_is_written(tmp_path):
    clauses = ("try: {}\nexcept RuntimeError: pass", "try: pass\nfinally: {}", "if 0: pass\nelse: {}", "if 1: {}")
    for clause in clauses:
        session, _ = play(tmp_path, clause.format("torch.ones(2, requires_grad=True).exp().backward()"))
        told = "\n".join(session.calls[0].reasons)
        assert "torch.ones(2, requires_grad=True).exp()[0].backward()" in told, told


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
    told = tell(
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
    )
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
    _, told = play(tmp_path, f"\n{start}def of(z):\n\n    z.sum().backward()\n{code}\n(2 * p * q).sum().backward()\n")
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
    told = tell(tmp_path, source)
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
    told = tell(
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
    told = tell(tmp_path, f"\nx = torch.arange(3.).requires_grad_()\ny = {output}\ny.backward(torch.ones_like(y))\n")
    assert ("J is diagonal, so v = ones returns all of it" in told) == whole
    told = tell(
        tmp_path, f"\nx = torch.arange(3.).requires_grad_()\ny = {output}\ny.backward(2 * torch.ones_like(y))\n"
    )
    assert "returns all of it" not in told


def test_a_loss_of_nothing_says_so_and_no_reason_for_its_zero(tmp_path):
    told = tell(
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
    told = tell(tmp_path, "\nA = torch.tensor([[1., 2.], [2., 4.]], requires_grad=True)\ntorch.det(A).backward()\n")
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
    told = tell(tmp_path, f"\nx = torch.tensor([1., 2.], requires_grad=True)\n{body}\n")
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
    told = tell(tmp_path, body)
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
    told = tell(tmp_path, body)
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
    told = tell(tmp_path, "\nx = torch.zeros(3, requires_grad=True)\nx.pow(2).sum().sqrt().backward()\n")
    assert "the slope of sqrt is infinite or undefined there" in " ".join(told.split())


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
    told = tell(tmp_path, "x = torch.tensor([0., 1.], requires_grad=True)\n(torch.sin(x) / x).sum().backward()")
    assert told.count("first appears in the backward") == 1
    assert "in the backward of t1 / x (line 3), at x[0] = 0" in told


def test_an_infinite_bound_is_said_to_be_one(tmp_path):
    told = tell(
        tmp_path,
        """
x, mask = torch.arange(4.).requires_grad_(), torch.tensor([1, 1, 0, 1])
torch.softmax(x.masked_fill(mask == 0, float("-inf")), 0)[0].backward()
""",
    )
    assert "bound: -inf" in told


def test_a_leaf_that_is_not_there_is_not_called_unreached(tmp_path):
    """It was said that no leaf is reached and nothing added to any .grad."""
    told = tell(tmp_path, "w = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()", "--only", "x")
    assert "no leaf of that name is reached; reached are w" in told
    assert "nothing is added" not in told


@pytest.mark.parametrize("out", ["y.sum()", "((y > 0).float() * y).mean()", "(y * (x > 0)).sum()", "F.relu(y) @ y"])
def test_a_gradient_that_nothing_leads_to_is_told(tmp_path: Path, out: str) -> None:
    """The forward stays; the sentence takes the place of the table."""
    body = "x, y = torch.ones(3).requires_grad_(), torch.ones(3).requires_grad_()\n"
    asked = f"import torch.nn.functional as F\nassert torch.autograd.grad({out}, x, allow_unused=True) == (None,)\n"
    told = tell(tmp_path, body + asked)
    assert "none of the requested tensors is reached" in told
    assert "not explained" not in told


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
    told = tell(
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
    told = tell(tmp_path, f"x = torch.tensor([1., 2.], dtype=torch.{dtype}, requires_grad=True)\n{line}\n")
    assert truth in " ".join(told.split())


@pytest.mark.parametrize("line", ["x.exp().sum().backward()", "((x * 1e27) ** 3).sum().backward()"])
def test_what_floats_do_not_hold_is_not_said_to_have_no_slope(tmp_path, line: str) -> None:
    """e¹⁰⁰⁰ is a number: there was said to be no J."""
    told = tell(tmp_path, f"x = torch.tensor([1000., 1.], requires_grad=True)\n{line}\n")
    said = " ".join(told.split())
    assert "[0]; in float32 that is inf Mathematically," in said
    assert "there is no J" not in said
    told = tell(tmp_path, "x = torch.tensor([0., 1.], requires_grad=True)\nx.log().sum().backward()\n")
    assert "there is no J at x[0] = 0" in " ".join(told.split())


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


@pytest.mark.parametrize("view", ["h[:, :2]", "h.expand(6, 4)[:, :2]", "h.view(6, 4)[:, :2].T.T", "h[:, :2] + 0"])
def test_a_path_that_is_cut_behind_a_view_is_told_by_its_leaves(tmp_path, view):
    """Torch calls a view of what has a gradient a leaf where gradients are off; it was "one path from a leaf"."""
    source = f"""
net, x = torch.nn.Linear(3, 4), torch.ones(6, 3)
h = net(x)
with torch.no_grad():
    a = {view} + 1
(h[:, :2] * a).sum().backward()
"""
    assert "one path from weight, bias was cut in line" in " ".join(tell(tmp_path, source).split())


def test_a_backward_that_was_only_counted_may_have_filled_a_gradient(tmp_path):
    """The recorder rests after three equal calls: the first of line 7 left its gradient, and line 4 was named."""
    source = """
w = torch.ones(3, requires_grad=True)
for turn in range(3):
    (w * 2).sum().backward()
w.grad = None
for turn in range(3):
    w.exp().sum().backward()
"""
    session, _ = play(tmp_path, source)
    assert [call.number for call in session.calls] == [1, 2, 3, 5, 6]
    held = [note for call in session.calls for note in call.notes if "still held" in note]
    assert [note.partition("value from ")[2].partition(";")[0] for note in held] == [
        "this line before",
        "this line before",
        "earlier lines",
        "this line before",
    ]
