"""Where results go: the terminal, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click

from symgrad import InputError

WIDEST = 120


def wants_color(color: bool | None) -> bool:
    """As ``--color/--no-color`` says; without it, whether stdout is a terminal that shows colours."""
    if color is not None:
        return color
    return click.get_text_stream("stdout").isatty() and "NO_COLOR" not in os.environ


def width() -> int:
    """The width of the terminal, within reason."""
    return min(WIDEST, max(60, shutil.get_terminal_size((100, 24)).columns))


def deliver(text: str, output: Path | None) -> None:
    """Print ``text``, or put it into ``output``; raises `InputError` when the file cannot be written."""
    if output is None:
        click.echo(text.rstrip("\n"), color=True)
    else:
        write_whole(output, text.rstrip("\n") + "\n")


def write_whole(path: Path, text: str) -> None:
    """Write beside the file and move into place, so that an interrupted run leaves no half file."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(text)
            Path(name).chmod(0o644)
            Path(name).replace(path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise InputError(f"cannot write {path}", found=(error.strerror or str(error),)) from None
