"""``symgrad errors [KIND]``: what a kind of error means, with messages of this kind as they are printed."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator

import click

from symgrad.errors import SymgradError, UnknownNameError
from symgrad_cli import options, output
from symgrad_cli.failures import reporting

BLOCK = re.compile(r"```\{symgrad\}.*?^```\n*", re.MULTILINE | re.DOTALL)
"""What the site shows there, the command above it prints here."""
LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")
KINDS = sorted(kind.kind for kind in SymgradError.__subclasses__())
COMMAND = re.compile(r"`(symgrad [^`]*)`")


@click.command()
@click.argument("kind", required=False)
@options.traceback_option
@reporting
def errors(kind: str | None, traceback: bool) -> None:
    """Explain an error of symgrad's or a message from PyTorch.

    KIND is the word in brackets of symgrad's message, such as shape in error[shape], or the text of a PyTorch error
    about backward. Without it all kinds are listed.
    """
    from symgrad.documents import kinds

    pages = kinds()
    if kind is not None and kind not in pages:
        output.emit(output.fitting(answered(kind)))
        return
    if kind is not None:
        output.emit(output.broken("\n".join(told(pages[kind]))))
        return
    width = max(map(len, pages))
    for name, page in pages.items():
        output.emit(output.fitting(f"{name:{width}}  {page.splitlines()[2]}"))


def answered(message: str) -> str:
    """What would do about a message of torch's; refused for any other word."""
    from symgrad.tracing.session.torch_messages import find_refusal

    refusal = find_refusal(RuntimeError(message))
    if refusal is None:
        raise UnknownNameError(
            f"symgrad does not know this message: {message!r}",
            found=(f"kinds: {', '.join(KINDS)}",),
            hints=("symgrad errors",),
        )
    return f"{refusal.answer}\n  symgrad run SCRIPT names the lines and tensors of your script"


def told(page: str) -> Iterator[str]:
    """The lines of a page; below each command what it prints."""
    text = LINK.sub("", BLOCK.sub("", page.removeprefix("# "))).rstrip()
    for line in text.splitlines():
        command = COMMAND.fullmatch(line)
        if command is None:
            yield line
            continue
        yield f"  $ {command[1]}"
        yield from (f"  {said}" for said in printed(command[1]).splitlines())


def printed(command: str) -> str:
    """What a command of ours says on stderr."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        click.get_current_context().find_root().command.main(shlex.split(command)[1:], prog_name="symgrad")
    return said.getvalue()
