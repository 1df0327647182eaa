"""``symgrad run`` changes nothing: a corpus of scripts runs both ways, and everything that can be seen is the same."""

from __future__ import annotations

import contextlib
import io
import random
import sys
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
from symgrad.tracing.script import status_of
from symgrad.tracing.tell import event_text

ROOT = Path(__file__).resolve().parents[1]
CORPUS = sorted((ROOT / "tests" / "corpus").glob("*.py"))


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
        return status_of(leaving), module
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
        session = run_script(str(path), [], tell=event_text)
    finally:
        types.ModuleType = original
        sys.excepthook = sys.__excepthook__
    return session, next(m for m in mains if m.__name__ == "__main__")


def outcome(run, path):
    """Everything that can be seen of one run from equal beginnings."""
    torch.manual_seed(0), random.seed(0), np.random.seed(0)
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


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_a_script_does_the_same_when_it_is_watched(path):
    plain, _ = outcome(plainly, path)
    if plain.warnings:
        plain, _ = outcome(plainly, path)  # what torch says once in a process it has said now
    found, _ = outcome(watched, path)
    assert found.stdout == plain.stdout
    assert found.stderr == plain.stderr
    assert found.status == plain.status
    assert found.warnings == plain.warnings
    assert found.tensors == plain.tensors
    assert found.states == plain.states


def test_the_corpus_is_large():
    assert len(CORPUS) >= 40
