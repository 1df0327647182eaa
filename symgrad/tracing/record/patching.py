"""What stands in torch's place while a program is watched, and when it steps aside.

Dynamo traces every Python function that it meets, a recorder's as well, and what it compiles holds for the modes that
were on. So a compiled function is called with torch as it is: no mode of ours on the stack, no function in the place
of torch's. What it runs is not seen. Nor is a step of torch's own optimizers: Adam calls some hundred functions of
torch for each, and no gradient flows through them. Comes in: the recorder, and what is to stand where. Goes out:
contexts; of each weight that an optimizer wrote, a note of the line.
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
"""What each context of Dynamo enters before it runs a compiled function; entered, each gives what ends it."""


class TorchPatches:
    """The attributes of torch that others stand for while ``mode`` is on."""

    def __init__(self, mode: Any) -> None:
        self.mode = mode
        self.standing: list[tuple[Any, str, Any, Any]] = []
        self.dynamo = ExitStack()
        """Ends what stands in Dynamo's place."""
        self.contexts: Any = None
        self.went = False
        self.home = get_ident()
        self.rested = False
        """Whether the mode was taken away for a while, in the thread in which it records."""
        self.stood_aside = False

    @property
    def here(self) -> bool:
        """Whether the program at hand is watched in this thread, be the mode on or resting."""
        return self.mode in active_modes() or (self.rested and get_ident() == self.home)

    @property
    def elsewhere(self) -> bool:
        """Whether another thread of the program's runs, and not one in which autograd runs a part of a backward."""
        own = get_ident()
        return own != self.home and any(thread.ident == own for thread in threading.enumerate())

    @contextmanager
    def on(self) -> Iterator[None]:
        """Put the mode on top of the stack, and take it away wherever it stands then."""
        _push_mode(self.mode)  # type: ignore[no-untyped-call]  # torch's gap
        try:
            yield
        finally:
            self.rested = False
            _set_modes([mode for mode in active_modes() if mode is not self.mode])

    @contextmanager
    def put(self, *those: tuple[Any, str, Any]) -> Iterator[None]:
        """``(owner, name, value)``: each value stands where it is named; afterwards torch's own is back."""
        with patch_attributes(*those) as mine:
            self.standing += mine
            try:
                yield
            finally:
                for one in mine:
                    self.standing.remove(one)

    def rest(self) -> bool:
        """Take the mode from the stack; whether it stood there, and once."""
        modes = active_modes()
        if sum(mode is self.mode for mode in modes) != 1:
            return False
        _set_modes([mode for mode in modes if mode is not self.mode])
        self.rested = True
        return True

    def resume(self) -> None:
        """Put the mode under those of the program, which leave by taking the top; a default device stays below it."""
        modes, self.rested = active_modes(), False
        place = int(bool(modes) and isinstance(modes[0], DeviceContext))
        _set_modes([*modes[:place], self.mode, *modes[place:]])

    @contextmanager
    def watching_dynamo(self) -> Iterator[None]:
        """Every call of a compiled function is made aside."""
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
        """Let Dynamo's contexts ask us to step aside, once it is there: to load it takes seconds."""
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
        """Take the mode from the stack and torch's own back into its places; what is returned ends that."""
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
    """Whether Dynamo was told to run functions as they stand: by its setting, or by torch.compiler.set_stance."""
    dynamo = sys.modules[DYNAMO]
    stance = getattr(getattr(dynamo, "_stance", None), "stance", "")
    return stance == "force_eager" or bool(getattr(getattr(dynamo, "config", None), "disable", False))


def _do_nothing() -> None:
    """The end of what was not begun."""


def active_modes() -> list[Any]:
    """The function modes that are on, the first entered first."""
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]  # torch's gap


def _set_modes(modes: list[Any]) -> None:
    """Make the stack of function modes what ``modes`` says."""
    for _ in active_modes():
        _pop_mode()  # type: ignore[no-untyped-call]  # torch's gap
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]  # torch's gap


