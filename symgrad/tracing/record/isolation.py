"""Isolation of the watched program from the recorder: its failures, warnings and frames do not reach the program.

Comes in: a piece of bookkeeping, and the frame that called torch. Goes out: the result of the bookkeeping, or None if
it failed (the first failure is kept and reported with the calls that cannot be explained), and a caller. Inside the
guard torch's overrides are off; warnings, random states, hooks on saved tensors and dispatch modes are restored.
torch's warnings name the innermost Python frame, or one some levels above it; so each call is made from frames with
the file, line and globals of the program's own frames. Tracebacks are cleaned of those frames.
"""

from __future__ import annotations

import random
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import lru_cache, partial
from inspect import unwrap
from itertools import islice
from pathlib import Path
from types import CodeType, FrameType, FunctionType, TracebackType
from typing import Any, ParamSpec, TypeVar

import numpy as np
import torch
from torch.overrides import handle_torch_function
from torch.utils._python_dispatch import _disable_current_modes

P = ParamSpec("P")
R = TypeVar("R")
WARNINGS: Any = warnings
AUTOGRAD: Any = torch._C._autograd
"""Modules with incomplete type stubs."""
SILENT = ("ignore", None, Warning, None, 0)
"""The warning filter that ignores everything."""


class Guard:
    """Runs bookkeeping without raising; ``problem`` is the first failure in words."""

    def __init__(self) -> None:
        self.problem = ""
        self.unseen = False

    def __call__(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R | None:
        """Return the result of ``work``, or None if it fails; the user's profiler does not see it."""
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
    """Format an exception as ``RuntimeError: …``, on one line."""
    first = (str(problem).splitlines() or [""])[0]
    return f"{type(problem).__name__}: {first}" if first else type(problem).__name__


@contextmanager
def suppress_warnings() -> Iterator[None]:
    """Suppress warnings inside, and keep the registries of warnings that were shown before."""
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
    """Restore random states, warnings, hooks and modes after long work that runs other code."""
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
    """Return the version of `warnings`' filters; a registry with another version forgets the shown warnings."""
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
    """Set the present version in the registries that had the version ``before``."""
    now = filters_version()
    if now == before:
        return
    for registry in warning_registries():
        if registry.get("version") == before:
            registry["version"] = now


def warning_registries() -> Iterator[dict[Any, Any]]:
    """Iterate over the modules' registries of shown warnings."""
    for module in list(sys.modules.values()):
        registry = getattr(module, "__dict__", {}).get("__warningregistry__")
        if isinstance(registry, dict):
            yield registry


# Weak references ------------------------------------------------------------------------------------------


OURS = str(Path(__file__).resolve().parents[1])
MARK = "<symgrad>"
"""The function name of imitated frames."""
WALKS = ("walk_tb", "_walk_tb_with_full_positions", "walk_stack")
"""The functions by which `traceback` reads frames."""
Caller = Callable[[Any, Any, Any], Any]
"""Calls a function with arguments and keywords."""
TORCH = "torch"
LEVELS = 6
"""The largest number of frames between a Python function of torch and the one that its warning names."""
FIRST: list[CodeType] = []
"""The code of the function that runs the watched program; frames above it are not the program's."""
REBUILT: dict[CodeType, FunctionType] = {}
"""Functions of torch rebuilt from their code objects."""
HANDLING: CodeType = handle_torch_function.__code__
TEMPLATE: CodeType = (lambda function, arguments, keywords: function(*arguments, **keywords)).__code__


@lru_cache(maxsize=8192)
def place_code_at(file: str, line: int) -> CodeType:
    """Return the code of a function that has this file and line."""
    return TEMPLATE.replace(co_filename=file, co_firstlineno=line, co_name=MARK, co_qualname=MARK)


def caller_for_frame(frame: FrameType) -> FunctionType:
    """Return a caller with the file, line and globals of ``frame``."""
    return FunctionType(place_code_at(frame.f_code.co_filename, frame.f_lineno), frame.f_globals)


def caller(frame: FrameType | None) -> Caller:
    """Return a caller of ``function(*arguments, **keywords)`` that imitates ``frame``, or its caller under torch."""
    if frame is None or program_inspects_frames():
        return _call_directly
    if frame.f_code is not HANDLING:
        return caller_for_frame(frame)
    outside = frame.f_back.f_back if frame.f_back is not None else None  # past the function that asks for its handler
    return caller_with_frames(outside)


def caller_with_frames(frame: FrameType | None) -> Caller:
    """Return a `caller` that imitates the frames around ``frame``, too, for functions that warn from deeper levels."""
    if program_inspects_frames():
        return _call_directly
    first = FIRST[-1] if FIRST else None
    levels = [caller_for_frame(around) for around in islice(visible_frames(frame, first), LEVELS)]

    def nested(function: Any, arguments: Any, keywords: Any) -> Any:
        for level in levels:
            function, arguments, keywords = partial(level, function, arguments, keywords), (), {}
        return function(*arguments, **keywords)

    return nested


def program_inspects_frames() -> bool:
    """Whether the program traces or profiles its own frames, to which none may be added."""
    profile = sys.getprofile()
    own = str(getattr(profile, "__module__", "")).startswith("symgrad.")  # what looks at a backward's return
    return sys.gettrace() is not None or (profile is not None and not own)


def override_check(function: Any, frame: FrameType) -> Any:
    """Return torch's own function if a user's wrapper has replaced it, which would otherwise run twice.

    A function that calls its override handler passes the global of its own name, which may be the wrapper.
    """
    inner = frame.f_back if frame.f_code is HANDLING else None
    if inner is None or not isinstance(function, FunctionType) or function.__code__ is inner.f_code:
        return function
    around = unwrap(function, stop=lambda one: getattr(one, "__code__", None) is inner.f_code)
    if isinstance(around, FunctionType) and around.__code__ is inner.f_code:
        return around  # with its defaults
    own = str(function.__globals__.get("__name__", "")).partition(".")[0] == TORCH
    if own or inner.f_code.co_freevars:
        return function
    return REBUILT.setdefault(inner.f_code, FunctionType(inner.f_code, inner.f_globals))


def _call_directly(function: Any, arguments: Any, keywords: Any) -> Any:
    return function(*arguments, **keywords)


# Tracebacks -----------------------------------------------------------------------------------------------


def strip_traceback(trace: TracebackType | None) -> list[TracebackType]:
    """Return the entries of a traceback without the recorder's."""
    found: list[TracebackType] = []
    for entry in _chain(trace):
        code, below = entry.tb_frame.f_code, entry.tb_next
        if code is HANDLING and below is not None and below.tb_frame.f_code.co_filename.startswith(OURS):
            found[-1:] = []  # the function that asked for its handler: it stands again below
        elif not _is_observer_frame(code):
            found.append(entry)
    return found


def clean_traceback(error: BaseException | None, seen: frozenset[int] = frozenset()) -> None:
    """Remove the recorder's frames from an error's traceback, and from those of its causes."""
    if error is None or id(error) in seen:
        return
    kept = strip_traceback(error.__traceback__)
    for this, following in zip(kept, [*kept[1:], None], strict=False):
        this.tb_next = following
    error.__traceback__ = kept[0] if kept else None
    seen |= {id(error)}
    clean_traceback(error.__cause__, seen)
    clean_traceback(error.__context__, seen)
    for part in getattr(error, "exceptions", ()):
        clean_traceback(part, seen)


def visible_frames(frame: FrameType | None, first: CodeType | None) -> Iterator[FrameType]:
    """Iterate over the program's frames around ``frame``, without the recorder's, up to the one called by ``first``."""
    below: FrameType | None = None
    while frame is not None and frame.f_code is not first:
        code, watched = frame.f_code, below is not None and _is_observer_frame(below.f_code)
        if code is HANDLING and watched:
            frame = frame.f_back  # the function that asked for its handler: it stands again above
        elif not _is_observer_frame(code):
            yield frame
        below, frame = frame, frame.f_back if frame is not None else None


def _is_observer_frame(code: CodeType) -> bool:
    """Whether a frame is the recorder's or an imitated one."""
    return code.co_name == MARK or code.co_filename.startswith(OURS)


@contextmanager
def clean_printing(first: CodeType) -> Iterator[None]:
    """Remove the recorder from tracebacks and stacks that the program prints; ``first`` is the code that runs it."""
    FIRST.append(first)

    def without(walk: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def walked(tb: TracebackType | None) -> Iterator[Any]:
            kept = {id(entry) for entry in strip_traceback(tb)}
            for entry, told in zip(_chain(tb), walk(tb), strict=False):
                if id(entry) in kept:
                    yield told

        return walked

    def walk_stack(f: FrameType | None) -> Iterator[tuple[FrameType, int]]:
        for frame in visible_frames(f if f is not None else sys._getframe(1), first):
            yield frame, frame.f_lineno

    walks = [(name, getattr(traceback, name)) for name in WALKS if hasattr(traceback, name)]
    try:
        with patch_attributes(
            *((traceback, name, walk_stack if name == "walk_stack" else without(walk)) for name, walk in walks)
        ):
            yield
    finally:
        FIRST.pop()


NOTHING = object()
"""The original of an inherited attribute."""


@contextmanager
def patch_attributes(*those: tuple[Any, str, Any]) -> Iterator[list[tuple[Any, str, Any, Any]]]:
    """Set each ``(owner, name, value)`` and restore the originals at the end; yield both."""
    mine = [(owner, name, vars(owner).get(name, NOTHING), value) for owner, name, value in those]
    for owner, name, _, value in mine:
        setattr(owner, name, value)
    try:
        yield mine
    finally:
        for one in mine:
            restore_attribute(*one[:3])


def restore_attribute(owner: Any, name: str, original: Any) -> None:
    """Restore an attribute; if it was inherited, delete it."""
    if original is NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, original)


def _chain(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
