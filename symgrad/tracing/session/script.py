"""Run a script as ``python script.py`` does, or a cell as a notebook does, while watching it.

Comes in: a path and arguments. Goes out: a `Session` with the exit status that Python would have returned. Output,
exceptions and exit are the script's own: a traceback shows its frames and none of symgrad's.
"""

from __future__ import annotations

import builtins
import linecache
import os
import sys
import traceback
import types
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from symgrad.errors import InputError
from symgrad.tracing.record.frames import mark_recording_start
from symgrad.tracing.record.isolation import clean_printing, clean_traceback
from symgrad.tracing.session.watch import WatchedRun
from symgrad.tracing.story.events import Session

LONGEST = 64 * 2**20
"""The most bytes of a script: some devices never end."""


def run_file(path: str, arguments: Sequence[str], **options: Any) -> Session:
    """Run ``path`` with ``arguments`` and return the session; the options are those of `History`."""
    file = Path(path)
    if not str(path):
        raise InputError("a script without a name", hints=("symgrad run script.py",))
    if file.is_dir():
        file = file / "__main__.py"
        if not file.exists():
            raise InputError(f"{path} is a folder without a __main__.py", hints=("symgrad run script.py",))
    try:
        with file.open("rb") as opened:
            source = opened.read(LONGEST + 1)
    except OSError as error:
        raise InputError(f"cannot open the script {path}", found=(error.strerror or str(error),)) from None
    if len(source) > LONGEST:
        raise InputError(f"{path} is not a script: it has more than {LONGEST:,} bytes")
    name = os.path.abspath(path)  # noqa: PTH100 -- as python names the script: absolute, links kept
    watch = WatchedRun(path, **options)
    watch.session.source, watch.session.file = source.decode("utf-8", "replace"), name
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=name, __builtins__=builtins, __cached__=None, __loader__=None, __spec__=None)
    saved = (sys.argv, sys.path[:], sys.modules.get("__main__"))
    sys.argv = [path, *arguments]
    sys.path[0:1] = [str(file.resolve().parent)]
    sys.modules["__main__"] = module
    try:
        watch.session.status = execute_file(watch, source, name, module)
    finally:
        sys.argv, sys.path[:] = saved[0], saved[1]
        if saved[2] is not None:
            sys.modules["__main__"] = saved[2]
        _flush()
    return watch.session


def run_cell(text: str, name: str, names: dict[str, Any], **options: Any) -> Session:
    """Run the ``text`` of a cell called ``name`` in the namespace ``names``; its exceptions are raised."""
    watch = WatchedRun(name, **options)
    watch.session.source, watch.session.file = text, name
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    try:
        execute_watched(watch, text, name, names)
    except BaseException as error:
        clean_traceback(error)
        raise
    return watch.session


INTERRUPTED = 130
"""The exit status of an interrupted program (Ctrl-C)."""


@mark_recording_start
def execute_watched(watch: WatchedRun, source: bytes | str, name: str, names: dict[str, Any]) -> None:
    """Compile and run the user's code, watched."""
    code = compile(source, name, "exec", dont_inherit=True)
    with watch.watching(), clean_printing(execute_watched.__code__):
        exec(code, names)  # noqa: S102 -- the user's own script, as python runs it


def execute_file(watch: WatchedRun, source: bytes, path: str, module: types.ModuleType) -> int:
    """Run a script and return its exit status."""
    linecache.checkcache(path)
    module.__dict__.setdefault("__annotations__", {})  # as python's own __main__ has it
    try:
        execute_watched(watch, source, path, module.__dict__)
    except SystemExit as leaving:
        return exit_status_of(leaving)
    except BaseException as error:
        show_exception(error)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def exit_status_of(leaving: SystemExit) -> int:
    """Return the exit status of ``sys.exit(…)``: None is 0, a number is itself, anything else is printed and is 1."""
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    sys.stderr.write(f"{leaving.code}\n")
    return 1


def show_exception(error: BaseException) -> None:
    """Print the exception as Python does, through the script's own hook if it has one."""
    _flush()
    clean_traceback(error)
    if sys.excepthook is not sys.__excepthook__:
        sys.excepthook(type(error), error, error.__traceback__)
    else:
        traceback.print_exception(error)


def _flush() -> None:
    """Flush the script's output streams, if they still exist."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
