"""The verbs that tell what there is: ``ops``, the table; ``errors``, the kinds of errors; ``docs``, pages of all of it.

``help`` says how a verb is called.

Comes in: a name of an operation or of a kind, or a folder. Goes out: what is known of it, derived and printed on the
spot: messages of a kind as they are printed, pages in Markdown or HTML.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click

from symgrad.errors import InputError, SymgradError, UnknownNameError
from symgrad_cli import options, output
from symgrad_cli.failures import reporting

if TYPE_CHECKING:
    from symgrad.ops import Op

BLOCK = re.compile(r"```\{symgrad\}.*?^```\n*", re.MULTILINE | re.DOTALL)
"""What the site shows there, the command above it prints here."""
LINK = re.compile(r" \(\[[^]]*\]\([^)]*\)\)")
KINDS = sorted(kind.kind for kind in SymgradError.__subclasses__())
COMMAND = re.compile(r"`(symgrad [^`]*)`")


@click.command()
@click.argument("name", required=False)
@click.option("--kinks", is_flag=True, help="The points where a derivative is a choice, and torch's choice there.")
@click.option("--at", type=float, metavar="X", help="With NAME: the derivative left of X, at X and right of X.")
@options.traceback_option
@reporting
def ops(name: str | None, kinks: bool, at: float | None, traceback: bool) -> None:
    """List the operations, or show the formulas of one.

    The Jacobian and the pullback of NAME are derived from its equation on the spot.
    """
    from symgrad_cli.listing import print_operations

    print_operations(name, kinks, at)


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
        output.emit(output.fitting(answer_message(kind)))
        return
    if kind is not None:
        output.emit(output.broken("\n".join(page_lines(pages[kind]))))
        return
    width = max(map(len, pages))
    for name, page in pages.items():
        output.emit(output.fitting(f"{name:{width}}  {page.splitlines()[2]}"))


def answer_message(message: str) -> str:
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


def page_lines(page: str) -> Iterator[str]:
    """The lines of a page; below each command what it prints."""
    text = LINK.sub("", BLOCK.sub("", page.removeprefix("# "))).rstrip()
    for line in text.splitlines():
        command = COMMAND.fullmatch(line)
        if command is None:
            yield line
            continue
        yield f"  $ {command[1]}"
        yield from (f"  {said}" for said in stderr_of(command[1]).splitlines())


def stderr_of(command: str) -> str:
    """What a command of ours says on stderr."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.suppress(SystemExit):
        click.get_current_context().find_root().command.main(shlex.split(command)[1:], prog_name="symgrad")
    return said.getvalue()


@click.command()
@click.argument("folder", metavar="OUT_DIR", type=click.Path(file_okay=False))
@click.option("--ops", "names", metavar="NAMES", help="Only these operations, separated by commas.")
@click.option("--check/--no-check", default=True, help="Verify every example.  [default: check]")
@click.option(
    "--format", "style", type=click.Choice(("md", "html")), default="md", show_default=True,
    help="Markdown for a site of your own, or a site in HTML with index and search.",
)  # fmt: skip
@options.traceback_option
@reporting
def docs(folder: str, names: str | None, check: bool, style: str, traceback: bool) -> None:
    """Write a page for each operation, and an index.

    The pages go into OUT_DIR. Each file is written completely or not at all; a run that is killed may leave a hidden
    folder .symgrad-…, which you can delete.
    """
    from symgrad.documents import check_folder, select_operations, write_site

    wanted = [name.strip() for name in (names or "").split(",") if name.strip()]
    if not folder:
        raise click.BadParameter("the name of the folder is empty", param_hint="OUT_DIR")
    if names is not None and not wanted:
        raise click.BadParameter("no operation is named", param_hint="--ops")
    if style == "html":
        ops = select_operations(wanted)
        if not check:
            raise InputError("--no-check goes with --format md only: a site in HTML contains only checked pages")
        check_folder(Path(folder))
        with output.patience("building pages"):
            count = site_builder()(Path(folder), ops)
    else:
        with output.patience("writing pages"):
            count = sum(1 for _ in write_site(Path(folder), wanted, check))
    output.emit(f"{count} pages in {folder}")


def site_builder() -> Callable[[Path, Sequence[Op]], int]:
    """What builds HTML; raises `InputError` where the packages for it are not installed."""
    missing = next((name for name in ("sphinx", "myst_parser", "latex2mathml") if find_spec(name) is None), None)
    if missing is not None:
        raise InputError(
            "pages in HTML need packages that are not installed", found=(f"no {missing}",),
            hints=('pip install "symgrad[docs]"', "--format md needs none"),
        )  # fmt: skip
    from symgrad.sphinx.operations import build_site

    return build_site


@click.command("help")
@click.argument("verb", required=False)
@click.pass_context
def help_of(context: click.Context, verb: str | None) -> None:
    """Show the help of a command, as symgrad COMMAND --help does."""
    group = context.find_root().command
    group.main([*([] if verb is None else [verb]), "--help"], prog_name=context.find_root().info_name)
