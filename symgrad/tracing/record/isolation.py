"""A program that is watched goes on as if nobody watched: the observer's failures, warnings and frames are its own.

Comes in: a piece of bookkeeping, and the frame that called torch. Goes out: what the bookkeeping returned, or None when
it failed (the first failure is kept, and said of the calls that can then not be explained), and a caller. Inside the
guard torch's overrides are off, and what the work may touch (warnings, random states, hooks on saved tensors, dispatch
modes) is afterwards as it was. torch's warnings name the innermost Python frame, or one some levels above it; so each
call is made from frames that bear the file, the line and the globals of the ones that would stand there. Tracebacks
lose those frames again.
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
"""Modules of which the type stubs leave something out."""
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


OURS = str(Path(__file__).resolve().parents[1])
MARK = "<symgrad>"
"""What the frames that stand in are called."""
WALKS = ("walk_tb", "_walk_tb_with_full_positions", "walk_stack")
"""Through which `traceback` reads whatever it prints."""
Caller = Callable[[Any, Any, Any], Any]
"""Calls a function with arguments and keywords."""
TORCH = "torch"
LEVELS = 6
"""How many levels above itself a Python function of torch may name in a warning."""
FIRST: list[CodeType] = []
"""What runs the program that is watched: below it nothing is the program's."""
REBUILT: dict[CodeType, FunctionType] = {}
"""Functions of torch's by their codes, each made once."""
HANDLING: CodeType = handle_torch_function.__code__
TEMPLATE: CodeType = (lambda function, arguments, keywords: function(*arguments, **keywords)).__code__


@lru_cache(maxsize=8192)
def place_code_at(file: str, line: int) -> CodeType:
    """A function's code that says it stands in this line."""
    return TEMPLATE.replace(co_filename=file, co_firstlineno=line, co_name=MARK, co_qualname=MARK)


def caller_for_frame(frame: FrameType) -> FunctionType:
    """A caller in the name of ``frame``."""
    return FunctionType(place_code_at(frame.f_code.co_filename, frame.f_lineno), frame.f_globals)


def caller(frame: FrameType | None) -> Caller:
    """Calls ``function(*arguments, **keywords)`` as ``frame`` would, which torch's handler may have called."""
    if frame is None or program_inspects_frames():
        return _call_directly
    if frame.f_code is not HANDLING:
        return caller_for_frame(frame)
    outside = frame.f_back.f_back if frame.f_back is not None else None  # past the function that asks for its handler
    return caller_with_frames(outside)


def caller_with_frames(frame: FrameType | None) -> Caller:
    """As `caller`, for functions that warn from further below: the frames around ``frame`` stand in as well."""
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
    """Whether the program follows its own frames: none that bear its file's name may be added to them."""
    profile = sys.getprofile()
    own = str(getattr(profile, "__module__", "")).startswith("symgrad.")  # what looks at a backward's return
    return sys.gettrace() is not None or (profile is not None and not own)


def override_check(function: Any, frame: FrameType) -> Any:
    """Torch's function that asks for its handler, where a user's has been put in its place and would run again.

    What it names there is what stands under its name by then.
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
    """The entries of a traceback that would be there if nobody had watched."""
    found: list[TracebackType] = []
    for entry in _chain(trace):
        code, below = entry.tb_frame.f_code, entry.tb_next
        if code is HANDLING and below is not None and below.tb_frame.f_code.co_filename.startswith(OURS):
            found[-1:] = []  # the function that asked for its handler: it stands again below
        elif not _is_observer_frame(code):
            found.append(entry)
    return found


def clean_traceback(error: BaseException | None, seen: frozenset[int] = frozenset()) -> None:
    """Take the observer's frames out of the traceback, and out of those of its causes."""
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
    """The frames that would stand around ``frame`` if nobody had watched: as far as the one that ``first`` called."""
    below: FrameType | None = None
    while frame is not None and frame.f_code is not first:
        code, watched = frame.f_code, below is not None and _is_observer_frame(below.f_code)
        if code is HANDLING and watched:
            frame = frame.f_back  # the function that asked for its handler: it stands again above
        elif not _is_observer_frame(code):
            yield frame
        below, frame = frame, frame.f_back if frame is not None else None


def _is_observer_frame(code: CodeType) -> bool:
    """Whether a frame is the observer's, or only bears the name of another."""
    return code.co_name == MARK or code.co_filename.startswith(OURS)


@contextmanager
def clean_printing(first: CodeType) -> Iterator[None]:
    """Tracebacks and stacks that the program prints itself are without the observer, too; it runs in ``first``."""
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
"""What stood where something is inherited."""


@contextmanager
def patch_attributes(*those: tuple[Any, str, Any]) -> Iterator[list[tuple[Any, str, Any, Any]]]:
    """``(owner, name, value)``: each value stands where it is named, and gives way to what stood there; with both."""
    mine = [(owner, name, vars(owner).get(name, NOTHING), value) for owner, name, value in those]
    for owner, name, _, value in mine:
        setattr(owner, name, value)
    try:
        yield mine
    finally:
        for one in mine:
            restore_attribute(*one[:3])


def restore_attribute(owner: Any, name: str, original: Any) -> None:
    """Put back what stood in a place; where that had none of its own, what it inherits is found again."""
    if original is NOTHING:
        delattr(owner, name)
    else:
        setattr(owner, name, original)


def _chain(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next
