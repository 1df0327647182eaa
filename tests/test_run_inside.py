"""Scripts in which something small used to leave a whole call untold, or told of the wrong line; each is a family."""

from __future__ import annotations

import pytest

from symgrad.render import PAGE_WRITERS
from symgrad.tracing import run_script
from symgrad.tracing.story.event_content import legend_text
from symgrad.tracing.story.session_pages import event_text, session_page

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.*:DeprecationWarning")  # scripts still use it
HEAD = "import torch\n"
MUL = """
class Mul(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b
    @staticmethod
    def backward(ctx, v):
        a, b = ctx.saved_tensors
        return {}
a, b = torch.tensor([1., 2.], requires_grad=True), torch.tensor([3., 4.], requires_grad=True)
"""
SQUARE = """
class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * x
    @staticmethod
    def backward(ctx, v):
        pass
a = torch.ones(2, requires_grad=True)
"""


def told(tmp_path, source):
    """What a script's story says, on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + source, encoding="utf-8")
    events = []
    session = run_script(str(path), [], tell=lambda event: events.append(event_text(event)))
    assert session.status == 0
    return " ".join("\n".join(events).split())


TOLD = {
    "a module that lists its parameters its own way": """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)
    def forward(self, x):
        return self.layer(x)
    def named_parameters(self):
        yield from super().named_parameters()
M()(torch.ones(4, 3)).sum().backward()
""",
    "a scripted function": """
@torch.jit.script
def act(x):
    return x * torch.sigmoid(x)
w = torch.tensor([1., 2.], requires_grad=True)
act(w * 3).sum().backward()
""",
    "a scripted function with two results": """
@torch.jit.script
def both(x, y):
    return x * y, x + y
w = torch.tensor([1., 2.], requires_grad=True)
a, b = both(w * 3, w)
(a * b).sum().backward()
""",
    "a traced function": """
act = torch.jit.trace(lambda x: x * torch.tanh(x), torch.ones(2))
w = torch.tensor([1., 2.], requires_grad=True)
act(w * 3).sum().backward()
""",
    "a computed tensor in another class": """
class P(torch.Tensor):
    pass
w = torch.tensor([1., 2.], requires_grad=True)
p = (w * 2).as_subclass(P)
(p * p).sum().backward()
""",
    "a leaf in another class": """
class P(torch.Tensor):
    pass
w = torch.tensor([1., 2.], requires_grad=True)
p = w.as_subclass(P)
(p * p).sum().backward()
""",
    "Variable of a leaf's values": """
