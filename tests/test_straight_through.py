"""What a detach leaves out, and what a user's own backward declares, is told with the slope that is really there."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path

import pytest
import torch

from symgrad import capture
from symgrad.tracing import run_script
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.patching import record_calls
from symgrad.tracing.story.session_pages import event_text

HEAD = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
class Own(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        {forward}
    @staticmethod
    def backward(ctx, v):
        x, = ctx.saved_tensors
        return {backward}
x = torch.tensor([0.3, 1.7, -0.6], requires_grad=True)
"""


def told(tmp_path: Path, body: str, forward: str = "return x", backward: str = "v") -> str:
    """What is told of a script, on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD.format(forward=forward, backward=backward) + body + "\n", encoding="utf-8")
    said: list[str] = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)))
    assert session.status == 0
    assert session.agrees
    return re.sub(r"\s+", " ", " ".join(said))


SLOPES = "the slope is 1, the full derivative is 0"
ONE_ZERO = "it returns the slope 1, the derivative is 0"
DETACHED = {
    "rounded": ("y = x + (x.round() - x).detach()\ny.sum().backward()", f".detach() in line 15 hides one use of x: {SLOPES}"),
    "a gumbel softmax": ("p = x.softmax(0)\nhard = F.one_hot(p.argmax(), 3).float()\n(hard - p.detach() + p)[0].backward()",
                         f".detach() in line 17 hides one use of p: {SLOPES}"),
    "quantised weights": ("s = x.abs().max().detach() / 7\nw = x + (torch.round(x / s).clamp(-8, 8) * s - x).detach()\n(w**2).sum().backward()",
                          ".detach() in line 16 hides one use of x: the slope is 1, without this detach it is 0"),
    "half of a product": ("(x * x.detach()).sum().backward()", "for v = ones backward gives [0.3 1.7 -0.6], the full derivative is [0.6 3.4 -1.2]"),
}  # fmt: skip


@pytest.mark.parametrize("name", DETACHED)
def test_a_detach_says_which_slope_it_leaves_out(name: str, tmp_path: Path) -> None:
    body, sentence = DETACHED[name]
    assert sentence in told(tmp_path, body)


def test_what_was_detached_from_another_network_is_data(tmp_path: Path) -> None:
    page = told(
        tmp_path, "w = torch.ones(3, requires_grad=True)\nfake = torch.tanh(w)\n(x * fake.detach()).sum().backward()"
    )
    assert "w gets nothing: the path was cut" in page
    assert "tanh" not in page
    assert "declared" not in page


SURROGATE = "returns a surrogate gradient, as a straight-through estimator does: "
OWN = {
    "rounding": ("return torch.round(x)", "v", "Own.backward " + SURROGATE + ONE_ZERO),
    "a sign": ("return torch.sign(x)", "2 * v", "it returns the slope 2, the derivative is 0"),
    "a gate": ("return torch.where(x > 0, x, 0 * x)", "v * (x > 0)", "Own.backward is right here"),
    "a detach in the forward": ("return x.detach() * 2", "2 * v", "Own.backward is right here"),
    "the data in the forward": ("return x.data ** 2", "v", "vᵀJ is [0.6 3.4 -1.2]"),
    "a sign of what is detached": ("return x.detach().sign()", "v", "it returns the slope 1, the derivative is 0"),
    "a clipped slope": ("return torch.sign(x)", "v * (x.abs() < 1)", SURROGATE),
    "a slope by the distance": ("return (x > 0).float()", "v / (1 + x.abs()) ** 2", SURROGATE),
    "a clipped gradient": ("return torch.sign(x)", "(3 * v).clamp(-1, 1)", SURROGATE),
    "signs that v lacks": ("return torch.sign(x)", "v * x", "Own.backward is wrong"),
    "a reversed gradient": (
        "return x.view_as(x)", "-v", "works as a gradient reversal layer: it returns the slope -1, the derivative is 1",
    ),
    "a doubled gradient": ("return x.view_as(x)", "2 * v", "Own.backward is wrong: it returns the slope 2"),
    "wrong by a factor": ("return x**3 / 3", "v * x", "[0.3 1.7 -0.6], vᵀJ is [0.09 2.89 0.36]"),
    "wrong by a number": ("return x**2", "v * x", "it returns 0.5 times the derivative"),
}  # fmt: skip


@pytest.mark.parametrize("name", OWN)
def test_an_own_backward_is_compared_with_its_forward(name: str, tmp_path: Path) -> None:
    forward, backward, sentence = OWN[name]
    assert sentence in told(tmp_path, "(Own.apply(x) * 1).sum().backward()", forward, backward)


FORWARDS = {
    "a mask in place": ("y = x.clone(); y[y < 0] = 0; return y * 2", "2 * v * (x >= 0)"),
    "in place through a view": ("y = x.clone(); y[0].mul_(2); return y * 3", "v * torch.tensor([6., 3., 3.])"),
    "in place under its view": ("y = x * 2; z = y.view(-1); z += 1; return y.exp()", "2 * v * (2 * x + 1).exp()"),
    "through .data": ("y = x * 1; y.data.mul_(2); return y.data * 3", "6 * v"),
    "entry by entry": (
        "y = torch.zeros_like(x)\n        for i in range(3): y[i] = x[i] * i\n        return y + 1",
        "v * torch.arange(3)",
    ),
    "copied": ("y = torch.zeros(3); y.copy_(x); return y * 3", "3 * v"),
    "into a new tensor": ("y = torch.empty_like(x); y[1:] = x[1:].sin(); y[:1] = 2 * x[:1]; return y",
                          "v * torch.cat([torch.tensor([2.]), x[1:].cos()])"),
    "many steps": ("m = x.mean(); c = x - m; s = (c * c).mean().sqrt(); y = c / s\n        for _ in range(12): y = y * 1.5\n        return y",
                   "1.5**12 * (v - v.mean() - (c := x - x.mean()) * (v * c).mean() / (c * c).mean()) / (c * c).mean().sqrt()"),
    "a random mask": ("torch.manual_seed(1); m = torch.rand_like(x) > 0.5; return torch.where(m, x, torch.zeros_like(x))",
                      "(torch.manual_seed(1), v * (torch.rand_like(x) > 0.5))[1]"),
    "a global tensor": ("return x * FACTOR", "v * FACTOR"),
}  # fmt: skip
UNSEEN = {
    "numbers taken out": ("return x * x.sum().item()", "v * x.sum() + (v * x).sum()"),
    "a list": ("return torch.tensor(x.tolist()) * 2", "2 * v"),
    "NumPy on the way": ("return torch.from_numpy(x.detach().numpy() * 2) * 3", "6 * v"),
    "what it was given": ("x.mul_(2); return x + 1", "2 * v"),
    "other memory": ("y = x * 1; y.data = y * 2; return y * 3", "6 * v"),
    "a leaf of its own": ("with torch.enable_grad(): y = x.detach().requires_grad_()\n        return y.detach() * 2", "2 * v"),
    "very many steps": ("y = x * 1\n        for _ in range(99): y = y * 1.01\n        return y", "v * 1.01**99"),
}  # fmt: skip
BEFORE = "FACTOR = torch.tensor([2., 3., 4.])\nh = x * 1\nfor _ in range({}): h = h * 1.01\n"


@pytest.mark.one_in(3)
@pytest.mark.parametrize("steps", [0, 20])
@pytest.mark.parametrize("name", FORWARDS)
def test_an_own_forward_is_followed_however_it_is_written(name: str, steps: int, tmp_path: Path) -> None:
    """However many steps came before it: a right backward is no suspect, a wrong one is named."""
    forward, backward = FORWARDS[name]
    body = BEFORE.format(steps) + "(Own.apply(h) * torch.tensor([1., -2., 3.])).sum().backward()"
    assert "Own.backward is right here" in told(tmp_path, body, forward, backward)
    assert "Own.backward is wrong" in told(tmp_path, body, forward, f"2 * ({backward})")


@pytest.mark.parametrize("name", UNSEEN)
def test_a_forward_that_leaves_torch_or_writes_over_what_it_was_given_is_not_judged(name: str, tmp_path: Path) -> None:
    page = told(tmp_path, BEFORE.format(0) + "Own.apply(h).sum().backward()", *UNSEEN[name])
    assert "Own.backward" in page
    assert "backward is wrong" not in page
    assert "derives to" not in page


@pytest.mark.parametrize("kept", ["x.abs() * 2", "(x * 1).detach() * 2", "(x > 0) * 2."])
def test_what_a_forward_leaves_behind_is_data_outside(kept: str, tmp_path: Path) -> None:
    """Torch tracked nothing when it was made; told as a way of its own, it was held against torch."""
    page = told(tmp_path, "(Own.apply(x) * Own.kept * x).sum().backward()", f"Own.kept = {kept}; return x * 3", "3 * v")
    assert "Own.backward is right here" in page
    assert "x.sign()" not in page


TWO = """
class Two(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.sin(), 3 * x
    @staticmethod
    def backward(ctx, v, w):
        x, = ctx.saved_tensors
        return {}
a, b = Two.apply(x)
"""


@pytest.mark.parametrize("loss", ["(a * b).sum()", "a.sum()", "b.sum()"])
def test_an_own_backward_with_several_results_is_compared_once(loss: str, tmp_path: Path) -> None:
    right, wrong = (
        told(tmp_path, f"{TWO.format(back)}{loss}.backward()")
        for back in ("v * x.cos() + 3 * w", "2 * v * x.cos() + 6 * w")
    )
    assert right.count("Two.backward is right here") == 1
    assert wrong.count("Two.backward is wrong") == 1


def test_one_wrong_backward_among_many_right_ones_is_named(tmp_path: Path) -> None:
    """Behind others as well, and what is said of several calls is said once."""
    wrong = "class Wrong(Own):\n    @staticmethod\n    def backward(ctx, v):\n        return 2 * v * ctx.saved_tensors[0].cos()\n"
    body = "h = x\nfor n in range(14): h = (Wrong if n == 12 else Own).apply(h)\nh.sum().backward()"
    page = told(tmp_path, wrong + body, "return x.sin()", "v * x.cos()")
    assert page.count("Wrong.backward is wrong") == 1
    assert page.count("Own.backward is right here") == 1


LINEAR = """
class Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b):
        ctx.save_for_backward(x, w)
        return x @ w.t() + b
    @staticmethod
    def backward(ctx, v):
        x, w = ctx.saved_tensors
        {backward}
