"""Files that are written whole or not at all, and what is kept in such files for later runs.

Comes in: a path and text. Goes out: the file, put beside the place it goes to and moved there in one step, or an
`InputError` and nothing changed. What is no regular file (a device, a FIFO) is written through, and a symbolic link
stays one: what it points to is written. No folder is made that nobody asked for.

What was derived and proven once is kept in the user's folder for caches: under a text that says what it was derived
from, in values of JSON. A later process with the same files of symgrad and the same Python, torch, SymPy and NumPy
finds it there. Nothing is read or written outside `keeping`; a file that is damaged, or from anybody else, is as good
as none. Whoever asks judges what comes out before using it.
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
"""Names in there stand for something that is open already: never for a file to be put in their place."""


def write_whole(path: Path, text: str) -> Path:
    """Put ``text``, ending in one newline, into ``path``; raises `InputError` when it cannot be."""
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
    """A file that is written as its text grows; a failure to write ends the writing, and is raised by ``close``."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()  # whoever runs meanwhile may go to another folder
        self.stream: IO[str] | None = None
        self.failed: OSError | ValueError | None = None

    def add(self, text: str) -> None:
        """Write ``text`` now."""
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
        """No more text; raises `InputError` when something could not be written."""
        try:
            if self.stream is not None:
                self.stream.close()
        except OSError as error:
            self.failed = self.failed or error
        if self.failed is not None:
            raise why_not_writable(self.path, self.failed) from None


def check_place(path: Path) -> None:
    """Raise `InputError` where it is plain before any work that ``path`` cannot be written."""
    try:
        writable_file(path)
    except (OSError, ValueError) as error:
        raise why_not_writable(path, error) from None


def writable_file(path: Path) -> Path | None:
    """The regular file that ``path`` is or will be, links followed; None for what is written through.

    Raises `OSError` for a folder, for a file that may not be written, and where there is no folder to put it in.
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
    """Write beside ``place`` and move it there; who may read and write it stays as it was."""
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
    """Why ``path`` cannot be written."""
    said = error.strerror if isinstance(error, OSError) else None
    return InputError(f"cannot write {path}", found=(said or str(error),))


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
    folder = cache_folder() if wanted else None
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


def cache_folder() -> Path | None:
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
