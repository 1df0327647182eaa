"""The group of verbs: it leaves without a traceback where what click itself says (help) cannot be written."""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Iterator
from typing import Any

import click

from symgrad_cli.failures import MISUSED
from symgrad_cli.output import let_go


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