STEP = "Optimizer.step"


class OptimizerSteps:
    """What happens around each step; ``before`` are the weights with their values, while one runs."""

    def __init__(self, recorder: Any) -> None:
        self.recorder = recorder
        self.before: list[tuple[Any, Node, int | None]] | None = None

    @contextmanager
    def unrecorded(self) -> Iterator[None]:
        """Let torch's optimizers step with the mode off."""
        hooks = [register_optimizer_step_pre_hook(self.begin), register_optimizer_step_post_hook(self.end)]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def begin(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A step begins; one that is given a closure runs the program's own lines, and is recorded."""
        self.resume()
        if self.recorder.stand_ins.rested:
            return
        own = str(type(optimizer).step.__module__).startswith("torch.")
        if own and len(args) == 1 and not keywords and self.recorder.stand_ins.rest():
            self.before = self.recorder.guard(self.weights, optimizer) or []

    def end(self, optimizer: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """A step is over."""
        before = self.before
        if self.resume() and before:
            self.recorder.guard(self.note, before)

    def resume(self) -> bool:
        """Record again, also where a step has raised; no in another thread, and where nothing was taken away."""
        if self.before is None or get_ident() != self.recorder.stand_ins.home:
            return False
        self.before = None
        self.recorder.stand_ins.resume()
        return True

    def weights(self, optimizer: Any) -> list[tuple[Any, Node, int | None]]:
        """The weights that will be written, those copied that a backward may still read."""
        recorder = self.recorder
        found = [t for group in optimizer.param_groups for t in group["params"] if t.grad is not None]
        found = [t for t in found if not has_no_numbers([t])]
        for tensor in found:
            recorder.storages.protect(tensor, False)
        return [(tensor, recorder.node_of(tensor), version(tensor)) for tensor in found]

    def note(self, before: list[tuple[Any, Node, int | None]]) -> None:
        """The line that asked for the step wrote the weights."""
        where = frames.user_line(self.recorder.calls)
        self.recorder.calls += 1
        call = TorchCall(None, STEP, (), {}, where, in_place=True)  # type: ignore[arg-type]  # nobody runs it again
        for tensor, node, count in before:
            if version(tensor) != count:
                self.recorder.overwritten(tensor, node, call, where)


def has_no_foreign_override(args: Iterable[Any]) -> bool:
    """``has_torch_function`` as attention asks it before it takes its fast path: a mode that only looks on is none."""
    return has_own_override(tuple({type(t) for t in args if isinstance(t, torch.Tensor)}))


_register_builtin(has_no_foreign_override, _find_builtin(torch.overrides.has_torch_function))  # type: ignore[no-untyped-call]  # torch.jit takes it for torch's


@contextmanager
def record_calls(recorder: Any) -> Iterator[Any]:
    """Record everything; the user's own ``autograd.Function`` classes and scripted functions as one call each."""
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
"""What a tensor answers with whose class has no ``__torch_dispatch__`` of its own."""


def in_abstract_mode() -> bool:
    """Whether tensors are no numbers here: inside torch.func's transforms, in jit tracing, under fake tensors."""
    if torch._C._functorch.peek_interpreter_stack() is not None or torch._C._get_tracing_state() is not None:
        return True
    if not torch._C._len_torch_dispatch_stack():
        return False
    keys = torch._C._TorchDispatchModeKey
    return any(torch._C._get_dispatch_mode(key) is not None for key in (keys.FAKE, keys.FUNCTIONAL, keys.PROXY))


def has_no_numbers(tensors: Iterable[Any]) -> bool:
    """Whether one of the tensors holds no numbers that may be asked for, though no mode says so.

    A meta tensor has none; a class with a ``__torch_dispatch__`` of its own, as a fake one's, would see whatever is
    asked of it.
    """
    return any(t.is_meta or type(t).__torch_dispatch__ is not PLAINLY for t in tensors)
