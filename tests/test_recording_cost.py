"""What `symgrad run` costs a script while nothing is told: functions intercepted, tensors copied, bytes held."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc
import weakref
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
import torch

from symgrad.tracing import run_script
from symgrad.tracing.record.mode import Recorder
from symgrad.tracing.record.trace import Node
from symgrad.tracing.session import sampling
from symgrad.tracing.story.session_pages import event_text
from tests.nights import numbers

LOOP = """
import torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))
optimizer = torch.optim.{optimizer}(net.parameters(), lr=0.01)
x = torch.ones(5, 3)
for _ in range({steps}):
    optimizer.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def told(tmp_path, source, **options):
    """What is said of a script, and its session."""
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    said = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)), **options)
    return "\n".join(said), session


@pytest.fixture
def intercepted(monkeypatch):
    """The functions of torch that the recorder saw, in order."""
    seen = []
    own = Recorder.__torch_function__

    def watched(self, func, types, args=(), kwargs=None):
        seen.append(getattr(func, "__name__", str(func)))
        return own(self, func, types, args, kwargs)

    monkeypatch.setattr(Recorder, "__torch_function__", watched)
    return seen


def test_no_function_is_intercepted_in_the_step_of_an_optimizer(tmp_path, intercepted):
    counts = []
    for optimizer in ("SGD", "Adam", "AdamW", "RMSprop"):
        intercepted.clear()
        told(tmp_path, LOOP.format(optimizer=optimizer, steps=3))
        counts.append(len([name for name in intercepted if name not in ("is_complex", "__get__", "__set__")]))
    assert len(set(counts)) == 1


def test_a_step_copies_no_weight_that_no_backward_reads_again(tmp_path, monkeypatch):
    copied = []
    own = Node.keep
    monkeypatch.setattr(Node, "keep", lambda node: copied.append(node) or own(node))
    said, _ = told(tmp_path, LOOP.format(optimizer="Adam", steps=3))
    assert copied == []
    assert said.count("= torch") > 2


AFTER_THE_STEP = """
import torch
torch.manual_seed(0)
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.{optimizer}([w], lr=0.1)
first, second = (w * 3).sum(), (w ** 2).sum()
first.backward()
optimizer.step()
{then}
"""


@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
def test_what_a_step_writes_over_is_known_to_a_graph_that_waits(tmp_path, optimizer):
    then = "try:\n    second.backward()\nexcept RuntimeError:\n    print('refused')"
    said, _ = told(tmp_path, AFTER_THE_STEP.format(optimizer=optimizer, then=then))
    assert "needs w, its input; line 8 (optimizer.step()) overwrote it" in said.replace("\n      ", " ")


def test_a_graph_that_is_kept_over_a_step_has_the_weights_of_its_forward(tmp_path):
    source = AFTER_THE_STEP.format(optimizer="SGD", then="first.backward()")
    _, session = told(tmp_path, source.replace("first.backward()\nopt", "first.backward(retain_graph=True)\nopt"))
    assert [call.explained for call in session.calls] == [True, True]
    assert session.calls[-1].leaves[0].agrees


def test_a_step_with_a_closure_is_recorded(tmp_path):
    source = """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.LBFGS([w], max_iter=2)
def closure():
    optimizer.zero_grad()
    loss = (w ** 2).sum()
    loss.backward()
    return loss
optimizer.step(closure)
"""
    _, session = told(tmp_path, source)
    assert session.calls[0].explained
    assert all(call.leaves[0].agrees for call in session.calls)


def test_a_step_that_raises_leaves_the_next_call_recorded(tmp_path):
    source = """
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
optimizer = torch.optim.SGD([w], lr=0.1)
optimizer.param_groups[0]["lr"] = "large"
(w ** 2).sum().backward()
try:
    optimizer.step()
except TypeError:
    pass
(w ** 3).sum().backward()
(w ** 4).sum().backward()
"""
    _, session = told(tmp_path, source)
    assert [call.explained for call in session.calls] == [True, False, True]
    assert torch.overrides._get_current_function_mode_stack() == []


