"""`torch.autograd.functional`'s products and Hessians in a script are one event each, agree with torch, change nothing."""

from __future__ import annotations

import inspect
import re
from functools import wraps
from pathlib import Path
from typing import Any

import pytest
import torch

from symgrad.tracing import run_script
from symgrad.tracing.story.events import CallEvent, Note, Session
from symgrad.tracing.story.session_pages import event_text

pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated:DeprecationWarning")  # torch's own

HEAD = """
import torch
from torch.autograd.functional import hessian, hvp, jvp, vhp
torch.manual_seed(0)
x, u, b = torch.randn(3), torch.randn(3), torch.randn(3, 2)
def f(x): return (x ** 3).sum() + x[0] * x[1]
def g(x, b): return (torch.tanh(x) @ b).pow(2).sum()
"""


def play(tmp_path: Path, body: str, **options: object) -> tuple[Session, str]:
    """A script's session, and what is told of it on one line."""
    path = tmp_path / "script.py"
    path.write_text(HEAD + body + "\n", encoding="utf-8")
    said: list[str] = []
    session = run_script(str(path), [], tell=lambda event: said.append(event_text(event)), **options)
    return session, re.sub(r"\s+", " ", " ".join(said))


SIZE = "H with respect to x is 3×3, sparse, 44% zeros: a row for each entry of v_x, a column for each of x"
TOLD = {
    "hvp": ("hvp(f, x, u)", ["in three passes", SIZE, "H·v = v·H here", "vhp() takes two passes", "jvp(torch.func.grad(f)"]),
    "vhp": ("vhp(f, x, u)", ["in two passes", SIZE, "for all of H, 2 of 3 passes are enough", "6 * g * v_t1 * x"]),
    "hessian": ("hessian(f, x)", ["all second derivatives", SIZE, "2 of 3 passes are enough", "torch.func.hessian(f)"]),
    "jvp": ("jvp(torch.sin, x, u)", ["Ju for u = v", "J with respect to x is 3×3, diag(x.cos())", "torch.func.jvp(f, (x,), (v,))"]),
    "two inputs": ("hvp(g, (x, b), (u, b))", ["H with respect to b is 3×6", "H with respect to x is 6×3", "(f, argnums=(0, 1)), (x, b), (v_x, v_b)"]),
    "blocks": ("hessian(g, (x, b))", ["H with respect to b is 3×6", "H with respect to x is 6×3", "H with respect to b is 6×6"]),
    "two outputs": ("jvp(lambda x: (x * u, x.sum()), x, u)", ["J with respect to x is 3×3, diag(u)", "J with respect to x is 1×3, row"]),
    "a number": ("hvp(lambda t: t ** 3, torch.tensor(2.0))", ["H with respect to t is 1×1", "t.grad = 6 * g * t"]),
    "linear": ("vhp(lambda x: (x * u).sum(), x, u)", ["H with respect to x is 3×3, 0, 100% zeros"]),
    "another graph": ("hvp(f, x, u, create_graph=True)", [SIZE]),
    "batched": ("hessian(f, x, vectorize=True)", [SIZE]),
    "forward over back": ("hessian(f, x, vectorize=True, outer_jacobian_strategy='forward-mode')", [SIZE]),
    "a module": ("hvp(func=torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Tanh()), inputs=x, v=u)", ["H with respect to input is 3×3"]),
}  # fmt: skip


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", TOLD)
def test_each_is_one_event_that_says_what_h_is_and_agrees(name: str, tmp_path: Path) -> None:
    body, wanted = TOLD[name]
    session, told = play(tmp_path, body)
    assert session.status == 0
    assert session.agrees
    (event,) = session.events
    assert isinstance(event, Note)
    assert "= torch in every entry" in told
    assert not [part for part in wanted if part not in told], told


def test_its_gradients_are_one_call_by_number(tmp_path: Path) -> None:
    body = "hvp(f, x, u)\nw = x.clone().requires_grad_()\nf(w).backward()"
    session, _ = play(tmp_path, body, call=2)
    (event,) = session.events
    assert isinstance(event, CallEvent)
    assert event.number == 2
    assert event.agrees


@pytest.mark.slow
def test_a_loop_is_told_once_and_checked_further(tmp_path: Path) -> None:
    _, told = play(tmp_path, "for n in range(12): hvp(f, x, u)")
    assert told.count(SIZE) == 1
    assert told.count("as before, = torch in every entry") == 4


def test_what_is_reached_is_not_said_to_get_nothing(tmp_path: Path) -> None:
    session, told = play(tmp_path, "x.requires_grad_()\n_, h = hvp(f, x, u, create_graph=True)\nh.sum().backward()")
    assert "x gets nothing" not in told
    assert "a new leaf" not in told
    assert session.agrees


def test_a_gradient_inside_the_function_is_told_as_the_script_s_own(tmp_path: Path) -> None:
    body = """
def inner(x):
    s, = torch.autograd.grad((x ** 3).sum(), x, create_graph=True)
    return (s * s).sum()
hvp(inner, x, u)"""
    session, told = play(tmp_path, body)
    first, second = session.events
    assert isinstance(first, CallEvent)
    assert isinstance(second, Note)
    assert session.agrees
    assert "H with respect to x is 3×3, diagonal" in told


def test_what_torch_refuses_stays_its_own_and_the_reason_is_told(tmp_path: Path) -> None:
    body = """
def wrong(x):
    y = x.exp(); z = y.sum(); y.add_(1)
    return z
for bad in (lambda: hvp(wrong, x, u), lambda: hvp(f, x, b), lambda: hvp(lambda x: x * 2, x, u), lambda: hvp()):
    try:
        bad()
    except (RuntimeError, TypeError) as error:
        print(type(error).__name__, str(error)[:40])
vhp(f, x, u)"""
    session, told = play(tmp_path, body)
    assert session.status == 0
    assert "needs y, its own output" in told
    assert SIZE in told  # what comes after an error is told as ever


@pytest.mark.parametrize("body", ["u.sum()", "torch.zeros(())"])
def test_what_was_not_explained_is_not_said_to_agree(body: str, tmp_path: Path) -> None:
    _, told = play(tmp_path, f"for n in range(2): hessian(lambda x: {body}, x)")
    assert "as before" not in told
    assert "gap in symgrad" not in told
    assert "no path from x" in told


@pytest.mark.one_in(2)
@pytest.mark.parametrize("word", ["hvp", "vhp", "jvp", "hessian"])
def test_a_wrong_product_is_seen(word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right: Any = getattr(torch.autograd.functional, word)

    def worse(found: Any) -> Any:
        return found * 1.01 if isinstance(found, torch.Tensor) else tuple(worse(part) for part in found)

    @wraps(right)
    def wrong(*args: Any, **kwargs: Any) -> Any:
        return worse(right(*args, **kwargs))

    assert inspect.signature(wrong) == inspect.signature(right)
    monkeypatch.setattr(torch.autograd.functional, word, wrong)
    given = {"jvp": "jvp(torch.sin, x, u)", "hessian": "hessian(f, x)"}.get(word, f"{word}(f, x, u)")
    session, told = play(tmp_path, given)
    assert re.search(r"≠ torch \(off by 0.0(1|099)", told)
    assert not session.agrees
