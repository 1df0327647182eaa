"""What stands in torch's place while a script is watched, and steps aside."""

from __future__ import annotations

import sys
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode

from symgrad.tracing.record.patching import DYNAMO, TorchPatches, active_modes
from symgrad.tracing.session.watch import WatchedRun


def test_standing_aside_leaves_torch_as_it_is():
    """What Dynamo would trace or guard on is torch's own, however the observer's mode came to stand in the stack."""
    places = [
        (torch.Tensor, "backward"), (torch.autograd, "backward"), (torch.autograd, "grad"), (torch, "compile"),
        (torch.autograd.Function, "apply"), (torch.overrides, "has_torch_function"),
    ]  # fmt: skip
    before = [vars(owner)[name] for owner, name in places]
    watch, other = WatchedRun("script.py"), BaseTorchFunctionMode()
    with watch.watching():
        inside = [vars(owner)[name] for owner, name in places]
        assert all(a is not b for a, b in zip(inside, before, strict=True))
        with other, watch.recorder:
            come_back = watch.recorder.stand_ins.step_aside()
            assert active_modes() == [other]
            assert all(vars(owner)[name] is value for (owner, name), value in zip(places, before, strict=True))
            watch.recorder.stand_ins.step_aside()()  # one compiled function calls another
            assert active_modes() == [other]
            come_back()
            assert active_modes() == [watch.recorder, other, watch.recorder]
            assert all(vars(owner)[name] is value for (owner, name), value in zip(places, inside, strict=True))
    assert all(vars(owner)[name] is value for (owner, name), value in zip(places, before, strict=True))
    assert active_modes() == []


def test_what_torch_says_of_compiling_bears_the_line_that_compiles(monkeypatch):
    def compiling(function):
        warnings.warn("as torch.compile would", UserWarning, stacklevel=2)
        return function

    monkeypatch.setattr(torch, "compile", compiling)

    def compiles():
        return torch.compile(abs)

    with WatchedRun("script.py").watching(), pytest.warns(UserWarning, match="as torch.compile would") as found:
        assert compiles() is abs
    assert [(w.filename, w.lineno) for w in found] == [(__file__, compiles.__code__.co_firstlineno + 1)]


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
