"""Patches of torch's attributes while a program is watched, and their temporary removal.

Dynamo traces every Python function that it meets, the recorder's too, and its compiled code depends on the active
modes. So a compiled function is called without symgrad's mode and patches, and its inside is not recorded. Nor is a
step of torch's own optimizers: Adam calls some hundred torch functions per step, and no gradient flows through them.
Comes in: the recorder, and the patches. Goes out: contexts; for each weight that an optimizer wrote, the line.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from threading import get_ident
from typing import Any

import torch
from torch.jit._builtins import _find_builtin, _register_builtin
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._device import DeviceContext

from symgrad.tracing.record import frames, graph_breaks
from symgrad.tracing.record.aliases import version
from symgrad.tracing.record.isolation import caller, patch_attributes, restore_attribute
from symgrad.tracing.record.spelling import Facts, has_own_override
from symgrad.tracing.record.trace import Node, TorchCall

DYNAMO = "torch._dynamo.eval_frame"
HOOKS = "enter_exit_hooks"
"""The attribute with the hooks that Dynamo's contexts call before a compiled function; each returns its end."""


class TorchPatches:
    """The patched attributes of torch while ``mode`` is active."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.standing: list[tuple[Any, str, Any, Any]] = []
        self.dynamo = ExitStack()
        """Removes the patches of Dynamo."""
        self.contexts: Any = None
        self.went = False
        self.home = get_ident()
        self.rested = False
        """Whether the mode is temporarily off, in the thread in which it records."""
        self.stood_aside = False

    @property
    def here(self) -> bool:
        """Whether this thread is watched, with the mode active or temporarily off."""
        return self.mode in active_modes() or (self.rested and get_ident() == self.home)

    @property
    def elsewhere(self) -> bool:
        """Whether this is another thread of the program's, and not one of autograd's."""
        own = get_ident()
        return own != self.home and any(thread.ident == own for thread in threading.enumerate())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Push the mode onto the stack, and remove it from any position at the end."""
        _push_mode(self.mode)  # type: ignore[no-untyped-call]  # torch's gap
        try:
            yield
        finally:
            self.rested = False
            _set_modes([mode for mode in active_modes() if mode is not self.mode])

    @contextmanager
    def put(self, *those: tuple[Any, str, Any]) -> Iterator[None]:
        """Patch each ``(owner, name, value)``, and restore torch's own at the end."""
        with patch_attributes(*those) as mine:
            self.standing += mine
            try:
                yield
            finally:
                for one in mine:
                    self.standing.remove(one)

    def rest(self) -> bool:
        """Remove the mode from the stack temporarily; return False unless it was there once."""
        modes = active_modes()
        if sum(mode is self.mode for mode in modes) != 1:
            return False
        _set_modes([mode for mode in modes if mode is not self.mode])
        self.rested = True
        return True

    def resume(self) -> None:
        """Reinsert the mode below those of the program, which pop the top, and above a default device."""
        modes, self.rested = active_modes(), False
        place = int(bool(modes) and isinstance(modes[0], DeviceContext))
        _set_modes([*modes[:place], self.mode, *modes[place:]])

    @contextmanager
    def watching_dynamo(self) -> Iterator[None]:
        """Call compiled functions without the mode and patches."""
        compiling = torch.compile

        @functools.wraps(compiling)
        def compile_aside(*args: Any, **kwargs: Any) -> Any:
            come_back = self.step_aside()  # Dynamo, loaded here, looks up what it finds in torch's places
            try:
                return caller(sys._getframe(1))(compiling, args, kwargs)
            finally:
                come_back()
                self.meet_dynamo()

        self.meet_dynamo()
        with self.dynamo, self.put((torch, "compile", compile_aside)):
            yield
        self.contexts = None

    def meet_dynamo(self) -> None:
        """Add a hook to Dynamo's contexts once Dynamo is loaded, which takes seconds and is left to the program."""
        if self.contexts is not None or DYNAMO not in sys.modules:
            return
        self.contexts = getattr(sys.modules[DYNAMO], "_TorchDynamoContext", None)
        if self.contexts is None:
            return  # a Dynamo of another make, which is let alone

        around = vars(self.contexts).get(HOOKS)  # of another recorder, which began before

        def aside() -> Callable[[], None]:
            return _do_nothing if runs_uncompiled() else self.step_aside()

        def hooks(context: Any) -> Any:
            own = vars(context)[HOOKS] if around is None else around.__get__(context)
            if aside not in own:
                own.append(aside)
            return own

        to = property(hooks, lambda context, own: vars(context).__setitem__(HOOKS, own))
        self.dynamo.enter_context(patch_attributes((self.contexts, HOOKS, to)))

    def step_aside(self) -> Callable[[], None]:
        """Remove the mode and the patches; return the function that restores them."""
        before, rested = active_modes(), self.rested and get_ident() == self.home
        if self.stood_aside if rested else self.mode not in before:
            return _do_nothing
        self.went, self.stood_aside = True, rested
        standing = list(self.standing)
        alone = [mode for mode in before if mode is not self.mode]
        _set_modes(alone)
        for owner, name, original, _ in standing:
            restore_attribute(owner, name, original)

        def come_back() -> None:
            for owner, name, _, value in standing:
                setattr(owner, name, value)
            self.stood_aside = False
            if active_modes() == alone:
                _set_modes(before)
            elif not rested:
                self.resume()

        return come_back


