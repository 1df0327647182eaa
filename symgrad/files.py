"""Writing a file whole or not at all: beside the place it goes to, then moved there in one step.

Comes in: a path and text. Goes out: the file, or an `InputError` and nothing changed. What is no regular file (a
device, a FIFO) is written through, and a symbolic link stays one: what it points to is written. No folder is made
that nobody asked for.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO

from symgrad.errors import InputError

SPECIAL = ("/dev", "/proc")
"""Names in there stand for something that is open already: never for a file to be put in their place."""


def write_whole(path: Path, text: str) -> Path:
    """Put ``text``, ending in one newline, into ``path``; raises `InputError` when it cannot be."""
    written = text.rstrip("\n") + "\n"
    try:
        place = writable(path)
        if place is None:
            with path.open("w", encoding="utf-8", errors="backslashreplace") as stream:
                stream.write(written)
        else:
            replace_whole(place, written)
    except (OSError, ValueError) as error:
        raise refusal(path, error) from None
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
            raise refusal(self.path, self.failed) from None


def check_place(path: Path) -> None:
    """Raise `InputError` where it is plain before any work that ``path`` cannot be written."""
    try:
        writable(path)
    except (OSError, ValueError) as error:
        raise refusal(path, error) from None


def writable(path: Path) -> Path | None:
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
    beside = place.parent / f".symgrad-{secrets.token_hex(6)}"
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


def refusal(path: Path, error: OSError | ValueError) -> InputError:
    """Why ``path`` cannot be written."""
    said = error.strerror if isinstance(error, OSError) else None
    return InputError(f"cannot write {path}", found=(said or str(error),))
