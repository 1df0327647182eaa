"""The source that a page of a run shows: the script, and other files of the user's in which something happened.

Comes in: a session and where its events were. Goes out: lines with their numbers; of a long file those around events.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from symgrad.tracing.record.trace import Where
from symgrad.tracing.story.events import Session

MOST_FILES, MOST_LINES = 6, 1_200
"""Files that are shown; lines of one that is shown whole."""
AROUND, LONGEST = 12, 200
"""Lines on either side of an event in a longer file; characters of a line."""


@dataclass(frozen=True)
class Row:
    """A line of source; before it ``skipped`` lines are left out; ``marked`` says that something happened here."""

    number: int
    text: str
    skipped: int
    marked: bool


@dataclass(frozen=True)
class Listing:
    """One file."""

    key: str
    name: str
    file: str
    rows: tuple[Row, ...]
    left: int

    def has(self, where: Where) -> bool:
        """Whether a line is shown here."""
        return where.file == self.file and any(row.number == where.line for row in self.rows)


def listings(session: Session, events: Sequence[Where]) -> tuple[Listing, ...]:
    """The script first, then the other files in the order of their events."""
    files = list(dict.fromkeys([session.file, *(where.file for where in events)]))[:MOST_FILES]
    found = []
    for number, file in enumerate(files):
        lines = session.source.splitlines() if file == session.file else linecache.getlines(file)
        marks = {where.line for where in events if where.file == file}
        if lines:
            rows = tuple(rows_of([line.rstrip("\n") for line in lines], marks))
            name = session.script if file == session.file else file.rpartition("/")[2]
            found.append(Listing(f"file-{number}", name, file, rows, len(lines) - rows[-1].number if rows else 0))
    return tuple(found)


def rows_of(lines: Sequence[str], marks: set[int]) -> Iterator[Row]:
    """The lines that are shown, numbered from 1."""
    whole, before, count = len(lines) <= MOST_LINES, 0, 0
    near = {n for mark in marks for n in range(mark - AROUND, mark + AROUND + 1)} if marks else set(range(2 * AROUND))
    for number, line in enumerate(lines, 1):
        if (whole or number in near) and count < MOST_LINES:
            text = line if len(line) <= LONGEST else line[: LONGEST - 1] + "…"
            yield Row(number, text, number - before - 1, number in marks)
            before, count = number, count + 1
