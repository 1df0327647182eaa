"""``symgrad run`` changes nothing: a corpus of scripts runs both ways, and everything that can be seen is the same."""

from __future__ import annotations

import contextlib
import io
import random
import subprocess
import sys
import time
import traceback
import types
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from symgrad.tracing import run_script
from symgrad.tracing.session.script import exit_status_of
from symgrad.tracing.story.events import Note
from symgrad.tracing.story.session_pages import event_text
from symgrad_cli.output import patience

ROOT = Path(__file__).resolve().parents[1]
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.py"))


BY_DEFAULT = {
    "autocast", "backward_writes_its_v", "batched_grads", "custom_function", "custom_function_several", "fails",
    "exit_with_text", "functions_of_torch_replaced", "generators", "hook_after_accumulating", "hooks_on_tensors",
    "modes_of_the_user",
    "optimizer_in_backward", "redirected_output", "tensor_subclass", "tensors_swapped", "torch_func",
    "tracebacks_printed",
    "views_that_fail", "views_written_in_place", "warnings_at_own_lines",
}  # fmt: skip
"""A second or less each; the others are slow tests."""


@dataclass
class Outcome:
    """What a script did."""

    status: int = 0
    stdout: str = ""
    stderr: str = ""
    warnings: list[Any] = field(default_factory=list)
    tensors: dict[str, Any] = field(default_factory=dict)
    states: tuple[Any, ...] = ()


def left_behind(space, prefix="", depth=0):
    """Every tensor in sight, with everything autograd knows of it."""
    found = {}
    for name, value in space.items():
        key = f"{prefix}{name}"
        if isinstance(value, torch.Tensor):
            found[key] = seen(value)
        elif isinstance(value, torch.nn.Module):
            found |= left_behind(dict(value.named_parameters()) | dict(value.named_buffers()), f"{key}.", depth)
            found[f"{key}.training"] = value.training
        elif isinstance(value, (list, tuple)) and depth < 2:
            found |= left_behind(dict(enumerate(value)), f"{key}.", depth + 1)
        elif isinstance(value, dict) and depth < 2 and not str(name).startswith("__"):
            found |= left_behind(value, f"{key}.", depth + 1)
    return found


def seen(tensor):
    """A tensor's numbers to the last bit, its version, its place in the graph, its gradient."""
    if tensor.layout is not torch.strided:
        return str(tensor)
    with torch._C.DisableTorchFunction(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        numbers = tensor.detach().resolve_conj().contiguous()
        grad = tensor.grad
        try:
            graph = (tensor.is_leaf, tensor.grad_fn and tensor.grad_fn.name())
        except RuntimeError as error:
            graph = (str(error),)
        return (
            type(tensor).__name__, str(numbers.dtype), tuple(tensor.shape), tensor.stride(), tensor.requires_grad,
            None if tensor.is_inference() else tensor._version, graph, tensor._is_view(),
            bytes(numbers.reshape(-1).view(torch.uint8).tolist()), None if grad is None else seen(grad),
        )  # fmt: skip


def plainly(path):
    """Run a script as python does; its status and its names."""
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=str(path), __builtins__=__builtins__, __cached__=None, __annotations__={})
    saved = sys.argv, sys.path[:], sys.modules["__main__"]
    sys.argv, sys.path[0:1], sys.modules["__main__"] = [str(path)], [str(path.parent)], module
    try:
        exec(compile(path.read_bytes(), str(path), "exec", dont_inherit=True), module.__dict__)
    except SystemExit as leaving:
        return exit_status_of(leaving), module
    except BaseException as error:
        error.__traceback__ = error.__traceback__.tb_next
        if sys.excepthook is sys.__excepthook__:
            traceback.print_exception(error)
        else:
            sys.excepthook(type(error), error, error.__traceback__)
        return 1, module
    else:
        return 0, module
    finally:
        sys.argv, sys.path[:], sys.modules["__main__"] = saved
        sys.excepthook = sys.__excepthook__


def watched(path):
    """Run a script under ``symgrad run``; its status and its names."""
    mains = []
    original = types.ModuleType

    class Module(original):
        def __init__(self, name):
            super().__init__(name)
            mains.append(self)

    types.ModuleType = Module
    try:
        session = run_script(str(path), [], tell=event_text, pictures=True)
    finally:
        types.ModuleType = original
        sys.excepthook = sys.__excepthook__
    return session, next(m for m in mains if m.__name__ == "__main__")


def outcome(run, path):
    """Everything that can be seen of one run from equal beginnings."""
    torch.manual_seed(0), random.seed(0), np.random.seed(0)
    if dynamo := sys.modules.get("torch._dynamo"):  # what earlier tests of this process compiled is counted there
        dynamo.reset()
        dynamo.utils.counters.clear()
    found, out, err = Outcome(), io.StringIO(), io.StringIO()
    default = torch.get_default_dtype()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), warnings.catch_warnings():
        warnings.resetwarnings()
        warnings.simplefilter("default")
        warnings.showwarning = lambda text, kind, file, line, *_: found.warnings.append(
            (own_frames(str(text), str(path)), kind.__name__, file, line)
        )
        torch.set_warn_always(True)
        try:
            ended, module = run(path)
        finally:
            torch.set_warn_always(False)
    session = None if isinstance(ended, int) else ended
    found.status = ended if session is None else session.status
    found.stdout, found.stderr = out.getvalue(), err.getvalue()
    found.tensors = left_behind(module.__dict__)
    found.states = (
        torch.get_rng_state().tolist(), random.getstate(), str(np.random.get_state()), torch.is_grad_enabled(),
        str(torch.get_default_dtype()), np.geterr(), torch.is_anomaly_enabled(), torch.is_inference_mode_enabled(),
    )  # fmt: skip
    torch.set_default_dtype(default)
    torch.set_grad_enabled(True)
    torch.set_printoptions(profile="default")
    return found, session


