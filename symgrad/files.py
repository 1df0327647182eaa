"""Writing a file whole or not at all: beside the place it goes to, then moved there in one step.

Comes in: a path and text. Goes out: the file, or an `InputError` and nothing changed.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from symgrad.errors import InputError


def write_whole(path: Path, text: str) -> Path:
    """Put ``text``, ending in one newline, into ``path``; folders are made; raises `InputError` when it cannot be."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text.rstrip("\n") + "\n")
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}", found=(error.strerror or str(error),)) from None
    return path
