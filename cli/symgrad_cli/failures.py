"""The end of a command that cannot go on: a message on stderr and an exit status, and no traceback.

Comes in: a verb. Goes out: the verb, whose errors become messages, and the group of verbs, which ends well too where
what click itself says (help) cannot be written. Results on stdout stay whole or absent.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec

import click

from symgrad.errors import Frontend, SymgradError, UnsupportedError, for_frontend
from symgrad_cli.output import let_go

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


class Verbs(click.Group):
    """A group whose help may go to a full device."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Run a verb; what cannot be written is a message and status 2."""
        try:
            return super().main(*args, **kwargs)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF, errno.EPIPE):
                raise
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    let_go(stream)
            sys.exit(MISUSED)

    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Where the group's own help and version are written."""
        with left_unread():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Where the help of a verb is written."""
        with left_unread():
            return super().invoke(ctx)


@contextlib.contextmanager
def left_unread() -> Iterator[None]:
    """Status 0 where help meets a reader that has left; click's would be 1, which here says that an oracle disagreed.

    What the verbs print themselves keeps its own status (`symgrad_cli.output.emit`).
    """
    try:
        yield
    except BrokenPipeError:
        let_go(sys.stdout)
        raise click.exceptions.Exit(0) from None
