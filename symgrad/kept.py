"""What was derived and proven once, kept for later runs: text in the user's folder for caches.

Comes in: what something was derived from, as text, and what came out, in values of JSON. Goes out: the same, in a
later process with the same files of symgrad and the same Python, torch, SymPy and NumPy. Nothing is read or written
outside `keeping`; a file that is damaged, or from anybody else, is as good as none. Whoever asks judges what comes out
before using it.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import Any

from symgrad.files import replace_whole

PLACE = "SYMGRAD_CACHE"
"""The environment variable that names another folder; with nothing in it, nothing is kept."""
ENDING = ".kept.json"
MOST, LARGEST, FILES = 4096, 16 * 2**20, 4
"""Entries of a file, the newest; bytes of one that is read; files of other versions that stay."""
VERSIONS = ("torch", "sympy", "numpy", "opt_einsum")


class Kept:
    """What earlier runs left in a folder, and what this one adds to it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, os.getpid()
        self.new: dict[str, Any] = {}

    @cached_property
    def file(self) -> Path:
        """The file of this version."""
        return self.folder / f"{digest(made_by())[:20]}{ENDING}"

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """What was left when this run first asked."""
        return self.read()

    def read(self) -> Mapping[str, Any]:
        """What the file holds; nothing where it cannot be read, or is not what was written."""
        try:
            with self.file.open("rb") as stream:
                raw = stream.read(LARGEST + 1)
            head, _, body = raw.decode("ascii").partition("\n")
            found = json.loads(body) if len(raw) <= LARGEST and head == digest(body.strip()) else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def save(self) -> None:
        """Write what is new beside what others have written meanwhile; not from a fork, and not where one may not."""
        if not self.new or os.getpid() != self.process:
            return
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            every = {**self.read(), **self.new}
            body = json.dumps(dict([*every.items()][-MOST:]))
            replace_whole(self.file, f"{digest(body)}\n{body}\n")
            files = sorted(self.folder.glob(f"*{ENDING}"), key=lambda file: file.stat().st_mtime)
            for old in files[:-FILES]:
                old.unlink()


_kept: ContextVar[Kept | None] = ContextVar("kept", default=None)


@contextmanager
def keeping(wanted: bool = True) -> Iterator[None]:
    """Inside, what was kept is known, and what is derived is kept."""
    folder = place() if wanted else None
    kept = None if folder is None else Kept(folder)
    before = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(before)
        if kept is not None:
            kept.save()


def in_use() -> bool:
    """Whether anything is kept here."""
    return _kept.get() is not None


def recall(key: str) -> Any:
    """What was kept under a key; None where nothing was, or nothing is kept."""
    kept = _kept.get()
    return None if kept is None else kept.known.get(digest(key))


def keep(key: str, value: Any) -> None:
    """Keep a value under a key, where anything is kept."""
    kept = _kept.get()
    if kept is not None:
        kept.new[digest(key)] = value


def digest(text: str) -> str:
    """A short name for a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def made_by() -> str:
    """What derives here: versions, and the files of symgrad as they are."""
    top = Path(__file__).parent
    files = [
        (found.path, found.stat().st_size, found.stat().st_mtime_ns)
        for folder, _, _ in os.walk(top)
        for found in os.scandir(folder)
        if found.name.endswith(".py")
    ]
    versions = [(name, getattr(sys.modules.get(name), "__version__", "")) for name in VERSIONS]
    return repr((sys.version, versions, sorted(files)))


def place() -> Path | None:
    """The folder for caches, as each system has it; None where there is to be none."""
    named = os.environ.get(PLACE)
    if named is not None:
        return Path(named).absolute() if named else None
    try:
        home = Path.home()
    except RuntimeError:
        return None
    usual = {"win32": home / "AppData" / "Local", "darwin": home / "Library" / "Caches"}
    given = Path(os.environ.get({"win32": "LOCALAPPDATA", "darwin": ""}.get(sys.platform, "XDG_CACHE_HOME"), ""))
    return (given if given.is_absolute() else usual.get(sys.platform, home / ".cache")) / "symgrad"