from torch.autograd import Variable
w = Variable(torch.tensor([1., 2.]), requires_grad=True)
assert isinstance(w, Variable)
(w * w).sum().backward()
""",
}


@pytest.mark.parametrize("source", TOLD.values(), ids=TOLD)
def test_it_is_derived_and_equal(tmp_path, source):
    story = told(tmp_path, source)
    assert "= torch" in story
    assert "not explained" not in story
    assert "not verified" not in story


@pytest.mark.parametrize("make", ["Variable(x * 2)", "Variable((x * 2).data)", "torch.autograd.Variable(x * 2)"])
def test_variable_cuts_the_path_and_is_named(tmp_path, make):
    story = told(
        tmp_path,
        "from torch.autograd import Variable\nx = torch.ones(2, requires_grad=True)\n"
        f"z = {make}\ntry:\n    z.sum().backward()\nexcept RuntimeError:\n    pass\n",
    )
    assert f"the path from x to z.sum() was cut in line 4 (z = {make})" in story
    assert "no input of" not in story


def test_variable_that_is_a_new_leaf(tmp_path):
    story = told(
        tmp_path,
        "from torch.autograd import Variable\nw = torch.ones(2, requires_grad=True)\n"
        "k = Variable(w * 2, requires_grad=True)\nk.sum().backward()\nw.grad\n",
    )
    assert (
        "w.grad is None: the path was cut in line 4 by Variable(…), which copies values without their history"
    ) in story


CALLS = {
    "assert_backward": "from symgrad.testing import assert_backward\nassert_backward(torch.tanh, 'tanh(x)', x=torch.ones(3))\n",
    "check_backward of a wrong one": (
        "from symgrad.testing import check_backward\n"
        "check_backward((lambda x: x**2, lambda v, x: torch.autograd.grad((x**2).sum(), x)[0]), 'x**2', x=torch.ones(2))\n"
    ),
    "explain": "import symgrad\nsymgrad.explain('x@a')\n",
    "hessian": "import symgrad\nsymgrad.hessian('sum(x**3)', 'x', x=[1., 2.])\n",
    "capture": "import symgrad\nsymgrad.capture(torch.tanh, torch.ones(2))\n",
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_symgrad_does_for_a_script_is_not_told(tmp_path, call):
    assert told(tmp_path, call) == ""
    after = told(tmp_path, f"{call}x = torch.ones(2, requires_grad=True)\n(x * x).sum().backward()\n")
    assert "x 1×2 row 2 * x none [2 2] [2 2] = torch" in after


def test_a_backward_that_returns_none(tmp_path):
    story = told(tmp_path, MUL.format("v * b, None") + "Mul.apply(a, b).sum().backward()\nb.grad\n")
    assert "b.grad is None: Mul.backward returned None for its input 2 (script.py:11)" in story
    assert "Mul.backward returns None for b, but the gradient is not 0: for this v it is [1 2]" in story
    assert "inputs=" not in story
    assert "by b is 0" not in story


def test_a_backward_that_returns_nothing_at_all(tmp_path):
    story = told(tmp_path, SQUARE + "Square.apply(a).sum().backward()\na.grad\n")
    assert "a.grad is None: Square.backward returned None for its input" in story


def test_inputs_that_name_others_are_still_named(tmp_path):
    story = told(tmp_path, MUL.format("v * b, v * a") + "(a * b).sum().backward(inputs=[a])\nb.grad\n")
    assert ("b.grad is None: inputs= of the last backward (line 13) did not include b") in story


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ("(v * b)[:1], v * a", None),  # torch takes what broadcasts to the input
        ("v.repeat(2)[:3], v * a", "Mul.backward returned 3 for its input 1, which is 2 (script.py:11)"),
    ],
)
def test_a_backward_of_the_wrong_shape(tmp_path, back, said):
    story = told(
        tmp_path, MUL.format(back) + "try:\n    Mul.apply(a, b).sum().backward()\nexcept RuntimeError:\n    pass\n"
    )
    assert said is None or f"{said}: the two have to be the same" in story
    assert ("returned an invalid gradient" in story) == (said is not None or "fails" in story)


INSIDE = {
    "a backward of one's own": (
        """class F(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3
    @staticmethod
    def backward(ctx, v):
        x, = ctx.saved_tensors
        return torch.autograd.grad((x**3).sum(), x)[0] * v
x = torch.ones(3, requires_grad=True)
""",
        "F.apply(x).sum()",
        "script.py:10 (return torch.autograd.grad((x**3).sum(), x)[0] * v), in F.backward",
        "torch.enable_grad()",
    ),
    "a hook that asks without a seed": (
        """x = torch.ones(3, requires_grad=True)
h = x * 2
g = x * 3
def hook(v):
    with torch.enable_grad():
        (x * 2).backward()
h.register_hook(hook)
""",
        "h.sum()",
        "script.py:7 ((x * 2).backward()), in hook",
        "only a single number has an obvious weight",
    ),
    "a hook that goes through a graph twice": (
        """x = torch.ones(3, requires_grad=True)
y = (x * x).sum()
y.backward()
h = x * 2
def hook(v):
    y.backward()
h.register_hook(hook)
""",
        "h.sum()",
        "script.py:7 (y.backward()), in hook",
        "retain_graph=True",
    ),
    "a hook that raises": (
        """x = torch.ones(3, requires_grad=True)
h = x * 2
def hook(v):
    raise ValueError('mine')
h.register_hook(hook)
""",
        "h.sum()",
        "script.py:5 (raise ValueError('mine')), in hook",
        "",
    ),
}


@pytest.mark.parametrize(("source", "output", "place", "answer"), INSIDE.values(), ids=INSIDE)
def test_an_error_inside_is_not_told_as_the_calls_own(tmp_path, source, output, place, answer):
    story = told(tmp_path, f"{source}try:\n    {output}.backward()\nexcept Exception:\n    pass\n")
    last = story[story.rindex("fails") :]
    assert f"The error came from {place}" in last
    assert answer in last
    assert "no input of" not in last
    assert "[]" not in last


def test_who_put_a_gradient_there_is_who_changed_it(tmp_path):
    story = told(
        tmp_path,
        "x, w = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)\n"
        "z = (x * w).sum()\n"
        "z.backward()\n"
        "try:\n    z.backward()\nexcept RuntimeError:\n    pass\n"
        "(x * 2).sum().backward()\n"
        "(x * w).sum().backward(inputs=[w])\n"
        "(x * 3).sum().backward()\n"
        "x.grad = torch.ones(2)\n"
        "try:\n    x.backward()\nexcept RuntimeError:\n    pass\n"
        "(x * 4).sum().backward()\n",
    )
    lines = [part.split(";")[0] for part in story.split(" still held the value from ")[1:]]
    assert lines == ["line 4", "line 4", "line 9", "line 12"]


TWICE = """
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2
    @staticmethod
    def backward(ctx, v):
        return v * 2
x = torch.tensor([1., 2.], requires_grad=True)
h = x * 3
"""


@pytest.mark.parametrize(
    ("output", "form"),
    [
        ("(Twice.apply(x.expand(3, 2)) ** 2).sum()", "x 1×2 v_t1.sum(0) none [24 48] [24 48]"),
        ("(Twice.apply(h.expand(3, 2)) ** 2 + h).sum()", "v_h = 3 * ones_like(h) + v_t1.sum(0)"),
        ("(Twice.apply(x.expand(3, 2)) * x.expand(3, 2)).sum()", "v_t1.sum(0)"),
        ("(Twice.apply(x.repeat(3)) ** 2).sum()", "v_t1 = Twice.backward(v_t2)"),
        ("(Twice.apply(torch.broadcast_to(x, (3, 2))) ** 2).sum()", "x 1×2 v_t1.sum(0) none [24 48] [24 48]"),
    ],
)
def test_a_form_counts_what_comes_back_through_a_black_box(tmp_path, output, form):
    story = told(tmp_path, f"{TWICE}{output}.backward()\n")
    assert form in story
    assert "zeros_like" not in story


def test_a_name_that_was_assigned_again_means_one_thing(tmp_path):
    story = told(
        tmp_path,
        "x = torch.linspace(0.1, 0.9, 4, requires_grad=True)\n"
        "bases = (x.detach() > 0.5).double()[:, None] * torch.arange(6.)\n"
        "bases = x[:, None] * bases[:, :-1] + x[:, None] ** 2 * bases[:, 1:]\n"
        "(bases[:, :-1] * bases[:, 1:]).sum().backward()\n",
    )
    assert "bases = x[:, None] * bases_0 + t4 * bases_0_2" in story
    assert "(bases[:, :-1] * bases[:, 1:]).sum()" in story
    assert "= torch" in story


def test_a_layer_that_is_called_as_its_result_keeps_its_names(tmp_path):
    story = told(
        tmp_path,
        "class Heads(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.mu, self.scale = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)\n"
        "    def forward(self, x):\n"
        "        mu = self.mu(x)\n"
        "        scale = self.scale(x).exp()\n"
        "        return (mu * scale).sum()\n"
        "net, x = Heads(), torch.ones(4, 3)\n"
        "net(x).backward()\n",
    )
    assert "mu = linear(x, mu.weight, mu.bias)" in story
    assert "scale.weight 1×6 row v_scale.out.T @ x" in story


def test_a_name_of_the_users_is_theirs_where_torch_calls_something_else_so(tmp_path):
    """Categorical calls what it is asked about ``value``."""
    story = told(
        tmp_path,
        "logits, w = torch.zeros(4, 3, requires_grad=True), torch.ones(4, requires_grad=True)\n"
        "taken = torch.tensor([0, 2, 1, 1])\n"
        "lp = torch.distributions.Categorical(logits=logits).log_prob(taken)\n"
        "value = w * 2\n"
        "(lp * value).sum().backward()\n",
    )
    assert "value = w * 2 4" in story
    assert "data 4×1" in story


BEYOND = {
    "a number over float32": (
        "x = torch.tensor(1e-20, requires_grad=True)\n(1e-30 / x).backward()\n",
        "float32",
        "-1e10",
    ),
    "an angle in half precision": (
        "x = torch.tensor(2e-3, dtype=torch.float16, requires_grad=True)\ntorch.atan2(x, x.detach()).backward()\n",
        "float16",
        "250",
    ),
    "with a sum above it": (
        "x = torch.tensor([1e-20, 1.], requires_grad=True)\nh = x * 2\n(1e-30 / h).sum().backward()\n",
        "float32",
        "-2.5e09",
    ),
}


@pytest.mark.parametrize(("first", "entries"), [("sqrt(x)", "1 of 2 "), ('(x * float("nan"))', "")])
def test_what_stood_in_grad_before_is_not_undefined_in_the_next_call(tmp_path, first, entries):
    source = f"x = torch.tensor([0.0, 1.0], requires_grad=True)\n{first}.sum().backward()\n(x * 2).sum().backward()\n"
    _, _, second = told(tmp_path, f"from torch import sqrt\n{source}").rpartition("(x * 2).sum().backward()")
    assert f"{entries}not finite in .grad before" in " ".join(second.split())
    assert "undefined" not in second
    assert "overflows" not in second


@pytest.mark.parametrize(
    ("call", "stood"), [("x * 0", "[inf, 1.0]"), ("relu(-x)", "[nan, inf]"), ("relu(-x)", "[0, nan]")]
)
def test_a_zero_beside_what_is_not_finite_in_grad_is_no_rounding(tmp_path, call, stood):
    source = f"from torch import inf, nan, relu\nx = torch.tensor([1.0, 2], requires_grad=True)\nx.grad = torch.tensor({stood})\n"
    story = " ".join(told(tmp_path, f"{source}({call}).sum().backward()\n").split())
    assert "+ [0 0] =" in story
    assert "rounding" not in story


@pytest.mark.parametrize(("source", "kind", "number"), BEYOND.values(), ids=BEYOND)
def test_what_torch_does_not_reach_is_no_missing_derivative(tmp_path, source, kind, number):
    story = told(tmp_path, source)
    assert f"torch's own backward overflows in {kind}" in story
    assert number in story
    assert "torch overflows" in story
    assert "undefined" not in story
    assert "there is no J" not in story


@pytest.mark.parametrize(
    "source",
    [
        "x = torch.zeros(2, requires_grad=True)\nx.sqrt().sum().backward()\n",
        "x = torch.zeros(2, requires_grad=True)\n(1 / x).sum().backward()\n",
        "x = torch.zeros(2, requires_grad=True)\n(x**-1.5).sum().backward()\n",
    ],
)
def test_a_point_without_a_derivative_is_still_called_that(tmp_path, source):
    story = told(tmp_path, source)
    assert "undefined here" in story
    assert "overflows" not in story


def test_no_seed_is_said_where_torch_had_none(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import torch\nx = torch.ones(2, requires_grad=True)\ny = x * 2\ntry:\n    y.backward()\nexcept RuntimeError:\n    pass\n"
    )
    session = run_script(str(path), [])
    (call,) = session.calls
    assert call.seed == ""
    assert "v weighs the rows" in legend_text(session)
    assert "implicit: one output" not in PAGE_WRITERS["markdown"](session_page(session))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("x = torch.tensor([0., 4.], requires_grad=True)\ntorch.where(x > 0, x.sqrt(), x).sum().backward()\n", "x.grad is [1 0.25]"),
        ("x = torch.tensor([0., 4.], requires_grad=True)\ntorch.where(x > 0, x.sqrt(), 3 * x).sum().backward()\n", "x.grad is [3 0.25]"),
        ("x = torch.tensor([0., 1.], requires_grad=True)\nt = torch.tensor([0., 1.])\n(-t * x.log()).sum().backward()\n", "x.grad is [0 -1]"),
        ("x = torch.tensor([0., 2.], requires_grad=True)\ntorch.where(x > 0, 1 / x, 0 * x).sum().backward()\n", "x.grad is [0 -0.25]"),
    ],
)  # fmt: skip
def test_what_the_gradient_is_where_step_by_step_it_is_nan(tmp_path, source, said):
    story = told(tmp_path, source)
    assert f"Mathematically, {said}." in story


def test_infinity_times_zero_is_told_where_it_happens(tmp_path):
    story = told(tmp_path, "x = torch.zeros(2, requires_grad=True)\n(x**2).sum().sqrt().backward()\n")
    assert "∞ · 0 is nan: x ** 2 (line 3) has slope 0 where the infinite gradient arrives" in story
    alone = told(tmp_path, "x = torch.zeros(2, requires_grad=True)\nx.sqrt().sum().backward()\n")
    assert "∞ · 0" not in alone
