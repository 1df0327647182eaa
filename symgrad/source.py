"""Source text, and the excerpt with the caret that errors point with.

Comes in: what the user typed. Goes out: the line a span lies on, underlined.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from symgrad.errors import Span, SymgradError

WIDTH = 100
"""Excerpts of longer lines are cut to this many characters around the span."""

AnyError = TypeVar("AnyError", bound=SymgradError)


@dataclass(frozen=True)
class Source:
    """A piece of text that the user wrote.

    >>> print(Source("softmaks(x)").excerpt((0, 8)))
    softmaks(x)
    ^^^^^^^^
    """

    text: str

    def excerpt(self, span: Span) -> str:
        """The line that ``span`` begins on, and carets under the span."""
        start, stop = span
        line_start = self.text.rfind("\n", 0, start) + 1
        line_end = self.text.find("\n", start)
        line_end = len(self.text) if line_end < 0 else line_end
        stop = max(min(stop, line_end), start + 1)
        cut = max(line_start, start - WIDTH // 2) if line_end - line_start > WIDTH else line_start
        shown = self.text[cut : min(line_end, cut + WIDTH)]
        shown = "".join(c if c.isprintable() else " " for c in shown)
        before, after = ("…" if cut > line_start else ""), ("…" if cut + WIDTH < line_end else "")
        carets = "^" * min(stop - start, WIDTH - (start - cut))
        return f"{before}{shown}{after}\n{' ' * (len(before) + start - cut)}{carets}"

    def locate(self, error: AnyError) -> AnyError:
        """``error`` with the excerpt of its span filled in, if it has a span and no excerpt yet."""
        if error.span is not None and error.excerpt is None:
            error.excerpt = self.excerpt(error.span)
        return error


def place_of(path: str) -> str:
    """A file by its name; a cell of a notebook, whose file is a number that nobody gave, as ``In[3]``."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    cell = shell.compile.format_code_name(path) if shell is not None else None
    return cell[1] if cell else Path(path).name