data, w, b = torch.arange(6.).reshape(2, 3), torch.randn(2, 3, requires_grad=True), torch.zeros(2, requires_grad=True)
Linear.apply(data, w, b).T.mul(torch.tensor([[1., 2.], [3., 5.]])).sum().backward()
"""
IN_ORDER = "v = v.as_strided(v.shape, (v.shape[1], 1)); return v @ w, v.t() @ x, v.sum(0)"


@pytest.mark.parametrize(
    ("backward", "sentence"),
    [
        ("return v @ w, v.t() @ x, v.sum(0)", "Linear.backward is right here"),
        ("return v @ w, 2 * v.t() @ x, v.sum(0)", "Linear.backward is wrong for w: it returns 2 times the derivative"),
        (
            "return v @ w, v.t() @ x, None",
            "Linear.backward returns None for b, but the gradient is not 0: for this v it is [3 8]",
        ),
        (
            IN_ORDER,
            "reads v as if it were contiguous, which explains its result: v has strides (1, 2)",
        ),
    ],
)
def test_an_own_backward_with_several_inputs_is_compared_by_each(backward: str, sentence: str, tmp_path: Path) -> None:
    page = told(tmp_path, LINEAR.format(backward=backward))
    assert sentence in page
    assert "for data" not in page


def test_a_forward_in_numpy_is_not_judged(tmp_path: Path) -> None:
    page = told(tmp_path, "Own.apply(x).sum().backward()", "return torch.from_numpy(x.detach().numpy() ** 2)", "v * x")
    assert "backward is wrong" not in page
    assert "derives to" not in page


def test_a_reentrant_checkpoint_is_not_accused(tmp_path: Path) -> None:
    page = told(
        tmp_path,
        "from torch.utils.checkpoint import checkpoint\nnet = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Tanh())\n"
        "checkpoint(net, x.requires_grad_(), use_reentrant=True).sum().backward()",
    )
    assert "CheckpointFunction.apply is not verified" in page
    assert "backward is wrong" not in page


def test_a_captured_estimator_is_explained() -> None:
    program = capture(lambda x: x + (torch.round(x) - x).detach(), torch.tensor([0.3, 1.7]))
    assert "detach" in " ".join(program.operations)
    assert "backward gives 1 1, the full derivative is 0 0" in re.sub(r"\s+", " ", program.explain().to_text())


def test_a_loop_that_detaches_keeps_no_past() -> None:
    recorder, old = Recorder(), []
    gc.freeze()  # what other tests left behind is not looked through
    with record_calls(recorder):
        w = torch.ones(3, requires_grad=True)
        state, mean = w * 1, torch.zeros(3)
        for _ in range(30):
            state = torch.tanh(state.detach() * w)
            mean = 0.9 * mean + 0.1 * state.detach()
            old.append(weakref.ref(recorder.node_of(state)))
        gc.collect()
    assert sum(node() is not None for node in old) <= 4


COMPILED = """
net = torch.compile(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh()), backend="aot_eager")
loss = net(x[None].detach()).sum()
loss.backward()
"""


@pytest.mark.slow  # Dynamo takes seconds to load
def test_a_compiled_model_is_told_as_one_and_seen_where_it_is_not_compiled(tmp_path: Path) -> None:
    """What the message proposes is what makes it visible, with the names of the module that was compiled."""
    for source, said in (
        (COMPILED, "what torch.compile made: its program is one opaque call"),
        (COMPILED.replace("aot_eager", "eager"), "was not recorded"),
    ):
        hidden = told(tmp_path, source)
        assert said in hidden
        assert "TORCH_COMPILE_DISABLE=1 symgrad run … runs the same uncompiled" in hidden
    seen = told(tmp_path, 'torch.compiler.set_stance("force_eager")' + COMPILED)
    torch.compiler.set_stance("default")
    assert "not explained" not in seen
    assert "net[0].weight 1×6 row" in seen
    assert "_orig_mod" not in seen


def test_what_dies_of_zeros_names_them_and_what_dies_otherwise_does_not(tmp_path: Path) -> None:
    """A last layer that begins at 0; a relu that is dead beside a bias of zeros, which is not why."""
    last = "w, u = torch.randn(3, 4, requires_grad=True), torch.zeros(4, 1, requires_grad=True)\n"
    last += "h = torch.tanh(x.detach() @ w)\n((torch.tanh(h * 2) @ u - 1) ** 2).sum().backward()"
    assert "its norm is 0 there, because u is 0 in every entry" in told(tmp_path, last)
    dead = "w, b = torch.randn(3, 4, requires_grad=True), torch.zeros(4, requires_grad=True)\n"
    dead += "(F.relu(x.detach() @ w + b - 99).sum() ** 2 + w.sum() * 0 + b.sum() * 0).backward()"
    assert "because b is 0" not in told(tmp_path, dead)


@pytest.mark.parametrize(
    ("taken", "how"),
    [
        ("a = h.sum().item()", ".item()"),
        ("a = float(h.detach().sum())", "float(…)"),
        ("a = h.tolist()[0]", ".tolist()"),
        ("a = float(h.detach().numpy().max())", ".numpy()"),
        ("a = 0.7310585786300049", ""),
    ],
)
def test_a_number_that_was_taken_out_of_a_tensor_is_no_constant(taken: str, how: str, tmp_path: Path) -> None:
    script = tmp_path / "taken.py"
    script.write_text(
        f"import torch\nw = torch.tensor([0.3, 0.7], requires_grad=True)\nh = w.sigmoid()\n{taken}\n(h * a).sum().backward()\n"
    )
    (call,) = run_script(str(script), []).calls
    assert [leaf.agrees for leaf in call.leaves] == [True]
    cuts = [note for note in call.notes if "a number" in note]
    assert len(cuts) == bool(how)
    assert all(f"one path from w was cut in line 4 by {how}: it continues with a number (" in note for note in cuts)


def test_a_detach_that_meets_what_shares_its_leaf_is_told(tmp_path: Path) -> None:
    """``m * W / W.norm().detach()``: the share of the norm is cut, though the two sides are made apart."""
    page = told(
        tmp_path,
        "import torch\nW = torch.tensor([3., 4.], requires_grad=True)\nm = torch.tensor(2., requires_grad=True)\n"
        "(m * W / W.norm().detach()).sum().backward()\n",
    )
    assert "hides one use of W" in page
    assert "[0.4 0.4], the full derivative is [0.064 -0.048]" in page


def test_without_a_detach_no_cut_is_told(tmp_path: Path) -> None:
    source = "import torch\nW = torch.tensor([3., 4.], requires_grad=True)\n(2 * W / W.norm()).sum().backward()\n"
    assert "cut in line" not in told(tmp_path, source)
