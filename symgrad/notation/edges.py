"""The refusal of an entry that lies outside its tensor, with what would do there."""

from __future__ import annotations

import re

from symgrad.errors import ShapeError, Span
from symgrad.notation.tree import Access, Flat
from symgrad.notation.write import written


def outside(entry: Access | Flat, index: str, beyond: str, span: Span) -> ShapeError:
    """``beyond`` says how far, and past which end; an ``index`` without letters stands still."""
    early = beyond.endswith("beginning")
    hints: tuple[str, ...] = (
        "a condition in front that keeps it inside: "
        + ("[j ≤ i]·x[i − j]" if early else "[i + 1 < size(x, 0)]·x[i + 1]"),
    )
    if not re.search(r"[^\W\d_]", index):
        hints = (f"counted from the end: {entry.name}[size({entry.name}, 0) − 1]",) if early else ()
    return ShapeError(f"{written(entry)} reads {beyond} of its axis", span=span, hints=hints)
