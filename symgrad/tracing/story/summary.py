"""Many leaves in a few lines: how many agree with torch, the longest, the shortest, the zeros and why.

Comes in: one call. Goes out: lines. What torch computed itself (behind a black box) is counted apart, since
comparing torch with torch checks nothing; what disagrees is never summed up.
"""

from __future__ import annotations

from collections.abc import Sequence

from symgrad.tracing.captured.words import NOT_CHECKED
from symgrad.tracing.record.numbers import digits
from symgrad.tracing.story.events import Backward, Leaf

MANY = 12
"""More leaves than this are summed up."""
NAMED = 6
"""Names that are listed before the rest is counted."""


def summary(event: Backward) -> str:
    """``4 leaves = torch`` on one line, what disagrees first."""
    wrong, own, equal, open_here, other = classes(event.leaves)
    parts = [f"{listed(wrong)} ≠ torch"] if wrong else []
    parts += [f"{leaves(len(equal))} = torch"] if equal else []
    parts += [f"{leaves(len(own))} {NOT_CHECKED}"] if own else []
    parts += [f"{leaves(len(open_here))} undefined here, in part or whole"] if open_here else []
    parts += [f"{leaves(len(other))} not compared"] if other else []
    said = ", ".join(parts) or ("no leaf of that name is reached" if event.left_out else "no leaf is reached")
    return said + (f", {event.letter} = {event.seed}" if "given" in event.seed and not wrong else "")


def summed_up(event: Backward) -> list[str]:
    """The leaves in the order in which the forward pass reads them, without those that disagree."""
    _, own, equal, open_here, other = classes(event.leaves)
    lines = [f"{leaves(len(equal))} = torch{extremes(equal, event.letter)}"] if equal else []
    lines += [f"undefined here, in part or whole, by {listed(open_here)}"] if open_here else []
    lines += [f"0 by {listed(some)}{f': {why}' if why else ''}" for why, some in zeros(event.leaves)]
    if own:
        lines.append(f"{leaves(len(own))} {NOT_CHECKED}: {listed(own)}")
    if other:
        lines.append(f"{leaves(len(other))} not compared: {listed(other)}")
    return lines


def classes(rows: Sequence[Leaf]) -> tuple[list[Leaf], ...]:
    """What disagrees, is torch's own, was derived and agrees, has entries without a number, and was not compared."""
    found: tuple[list[Leaf], ...] = ([], [], [], [], [])
    for row in rows:
        place = 0 if row.agrees is False else 2 + (row.undefined > 0) if row.agrees else 1 if row.boxed else 4
        found[place].append(row)
    return found


def extremes(rows: Sequence[Leaf], letter: str) -> str:
    """The longest and the shortest gradient, zeros and rounding left out."""
    moving = [row for row in rows if row.length > 0 and not row.rounding]
    if len(moving) < 2:
        return ""
    most, least = max(moving, key=lambda row: row.length), min(moving, key=lambda row: row.length)
    far = f"{letter}ᵀJ is longest by {most.name} ({digits(most.length)})"
    return f"; {far}, shortest by {least.name} ({digits(least.length)})"


def zeros(rows: Sequence[Leaf]) -> list[tuple[str, list[Leaf]]]:
    """The leaves whose vᵀJ is 0, by reason."""
    found: dict[str, list[Leaf]] = {}
    for row in rows:
        if row.added is not None and row.added.size and not row.added.any():
            found.setdefault(row.why, []).append(row)
    return list(found.items())


def listed(rows: Sequence[Leaf]) -> str:
    """The names of leaves."""
    return some([row.name for row in rows])


def some(names: Sequence[str]) -> str:
    """A few names, and how many more."""
    if len(names) <= NAMED + 1:
        return ", ".join(names)
    return f"{', '.join(names[:NAMED])} and {len(names) - NAMED} more"


def leaves(count: int) -> str:
    """``1 leaf``, ``2 leaves``."""
    return f"{count} {'leaf' if count == 1 else 'leaves'}"
