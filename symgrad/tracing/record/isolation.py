"""The one guard around the observer's own work: whatever fails in it, the program that is watched goes on.

Comes in: a piece of bookkeeping. Goes out: what it returned, or None when it failed; the first failure is kept, and
said of the calls that can then not be explained. Inside, torch's overrides are off, the warnings of the work are its
own business, and what the work may touch on its way (random states, hooks on saved tensors, dispatch modes) is as it
was when it ends. The observer's own weak references can be told from the user's: `torch.utils.swap_tensors` refuses
tensors that anybody else refers to weakly.
"""

from __future__ import annotations

import random
import sys
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torch.utils.weak import WeakIdRef

P = ParamSpec("P")
R = TypeVar("R")
WARNINGS: Any = warnings
AUTOGRAD: Any = torch._C._autograd
"""Modules of which the type stubs leave something out."""
PLAINLY: Any = torch.Tensor.__torch_dispatch__
"""What a tensor answers with whose class has no ``__torch_dispatch__`` of its own."""
SILENT = ("ignore", None, Warning, None, 0)
"""The warning filter that lets nothing through."""


class Guard:
    """Runs bookkeeping; ``problem`` is the first failure in words."""

    def __init__(self) -> None:
        self.problem = ""
        self.unseen = False

    def __call__(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """What ``work`` returns, or None when it fails; a profiler of the user's does not see it."""
        hiding = AUTOGRAD._profiler_enabled() and not self.unseen
        try:
            if hiding:
                self.unseen = True
                AUTOGRAD._enable_record_function(False)
            with torch._C.DisableTorchFunction():
                if torch._C._len_torch_dispatch_stack():
                    with _disable_current_modes():
                        return work(*args, **kwargs)
                return work(*args, **kwargs)
        except Exception as problem:
            self.problem = self.problem or exception_line(problem)
            return None
        finally:
            if hiding:
                self.unseen = False
                AUTOGRAD._enable_record_function(True)


def exception_line(problem: BaseException) -> str:
    """``RuntimeError: …``, on one line."""
    first = (str(problem).splitlines() or [""])[0]
    return f"{type(problem).__name__}: {first}" if first else type(problem).__name__


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


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Warnings inside are nobody's; which warnings were shown before is known afterwards, too."""
    version = filters_version()
    WARNINGS.filters.insert(0, SILENT)  # `warnings` is not told: see `filters_version`
    try:
        yield
    finally:
        if SILENT in WARNINGS.filters:
            WARNINGS.filters.remove(SILENT)
        keep_registries(version)


@contextmanager
def preserve_global_state() -> Iterator[None]:
    """Long work that runs foreign code: random states, warnings, hooks and modes are afterwards what they were."""
    states = torch.get_rng_state(), random.getstate(), np.random.get_state()
    version, always = filters_version(), torch.is_warn_always_enabled()
    shown = [(registry, dict(registry)) for registry in warning_registries() if registry.get("version") == version]
    try:
        torch.set_warn_always(True)  # or what torch says once in a process would be said here, to nobody
        with suppress_warnings(), np.errstate(all="ignore"), ExitStack() as stack:
            if torch._C._len_torch_dispatch_stack():  # to ask for it loads some 300 modules of torch's
                stack.enter_context(_disable_current_modes())
            if AUTOGRAD._saved_tensors_hooks_is_enabled():
                stack.enter_context(torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t))
            stack.enter_context(torch.autograd.set_detect_anomaly(False, check_nan=False))
            stack.enter_context(torch.autocast("cpu", enabled=False))
            yield
    finally:
        torch.set_warn_always(always)
        now = filters_version()
        for registry, was in shown:  # a warning in here cleared those that had another stamp by then
            registry.update(was, version=now)
        torch.set_rng_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])


def filters_version() -> int:
    """What `warnings` stamps its registries with; a registry with another stamp forgets which warnings were shown."""
    probe: dict[Any, Any] = {}
    saved = WARNINGS.filters[:]
    WARNINGS.filters[:] = [("default", None, Warning, None, 0)]
    shown = warnings.showwarning
    try:
        warnings.showwarning = lambda *_, **__: None
        warnings.warn_explicit("probe", UserWarning, "probe", 0, registry=probe)
    finally:
        warnings.showwarning = shown
        WARNINGS.filters[:] = saved
    return int(probe.get("version", 0))


def keep_registries(before: int) -> None:
    """Give the registries of all modules the present stamp if they had the one from ``before``."""
    now = filters_version()
    if now == before:
        return
    for registry in warning_registries():
        if registry.get("version") == before:
            registry["version"] = now


def warning_registries() -> Iterator[dict[Any, Any]]:
    """Where the modules keep which of their warnings were shown."""
    for module in list(sys.modules.values()):
        registry = getattr(module, "__dict__", {}).get("__warningregistry__")
        if isinstance(registry, dict):
            yield registry


# Weak references ------------------------------------------------------------------------------------------

SWAP: Any = torch._C._swap_tensor_impl
"""Torch's own, whatever stands in its place."""


class WeakTensor(weakref.ref):  # type: ignore[type-arg]  # ref[Any] is no class to derive from
    """A reference to a tensor that nobody else has; whatever has ``ours`` is one of the observer's."""

    __slots__ = ()
    ours = True


class TensorKey(WeakIdRef):
    """A tensor by identity, as a key."""

    __slots__ = ()
    ours = True


class WeakrefWithoutObserver:
    """The module ``weakref`` without what the observer refers to."""

    def __getattr__(self, name: str) -> Any:
        return getattr(weakref, name)

    @staticmethod
    def getweakrefs(tensor: Any) -> list[Any]:
        """Those of others."""
        return [ref for ref in weakref.getweakrefs(tensor) if not getattr(ref, "ours", False)]