def own_frames(text, path):
    """A stack that torch tells in a warning, from the script's first frame on: below it is the test."""
    head, found, rest = text.partition(f'  File "{path}"')
    return f"{head.splitlines()[0]}\n{found}{rest}" if found else text


@pytest.mark.one_in(6)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", [
    pytest.param(path, id=path.stem, marks=() if path.stem in BY_DEFAULT else pytest.mark.slow) for path in CORPUS
])  # fmt: skip
def test_a_script_does_the_same_when_it_is_watched(path):
    plain, _ = outcome(plainly, path)
    if plain.warnings:
        plain, _ = outcome(plainly, path)  # what torch says once in a process it has said now
    found, session = outcome(watched, path)
    assert found.stdout == plain.stdout
    assert found.stderr == plain.stderr
    assert found.status == plain.status
    assert found.warnings == plain.warnings
    assert found.tensors == plain.tensors
    assert found.states == plain.states
    assert session.agrees
    for call in session.calls:
        assert not any("gap in symgrad" in note or "bug" in note for note in call.notes), call.notes


def test_the_corpus_is_large():
    assert len(CORPUS) >= 40


def calls(path):
    """The calls of one script of the corpus."""
    return outcome(watched, ROOT / "tests" / "corpus" / f"{path}.py")[1].calls


@pytest.mark.filterwarnings("ignore")
def test_a_backward_that_writes_into_its_v_is_named():
    (call,) = calls("backward_writes_its_v")
    assert call.seed == "1 (given)"
    assert "M.backward overwrote the v it was given (1 → 3)" in call.notes
    np.testing.assert_array_equal(call.leaves[0].added, [3])


@pytest.mark.filterwarnings("ignore")
def test_the_gradient_that_was_asked_for_is_explained():
    module, between, both, _ = calls("generators")
    assert [leaf.name for leaf in module.leaves] == ["weight", "bias"]
    assert [(leaf.name, leaf.form) for leaf in between.leaves] == [("h", "2 * h")]
    assert [leaf.form for leaf in both.leaves] == ["2 * h", "3 * v_h"]
    assert all(leaf.agrees for call in (module, between, both) for leaf in call.leaves)
    assert "before + added" not in event_text(between)


@pytest.mark.one_in(2)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["pinn", "gradient_penalty"])
def test_a_loss_on_a_gradient_is_explained(name):
    found = calls(name)
    assert [call.notes for call in found if not call.explained] == []
    assert all(leaf.agrees and not leaf.boxed and leaf.form for leaf in found[-1].leaves)


@pytest.mark.filterwarnings("ignore")
def test_casts_of_autocast_are_listed():
    call = calls("autocast")[0]
    assert call.program[0].startswith(
        "net[0].out = linear(x.bfloat16(), net[0].weight.bfloat16(), net[0].bias.bfloat16())"
    )
    assert all(leaf.agrees for leaf in call.leaves)


@pytest.mark.filterwarnings("ignore")
def test_hooks_after_accumulation_accuse_nobody():
    (call,) = calls("hook_after_accumulating")
    assert [leaf.changed for leaf in call.leaves] == ["a hook", ""]
    assert "weight has a hook that runs after vᵀJ was added: .grad is what the hook left there" in call.notes


@pytest.mark.slow
def test_the_command_changes_no_line_of_the_warnings_nor_a_trace(tmp_path):
    code = "from symgrad_cli.run import run; run()"
    for name in ("warnings_at_own_lines", "fails", "fails_in_backward", "exit_minus_one", "atexit_and_finalisers"):
        path = ROOT / "tests" / "corpus" / f"{name}.py"
        story = str(tmp_path / "story.txt")
        pair = [
            subprocess.run(command, capture_output=True, text=True, check=False)
            for command in ([sys.executable, str(path)], [sys.executable, "-c", code, "-o", story, str(path)])
        ]
        assert pair[0].returncode == pair[1].returncode
        if name != "atexit_and_finalisers":  # python takes __file__ away before the handlers run
            assert (pair[0].stdout, pair[0].stderr) == (pair[1].stdout, pair[1].stderr)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_gradcheck_is_compared_and_not_vacuous():
    events = outcome(watched, ROOT / "tests" / "corpus" / "gradcheck.py")[1].events
    told = [note.more for note in events if isinstance(note, Note)]
    assert told[0][-1].startswith("this pass: 2 leaves = torch")
    assert all("= torch" in lines[-1] for lines in told)


@pytest.mark.slow
def test_what_torch_says_once_is_not_used_up_by_work_that_nobody_hears():
    """In a process of its own: each such warning is one for all tests."""
    code = (
        "import torch; from symgrad.tracing.record.isolation import preserve_global_state\n"
        "with preserve_global_state(): torch.ones(1, dtype=torch.cfloat).float()\n"
        "assert not torch.is_warn_always_enabled()\n"
        "torch.ones(1, dtype=torch.cfloat).float()"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stderr.count("discards the imaginary part") == 1


@pytest.mark.slow
@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_told_to_a_terminal_only(terminal, monkeypatch):
    class Stream(io.StringIO):
        def isatty(self):
            return terminal

    monkeypatch.setattr(sys, "__stderr__", stream := Stream())
    with patience("explaining train.py:3"):
        time.sleep(1.3)
    told = stream.getvalue()
    assert told == ("\rsymgrad: explaining train.py:3 … 1 s\r\x1b[K" if terminal else "")
