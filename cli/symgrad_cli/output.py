"""Where results go: the terminal, or a file that is written whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from symgrad.files import write_whole

WIDEST = 120


def wants_color(color: bool | None) -> bool:
    """As ``--color/--no-color`` says; without it, whether stdout is a terminal that shows colours."""
    if color is not None:
        return color
    return sys.stdout.isatty() and "NO_COLOR" not in os.environ


def width() -> int:
    """The width of the terminal, within reason."""
    return min(WIDEST, max(60, shutil.get_terminal_size((100, 24)).columns))


def deliver(text: str, output: Path | None) -> None:
    """Print ``text``, or put it into ``output``; raises `InputError` when the file cannot be written."""
    if output is None:
        click.echo(text.rstrip("\n"), color=True)
    else:
        write_whole(output, text)