@pytest.mark.slow
def test_what_a_norm_is_given_is_not_copied_for_its_running_statistics(tmp_path, monkeypatch):
    kept = []
    own = Node.keep
    monkeypatch.setattr(Node, "keep", lambda node: kept.append(node.held.numel()) or own(node))
    source = LOOP.format(optimizer="SGD", steps=2).replace("Tanh()", "BatchNorm1d(4)")
    _, session = told(tmp_path, source)
    assert kept
    assert max(kept) == 4  # running statistics; its input has 20 entries
    assert all(leaf.agrees for call in session.calls for leaf in call.leaves)


# Calls that are only counted -------------------------------------------------------------------------------


AHEAD = {
    "": {1},
    "call 40": {1, *range(32, 41)},
    "call 1": {1},
    "every 20": {1, *range(12, 21), *range(32, 41), *range(52, 61)},
    "call 1 every 50": {1, *range(42, 51)},
}
"""What is asked for by number, and the calls for which the recorder is on before what is told."""


@pytest.mark.parametrize("asked", AHEAD)
def test_nothing_is_intercepted_in_calls_that_are_only_counted(tmp_path, intercepted, monkeypatch, asked):
    words = asked.split()
    options = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    turns = []
    monkeypatch.setattr(torch, "turn", lambda: turns.append(len(intercepted)), raising=False)
    source = LOOP.format(optimizer="Adam", steps=60).replace(
        "    optimizer.zero_grad()", "    torch.turn()\n    optimizer.zero_grad()"
    )
    _, session = told(tmp_path, source, **options)
    seen = {n + 1 for n, (a, b) in enumerate(pairwise(turns)) if b - a > 8}
    whole = {call.number for call in session.calls}
    assert whole <= seen | {60}
    assert seen <= whole | AHEAD[asked]


EVERY = {
    "every 4": [4, 8, 12],
    "every 5 call 1": [1, 5, 10],
    "every 5 call 7": [5, 7, 10],
    "every 20": [],
    "every 1": [*range(1, 13)],
}


@pytest.mark.parametrize("asked", EVERY)
@pytest.mark.parametrize("kind", ["one program", "two lines", "the program changes", "grad"])
def test_every_nth_call_is_told_and_no_other(tmp_path, asked, kind):
    words = asked.split()
    options = dict(zip(words[::2], map(int, words[1::2]), strict=True))
    line = {
        "one program": "(w * 2).exp().sum().backward()",
        "two lines": "if n % 2: (w * 2).sum().backward()\n    else: w.exp().sum().backward()",
        "the program changes": "h = w * 2 if n < 5 else w.sin() * w\n    h.sum().backward()",
        "grad": "torch.autograd.grad((w * w).sum(), w)",
    }[kind]
    source = f"import torch\nw = torch.ones(3, requires_grad=True)\nfor n in range(12):\n    {line}\n"
    said, session = told(tmp_path, source, **options)
    assert [call.number for call in session.calls] == EVERY[asked]
    assert all(call.explained and call.agrees and call.leaves for call in session.calls), said
    assert sum(session.counted.values()) == 12 - len(EVERY[asked])


