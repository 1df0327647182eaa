"""Running what a stranger wrote: whatever it raises, prints or warns of is kept and reported.

Comes in: a block. Goes out: a `Heard`.
"""

from __future__ import annotations

import contextlib
import io
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

OURS = str(Path(__file__).resolve().parent.parent)
LONGEST = 200


@dataclass
class Heard:
    """What a block raised (in words, with the line of the candidate) and printed."""

    failure: str = ""
    printed: str = ""


@contextlib.contextmanager
def listening() -> Iterator[Heard]:
    """Keep what the block raises and prints; warnings are nobody's business here."""
    heard, out = Heard(), io.StringIO()
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            warnings.simplefilter("ignore")
            try:
                yield heard
            except (Exception, SystemExit) as error:  # whatever a candidate does
                heard.failure = told(error)
    finally:
        heard.printed = out.getvalue()


def told(error: BaseException) -> str:
    """``raises KeyError: 'weight' (kernel.py:12)``."""
    first = (str(error).strip().splitlines() or [""])[0][:LONGEST]
    place = located(error)
    return f"raises {type(error).__name__}: {first}".rstrip(": ") + (f" ({place})" if place else "")


def located(error: BaseException) -> str:
    """The innermost line that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((OURS, "<")) and "site-packages" not in f.filename]
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