def runs_uncompiled() -> bool:
    """Whether Dynamo runs functions uncompiled, by its setting or by torch.compiler.set_stance."""
    dynamo = sys.modules[DYNAMO]
    stance = getattr(getattr(dynamo, "_stance", None), "stance", "")
    return stance == "force_eager" or bool(getattr(getattr(dynamo, "config", None), "disable", False))


def _do_nothing() -> None:
    """Do nothing, as the end of a removal that did not happen."""


def active_modes() -> list[Any]:
    """Return the active function modes, outermost first."""
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]  # torch's gap


def _set_modes(modes: list[Any]) -> None:
    """Set the stack of function modes to ``modes``."""
    for _ in active_modes():
        _pop_mode()  # type: ignore[no-untyped-call]  # torch's gap
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]  # torch's gap


STEP = "Optimizer.step"


class OptimizerSteps:
    """Handles optimizer steps; ``before`` are the weights and their nodes while a step runs."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.before: list[tuple[Any, Node, int | None]] | None = None

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Run steps of torch's optimizers with the mode off."""
        hooks = [register_optimizer_step_pre_hook(self.begin), register_optimizer_step_post_hook(self.end)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def begin(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Begin a step; one with a closure runs the program's own lines, and is recorded."""
        self.resume()
        if self.recorder.stand_ins.rested:
            return
        own = str(type(optimizer).step.__module__).startswith("torch.")
        if own and len(args) == 1 and not keywords and self.recorder.stand_ins.rest():
            self.before = self.recorder.guard(self.weights, optimizer) or []

    def end(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """End a step."""
        before = self.before
        if self.resume() and before:
            self.recorder.guard(self.note, before)

    def resume(self) -> bool:
        """Record again, also after a step that raised; return False in another thread, or if the mode was not off."""
        if self.before is None or get_ident() != self.recorder.stand_ins.home:
            return False
        self.before = None
        self.recorder.stand_ins.resume()
        return True

    def weights(self, optimizer: Any) -> list[tuple[Any, Node, int | None]]:
        """Return the weights that will be written, after copying those that a backward may still read."""
        recorder = self.recorder
        found = [t for group in optimizer.param_groups for t in group["params"] if t.grad is not None]
        found = [t for t in found if not has_no_numbers([t])]
        for tensor in found:
            recorder.storages.protect(tensor, False)
        return [(tensor, recorder.node_of(tensor), version(tensor)) for tensor in found]

    def note(self, before: list[tuple[Any, Node, int | None]]) -> None:
        """Record that the line of the step wrote the weights."""
        where = frames.user_line(self.recorder.calls)
        self.recorder.calls += 1
        call = TorchCall(None, STEP, (), {}, where, in_place=True)  # type: ignore[arg-type]  # nobody runs it again
        for tensor, node, count in before:
            if version(tensor) != count:
                self.recorder.overwritten(tensor, node, call, where)


def has_no_foreign_override(args: Iterable[Any]) -> bool:
    """Replace ``has_torch_function``, by which attention chooses its fast path: a recording mode does not count."""
    return has_own_override(tuple({type(t) for t in args if isinstance(t, torch.Tensor)}))


_register_builtin(has_no_foreign_override, _find_builtin(torch.overrides.has_torch_function))  # type: ignore[no-untyped-call]  # torch.jit takes it for torch's


@contextmanager
def record_calls(recorder: Any) -> Iterator[Any]:
    """Record all calls; a user's own ``autograd.Function`` or scripted function is one call."""
    base, scripted = torch.autograd.Function, torch._C.ScriptFunction
    original, compiled = base.__dict__["apply"], scripted.__call__

    def one_call(bare: Any, spelling: str, custom: bool, args: Any, kwargs: Any) -> Any:
        def run() -> Any:
            return bare(*args, **kwargs)

        if recorder not in active_modes() or recorder.paused or (recorder.inside is None and recorder.abroad()):
            return run()
        known = Facts(spelling, False, True, True, False, None, custom=custom)
        return recorder.record(bare, known, args, kwargs, run)

    def apply(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(original.__get__(None, cls), f"{cls.__qualname__}.apply", True, args, kwargs)

    def variable(cls: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(partial(type.__call__, cls), graph_breaks.VARIABLE, False, args, kwargs)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return one_call(compiled.__get__(self), self.name, False, args, kwargs)

    aside = recorder.stand_ins
    with (
        aside.put(
            (base, "apply", classmethod(apply)),
            (scripted, "__call__", call),
            (type(torch.autograd.Variable), "__call__", variable),
            (torch.overrides, "has_torch_function", has_no_foreign_override),
        ),
        aside.watching_dynamo(),
        aside.on(),
    ):
        yield recorder


PLAINLY: Any = torch.Tensor.__torch_dispatch__
"""The ``__torch_dispatch__`` of a class without its own."""


def in_abstract_mode() -> bool:
    """Whether tensors have no values here: inside torch.func's transforms, in jit tracing, under fake tensors."""
    if torch._C._functorch.peek_interpreter_stack() is not None or torch._C._get_tracing_state() is not None:
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    keys = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(key) is not None for key in (keys.FAKE, keys.FUNCTIONAL, keys.PROXY))


def has_no_numbers(tensors: Iterable[Any]) -> bool:
    """Whether one of the tensors has no readable values, though no mode is active.

    A meta tensor has none; a class with its own ``__torch_dispatch__``, such as a fake tensor's, would notice the read.
    """
    return any(t.is_meta or type(t).__torch_dispatch__ is not PLAINLY for t in tensors)
