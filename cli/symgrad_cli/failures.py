"""From an exception to a message on stderr and an exit status; results on stdout stay whole or absent."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import ParamSpec

import click

from symgrad.errors import SymgradError, UnsupportedError

P = ParamSpec("P")
DISAGREED, MISUSED = 1, 2


def complain(text: str) -> None:
    """Say on stderr what is wrong, if there is one that takes it."""
    with contextlib.suppress(OSError, ValueError):
        click.echo(text, err=True)


def message(error: SymgradError) -> str:
    """What is wrong, and the page about errors of its kind."""
    return "\n".join((str(error), *getattr(error, "__notes__", ())))


def reporting(command: Callable[P, int | None]) -> Callable[P, None]:
    """Run a verb: a `SymgradError` becomes its message and status 2, a number returned becomes the status."""

    @functools.wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            status = command(*args, **kwargs)
        except SymgradError as error:
            if kwargs.get("traceback"):
                raise
            complain(message(error))
            sys.exit(MISUSED)
        except RecursionError:
            if kwargs.get("traceback"):
                raise
            complain(message(UnsupportedError("the expression is too deep to work with")))
            sys.exit(MISUSED)
        if status:
            sys.exit(status)

    return run
