"""The group of verbs: it leaves without a traceback where what click itself says (help) cannot be written."""

from __future__ import annotations

import errno
import sys
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
            if error.errno not in (errno.ENOSPC, errno.EIO, errno.EBADF):
                raise
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    let_go(stream)
            sys.exit(MISUSED)
