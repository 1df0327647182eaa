"""Lines that fit: wrapped where they are too long, cut in the middle where there are too many.

Comes in: lines of a story. Goes out: the same words on lines of at most ``width`` signs; of a long program its
beginning, its end, and between them what the script itself gives a name.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

NARROWEST = 20
BREAKS = re.compile(r"(?<=[,;)\]·+=])(?=\S)|(?<=\s)(?=\S)")
OWN_NUMBER = re.compile(r"\s*t\d+ = ")
"""A line whose left side has a number and no name."""


def wrapped(text: str, width: int) -> str:
    """Every line of ``text`` on lines of at most ``width`` signs; what is carried over is set in.

    >>> print(wrapped("  h = relu(first) + second", 20))
      h = relu(first) +
          second
    """
    return "\n".join("\n".join(folded(line, max(width, NARROWEST))) for line in text.split("\n"))


def folded(line: str, width: int) -> list[str]:
    """One line as several: at a space, else behind a comma or sign, else anywhere."""
    indent = len(line) - len(line.lstrip())
    inner = " " * min(indent + 4, width // 2)
    parts = []
    while len(line) > width:
        at = space(line, len(line) - len(line.lstrip()) + 1, width)
        if at < width // 2:
            places = [m.start() for m in BREAKS.finditer(line, 0, width) if m.start() > len(inner)]
            at = max([at, *places])
        if at <= len(line) - len(line.lstrip()):
            at = width
        parts.append(line[:at].rstrip())
        line = inner + line[at:].lstrip()
    return [*parts, line]


def space(line: str, least: int, width: int) -> int:
    """The last space before ``width`` that stands in no brackets of numbers; any space where there is none."""
    depth, outside = 0, -1
    for at, sign in enumerate(line[: width + 1]):
        depth += (sign == "[") - (sign == "]")
        if sign == " " and depth <= 0 and at >= least:
            outside = at
    return outside if outside >= width // 2 else line.rfind(" ", least, width + 1)


def shortened(text: str, width: int) -> str:
    """``text`` cut at ``width`` signs."""
    return text if len(text) <= width else text[: max(width - 1, 0)].rstrip() + "…"


def cut(lines: Sequence[str], most: int) -> list[str]:
    """At most about ``most`` of ``lines``: the ends, and between them those with names of the script's own.

    >>> cut(["t1 = x * 2", *[f"t{n} = t{n - 1} * 2" for n in range(2, 9)], "h = tanh(t8)", "t9 = h + 1"], 5)
    ['t1 = x * 2', 't2 = t1 * 2', '… 6 more …', 'h = tanh(t8)', 't9 = h + 1']
    """
    if len(lines) <= most + 2:
        return list(lines)
    ends = most // 3
    last = len(lines) - max(ends, most - 2 * (most // 3) - 1)
    middle = [n for n in range(ends + 1, last) if not OWN_NUMBER.match(lines[n])]
    room = most - ends - (len(lines) - last)
    chosen = middle if len(middle) <= room else [*middle[: room - room // 2], *middle[len(middle) - room // 2 :]]
    kept = sorted({*range(ends + 1), *chosen, *range(last, len(lines))})
    shown, before = [], -1
    for n in kept:
        gap = n - before - 1
        if gap == 1:
            shown.append(lines[before + 1])
        elif gap:
            pad = lines[n][: len(lines[n]) - len(lines[n].lstrip())]
            shown.append(f"{pad}… {gap} more …")
        shown.append(lines[n])
        before = n
    return shown


def table(rows: Sequence[Sequence[str]], width: int, first: int) -> list[str]:
    """Rows in columns; where one would not fit, the cells from ``first`` on stand on a line of their own."""
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
    if all(len(line) <= width for line in lines):
        return lines
    before = ["  ".join(c.ljust(w) for c, w in zip(row[:first], widths, strict=False)).rstrip() for row in rows]
    if max(map(len, before)) > width:
        before = ["  ".join(cell for cell in row[:first] if cell) for row in rows]
    after = ["  ".join(cell for cell in row[first:] if cell) for row in rows]
    pairs = [[line, "    " + rest] for line, rest in zip(before, after, strict=True)]
    if not rows[0][0] and len(whole := f"{before[0]}  {after[0]}") <= width:
        pairs[0] = [whole]  # a head has one line
    return [line for pair in pairs for line in pair]
