"""A watched script with threads: it runs as it does alone, and nothing is told of what another thread computes."""

from __future__ import annotations

import runpy
import subprocess
import sys

import pytest

from symgrad.tracing import run_script
from symgrad.tracing.story.session_pages import event_text

BEGIN = """
import threading
import torch
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        return g * 2
def train(size, steps):
    g = torch.Generator().manual_seed(size)
    w = torch.randn(size, generator=g).requires_grad_()
    optimizer = torch.optim.Adam([w], 0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = ((torch.randn(5, size, generator=g) @ w).tanh() - 1).pow(2).mean()
        loss.backward()
        optimizer.step()
    return loss.item(), w.tolist()
"""
SCRIPTS = {
    "data from threads": """
from concurrent.futures import ThreadPoolExecutor
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
def load(n):
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(n))
    return ((x - x.mean()) / x.std()).mul_(2), torch.arange(4) % 2
with ThreadPoolExecutor(3) as pool:
    for x, y in pool.map(load, range(30)):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
print(loss.item(), net.weight.tolist())
""",
    "a backward started in another": """
w = torch.ones(3, requires_grad=True)
for n in range(12):
    loss = (w * 2).exp().sum()
    thread = threading.Thread(target=loss.backward)
    thread.start()
    thread.join()
    u = torch.ones(3, requires_grad=True)
    (u * n).sum().backward()
    print(u.grad.tolist(), w.grad.tolist())
""",
    "two models": """
found = {}
threads = [threading.Thread(target=lambda n=n: found.update({n: train(n, 40)})) for n in (3, 4)]
for thread in threads:
    thread.start()
found[5] = train(5, 40)
for thread in threads:
    thread.join()
print(sorted(found.items()))
""",
    "other ways to differentiate": """
stop, wrong = threading.Event(), []
def other():
    v, n = torch.ones(7, requires_grad=True), 0
    try:
        while n < 30 or not stop.is_set():
            Twice.apply(v * v).sum().backward()
            torch.func.grad(lambda a: (a ** 2).sum())(v.detach())
            torch.autograd.functional.hvp(lambda a: (a ** 3).sum(), v.detach(), v.detach())
            torch.autograd.grad((v * v).sum(), v)
            n += 1
    except Exception as error:
        wrong.append(repr(error))
thread = threading.Thread(target=other)
thread.start()
print(train(3, 40))
w = torch.ones(3)
print(torch.func.grad(lambda a: (a ** 2).sum())(w))
stop.set()
thread.join()
print(wrong)
""",
    "one model under a lock": """
lock = threading.Lock()
w = torch.ones(4, requires_grad=True)
def work():
    for n in range(20):
        with lock:
            w.grad = None
            loss = Twice.apply(w).exp().sum() * 0.1
            loss.register_hook(lambda g: g * 1)
            loss.backward()
            with torch.no_grad():
                w.sub_(0.001 * w.grad)
threads = [threading.Thread(target=work) for _ in range(3)]
for thread in threads:
    thread.start()
work()
for thread in threads:
    thread.join()
print(w.tolist())
""",
}
LOADER = """
net = torch.nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
data = TensorDataset(torch.randn(40, 3), torch.arange(40) % 2)
for x, y in DataLoader(data, 4, shuffle=True, num_workers=1):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(net(x), y).backward()
    optimizer.step()
print(net.weight.tolist())
"""
WATCHED = """
import sys
from symgrad.tracing import run_script
said = []
session = run_script(sys.argv[1], [], tell=said.append)
assert session.status == 0, said
assert session.calls and all(call.explained and call.agrees for call in session.calls), said
assert "a gap in symgrad" not in repr(said)
"""
MEANWHILE = """
first, second = threading.Event(), threading.Event()
u, w = torch.ones(3, requires_grad=True), torch.ones(3, requires_grad=True)
def other():
    first.wait()
    ({leaf} * 2).sum().backward()
    second.set()
def hook(g):
    first.set()
    second.wait()
thread = threading.Thread(target=other)
thread.start()
h = w * 3
h.register_hook(hook)
h.sum().backward()
thread.join()
print(u.grad, w.grad)
"""


def played(tmp_path, capsys, source):
    """A script alone and watched: its session and what was said; what it prints is the same."""
    path = tmp_path / "script.py"
    path.write_text(BEGIN + source, encoding="utf-8")
    runpy.run_path(str(path), run_name="__main__")
    plain, said = capsys.readouterr().out, []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)))
    assert session.status == 0, said
    assert plain.strip()
    assert capsys.readouterr().out == plain
    return session, " ".join(" ".join(said).split())


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_with_threads_runs_as_it_does_alone(tmp_path, capsys, name):
    session, said = played(tmp_path, capsys, SCRIPTS[name])
    assert session.calls
    assert all(call.explained and call.agrees for call in session.calls), said
    assert "a gap in symgrad" not in said
    shapes = {leaf.shape for call in session.calls for leaf in call.leaves}
    if name == "two models":
        assert shapes == {(5,)}
    if name == "other ways to differentiate":
        assert shapes == {(3,)}
    if name == "a backward started in another":
        assert {leaf.name for call in session.calls for leaf in call.leaves} == {"u"}


@pytest.mark.slow
def test_a_loader_with_a_process_runs_as_it_does_alone(tmp_path):
    """In processes of their own: the loader forks, and in that of other tests there are jax's threads."""
    path = tmp_path / "script.py"
    path.write_text(BEGIN + LOADER, encoding="utf-8")
    commands = [sys.executable, str(path)], [sys.executable, "-c", WATCHED, str(path)]
    plain, watched = (subprocess.run(command, capture_output=True, text=True, check=False) for command in commands)
    assert plain.returncode == watched.returncode == 0, watched.stderr
    assert plain.stdout.strip()
    assert watched.stdout == plain.stdout


@pytest.mark.parametrize("leaf", ["u", "w"])
def test_a_backward_in_another_thread_meanwhile_is_not_called_one_inside(tmp_path, capsys, leaf):
    session, said = played(tmp_path, capsys, MEANWHILE.format(leaf=leaf))
    assert [call.explained for call in session.calls] == [True]
    assert "inside" not in said
    assert ("a backward ran in another thread meanwhile, and added to .grad of w" in said) is (leaf == "w")
    assert "of u" not in said
