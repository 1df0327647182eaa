"""The destination of results: the terminal, or a file that is written whole or not at all.

Whatever standard output is (closed, full, a pipe that ends early, an alphabet without Greek), nothing ends in a
traceback: what cannot be written is said, what the alphabet lacks is spelled out.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import click

from symgrad.errors import InputError
from symgrad.files import check_place, write_whole

NARROWEST, WIDEST = 40, 120
COPIED = re.compile(r" *(\$|try:) ")
"""Lines that somebody copies: they go on beyond the end of a terminal."""
SPELLED = str.maketrans({
    "Σ": "sum", "Π": "prod", "∂": "d", "δ": "delta", "·": "*", "×": "x", "−": "-", "∘": "o", "⊗": "(x)", "√": "sqrt",
    "⟨": "<", "⟩": ">", "≤": "<=", "≥": ">=", "≠": "!=", "…": "...", "→": "->", "⌊": "[", "⌋": "]", "∞": "inf",
    "─": "-", "│": "|", "┼": "+", "ᵀ": "^T", "⁻": "^-", "¹": "1", "²": "^2", "³": "^3", "Δ": "D",
    **{digit: f"_{n}" for n, digit in enumerate("₀₁₂₃₄₅₆₇₈₉")},
})  # fmt: skip
"""How signs are written in an alphabet that lacks them."""


def wants_color(color: bool | None) -> bool:
    """As ``--color/--no-color`` says; without it, whether stdout is a terminal that shows colours."""
    if color is not None:
        return color
    return sys.stdout is not None and sys.stdout.isatty() and "NO_COLOR" not in os.environ


def width() -> int:
    """The width of the terminal, within reason."""
    return min(WIDEST, max(NARROWEST, shutil.get_terminal_size((100, 24)).columns))


def fitting(line: str) -> str:
    """``line`` cut where the terminal ends; whole where it goes to a pipe or a file."""
    if sys.stdout is None or not sys.stdout.isatty():
        return line
    return line if len(line) <= width() else f"{line[: width() - 1]}…"


def broken(text: str) -> str:
    """``text`` in lines of the terminal, but for what is copied; whole where it goes to a pipe or a file."""
    if sys.stdout is None or not sys.stdout.isatty():
        return text
    return "\n".join(line if COPIED.match(line) else carried_over(line, width()) for line in text.split("\n"))


def carried_over(line: str, columns: int) -> str:
    """One line as several, set in below the first.

    >>> print(carried_over("  a line that is long", 12))
      a line
          that
          is
          long
    """
    under = " " * (len(line) - len(line.lstrip()) + 4)
    return "\n".join(
        textwrap.wrap(line, columns, subsequent_indent=under, break_long_words=False, break_on_hyphens=False)
    )


def check(output: Path | None) -> None:
    """Raise `InputError` before any work where it is plain that the result cannot be written."""
    if output is not None:
        check_place(output)


def page_place(style: str, output: Path | None, opened: bool) -> tuple[str, Path | None]:
    """The format and the file of what ``--open`` is to show: a page, in a file of its own where none is named."""
    if not opened:
        return style, output
    if style not in ("text", "html"):
        raise InputError("--open shows a page", found=(f"--format {style}",), hints=("--format html",))
    return "html", output or Path(tempfile.mkdtemp(prefix="symgrad-")) / "page.html"


def show(path: Path) -> None:
    """Open a file in the browser, and say where it is."""
    import webbrowser  # it loads what starts processes

    found = webbrowser.open(path.resolve().as_uri())
    click.echo(f"{path}" if found else f"{path} (no browser was found to open it)", err=True)


def deliver(text: str, output: Path | None, style: str = "text", opened: bool = False) -> None:
    """Print ``text``, or put it into ``output``, which is ``opened`` then; raises `InputError` when it cannot be."""
    if output is None:
        emit(text.rstrip("\n"), style)
        return
    write_whole(output, text)
    if opened:
        show(output)


def emit(text: str, style: str = "text") -> None:
    """Print ``text``; raises `InputError` when standard output does not take it.

    Where a pipe ends early whoever read it has read enough: the rest goes nowhere, and the exit status stays the
    verdict's own (click's would be 1, which says here that an oracle disagreed).
    """
    if sys.stdout is None:
        raise InputError("there is no standard output to write to", hints=("-o FILE",))
    try:
        click.echo(encodable(text, sys.stdout, style), color=True)
    except OSError as error:
        let_go(sys.stdout)
        if error.errno == errno.EPIPE:
            return
        raise InputError("standard output cannot be written", found=(error.strerror or str(error),)) from None


def encodable(text: str, stream: IO[Any], style: str = "text") -> str:
    """``text`` in the alphabet of ``stream``: signs that it lacks are spelled out, in JSON by their number.

    >>> import io
    >>> encodable("Σ_k x²", io.TextIOWrapper(io.BytesIO(), "latin-1")), encodable("Σ", io.StringIO())
    ('sum_k x²', 'Σ')
    """
    alphabet = getattr(stream, "encoding", None) or "utf-8"

    def written(sign: str) -> str:
        if style == "json" and ord(sign) < 0x10000:
            return f"\\u{ord(sign):04x}"
        return sign.translate(SPELLED).encode(alphabet, "replace").decode(alphabet)

    try:
        text.encode(alphabet)
    except UnicodeEncodeError:
        lacking = {sign for sign in set(text) if sign.encode(alphabet, "ignore") == b""}
        return "".join(written(sign) if sign in lacking else sign for sign in text)
    return text


def let_go(stream: IO[Any]) -> None:
    """Send what ``stream`` still holds nowhere: Python would try it once more on leaving, and complain."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


@contextmanager
def patience(what: str) -> Iterator[None]:
    """Say on standard error what is going on, where it takes longer than a second and somebody sits before it."""
    stream = sys.__stderr__
    if stream is None or stream.closed or not stream.isatty():
        yield
        return
    begun = time.monotonic()
    again = threading.Event()

    def tell() -> None:
        while not again.wait(1.0):
            with suppress(OSError, ValueError):
                line = f"symgrad: {what} … {time.monotonic() - begun:.0f} s"
                stream.write(f"\r{line[: shutil.get_terminal_size((80, 24)).columns - 1]}")
                stream.flush()

    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        again.set()
        thread.join()
        if time.monotonic() - begun > 1:
            with suppress(OSError, ValueError):
                stream.write("\r\x1b[K")
                stream.flush()
