"""Running what a stranger wrote: whatever it raises, prints or warns of is kept and reported.

Comes in: a block. Goes out: a `Heard`.
"""

from __future__ import annotations

import io
import sys
import traceback
import warnings
from dataclasses import dataclass
from pathlib import Path

from symgrad.source import place_of

OURS = str(Path(__file__).resolve().parent.parent)
LONGEST = 200


@dataclass
class Heard:
    """What a block raised (in words, with the line of the candidate) and printed."""

    failure: str = ""
    printed: str = ""


class listening:  # noqa: N801  # read as a verb: with listening() as heard
    """Keep what the block raises and prints; warnings are nobody's business here."""

    def __enter__(self) -> Heard:
        self.heard, self.before = Heard(), (sys.stdout, sys.stderr)
        self.out = sys.stdout = sys.stderr = io.StringIO()
        self.warnings = warnings.catch_warnings()
        self.warnings.__enter__()
        warnings.simplefilter("ignore")
        return self.heard

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        self.warnings.__exit__(None, None, None)
        sys.stdout, sys.stderr = self.before
        self.heard.printed = self.out.getvalue()
        if not isinstance(error, (Exception, SystemExit)):
            return False
        self.heard.failure = told(error)  # whatever a candidate does
        return True


def told(error: BaseException) -> str:
    """``raises KeyError: 'weight' (kernel.py:12)``."""
    first = (str(error).strip().splitlines() or [""])[0][:LONGEST]
    place = located(error)
    return f"raises {type(error).__name__}: {first}".rstrip(": ") + (f" ({place})" if place else "")


def located(error: BaseException) -> str:
    """The innermost line that is neither ours nor a library's."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if not f.filename.startswith((OURS, "<")) and "site-packages" not in f.filename]
    return f"{place_of(own[-1].filename)}:{own[-1].lineno}" if own else ""
