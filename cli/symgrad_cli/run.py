"""``symgrad run SCRIPT``: run a PyTorch script and explain each ``backward()`` in it."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from symgrad.errors import InputError
from symgrad.files import Growing
from symgrad_cli import options, output
from symgrad_cli.failures import DISAGREED, reporting
from symgrad_cli.loading import load, loading

if TYPE_CHECKING:
    from symgrad.tracing.story.events import Session

EPILOG = """
\b
Examples:
  symgrad run train.py --epochs 2
  symgrad run --only conv1.weight --call 3 train.py
  symgrad run --every 100 train.py
  symgrad run --call 1 --order 2 --only weight train.py
  symgrad run --call 1 --expand train.py
  symgrad run --code 1 train.py
  symgrad run -o story.html train.py
  symgrad run --open train.py
"""
PAGES = ("html", "svg")
FORMATS = ("text", "markdown", "latex", "json", "html", "svg")


@click.command(epilog=EPILOG, context_settings={"allow_interspersed_args": False})
@click.argument("script")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--only", multiple=True, metavar="NAME", help="Only this parameter, with its formulas. Repeatable.")
@click.option("--call", type=click.IntRange(min=1), metavar="N", help="Only the N-th call of backward or grad.")
@click.option("--every", type=click.IntRange(min=1), metavar="N",
              help="Only every N-th call: N, 2N, 3N, …; with --call that one as well.")  # fmt: skip
@options.expand_option
@options.order_option("2, with --call N: also the second derivatives of that call.")
@click.option(
    "--code",
    type=click.IntRange(min=1),
    metavar="N",
    help="Only the N-th call, as Python that runs; use -o to separate it from the script's output.",
)
@options.output_options_of(*FORMATS, what="Write the explanation to FILE; the script's output is unchanged.")
@options.open_option
@options.cache_option
@options.traceback_option
@reporting
def run(
    script: str, arguments: tuple[str, ...], only: tuple[str, ...], call: int | None, every: int | None, expand: bool,
    order: int, code: int | None, style: str, path: Path | None, opened: bool, traceback: bool,
) -> int:  # fmt: skip
    """Run SCRIPT as python would, and explain each backward.

    ARGUMENTS after SCRIPT are the script's own. Its output, its exit status and its exceptions stay what they
    are; an explanation follows each call. A page (html) has the source beside the story; it goes to a file, as does a
    picture (svg) of one call.
    """
    if order == 2 and (call is None or code is not None):
        raise InputError("--order 2 needs one call: --call N", hints=("--call N --order 2",))
    with loading():
        from symgrad.tracing import need_torch, run_script

        need_torch()
        from symgrad.render.wrapping import wrap_lines
        from symgrad.tracing.story.event_content import closing_text, legend_text
        from symgrad.tracing.story.session_pages import WIDTH, closing_markdown, event_markdown, event_text

        load("symgrad.tracing.session.script")
    style, path = place(style, path, opened, code)
    file = None if path is None else Growing(path)
    stdout = sys.stdout  # the script may put another in its place: what it catches is its own
    width = output.width() if file is None and sys.stdout is not None and sys.stdout.isatty() else WIDTH

    def tell(event: Any) -> None:
        if code is not None:
            return
        if style == "text":
            told = event_text(event, width)
            say(told, stdout) if file is None else file.add(told + "\n")
        elif style == "markdown" and file is not None:
            file.add(event_markdown(event) + "\n")

    began = os.getpid()
    session = run_script(script, list(arguments), tell=tell, only=only, call=call if code is None else code,
                         every=every if code is None else None, patience=output.patience, pictures=style in PAGES,
                         order=order, expand=expand)  # fmt: skip
    if os.getpid() != began:
        return session.status  # a forked child: the story is its parent's
    if code is not None:
        as_python = code_of(session, code)
        say(as_python, stdout) if file is None else file.add(as_python)
    elif style == "text":
        end = wrap_lines(closing_text(session) + legend_text(session), width)
        say(end, stdout) if file is None else file.add(end)
    elif style == "markdown" and file is not None:
        file.add(closing_markdown(session))
    else:
        output.deliver(whole(session, style), path, style, opened)
    if file is not None:
        file.close()
    return session.status or (0 if session.agrees else DISAGREED)


def place(style: str, path: Path | None, opened: bool, code: int | None) -> tuple[str, Path | None]:
    """The format and where it goes; raises `InputError` before the script runs where it could not be written."""
    style, path = output.page_place(style, path, opened)
    if style in PAGES and code is not None:
        raise InputError(f"--code N is Python, --format {style} is not", hints=("--call N",))
    if style in PAGES and path is None:
        raise InputError(
            f"--format {style} needs -o FILE: standard output belongs to the script", hints=("-o FILE", "--open")
        )
    if style == "html":
        from symgrad.render.html.pieces import need_packages

        need_packages()
    output.check(path)
    return style, None if path is None else path.absolute()  # the script may go to another folder


def whole(session: Session, style: str) -> str:
    """A run as Markdown, LaTeX, JSON, a page, or the picture of its first call that has one."""
    from symgrad.render import PAGE_WRITERS
    from symgrad.tracing.story.session_pages import session_html, session_json, session_page

    if style == "svg":
        found = next((call.picture for call in session.calls if call.picture), None)
        if found is None:
            raise InputError("there was no call of backward or grad to draw", hints=("--call N",))
        return found
    if style in PAGE_WRITERS and style != "html":  # a page in HTML has the source beside it
        return PAGE_WRITERS[style](session_page(session))
    return session_json(session) if style == "json" else session_html(session)


def code_of(session: Session, number: int) -> str:
    """One call's lines as a function; raises `InputError` where there is no such call or no line."""
    found = next((call for call in session.calls if call.number == number), None)
    if found is None:
        raise InputError(f"the script has no call {number} of backward or grad that could be explained")
    if found.told.source is None:
        raise InputError(f"call {number} has no lines", found=found.notes[:1])
    return found.told.source.code() + "\n"


def say(text: str, stream: Any) -> None:
    """Print between the script's own lines; a script that closed stdout is not disturbed."""
    if not text:
        return
    try:
        pass_on(output.encodable(text, stream) + "\n", stream)
    except (OSError, ValueError, AttributeError):
        return


def pass_on(text: str, stream: Any) -> None:
    """Past the buffer of standard output, where it has one: what does not arrive is not tried again for the script."""
    stream.flush()
    try:
        place = stream.fileno()
    except (OSError, ValueError):
        stream.write(text)
        stream.flush()
        return
    data = text.encode(stream.encoding, "replace")
    while data:
        data = data[os.write(place, data) :]
