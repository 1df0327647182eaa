"""From an exception to a message on stderr and an exit status; results on stdout stay whole or absent."""

from __future__ import annotations

import contextlib
import functools
import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from typing import ParamSpec

import click

from symgrad.errors import Frontend, SymgradError, UnsupportedError, for_frontend

P = ParamSpec("P")
DISAGREED, MISUSED = 1, 2


def complain(text: str) -> None:
    """Say on stderr what is wrong, if there is one that takes it; a terminal gets lines that fit it."""
    with contextlib.suppress(OSError, ValueError):
        if sys.stderr is not None and sys.stderr.isatty():
            text = fitted(text, shutil.get_terminal_size((80, 24)).columns)
        click.echo(text, err=True)


def fitted(text: str, width: int) -> str:
    """A message in lines of ``width``: its sentences are wrapped; what is copied, code and commands, stays whole.

    >>> print(fitted("    found: x is 2×3, w is 4×5", 24))
        found: x is 2×3, w
               is 4×5
    """
    lines = []
    for line in text.splitlines():
        head = re.match(r"error\[\w+\]: |    found: ", line)
        if head is None or len(line) <= width:
            lines.append(line)
        else:
            under = " " * (len(head[0]) if line.startswith(" ") else 4)
            lines += textwrap.wrap(line, width, subsequent_indent=under, break_long_words=False, break_on_hyphens=False)
    return "\n".join(lines)


def reporting(command: Callable[P, int | None]) -> Callable[P, None]:
    """Run a verb: a `SymgradError` becomes its message and status 2, a number returned becomes the status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with for_frontend(Frontend.COMMAND):
            try:
                status = command(*args, **kwargs)
            except SymgradError as error:
                if kwargs.get("traceback"):
                    raise
                complain(error.message())
                sys.exit(MISUSED)
            except RecursionError:
                if kwargs.get("traceback"):
                    raise
                complain(UnsupportedError("the expression is too deep to work with").message())
                sys.exit(MISUSED)
        if status:
            sys.exit(status)

    return run
