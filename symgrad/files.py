"""Atomic writes of files, and a cache of derivations for later runs.

Comes in: a path and text. Goes out: the file, written to a temporary file beside it and moved in one step, or an
`InputError` and no change. A device or a FIFO is written directly; of a symbolic link the target is written. Missing
folders are not created.

Derivations that were proven are cached in the user's cache folder as JSON values, under a key that describes what they
were derived from. A later process with the same files of symgrad and the same Python, torch, SymPy and NumPy reads
them. Nothing is read or written outside `keeping`; a damaged or foreign file is ignored. Callers validate what they
read.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from symgrad.errors import InputError

SPECIAL = ("/dev", "/proc")
"""Folders whose names denote open files and devices: they are written directly, never replaced."""


def write_whole(path: Path, text: str) -> Path:
    """Write ``text``, ending in one newline, to ``path``; raise `InputError` if that fails."""
    written = text.rstrip("\n") + "\n"
    try:
        place = writable_file(path)
        if place is None:
            with path.open("w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(written)
        else:
            replace_whole(place, written)
    except (OSError, ValueError) as error:
        raise why_not_writable(path, error) from None
    return path


class Growing:
    """A file that is written piece by piece; a failed write stops the writing, and ``close`` raises it."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # whoever runs meanwhile may go to another folder
        self.stream: IO[str] | None = None
        self.failed: OSError | ValueError | None = None

    def add(self, text: str) -> None:
        """Write ``text`` and flush."""
        if self.failed is not None:
            return
        try:
            if self.stream is None:
                self.stream = self.path.open("w", encoding="utf-8", errors="backslashreplace")
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError) as error:
            self.failed = error

    def close(self) -> None:
        """Close the file; raise `InputError` if a write failed."""
        try:
            if self.stream is not None:
                self.stream.close()
        except OSError as error:
            self.failed = self.failed or error
        if self.failed is not None:
            raise why_not_writable(self.path, self.failed) from None


def check_place(path: Path) -> None:
    """Raise `InputError` if ``path`` cannot be written, before any work is done."""
    try:
        writable_file(path)
    except (OSError, ValueError) as error:
        raise why_not_writable(path, error) from None


def writable_file(path: Path) -> Path | None:
    """Return the regular file at ``path``, links followed; None for a device or FIFO, which is written directly.

    Raise `OSError` for a folder, for a file without write permission, and if the parent folder does not exist.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    through = path.absolute().as_posix().startswith(tuple(f"{folder}/" for folder in SPECIAL))
    place = path.resolve()
    if found is None:
        if not place.parent.is_dir():
            raise FileNotFoundError(0, f"there is no folder {place.parent}")
        return place
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(0, "it is a folder")
    if not os.access(path, os.W_OK):
        raise PermissionError(0, "it may not be written")
    return place if stat.S_ISREG(found.st_mode) and not through else None


def replace_whole(place: Path, text: str) -> None:
    """Write a temporary file beside ``place`` and move it there; permissions and owner are kept."""
    beside = place.parent / f".symgrad-{os.urandom(6).hex()}"
    try:
        with beside.open("x", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
        with suppress(FileNotFoundError):
            before = place.stat()
            beside.chmod(stat.S_IMODE(before.st_mode))
            with suppress(OSError):
                os.chown(beside, before.st_uid, before.st_gid)
        beside.replace(place)
    finally:
        beside.unlink(missing_ok=True)


def why_not_writable(path: Path, error: OSError | ValueError) -> InputError:
    """Return the error that says why ``path`` cannot be written."""
    reason = error.strerror if isinstance(error, OSError) else None
    return InputError(f"cannot write {path}", found=(reason or str(error),))


PLACE = "SYMGRAD_CACHE"
"""The environment variable for another cache folder; if it is empty, nothing is cached."""
ENDING = ".kept.json"
MOST, LARGEST, FILES = 4096, 16 * 2**20, 4
"""The most entries of a file, the most bytes read, and the number of files kept for other versions."""
VERSIONS = ("torch", "sympy", "numpy", "opt_einsum")


class Kept:
    """The cache in a folder: entries of earlier runs, and new ones of this run."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.process = folder, os.getpid()
        self.new: dict[str, Any] = {}

    @cached_property
    def file(self) -> Path:
        """The cache file of this version."""
        return self.folder / f"{digest(made_by())[:20]}{ENDING}"

    @cached_property
    def known(self) -> Mapping[str, Any]:
        """The entries of earlier runs, read at the first lookup."""
        return self.read()

    def read(self) -> Mapping[str, Any]:
        """Return the entries of the file; empty if it cannot be read or its digest does not match."""
        try:
            with self.file.open("rb") as stream:
                raw = stream.read(LARGEST + 1)
            head, _, body = raw.decode("ascii").partition("\n")
            found = json.loads(body) if len(raw) <= LARGEST and head == digest(body.strip()) else {}
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def save(self) -> None:
        """Merge new entries into the file; do nothing in a forked process or without permission."""
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
    """Use the cache inside the block, if ``wanted``, and save new entries at its end."""
    folder = cache_folder() if wanted else None
    kept = None if folder is None else Kept(folder)
    before = _kept.set(kept)
    try:
        yield
    finally:
        _kept.reset(before)
        if kept is not None:
            kept.save()


def is_cache_in_use() -> bool:
    """Whether the cache is in use."""
    return _kept.get() is not None


def recall(key: str) -> Any:
    """Return the cached value of a key; None if there is none, or the cache is not in use."""
    kept = _kept.get()
    return None if kept is None else kept.known.get(digest(key))


def keep(key: str, value: Any) -> None:
    """Store a value under a key if the cache is in use."""
    kept = _kept.get()
    if kept is not None:
        kept.new[digest(key)] = value


def digest(text: str) -> str:
    """Return a short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def made_by() -> str:
    """Return a text that identifies the versions of packages and the files of symgrad."""
    top = Path(__file__).parent
    files = [
        (found.path, found.stat().st_size, found.stat().st_mtime_ns)
        for folder, _, _ in os.walk(top)
        for found in os.scandir(folder)
        if found.name.endswith(".py")
    ]
    versions = [(name, getattr(sys.modules.get(name), "__version__", "")) for name in VERSIONS]
    return repr((sys.version, versions, sorted(files)))


def cache_folder() -> Path | None:
    """Return the user's cache folder for symgrad on this system; None if caching is off."""
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