@pytest.mark.slow
def test_every_nth_call_is_an_option_of_the_command(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(LOOP.format(optimizer="SGD", steps=10), encoding="utf-8")
    code = "from symgrad_cli.run import run; run()"
    command = [sys.executable, "-c", code, "--every", "4", "--call", "1", str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = " ".join(found.split())
    assert "script.py:10 loss.backward() net[0].out = linear(" in found
    assert "call 4: the same program" in found
    assert "call 8: the same program" in found
    assert "7 further calls" in found
    assert "calls 1, 4, 8 were checked" in found


FEW_CALLS, FEW_NODES = 70, 6
"""Functions of ours that run in a call that is only counted, and nodes of torch's graph that are read in it."""


@pytest.mark.parametrize("layers", [1, 40])
def test_a_call_that_is_only_counted_runs_little_of_ours_however_large_the_graph_is(tmp_path, monkeypatch, layers):
    ours, read = [], []
    own = sampling.outline_graph
    monkeypatch.setattr(sampling, "outline_graph", lambda outputs: read.append(own(outputs)) or read[-1])

    def follow(frame, event, argument):
        if event == "call" and "/symgrad/tracing/" in frame.f_code.co_filename:
            ours.append(frame.f_code.co_name)

    monkeypatch.setattr(torch, "follow", follow, raising=False)
    monkeypatch.setattr(torch, "forget", read.clear, raising=False)
    source = LOOP.format(optimizer="SGD", steps=99).replace(
        "net =", f"deep = [torch.nn.Linear(3, 3)] * {layers}\nnet ="
    )
    source = source.replace("torch.nn.Linear(3, 4)", "*deep, torch.nn.Linear(3, 4)").replace(
        "    optimizer.zero_grad()",
        "    import sys\n    if _ == 54: sys.setprofile(torch.follow); torch.forget()\n"
        "    if _ == 94: sys.setprofile(None)\n    optimizer.zero_grad()",
    )
    told(tmp_path, source)
    assert 0 < len(ours) / 40 < FEW_CALLS, Counter(ours)
    assert sum(graph.size for graph in read) / 40 < FEW_NODES


@pytest.mark.slow
def test_only_some_calls_are_recorded_however_the_programs_change(tmp_path, intercepted, monkeypatch):
    """Another length in each batch, or a graph that grows: the recorder is not on all the time."""
    turns = []
    monkeypatch.setattr(torch, "turn", lambda: turns.append(len(intercepted)), raising=False)
    source = """
import torch
w = torch.ones(3, requires_grad=True)
for n in range(300):
    torch.turn()
    h = w
    for _ in range(1 + (n * 7919) % 60):
        h = h * 1.01
    torch.ones(1 + n, 3).mul(h).sum().backward()
"""
    _, session = told(tmp_path, source)
    seen = sum(b - a > 4 for a, b in pairwise(turns))
    assert seen <= len(session.calls) + 24 + 300 // 50 + 1
    assert seen < 120


ROUNDS = {
    "a GAN": (
        """
torch.manual_seed(0)
D, G = torch.nn.Linear(3, 1), torch.nn.Linear(2, 3)
for step in range(12):
    fake = G(torch.ones(4, 2))
    (D(fake.detach()).mean() - D(torch.ones(4, 3)).mean()).backward()
    D(fake).mean().backward()
""",
        12,
    ),
    "inner and outer": (
        """
w = torch.ones(3, requires_grad=True)
for step in range(12):
    loss = (w ** 2).sum()
    (g,) = torch.autograd.grad(loss, w, create_graph=True)
    ((w - 0.1 * g) ** 3).sum().backward()
""",
        12,
    ),
    "a hook": (
        """
w = torch.ones(3, requires_grad=True)
w.register_hook(lambda g: 2 * g)
for step in range(12):
    h = w * 3
    h.register_hook(lambda g: g + 1)
    h.sum().backward()
""",
        12,
    ),
    "a mode entered before": (
        """
with torch.device("cpu"):
    w = torch.ones(3, requires_grad=True)
    for step in range(12):
        (w * torch.ones(3)).sum().backward()
assert torch.overrides._get_current_function_mode_stack() == [] or len(torch.overrides._get_current_function_mode_stack()) == 1
""",
        12,
    ),
    "a default device that comes and goes": (
        """
w = torch.ones(3, requires_grad=True)
for step in range(12):
    torch.set_default_device("cpu" if step % 2 else None)
    (w * torch.ones(3)).sum().backward()
torch.set_default_device(None)
""",
        12,
    ),
    "no_grad around, and a generator": (
        """
w = torch.ones(3, requires_grad=True)
def losses():
    with torch.enable_grad():
        for step in range(12):
            yield (w * 2).sum()
for loss in losses():
    loss.backward()
""",
        12,
    ),
    "checkpointed": (
        """
from torch.utils.checkpoint import checkpoint
w = torch.ones(3, requires_grad=True)
for step in range(12):
    checkpoint(lambda a: (a * 2).exp(), w, use_reentrant=False).sum().backward()
""",
        12,
    ),
    "a graph that is kept": (
        """
w = torch.ones(3, requires_grad=True)
h = w.exp()
for step in range(12):
    (h * 2).sum().backward(retain_graph=True)
""",
        12,
    ),
}


@pytest.mark.parametrize("name", ROUNDS)
def test_rounds_of_every_kind_are_told_again(tmp_path, name):
    source, _ = ROUNDS[name]
    said, session = told(tmp_path, "import torch\n" + source)
    assert session.status == 0, said
    assert all(call.explained and call.agrees for call in session.calls), said
    assert max(call.number for call in session.calls) >= (3 if name == "a graph that is kept" else 10)
    assert torch.overrides._get_current_function_mode_stack() == []


REFUSED = {
    "second time": (
        "h = (w * w).sum() if n != 8 else h\n    h.backward()",
        "retain_graph=True in every call but the last",
    ),
    "no seed": ("(w * w if n == 8 else (w * w).sum()).backward()", "has 3 elements, so J has 3 rows"),
    "no path": ("(w.detach() if n == 8 else w).sum().backward()", "requires_grad=True, or the path to it was cut"),
    "written over": (
        "h = w.exp()\n    if n == 8:\n        h.data\n        h += 0\n        h.mul_(2)\n    h.sum().backward()",
        "What exp gave was overwritten after the forward pass",
    ),
    "wrong seed": ("(w * w).backward(torch.ones(2 if n == 8 else 3))", "v must be 3, not 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_torch_refuses_while_nothing_is_recorded_is_told_by_its_graph(tmp_path, name):
    line, said = REFUSED[name]
    source = f"import torch\nw = torch.ones(3, requires_grad=True)\nfor n in range(9):\n    {line}\n"
    text, session = told(tmp_path, source)
    assert session.status == 1
    assert session.calls[-1].number == 9
    assert session.calls[-1].failure
    flat = " ".join(text.split())
    assert said in flat
    assert "symgrad run --call 9" in flat
    _, again = told(tmp_path, source, call=9)
    assert again.calls[-1].failure == session.calls[-1].failure
    assert "not recorded" not in " ".join(again.calls[-1].reasons)


ALONE = {
    "hvp": "torch.autograd.functional.hvp(f, x, torch.ones(3))",
    "grad": "torch.func.grad(f)(x)",
    "jacrev": "torch.func.jacrev(f)(x)",
    "jvp": "torch.func.jvp(f, (x,), (torch.ones(3),))",
    "vjp": "torch.func.vjp(f, x)[1](torch.tensor(1.0))",
}


@pytest.mark.one_in(4)
@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")
@pytest.mark.parametrize("between", ["", "w.grad = None\n    (w * 2).sum().backward()"])
@pytest.mark.parametrize("name", ALONE)
def test_a_transform_is_told_and_numbered_the_same_while_the_recorder_rests(tmp_path, name, between):
    source = f"""
import torch
x, w = torch.ones(3), torch.ones(3, requires_grad=True)
f = lambda a: (a ** 3).sum()
for n in range(25):
    {ALONE[name]}
    {between}
"""
    said, session = told(tmp_path, source)
    assert sum(session.counted.values()) == 25 - (1 if name == "jacrev" else 6) + (19 if between else 0), said
    numbers = [event.text for event in session.events if "a new program" in getattr(event, "text", "")]
    assert numbers == []
    last = told(tmp_path, source, call=49 if between else 25)[1]
    assert len([event for event in last.events if "starts from zero" not in getattr(event, "text", "")]) == 1


# What is held ----------------------------------------------------------------------------------------------


def arrays_in(value, seen):
    """The arrays that something refers to, by identity."""
    if id(value) in seen or isinstance(value, (str, int, float, type(None), type)):
        return
    seen[id(value)] = value
    if isinstance(value, np.ndarray):
        return
    parts = (
        value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple, set, frozenset)) else ()
    )
    for part in (*parts, *vars(value).values()) if hasattr(value, "__dict__") else parts:
        arrays_in(part, seen)


def test_what_is_kept_of_a_told_call_does_not_grow_with_its_tensors(tmp_path):
    kept = []
    for wide in (40, 400):
        source = (
            LOOP.format(optimizer="SGD", steps=3).replace("(3, 4)", f"(3, {wide})").replace("(4, 2)", f"({wide}, 2)")
        )
        _, session = told(tmp_path, source, pictures=False)
        seen = {}
        arrays_in(session.events, seen)
        kept.append(sum(array.nbytes for array in seen.values() if isinstance(array, np.ndarray)))
        assert len(session.calls) == 3
        assert [leaf.length for leaf in session.calls[0].leaves] != [0.0] * 4
    assert max(kept) < 16 * 1024


def test_a_recorder_that_rests_holds_nothing(tmp_path, monkeypatch):
    held = []
    monkeypatch.setattr(torch, "turn", lambda: held.append(sum(tensor_alive() for tensor_alive in made)), raising=False)
    made = []

    def note(tensor):
        there = weakref.ref(tensor)
        made.append(lambda: there() is not None)
        return tensor

    monkeypatch.setattr(torch, "note", note, raising=False)
    source = LOOP.format(optimizer="SGD", steps=8).replace("net(x).pow(2)", "torch.note(net(x).pow(2))")
    told(tmp_path, source.replace("    optimizer.step()", "    optimizer.step()\n    torch.turn()"))
    gc.collect()
    nodes = [node for node in gc.get_objects() if isinstance(node, Node) and node.where is not None]
    assert [node for node in nodes if node.where.file.startswith(str(tmp_path))] == []
    assert held[-1] <= 1


# Bytes while a call is told ---------------------------------------------------------------------------------

DEEP = """
import torch, tracemalloc
torch.manual_seed(0)
net = torch.nn.Sequential(*(part for _ in range({layers}) for part in (torch.nn.Linear(500, 500), torch.nn.Tanh())))
loss = net(torch.ones(50, 500)).pow(2).mean()
tracemalloc.reset_peak()
loss.backward()
"""


def most_held(tmp_path, layers):
    """The most bytes that NumPy and Python held while a call was told."""
    tracemalloc.start()
    try:
        told(tmp_path, DEEP.format(layers=layers), pictures=False)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_a_call_that_is_told_holds_each_gradient_once_in_doubles(tmp_path):
    few, many = (most_held(tmp_path, layers) for layers in (8, 16))
    assert many - few < 1.5 * 8 * (8 * 500 * 500), (few, many)


WIDE = """
import torch, tracemalloc
torch.manual_seed(0)
weights = [(torch.randn(1000, 1000) / 1000 ** 0.5).requires_grad_() for _ in range(3)]
h = torch.randn(8, 1000)
for w in weights:
    h = torch.tanh(h @ w)
loss = h.pow(2).mean()
tracemalloc.reset_peak()
loss.backward()
"""


@pytest.mark.slow
def test_no_line_and_no_verdict_copies_a_gradient_as_large_as_the_model_many_times(tmp_path):
    tracemalloc.start()
    try:
        told(tmp_path, WIDE, pictures=False)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 10 * 8 * 1000 * 1000, most  # three of them are the gradients, 27 were held when each was copied


UNET = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(),
                         nn.Conv2d(o, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU())
class UNet(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.down = nn.ModuleList([block(3, c), block(c, 2 * c), block(2 * c, 4 * c)])
        self.deep = block(4 * c, 8 * c)
        self.up = nn.ModuleList([nn.ConvTranspose2d(2 * n, n, 2, 2) for n in (4 * c, 2 * c, c)])
        self.back = nn.ModuleList([block(2 * n, n) for n in (4 * c, 2 * c, c)])
        self.out = nn.Conv2d(c, 1, 1)
    def forward(self, x):
        seen = []
        for down in self.down:
            x = down(x)
            seen.append(x)
            x = F.max_pool2d(x, 2)
        x = self.deep(x)
        for up, back, skip in zip(self.up, self.back, reversed(seen)):
            x = back(torch.cat([up(x), skip], 1))
        return self.out(x)
net = UNet()
optimizer = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(2):
    x, y = torch.randn(2, 3, 128, 128), torch.ones(2, 1, 128, 128)
    optimizer.zero_grad()
    F.binary_cross_entropy_with_logits(net(x), y).backward()
    optimizer.step()
"""
TRANSFORMER = """
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
layer = nn.TransformerEncoderLayer(768, 12, 4 * 768, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
net = nn.Sequential(nn.Embedding(1000, 768), nn.TransformerEncoder(layer, 6, enable_nested_tensor=False), nn.Linear(768, 1000))
optimizer = torch.optim.AdamW(net.parameters(), 3e-4)
for step in range(2):
    x = torch.randint(1000, (2, 32))
    optimizer.zero_grad()
    F.cross_entropy(net(x).flatten(0, 1), x.roll(-1, 1).flatten()).backward()
    optimizer.step()
"""
PEAK = """
import resource, subprocess, sys
subprocess.run([sys.executable, *sys.argv[1:]], stdout=subprocess.DEVNULL, check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024)
"""


@pytest.mark.parametrize("source", numbers([UNET], [TRANSFORMER]), ids=["UNet", "transformer"])
def test_a_run_needs_at_most_half_as_much_memory_again_beyond_400_mb(tmp_path, source):
    path = tmp_path / "script.py"
    path.write_text(source, encoding="utf-8")
    watched = ["-c", "from symgrad_cli.run import run; run()", "-o", str(tmp_path / "story.txt")]
    plain, run = (
        float(subprocess.check_output([sys.executable, "-c", PEAK, *command, str(path)], text=True))
        for command in ([], watched)
    )
    assert run < 400 + 1.5 * plain, (plain, run)


# Nothing of ours is seen -----------------------------------------------------------------------------------

SUBCLASSES = """
import torch
log = []
class Deep(torch.Tensor):
    @staticmethod
    def __new__(cls, data):
        return torch.Tensor._make_subclass(cls, data, data.requires_grad)
    __torch_function__ = torch._C._disabled_torch_function_impl
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        log.append(str(func))
        plain = lambda t: torch.Tensor._make_subclass(torch.Tensor, t) if isinstance(t, Deep) else t
        with torch._C._DisableTorchDispatch():
            return func(*map(plain, args), **(kwargs or {}))
class Wrapped(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)
    def __init__(self, inner):
        self.inner = inner.detach()
    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        log.append(str(func))
        inside = lambda t: t.inner if isinstance(t, Wrapped) else t
        out = func(*torch.utils._pytree.tree_map(inside, args), **torch.utils._pytree.tree_map(inside, kwargs or {}))
        return torch.utils._pytree.tree_map(lambda t: Wrapped(t) if isinstance(t, torch.Tensor) else t, out)
w = torch.ones(3, requires_grad=True)
for make in (Deep, Wrapped):
    x = make(torch.tensor([1.0, 2.0, 3.0]))
    (x * w).sum().backward()
    x.add_(1)
    leaf = make(torch.ones(3)).requires_grad_()
    (leaf * 2).sum().backward()
    optimizer = torch.optim.SGD([leaf], lr=0.1)
    optimizer.step()
    leaf.grad = None
    leaf.grad
print("\\n".join(log))
"""

FOLLOWED = """
import sys
import torch
w = torch.ones(3, requires_grad=True)
seen = []
def follow(frame, event, argument):
    if frame.f_code.co_filename == __file__:
        seen.append((event, frame.f_code.co_name, frame.f_lineno))
    return follow
def loss():
    return (w * 2).exp().sum()
sys.{way}(follow)
for _ in range(2):
    loss().backward()
    w.add(1)
sys.{way}(None)
print(seen)
"""


PROFILED = """
import torch
from torch.profiler import profile, ProfilerActivity
w = torch.ones(3, requires_grad=True)
f = lambda a: (a ** 3).sum()
for n in range(12):
    with profile(activities=[ProfilerActivity.CPU]) as found:
        (w * 2).sin().sum().backward()
        torch.autograd.grad(f(w), w, create_graph=n == 3)
        w.add(1).numel()
    print(sorted((event.key, event.count) for event in found.key_averages()))
with torch.autograd.profiler.profile() as found:
    (w * 2).sum().backward()
print(sorted((event.key, event.count) for event in found.key_averages()))
"""
HOOKED = """
import torch
from torch.autograd.graph import saved_tensors_hooks, register_multi_grad_hook
torch.manual_seed(0)
log = []
net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
for module in net:
    module.register_forward_hook(lambda m, given, out: log.append(("forward", tuple(out.shape))))
    module.register_full_backward_hook(lambda m, into, out: log.append(("backward", len(into), len(out))))
for weight in net.parameters():
    weight.register_hook(lambda g: log.append(("grad", tuple(g.shape))))
    weight.register_post_accumulate_grad_hook(lambda p: log.append(("added", tuple(p.shape))))
pack = lambda t: (log.append(("pack", tuple(t.shape))), t)[1]
unpack = lambda t: (log.append(("unpack", tuple(t.shape))), t)[1]
for n in range(12):
    with saved_tensors_hooks(pack, unpack):
        loss = net(torch.ones(5, 3)).pow(2).mean()
    loss.grad_fn.register_hook(lambda into, out: log.append("node"))
    loss.grad_fn.register_prehook(lambda out: log.append("before the node"))
    with register_multi_grad_hook(list(net.parameters()), lambda found: log.append(("all", len(found)))):
        loss.backward()
print("\\n".join(map(str, log)))
"""
MODES = """
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
log = []
class Functions(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        log.append("function " + getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))
class Operations(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        log.append("operation " + str(func))
        return func(*args, **(kwargs or {}))
w = torch.ones(3, requires_grad=True)
optimizer = torch.optim.Adam([w], 0.1)
for n in range(12):
    with Functions() if n % 2 else Operations():
        optimizer.zero_grad()
        torch.tanh(w * 2).sum().backward()
        optimizer.step()
    with Functions(), Operations():
        torch.autograd.grad((w * w).sum(), w)
with Operations():
    for n in range(12):
        (w * 3).sum().backward()
with Functions():
    for n in range(12):
        (w * 3).sum().backward()
print("\\n".join(log))
"""


LOOKING = {
    "subclasses": SUBCLASSES, "a trace": FOLLOWED.format(way="settrace"), "a profile": FOLLOWED.format(way="setprofile"),
    "the profiler": PROFILED, "hooks": HOOKED, "modes": MODES,
}  # fmt: skip


EACH = """
import os, runpy, sys
def forked(script, run):
    if child := os.fork():
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and sys.exit(f"{script} fails")
    sys.stdout.flush()
    os.dup2(os.open(f"{script}.{run.__name__}", os.O_WRONLY | os.O_CREAT), 1)
    try:
        run(script)
    except SystemExit as end:
        failed = end.code
    else:
        failed = 0
    sys.stdout.flush()
    os._exit(1 if failed else 0)
def plain(script):
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")
def watched(script):
    sys.argv = ["symgrad run", "-o", f"{script}.txt", script]
    run()
import torch
for script in sys.argv[1:]:
    forked(script, plain)
from symgrad_cli.run import run
import symgrad.tracing
for script in sys.argv[1:]:
    forked(script, watched)
"""
"""Runs each script alone and under `symgrad run`, in processes that begin where torch is loaded."""


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """What the scripts print, alone and watched; nothing of symgrad is loaded before those that run alone."""
    folder = tmp_path_factory.mktemp("looking")
    for name, source in LOOKING.items():
        (folder / name).write_text(source, encoding="utf-8")
    subprocess.run([sys.executable, "-c", EACH, *LOOKING], cwd=folder, check=True)
    assert all((folder / f"{name}.txt").stat().st_size for name in LOOKING)
    return {name: [(folder / f"{name}.{way}").read_text() for way in ("plain", "watched")] for name in LOOKING}


@pytest.mark.slow
@pytest.mark.xdist_group("looking")
@pytest.mark.parametrize("name", LOOKING)
def test_a_script_that_looks_at_what_is_asked_of_it_sees_nothing_of_ours(printed, name):
    plain, watched = printed[name]
    assert plain.strip()
    assert watched == plain


@pytest.mark.slow
def test_a_forked_child_tells_no_story(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import os, torch\nw = torch.ones(3, requires_grad=True)\n(w * 2).sum().backward()\n"
        "child = os.fork()\nif child:\n    os.waitpid(child, 0)\n",
        encoding="utf-8",
    )
    code = "from symgrad_cli.run import run; run()"
    found = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True)
    assert found.stdout.count("J: one row for each entry") == 1


@pytest.mark.slow
def test_a_run_imports_nothing_of_torch_that_the_script_does_not(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(
        "import sys, torch\nw = torch.ones(3, requires_grad=True)\n"
        "for n in range(6):\n    before = set(sys.modules)\n    (w * 2).exp().sum().backward()\n"
        "    new = [name for name in sys.modules if name not in before and name.startswith('torch.')]\n"
        "    print(n, len(new), new[:5])\n",
        encoding="utf-8",
    )
    code = "from symgrad_cli.run import run; run()"
    command = [sys.executable, "-c", code, "-o", str(tmp_path / "story.txt"), str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [line.split()[1] for line in found.splitlines()] == ["0"] * 6, found
